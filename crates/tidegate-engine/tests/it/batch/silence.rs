//! Requests that go ahead together while the store is away.

use tidegate_core::limit::OnStoreFailure;
use tidegate_engine::Outcome;
use tidegate_store::StoreError;

use super::*;

fn quota(name: &str, key: &str, units: u64, then: OnStoreFailure) -> Limit {
    Limit::new(name, bucket(units, HOUR)).key([key]).consistency(Consistency::Exact).on_store_failure(then)
}

/// A limit by `user` that does `then`, and one by `app` that allows.
fn away(then: OnStoreFailure, units: u64) -> World {
    let limits = [quota("user", "user", units, then), quota("app", "app", 9, OnStoreFailure::Allow)];
    World { store_is_down: true, ..World::with_limits(limits) }
}

const APP: [(&str, &str); 1] = [("app", "x")];

#[test]
fn limits_that_allow_let_all_pass_and_count_nothing() {
    let mut world = away(OnStoreFailure::Allow, 1);
    let before = world.state();
    let (decision, sent) = decide(&world, &vec![Request::new("api", &USER); 65]);
    let Decision::Admit(permits) = decision else { panic!("{decision:?}") };
    assert_eq!(sent.len(), 2);
    assert!(world.engine.settle(permits, Outcome::Cancelled, world.now()).batches.is_empty());
    assert_eq!(world.state(), before);
    world.store_is_down = false;
    assert_eq!(left(&world, "ada"), [1]);
}

#[test]
fn limits_that_refuse_refuse_for_each_that_has_one_and_the_others_hold_nothing() {
    let world = away(OnStoreFailure::Refuse, 9);
    let before = world.state();
    let asked = [Request::new("api", &USER), Request::new("api", &APP), Request::new("api", &USER)];
    let (decision, sent) = decide(&world, &asked);
    let Decision::Refuse(refusals) = decision else { panic!("{decision:?}") };
    let reasons: Vec<_> = refusals.into_each(3).iter().map(|one| one.as_ref().map(Refusal::reason)).collect();
    assert_eq!(reasons, [Some(Reason::StoreUnavailable), None, Some(Reason::StoreUnavailable)]);
    assert_eq!((sent.len(), world.state()), (1, before));
}

#[test]
fn limits_decided_here_count_each_and_give_back_when_one_is_refused() {
    let world = away(OnStoreFailure::Local, 2);
    let before = world.state();
    let asked = [Request::new("api", &APP), Request::new("api", &USER), Request::new("api", &USER)];
    let permits = admitted(&world, &asked);
    assert_eq!(left(&world, "ada"), [0]);
    assert!(world.engine.settle(permits, Outcome::Cancelled, world.now()).batches.is_empty());
    assert_eq!(world.state(), before);
    assert_eq!(refused(&world, &[Request::new("api", &USER); 3]), [None, None, Some("user".to_owned())]);
    assert_eq!(world.state(), before);
    let mut permits = admitted(&world, &asked[1..]).into_iter();
    world.finish(world.engine.settle(permits.next().unwrap(), Outcome::Cancelled, world.now()));
    assert_eq!(left(&world, "ada"), [1], "the other keeps its charge");
}

#[test]
fn what_the_store_holds_of_a_first_batch_is_taken_back_when_it_does_not_take_the_second() {
    let world = World::with_limits([quota("user", "user", 100, OnStoreFailure::Refuse)]);
    let before = world.state();
    let asked = vec![Request::new("api", &USER); 65];
    let Step::Ask(first) = world.engine.admit_all(&asked, world.now()).unwrap() else { panic!("asks") };
    let answer = world.ask(first.batch().unwrap());
    let Step::Ask(second) = world.engine.resume(first, answer, world.now()) else { panic!("asks") };
    let lost = Err(StoreError::Timeout { after: HOUR });
    let Step::Ask(undo) = world.engine.resume(second, lost, world.now()) else { panic!("asks") };
    let answer = world.ask(undo.batch().unwrap());
    let Step::Decided(Decision::Refuse(refusals)) = world.engine.resume(undo, answer, world.now()) else {
        panic!("refused")
    };
    let refusals = refusals.into_each(asked.len());
    assert!(refusals[..64].iter().all(Option::is_none) && refusals[64].is_some());
    assert_eq!(world.state(), before);
}

#[test]
fn a_look_at_several_goes_the_same_ways() {
    let world = away(OnStoreFailure::Refuse, 9);
    let asked = [Request::new("api", &USER), Request::new("api", &APP)];
    let looks = world.carry(world.engine.peek_all(&asked, world.now())).unwrap();
    let reasons: Vec<_> = looks.iter().map(|look| look.refusal.as_ref().map(Refusal::reason)).collect();
    assert_eq!(reasons, [Some(Reason::StoreUnavailable), None]);
}
