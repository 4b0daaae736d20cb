//! Requests that have waited and cannot be decided any more: the meter counts each of them once, in
//! the outcome that its answer names.

use core::time::Duration;

use tidegate_core::limit::Consistency;
use tidegate_core::{Cost, Limit, Reason, RequestOutcome};
use tidegate_engine::{
    Answered, Decision, Engine, MeterConfig, NamespaceConfig, Pending, Request, Step, Usage, Wants,
};
use tidegate_store::StoreError;

use crate::world::{NOW, USER, World, bucket, lease_config, store_config, stored_by};

const COSTS: [u64; 2] = [2, 3];

/// A limit that each request asks the store for.
fn exact() -> Limit {
    let quota = Limit::new("quota", bucket(40, Duration::from_hours(2))).key(["user"]);
    quota.consistency(Consistency::Exact)
}

/// A limit whose first request waits for a lease.
fn leased() -> Limit {
    let rate = Limit::new("rate", bucket(1000, Duration::from_secs(1))).key(["user"]);
    rate.consistency(Consistency::Leased)
}

/// An engine with two namespaces of this limit.
fn engine(limit: Limit) -> Engine {
    let config = if limit.consistency == Consistency::Leased { lease_config() } else { store_config() };
    let engine = stored_by(config, [limit.clone()]).namespace(NamespaceConfig::new("web", [limit]));
    engine.metering(MeterConfig::default(), NOW).build().unwrap()
}

/// The same with only one of them, after a reload.
fn without(engine: &Engine, namespace: &str, limit: Limit) -> Engine {
    let left = if namespace == "api" { "web" } else { "api" };
    engine.reconfigured(vec![NamespaceConfig::new(left, [limit])]).unwrap().0
}

/// Asks about a request of the tenant in each of these namespaces, as one batch; all of them wait.
fn waiting(engine: &Engine, namespaces: &[&'static str]) -> Pending {
    let requests: Vec<_> = namespaces
        .iter()
        .zip(COSTS)
        .map(|(namespace, cost)| Request::new(namespace, &USER).tenant("ada").cost(Cost::new(cost).unwrap()))
        .collect();
    let step = match &requests[..] {
        [one] => engine.admit(one, NOW).unwrap(),
        all => engine.admit_all(all, NOW).unwrap(),
    };
    let Step::Ask(pending) = step else { panic!("it is decided: {step:?}") };
    pending
}

fn reason(step: &Step<'_>) -> Reason {
    match step {
        Step::Decided(Decision::Refuse(refused)) => refused.reason(),
        Step::Decided(Decision::Admit(_)) | Step::Ask(_) => panic!("it is not refused: {step:?}"),
    }
}

fn usage(engine: &Engine, namespace: &str) -> Usage {
    let (all, tenants) = engine.usage_of(namespace).unwrap();
    let (all, ada) = (Usage::sum(&all.classes), Usage::sum(tenants.iter().flat_map(|row| &row.classes)));
    assert_eq!(all, ada, "the only tenant is all of the namespace");
    ada
}

/// Each of so many requests of the namespace was refused once, as unavailable.
fn assert_unavailable(engine: &Engine, namespace: &str, units: &[u64]) {
    let (usage, count) = (usage(engine, namespace), units.len() as u64);
    assert_eq!(usage.outcome(RequestOutcome::Unavailable), count, "{namespace}: {usage:?}");
    assert_eq!((usage.offered(), usage.under_way, usage.units), (count, 0, 0), "{namespace}: {usage:?}");
    assert_eq!(usage.refused_units, units.iter().sum::<u64>(), "{namespace}: {usage:?}");
}

#[test]
fn two_requests_of_one_tenant_in_one_batch_are_two_requests_with_the_units_of_both() {
    let world = World::of(engine(exact()));
    let pending = waiting(&world.engine, &["api", "api"]);
    let waits = usage(&world.engine, "api");
    assert_eq!((waits.offered(), waits.under_way), (2, 2));
    let answer = world.ask(pending.batch().unwrap());
    let permit = world.go_on(world.engine.resume(pending, answer, NOW)).admitted();
    let usage = usage(&world.engine, "api");
    assert_eq!((usage.outcome(RequestOutcome::Admitted), usage.offered(), usage.units), (2, 2, 5));
    drop(permit);
}

#[test]
fn a_batch_that_the_store_does_not_answer_is_unavailable_once_for_each_request() {
    let engine = engine(exact());
    let pending = waiting(&engine, &["api", "api"]);
    let step = engine.resume(pending, Answered::Store(Err(StoreError::NotAsked)), NOW);
    assert_eq!(reason(&step), Reason::StoreUnavailable);
    assert_unavailable(&engine, "api", &COSTS);
}

#[test]
fn a_batch_whose_namespace_is_removed_while_the_store_is_asked_has_the_outcome_of_the_answer() {
    for is_away in [false, true] {
        let world = World::of(engine(exact()));
        let pending = waiting(&world.engine, &["api", "web"]);
        let reloaded = without(&world.engine, "api", exact());
        let answer = if is_away { Err(StoreError::NotAsked) } else { world.ask(pending.batch().unwrap()) };
        let step = reloaded.resume(pending, answer, NOW);
        if is_away {
            assert_eq!(reason(&step), Reason::StoreUnavailable);
            assert_unavailable(&reloaded, "api", &COSTS[..1]);
            assert_unavailable(&reloaded, "web", &COSTS[1..]);
            continue;
        }
        let permit = world.go_on(step).admitted();
        for (namespace, units) in ["api", "web"].into_iter().zip(COSTS) {
            let usage = usage(&reloaded, namespace);
            assert_eq!(usage.outcome(RequestOutcome::Admitted), 1, "{namespace}: {usage:?}");
            assert_eq!((usage.offered(), usage.units), (1, units), "{namespace}: {usage:?}");
        }
        drop(permit);
    }
}

#[test]
fn requests_whose_namespace_is_removed_while_they_wait_for_a_lease_are_unavailable_once_each() {
    for (namespaces, removed) in
        [(&["api"][..], "api"), (&["api", "api"], "api"), (&["api", "web"], "api"), (&["api", "web"], "web")]
    {
        let engine = engine(leased());
        let pending = waiting(&engine, namespaces);
        assert!(matches!(pending.wants(), Wants::Lease(_)), "{namespaces:?}");
        let reloaded = without(&engine, removed, leased());
        // The lease of the namespace that stays has come, too.
        let world = World::of(reloaded);
        for asked in engine.take_lease_asks().into_iter().chain(world.engine.take_lease_asks()) {
            let answer = world.ask(asked.batch());
            world.engine.lease_answered(asked, answer, NOW);
        }
        let step = world.engine.resume(pending, Answered::Lease, NOW);
        assert_eq!(reason(&step), Reason::StoreUnavailable, "{namespaces:?} without {removed}");
        for namespace in ["api", "web"] {
            let of = namespaces.iter().zip(COSTS).filter(|(one, _)| **one == namespace);
            let units: Vec<u64> = of.map(|(_, units)| units).collect();
            assert_unavailable(&world.engine, namespace, &units);
        }
    }
}

#[test]
fn requests_whose_lease_cannot_be_asked_for_are_counted_once_as_their_answer_says() {
    for namespaces in [&["api"][..], &["api", "api"], &["api", "web"]] {
        let engine = engine(leased());
        let mut pending = waiting(&engine, namespaces);
        let reason = loop {
            for asked in engine.take_lease_asks() {
                engine.lease_answered(asked, Err(StoreError::NotAsked), NOW);
            }
            match engine.resume(pending, Answered::Lease, NOW) {
                Step::Ask(again) => pending = again,
                decided @ Step::Decided(_) => break reason(&decided),
            }
        };
        let outcome = RequestOutcome::of_refusal(reason);
        for namespace in ["api", "web"] {
            let count = namespaces.iter().filter(|one| **one == namespace).count() as u64;
            let usage = usage(&engine, namespace);
            assert_eq!(
                (usage.outcome(outcome), usage.offered(), usage.under_way),
                (count, count, 0),
                "{namespaces:?}, {reason}: {usage:?}"
            );
        }
    }
}
