use core::time::Duration;

use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

fn of(limit: u64, hold: u64) -> Concurrency {
    Concurrency::new(limit, Duration::from_secs(hold)).unwrap()
}

fn taken(limit: &Concurrency, by: &[(u128, u64)]) -> PermitSet {
    let mut set = PermitSet::default();
    for (holder, seconds) in by {
        assert_eq!(set.acquire(limit, HolderId(*holder), RequestId(*holder), at(*seconds)), Acquired::Taken);
    }
    set
}

#[test]
fn no_more_are_held_than_the_limit_and_the_wait_is_for_the_first_to_expire() {
    let two = of(2, 10);
    let mut set = taken(&two, &[(1, 0), (2, 3)]);
    let until = at(10);
    let third = |set: &mut PermitSet, now| set.acquire(&two, HolderId(3), RequestId(3), now);
    assert_eq!(third(&mut set, at(5)), Acquired::Refused(Verdict::Wait { until }));
    let just_before = Timestamp::from_nanos(until.as_nanos() - 1);
    assert_eq!(third(&mut set, just_before), Acquired::Refused(Verdict::Wait { until }));
    assert_eq!(third(&mut set, until), Acquired::Taken);
    assert_eq!((set.held(until), set.holders.len(), set.expiries.len()), (2, 2, 2));
}

#[test]
fn a_lowered_limit_waits_until_enough_have_expired() {
    let set = taken(&of(4, 10), &[(1, 0), (2, 1), (3, 2), (4, 3)]);
    assert_eq!(set.decide(&of(2, 10), at(4)), Verdict::Wait { until: at(12) });
    assert_eq!(set.decide(&of(5, 10), at(4)), Verdict::Admit);
    assert_eq!(set.decide(&of(0, 10), at(4)), Verdict::Never { largest: 0 });
}

#[test]
fn a_renewed_permit_never_ends_earlier() {
    let mut set = taken(&of(1, 100), &[(1, 0)]);
    assert_eq!(set.acquire(&of(1, 10), HolderId(1), RequestId(9), at(5)), Acquired::Renewed);
    assert_eq!(set.reset_at(at(5)), at(100));
    assert_eq!(set.acquire(&of(1, 100), HolderId(1), RequestId(9), at(5)), Acquired::Renewed);
    assert_eq!(set.reset_at(at(5)), at(105));
}

#[test]
fn only_the_batch_that_took_a_permit_takes_it_back() {
    let mut set = taken(&of(2, 10), &[(1, 0)]);
    assert!(!set.release_taken_by(HolderId(1), RequestId(2), at(1)));
    assert!(!set.release_taken_by(HolderId(2), RequestId(1), at(1)));
    assert!(set.release_taken_by(HolderId(1), RequestId(1), at(1)));
    assert!(set.is_empty() && set == PermitSet::default());
}

#[test]
fn an_expired_permit_given_back_was_none() {
    let mut set = taken(&of(1, 10), &[(1, 0)]);
    assert!(!set.release(HolderId(1), at(10)));
    let mut set = taken(&of(1, 10), &[(1, 0)]);
    assert!(set.release(HolderId(1), at(9)));
}

#[test]
fn only_permits_from_more_than_a_hold_ahead_are_brought_back() {
    let ten = of(3, 10);
    let mut set = taken(&ten, &[(1, 39), (2, 40), (3, 41)]);
    assert!(!set.bring_back(&ten, at(41), at(31)));
    assert_eq!(set.reset_at(at(31)), at(51), "taken ten seconds ahead, within a hold");
    assert!(!set.bring_back(&ten, at(5), at(5)), "of a longer hold, taken now");
    assert!(set.clone().bring_back(&ten, Timestamp::MIN, at(5)), "when they were taken is not known");
    assert!(set.bring_back(&ten, at(41), at(5)));
    assert_eq!((set.held(at(5)), set.reset_at(at(5)), set.held(at(15))), (3, at(15), 0));
}
