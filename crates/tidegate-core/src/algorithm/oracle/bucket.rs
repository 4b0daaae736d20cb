//! A bucket by its definition: an arrival envelope.
//!
//! The history is admissible if, from each charge to each later one, what was charged is at most
//! the burst plus what the rate gives between the two instants. A refusal is right if admitting
//! would break this for some pair. All in integers: units in parts of `1/k`, time in thirds of a
//! nanosecond.

use core::time::Duration;

use proptest::prelude::*;

use super::*;

/// Divisible by three times each span used here, and small enough that centuries of the fastest
/// rate fit.
const PARTS: i128 = 3 * 7 * 11 * 365 * 86_400_000_000_000;

/// The whole history, and how far the bucket may be from it.
#[derive(Clone, Debug)]
struct Envelope {
    /// The refill in a third of a nanosecond, in parts of a unit.
    rate: i128,
    burst: u64,
    debt: u64,
    /// Whether every figure must be exact to the nanosecond.
    exact: bool,
    /// Instant in thirds, and parts charged.
    log: Vec<(i128, i128)>,
    /// Parts by which the bucket may have forgotten what is used, since limits changed.
    forgotten: i128,
    /// Parts by which it may overstate what is used, since limits changed or charges were taken
    /// back.
    overstated: i128,
}

impl Envelope {
    fn new(units: u64, per_ns: u64, burst: u64, debt: u64) -> Self {
        let rate = PARTS / 3 / i128::from(per_ns) * i128::from(units);
        assert_eq!(PARTS / 3 % i128::from(per_ns), 0);
        // At most 4 in lowest terms: up to four times the span is a whole number of intervals.
        let exact = (1..=4).any(|times| (per_ns * times).is_multiple_of(units));
        Self { rate, burst, debt, exact, log: Vec::new(), forgotten: 0, overstated: 0 }
    }

    /// Parts used at an instant in thirds: the most that any charge and all after it still hold.
    /// Negative if idle.
    fn used(&self, thirds: i128) -> i128 {
        let mut sum = 0;
        let holds = self.log.iter().rev().map(|(at, parts)| {
            sum += parts;
            sum - (thirds - at) * self.rate
        });
        holds.max().unwrap_or(-1)
    }

    /// Whether charging `units` breaks no pair, if what is used is off by `slack` parts.
    fn allows(&self, units: u64, thirds: i128, slack: i128) -> bool {
        let used = self.used(thirds).max(0) + slack;
        let (parts, burst) = (i128::from(units) * PARTS, i128::from(self.burst) * PARTS);
        let debt = i128::from(self.debt) * PARTS;
        let one_left = used.max(0) + PARTS <= burst;
        used.max(0) + parts <= burst || (debt > 0 && one_left && used.max(0) + parts <= burst + debt)
    }

    /// Asserts that an answer is right to within what is allowed.
    fn judge(&self, units: u64, now: u64, admitted: bool) {
        let thirds = i128::from(now) * 3;
        if admitted {
            let early = i128::from(!self.exact);
            assert!(
                self.allows(units, thirds + early, -self.forgotten),
                "{units} admitted at {now}: {self:?}"
            );
        } else {
            assert!(!self.allows(units, thirds, self.overstated), "{units} refused at {now}: {self:?}");
        }
    }

    fn push(&mut self, units: u64, now: u64) {
        self.log.push((i128::from(now) * 3, i128::from(units) * PARTS));
    }

    /// Replaces the history by what it comes to at `now`.
    fn sum_up(&mut self, parts: i128, now: u64) {
        self.log = vec![(i128::from(now) * 3, parts)];
    }

    /// Whether all of it was booked.
    fn report(&mut self, units: u64, now: u64) -> bool {
        let thirds = i128::from(now) * 3;
        let before = self.used(thirds).max(0);
        self.push(units, now);
        let deepest = i128::from(self.deepest()) * PARTS;
        if self.used(thirds) > deepest {
            self.sum_up(before.max(deepest), now);
            return false;
        }
        true
    }

    fn deepest(&self) -> u64 {
        (self.burst * (1 + REPORT_DEBT_LIMITS)).max(self.burst + self.debt)
    }

    fn refund(&mut self, units: u64, now: u64) {
        let used = self.used(i128::from(now) * 3);
        if used > 0 {
            self.sum_up((used - i128::from(units) * PARTS).max(0), now);
        }
    }

    /// Forgets what is used beyond the largest debt.
    fn bound(&mut self, now: u64) {
        let deepest = i128::from(self.deepest()) * PARTS;
        if self.used(i128::from(now) * 3) > deepest {
            self.sum_up(deepest, now);
        }
    }

    /// Counts as used up now if more is used than the largest debt. Whether it was left as it was.
    fn bring_back(&mut self, now: u64) -> bool {
        if self.used(i128::from(now) * 3) > i128::from(self.deepest()) * PARTS {
            self.sum_up(i128::from(self.burst) * PARTS, now);
            return false;
        }
        true
    }

    fn change(&mut self, mut to: Self, now: u64) {
        let used = self.used(i128::from(now) * 3).max(0);
        if self.rate == to.rate {
            (to.forgotten, to.overstated) = (self.forgotten, self.overstated);
            to.log = core::mem::take(&mut self.log);
            to.bound(now);
            *self = to;
            return;
        }
        // A tick is at most what a rate gives in a third of a nanosecond, or in one where it is
        // exact.
        let tick = |envelope: &Self| if envelope.exact { 3 * envelope.rate } else { envelope.rate };
        to.forgotten = self.forgotten + if self.exact { 0 } else { self.rate };
        to.overstated = self.overstated + tick(self) + tick(&to);
        if used > 0 {
            to.log = self.log.clone();
            to.sum_up(used.min(i128::from(to.deepest()) * PARTS), now);
        }
        *self = to;
    }
}

#[derive(Clone)]
struct World {
    bucket: Bucket,
    state: State,
    now: u64,
    envelope: Envelope,
    /// The charges that may be taken back, in the order of the log.
    charges: Vec<Charged>,
}

#[derive(Clone, Copy, Debug)]
enum Letter {
    Check(u64),
    Peek(u64),
    Report(u64),
    Refund(u64),
    /// Takes back the charge that has this many on top of it.
    Undo(usize),
    Move(i64),
    Load,
    /// Changes to these units, nanoseconds and burst.
    Change(u64, u64, u64),
}

impl World {
    fn new(units: u64, per_ns: u64, burst: u64, debt: u64, now: u64) -> Self {
        let bucket = bucket(units, per_ns, burst, debt);
        let envelope = Envelope::new(units, per_ns, burst, debt);
        Self { bucket, state: State::EMPTY, now, envelope, charges: Vec::new() }
    }

    fn charged(&mut self, after: State, units: u64) {
        self.charges.push(Charged { before: self.state, after, cost: cost(units) });
        self.state = after;
    }

    fn take(&mut self, letter: Letter) {
        let now = at(self.now);
        match letter {
            Letter::Check(units) => {
                let (admitted, next) = decide_and_check(&self.bucket, self.state, units, now);
                self.envelope.judge(units, self.now, admitted);
                if admitted {
                    self.envelope.push(units, self.now);
                    self.charged(next, units);
                }
            }
            Letter::Peek(units) => {
                let (admitted, _) = decide_and_check(&self.bucket, self.state, units, now);
                self.envelope.judge(units, self.now, admitted);
            }
            Letter::Report(units) => {
                let whole = self.envelope.report(units, self.now);
                self.charged(self.bucket.charge(self.state, cost(units), now), units);
                if !whole {
                    self.charges.clear();
                }
            }
            Letter::Refund(units) => {
                self.envelope.refund(units, self.now);
                self.state = self.bucket.refund(self.state, cost(units), now);
                self.charges.clear();
            }
            Letter::Undo(on_top) => self.undo(on_top),
            Letter::Move(by) => self.now = moved(self.now, by),
            Letter::Load => {
                self.state = self.bucket.brought_back(self.state, Timestamp::MIN, now);
                if !self.envelope.bring_back(self.now) {
                    self.charges.clear();
                }
            }
            Letter::Change(units, per_ns, burst) => {
                let next = bucket(units, per_ns, burst, 0);
                self.state = next.carry_over(self.state, &self.bucket, now);
                self.envelope.change(Envelope::new(units, per_ns, burst, 0), self.now);
                self.bucket = next;
                self.charges.clear();
            }
        }
    }

    fn undo(&mut self, on_top: usize) {
        let Some(index) = self.charges.len().checked_sub(on_top + 1) else { return };
        let entry = self.envelope.log.len() - self.charges.len() + index;
        let later = &self.envelope.log[entry..];
        // A clock that stepped back since hides when the charges on top were made.
        if later.iter().any(|(made, _)| *made > i128::from(self.now) * 3) {
            return;
        }
        let charge = self.charges[index];
        // The others were made on or under a state that no longer exists.
        self.charges.clear();
        let (made, _) = self.envelope.log.remove(entry);
        let exactly = self.state == charge.after;
        self.state = self.bucket.undo(self.state, &charge, at(self.now));
        if exactly {
            assert_eq!(self.state, charge.before, "taking back the last charge");
        } else if made != i128::from(self.now) * 3 {
            self.envelope.overstated += (i128::from(self.now) * 3 - made) * self.envelope.rate;
        }
        let thirds = i128::from(self.now) * 3;
        // Never less than without the charge, and `judge` will see to it that it is not much more.
        let used = i128::from(self.bucket.used(self.state, at(self.now)));
        let least = self.envelope.used(thirds + i128::from(!self.envelope.exact)) - self.envelope.forgotten;
        let least = (least.max(0) + PARTS - 1) / PARTS;
        assert!(used >= least, "an undo gave back too much: {used} < {least}");
    }
}

fn bucket(units: u64, per_ns: u64, burst: u64, debt: u64) -> Bucket {
    let rate = Rate::new(units, Duration::from_nanos(per_ns)).unwrap();
    Bucket::new(rate, burst).unwrap().with_debt(debt).unwrap()
}

/// Rates whose numbers in lowest terms are up to 4, where figures must be exact, and above.
const RATES: [(u64, u64); 8] = [(1, 10), (2, 7), (3, 10), (4, 9), (2, 2), (5, 7), (7, 10), (9, 11)];

#[test]
fn every_short_sequence_of_checks_reports_refunds_and_undos_is_answered_by_the_envelope() {
    use Letter::{Check, Move, Refund, Report, Undo};
    let letters = [Check(1), Check(2), Report(3), Refund(1), Undo(0), Undo(1), Move(1), Move(3), Move(11)];
    for (units, per_ns) in RATES {
        for burst in [1, 3] {
            let world = World::new(units, per_ns, burst, 0, 1_000);
            every_sequence(&world, &letters, 6, &|world, letter| world.take(letter));
        }
    }
}

#[test]
fn every_short_sequence_with_clock_steps_and_limit_changes_is_answered_by_the_envelope() {
    use Letter::{Change, Check, Load, Move, Peek};
    let letters = [
        Check(1),
        Check(3),
        Peek(2),
        Move(4),
        Move(-7),
        Move(-HOUR),
        Load,
        Change(3, 10, 4),
        Change(7, 9, 2),
    ];
    for (units, per_ns) in [(1, 10), (4, 9), (7, 10)] {
        let world = World::new(units, per_ns, 3, 0, 2 * HOUR.unsigned_abs());
        every_sequence(&world, &letters, 6, &|world, letter| world.take(letter));
    }
}

#[test]
fn every_short_sequence_of_a_bucket_with_debt_is_answered_by_the_envelope() {
    use Letter::{Check, Move, Refund, Undo};
    let letters = [Check(1), Check(2), Check(5), Refund(2), Undo(0), Move(2), Move(9), Move(-5)];
    for (units, per_ns) in [(1, 10), (3, 7), (7, 10)] {
        let world = World::new(units, per_ns, 2, 3, 1_000);
        every_sequence(&world, &letters, 6, &|world, letter| world.take(letter));
    }
}

#[test]
fn six_checks_at_every_spacing_are_answered_by_the_envelope() {
    use Letter::{Check, Move};
    let letters = [Check(1), Check(2), Move(1), Move(2), Move(13), Move(29)];
    for (units, per_ns) in RATES {
        let world = World::new(units, per_ns, 2, 0, 77);
        every_sequence(&world, &letters, 7, &|world, letter| world.take(letter));
    }
}

/// Rates as people write them, slow and fast, exact and not.
const WRITTEN: [(u64, u64); 8] = [
    (100, 1_000_000_000),
    (1, 365 * 86_400_000_000_000),
    (7, 1_000_000_000),
    (299_999_999, 1_000_000_000),
    (999_983, 1_000_000_000),
    (1_000_000_000, 1_000_000_000),
    (5, 600_000_000_000),
    (1000, 86_400_000_000_000),
];

fn written() -> impl Strategy<Value = (u64, u64)> {
    prop::sample::select(&WRITTEN[..])
}

/// Steps of about the size in which `per_ns` makes a unit, and the two clock steps.
fn letter() -> impl Strategy<Value = (u8, u64, i64, (u64, u64))> {
    (0..24_u8, 1..6_u64, 0..1_000_i64, written())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn long_sequences_across_clock_steps_and_limit_changes_are_answered_by_the_envelope(
        (units, per_ns) in written(),
        burst in 1..9_u64,
        letters in prop::collection::vec(letter(), 1..120),
    ) {
        // Burst and debt of a unit a year would drain for longer than allowed.
        let burst = if units == 1 { 1 } else { burst };
        let mut world = World::new(units, per_ns, burst, 0, 1_800_000_000_000_000_000);
        for (which, cost, part, (to_units, to_per)) in letters {
            let unit = (per_ns / units).max(1).cast_signed();
            let to_burst = if to_units == 1 { 1 } else { cost + 1 };
            world.take(match which {
                0..=8 => Letter::Check(cost.min(burst)),
                9..=14 => Letter::Move((unit / 400).max(1).saturating_mul(part)),
                15 => Letter::Move(1),
                16 => Letter::Report(cost * 9),
                17 => Letter::Refund(cost),
                18 | 19 => Letter::Undo(cost as usize - 1),
                20 => Letter::Move(-HOUR),
                21 if part < 100 => Letter::Move(TEN_YEARS),
                22 => Letter::Load,
                23 if part < 200 => Letter::Change(to_units, to_per, to_burst),
                _ => Letter::Peek(cost),
            });
        }
    }

    #[test]
    fn with_a_step_back_no_more_requests_are_admitted_than_without(
        (units, per_ns) in written(),
        burst in 1..6_u64,
        gaps in prop::collection::vec(0..2_000_u64, 1..80),
        step_at in 0..80_usize,
        back in prop::sample::select(vec![1, 1_000, 1_000_000_000, HOUR.unsigned_abs()]),
    ) {
        let burst = if units == 1 { 1 } else { burst };
        let bucket = bucket(units, per_ns, burst, 0);
        let mut steady = State::EMPTY;
        let (mut admitted_steady, mut admitted_stepped) = (0, 0);
        let mut now = 1_800_000_000_000_000_000_u64;
        // The envelope judges each answer of the bucket whose clock steps back.
        let mut stepped = World::new(units, per_ns, burst, 0, now);
        for (index, gap) in gaps.into_iter().enumerate() {
            now += (per_ns / units / 1000).max(1) * gap;
            let (verdict, next) = bucket.decide(steady, Cost::ONE, at(now));
            steady = next;
            admitted_steady += usize::from(verdict == Verdict::Admit);
            stepped.now = if index >= step_at { now - back } else { now };
            if index == step_at {
                stepped.take(Letter::Load);
            }
            let before = stepped.envelope.log.len();
            stepped.take(Letter::Check(1));
            admitted_stepped += stepped.envelope.log.len() - before;
            // Where an interval is no whole number of the bucket's ticks, it is a tick shorter at
            // some instants than at others. Two clocks that differ may then differ by requests,
            // although each admits what the rate and the burst allow.
            if stepped.envelope.exact {
                prop_assert!(admitted_stepped <= admitted_steady);
            }
        }
    }
}
