//! Limits decided in a store, in every operation.

use core::time::Duration;

use tidegate_core::algorithm::{Concurrency, Rolling};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Cost, Limit, Reason, Retry};
use tidegate_engine::{Completion, Decision, Outcome, Progress, Refunded, Request, RequestError};
use tidegate_store::{NoteKind, StoreError};

use crate::reload::MINUTE;
use crate::world::{USER, World, bucket, store_config};

const HOUR: Duration = Duration::from_hours(1);

fn limits() -> Vec<Limit> {
    let exact =
        |name: &str, algorithm| Limit::new(name, algorithm).key(["user"]).consistency(Consistency::Exact);
    vec![
        Limit::new("rate", bucket(100, MINUTE)).key(["user"]),
        exact("quota", bucket(50, HOUR)),
        exact("rolling", Algorithm::Rolling(Rolling::new(40, HOUR).unwrap())),
        exact("parallel", Algorithm::Concurrency(Concurrency::new(2, HOUR).unwrap())),
        exact("shadow", bucket(5, HOUR)).shadow(),
    ]
}

fn world() -> World {
    World::with_limits(limits())
}

fn left(world: &World) -> Vec<u64> {
    world.left().into_iter().map(|(_, left)| left).collect()
}

fn request(units: u64) -> Request<'static> {
    Request::new("api", &USER).cost(Cost::new(units).unwrap())
}

#[test]
fn a_look_sees_exact_limits_and_changes_nothing() {
    let world = world();
    let permit = world.admit(10).unwrap();
    let before = world.state();
    assert_eq!(left(&world), [90, 40, 30, 1, 5], "the shadow limit had no room for ten and was not charged");
    let peek = world.carry(world.engine.peek(&request(35), world.now())).unwrap();
    let refusal = peek.refusal.unwrap();
    assert_eq!((refusal.name(), refusal.reason()), ("rolling", Reason::QuotaExceeded));
    assert!(matches!(refusal.retry(), Retry::At(_)));
    let names: Vec<_> = peek.limits.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["rate", "quota", "rolling", "parallel", "shadow"]);
    assert!(peek.limits[4].shadow_refused);
    assert_eq!(world.state(), before);
    // A local limit refuses before the store is asked, so that is what a look says as well.
    let peek = world.carry(world.engine.peek(&request(91), world.now())).unwrap();
    assert_eq!(peek.refusal.unwrap().name(), "rate");
    drop(permit);
}

#[test]
fn a_report_charges_exact_limits_beyond_their_room() {
    let world = world();
    let reports = world.carry(world.engine.report(&request(60), world.now())).unwrap();
    let reports: Vec<_> = reports.iter().map(|one| (one.name.as_str(), one.remaining)).collect();
    assert_eq!(reports, [("rate", 40), ("quota", 0), ("rolling", 0), ("shadow", 0)]);
    assert!(world.admit(1).is_none());
    // Ten above the fifty, at fifty an hour: the eleventh unit is free after 13.2 minutes.
    world.advance(Duration::from_secs(13 * 60 + 12));
    assert_eq!(left(&world)[1], 1);
}

#[test]
fn a_report_that_leaves_nothing_blocks_the_key_in_the_store_and_here() {
    let block = Duration::from_mins(30);
    let exact = |name: &str| Limit::new(name, bucket(5, HOUR)).key(["user"]).consistency(Consistency::Exact);
    let world = World::with_limits([
        exact("failures").block_on_exceed(block),
        exact("shadow").block_on_exceed(block).shadow(),
        exact("plain"),
        Limit::new("local", bucket(5, MINUTE)).key(["user"]).block_on_exceed(block),
    ]);
    let report = |units: u64| {
        let reports = world.carry(world.engine.report(&request(units), world.now())).unwrap();
        reports.iter().map(|one| (one.name.clone(), one.remaining, one.reset_at)).collect::<Vec<_>>()
    };
    assert!(report(4).iter().all(|(_, left, _)| *left == 1));
    assert!(world.carry(world.engine.peek(&request(1), world.now())).unwrap().refusal.is_none());
    let until = world.now().saturating_add(block);
    let reported = report(1);
    assert!(reported.iter().all(|(_, left, _)| *left == 0));
    let blocked: Vec<_> =
        reported.iter().map(|(name, _, reset_at)| (name.as_str(), *reset_at >= until)).collect();
    assert_eq!(blocked, [("local", true), ("failures", true), ("shadow", true), ("plain", true)]);
    let refusal = world.carry(world.engine.peek(&request(1), world.now())).unwrap().refusal.unwrap();
    let violated: Vec<_> =
        refusal.violated.iter().map(|one| (one.name.to_string(), one.reason, one.retry)).collect();
    assert_eq!(violated[0], ("local".to_owned(), Reason::Blocked, Retry::At(until)));
    // Another member asks the same store.
    let mut config = store_config();
    config.table.seed = [9, 9, 9, 9];
    let limit = exact("failures").block_on_exceed(block);
    let other = crate::world::stored_by(config, [limit]).build().unwrap();
    let progress = other.peek(&request(1), world.now()).unwrap();
    let Progress::Ask(asking) = progress else { panic!("the store must be asked") };
    let answer = world.ask(asking.batch());
    let peek = asking.resume(&other, answer, world.now()).unwrap().done().unwrap();
    let refusal = peek.refusal.unwrap();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(until)));
    // A report in the middle of the block does not prolong it.
    world.advance(block / 2);
    report(1);
    world.advance(block / 2);
    let refusal = world.carry(world.engine.peek(&request(1), world.now())).unwrap().refusal;
    assert_eq!(refusal.map(|refusal| refusal.to_string()), None, "2 of 5 units have come back");
}

#[test]
fn a_report_stands_although_the_store_goes_away_before_the_block() {
    let limit = Limit::new("failures", bucket(5, HOUR)).key(["user"]).consistency(Consistency::Exact);
    let world = World::with_limits([limit.block_on_exceed(MINUTE)]);
    let Progress::Ask(asking) = world.engine.report(&request(5), world.now()).unwrap() else {
        panic!("the store must be asked")
    };
    let answer = world.ask(asking.batch());
    let Progress::Ask(blocking) = asking.resume(&world.engine, answer, world.now()).unwrap() else {
        panic!("the block must be asked for")
    };
    let lost = Err(StoreError::Timeout { after: MINUTE });
    let reports = blocking.resume(&world.engine, lost, world.now()).unwrap().done().unwrap();
    assert_eq!(reports[0].remaining, 0);
    assert!(world.admit(1).is_none(), "it is used up");
}

#[test]
fn a_refund_gives_back_everywhere_and_once() {
    let world = world();
    drop(world.admit(20));
    assert_eq!(left(&world)[..3], [80, 30, 20]);
    let refund = |key| world.carry(world.engine.refund(&request(5), key, world.now()));
    assert_eq!(refund("order-1").unwrap(), Refunded::Applied);
    assert_eq!(left(&world)[..3], [85, 35, 25]);
    assert_eq!(refund("order-1").unwrap(), Refunded::AlreadyApplied);
    assert_eq!(left(&world)[..3], [85, 35, 25]);
    let notes = world.store.notes_now(NoteKind::Refund);
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].until, world.now().saturating_add(tidegate_engine::REFUND_KEY_KEPT));
}

#[test]
fn of_two_refunds_with_one_key_at_once_one_is_applied() {
    let world = world();
    drop(world.admit(20));
    let begin = || match world.engine.refund(&request(5), "order-1", world.now()).unwrap() {
        Progress::Ask(asking) => asking,
        Progress::Done(done) => panic!("{done:?}"),
    };
    let (first, second) = (begin(), begin());
    let answers = (world.ask(first.batch()), world.ask(second.batch()));
    let end = |asking: Box<tidegate_engine::Asking<Refunded>>, answer| {
        asking.resume(&world.engine, answer, world.now()).unwrap().done().unwrap()
    };
    assert_eq!(end(second, answers.1), Refunded::Applied);
    assert_eq!(end(first, answers.0), Refunded::AlreadyApplied);
    assert_eq!(left(&world)[..3], [85, 35, 25]);
}

/// Admits 20 units and refunds 5 of them, by a call whose answer is lost after the store has
/// refunded.
fn lose_the_answer_of_a_refund(world: &World) -> RequestError {
    drop(world.admit(20));
    let Progress::Ask(asking) = world.engine.refund(&request(5), "order-1", world.now()).unwrap() else {
        panic!("the store must be asked")
    };
    world.ask(asking.batch()).unwrap();
    let lost = Err(StoreError::Timeout { after: MINUTE });
    asking.resume(&world.engine, lost, world.now()).unwrap_err()
}

#[test]
fn a_refund_whose_answer_was_lost_is_applied_once_when_it_is_repeated() {
    let world = world();
    let error = lose_the_answer_of_a_refund(&world);
    assert!(matches!(error, RequestError::Store(StoreError::Timeout { .. })), "{error}");
    world.advance(Duration::from_secs(6));
    let again = world.carry(world.engine.refund(&request(5), "order-1", world.now()));
    assert_eq!(again.unwrap(), Refunded::Applied, "here it was not yet");
    let third = world.carry(world.engine.refund(&request(5), "order-1", world.now()));
    assert_eq!(third.unwrap(), Refunded::AlreadyApplied);
    assert_eq!(left(&world)[..3], [95, 35, 25], "ten drained of the rate, and five came back everywhere");
}

#[test]
fn a_refund_is_applied_once_also_when_the_store_has_forgotten_that_it_was_asked() {
    let world = world();
    lose_the_answer_of_a_refund(&world);
    // The memory store remembers what it was asked for ten minutes; at 50 an hour 12.5 units drain
    // in fifteen.
    world.advance(Duration::from_mins(15));
    assert_eq!(world.left()[1].1, 47);
    drop(world.admit(20));
    let again = world.carry(world.engine.refund(&request(5), "order-1", world.now()));
    assert_eq!((again.unwrap(), world.left()[1].1), (Refunded::Applied, 27), "here, and not there again");
    assert_eq!(world.left()[0].1, 85);
}

#[test]
fn a_refund_that_another_member_gave_is_not_given_again() {
    let world = world();
    drop(world.admit(20));
    let mut config = store_config();
    config.table.seed = [9; 4];
    let other = crate::world::stored_by(config, limits()).build().unwrap();
    let mut each = World { engine: other, ..world };
    assert_eq!(
        each.carry(each.engine.refund(&request(5), "order-1", each.now())).unwrap(),
        Refunded::Applied
    );
    each.advance(Duration::from_mins(15));
    each.engine = crate::world::stored(limits()).build().unwrap();
    drop(each.admit(20));
    let before = each.state();
    let again = each.carry(each.engine.refund(&request(5), "order-1", each.now()));
    assert_eq!((again.unwrap(), each.state()), (Refunded::AlreadyApplied, before));
}

#[test]
fn a_refund_that_the_store_did_not_take_gives_nothing_back() {
    let mut world = world();
    drop(world.admit(20));
    world.store_is_down = true;
    let refund = |world: &World| world.carry(world.engine.refund(&request(5), "order-1", world.now()));
    assert!(matches!(refund(&world), Err(RequestError::Store(_))));
    world.store_is_down = false;
    assert_eq!(left(&world)[..3], [80, 30, 20]);
    assert_eq!(refund(&world).unwrap(), Refunded::Applied);
    assert_eq!(left(&world)[..3], [85, 35, 25]);
}

#[test]
fn a_reset_forgets_what_the_store_holds_and_counts_what_was_in_use() {
    let world = world();
    drop(world.admit(10));
    let reset = |limit: Option<&str>| world.carry(world.engine.reset(&request(1), limit, world.now()));
    assert_eq!(reset(Some("quota")).unwrap(), 1);
    assert_eq!(left(&world)[..3], [90, 50, 30]);
    assert_eq!(reset(Some("quota")).unwrap(), 0);
    // The rate, and the rolling one. Places held are forgotten too, and not counted apart.
    assert!(reset(None).unwrap() >= 2);
    assert_eq!(left(&world), [100, 50, 40, 2, 5]);
    assert!(matches!(reset(Some("rats")), Err(RequestError::UnknownLimit { .. })));
}

#[test]
fn a_block_on_an_exact_limit_is_the_stores_and_a_reset_lifts_it() {
    let world = world();
    let until = world.now().saturating_add(MINUTE);
    world.carry(world.engine.block(&request(1), "quota", until, world.now())).unwrap();
    let Decision::Refuse(refusal) = world.decide(&request(1)) else { panic!("blocked") };
    assert_eq!((refusal.name(), refusal.reason()), ("quota", Reason::Blocked));
    assert_eq!(refusal.retry(), Retry::At(until));
    assert!(world.store.notes_now(NoteKind::Block).is_empty(), "the store needs no note of its own block");
    let reset = world.carry(world.engine.reset(&request(1), Some("quota"), world.now()));
    assert_eq!(reset.unwrap(), 1);
    assert!(world.admit(1).is_some());
    let nobody = Request::new("api", ());
    let error = world.engine.block(&nobody, "quota", until, world.now()).unwrap_err();
    assert!(matches!(error, RequestError::KeyIncomplete { .. }), "{error}");
    let error = world.engine.reset(&nobody, Some("quota"), world.now()).unwrap_err();
    assert_eq!(error.to_string(), "limit \"quota\" counts by user, and \"user\" is missing");
}

#[test]
fn a_place_of_an_exact_limit_is_given_back_when_the_work_is_done() {
    let world = world();
    let permit = world.admit(1).unwrap();
    assert!(permit.must_be_settled());
    assert_eq!(permit.expires_at(), Some(world.now().saturating_add(HOUR)));
    assert_eq!(left(&world)[3], 1);
    world.finish(world.engine.settle(permit, Outcome::Succeeded, world.now()));
    assert_eq!(left(&world), [99, 49, 39, 2, 4]);
}

#[test]
fn settling_does_not_touch_what_a_shadow_limit_did_not_charge() {
    let world = world();
    world.finish(world.engine.settle(world.admit(4).unwrap(), Outcome::Succeeded, world.now()));
    assert_eq!(left(&world)[4], 1);
    let refused_by_shadow = world.admit(10).unwrap();
    world.finish(world.engine.settle(refused_by_shadow, Completion::from_cost(2), world.now()));
    assert_eq!(left(&world), [94, 44, 34, 2, 1]);
}

#[test]
fn a_key_that_exceeds_an_exact_limit_is_blocked_where_the_policy_says_so() {
    let limit = Limit::new("quota", bucket(60, HOUR)).key(["user"]).block_on_exceed(Duration::from_mins(10));
    let world = World::with_limits([limit.consistency(Consistency::Exact)]);
    let until = world.now().saturating_add(Duration::from_mins(10));
    drop(world.admit(60).unwrap());
    let refusal = || match world.decide(&request(1)) {
        Decision::Refuse(refusal) => (refusal.reason(), refusal.retry()),
        Decision::Admit(permit) => panic!("{permit:?}"),
    };
    // A minute refills a unit, but the key is blocked for ten from when it first exceeded.
    assert_eq!(refusal(), (Reason::Blocked, Retry::At(until)));
    world.advance(Duration::from_mins(9));
    assert_eq!(refusal(), (Reason::Blocked, Retry::At(until)));
    world.advance(MINUTE);
    assert!(world.admit(10).is_some());
    // One that is too large is no reason to block: it may come whenever it likes.
    let large = World::with_limits([Limit::new("quota", bucket(60, HOUR))
        .block_on_exceed(HOUR)
        .consistency(Consistency::Exact)]);
    assert!(large.admit(61).is_none() && large.admit(60).is_some());
}

#[test]
fn what_is_given_back_without_a_name_is_given_back_each_time_and_never_more_than_was_used() {
    let world = world();
    let _permit = world.admit(10).unwrap();
    world.carry(world.engine.give_back(&request(4), world.now())).unwrap();
    assert_eq!(left(&world), [94, 44, 34, 1, 5]);
    world.carry(world.engine.give_back(&request(4), world.now())).unwrap();
    assert_eq!(left(&world), [98, 48, 38, 1, 5]);
    world.carry(world.engine.give_back(&request(u64::MAX), world.now())).unwrap();
    assert_eq!(left(&world), [100, 50, 40, 1, 5]);
}

#[test]
fn without_the_store_nothing_is_given_back_by_half() {
    let mut world = world();
    let _permit = world.admit(10).unwrap();
    world.store_is_down = true;
    let failed = world.carry(world.engine.give_back(&request(4), world.now()));
    assert!(matches!(failed, Err(RequestError::Store(_))), "{failed:?}");
    world.store_is_down = false;
    assert_eq!(left(&world), [90, 40, 30, 1, 5]);
}
