//! The behavior of exact limits while the store is away.

use core::time::Duration;

use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_core::{Cost, Limit, Reason, Retry};
use tidegate_engine::{Completion, Decision, Outcome, Request, RequestError, Step};
use tidegate_store::{Batch, Kind, Operation, StoreError};

use crate::world::{USER, World, bucket, lease_config, stored_by};

const HOUR: Duration = Duration::from_hours(1);

fn exact(name: &str, units: u64, on_store_failure: OnStoreFailure) -> Limit {
    let limit = Limit::new(name, bucket(units, HOUR)).key(["user"]).consistency(Consistency::Exact);
    limit.on_store_failure(on_store_failure)
}

fn away(limits: impl IntoIterator<Item = Limit>) -> World {
    World { store_is_down: true, ..World::with_limits(limits) }
}

fn request(units: u64) -> Request<'static> {
    Request::new("api", &USER).cost(Cost::new(units).unwrap())
}

fn refused(world: &World, units: u64) -> (String, Reason, Retry) {
    match world.decide(&request(units)) {
        Decision::Refuse(refusal) => (refusal.name().to_owned(), refusal.reason(), refusal.retry()),
        Decision::Admit(permit) => panic!("{permit:?}"),
    }
}

#[test]
fn a_limit_that_allows_admits_and_does_not_count() {
    let mut world = away([exact("a", 2, OnStoreFailure::Allow)]);
    let before = world.state();
    let permits: Vec<_> = (0..5).map(|_| world.admit(1).unwrap()).collect();
    assert!(world.engine.statuses(&permits[0]).is_empty(), "nothing is known of what is left");
    for permit in permits {
        assert!(world.engine.settle(permit, Outcome::Cancelled, world.now()).batches.is_empty());
    }
    assert_eq!(world.state(), before);
    world.store_is_down = false;
    assert_eq!(world.left(), [("a".to_owned(), 2)]);
}

#[test]
fn a_local_one_is_decided_by_its_own_numbers_here() {
    let mut world = away([exact("a", 3, OnStoreFailure::Local)]);
    let first = world.admit(2).unwrap();
    assert_eq!(world.engine.statuses(&first)[0].remaining, 1);
    assert_eq!(world.left(), [("a".to_owned(), 1)]);
    // 20 minutes a unit: one more is free when one has come back.
    let at = world.now().saturating_add(Duration::from_mins(20));
    assert_eq!(refused(&world, 2), ("a".to_owned(), Reason::QuotaExceeded, Retry::At(at)));
    assert!(world.engine.settle(first, Outcome::Cancelled, world.now()).batches.is_empty());
    assert_eq!(world.left(), [("a".to_owned(), 3)]);
    let reserved = world.admit(3).unwrap();
    assert!(world.engine.settle(reserved, Completion::from_cost(1), world.now()).batches.is_empty());
    assert_eq!(world.left(), [("a".to_owned(), 2)]);
    // The store counts on where it was when it answers again.
    world.store_is_down = false;
    assert_eq!(world.left(), [("a".to_owned(), 3)]);
}

#[test]
fn one_that_refuses_is_enough() {
    let world = away([
        Limit::new("rate", bucket(10, HOUR)).key(["user"]),
        exact("allow", 9, OnStoreFailure::Allow),
        exact("local", 9, OnStoreFailure::Local),
        exact("refuse", 9, OnStoreFailure::Refuse),
    ]);
    let before = world.state();
    let at = world.now().saturating_add(Duration::from_secs(1));
    assert_eq!(refused(&world, 1), ("refuse".to_owned(), Reason::StoreUnavailable, Retry::At(at)));
    assert_eq!(world.state(), before, "the local charges came back, and none was made instead");
    let shadow = away([exact("refuse", 9, OnStoreFailure::Refuse).shadow()]);
    assert!(shadow.admit(1).is_some(), "a shadow limit refuses nothing");
}

#[test]
fn a_refusal_here_gives_back_what_other_limits_took() {
    let world = away([
        Limit::new("rate", bucket(10, HOUR)).key(["user"]),
        exact("wide", 9, OnStoreFailure::Local),
        exact("narrow", 1, OnStoreFailure::Local),
    ]);
    drop(world.admit(1).unwrap());
    let before = world.state();
    assert_eq!(refused(&world, 1).0, "narrow");
    assert_eq!(world.state(), before);
}

#[test]
fn a_store_that_says_no_room_refuses_whatever_the_policy_says() {
    let world = World::with_limits([exact("a", 9, OnStoreFailure::Allow)]);
    let Step::Ask(pending) = world.engine.admit(&request(1), world.now()).unwrap() else {
        panic!("the store must be asked")
    };
    let until = world.now().saturating_add(HOUR);
    let step = world.engine.resume(pending, Err(StoreError::Full { until }), world.now());
    let Step::Decided(Decision::Refuse(refusal)) = step else { panic!("{step:?}") };
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::TableFull, Retry::At(until)));
}

/// Whether a request of 4 units is admitted whose batch fails with this error, the batch, and what
/// the store is then to undo.
fn failed(world: &World, error: StoreError) -> (bool, Batch, Vec<Batch>) {
    let Step::Ask(pending) = world.engine.admit(&request(4), world.now()).unwrap() else {
        panic!("the store must be asked")
    };
    let batch = pending.batch().unwrap().clone();
    let step = world.engine.resume(pending, Err(error), world.now());
    let Step::Decided(decision) = step else { panic!("{step:?}") };
    let undos = world.engine.take_lease_asks().iter().map(|asked| asked.batch().clone()).collect();
    (matches!(decision, Decision::Admit(_)), batch, undos)
}

#[test]
fn a_charge_that_the_store_may_have_made_for_a_refused_request_is_undone() {
    let world = |on_store_failure| {
        let config = lease_config();
        let engine = stored_by(config, [exact("a", 9, on_store_failure)]).build().unwrap();
        World { engine, ..World::with_limits([]) }
    };
    let late = || StoreError::Timeout { after: HOUR };
    let unavailable = |sent| StoreError::Unavailable { at: "the test".into(), sent, source: None };

    for error in [late(), unavailable(true)] {
        let refusing = world(OnStoreFailure::Refuse);
        let (is_admitted, charge, undos) = failed(&refusing, error);
        assert!(!is_admitted);
        let [undo] = undos.as_slice() else { panic!("{undos:?}") };
        assert_ne!(undo.id, charge.id);
        assert!(
            matches!(undo.operations[..], [Operation { kind: Kind::Undo { batch }, .. }] if batch == charge.id)
        );
        // The charge arrived, and its answer did not.
        refusing.ask(&charge).unwrap();
        assert_eq!(refusing.left(), [("a".to_owned(), 5)]);
        refusing.ask(undo).unwrap();
        assert_eq!(refusing.left(), [("a".to_owned(), 9)]);
    }
    let (is_admitted, _, undos) = failed(&world(OnStoreFailure::Refuse), unavailable(false));
    assert_eq!((is_admitted, undos), (false, vec![]), "it did not arrive");
    for on_store_failure in [OnStoreFailure::Allow, OnStoreFailure::Local] {
        let (is_admitted, _, undos) = failed(&world(on_store_failure), late());
        assert_eq!((is_admitted, undos), (true, vec![]), "{on_store_failure:?}: what was charged is right");
    }
}

#[test]
fn reports_and_looks_go_the_same_ways() {
    let world = away([exact("allow", 9, OnStoreFailure::Allow), exact("local", 9, OnStoreFailure::Local)]);
    let reports = world.carry(world.engine.report(&request(12), world.now())).unwrap();
    let reports: Vec<_> = reports.iter().map(|one| (one.name.as_str(), one.remaining)).collect();
    assert_eq!(reports, [("local", 0)]);
    let peek = world.carry(world.engine.peek(&request(1), world.now())).unwrap();
    assert_eq!(peek.refusal.unwrap().name(), "local");
    let world = away([exact("refuse", 9, OnStoreFailure::Refuse)]);
    let report = world.carry(world.engine.report(&request(1), world.now()));
    assert!(matches!(report, Err(RequestError::Store(_))));
    let peek = world.carry(world.engine.peek(&request(1), world.now())).unwrap();
    assert_eq!(peek.refusal.unwrap().reason(), Reason::StoreUnavailable);
    let refund = world.carry(world.engine.refund(&request(1), "k", world.now()));
    let error = refund.unwrap_err().to_string();
    assert!(error.starts_with("the store did not answer"), "{error}");
}
