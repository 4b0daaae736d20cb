//! Leases while the store is silent.

use core::time::Duration;

use tidegate_core::limit::OnStoreFailure;
use tidegate_core::{Reason, Retry};

use super::{Fleet, failing, per_second, window};
use crate::world::bucket;

#[test]
fn a_cold_key_without_the_store_does_as_its_limit_says() {
    let rate = per_second(1000);
    let mut refuses = Fleet::new(1, &[failing("rate", rate.clone(), OnStoreFailure::Refuse)]);
    refuses.is_down = true;
    let refusal = refuses.ask(0, 1).unwrap_err();
    assert_eq!(refusal.reason(), Reason::StoreUnavailable);
    assert!(matches!(refusal.retry(), Retry::At(until) if until > refuses.now()));
    assert!(refusal.detail.as_deref().unwrap().starts_with("away: "), "{refusal:?}");

    let mut allows = Fleet::new(1, &[failing("rate", rate.clone(), OnStoreFailure::Allow)]);
    allows.is_down = true;
    for _ in 0..5000 {
        let permit = allows.admit(0, 1).unwrap();
        assert_eq!(allows.members[0].statuses(&permit), [], "nobody knows what is left");
    }

    let mut shares = Fleet::new(1, &[failing("rate", rate, OnStoreFailure::Local)]);
    let _ = shares.members[0].with_members(4).unwrap();
    shares.is_down = true;
    let mut admitted = 0;
    for _ in 0..10_000 {
        shares.pass(Duration::from_millis(1));
        admitted += u64::from(shares.admit(0, 1).is_some());
    }
    // A quarter of a thousand at once, and a quarter of a thousand a second.
    assert!((2740..=2751).contains(&admitted), "{admitted}");
}

#[test]
fn members_go_on_by_their_shares_while_the_store_is_silent_and_by_leases_afterwards() {
    let mut fleet = Fleet::new(2, &[failing("rate", per_second(1000), OnStoreFailure::Local)]);
    for member in &fleet.members {
        let _ = member.with_members(2).unwrap();
    }
    let second = |fleet: &mut Fleet| {
        let mut admitted = 0;
        for _ in 0..1000 {
            fleet.pass(Duration::from_millis(1));
            for member in [0, 1] {
                admitted += u64::from(fleet.admit(member, 1).is_some());
            }
        }
        admitted
    };
    for _ in 0..10 {
        second(&mut fleet);
    }
    fleet.is_down = true;
    let mut admitted = 0;
    for at in 0..20 {
        let in_second = second(&mut fleet);
        // Leases last until they end, and then each member has half of the burst once.
        assert!((950..=2_010).contains(&in_second), "{in_second} in second {at} without the store");
        assert!(at < 6 || in_second <= 1_002, "{in_second} in second {at} without the store");
        admitted += in_second;
    }
    assert!(admitted <= 21_500, "{admitted}");
    fleet.is_down = false;
    for _ in 0..10 {
        second(&mut fleet);
    }
    let admitted = second(&mut fleet);
    // The part of a period that is not leased comes in one piece now and then.
    assert!((980..=1080).contains(&admitted), "{admitted} a while after");
}

#[test]
fn of_a_quota_that_refuses_without_its_store_nothing_is_spent_that_was_not_granted() {
    let quota = window(100, Duration::from_hours(24));
    let mut fleet = Fleet::new(1, &[failing("daily", quota, OnStoreFailure::Refuse)]);
    assert!(fleet.admit(0, 1).is_some());
    let said = fleet.members[0].leases(1, fleet.now());
    let in_hand = said.tokens;
    fleet.is_down = true;
    assert_eq!(fleet.burst(0), in_hand);
    let refusal = fleet.ask(0, 1).unwrap_err();
    assert_eq!(refusal.reason(), Reason::StoreUnavailable, "it is not the caller who is over: {refusal:?}");
    fleet.is_down = false;
    let mut admitted = 1 + in_hand;
    for _ in 0..600 {
        fleet.pass(Duration::from_millis(100));
        admitted += fleet.burst(0);
    }
    assert_eq!(admitted, 100);
}

#[test]
fn a_member_alone_says_store_unavailable_until_it_has_admitted_the_whole_limit_and_rate_exceeded_from_then_on()
 {
    let minute = bucket(5, Duration::from_mins(1));
    for (members, limit, admitted, reason) in [
        (1, minute.clone(), 5, Reason::RateExceeded),
        // Ten units, or all of the limit, are in every share.
        (3, minute, 5, Reason::RateExceeded),
        (4, bucket(100, Duration::from_secs(1)), 25, Reason::StoreUnavailable),
        (50, bucket(100, Duration::from_secs(1)), 10, Reason::StoreUnavailable),
    ] {
        let mut fleet = Fleet::new(1, &[failing("rate", limit, OnStoreFailure::Local)]);
        let _ = fleet.members[0].with_members(members).unwrap();
        fleet.is_down = true;
        assert_eq!(fleet.burst(0), admitted, "{members}");
        let refusal = fleet.ask(0, 1).unwrap_err();
        assert_eq!(refusal.reason(), reason, "{members} {refusal:?}");
    }
}

#[test]
fn each_silence_begins_with_a_full_share_and_one_silence_has_one() {
    let mut fleet =
        Fleet::new(1, &[failing("rate", bucket(5, Duration::from_mins(1)), OnStoreFailure::Local)]);
    fleet.is_down = true;
    assert_eq!(fleet.burst(0), 5);
    for _ in 0..11 {
        fleet.pass(Duration::from_secs(1));
        assert_eq!(fleet.burst(0), 0, "the share is used, and twelve seconds have not passed");
    }
    fleet.is_down = false;
    fleet.pass(Duration::from_millis(900));
    // Requests that a member admitted without the store are not reported.
    assert!((4..=5).contains(&fleet.burst(0)));
    fleet.is_down = true;
    // It begins with the first ask that is not answered.
    fleet.pass(Duration::from_secs(1));
    assert_eq!(fleet.burst(0), 5, "the next silence");
}

#[test]
fn a_holder_that_lives_without_the_store_is_kept_as_long_as_it_is_asked_for() {
    let mut fleet = Fleet::new(1, &[failing("rate", per_second(1000), OnStoreFailure::Local)]);
    for _ in 0..3000 {
        fleet.pass(Duration::from_millis(1));
        fleet.admit(0, 1);
    }
    fleet.is_down = true;
    for _ in 0..20_000 {
        fleet.pass(Duration::from_millis(1));
        fleet.admit(0, 1);
    }
    assert_eq!(fleet.members[0].lease_totals().unwrap().holders, 1);
    fleet.pass(Duration::from_mins(1));
    fleet.pass(Duration::from_mins(1));
    assert_eq!(fleet.members[0].lease_totals().unwrap().holders, 0, "nobody asks for it any more");
}
