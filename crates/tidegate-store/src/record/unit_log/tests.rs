use super::*;

const WINDOW: Duration = Duration::from_nanos(10);

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000 + nanos)
}

fn rolling(limit: u64) -> Rolling {
    // The shortest window there is: a microsecond.
    Rolling::new(limit, Duration::from_micros(1)).unwrap()
}

fn charged(charges: &[(u64, u64)]) -> UnitLog {
    let mut log = UnitLog::default();
    for (nanos, units) in charges {
        log.charge(WINDOW, *units, at(*nanos));
    }
    log
}

#[test]
fn a_unit_leaves_one_window_after_it_came_and_not_a_nanosecond_before() {
    let log = charged(&[(0, 3)]);
    assert_eq!(log.used(WINDOW, at(9)), 3);
    assert_eq!(log.used(WINDOW, at(10)), 0);
    assert_eq!(log.reset_at(WINDOW, at(9)), at(10));
    assert_eq!(log.reset_at(WINDOW, at(10)), at(10));
}

#[test]
fn units_of_one_instant_are_one_entry() {
    let log = charged(&[(0, 500), (0, 500), (3, 1), (3, 2)]);
    assert_eq!(log.entries.len(), 2);
    assert_eq!(log.used(WINDOW, at(3)), 1003);
}

#[test]
fn a_wait_ends_with_the_unit_that_makes_room() {
    let rolling = rolling(6);
    let mut log = UnitLog::default();
    for (nanos, units) in [(0, 2), (100, 3), (200, 1)] {
        log.charge(rolling.window(), units, at(nanos));
    }
    for (cost, leaves) in [(1, 0), (2, 0), (3, 100), (5, 100), (6, 200)] {
        let until = at(1000 + leaves);
        assert_eq!(log.decide(&rolling, cost, at(300)), Verdict::Wait { until }, "{cost}");
        assert_eq!(log.decide(&rolling, cost, until), Verdict::Admit, "{cost}");
    }
    assert_eq!(log.decide(&rolling, 7, at(300)), Verdict::Never { largest: 6 });
}

#[test]
fn a_charge_forgets_what_has_left() {
    let mut log = charged(&[(0, 1), (5, 1), (9, 1)]);
    log.charge(WINDOW, 1, at(15));
    assert_eq!(log.entries.len(), 2, "{log:?}");
    assert_eq!(log.used(WINDOW, at(15)), 2);
}

#[test]
fn a_refund_takes_the_newest_units_across_entries() {
    let mut log = charged(&[(0, 3), (1, 3), (2, 3)]);
    assert_eq!(log.refund(WINDOW, 4, at(2)), 4);
    assert_eq!(log, charged(&[(0, 3), (1, 2)]));
    assert_eq!(log.refund(WINDOW, u64::MAX, at(10)), 2, "only what is still used");
    assert_eq!(log.refund(WINDOW, 1, at(10)), 0);
    assert_eq!(log.used(WINDOW, at(2)), 3, "what has left is not given back");
}

#[test]
fn taking_out_what_was_charged_leaves_what_came_before_and_after() {
    let mut log = charged(&[(0, 3), (1, 4), (2, 5)]);
    assert_eq!(log.take_out(at(1), 3), 3);
    assert_eq!(log, charged(&[(0, 3), (1, 1), (2, 5)]));
    assert_eq!(log.take_out(at(1), 3), 1);
    assert_eq!(log, charged(&[(0, 3), (2, 5)]));
    assert_eq!(log.take_out(at(1), 1), 0);
    assert_eq!(log.take_out(at(0), 3), 3);
    assert_eq!(log.take_out(at(2), 5), 5);
    assert!(log.is_empty());
}

#[test]
fn counts_that_wrap_are_still_differences() {
    let mut log = UnitLog { before: u64::MAX - 2, ..UnitLog::default() };
    for nanos in 0..4 {
        log.charge(WINDOW, 2, at(nanos));
    }
    assert_eq!(log.used(WINDOW, at(3)), 8);
    assert_eq!(log.used(WINDOW, at(11)), 4);
    assert_eq!(log.refund(WINDOW, 7, at(3)), 7);
    assert_eq!(log.used(WINDOW, at(3)), 1);
}

#[test]
fn an_earlier_now_counts_as_the_newest_charge() {
    let mut log = charged(&[(20, 1)]);
    assert_eq!(log.used(WINDOW, at(0)), 1);
    assert_eq!(log.charge(WINDOW, 1, at(5)), at(20));
    assert_eq!(log.entries.len(), 1);
    assert_eq!(log.reset_at(WINDOW, at(5)), at(30));
}

#[test]
fn the_end_of_time_is_no_way_out() {
    let mut log = UnitLog::default();
    let rolling = rolling(1);
    log.charge(rolling.window(), 1, Timestamp::MAX);
    assert_eq!(log.decide(&rolling, 1, Timestamp::MAX), Verdict::Wait { until: Timestamp::MAX });
    assert_eq!(log.used(rolling.window(), Timestamp::MAX), 1);
}

#[test]
fn only_a_step_back_of_more_than_a_window_brings_instants_back() {
    let log = charged(&[(0, 1), (100, 2), (105, 3)]);
    let mut near = log.clone();
    near.bring_back(WINDOW, at(95));
    assert_eq!(near, log);
    let mut far = log;
    far.bring_back(WINDOW, at(94));
    assert_eq!((far.used(WINDOW, at(94)), far.used(WINDOW, at(104))), (5, 0));
    assert_eq!(far.entries.back().unwrap().at, at(94));
}

#[test]
fn a_log_never_grows_by_more_than_was_said() {
    let mut log = UnitLog::default();
    for nanos in 0..3000 {
        let (before, growth) = (log.bytes(), log.growth(1));
        log.charge(Duration::from_secs(1), 1, at(nanos));
        assert!(log.bytes() <= before + growth, "{} > {before} + {growth}", log.bytes());
    }
    let full = log.bytes();
    log.refund(Duration::from_secs(1), 2990, at(3000));
    assert!(log.bytes() < full / 4, "{} of {full} bytes are kept for 10 entries", log.bytes());
}
