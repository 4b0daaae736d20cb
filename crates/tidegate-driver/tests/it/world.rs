//! An admission on a manual clock, with a store in memory that fails and stops as told.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::algorithm::{Bucket, Concurrency};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Limit, Rate, Timestamp};
use tidegate_driver::{Admission, Clock, Driver, ManualClock};
use tidegate_engine::{Engine, EngineConfig, LeaseConfig, NamespaceConfig, Request};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_store::{Answer, Batch, DynStore, MemoryConfig, MemoryStore, Note, NoteKind, Store, StoreError};
use tokio::sync::Semaphore;

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const SEED: [u64; 4] = [1, 2, 3, 4];
pub(crate) const MANY: usize = 1 << 20;

/// How the store treats the calls from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It answers.
    Good,
    /// It carries a batch out, and the answer is lost.
    LosesAnswers,
    /// It does not carry batches out.
    Refuses,
}

/// A store in memory. Each answer takes a permit of `answers`, after the batch has taken effect.
pub(crate) struct TestStore {
    pub(crate) memory: MemoryStore,
    pub(crate) answers: Semaphore,
    pub(crate) calls: AtomicUsize,
    pub(crate) health: Mutex<Health>,
}

impl Store for TestStore {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let away = |sent| StoreError::Unavailable { at: "the test".to_owned(), sent, source: None };
        let health = *self.health.lock().unwrap();
        if health == Health::Refuses {
            return Err(away(false));
        }
        let answer = self.memory.run_now(batch);
        self.answers.acquire().await.unwrap().forget();
        if health == Health::LosesAnswers { Err(away(true)) } else { answer }
    }

    fn notes(&self, kind: NoteKind) -> impl Future<Output = Result<Vec<Note>, StoreError>> + Send {
        self.memory.notes(kind)
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<TestStore>,
    pub(crate) driver: Driver,
    pub(crate) admission: Admission,
}

pub(crate) fn bucket(units: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, SECOND).unwrap(), units).unwrap())
}

pub(crate) fn parallel(limit: u64) -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(limit, Duration::from_mins(5)).unwrap())
}

pub(crate) fn namespace(limits: impl IntoIterator<Item = Limit>) -> NamespaceConfig {
    NamespaceConfig::new("default", limits)
}

impl World {
    /// An admission by these limits and three places in flight, whose store answers so many calls.
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>, answers: usize) -> Self {
        Self::with_in_flight(limits, answers, 3)
    }

    pub(crate) fn with_in_flight(
        limits: impl IntoIterator<Item = Limit>,
        answers: usize,
        in_flight_max: u64,
    ) -> Self {
        Self::with_config(limits, answers, in_flight_max, |config| {
            let leases = config.leases.insert(LeaseConfig::new(7));
            (leases.locks_max, leases.holders_max) = (1, 1024);
        })
    }

    /// The same as [`World::new`], with a store that lends no leases, such as one in files.
    pub(crate) fn without_leases(limits: impl IntoIterator<Item = Limit>, answers: usize) -> Self {
        Self::with_config(limits, answers, 3, |_| {})
    }

    fn with_config(
        limits: impl IntoIterator<Item = Limit>,
        answers: usize,
        in_flight_max: u64,
        change: impl FnOnce(&mut EngineConfig),
    ) -> Self {
        let clock = Arc::new(ManualClock::new(NOW));
        let store_clock = Arc::clone(&clock);
        let store = Arc::new(TestStore {
            memory: MemoryStore::new(MemoryConfig::new(SEED), move || store_clock.now()),
            answers: Semaphore::new(answers),
            calls: AtomicUsize::new(0),
            health: Mutex::new(Health::Good),
        });
        let mut config = EngineConfig::seeded(SEED);
        config.table.bytes = 1 << 20;
        config.asks_store = true;
        change(&mut config);
        let overload = Overload::new(ResourceConfig::new(in_flight_max), 5).unwrap();
        let engine = Engine::builder(config).namespace(namespace(limits)).overload(overload).build().unwrap();
        let driver = Driver::new(engine)
            .store(Arc::clone(&store) as Arc<dyn DynStore>)
            .clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { admission: Admission::from(driver.clone()), clock, store, driver }
    }

    pub(crate) fn set_health(&self, health: Health) {
        *self.store.health.lock().unwrap() = health;
    }

    /// Replaces the engine by one of the same limits, as a reload does.
    pub(crate) fn reload(&self, limits: impl IntoIterator<Item = Limit>) {
        let before = self.driver.handle().engine();
        let (engine, _) = before.reconfigured(vec![namespace(limits)]).unwrap();
        self.driver.handle().replace(engine);
    }

    /// The units that each limit has left, with the store looked at directly.
    pub(crate) fn left(&self) -> Vec<u64> {
        let engine = self.driver.handle().engine();
        let mut progress = engine.peek(&request(), self.clock.now()).unwrap();
        loop {
            match progress {
                tidegate_engine::Progress::Done(peek) => {
                    return peek.limits.iter().map(|one| one.remaining).collect();
                }
                tidegate_engine::Progress::Ask(asking) => {
                    let answer = self.store.memory.run_now(asking.batch());
                    progress = asking.resume(&engine, answer, self.clock.now()).unwrap();
                }
            }
        }
    }

    pub(crate) fn calls(&self) -> usize {
        self.store.calls.load(Ordering::Relaxed)
    }
}

/// A local rate of 5, an exact rate of 3, and an exact concurrency limit of 1.
pub(crate) fn mixed() -> [Limit; 3] {
    [
        Limit::new("local", bucket(5)).key(["user"]),
        Limit::new("exact", bucket(3)).key(["user"]).consistency(Consistency::Exact),
        Limit::new("jobs", parallel(1)).key(["user"]).consistency(Consistency::Exact),
    ]
}

pub(crate) fn leased(units: u64) -> [Limit; 1] {
    [Limit::new("leased", bucket(units)).key(["user"]).consistency(Consistency::Leased)]
}

pub(crate) fn request() -> Request<'static> {
    Request::new("default", &[("user", "ada")])
}

/// Polls once.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets every task run as far as it can.
pub(crate) async fn let_run() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}
