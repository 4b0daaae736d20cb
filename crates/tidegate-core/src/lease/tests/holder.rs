//! The reactions of one holder to grants, errors and silence.

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
    Terms::from_algorithm(&Algorithm::Bucket(bucket), at(0)).unwrap()
}

fn grant(ask: &Ask, lump: u32, rate: u32, ttl: Duration) -> Grant {
    Grant {
        seq: ask.seq,
        epoch: 1,
        lump,
        held: ask.left + lump,
        rate,
        ttl,
        keep: 10,
        members: 1,
        is_scarce: false,
        is_lost: false,
        again: Duration::ZERO,
        gone: 0,
    }
}

/// The level of a limit of which nothing else is used.
const UNUSED: LedgerLevel = LedgerLevel { used: 0, reset_in: Duration::ZERO };

fn take(holder: &mut Holder, terms: &Terms, nanos: u64) -> bool {
    matches!(holder.take(terms, Cost::ONE, 0, at(nanos)), Take::Taken { .. })
}

/// A holder with `lump` tokens that asked at 0 and got them at `arrived`.
fn with_lease(terms: &Terms, lump: u32, rate: u32, arrived: u64) -> Holder {
    let mut holder = Holder::new(1);
    assert_eq!(holder.take(terms, Cost::ONE, 0, at(0)), Take::Ask);
    let ask = holder.ask(terms, 7, 1, at(0)).unwrap();
    assert_eq!(holder.take(terms, Cost::ONE, 0, at(MS)), Take::Pending);
    assert_eq!(holder.granted(terms, &grant(&ask, lump, rate, Terms::PERIOD), UNUSED, at(arrived)), 0);
    holder
}

#[test]
fn a_million_holders_fit_into_160_mebibytes() {
    const { assert!(Holder::BYTES * 1_000_000 <= 160 << 20) };
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
    // A grant that arrives after its end gives nothing.
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
        holder.granted(&terms, &reply, UNUSED, at(MS));
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
    holder.lost(at(50 * MS));
    let ask = holder.ask(&terms, 7, 1, at(SECOND)).unwrap();
    assert_eq!((ask.seq, ask.acked), (3, 1));
    holder.granted(&terms, &grant(&old, 5, 0, Terms::PERIOD), UNUSED, at(SECOND));
    assert!(!take(&mut holder, &terms, SECOND), "an answer to an ask that was given up");
    holder.granted(&terms, &Grant { epoch: 3, ..grant(&ask, 1, 0, Terms::PERIOD) }, UNUSED, at(SECOND + MS));
    assert!(take(&mut holder, &terms, SECOND + 2 * MS));
    let ask = holder.ask(&terms, 7, 1, at(SECOND + 3 * MS)).unwrap();
    assert_eq!(ask.epoch, 3);
    holder.granted(
        &terms,
        &Grant { epoch: 2, ..grant(&ask, 5, 0, Terms::PERIOD) },
        UNUSED,
        at(SECOND + 4 * MS),
    );
    assert!(!take(&mut holder, &terms, SECOND + 5 * MS), "an answer from an epoch that has passed");
}

#[test]
fn asks_that_are_not_answered_are_spaced_up_to_eight_tenths_of_a_second() {
    let terms = terms(10, 100);
    let mut holder = Holder::new(1);
    let mut now = 0;
    for wait in [100, 200, 400, 800, 800] {
        holder.ask(&terms, 7, 1, at(now)).unwrap();
        holder.lost(at(now));
        now += wait * MS;
        for (nanos, renew) in [(now - 1, false), (now, true)] {
            assert_eq!(holder.take(&terms, Cost::ONE, 0, at(nanos)), Take::Alone { renew }, "{wait}");
        }
    }
}

#[test]
fn a_member_is_alone_from_an_ask_that_is_not_answered_until_one_is_unless_the_lease_has_what_is_asked_for() {
    let terms = terms(1_000, 100);
    let mut holder = with_lease(&terms, 2, 0, MS);
    assert!(take(&mut holder, &terms, 2 * MS) && take(&mut holder, &terms, 2 * MS));
    assert_eq!(holder.take(&terms, Cost::ONE, 0, at(3 * MS)), Take::Ask);
    let ask = holder.ask(&terms, 7, 1, at(3 * MS)).unwrap();
    holder.granted(&terms, &grant(&ask, 1, 0, Terms::PERIOD), UNUSED, at(4 * MS));
    // The token is still there when an ask is not answered, and is spent first.
    holder.ask(&terms, 7, 0, at(5 * MS)).unwrap();
    holder.lost(at(55 * MS));
    assert!(take(&mut holder, &terms, 56 * MS), "the lease has it");
    assert_eq!(holder.take(&terms, Cost::ONE, 0, at(57 * MS)), Take::Alone { renew: false });
    assert_eq!(holder.share(&terms, 4), Share { holders: 1, members: 4 });
    assert_eq!(Holder::new(2).share(&terms, 4), Share { holders: 4, members: 4 }, "without a grant");
    let ask = holder.ask(&terms, 7, 1, at(SECOND)).unwrap();
    holder.granted(&terms, &grant(&ask, 1, 0, Terms::PERIOD), UNUSED, at(SECOND + MS));
    assert!(take(&mut holder, &terms, SECOND + 2 * MS));
    assert_eq!(holder.take(&terms, Cost::ONE, 0, at(SECOND + 3 * MS)), Take::Ask);
}

#[test]
fn one_ask_is_for_all_requests_that_wait() {
    let terms = terms(10, 100);
    let mut holder = Holder::new(1);
    assert_eq!(holder.take(&terms, Cost::new(2).unwrap(), 0, at(0)), Take::Ask);
    let first = holder.ask(&terms, 7, 2, at(0)).unwrap();
    assert_eq!((first.need, first.need_min), (2, 2));
    for _ in 0..9 {
        assert_eq!(holder.take(&terms, Cost::ONE, 0, at(MS)), Take::Pending);
    }
    holder.granted(&terms, &grant(&first, 2, 0, Terms::PERIOD), UNUSED, at(2 * MS));
    assert!(matches!(holder.take(&terms, Cost::new(2).unwrap(), 1, at(2 * MS)), Take::Taken { .. }));
    assert_eq!(holder.take(&terms, Cost::ONE, 1, at(2 * MS)), Take::Ask);
    let second = holder.ask(&terms, 7, 1, at(2 * MS)).unwrap();
    assert_eq!((second.need, second.need_min), (8, 1), "nine wait, and what two units were for does not");
}

#[test]
fn a_refusal_and_what_is_left_are_of_the_ledgers_balance_and_not_of_the_tokens_in_hand() {
    let terms = terms(100, 100);
    let mut holder = Holder::new(1);
    assert_eq!(holder.take(&terms, Cost::ONE, 0, at(0)), Take::Ask);
    let ask = holder.ask(&terms, 7, 1, at(0)).unwrap();
    // All of the hundred are there, of which one is granted.
    let level = LedgerLevel { used: 1, reset_in: Duration::from_millis(10) };
    holder.granted(&terms, &grant(&ask, 1, 0, Terms::PERIOD), level, at(MS));
    assert!(take(&mut holder, &terms, MS));
    let algorithm = Algorithm::bucket(Rate::per_second(100).unwrap()).unwrap();
    assert_eq!(holder.balance().remaining(&algorithm, at(MS)), 99, "{:?}", holder.balance());
    assert_eq!(holder.balance().remaining(&algorithm, at(11 * MS)), 100);
    // Nothing is left but one unit's worth of time.
    let ask = holder.ask(&terms, 7, 1, at(SECOND)).unwrap();
    let level = LedgerLevel { used: 100, reset_in: Duration::from_millis(995) };
    let reply = Grant { again: RECHECK, is_scarce: true, ..grant(&ask, 0, 0, Terms::PERIOD) };
    holder.granted(&terms, &reply, level, at(SECOND));
    // A ledger counts in microseconds.
    let until = at(SECOND + 5 * MS + 1_000);
    assert_eq!(holder.take(&terms, Cost::ONE, 0, at(SECOND)), Take::Wait { until, renew: false });
    let three = holder.take(&terms, Cost::new(3).unwrap(), 0, at(SECOND));
    assert_eq!(three, Take::Wait { until: at(SECOND + 25 * MS + 1_000), renew: false });
    let nanos = SECOND + 5 * MS + 1_000;
    assert!(matches!(holder.take(&terms, Cost::ONE, 0, at(nanos - 1)), Take::Wait { .. }));
    assert_eq!(holder.take(&terms, Cost::ONE, 0, at(nanos)), Take::Ask, "there is room, as was said");
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
    // One at the beginning and nothing for a second, then a thousand in a second: of those two
    // seconds the later counts more.
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
    for tick in 0..4 {
        holder.take(&terms, Cost::new(20).unwrap(), 0, at(tick * MS));
    }
    assert!(holder.demand(&terms, at(4 * MS)) <= 330);
}

#[test]
fn another_lease_period_leaves_tokens_and_pace_of_a_lease_as_they_are() {
    let of = |seconds| terms(1_000, 100).with_period(Duration::from_secs(seconds)).unwrap();
    for (old, new) in [(5, 10), (10, 5), (4, 60), (60, 4)] {
        let (old_terms, new_terms) = (of(old), of(new));
        let rate = 1_000 * u32::try_from(old).unwrap();
        let mut holder = with_lease(&old_terms, 50, rate, MS);
        // The tokens in hand, and a tenth of a second of the rate.
        assert_eq!(holder.tokens(&old_terms, at(SECOND)), 150);
        holder.change_terms(&old_terms, &new_terms, at(SECOND));
        assert_eq!(holder.tokens(&new_terms, at(SECOND)), 150, "{old} s to {new} s");
        assert_eq!(holder.rate(at(SECOND)), 1_000 * new);
        let until = holder.until();
        let mut admitted = 0;
        for tick in 0..2_000 {
            admitted += u64::from(take(&mut holder, &new_terms, SECOND + tick * MS / 2));
        }
        assert!((1_145..=1_150).contains(&admitted), "{admitted} in a second, {old} s to {new} s");
        assert_eq!(holder.until(), until);
    }
}

#[test]
fn an_answer_that_counts_in_another_lease_period_is_ignored_and_the_ledger_learns_so() {
    let (old, new) = (terms(1_000, 100), terms(1_000, 100).with_period(Terms::PERIOD_MIN).unwrap());
    let mut holder = with_lease(&old, 0, 0, MS);
    let ask = holder.ask(&old, 7, 1, at(SECOND)).unwrap();
    holder.change_terms(&old, &new, at(SECOND));
    holder.granted(&new, &grant(&ask, 0, 5_000, Terms::PERIOD), UNUSED, at(SECOND + MS));
    assert_eq!(holder.rate(at(SECOND + MS)), 0);
    assert!(!holder.is_unanswered(), "the store is not silent");
    assert_eq!(holder.take(&new, Cost::ONE, 0, at(SECOND + MS)), Take::Ask);
    let next = holder.ask(&new, 7, 1, at(SECOND + MS)).unwrap();
    assert_eq!((next.seq, next.acked), (3, 1), "the grant of the second ask is not acknowledged");
}

#[test]
fn eight_requests_followed_by_silence_are_not_extrapolated() {
    let terms = terms(1_000, 100);
    for spacing_ms in [0, 1, 5, 20] {
        let mut holder = Holder::new(1);
        for request in 0..8 {
            holder.take(&terms, Cost::ONE, 0, at(request * spacing_ms * MS));
        }
        let last = 7 * spacing_ms * MS;
        let extrapolated = holder.demand(&terms, at(last));
        assert!(extrapolated > 120, "{extrapolated}: they may be the beginning of a stream");
        // The average of a stream counts each request as 0.65 a second: 26 in a period of 5 s.
        for silence_ms in [161, 200, 400, 1_000] {
            let demand = holder.demand(&terms, at(last + silence_ms * MS));
            assert!(demand <= 26, "{demand} after 8 requests, {spacing_ms} ms apart, {silence_ms} ms ago");
        }
        let ask = holder.ask(&terms, 7, 0, at(last + 400 * MS)).unwrap();
        assert!(u64::from(ask.demand) < terms.leased_min() / 4, "the key is cold: {}", ask.demand);
    }
}

#[test]
fn demand_decays_after_the_clock_has_stepped_back() {
    let terms = terms(1_000_000, 100);
    // A settled stream, and one that is still measured against its age.
    for seconds in [20, 2] {
        let mut holder = Holder::new(1);
        let mut stream = |start: Timestamp, seconds: u64, every_ms: u64| {
            for tick in (0..seconds * 1_000).step_by(every_ms as usize) {
                holder.take(&terms, Cost::ONE, 0, start.saturating_add(Duration::from_millis(tick)));
            }
            holder.demand(&terms, start.saturating_add(Duration::from_secs(seconds)))
        };
        let before = stream(at(0), seconds, 10);
        assert!((480..=520).contains(&before), "{before}");
        let stepped = at(0).saturating_sub(Duration::from_hours(1));
        let steady = stream(stepped, 20, 10);
        assert!((480..=520).contains(&steady), "a steady stream keeps its rate: {steady}");
        let fallen = stream(stepped.saturating_add(Duration::from_secs(20)), 10, 100);
        assert!((45..=60).contains(&fallen), "a tenth of the requests are a tenth of the demand: {fallen}");
        let silent = holder.demand(&terms, stepped.saturating_add(Duration::from_secs(40)));
        assert_eq!(silent, 0, "nothing is left of a stream that has stopped");
    }
}

#[test]
fn tokens_that_are_not_used_soon_are_given_back_within_a_second() {
    let terms = terms(1_000, 100);
    let mut holder = with_lease(&terms, 3, 0, MS);
    assert!(take(&mut holder, &terms, MS));
    let at_due = holder.wake_at().unwrap();
    assert!(at_due <= at(SECOND) && holder.poll_due(&terms, at_due));
    let ask = holder.ask(&terms, 7, 0, at_due).unwrap();
    assert_eq!((ask.returned, ask.left, ask.need), (2, 0, 0));
    // With nothing in hand there is nothing to say.
    let mut spent = with_lease(&terms, 1, 0, MS);
    assert!(take(&mut spent, &terms, MS));
    assert_eq!(spent.wake_at(), None);
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
    let of =
        |algorithm: &Algorithm| Terms::from_algorithm(algorithm, at(0)).map_err(|error| error.to_string());
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
        let mut ledger = Ledger::begin(&Terms::from_algorithm(&algorithm, at(0)).unwrap(), &epoch);
        for turn in 0..3 {
            let now = at(turn * length * SECOND);
            let terms = Terms::from_algorithm(&algorithm, now).unwrap();
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
fn a_quota_whose_usage_was_lost_gives_nothing_until_its_window_ends_or_the_loss_is_acknowledged() {
    let hour =
        |limit| Algorithm::Fixed(Fixed::new(limit, Duration::from_hours(1), WindowStart::Epoch).unwrap());
    let minute = Algorithm::Fixed(Fixed::new(5, Duration::from_mins(1), WindowStart::Epoch).unwrap());
    let bucket = Algorithm::bucket(Rate::new(5, Duration::from_hours(1)).unwrap()).unwrap();
    let lost = at(10 * SECOND);
    for (algorithm, is_after_loss, seconds, is_granted) in [
        (hour(5), true, 11, false),
        (hour(5), true, 3_599, false),
        (hour(5), true, 3_600, true),
        (hour(5), false, 11, true),
        (bucket.clone(), true, 3_609, false),
        (bucket.clone(), true, 3_610, true),
        (bucket, false, 11, true),
        (minute, true, 11, true),
    ] {
        let epoch = Epoch { number: 2, began: lost, is_after_loss };
        let now = at(seconds * SECOND);
        let terms = Terms::from_algorithm(&algorithm, now).unwrap();
        let mut holder = Holder::new(1);
        assert_eq!(holder.take(&terms, Cost::ONE, 0, now), Take::Ask);
        let ask = holder.ask(&terms, 7, 1, now).unwrap();
        let given = Ledger::begin(&terms, &epoch).ask(now, &terms, &epoch, &ask).grant.unwrap();
        let units = holder.granted(&terms, &given, UNUSED, now);
        assert_eq!(units, u64::from(is_granted), "{is_after_loss} {seconds}");
        let taken = holder.take(&terms, Cost::ONE, 1, now);
        assert_eq!((given.is_lost, taken == Take::Lost { renew: false }), (!is_granted, !is_granted));
    }
}

#[test]
fn an_absent_record_is_full_whatever_the_reason() {
    for is_after_loss in [false, true] {
        let epoch = Epoch { number: 2, began: at(0), is_after_loss };
        let minute = Rate::new(5, Duration::from_mins(1)).unwrap();
        let window = Fixed::new(5, Duration::from_mins(1), WindowStart::Epoch).unwrap();
        let calendar = Calendar::new(5, CivilUnit::Minute, "Europe/Berlin").unwrap();
        for algorithm in
            [Algorithm::bucket(minute).unwrap(), Algorithm::Fixed(window), Algorithm::Calendar(calendar)]
        {
            let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
            let mut ledger = Ledger::begin(&terms, &epoch);
            let ask = Holder::new(1).ask(&terms, 7, 5, at(0)).unwrap();
            assert_eq!(ledger.ask(at(0), &terms, &epoch, &ask).grant.unwrap().lump, 5, "{algorithm:?}");
        }
    }
}
