//! Limits that a store decides: asked in one batch, and never waited for longer than the deadline.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::limit::Consistency;
use tidegate_engine::NamespaceConfig;
use tidegate_server::ManualClock;
use tidegate_store::{Answer, Batch, DynStore, Note, NoteKind, Store, StoreError};
use tidegate_test_support::PATIENCE;
use tokio::sync::{Semaphore, mpsc};

use crate::world::{START, World, bucket, fixed, loopback, memory_store};

/// One limit decided here, one by the store.
fn namespace() -> NamespaceConfig {
    let exact = fixed("exact", 2, Duration::from_mins(1)).key(["user"]).consistency(Consistency::Exact);
    NamespaceConfig::new("api", [bucket("local", 1, 5).key(["user"]), exact])
}

/// A store that takes everything and says nothing.
pub(crate) struct Silent;

impl Store for Silent {
    async fn run(&self, _batch: &Batch) -> Result<Answer, StoreError> {
        std::future::pending().await
    }

    async fn notes(&self, _kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        Ok(Vec::new())
    }
}

/// A store in memory that says when it is asked, and answers when it is let.
pub(crate) struct Slow {
    store: Arc<dyn DynStore>,
    asked: mpsc::UnboundedSender<()>,
    lets: Arc<Semaphore>,
}

impl Slow {
    /// The store, what it says, and what lets it answer: one permit an answer.
    pub(crate) fn new(clock: &Arc<ManualClock>) -> (Arc<Self>, mpsc::UnboundedReceiver<()>, Arc<Semaphore>) {
        let (asked, was_asked) = mpsc::unbounded_channel();
        let lets = Arc::new(Semaphore::new(0));
        let store = Self { store: memory_store(clock), asked, lets: Arc::clone(&lets) };
        (Arc::new(store), was_asked, lets)
    }
}

impl Store for Slow {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let answer = self.store.run_boxed(batch).await;
        let _ = self.asked.send(());
        self.lets.acquire().await.unwrap().forget();
        answer
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        self.store.notes_boxed(kind).await
    }
}

/// Waits until the store is asked, and not for ever.
pub(crate) async fn next(asked: &mut mpsc::UnboundedReceiver<()>) {
    let asked = tokio::time::timeout(PATIENCE, asked.recv());
    asked.await.expect("the store is asked").unwrap();
}

#[tokio::test]
async fn what_the_store_refuses_is_refused_and_nothing_stays_charged() {
    let clock = Arc::new(ManualClock::new(START));
    let store = memory_store(&clock);
    let world = World::asking([namespace()], loopback(), clock, store).await;
    let user = r#"{"user":"ada"}"#;
    for left in [1, 0] {
        let answer = world.check(user).await;
        assert_eq!((answer.status, answer.json()["remaining"].as_u64()), (200, Some(left)), "{answer:?}");
    }
    for _ in 0..5 {
        let refused = world.check(user).await;
        let json = refused.json();
        assert_eq!((refused.status, json["limit"].as_str()), (429, Some("exact")), "{json}");
        assert_eq!(refused.header("retry-after"), Some("60"));
    }
    let peek =
        world.post("/v1/check", &format!(r#"{{"namespace":"api","attributes":{user},"peek":true}}"#)).await;
    assert_eq!((peek.status, peek.json()["limit"].as_str()), (429, Some("exact")), "{peek:?}");
    let reset = format!(r#"{{"namespace":"api","attributes":{user},"limit":"exact"}}"#);
    assert_eq!(world.post("/v1/reset", &reset).await.json()["counters"], 1);
    let after = world.check(user).await.json();
    let left = |name: &str| {
        let limits = after["limits"].as_array().unwrap();
        limits.iter().find(|limit| limit["name"] == name).unwrap()["remaining"].as_u64()
    };
    assert_eq!((left("local"), left("exact")), (Some(2), Some(1)), "three were admitted: {after}");
}

/// A wait that counted from the question would be longer than it is by the time the store took, and
/// a second of it would be told as two.
#[tokio::test]
async fn a_wait_counts_from_the_answer_however_long_the_store_took() {
    let clock = Arc::new(ManualClock::new(START));
    let (store, mut asked, lets) = Slow::new(&clock);
    let exact = fixed("exact", 1, Duration::from_mins(1)).key(["user"]).consistency(Consistency::Exact);
    let namespaces = [NamespaceConfig::new("api", [exact])];
    let mut config = loopback();
    config.bounds.store_timeout = Duration::from_mins(1);
    let world = World::asking(namespaces, config, clock, store).await;
    lets.add_permits(1);
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.status, 200);
    next(&mut asked).await;
    let body = |rest: &str| format!(r#"{{"namespace":"api","attributes":{{"user":"ada"}}{rest}}}"#);
    let asks = [
        ("/v1/check", body(""), "59000"),
        ("/v1/check", body(r#","peek":true"#), "58000"),
        ("/v1/explain", body(""), "57000"),
    ];
    for (path, body, wait) in asks {
        let answer = async {
            next(&mut asked).await;
            world.clock.advance(Duration::from_secs(1));
            lets.add_permits(1);
        };
        let (answer, ()) = tokio::join!(world.post(path, &body), answer);
        let json = answer.json();
        let told = json["retry_after_ms"].as_u64().or_else(|| json["limits"][0]["retry_after_ms"].as_u64());
        assert_eq!(told.map(|told| told.to_string()).as_deref(), Some(wait), "{path} {json}");
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_stalls_no_request() {
    let mut config = loopback();
    config.bounds.store_timeout = Duration::from_millis(5);
    let clock = Arc::new(ManualClock::new(START));
    let world = World::asking([namespace()], config, clock, Arc::new(Silent)).await;
    let refused = world.check(r#"{"user":"ada"}"#).await;
    let json = refused.json();
    assert_eq!((refused.status, json["reason"].as_str()), (503, Some("store_unavailable")), "{json}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(json["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    let page = world.client().await.get("/metrics").await.body;
    assert!(page.contains("tidegate_store_failures_total 1\n"), "{page}");
    assert!(page.contains(r#"reason="store_unavailable",protocol="http"} 1"#), "{page}");
}
