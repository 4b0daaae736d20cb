//! Several requests that go ahead together or not at all.

mod equivalence;
mod settlement;
mod silence;

use core::time::Duration;

use tidegate_core::algorithm::{Concurrency, Rolling};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Class, Cost, Limit, Reason, Refusal, error_chain};
use tidegate_engine::{
    BATCH_REQUESTS_MAX, BatchError, Decision, Event, LimitReport, Permit, Request, Settled, Step,
};
use tidegate_store::{Batch, BatchMode};

use crate::world::{NOW, Room, USER, World, bucket, request};

const HOUR: Duration = Duration::from_hours(1);
const NAMES: [&str; 8] = ["ada", "bob", "cat", "dan", "eve", "fay", "gus", "hal"];

fn exact(name: &str, algorithm: Algorithm) -> Limit {
    Limit::new(name, algorithm).key(["user"]).consistency(Consistency::Exact)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// The engine's answer, and every batch that the store was asked for it.
fn decide(world: &World, requests: &[Request<'_>]) -> (Decision<'static>, Vec<Batch>) {
    let mut asked = Vec::new();
    let mut step = world.engine.admit_all(requests, world.now()).unwrap();
    loop {
        match step {
            Step::Decided(decision) => return (decision, asked),
            Step::Ask(pending) => {
                asked.push(pending.batch().unwrap().clone());
                let answer = world.ask(pending.batch().unwrap());
                step = world.engine.resume(pending, answer, world.now());
            }
        }
    }
}

fn admitted(world: &World, requests: &[Request<'_>]) -> Permit {
    match decide(world, requests).0 {
        Decision::Admit(permits) => permits,
        Decision::Refuse(refusals) => panic!("{refusals:?}"),
    }
}

/// For each request the name of what refused it.
pub(crate) fn refused(world: &World, requests: &[Request<'_>]) -> Vec<Option<String>> {
    match decide(world, requests).0 {
        Decision::Admit(permits) => panic!("{permits:?}"),
        Decision::Refuse(refusals) => {
            let each = refusals.into_each(requests.len());
            each.into_iter().map(|one| Some(one?.name().to_owned())).collect()
        }
    }
}

fn finish(world: &World, settled: Settled) {
    for batch in settled.batches {
        world.ask(&batch).unwrap();
    }
}

/// The remaining quota of the limits of a user, in the order of the policy.
fn left(world: &World, user: &str) -> Vec<u64> {
    let peek = world.engine.peek(&Request::new("api", &[("user", user)]), world.now());
    world.carry(peek).unwrap().limits.iter().map(|one| one.remaining).collect()
}

fn remaining(world: &World, permits: &Permit) -> Vec<Vec<u64>> {
    let left = |reports: Vec<LimitReport>| reports.iter().map(|one| one.remaining).collect();
    (0..permits.requests()).map(|at| left(world.engine.statuses_of(permits, at))).collect()
}

#[test]
fn one_round_trip_however_many_ask_as_long_as_a_batch_has_room() {
    for (requests, batches) in [(0, 0), (1, 1), (2, 1), (10, 1), (64, 1), (65, 2), (128, 2)] {
        let world = World::with_limits([exact("quota", bucket(200, HOUR))]);
        let users: Vec<_> = (0..requests).map(|user| [("user", NAMES[user % NAMES.len()])]).collect();
        let asked: Vec<_> = users.iter().map(|pairs| Request::new("api", pairs)).collect();
        let (decision, sent) = decide(&world, &asked);
        let Decision::Admit(permits) = decision else { panic!("there is room") };
        assert_eq!((permits.requests(), sent.len()), (requests, batches), "{requests} requests");
        assert!(sent.iter().all(|batch| batch.mode == BatchMode::AllOrNothing));
        assert_eq!(sent.iter().map(|batch| batch.operations.len()).sum::<usize>(), requests);
        let charged: u64 = NAMES.iter().map(|user| 200 - left(&world, user)[0]).sum();
        assert_eq!(charged, requests as u64, "two of one user are two");
    }
}

#[test]
fn what_one_request_asks_stays_in_one_batch() {
    let limits = ["a", "b", "c"].map(|name| exact(name, bucket(100, HOUR)));
    let world = World::with_limits(limits);
    let (_, sent) = decide(&world, &[Request::new("api", &USER); 22]);
    let sizes: Vec<_> = sent.iter().map(|batch| batch.operations.len()).collect();
    assert_eq!(sizes, [63, 3]);
}

#[test]
fn more_than_there_may_be_are_an_error_and_nothing_is_charged() {
    let world = World::new(Room::WIDE);
    let before = world.state();
    let error = world.engine.admit_all(&vec![request(); BATCH_REQUESTS_MAX + 1], NOW).unwrap_err();
    assert!(matches!(error, BatchError::TooMany { given: 129 }), "{error}");
    assert_eq!(world.state(), before);
}

/// Sends three requests of which one is refused, and compares the world before and after.
fn refuse_third(room: Room, expected: [Option<&str>; 3]) {
    let world = World::new(room);
    let before = world.state();
    for _ in 0..3 {
        assert_eq!(refused(&world, &[request(); 3]), expected.map(|name| name.map(str::to_owned)));
        assert_eq!(world.state(), before, "a refusal by {expected:?} left a charge");
    }
    drop(admitted(&world, &[request(); 2]));
}

#[test]
pub(crate) fn a_refusal_by_any_plane_gives_back_what_the_others_hold() {
    refuse_third(Room { local: 2, ..Room::WIDE }, [None, None, Some("rate")]);
    refuse_third(Room { capacity: 2, ..Room::WIDE }, [None, None, Some("orders")]);
    refuse_third(Room { exact: 2, ..Room::WIDE }, [None, None, Some("quota")]);
    refuse_third(Room { in_flight: 2, ..Room::WIDE }, [None, None, Some("in_flight")]);
}

#[test]
fn a_refusal_by_the_store_at_any_place_leaves_no_charge() {
    let world = World::with_limits([
        Limit::new("rate", bucket(100, HOUR)).key(["user"]),
        exact("quota", bucket(3, HOUR)),
        exact("rolling", Algorithm::Rolling(Rolling::new(100, HOUR).unwrap())),
        exact("parallel", Algorithm::Concurrency(Concurrency::new(100, HOUR).unwrap())),
    ]);
    drop(admitted(&world, &[Request::new("api", &USER).cost(cost(3))]));
    let before = world.state();
    // The last place is in a second batch, so that the first is taken back.
    for (count, at) in [(1, 0), (2, 0), (2, 1), (10, 4), (21, 20), (22, 21), (64, 63)] {
        let users: Vec<_> = (0..count).map(|user| [("user", NAMES[1 + user % 7])]).collect();
        let mut asked: Vec<_> = users.iter().map(|pairs| Request::new("api", pairs)).collect();
        asked[at] = Request::new("api", &USER);
        // The others have three each, and are two at most in one batch up to here.
        let asked = if count > 22 { vec![asked[at]; count] } else { asked };
        assert!(refused(&world, &asked)[at].is_some() || count > 22, "{at} of {count}");
        assert_eq!(world.state(), before, "{at} of {count}");
    }
}

#[test]
fn each_that_has_a_violated_limit_has_its_refusal_and_the_others_have_none() {
    let world = World::with_limits([exact("quota", bucket(2, HOUR)), exact("wide", bucket(9, HOUR))]);
    drop(admitted(&world, &[Request::new("api", &USER).cost(cost(2))]));
    let bob = [("user", "bob")];
    let asked = [
        Request::new("api", &bob),
        Request::new("api", &USER),
        Request::new("api", ()),
        Request::new("api", &bob).cost(cost(5)),
        Request::new("api", &bob),
    ];
    let (decision, sent) = decide(&world, &asked);
    let Decision::Refuse(refusals) = decision else { panic!("{decision:?}") };
    let refusals = refusals.into_each(asked.len());
    let refusals: Vec<_> = refusals.iter().map(|one| one.as_ref().map(Refusal::reason)).collect();
    let expected =
        [None, Some(Reason::QuotaExceeded), None, Some(Reason::CostExceedsLimit), None].map(|one| one);
    assert_eq!((refusals.as_slice(), sent.len()), (&expected[..], 1));
}

#[test]
fn one_key_in_two_requests_is_counted_twice() {
    let world = World::with_limits([exact("quota", bucket(3, HOUR))]);
    let permits = admitted(&world, &[Request::new("api", &USER); 2]);
    assert_eq!(remaining(&world, &permits), [[2], [1]], "each says what was left after it");
    let before = world.state();
    assert_eq!(refused(&world, &[Request::new("api", &USER); 2]), [None, Some("quota".to_owned())]);
    assert_eq!(world.state(), before);
    assert_eq!(left(&world, "ada"), [1]);
}

#[test]
fn requests_of_different_namespaces_and_without_limits_go_along() {
    let world = World::with_limits([exact("quota", bucket(3, HOUR))]);
    let asked = [Request::new("api", ()), Request::new("api", &USER), Request::new("api", ())];
    let (decision, sent) = decide(&world, &asked);
    assert!(matches!(decision, Decision::Admit(permits) if permits.requests() == 3));
    assert_eq!(sent[0].operations.len(), 1);
    let lost = [asked[1], Request::new("elsewhere", &USER)];
    let before = world.state();
    let error = world.engine.admit_all(&lost, world.now()).unwrap_err();
    assert_eq!(
        error_chain(&error),
        "request 1 cannot be decided: namespace \"elsewhere\" does not exist; use one of the policy's, or add it"
    );
    assert_eq!(world.state(), before);
}

#[test]
fn a_key_that_is_too_long_to_be_stored_is_the_error_of_its_request_and_charges_nothing() {
    let world = World::with_limits([
        Limit::new("rate", bucket(9, HOUR)).key(["user"]),
        exact("quota", bucket(9, HOUR)),
    ]);
    let long = "u".repeat(8 << 10);
    let long = [("user", long.as_str())];
    let before = world.state();
    let asked = [Request::new("api", &USER), Request::new("api", &long), Request::new("api", &USER)];
    let error = world.engine.admit_all(&asked, world.now()).unwrap_err();
    let BatchError::Request { at: 1, source: tidegate_engine::RequestError::KeyTooLong(_) } = error else {
        panic!("{error}")
    };
    assert_eq!(world.state(), before);
}

#[test]
fn a_key_that_exceeds_a_limit_which_blocks_is_blocked_and_only_that() {
    let limit = exact("quota", bucket(2, HOUR)).block_on_exceed(Duration::from_mins(10));
    let world = World::with_limits([limit]);
    drop(admitted(&world, &[Request::new("api", &USER).cost(cost(2))]));
    let bob = [("user", "bob")];
    let asked = [Request::new("api", &bob), Request::new("api", &USER)];
    assert_eq!(refused(&world, &asked), [None, Some("quota".to_owned())]);
    let look = |pairs| world.carry(world.engine.peek(&Request::new("api", pairs), world.now())).unwrap();
    assert_eq!(look(&USER).refusal.unwrap().reason(), Reason::Blocked);
    assert_eq!(look(&bob).refusal, None);
}

#[test]
fn a_look_at_several_is_one_round_trip_and_says_what_each_would_meet_alone() {
    let world = World::with_limits([
        Limit::new("rate", bucket(9, HOUR)).key(["user"]),
        exact("quota", bucket(2, HOUR)),
    ]);
    drop(admitted(&world, &[Request::new("api", &USER)]));
    let users: Vec<_> = (0..100).map(|user| [("user", NAMES[user % NAMES.len()])]).collect();
    let mut asked: Vec<_> = users.iter().map(|pairs| Request::new("api", pairs)).collect();
    asked[3] = Request::new("api", ());
    asked[8] = asked[8].cost(cost(2));
    let before = world.state();
    for (count, batches) in [(0, 0), (1, 1), (65, 1), (66, 2), (100, 2)] {
        let mut sent = 0;
        let mut progress = world.engine.peek_all(&asked[..count], world.now()).unwrap();
        let looks = loop {
            progress = match progress {
                tidegate_engine::Progress::Done(looks) => break looks,
                tidegate_engine::Progress::Ask(asking) => {
                    sent += 1;
                    let answer = world.ask(asking.batch());
                    asking.resume(&world.engine, answer, world.now()).unwrap()
                }
            };
        };
        assert_eq!((looks.len(), sent), (count, batches));
        for (one, look) in asked.iter().zip(looks) {
            assert_eq!(look, world.carry(world.engine.peek(one, world.now())).unwrap());
        }
    }
    assert_eq!(world.state(), before);
}

#[test]
pub(crate) fn requests_that_were_refused_together_are_no_demand_on_the_system() {
    let world = World::new(Room { local: 100, ..Room::WIDE });
    let flood = [("user", "flood")];
    let flood = Request::new("api", &flood).class(Class::CriticalPlus);
    let critical = Request::new("api", ()).class(Class::Critical);
    for _ in 0..500 {
        refused(&world, &[flood.cost(cost(50)), flood.cost(cost(51))]);
    }
    for _ in 0..60 {
        drop(admitted(&world, &[critical]));
    }
    for _ in 0..40 {
        drop(admitted(&world, &[Request::new("api", ()).class(Class::Sheddable)]));
    }
    // A tenth must go, of the class that asks for more than its part. Were the flood counted, the
    // tenth would be of the flood.
    world.engine.event(Event::Pressure(1.2), world.now()).unwrap();
    world.advance(Duration::from_millis(100));
    let _ = world.engine.tick(world.now());
    drop(admitted(&world, &[critical]));
    let shed = [critical, Request::new("api", ()).class(Class::Sheddable)];
    assert_eq!(refused(&world, &shed), [None, Some("admission_cursor".to_owned())]);
}
