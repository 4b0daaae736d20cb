use core::time::Duration;

use proptest::prelude::*;

use super::*;

mod oracle;
mod threads;

pub(super) fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

pub(super) fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// A limit for each window of `window_ns` nanoseconds, at least the shortest there is.
pub(super) fn rolling(limit: u64, window_ns: u64) -> Rolling {
    Rolling::new(limit, Duration::from_nanos(window_ns)).unwrap()
}

const HOUR: u64 = 3_600_000_000_000;

/// A ring in a budget that is never the issue.
struct Bench {
    rings: Rings,
    ring: RingHandle,
}

impl Bench {
    fn new() -> Self {
        let rings = Rings::new(1 << 16);
        let ring = rings.create().unwrap();
        Self { rings, ring }
    }

    fn admit(&self, limit: &Rolling, units: u64, now: u64) -> Result<RingCharge, RingRefusal> {
        self.rings.admit(self.ring, limit, cost(units), at(now))
    }

    fn decide(&self, limit: &Rolling, units: u64, now: u64) -> Verdict {
        self.rings.decide(self.ring, limit, cost(units), at(now)).unwrap()
    }

    fn used(&self, limit: &Rolling, now: u64) -> u64 {
        self.rings.used(self.ring, limit, at(now)).unwrap()
    }
}

#[test]
fn waiting_exactly_as_told_is_enough_and_one_nanosecond_less_is_not() {
    for window in [1_000, 1 << 31, (1 << 31) + 1, HOUR, 366 * 24 * HOUR] {
        let (bench, limit) = (Bench::new(), rolling(3, window));
        let start = 1_795_210_800_123_456_789;
        for (units, now) in [(2, start), (1, start + window / 3)] {
            bench.admit(&limit, units, now).unwrap();
        }
        for units in 1..=3 {
            let Verdict::Wait { until } = bench.decide(&limit, units, start + window / 2) else {
                panic!("{units} of 3 units admitted beside 3");
            };
            let until = until.as_nanos();
            assert_ne!(bench.decide(&limit, units, until - 1), Verdict::Admit);
            assert_eq!(bench.decide(&limit, units, until), Verdict::Admit);
            let last = if units == 3 { start + window / 3 } else { start };
            assert!(until >= last + window, "a unit left early");
            assert!(until - (last + window) <= window >> 30, "a unit left late by more than a tick");
        }
    }
}

#[test]
fn a_cost_above_the_limit_is_never_admitted() {
    let bench = Bench::new();
    assert_eq!(bench.decide(&rolling(3, HOUR), 4, 0), Verdict::Never { largest: 3 });
    assert_eq!(bench.decide(&rolling(0, HOUR), 1, 0), Verdict::Never { largest: 0 });
    assert_eq!(bench.decide(&rolling(3, HOUR), u64::MAX, 0), Verdict::Never { largest: 3 });
}

#[test]
fn a_raised_limit_admits_the_difference_and_a_lowered_one_forgets_nothing() {
    let bench = Bench::new();
    let (low, high) = (rolling(5, HOUR), rolling(20, HOUR));
    bench.admit(&high, 15, 0).unwrap();
    assert!(matches!(bench.decide(&low, 1, 1), Verdict::Wait { until } if until == at(HOUR + 1)
        || until.as_nanos() - HOUR <= HOUR >> 30));
    assert_eq!(bench.used(&low, 1), 15);
    assert_eq!(bench.decide(&high, 5, 1), Verdict::Admit);
    assert_ne!(bench.decide(&high, 6, 1), Verdict::Admit);
}

#[test]
fn a_refusal_writes_nothing() {
    let bench = Bench::new();
    let limit = rolling(2, HOUR);
    bench.admit(&limit, 2, 10).unwrap();
    let header = bench.rings.space.header(0).unwrap();
    let before = format!("{header:?}");
    for now in [0, 10, 11, HOUR] {
        bench.admit(&limit, 1, now).unwrap_err();
        bench.admit(&limit, 3, now).unwrap_err();
        bench.decide(&rolling(1, 5_000), 1, now);
    }
    assert_eq!(format!("{header:?}"), before);
}

#[test]
fn a_step_back_admits_nothing_more_and_a_jump_ahead_one_window() {
    let (bench, limit) = (Bench::new(), rolling(4, 1_000));
    bench.admit(&limit, 2, 5_000).unwrap();
    assert_eq!(bench.admit(&limit, 2, 100).unwrap().at(), at(5_000));
    for now in [0, 100, 5_000, 5_999] {
        assert_eq!(bench.decide(&limit, 1, now), Verdict::Wait { until: at(6_000) });
    }
    bench.admit(&limit, 4, 10 * HOUR).unwrap();
    assert_ne!(bench.decide(&limit, 1, 6_000), Verdict::Admit);
    assert_ne!(bench.decide(&limit, 1, 10 * HOUR + 999), Verdict::Admit);
}

#[test]
fn an_idle_ring_neither_keeps_nor_resurrects_what_is_old() {
    // The low 32 bits of a tick come again every 2^32 ticks.
    for window in [1_000, 1 << 31, HOUR] {
        let tick = ticks::Ticks::from_window(window).start(1);
        for laps in [1_u64, 2, 3, 1_000] {
            let (bench, limit) = (Bench::new(), rolling(2, window));
            bench.admit(&limit, 2, window).unwrap();
            let later = window + (tick << 32) * laps;
            for now in [later - window / 2, later, later + window / 2] {
                assert_eq!(bench.used(&limit, now), 0);
                assert_eq!(bench.decide(&limit, 2, now), Verdict::Admit);
            }
            bench.admit(&limit, 1, later).unwrap();
            assert_eq!(bench.used(&limit, later), 1);
        }
    }
}

#[test]
fn an_undone_jump_ahead_takes_nothing_away() {
    let (bench, limit) = (Bench::new(), rolling(3, 1_000));
    bench.admit(&limit, 3, 5_000).unwrap();
    let jump = bench.admit(&limit, 1, 366 * 24 * HOUR).unwrap();
    assert!(bench.rings.undo(bench.ring, &jump, at(0)));
    assert_eq!(bench.decide(&limit, 1, 5_999), Verdict::Wait { until: at(6_000) });
    assert_eq!(bench.used(&limit, 5_999), 3);
}

/// Seven units of a limit of seven, in a range of eight.
fn nearly_full_range() -> (Bench, Rolling) {
    let (bench, limit) = (Bench::new(), rolling(7, 1_000));
    for now in [0, 900, 901, 902, 903, 904, 905] {
        bench.admit(&limit, 1, now).unwrap();
    }
    let (record, _) = bench.rings.space.header(0).unwrap().read(|record| record);
    assert_eq!((record.span.len, record.range.len), (7, 8));
    (bench, limit)
}

#[test]
fn what_two_nested_charges_wrote_over_is_not_counted_when_both_are_undone() {
    let (bench, limit) = nearly_full_range();
    let outer = bench.admit(&limit, 1, 1_000).unwrap();
    // Takes the slot of the unit of 0, which had left when the outer one came.
    let inner = bench.admit(&limit, 1, 1_900).unwrap();
    assert!(bench.rings.undo(bench.ring, &inner, at(1_900)));
    assert!(bench.rings.undo(bench.ring, &outer, at(1_900)));
    assert_eq!(bench.used(&limit, 1_899), 6);
    assert_eq!(bench.used(&limit, 1_904), 1);
    // Before 1000 the unit of 0 would count; as it is no longer recorded, time must have stayed
    // there.
    assert!(bench.used(&limit, 950) == 7 || bench.admit(&limit, 1, 950).unwrap().at() >= at(1_000));
}

#[test]
fn what_a_charge_after_a_jump_ahead_wrote_over_is_not_counted_when_both_are_undone() {
    let (bench, limit) = nearly_full_range();
    let jump = bench.admit(&limit, 1, 1 << 33).unwrap();
    let next = bench.admit(&limit, 1, (1 << 33) + 1).unwrap();
    assert!(bench.rings.undo(bench.ring, &next, at(1 << 33)));
    assert!(bench.rings.undo(bench.ring, &jump, at(1 << 33)));
    assert_eq!(bench.used(&limit, 2_000), 0);
    assert_eq!(bench.admit(&limit, 7, 950).unwrap().at(), at(1 << 33));
}

#[test]
fn reports_go_into_debt_of_one_further_limit_and_no_deeper() {
    let (bench, limit) = (Bench::new(), rolling(10, HOUR));
    let charge = |units| bench.rings.charge(bench.ring, &limit, cost(units), at(0)).unwrap().units();
    assert_eq!(charge(7), 7);
    assert_eq!(charge(7), 7);
    assert_eq!(charge(u64::MAX), 6);
    assert_eq!(charge(1), 0);
    assert_eq!(bench.used(&limit, 0), 20);
    assert_eq!(bench.rings.remaining(bench.ring, &limit, at(0)), Some(0));
    assert_eq!(bench.decide(&limit, 1, HOUR - 1), Verdict::Wait { until: at(HOUR) });
}

#[test]
fn a_charge_of_nothing_is_undone_without_a_trace() {
    let (bench, limit) = (Bench::new(), rolling(1, HOUR));
    for _ in 0..2 {
        bench.rings.charge(bench.ring, &limit, cost(1), at(0)).unwrap();
    }
    let nothing = bench.rings.charge(bench.ring, &limit, cost(1), at(5)).unwrap();
    assert_eq!(nothing.units(), 0);
    assert!(bench.rings.undo(bench.ring, &nothing, at(5)));
    assert_eq!(bench.used(&limit, 5), 2);
}

#[test]
fn undoing_in_any_order_takes_out_exactly_what_was_charged() {
    let (bench, limit) = (Bench::new(), rolling(100, 1_000));
    let charges: Vec<RingCharge> = (0..6).map(|n| bench.admit(&limit, n + 1, 100 * n).unwrap()).collect();
    let mut left: Vec<u64> = (0..6).collect();
    for gone in [3, 0, 5, 2] {
        assert!(bench.rings.undo(bench.ring, &charges[gone as usize], at(600)));
        left.retain(|&n| n != gone);
        for now in (0..1_700).step_by(50) {
            let now = now.max(500);
            let expected: u64 = left.iter().filter(|&&n| 100 * n + 1_000 > now).map(|n| n + 1).sum();
            assert_eq!(bench.used(&limit, now), expected);
        }
    }
}

#[test]
fn a_refund_takes_out_the_newest_and_no_more_than_there_is() {
    let (bench, limit) = (Bench::new(), rolling(10, 1_000));
    bench.admit(&limit, 3, 0).unwrap();
    bench.admit(&limit, 2, 500).unwrap();
    assert!(bench.rings.refund(bench.ring, &limit, cost(1), at(500)));
    assert_eq!((bench.used(&limit, 500), bench.used(&limit, 1_000)), (4, 1));
    assert!(bench.rings.refund(bench.ring, &limit, cost(u64::MAX), at(500)));
    assert_eq!(bench.used(&limit, 500), 0);
    assert!(!bench.rings.refund(bench.ring, &limit, cost(1), at(500)));
}

#[test]
fn a_changed_window_counts_what_is_recorded() {
    let bench = Bench::new();
    let (short, long) = (rolling(5, 1_000), rolling(5, HOUR));
    bench.admit(&short, 2, 0).unwrap();
    bench.admit(&short, 2, 1_500).unwrap();
    assert_eq!(bench.used(&short, 1_600), 2);
    assert_eq!(bench.used(&long, 1_600), 4);
    bench.admit(&long, 1, 1_600).unwrap();
    assert_eq!(bench.used(&long, 1_600), 5);
    assert_eq!(bench.decide(&long, 1, HOUR - 1), Verdict::Wait { until: at(HOUR) });
    // The long window has rounded them up to its ticks.
    let tick = ticks::Ticks::from_window(HOUR).start(1);
    assert_eq!(bench.used(&short, 2_600 + tick), 0);
}

#[test]
fn reset_is_when_the_newest_has_left() {
    let (bench, limit) = (Bench::new(), rolling(5, 1_000));
    assert_eq!(bench.rings.reset_at(bench.ring, &limit, at(7)), Some(at(7)));
    bench.admit(&limit, 1, 100).unwrap();
    bench.admit(&limit, 1, 400).unwrap();
    assert_eq!(bench.rings.reset_at(bench.ring, &limit, at(500)), Some(at(1_400)));
    assert_eq!(bench.rings.reset_at(bench.ring, &limit, at(1_400)), Some(at(1_400)));
}

#[test]
fn only_a_drained_ring_is_reclaimed_and_its_handle_is_stale_from_then_on() {
    let (bench, limit) = (Bench::new(), rolling(5, 1_000));
    let (rings, ring) = (&bench.rings, bench.ring);
    let charge = bench.admit(&limit, 1, 100).unwrap();
    assert!(!rings.is_drained(ring, at(1_099)));
    assert!(!rings.reclaim_if_drained(ring, at(1_099)));
    // Before the last charge it is not known which instants have drained.
    assert!(!rings.reclaim_if_drained(ring, at(0)));
    assert!(rings.is_drained(ring, at(1_100)));
    assert!(rings.reclaim_if_drained(ring, at(1_100)));
    let used = rings.bytes_used();

    let again = rings.create().unwrap();
    assert_ne!(again, ring);
    rings.admit(again, &limit, cost(5), at(1_100)).unwrap();
    assert_eq!(rings.decide(ring, &limit, cost(1), at(1_100)), None);
    assert_eq!(rings.admit(ring, &limit, cost(1), at(1_100)), Err(RingRefusal::Stale));
    assert_eq!(rings.charge(ring, &limit, cost(1), at(1_100)), Err(RingRefusal::Stale));
    assert_eq!(rings.used(ring, &limit, at(1_100)), None);
    assert!(!rings.undo(ring, &charge, at(1_100)));
    assert!(!rings.refund(ring, &limit, cost(1), at(1_100)));
    assert!(rings.is_drained(ring, at(0)));
    rings.reclaim(ring);
    assert_eq!(rings.used(again, &limit, at(1_100)), Some(5));
    rings.reclaim(again);
    assert_eq!(rings.bytes_used(), used);
}

#[test]
fn a_ring_that_was_undone_to_empty_is_drained_only_at_its_last_instant() {
    let (bench, limit) = (Bench::new(), rolling(1, 1_000));
    bench.admit(&limit, 1, 0).unwrap();
    bench.admit(&limit, 1, 1_000).unwrap();
    assert!(bench.rings.refund(bench.ring, &limit, cost(1), at(1_000)));
    assert!(!bench.rings.is_drained(bench.ring, at(999)));
    assert!(bench.rings.is_drained(bench.ring, at(1_000)));
}

#[test]
fn a_range_grows_as_needed_and_shrinks_when_a_lowered_limit_leaves_it_empty() {
    let rings = Rings::new(1 << 20);
    let (ring, bare) = (rings.create().unwrap(), rings.bytes_used());
    let (high, low) = (rolling(10_000, 1_000), rolling(10, 1_000));
    rings.admit(ring, &high, cost(1), at(0)).unwrap();
    assert!(rings.bytes_used() - bare <= 8 * 4, "a ring starts small");
    for _ in 1..10_000 {
        rings.admit(ring, &high, cost(1), at(0)).unwrap();
    }
    assert!(rings.bytes_used() - bare <= 10_004 * 4, "{} bytes", rings.bytes_used() - bare);
    for now in 1..20 {
        rings.admit(ring, &low, cost(1), at(1_000 * now)).unwrap();
    }
    assert!(rings.bytes_used() - bare <= 12 * 4, "{} bytes", rings.bytes_used() - bare);
}

#[test]
fn the_budget_is_never_passed_and_what_is_reclaimed_is_used_again() {
    for bytes in [0, 100, 300, 5_000, 100_000] {
        let rings = Rings::new(bytes);
        let limit = rolling(50, 1_000);
        let (mut handles, mut full) = (Vec::new(), 0);
        while let Some(ring) = rings.create() {
            for _ in 0..50 {
                full += u64::from(rings.admit(ring, &limit, cost(1), at(0)) == Err(RingRefusal::Full));
            }
            handles.push(ring);
            assert!(rings.bytes_used() <= bytes);
        }
        assert!(handles.len() <= bytes / 2 / 112);
        assert!(bytes < 5_000 || full > 0, "half the budget for headers leaves some rings short");
        for ring in handles.drain(..) {
            assert!(rings.reclaim_if_drained(ring, at(1_000)));
        }
        assert_eq!(rings.bytes_used(), 0);
    }
}

#[test]
fn a_ring_that_cannot_grow_refuses_as_full_and_goes_on_when_something_has_left() {
    let rings = Rings::new(256);
    let limit = rolling(100, 1_000);
    let ring = rings.create().unwrap();
    let mut admitted = 0;
    while rings.admit(ring, &limit, cost(1), at(admitted)).is_ok() {
        admitted += 1;
    }
    assert!(admitted >= 8);
    assert_eq!(rings.used(ring, &limit, at(admitted)), Some(admitted));
    let before = format!("{:?}", rings.space.header(0).unwrap());
    assert_eq!(rings.admit(ring, &limit, cost(1), at(999)), Err(RingRefusal::Full));
    let words = |debug: &str| debug.split_once("turn").unwrap().1.to_owned();
    assert_eq!(words(&format!("{:?}", rings.space.header(0).unwrap())), words(&before));

    // The first unit has left by now, though not at the last charge.
    let charge = rings.admit(ring, &limit, cost(1), at(1_000)).unwrap();
    assert!(rings.undo(ring, &charge, at(1_000)));
    assert_eq!(rings.admit(ring, &limit, cost(1), at(0)).unwrap().at(), at(1_000));
}

#[test]
fn time_at_its_end_never_admits_more() {
    for window in [1_000, HOUR, 366 * 24 * HOUR] {
        let (bench, limit) = (Bench::new(), rolling(3, window));
        bench.admit(&limit, 2, u64::MAX - 5).unwrap();
        bench.admit(&limit, 1, u64::MAX).unwrap();
        assert!(matches!(bench.decide(&limit, 1, u64::MAX), Verdict::Wait { .. }));
        assert_eq!(bench.used(&limit, u64::MAX), 3);
    }
}

proptest! {
    #[test]
    fn a_handle_survives_its_bits(bits: u64) {
        if let Some(handle) = RingHandle::from_bits(bits) {
            prop_assert_eq!(handle.to_bits().get(), bits);
        } else {
            prop_assert_eq!(bits as u32, 0);
        }
    }
}
