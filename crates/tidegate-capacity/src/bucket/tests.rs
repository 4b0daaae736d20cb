use core::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// An instant with an odd number of nanoseconds, as a clock would give it.
const START: u64 = 1_795_210_800_123_456_789;

/// The same bucket as a balance that time is added to, remainder and all. Shares no formula with
/// the clock.
struct Balance {
    spec: BucketSpec,
    /// Thousandths of a unit times [`NANOS`].
    left: i128,
    seen: u64,
}

impl Balance {
    fn full(spec: BucketSpec, now: u64) -> Self {
        Self { spec, left: i128::from(spec.depth) * i128::from(NANOS), seen: now }
    }

    fn refill(&mut self, now: u64) {
        let depth = i128::from(self.spec.depth) * i128::from(NANOS);
        self.left = depth.min(self.left + i128::from(self.spec.rate) * i128::from(now - self.seen));
        self.seen = now;
    }

    fn take(&mut self, cost: u64, now: u64) -> bool {
        self.refill(now);
        let admit = self.left > 0;
        if admit {
            self.left -= i128::from(cost) * i128::from(NANOS);
        }
        admit
    }
}

#[test]
fn every_short_sequence_is_decided_as_by_a_balance() {
    // One thousandth each millisecond, so that both count the same instants.
    let spec = BucketSpec::new(1000, 3, 5);
    let steps: Vec<(u64, u64)> =
        [0, 1, 2, 5].into_iter().flat_map(|gap| [1, 2, 5].map(|cost| (gap * 1_000_000, cost))).collect();
    let mut sequences = 0;
    for code in 0..steps.len().pow(5) {
        let bucket = Bucket::default();
        let mut now = 1_795_210_800_000_000_000;
        let mut balance = Balance::full(spec, now);
        let mut rest = code;
        for _ in 0..5 {
            let (gap, cost) = steps[rest % steps.len()];
            rest /= steps.len();
            now += gap;
            assert_eq!(bucket.take(spec, cost, at(now)).is_ok(), balance.take(cost, now), "sequence {code}");
            assert_eq!(
                i128::from(bucket.level(spec, at(now)).as_thousandths()) * i128::from(NANOS),
                balance.left,
                "sequence {code}"
            );
        }
        sequences += 1;
    }
    assert_eq!(sequences, 248_832);
}

#[test]
fn over_a_thousand_seconds_exactly_the_rate_and_one_full_bucket_are_admitted() {
    // Rates that divide a second and rates that do not.
    for (rate, cost) in
        [(100_000, 500), (33_333, 1000), (7, 1), (999_999_937, 799_000), (1, 1), (100_000, 400_000)]
    {
        let spec = BucketSpec::new(rate, rate, 800_000);
        let bucket = Bucket::default();
        let (mut now, end) = (at(START), at(START + 1000 * NANOS));
        let mut admitted = 0;
        while now <= end {
            match bucket.take(spec, cost, now) {
                Ok(_) => admitted += cost,
                Err(retry) => now = retry,
            }
        }
        let promised = rate * 1000 + spec.depth;
        assert!(admitted.abs_diff(promised) <= cost, "{rate}/s by {cost}: {admitted} of {promised}");
    }
}

#[test]
fn waiting_exactly_as_told_is_enough_and_one_nanosecond_less_is_not() {
    for rate in [1, 3, 1000, 33_333, 999_999_937, 1_000_000_000] {
        let spec = BucketSpec::new(rate, rate, 800_000);
        let bucket = Bucket::default();
        bucket.take(spec, rate + 17, at(START)).unwrap();
        let retry = bucket.take(spec, 1, at(START)).unwrap_err();
        assert!(bucket.take(spec, 1, at(retry.as_nanos() - 1)).is_err(), "{rate}");
        assert_eq!(bucket.take(spec, 1, at(retry.as_nanos() - 1)), Err(retry), "{rate}");
        assert!(bucket.take(spec, 1, retry).is_ok(), "{rate}");
    }
}

#[test]
fn a_full_bucket_never_counts_a_charge_as_made_before_it_was() {
    // One a second, charged between two seconds of its clock: the next is due a whole second later
    // at least.
    let spec = BucketSpec::new(1, 1, 800_000);
    let bucket = Bucket::default();
    bucket.take(spec, 1, at(START)).unwrap();
    let retry = bucket.take(spec, 1, at(START)).unwrap_err();
    assert!(retry >= at(START + NANOS), "{retry}");
    assert!(retry < at(START + 2 * NANOS), "{retry}");
}

#[test]
fn a_refusal_changes_nothing_and_looking_often_refills_nothing() {
    let spec = BucketSpec::new(33_333, 33_333, 800_000);
    let bucket = Bucket::default();
    bucket.take(spec, 800_000, at(START)).unwrap();
    let word = bucket.word();
    for step in 0..20_000 {
        assert!(bucket.take(spec, 1, at(START + step * 1_000_003)).is_err());
        assert!(bucket.level(spec, at(START + step * 1_000_003)) < Units::ZERO);
    }
    assert_eq!(bucket.word(), word);
}

#[test]
fn what_the_bucket_cannot_hold_is_admitted_once_and_repaid_first() {
    let spec = BucketSpec::new(100_000, 100_000, 800_000);
    let bucket = Bucket::default();
    // Leaves one thousandth; another one goes because START lies between two of them.
    bucket.take(spec, 100_000 - 2, at(START)).unwrap();
    bucket.take(spec, 800_000, at(START)).unwrap();
    let retry = bucket.take(spec, 1, at(START)).unwrap_err();
    let waited = retry.saturating_since(at(START));
    assert!(waited > Duration::from_millis(7999) && waited <= Duration::from_micros(8_000_020), "{waited:?}");
}

#[test]
fn debt_is_never_deeper_than_the_largest_request() {
    let spec = BucketSpec::new(1000, 1000, 800_000);
    let bucket = Bucket::default();
    for _ in 0..10 {
        bucket.charge(spec, 800_000, at(START));
    }
    assert_eq!(bucket.level(spec, at(START)).as_thousandths(), -800_000);
    assert_eq!(bucket.charge(spec, u64::MAX, at(START)).cost, 0);
}

#[test]
fn all_given_back_in_reverse_leaves_the_very_word() {
    let spec = BucketSpec::new(33_333, 33_333, 800_000);
    let bucket = Bucket::default();
    let mut words = Vec::new();
    let mut holds = Vec::new();
    for step in 0..20 {
        let now = at(START + step * 977_000_003);
        words.push(bucket.word());
        holds.push(bucket.take(spec, 1000 + step, now).unwrap());
    }
    for (word, hold) in words.into_iter().zip(holds).rev() {
        // However late.
        bucket.give_back(spec, hold, hold.cost, at(START + 3600 * NANOS));
        assert_eq!(bucket.word(), word);
    }
}

#[test]
fn units_that_would_have_overflowed_are_not_given_back() {
    let spec = BucketSpec::new(10_000, 10_000, 800_000);
    let bucket = Bucket::default();
    let hold = bucket.take(spec, 4000, at(START)).unwrap();
    // Full again by now, as it would have been without the charge; then half of it is used.
    let later = at(START + NANOS);
    bucket.take(spec, 5000, later).unwrap();
    let left = bucket.level(spec, later);
    bucket.give_back(spec, hold, 4000, later);
    assert_eq!(bucket.level(spec, later), left);
}

#[test]
fn a_clock_that_was_years_ahead_closes_a_bucket_only_for_its_deepest_debt() {
    let spec = BucketSpec::new(100_000, 100_000, 800_000);
    let bucket = Bucket::default();
    let ten_years = 10 * 365 * 86_400 * NANOS;
    bucket.take(spec, 1000, at(START + ten_years)).unwrap();
    let retry = bucket.take(spec, 1, at(START)).unwrap_err();
    let closed = retry.saturating_since(at(START));
    assert!(closed <= Duration::from_micros(8_000_020), "{closed:?}");
    assert!(bucket.take(spec, 1, retry).is_ok());
}

#[test]
fn the_ends_of_time_neither_panic_nor_admit_without_end() {
    for rate in [1, 1_000_000_000] {
        let spec = BucketSpec::new(rate, rate, 800_000);
        for now in [Timestamp::MIN, Timestamp::MAX] {
            let bucket = Bucket::default();
            let mut admitted = 0;
            while admitted < 3000 && bucket.take(spec, 800_000, now).is_ok() {
                admitted += 1;
            }
            // At the last instants of a fast clock there is no later to refuse until.
            assert!(admitted <= 1251 || now == Timestamp::MAX, "{admitted}");
            let hold = bucket.charge(spec, u64::MAX, now);
            bucket.give_back(spec, hold, u64::MAX, Timestamp::MAX);
            let _ = bucket.level(spec, now);
        }
    }
}

proptest! {
    #[test]
    fn a_balance_never_admits_less(
        rate in 1_u64..=1_000_000_000,
        steps in prop::collection::vec((0_u64..3_000_000_000, 1_u64..=800_000), 1..200),
    ) {
        // The balance counts parts of thousandths, the bucket rounds them down: totals differ by
        // one request.
        let spec = BucketSpec::new(rate, rate, 800_000);
        let bucket = Bucket::default();
        let mut balance = Balance::full(spec, START);
        let (mut now, mut ours, mut theirs) = (START, 0_u64, 0_u64);
        for (gap, cost) in steps {
            now += gap;
            ours += if bucket.take(spec, cost, at(now)).is_ok() { cost } else { 0 };
            theirs += if balance.take(cost, now) { cost } else { 0 };
            prop_assert!(ours.abs_diff(theirs) <= 800_000);
            prop_assert!(bucket.level(spec, at(now)).as_thousandths() >= -800_000 - 1);
        }
    }

    #[test]
    fn a_clock_that_steps_back_never_admits_more(
        rate in 1_u64..=1_000_000_000,
        steps in prop::collection::vec((-59_000_000_000_i64..60_000_000_000, 1_u64..=800_000), 1..300),
    ) {
        let spec = BucketSpec::new(rate, rate, 800_000);
        let bucket = Bucket::default();
        // A full bucket remembers no instant: what flows is counted from the first charge on.
        bucket.take(spec, 1, at(START)).unwrap();
        let (mut furthest, mut admitted) = (START, 1_u64);
        for (step, cost) in steps {
            let now = furthest.saturating_add_signed(step);
            furthest = furthest.max(now);
            admitted += if bucket.take(spec, cost, at(now)).is_ok() { cost } else { 0 };
            let flowed = u128::from(rate) * u128::from(furthest - START) / u128::from(NANOS) + 1;
            prop_assert!(u128::from(admitted) < flowed + u128::from(spec.depth) + 800_000);
        }
    }

    #[test]
    fn a_charge_that_is_taken_back_never_leaves_more_than_none(
        rate in 1_u64..=1_000_000,
        before in prop::collection::vec((0_u64..2_000_000_000, 1_u64..=100_000), 0..5),
        cost in 1_u64..=800_000,
        part in 1_u64..=800_000,
        between in prop::collection::vec((0_u64..2_000_000_000, 1_u64..=100_000), 0..8),
        last_gap in 0_u64..2_000_000_000,
    ) {
        // No bound on debt, so that both buckets book the same.
        let spec = BucketSpec::new(rate, rate, u64::from(u32::MAX));
        let (with, without) = (Bucket::default(), Bucket::default());
        let mut now = START;
        for (gap, cost) in before {
            now += gap;
            with.charge(spec, cost, at(now));
            without.charge(spec, cost, at(now));
        }
        let part = part.min(cost);
        let hold = with.charge(spec, cost, at(now));
        if part < cost {
            without.charge(spec, cost - part, at(now));
        }
        let alone = between.is_empty();
        for (gap, cost) in between {
            now += gap;
            with.charge(spec, cost, at(now));
            without.charge(spec, cost, at(now));
        }
        now += last_gap;
        with.give_back(spec, hold, part, at(now));
        prop_assert!(with.level(spec, at(now)) <= without.level(spec, at(now)));
        prop_assert!(with.word() >= without.word());
        if alone {
            prop_assert_eq!(with.word(), without.word());
        }
    }
}
