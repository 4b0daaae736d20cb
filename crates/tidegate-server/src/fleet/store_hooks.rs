//! The daemon's part in the store calls of the driver: failures are counted, changes of shared
//! settings are announced, heartbeats travel with lease asks, and undos go past the circuit
//! breaker.

use core::time::Duration;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tidegate_driver::store_call::UNDO_HORIZON;
use tidegate_driver::{StoreHooks, Undoing};
use tidegate_engine::LeaseBatch;
use tidegate_store::{Answer, Batch, Outcome, StoreError};

use crate::context::DaemonContext;
use crate::fleet::shared_store::SharedStore;

/// The hooks of a daemon in its driver.
pub(crate) struct DaemonHooks {
    /// Weak, since the daemon has the driver.
    daemon: Weak<DaemonContext>,
    shared: Option<Arc<SharedStore>>,
}

impl DaemonHooks {
    pub(crate) fn new(daemon: Weak<DaemonContext>, shared: Option<Arc<SharedStore>>) -> Self {
        Self { daemon, shared }
    }
}

impl StoreHooks for DaemonHooks {
    fn replace(&self, batch: &Batch) -> Option<Batch> {
        self.daemon.upgrade()?.telling(batch)
    }

    fn call_ended(&self, answer: &Result<Answer, StoreError>) {
        let error = answer.as_ref().err();
        if let Some(shared) = &self.shared {
            shared.call_ended(error);
        }
        let Some(error) = error else { return };
        if let Some(daemon) = self.daemon.upgrade() {
            daemon.metrics.shared().store_failures.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(target: "tidegate::store", %error, "the store did not answer");
    }

    fn add_to_renewal(&self, asks: &mut LeaseBatch) -> bool {
        self.daemon.upgrade().is_some_and(|daemon| daemon.ride(asks))
    }

    fn renewal_answered(&self, outcomes: &[Outcome]) {
        let Some(daemon) = self.daemon.upgrade() else { return };
        if let Some(members) = &daemon.members {
            members.heard(outcomes, daemon.clock.now());
        }
    }

    fn undo<'a>(&'a self, batch: &'a Batch) -> Option<Undoing<'a>> {
        let shared = self.shared.as_ref()?;
        Some(shared.store.undo(batch))
    }

    fn undo_horizon(&self) -> Duration {
        self.shared.as_ref().map_or(UNDO_HORIZON, |shared| shared.store.undo_horizon())
    }

    fn undo_failed(&self) {
        if let Some(shared) = &self.shared {
            shared.store.undo_failed();
        }
        tracing::debug!(target: "tidegate::store", "a batch was not undone; its charge drains by itself");
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::algorithm::{Fixed, WindowStart};
    use tidegate_core::{Algorithm, Cost};
    use tidegate_driver::Driver;
    use tidegate_engine::{Engine, EngineConfig};
    use tidegate_store::{Key, Kind, Operation, RequestId};
    use tidegate_test_support::{RedisServer, eventually, free_port, skip};

    use super::*;

    fn batch(kind: Kind) -> Batch {
        let quota = Fixed::new(10, Duration::from_hours(24), WindowStart::Epoch).unwrap();
        let key = Key::new("api", b"quota", b"ada").unwrap();
        Batch::each(RequestId(7), [Operation::new(key, Algorithm::Fixed(quota), kind)])
    }

    fn shared(url: &str) -> Arc<SharedStore> {
        Arc::new(SharedStore::new(Arc::new(crate::fleet::redis_store::at(url))))
    }

    /// A driver whose undos go to this store, and nothing else.
    fn driver(shared: &Arc<SharedStore>) -> Driver {
        let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).build().unwrap();
        let hooks = DaemonHooks::new(Weak::new(), Some(Arc::clone(shared)));
        Driver::new(engine).hooks(Arc::new(hooks) as Arc<dyn StoreHooks>)
    }

    #[tokio::test]
    async fn more_batches_than_may_wait_are_counted_and_not_undone() {
        // Nothing listens there, so that every undo waits for its next attempt.
        let shared = shared("redis://127.0.0.1:9");
        let driver = driver(&shared).undos_max(2);
        for _ in 0..5 {
            driver.undo(batch(Kind::Undo { batch: RequestId(1) }));
        }
        assert_eq!((shared.store.stats().undo_failed, shared.store.stats().undone), (3, 0));
    }

    #[tokio::test]
    async fn an_undo_is_sent_again_until_the_store_answers_and_its_batch_then_charges_nothing() {
        let name = "an_undo_is_sent_again_until_the_store_answers_and_its_batch_then_charges_nothing";
        let port = free_port();
        let shared = shared(&format!("redis://127.0.0.1:{port}"));
        let driver = driver(&shared);
        // The store is away when the undo begins.
        driver.undo(batch(Kind::Undo { batch: RequestId(1) }));
        eventually("it was sent in vain and is sent again", async || shared.store.stats().calls >= 2).await;
        assert_eq!((shared.store.stats().undone, shared.store.stats().undo_failed), (0, 0));
        let Some(_redis) = RedisServer::start_on(port, &[]) else { return skip(name) };
        eventually("it is undone", async || shared.store.stats().undone == 1).await;
        // The batch arrives only now.
        let store = &shared.store;
        let late = Batch { id: RequestId(1), ..batch(Kind::Check { cost: Cost::ONE }) };
        eventually("the store refuses the batch", async || {
            matches!(store.run_boxed(&late).await, Err(tidegate_store::StoreError::IdReused { .. }))
        })
        .await;
        let other = Batch { id: RequestId(2), ..late };
        assert_eq!(store.run_boxed(&other).await.unwrap().outcomes[0].used, 1);
    }
}
