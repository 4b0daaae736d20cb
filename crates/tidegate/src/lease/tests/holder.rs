//! What one holder does with what it hears.

use core::time::Duration;

use super::super::*;
use super::world::{MS, SECOND, START};
use crate::algorithm::{Algorithm, Bucket, Calendar, CivilUnit, Fixed, WindowStart};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::time::Timestamp;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START + nanos)
}

fn terms(per_second: u64, burst: u64) -> Terms {
    let bucket = Bucket::new(Rate::per_second(per_second).unwrap(), burst).unwrap();
    Terms::of(&Algorithm::Bucket(bucket), at(0)).unwrap()
}

fn grant(ask: &Ask, lump: u32, rate: u32, ttl: Duration) -> Grant {
    Grant {
        seq: ask.seq,
        epoch: 1,
        lump,
        held: ask.left + lump,
        rate,
        ttl,
        fallback: rate,
        keep: 10,
        members: 1,
        is_scarce: false,
        again: Duration::ZERO,
        gone: 0,
    }
}

fn take(holder: &mut Holder, terms: &Terms, nanos: u64) -> bool {
    matches!(holder.take(terms, Cost::ONE, 0, at(nanos)), Take::Taken { .. })
}

/// A holder with `lump` tokens that asked at 0 and got them at `arrived`.
fn with_lease(terms: &Terms, lump: u32, rate: u32, arrived: u64) -> Holder {
    let mut holder = Holder::new(1);
    assert_eq!(holder.take(terms, Cost::ONE, 0, at(0)), Take::Ask);
    let ask = holder.ask(terms, 7, 1, at(0)).unwrap();
    assert_eq!(holder.take(terms, Cost::ONE, 0, at(MS)), Take::Pending);
    assert_eq!(holder.granted(terms, &grant(&ask, lump, rate, Terms::PERIOD), at(arrived)), 0);
    holder
}

#[test]
fn a_million_holders_fit_into_140_mebibytes() {
    const { assert!(Holder::BYTES * 1_000_000 <= 140 << 20) };
}

#[test]
fn a_lease_ends_a_thirty_second_early_counted_from_the_ask() {
    let terms = terms(1, 100);
    // Five seconds less a thirty-second, whenever the answer came.
    let end = 4_843_750_000;
    for arrived in [MS, SECOND, 4 * SECOND] {
        let mut holder = with_lease(&terms, 10, 0, arrived);
        assert!(take(&mut holder, &terms, end - 1));
        assert!(!take(&mut holder, &terms, end));
    }
    // An answer that comes when it has ended gives nothing.
    let mut late = with_lease(&terms, 10, 0, end);
    assert!(!take(&mut late, &terms, end));
}

#[test]
fn what_trickles_in_is_gathered_for_a_tenth_of_a_second_and_no_longer() {
    let terms = terms(1_000, 100);
    let mut holder = with_lease(&terms, 0, 5_000, MS);
    let taken = (0..1_000).filter(|_| take(&mut holder, &terms, SECOND)).count();
    assert_eq!(taken, 100);
    // One each millisecond from then on, neither sooner nor later.
    assert!(!take(&mut holder, &terms, SECOND + MS - 1) && take(&mut holder, &terms, SECOND + MS));
}

#[test]
fn waiting_as_long_as_told_is_enough_and_a_nanosecond_less_is_not() {
    for rate in [50, 51, 77, 4_999] {
        let terms = terms(1_000, 100);
        let mut holder = Holder::new(1);
        let ask = holder.ask(&terms, 7, 1, at(0)).unwrap();
        let reply = Grant { is_scarce: true, ..grant(&ask, 0, rate, Terms::PERIOD) };
        holder.granted(&terms, &reply, at(MS));
        let Take::Wait { until, .. } = holder.take(&terms, Cost::ONE, 0, at(MS)) else {
            panic!("{holder:?}")
        };
        let nanos = until.as_nanos() - START;
        let mut early = holder.clone();
        assert!(!take(&mut early, &terms, nanos - 1) && take(&mut holder, &terms, nanos), "{rate}");
    }
}

#[test]
fn a_clock_that_steps_back_ends_the_lease() {
    let terms = terms(1_000, 100);
    let mut holder = with_lease(&terms, 50, 5_000, MS);
    assert!(take(&mut holder, &terms, SECOND));
    let before = at(0).saturating_sub(Duration::from_hours(1));
    assert!(!matches!(holder.take(&terms, Cost::ONE, 0, before), Take::Taken { .. }));
    assert_eq!(holder.take(&terms, Cost::ONE, 0, before), Take::Ask);
}

#[test]
fn answers_to_other_asks_and_from_epochs_that_have_passed_are_ignored() {
    let terms = terms(10, 100);
    let mut holder = with_lease(&terms, 1, 0, MS);
    assert!(take(&mut holder, &terms, 2 * MS));
    let old = holder.ask(&terms, 7, 1, at(3 * MS)).unwrap();
    holder.lost(1, at(50 * MS));
    let ask = holder.ask(&terms, 7, 1, at(SECOND)).unwrap();
    assert_eq!((ask.seq, ask.acked), (3, 1));
    holder.granted(&terms, &grant(&old, 5, 0, Terms::PERIOD), at(SECOND));
    assert!(!take(&mut holder, &terms, SECOND), "an answer to an ask that was given up");
    holder.granted(&terms, &Grant { epoch: 3, ..grant(&ask, 1, 0, Terms::PERIOD) }, at(SECOND + MS));
    assert!(take(&mut holder, &terms, SECOND + 2 * MS));
    let ask = holder.ask(&terms, 7, 1, at(SECOND + 3 * MS)).unwrap();
    assert_eq!(ask.epoch, 3);
    holder.granted(&terms, &Grant { epoch: 2, ..grant(&ask, 5, 0, Terms::PERIOD) }, at(SECOND + 4 * MS));
    assert!(!take(&mut holder, &terms, SECOND + 5 * MS), "an answer from an epoch that has passed");
}

#[test]
fn asks_that_are_not_answered_are_spaced_further_and_further() {
    let terms = terms(10, 100).with_safe(Safe::Zero);
    let mut holder = Holder::new(1);
    let mut now = 0;
    for wait in [100, 200, 400, 800, 1_600, 3_200, 3_200] {
        holder.ask(&terms, 7, 1, at(now)).unwrap();
        holder.lost(1, at(now));
        now += wait * MS;
        for (nanos, expected) in [(now - 1, false), (now, true)] {
            let answer = holder.take(&terms, Cost::ONE, 0, at(nanos));
            assert!(matches!(answer, Take::Wait { renew, .. } if renew == expected), "{wait}: {answer:?}");
        }
    }
}

#[test]
fn repeated_attempts_are_no_demand() {
    let terms = terms(1_000, 100);
    let mut holder = with_lease(&terms, 100, 0, MS);
    let mut other = holder.clone();
    for tick in 0..1_000 {
        holder.take(&terms, Cost::ONE, 0, at(SECOND + tick * MS));
        other.take(&terms, Cost::ONE, 0, at(SECOND + tick * MS));
        other.take(&terms, Cost::ONE, 1, at(SECOND + tick * MS));
    }
    let demand = |holder: &mut Holder| holder.ask(&terms, 7, 0, at(2 * SECOND)).unwrap().demand;
    let (first, second) = (demand(&mut holder), demand(&mut other));
    assert_eq!(first, second);
    // One at the beginning and nothing for a second, then a thousand in a second: of those two seconds the later counts more.
    assert!((3_000..3_500).contains(&first), "{first}");
}

#[test]
fn a_stream_that_has_just_begun_is_seen_for_what_it_is() {
    let terms = terms(1_000_000, 100);
    // Whether nothing was before, or something long ago.
    for start in [0, 30 * SECOND] {
        let mut holder = Holder::new(1);
        for tick in 0..1_000 {
            holder.take(&terms, Cost::ONE, 0, at(tick * MS));
        }
        for tick in 0..300 {
            holder.take(&terms, Cost::ONE, 0, at(start + 60 * SECOND + tick * MS));
        }
        let demand = holder.demand(&terms, at(start + 60 * SECOND + 300 * MS));
        assert!((4_800..5_200).contains(&demand), "{demand}");
    }
    // A few requests say little about those to come.
    let mut holder = Holder::new(1);
    for tick in 0..5 {
        holder.take(&terms, Cost::new(20).unwrap(), 0, at(tick * MS));
    }
    assert!(holder.demand(&terms, at(5 * MS)) <= 330);
}

#[test]
fn a_lease_that_is_hardly_used_ends_without_an_ask() {
    let terms = terms(1_000, 100);
    for (per_period, is_renewed) in [(2, false), (10, true)] {
        let mut holder = with_lease(&terms, 100, 0, MS);
        let mut is_due = false;
        for tick in 1..500 {
            if tick % (500 / per_period) == 0 {
                let taken = holder.take(&terms, Cost::ONE, 0, at(tick * 10 * MS));
                is_due |= taken == Take::Taken { renew: true };
            }
            let now = at(tick * 10 * MS);
            is_due |= holder.wake_at().is_some_and(|at| at <= now) && holder.is_due(&terms, now);
        }
        assert_eq!(is_due, is_renewed, "{per_period} in a period");
    }
}

#[test]
fn a_steady_stream_is_its_own_average() {
    for per_second in [1, 10, 1_000, 100_000] {
        let terms = terms(1_000_000, 100);
        let mut holder = Holder::new(1);
        for count in 0..per_second * 20 {
            holder.take(&terms, Cost::ONE, 0, at(count * SECOND / per_second));
        }
        let demand = u64::from(holder.ask(&terms, 7, 0, at(20 * SECOND)).unwrap().demand);
        let expected = per_second * 5;
        assert!(
            demand.abs_diff(expected) * 100 <= expected * 40_u64.div_ceil(per_second).max(1),
            "{demand} {expected}"
        );
    }
}

#[test]
fn a_cost_above_the_limit_is_refused_for_good() {
    let terms = terms(10, 100);
    let answer = Holder::new(1).take(&terms, Cost::new(101).unwrap(), 0, at(0));
    assert_eq!(answer, Take::Never { largest: 100 });
}

#[test]
fn a_holder_that_leaves_takes_nothing_more() {
    let terms = terms(1_000, 100);
    let mut holder = with_lease(&terms, 50, 5_000, MS);
    let ask = holder.leave(&terms, 7, at(2 * MS));
    assert!(ask.is_leaving && ask.returned == 50 && ask.left == 0);
    assert!(!take(&mut holder, &terms, SECOND));
    assert_eq!(holder.ask(&terms, 7, 1, at(SECOND)), None);
    assert!(holder.is_idle(&terms, at(SECOND)) && holder.wake_at().is_none());
}

#[test]
fn terms_that_cannot_be_counted_everywhere_say_what_to_do() {
    let of = |algorithm: &Algorithm| Terms::of(algorithm, at(0)).map_err(|error| error.to_string());
    let fast = Algorithm::Bucket(Bucket::new(Rate::per_second(1_000_000_000).unwrap(), 1).unwrap());
    assert!(of(&fast).unwrap_err().contains("count in larger units"));
    let odd = Rate::new(1, Duration::from_nanos(31_535_999_999_999_999)).unwrap();
    assert!(of(&Algorithm::bucket(odd).unwrap()).unwrap_err().contains("whole microseconds"));
    let rolling = Algorithm::Rolling(crate::algorithm::Rolling::new(10, Duration::from_secs(1)).unwrap());
    assert!(of(&rolling).unwrap_err().contains("cannot be leased"));
    for period in [3_999, 60_001] {
        assert!(terms(1, 1).with_period(Duration::from_millis(period)).is_err());
    }
}

#[test]
fn windows_are_those_of_the_ledgers_time() {
    let fixed = Algorithm::Fixed(Fixed::new(5, Duration::from_mins(1), WindowStart::Epoch).unwrap());
    let day = Algorithm::Calendar(Calendar::new(5, CivilUnit::Day, "Europe/Berlin").unwrap());
    for (algorithm, length) in [(fixed, 60), (day, 86_400)] {
        let epoch = Epoch { number: 1, began: at(0), is_after_loss: false };
        let mut ledger = Ledger::begin(&Terms::of(&algorithm, at(0)).unwrap(), &epoch);
        for turn in 0..3 {
            let now = at(turn * length * SECOND);
            let terms = Terms::of(&algorithm, now).unwrap();
            let mut holder = Holder::new(u32::try_from(turn).unwrap());
            let ask = holder.ask(&terms, 7, 5, now).unwrap();
            let given = ledger.ask(now, &terms, &epoch, &ask).grant.unwrap();
            assert_eq!(given.lump, 5, "{algorithm:?} {turn}");
            assert_eq!(ledger.used(now, &terms), 5);
            let mut other = Holder::new(100);
            let ask = other.ask(&terms, 8, 1, now).unwrap();
            assert_eq!(ledger.ask(now, &terms, &epoch, &ask).grant.unwrap().lump, 0);
        }
    }
}

#[test]
fn a_window_that_may_have_begun_before_a_loss_gives_nothing_until_it_ends() {
    let fixed = Algorithm::Fixed(Fixed::new(5, Duration::from_mins(1), WindowStart::Epoch).unwrap());
    let lost = at(10 * SECOND);
    for (is_after_loss, seconds, lump) in [(true, 11, 0), (true, 59, 0), (true, 60, 5), (false, 11, 5)] {
        let epoch = Epoch { number: 2, began: lost, is_after_loss };
        let now = at(seconds * SECOND);
        let terms = Terms::of(&fixed, now).unwrap();
        let ask = Holder::new(1).ask(&terms, 7, 5, now).unwrap();
        let answer = Ledger::begin(&terms, &epoch).ask(now, &terms, &epoch, &ask);
        assert_eq!(answer.grant.unwrap().lump, lump, "{is_after_loss} {seconds}");
    }
}
