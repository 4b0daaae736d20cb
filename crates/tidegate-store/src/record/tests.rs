use core::time::Duration;

use tidegate_core::Rate;
use tidegate_core::algorithm::{Concurrency, Rolling};

use super::*;
use crate::Key;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn bucket(burst: u64) -> Algorithm {
    Algorithm::bucket(Rate::new(burst, Duration::from_mins(1)).unwrap()).unwrap()
}

fn concurrency() -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(3, Duration::from_mins(1)).unwrap())
}

fn on(algorithm: &Algorithm, kind: Kind) -> Operation {
    Operation::new(Key::new("api", b"limit", b"ada").unwrap(), algorithm.clone(), kind)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn apply(record: &mut Record, operation: &Operation, now: Timestamp) -> Applied {
    record.apply(operation, RequestId(1), &[], now)
}

#[test]
fn another_algorithm_finds_a_key_empty_and_takes_it_over_with_a_charge() {
    let mut record = Record::new(bucket(10), RequestId(0));
    let until = NOW.saturating_add(Duration::from_secs(1));
    apply(&mut record, &on(&bucket(10), Kind::Check { cost: cost(4) }), NOW);
    let before = record.clone();
    let permits = concurrency();
    for kind in [
        Kind::Peek { cost: Cost::ONE },
        Kind::Release { holder: HolderId(1) },
        Kind::Undo { batch: RequestId(1) },
    ] {
        assert_eq!(apply(&mut record, &on(&permits, kind), NOW).units, 0);
        assert_eq!(record, before, "{kind:?}");
    }
    assert_eq!(record.status(&permits, NOW).used, 0);
    apply(&mut record, &on(&permits, Kind::Block { until }), NOW);
    assert_eq!(record.status(&bucket(10), NOW).used, 4, "a block changes no usage");
    let acquire = on(&permits, Kind::Acquire { holder: HolderId(1) });
    assert_eq!(apply(&mut record, &acquire, NOW).verdict, Verdict::Wait { until }, "a block is on the key");
    assert_eq!(apply(&mut record, &acquire, until).units, 1);
    assert_eq!(record.status(&permits, until).used, 1);
    assert_eq!(record.status(&bucket(10), until).used, 0);
}

#[test]
fn a_shorter_window_keeps_nothing_for_longer_than_itself_after_a_step_back() {
    let rolling = |seconds| Algorithm::Rolling(Rolling::new(10, Duration::from_secs(seconds)).unwrap());
    let (hour, second) = (rolling(3600), rolling(1));
    let mut record = Record::new(hour.clone(), RequestId(0));
    let ahead = NOW.saturating_add(Duration::from_secs(4));
    apply(&mut record, &on(&hour, Kind::Check { cost: cost(3) }), ahead);
    // The hour explains an instant that lies four seconds ahead, the second does not.
    apply(&mut record, &on(&second, Kind::Report { cost: Cost::ONE }), NOW);
    let status = record.status(&second, NOW);
    assert_eq!((status.used, status.reset_at), (4, NOW.saturating_add(Duration::from_secs(1))));
}

#[test]
fn undoing_after_the_numbers_changed_gives_back_no_more_than_is_left_of_the_charge() {
    let (ten, twenty) = (bucket(10), bucket(20));
    let mut record = Record::new(ten.clone(), RequestId(0));
    let made = apply(&mut record, &on(&ten, Kind::Check { cost: cost(10) }), NOW).made.unwrap();
    // Half of it has drained when others charge under the new numbers.
    let later = NOW.saturating_add(Duration::from_secs(30));
    assert_eq!(apply(&mut record, &on(&twenty, Kind::Check { cost: cost(8) }), later).units, 8);
    assert_eq!(record.status(&twenty, later).used, 13);
    let undo = on(&ten, Kind::Undo { batch: RequestId(1) });
    assert_eq!(record.apply(&undo, RequestId(2), core::slice::from_ref(&made), later).units, 5);
    assert_eq!(record.status(&twenty, later).used, 8);
    // Later still nothing is left of it.
    let last = later.saturating_add(Duration::from_secs(30));
    apply(&mut record, &on(&twenty, Kind::Check { cost: cost(8) }), last);
    let used = record.status(&twenty, last).used;
    assert_eq!(record.apply(&undo, RequestId(3), &[made], last).units, 0);
    assert_eq!(record.status(&twenty, last).used, used);
}

#[test]
fn a_record_that_holds_nothing_says_so() {
    let ten = bucket(10);
    let mut record = Record::new(ten.clone(), RequestId(0));
    assert!(record.is_empty() && record.is_drained(NOW) && record.drained_at(NOW) == NOW);
    apply(&mut record, &on(&ten, Kind::Check { cost: cost(2) }), NOW);
    assert!(!record.is_empty() && !record.is_drained(NOW));
    let drained_at = record.drained_at(NOW);
    assert_eq!(drained_at, NOW.saturating_add(Duration::from_secs(12)));
    assert!(record.is_drained(drained_at) && !record.is_empty());
    apply(&mut record, &on(&ten, Kind::Refund { cost: cost(2) }), NOW);
    assert!(record.is_drained(NOW));
    apply(&mut record, &on(&ten, Kind::Reset), NOW);
    assert!(record.is_empty());
    let until = NOW.saturating_add(Duration::from_hours(1));
    apply(&mut record, &on(&ten, Kind::Block { until }), NOW);
    assert!(!record.is_empty() && !record.is_drained(NOW));
    assert_eq!(record.drained_at(NOW), until);
    assert!(record.is_drained(until));
}

#[test]
fn a_cost_that_never_fits_is_refused_for_good_even_when_blocked() {
    let ten = bucket(10);
    let mut record = Record::new(ten.clone(), RequestId(0));
    let until = NOW.saturating_add(Duration::from_hours(1));
    apply(&mut record, &on(&ten, Kind::Block { until }), NOW);
    let check = on(&ten, Kind::Check { cost: cost(11) });
    assert_eq!(record.verdict(&check, NOW), Verdict::Never { largest: 10 });
}

#[test]
fn a_refused_operation_leaves_the_record_as_it_was_even_under_new_numbers() {
    let (ten, five) = (bucket(10), bucket(5));
    let mut record = Record::new(ten.clone(), RequestId(0));
    apply(&mut record, &on(&ten, Kind::Check { cost: cost(8) }), NOW);
    let before = record.clone();
    let refused = apply(&mut record, &on(&five, Kind::Check { cost: cost(1) }), NOW);
    assert_ne!(refused.verdict, Verdict::Admit);
    assert_eq!(record, before);
}
