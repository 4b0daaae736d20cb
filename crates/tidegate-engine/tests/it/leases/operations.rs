//! Other operations on leased limits: settling, reporting, refunding, looking, resetting,
//! blocking.

use core::time::Duration;

use tidegate_core::{Cost, Reason, Retry};
use tidegate_engine::{Completion, Outcome, Request};
use tidegate_store::NoteKind;

use super::{ADA, Fleet, leased, window};

fn day(limit: u64) -> Fleet {
    Fleet::new(2, &[leased("daily", window(limit, Duration::from_hours(24)))])
}

/// How much the members admit until nothing is left.
fn rest(fleet: &mut Fleet) -> u64 {
    let mut admitted = 0;
    for _ in 0..300 {
        fleet.pass(Duration::from_millis(100));
        admitted += fleet.burst(0) + fleet.burst(1);
    }
    admitted
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

#[test]
fn a_reservation_that_cost_less_gives_the_rest_back() {
    let mut fleet = day(100);
    let permit = fleet.admit(0, 40).unwrap();
    fleet.settle(0, permit, Completion::from_cost(10));
    assert_eq!(rest(&mut fleet), 90);
}

#[test]
fn a_reservation_that_cost_more_is_charged_for_it() {
    let mut fleet = day(100);
    let permit = fleet.admit(0, 10).unwrap();
    fleet.settle(0, permit, Completion::from_cost(60));
    let admitted = rest(&mut fleet);
    // Members keep the tokens that they had in hand when the report came.
    assert!((40..=45).contains(&admitted), "{admitted}");
}

#[test]
fn what_was_cancelled_is_given_back_also_long_after() {
    let mut fleet = day(100);
    let permit = fleet.admit(0, 30).unwrap();
    fleet.settle(0, permit, Outcome::Cancelled);
    let permit = fleet.admit(0, 30).unwrap();
    fleet.pass(Duration::from_mins(1));
    fleet.settle(0, permit, Completion::from_cost(0));
    assert_eq!(rest(&mut fleet), 100);
}

#[test]
fn reports_and_refunds_reach_the_ledger() {
    let mut fleet = day(100);
    let request = Request::new("api", &ADA).cost(cost(70));
    let report = fleet.members[0].report(&request, fleet.now()).unwrap();
    let report = fleet.carry(0, report);
    assert_eq!((report[0].name.as_str(), report[0].remaining), ("daily", 30));
    let refund = Request::new("api", &ADA).cost(cost(20));
    for _ in 0..3 {
        let progress = fleet.members[1].refund(&refund, "once", fleet.now()).unwrap();
        let _ = fleet.carry(1, progress);
    }
    assert_eq!(rest(&mut fleet), 50);
}

#[test]
fn looking_sees_what_is_left_of_all_members_and_takes_nothing() {
    let mut fleet = day(100);
    assert!(fleet.admit(0, 10).is_some());
    let request = Request::new("api", &ADA).cost(cost(80));
    for _ in 0..3 {
        let peek = fleet.members[0].peek(&request, fleet.now()).unwrap();
        let peek = fleet.carry(0, peek);
        assert_eq!((peek.refusal.is_none(), peek.limits[0].remaining), (true, 90));
    }
    let request = Request::new("api", &ADA).cost(cost(95));
    let peek = fleet.members[0].peek(&request, fleet.now()).unwrap();
    let refusal = fleet.carry(0, peek).refusal.unwrap();
    assert_eq!(refusal.reason(), Reason::QuotaExceeded);
    let explained = fleet.members[0].explain(&request, fleet.now()).unwrap();
    assert!(!fleet.carry(0, explained).is_admitted());
}

#[test]
fn a_reset_forgets_what_is_used() {
    let mut fleet = day(50);
    assert_eq!(rest(&mut fleet), 50);
    let reset = fleet.members[0].reset(&Request::new("api", &ADA), None, fleet.now()).unwrap();
    assert_eq!(fleet.carry(0, reset), 1);
    let admitted = rest(&mut fleet);
    assert!((45..=50).contains(&admitted), "{admitted}");
}

#[test]
fn a_reset_lifts_the_block_of_a_key_at_this_member() {
    let mut fleet = day(50);
    let until = fleet.now().saturating_add(Duration::from_mins(1));
    let block = fleet.members[0].block(&Request::new("api", &ADA), "daily", until, fleet.now()).unwrap();
    fleet.carry(0, block);
    assert_eq!(fleet.ask(0, 1).unwrap_err().reason(), Reason::Blocked);
    for expected in [1, 0] {
        let reset = fleet.members[0].reset(&Request::new("api", &ADA), Some("daily"), fleet.now()).unwrap();
        assert_eq!(fleet.carry(0, reset), expected, "counters in use or blocked");
    }
    assert!(fleet.admit(0, 1).is_some());
}

#[test]
fn a_blocked_key_is_refused_until_then_and_keeps_what_it_has() {
    let mut fleet = day(50);
    let until = fleet.now().saturating_add(Duration::from_mins(1));
    let block = fleet.members[0].block(&Request::new("api", &ADA), "daily", until, fleet.now()).unwrap();
    fleet.carry(0, block);
    let refusal = fleet.ask(0, 1).unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(until)));
    fleet.pass(Duration::from_mins(1));
    assert!(fleet.admit(0, 1).is_some());
}

/// The member `at` follows the blocks of the others; how many of them it lifts.
fn follow_blocks(fleet: &Fleet, at: usize) -> usize {
    let lifted = fleet.members[at].lift_blocks(&fleet.store.notes_now(NoteKind::LiftedBlock), fleet.now());
    for note in fleet.store.notes_now(NoteKind::Block) {
        fleet.members[at].restore_block(&note, fleet.now()).unwrap();
    }
    lifted
}

fn block(fleet: &Fleet, at: usize, span: Duration) {
    let until = fleet.now().saturating_add(span);
    let block = fleet.members[at].block(&Request::new("api", &ADA), "daily", until, fleet.now()).unwrap();
    fleet.carry(at, block);
}

fn is_blocked(fleet: &mut Fleet, at: usize) -> bool {
    fleet.ask(at, 1).is_err_and(|refusal| refusal.reason() == Reason::Blocked)
}

#[test]
fn a_block_is_lifted_at_each_member_that_took_it_over() {
    let mut fleet = day(50);
    let minute = Duration::from_mins(1);
    block(&fleet, 0, minute);
    assert_eq!(follow_blocks(&fleet, 1), 0);
    assert!(is_blocked(&mut fleet, 1));
    block(&fleet, 0, Duration::ZERO);
    assert_eq!(follow_blocks(&fleet, 1), 1);
    assert!(!is_blocked(&mut fleet, 1));
    assert!(fleet.members[1].blocks(fleet.now()).is_empty());

    // A key that is blocked after that stays blocked at both members.
    fleet.pass(Duration::from_secs(1));
    block(&fleet, 1, minute);
    for at in [0, 1, 0, 1] {
        assert_eq!(follow_blocks(&fleet, at), 0);
        assert!(is_blocked(&mut fleet, at), "at member {at}");
    }
}

#[test]
fn a_lift_ends_no_block_that_begins_after_it_and_none_without_it() {
    let limit = leased("daily", window(3, Duration::from_hours(24)));
    let mut fleet = Fleet::new(2, &[limit.block_on_exceed(Duration::from_mins(10))]);
    block(&fleet, 0, Duration::from_mins(1));
    follow_blocks(&fleet, 1);
    block(&fleet, 0, Duration::ZERO);
    assert_eq!(follow_blocks(&fleet, 1), 1);
    // Both use the limit up, which blocks the key there.
    for at in [0, 1] {
        fleet.burst(at);
        assert!(is_blocked(&mut fleet, at));
        assert_eq!(follow_blocks(&fleet, at), 0, "the lift is made once");
        assert!(is_blocked(&mut fleet, at), "at member {at}");
    }
    // An operator lifts it everywhere, also where the member itself has set it.
    block(&fleet, 0, Duration::ZERO);
    fleet.pass(Duration::from_secs(1));
    block(&fleet, 0, Duration::ZERO);
    assert_eq!(follow_blocks(&fleet, 1), 1);
    assert!(fleet.members[1].blocks(fleet.now()).is_empty());

    // A store without its data lifts nothing.
    block(&fleet, 0, Duration::from_mins(1));
    follow_blocks(&fleet, 1);
    assert_eq!(fleet.members[1].lift_blocks(&[], fleet.now()), 0);
    assert!(is_blocked(&mut fleet, 1));
}

#[test]
fn a_member_does_not_make_its_own_lift_again() {
    let limit = leased("daily", window(3, Duration::from_hours(24)));
    let mut fleet = Fleet::new(2, &[limit.block_on_exceed(Duration::from_mins(10))]);
    block(&fleet, 0, Duration::from_mins(1));
    // The notes were read before the lift, and are followed after it.
    let read_before = fleet.store.notes_now(NoteKind::LiftedBlock);
    block(&fleet, 0, Duration::ZERO);
    assert_eq!(fleet.members[0].lift_blocks(&read_before, fleet.now()), 0);
    fleet.burst(0);
    assert_eq!(follow_blocks(&fleet, 0), 0);
    assert!(is_blocked(&mut fleet, 0), "the limit is exceeded since");
}

#[test]
fn a_reset_lifts_a_block_at_the_other_members_too() {
    let mut fleet = day(50);
    let reset = |fleet: &Fleet| {
        let reset = fleet.members[0].reset(&Request::new("api", &ADA), None, fleet.now()).unwrap();
        fleet.carry(0, reset);
    };
    reset(&fleet);
    assert!(fleet.store.notes_now(NoteKind::LiftedBlock).is_empty(), "there was none to lift");
    block(&fleet, 0, Duration::from_mins(1));
    follow_blocks(&fleet, 1);
    reset(&fleet);
    assert_eq!(follow_blocks(&fleet, 1), 1);
    assert!(fleet.admit(1, 1).is_some());
}

#[test]
fn whoever_exceeds_a_leased_limit_that_blocks_is_blocked() {
    let limit = leased("daily", window(3, Duration::from_hours(24)));
    let mut fleet = Fleet::new(1, &[limit.block_on_exceed(Duration::from_mins(10))]);
    assert_eq!(fleet.burst(0), 3);
    let refusal = fleet.ask(0, 1).unwrap_err();
    let until = fleet.now().saturating_add(Duration::from_mins(10));
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(until)));
}

#[test]
fn a_report_that_leaves_nothing_of_a_leased_limit_blocks_the_key_at_the_member() {
    let limit = leased("daily", window(3, Duration::from_hours(24)));
    let mut fleet = Fleet::new(1, &[limit.block_on_exceed(Duration::from_mins(10))]);
    let until = fleet.now().saturating_add(Duration::from_mins(10));
    for left in [2, 1, 0] {
        let report = fleet.members[0].report(&Request::new("api", &ADA), fleet.now()).unwrap();
        assert_eq!(fleet.carry(0, report)[0].remaining, left);
    }
    let refusal = fleet.ask(0, 1).unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(until)));
}

#[test]
fn what_is_tried_again_is_no_demand() {
    let mut fleet = day(100);
    for _ in 0..200 {
        let mut request = Request::new("api", &ADA);
        request.attempt = 1;
        let _ = fleet.decide(0, &request);
    }
    let views = fleet.members[0].leases(1, fleet.now()).leases;
    assert_eq!(views[0].demand, 0);
}

#[test]
fn tokens_that_find_no_place_any_more_reach_the_ledger() {
    let mut fleet = day(40);
    let permit = fleet.admit(0, 30).unwrap();
    // By then its lease has ended, and what was left of it was given back.
    fleet.pass(Duration::from_mins(1));
    fleet.settle(0, permit, Outcome::Cancelled);
    assert_eq!(rest(&mut fleet), 40);
}
