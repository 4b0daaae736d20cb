use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use tidegate_core::algorithm::{Fixed, WindowStart};
use tidegate_core::{Algorithm, Cost, Timestamp};
use tidegate_engine::{EngineConfig, NamespaceConfig};
use tidegate_store::{Answer, DynStore, Key, Note, NoteChange, NoteKind, Operation, RequestId, Store};

use super::*;
use crate::store_call::StoreHooks;

fn batch(kind: Kind) -> Batch {
    batch_of("api", kind)
}

fn batch_of(namespace: &str, kind: Kind) -> Batch {
    let quota = Fixed::new(10, Duration::from_hours(24), WindowStart::Epoch).unwrap();
    let key = Key::new(namespace, b"quota", b"ada").unwrap();
    Batch::each(RequestId(7), [Operation::new(key, Algorithm::Fixed(quota), kind)])
}

fn undo_batch() -> Batch {
    batch(Kind::Undo { batch: RequestId(1) })
}

/// An engine with these namespaces.
fn engine(namespaces: &[&str]) -> Engine {
    let namespaces = namespaces.iter().map(|name| NamespaceConfig::new(*name, []));
    Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).namespaces(namespaces).build().unwrap()
}

/// A store that fails so many calls and then answers, and notes when it was called.
struct Flaky {
    failures: AtomicUsize,
    called_at: Mutex<Vec<Instant>>,
}

impl Store for Flaky {
    async fn run(&self, _batch: &Batch) -> Result<Answer, StoreError> {
        self.called_at.lock().unwrap().push(Instant::now());
        let left = self.failures.load(Ordering::Relaxed);
        if left == 0 {
            return Ok(Answer::new(tidegate_store::Outcomes::new(), false, Timestamp::MIN));
        }
        self.failures.store(left - 1, Ordering::Relaxed);
        Err(StoreError::Unavailable { at: "here".to_owned(), sent: true, source: None })
    }

    async fn notes(&self, _kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(Vec::new())
    }
}

#[derive(Default)]
struct CountFailures(AtomicUsize);

impl StoreHooks for CountFailures {
    fn undo_failed(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn flaky(failures: usize) -> (Arc<Flaky>, Arc<CountFailures>, StoreLink) {
    let store = Arc::new(Flaky { failures: AtomicUsize::new(failures), called_at: Mutex::default() });
    let hooks = Arc::<CountFailures>::default();
    let link = StoreLink {
        store: Some(Arc::clone(&store) as Arc<dyn DynStore>),
        timeout: Duration::from_millis(50),
        hooks: Arc::clone(&hooks) as Arc<dyn StoreHooks>,
    };
    (store, hooks, link)
}

#[test]
fn only_a_batch_of_nothing_but_undos_takes_the_path_of_undos() {
    let undo = undo_batch();
    assert!(has_only_undos(&undo));
    let mut mixed = undo.clone();
    mixed.operations.extend(batch(Kind::Check { cost: Cost::ONE }).operations);
    let note = Note {
        kind: NoteKind::Member,
        name: b"a".as_slice().into(),
        value: b"b".as_slice().into(),
        until: Timestamp::MAX,
    };
    let noted = undo.clone().with_notes([NoteChange::Put(note)]);
    for other in [mixed, noted, Batch::each(RequestId(8), [])] {
        assert!(!has_only_undos(&other), "{other:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_is_retried_with_growing_pauses_until_the_store_answers() {
    let (store, hooks, link) = flaky(7);
    undo(&link, &undo_batch()).await;
    let called_at = store.called_at.lock().unwrap();
    let pauses: Vec<u128> =
        called_at.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_millis()).collect();
    assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000]);
    assert_eq!(hooks.0.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn an_undo_ends_when_the_store_has_forgotten_the_batch_and_is_reported() {
    let (store, hooks, link) = flaky(usize::MAX);
    let since = Instant::now();
    undo(&link, &undo_batch()).await;
    assert!(since.elapsed() < link.hooks.undo_horizon());
    assert!(store.called_at.lock().unwrap().len() > 10);
    assert_eq!(hooks.0.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn more_batches_than_may_wait_are_reported_and_not_undone() {
    let (store, hooks, link) = flaky(usize::MAX);
    let undos = UndoQueue::new(2);
    for _ in 0..5 {
        undos.start(&link, &engine(&["api"]), undo_batch());
    }
    tokio::task::yield_now().await;
    assert_eq!((hooks.0.load(Ordering::Relaxed), store.called_at.lock().unwrap().len()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn issue_39_one_namespace_whose_undos_fail_leaves_the_others_their_share_of_the_queue() {
    let (store, hooks, link) = flaky(usize::MAX);
    let (undos, engine) = (UndoQueue::new(40), engine(&["greedy", "api"]));
    let undo = |namespace| {
        let batch = batch_of(namespace, Kind::Undo { batch: RequestId(1) });
        (0..100).for_each(|_| undos.start(&link, &engine, batch.clone()));
        hooks.0.swap(0, Ordering::Relaxed)
    };
    // Its own share of ten, and the pool of twenty.
    assert_eq!(undo("greedy"), 70);
    assert_eq!(undo("api"), 90);
    tokio::task::yield_now().await;
    assert_eq!(store.called_at.lock().unwrap().len(), 40);
    // Given up after the store has forgotten their batches, they leave their places.
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(link.hooks.undo_horizon()).await;
    hooks.0.store(0, Ordering::Relaxed);
    assert_eq!(undo("api"), 70);
}

#[test]
fn an_undo_outside_of_a_runtime_is_reported() {
    let (_store, hooks, link) = flaky(0);
    UndoQueue::new(2).start(&link, &engine(&["api"]), undo_batch());
    assert_eq!(hooks.0.load(Ordering::Relaxed), 1);
}
