//! Leases while the store is silent.

use core::time::Duration;

use tidegate::limit::OnStoreFailure;
use tidegate::{Reason, Retry};

use super::{Fleet, failing, per_second, window};

#[test]
fn a_cold_key_without_the_store_does_as_its_limit_says() {
    let rate = per_second(1000);
    let mut refuses = Fleet::new(1, &[failing("rate", rate.clone(), OnStoreFailure::Refuse)]);
    refuses.is_down = true;
    let refusal = refuses.ask(0, 1).unwrap_err();
    assert_eq!(refusal.reason(), Reason::StoreUnavailable);
    assert!(matches!(refusal.retry(), Retry::At(until) if until > refuses.now()));
    assert!(refusal.detail.as_deref().unwrap().contains("did not answer"), "{refusal:?}");

    let mut allows = Fleet::new(1, &[failing("rate", rate.clone(), OnStoreFailure::Allow)]);
    allows.is_down = true;
    for _ in 0..5000 {
        assert!(allows.admit(0, 1).is_some());
    }

    let mut shares = Fleet::new(1, &[failing("rate", rate, OnStoreFailure::Local)]);
    let _ = shares.members[0].with_members(4).unwrap();
    shares.is_down = true;
    let mut admitted = 0;
    for _ in 0..10_000 {
        shares.pass(Duration::from_millis(1));
        admitted += u64::from(shares.admit(0, 1).is_some());
    }
    // A quarter of a thousand a second.
    assert!((2300..=2600).contains(&admitted), "{admitted}");
}

#[test]
fn a_hot_key_goes_on_at_its_rate_while_the_store_is_silent_and_is_full_again_after() {
    let mut fleet = Fleet::new(2, &[failing("rate", per_second(1000), OnStoreFailure::Local)]);
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
    for at in 0..20 {
        let admitted = second(&mut fleet);
        assert!((900..=1010).contains(&admitted), "{admitted} in second {at} without the store");
    }
    fleet.is_down = false;
    for _ in 0..10 {
        second(&mut fleet);
    }
    let admitted = second(&mut fleet);
    // What is not leased of a period comes in one piece now and then.
    assert!((980..=1080).contains(&admitted), "{admitted} a while after");
}

#[test]
fn of_a_quota_nothing_is_spent_that_was_not_lent() {
    let quota = window(100, Duration::from_hours(24));
    let mut fleet = Fleet::new(1, &[failing("daily", quota, OnStoreFailure::Local)]);
    assert!(fleet.admit(0, 1).is_some());
    let said = fleet.members[0].leases(1, fleet.now());
    let in_hand = said.tokens;
    assert_eq!(said.leases[0].tokens, in_hand);
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
