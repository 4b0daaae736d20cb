//! Undoing batches that were given up: requests that were refused because the store was late,
//! although it may have charged them.
//!
//! No caller waits for an undo. It has a longer deadline than a request and is sent again with
//! growing pauses, until the store has answered or has forgotten the batch. A charge that cannot be
//! undone stays until it drains: less is admitted than could be, never more.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use tidegate_store::{Batch, Kind};
use tokio::sync::Semaphore;

use crate::shared_store::SharedStore;

/// How many batches may wait to be undone. One more is not undone, and counted.
const UNDOS_MAX: usize = 4096;

/// The first pause after a failure, and the longest after doubling.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The batches that are being undone.
#[derive(Debug)]
pub(crate) struct Undos {
    room: Arc<Semaphore>,
}

impl Default for Undos {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(UNDOS_MAX)) }
    }
}

impl Undos {
    /// Whether a batch only undoes others.
    pub(crate) fn are_all_of(batch: &Batch) -> bool {
        let mut operations = batch.operations.iter();
        !batch.operations.is_empty()
            && batch.notes.is_empty()
            && operations.all(|operation| matches!(operation.kind, Kind::Undo { .. }))
    }

    /// Carries out the undos of `batch`, without waiting for them.
    pub(crate) fn start(&self, shared: &Arc<SharedStore>, batch: Batch) {
        let Ok(place) = Arc::clone(&self.room).try_acquire_owned() else {
            return shared.undo_failed();
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            undo(&shared, &batch).await;
            drop(place);
        });
    }
}

async fn undo(shared: &SharedStore, batch: &Batch) {
    let since = Instant::now();
    let mut pause = PAUSE_MIN;
    loop {
        let Err(error) = shared.undo(batch).await else { return };
        if !error.is_transient() || since.elapsed() + pause >= shared.undo_horizon() {
            shared.undo_failed();
            tracing::debug!(target: "tidegate::store", %error, "a batch was not undone; what it charged drains by itself");
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use tidegate::algorithm::{Fixed, WindowStart};
    use tidegate::{Algorithm, Cost};
    use tidegate_store::{Key, Note, NoteChange, NoteKind, Operation, RequestId, Store as _};

    use super::*;

    fn batch(kind: Kind) -> Batch {
        let quota = Fixed::new(10, Duration::from_hours(24), WindowStart::Epoch).unwrap();
        let key = Key::new("api", b"quota", b"ada").unwrap();
        Batch::each(RequestId(7), [Operation::new(key, Algorithm::Fixed(quota), kind)])
    }

    #[test]
    fn only_a_batch_of_nothing_but_undos_is_undone() {
        let undo = batch(Kind::Undo { batch: RequestId(1) });
        assert!(Undos::are_all_of(&undo));
        let mut mixed = undo.clone();
        mixed.operations.extend(batch(Kind::Check { cost: Cost::ONE }).operations);
        let note = Note {
            kind: NoteKind::Member,
            name: b"a".as_slice().into(),
            value: b"b".as_slice().into(),
            until: tidegate::Timestamp::MAX,
        };
        let noted = undo.clone().with_notes([NoteChange::Put(note)]);
        for other in [mixed, noted, Batch::each(RequestId(8), [])] {
            assert!(!Undos::are_all_of(&other), "{other:?}");
        }
    }

    #[tokio::test]
    async fn more_batches_than_may_wait_are_counted_and_not_undone() {
        // Nothing listens there, so that every undo waits for its next attempt.
        let shared = Arc::new(SharedStore::at("redis://127.0.0.1:9").unwrap());
        let undos = Undos { room: Arc::new(Semaphore::new(2)) };
        for _ in 0..5 {
            undos.start(&shared, batch(Kind::Undo { batch: RequestId(1) }));
        }
        assert_eq!((shared.stats().undo_failed, shared.stats().undone), (3, 0));
    }

    /// A Redis that is killed when dropped.
    struct Redis(std::process::Child);

    impl Drop for Redis {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn redis(port: u16) -> Option<Redis> {
        let mut command = std::process::Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        command.current_dir(std::env::temp_dir()).stdout(std::process::Stdio::null());
        command.spawn().ok().map(Redis)
    }

    /// Waits until `holds`, and not for ever.
    async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let since = Instant::now();
        while !holds().await {
            assert!(since.elapsed() < Duration::from_secs(20), "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    #[tokio::test]
    async fn an_undo_is_sent_again_until_the_store_answers_and_its_batch_then_charges_nothing() {
        let name = "an_undo_is_sent_again_until_the_store_answers_and_its_batch_then_charges_nothing";
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let shared = Arc::new(SharedStore::at(&format!("redis://127.0.0.1:{port}")).unwrap());
        let undos = Undos::default();
        // The store is away when the undo begins.
        undos.start(&shared, batch(Kind::Undo { batch: RequestId(1) }));
        tokio::time::sleep(PAUSE_MIN).await;
        assert_eq!((shared.stats().undone, shared.stats().undo_failed), (0, 0));
        let Some(_redis) = redis(port) else {
            return println!("skipped: {name}: redis-server is not installed");
        };
        until("it is undone", async || shared.stats().undone == 1).await;
        // The batch arrives only now.
        let store = crate::shared_store::SharedStoreHandle(shared);
        let late = Batch { id: RequestId(1), ..batch(Kind::Check { cost: Cost::ONE }) };
        until("the store refuses the batch", async || {
            matches!(store.run(&late).await, Err(tidegate_store::StoreError::IdReused { .. }))
        })
        .await;
        let other = Batch { id: RequestId(2), ..late };
        assert_eq!(store.run(&other).await.unwrap().outcomes[0].used, 1);
    }
}
