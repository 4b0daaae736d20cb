//! Several descriptors under quotas that a store keeps: how often it is asked, and what it is left
//! with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_core::algorithm::Concurrency;
use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_core::{Algorithm, Limit};
use tidegate_engine::NamespaceConfig;
use tidegate_server::ManualClock;
use tidegate_store::{Answer, Batch, DynStore, Note, NoteKind, Store, StoreError};
use tidegate_test_support::eventually;
use tidegate_wire::envoy::{RateLimitDescriptor, RateLimitUnit};

use super::{Envoy, app, config, descriptor, header, lefts, under, user};
use crate::world::{START, World, bucket, fixed, memory_store};

/// A store in memory that counts how often it is asked, and may be away or stall.
struct Counting {
    store: Arc<dyn DynStore>,
    asked: AtomicUsize,
    is_away: AtomicBool,
    /// The call that gets no answer, counted from 1; with 0 every call gets one.
    stalls_at: AtomicUsize,
}

impl Store for Counting {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let nth = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if nth == self.stalls_at.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.is_away.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable { at: "the test".to_owned(), sent: false, source: None });
        }
        self.store.run_boxed(batch).await
    }

    async fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
        self.store.notes_boxed(kind).await
    }
}

struct Counted {
    world: World,
    store: Arc<Counting>,
    envoy: Envoy,
}

impl Counted {
    async fn of(limits: Vec<Limit>) -> Self {
        let clock = Arc::new(ManualClock::new(START));
        let store = Arc::new(Counting {
            store: memory_store(&clock),
            asked: AtomicUsize::new(0),
            is_away: AtomicBool::new(false),
            stalls_at: AtomicUsize::new(0),
        });
        let namespace = NamespaceConfig::new("api", limits);
        let kept = Arc::clone(&store) as Arc<dyn DynStore>;
        let mut config = config();
        // A store that stalls is waited for until its caller hangs up.
        config.bounds.store_timeout = Duration::from_mins(1);
        let world = World::asking([namespace], config, clock, kept).await;
        let envoy = Envoy::of(&world).await;
        store.asked.store(0, Ordering::Relaxed);
        Self { world, store, envoy }
    }

    /// The units left of each descriptor and whether it is over its limit, and how often the store
    /// was asked.
    async fn ask(&mut self, descriptors: &[RateLimitDescriptor]) -> (Vec<(bool, u32)>, usize) {
        self.store.asked.store(0, Ordering::Relaxed);
        let left = self.envoy.left(descriptors).await;
        (left, self.store.asked.load(Ordering::Relaxed))
    }

    fn is_away(&self, is_away: bool) {
        self.store.is_away.store(is_away, Ordering::Relaxed);
    }
}

fn quota(key: &str, limit: u64) -> Limit {
    fixed(key, limit, Duration::from_hours(1)).key([key]).consistency(Consistency::Exact)
}

/// A look: nothing is charged, whatever the answer.
fn look(one: &RateLimitDescriptor) -> RateLimitDescriptor {
    super::weighing(0, one.clone())
}

#[tokio::test]
async fn the_store_is_asked_once_however_many_descriptors_there_are() {
    let mut world = Counted::of(vec![quota("user", 300), bucket("local", 1000, 1000).key(["user"])]).await;
    let mut charged = 0;
    for (count, times) in [(1, 1), (2, 1), (10, 1), (64, 1), (65, 2), (128, 2)] {
        let (left, asked) = world.ask(&vec![user("ada"); count]).await;
        let expected: Vec<_> = (1..=count).map(|nth| (false, 300 - charged - nth as u32)).collect();
        assert_eq!((left, asked), (expected, times), "{count} descriptors");
        charged += count as u32;
    }
}

#[tokio::test]
async fn a_refusal_is_one_question_and_one_look_and_leaves_no_charge() {
    let mut world =
        Counted::of(vec![quota("user", 2), quota("app", 9), bucket("local", 9, 9).key(["app"])]).await;
    assert_eq!(world.ask(&[user("ada"), user("ada")]).await.1, 1);
    let before = world.world.engine.fingerprint();
    let asked = [app("x"), user("ada"), app("y"), user("bob"), app("x"), user("ada")];
    for _ in 0..3 {
        let (left, times) = world.ask(&asked).await;
        let expected = [(false, 9), (true, 0), (false, 9), (false, 2), (false, 9), (true, 0)];
        assert_eq!((left.as_slice(), times), (&expected[..], 2));
    }
    assert_eq!(world.world.engine.fingerprint(), before);
    let page = world.world.client().await.get("/metrics").await.body;
    assert!(
        page.contains(r#"limit="user",decision="refuse",reason="quota_exceeded",protocol="rls"} 6"#),
        "each that was refused: {page}"
    );
    assert_eq!(world.ask(&[look(&app("x")), look(&user("bob"))]).await.0, [(false, 9), (false, 2)]);
}

#[tokio::test]
async fn a_refusal_in_a_second_batch_takes_the_first_back() {
    let mut world = Counted::of(vec![quota("user", 100), quota("app", 2)]).await;
    let asked: Vec<_> = (0..64).map(|_| user("ada")).chain([app("x"), app("x"), app("x")]).collect();
    let (left, times) = world.ask(&asked).await;
    assert_eq!((left[0], left[63], left[64], left[66]), ((false, 100), (false, 100), (false, 2), (true, 2)));
    assert_eq!(times, 2 + 1 + 2, "two questions, one undo, and two looks at 66");
    let looks = [look(&user("ada")), look(&app("x"))];
    assert_eq!(world.ask(&looks).await.0, [(false, 100), (false, 2)]);
}

#[tokio::test]
async fn a_refusal_by_a_local_limit_asks_the_store_for_a_look_only() {
    let mut world = Counted::of(vec![quota("user", 5), bucket("local", 1, 1).key(["app"])]).await;
    let (left, times) = world.ask(&[user("ada"), app("x"), app("x"), user("ada")]).await;
    assert_eq!((left.as_slice(), times), (&[(false, 5), (false, 1), (true, 0), (false, 5)][..], 1));
    assert_eq!(world.ask(&[app("x"), user("ada")]).await, (vec![(false, 0), (false, 4)], 1));
}

#[tokio::test]
async fn places_are_taken_and_given_back_together() {
    let parallel = Algorithm::Concurrency(Concurrency::new(3, Duration::from_hours(1)).unwrap());
    let parallel = Limit::new("parallel", parallel).key(["tenant"]).consistency(Consistency::Exact);
    let mut world = Counted::of(vec![parallel]).await;
    let acme = || descriptor(&[("tenant", "acme")]);
    for _ in 0..5 {
        let (left, times) = world.ask(&[acme(), acme(), acme()]).await;
        assert_eq!((left, times), (vec![(false, 2), (false, 1), (false, 0)], 2), "taken, and given back");
    }
    let (left, times) = world.ask(&vec![acme(); 4]).await;
    assert_eq!((left[2], left[3], times), ((false, 3), (true, 3), 2));
    assert_eq!(world.ask(&[look(&acme())]).await.0, [(false, 3)]);
}

#[tokio::test]
async fn a_limit_of_the_request_that_refuses_takes_back_what_the_policy_charged_in_one_go() {
    let mut world = Counted::of(vec![quota("user", 9)]).await;
    let own = |limit| under(limit, RateLimitUnit::Day, descriptor(&[("path", "/a")]));
    let asked = |limit| [user("ada"), user("ada"), user("bob"), own(limit)];
    assert_eq!(world.ask(&asked(1)).await.0, [(false, 8), (false, 7), (false, 8), (false, 0)]);
    let (left, times) = world.ask(&asked(1)).await;
    assert_eq!(left, [(false, 7), (false, 7), (false, 8), (true, 0)]);
    assert_eq!(times, 4, "the policy, the limit of the request, one undo, one look");
    assert_eq!(world.ask(&[look(&user("ada")), look(&user("bob"))]).await.0, [(false, 7), (false, 8)]);
}

#[tokio::test]
async fn a_caller_that_hangs_up_before_its_own_limit_has_answered_is_not_charged_by_the_policy() {
    let mut world = Counted::of(vec![quota("user", 9)]).await;
    world.store.stalls_at.store(2, Ordering::Relaxed);
    let store = Arc::clone(&world.store);
    let calls = || store.asked.load(Ordering::Relaxed);
    let asked = [user("ada"), under(5, RateLimitUnit::Day, descriptor(&[("path", "/a")]))];
    tokio::select! {
        left = world.envoy.left(&asked) => panic!("answered although the store stalls: {left:?}"),
        () = eventually("the store is asked twice", async || calls() >= 2) => {}
    }
    eventually("the store is asked to undo", async || calls() >= 3).await;
    assert_eq!(calls(), 3, "the undo is the third call");
    assert_eq!(world.ask(&[look(&user("ada"))]).await.0, [(false, 9)]);
}

#[tokio::test]
async fn without_the_store_each_limit_does_as_it_is_told() {
    let then = |limit: Limit, then| limit.on_store_failure(then);
    let mut world = Counted::of(vec![
        then(quota("user", 9), OnStoreFailure::Refuse),
        then(quota("app", 9), OnStoreFailure::Allow),
        then(quota("tenant", 2), OnStoreFailure::Local),
    ])
    .await;
    let tenant = || descriptor(&[("tenant", "acme")]);
    world.is_away(true);
    let before = world.world.engine.fingerprint();
    world.store.asked.store(0, Ordering::Relaxed);
    let answer = world.envoy.ask(&[user("ada"), tenant(), user("bob")]).await;
    assert_eq!(lefts(&answer), [(true, 0), (false, 2), (true, 0)]);
    assert_eq!(header(&answer, "x-tidegate-reason"), Some("store_unavailable"));
    assert_eq!(world.store.asked.load(Ordering::Relaxed), 2, "one question, and one look at the tenant");
    assert_eq!(world.world.engine.fingerprint(), before);
    // If all are refused, none remains to look at.
    assert_eq!(world.ask(&[user("ada"), user("bob")]).await, (vec![(true, 0); 2], 1));
    assert_eq!(world.ask(&[tenant(), app("x"), tenant()]).await.0, [(false, 1), (false, 0), (false, 0)]);
    assert_eq!(world.ask(&[app("x"), tenant()]).await.0, [(false, 0), (true, 0)]);
    world.is_away(false);
    assert_eq!(world.ask(&[user("ada"), tenant(), app("x")]).await.0, [(false, 8), (false, 1), (false, 8)]);
}

#[tokio::test]
async fn a_value_too_long_to_be_stored_refuses_those_beside_it_and_charges_none() {
    let mut world = Counted::of(vec![quota("user", 3)]).await;
    let long = "u".repeat(8 << 10);
    let (left, times) = world.ask(&[user("ada"), user(&long), user("bob")]).await;
    assert_eq!((left.as_slice(), times), (&[(false, 3), (true, 0), (false, 3)][..], 1), "one look");
    // Two of them: the first is the refusal, and the other is looked at by itself.
    let (left, _) = world.ask(&[user(&long), user("ada"), user(&long)]).await;
    assert_eq!(left, [(true, 0), (false, 3), (true, 0)]);
}
