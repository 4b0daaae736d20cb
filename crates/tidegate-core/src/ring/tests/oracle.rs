//! The ring against a full log of instants that only counts, exhaustively for short sequences.

use super::*;

/// Every instant that counts or did, oldest first, and what is known about where the ring stands.
#[derive(Clone, Debug, Default)]
struct Log {
    instants: Vec<u64>,
    /// How many of the oldest may be forgotten: they had left the window at some charge before the
    /// last.
    forgettable: usize,
    /// Between which two instants the last charge lies: when charges are undone, but not each right
    /// after it was made, time may or may not go back.
    last: (u64, u64),
    charges: Vec<Made>,
}

#[derive(Clone, Debug)]
struct Made {
    charge: RingCharge,
    /// Where time stood before, and how many instants may be forgotten even if this is undone at
    /// once.
    before: ((u64, u64), usize),
    nothing_since: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Admit(u64),
    Report(u64),
    Refund(u64),
    /// Undo the latest charge that was not, or the one before that, ..
    Undo(usize),
    Limit(u64),
    Window(u64),
}

struct Run {
    rings: Rings,
    ring: RingHandle,
    limit: u64,
    window: u64,
    now: u64,
    log: Log,
    /// No window may hold more than this, as long as it never changed in length and nothing was
    /// reported.
    most: Option<u64>,
}

impl Run {
    fn new(rings: Rings, limit: u64, window: u64) -> Self {
        let ring = rings.create().unwrap();
        Self { rings, ring, limit, window, now: 10 * window, log: Log::default(), most: Some(limit) }
    }

    fn again(self, limit: u64, window: u64) -> Self {
        self.rings.reclaim(self.ring);
        Self::new(self.rings, limit, window)
    }

    fn rolling(&self) -> Rolling {
        rolling(self.limit, self.window)
    }

    /// The least and the most units that may be in the window at `now`.
    fn used(&self, now: u64) -> (u64, u64) {
        let counts = |instants: &[u64], at: u64| {
            instants.iter().filter(|&&instant| at.saturating_sub(instant) < self.window).count() as u64
        };
        let least = counts(&self.log.instants[self.log.forgettable..], now.max(self.log.last.1));
        (least, counts(&self.log.instants, now.max(self.log.last.0)))
    }

    fn check(&self) {
        let rolling = self.rolling();
        let times = [self.now, self.now.saturating_sub(self.window / 2), self.now + self.window / 3];
        for now in times {
            let used = self.rings.used(self.ring, &rolling, at(now)).unwrap();
            let (least, most) = self.used(now);
            assert!(
                (least..=most).contains(&used),
                "{used} used at {now}, not {least} to {most}: {:?}",
                self.log
            );
            for units in 1..=self.limit {
                let verdict = self.rings.decide(self.ring, &rolling, cost(units), at(now)).unwrap();
                assert_eq!(
                    verdict == Verdict::Admit,
                    used + units <= self.limit,
                    "{verdict:?} {used} {units}"
                );
                if let Verdict::Wait { until } = verdict {
                    self.check_until(units, now, until);
                }
            }
        }
        if let Some(most) = self.most {
            for &end in &self.log.instants {
                let inside = self
                    .log
                    .instants
                    .iter()
                    .filter(|&&instant| instant <= end && end - instant < self.window);
                assert!(inside.count() as u64 <= most, "the window that ends at {end}: {:?}", self.log);
            }
        }
    }

    fn check_until(&self, units: u64, now: u64, until: Timestamp) {
        let rolling = self.rolling();
        let decide = |now| self.rings.decide(self.ring, &rolling, cost(units), now).unwrap();
        assert_eq!(decide(until), Verdict::Admit);
        assert_ne!(decide(at(until.as_nanos() - 1)), Verdict::Admit);
        let is_known = self.log.forgettable == 0 && self.log.last.0 == self.log.last.1;
        if is_known {
            // Room appears only when an instant leaves the window.
            let leaves = self.log.instants.iter().map(|instant| instant + self.window);
            let first = leaves.filter(|&at| at > now && self.used(at).1 + units <= self.limit).min();
            assert_eq!(Some(until.as_nanos()), first);
        }
    }

    fn step(&mut self, step: Step) {
        let (rolling, now) = (self.rolling(), at(self.now));
        match step {
            Step::Limit(limit) => {
                self.most = self.most.map(|most| most.max(limit));
                self.limit = limit;
            }
            Step::Window(window) => {
                self.most = None;
                self.window = window;
            }
            Step::Admit(units) => {
                let (least, most) = self.used(self.now);
                match self.rings.admit(self.ring, &rolling, cost(units), now) {
                    Ok(charge) => {
                        assert!(least + units <= self.limit, "admitted {units} beside {least}");
                        assert_eq!(charge.units(), units);
                        self.made(charge);
                    }
                    Err(RingRefusal::Verdict(verdict)) => {
                        assert!(most + units > self.limit, "refused {units} beside {most}");
                        assert_eq!(matches!(verdict, Verdict::Never { .. }), units > self.limit);
                    }
                    Err(refusal) => panic!("{refusal:?}"),
                }
            }
            Step::Report(units) => {
                self.most = None;
                let (least, most) = self.used(self.now);
                let charge = self.rings.charge(self.ring, &rolling, cost(units), now).unwrap();
                let booked = |used: u64| units.min((2 * self.limit).saturating_sub(used));
                assert!((booked(most)..=booked(least)).contains(&charge.units()));
                self.made(charge);
            }
            Step::Refund(units) => {
                let used = self.rings.used(self.ring, &rolling, now).unwrap();
                let gone = units.min(used) as usize;
                assert_eq!(self.rings.refund(self.ring, &rolling, cost(units), now), gone > 0);
                self.log.instants.truncate(self.log.instants.len() - gone);
                self.log.forgettable = self.log.forgettable.min(self.log.instants.len());
                if gone > 0 {
                    self.log.charges.iter_mut().for_each(|made| made.nothing_since = false);
                }
            }
            Step::Undo(back) => {
                let Some(index) = self.log.charges.len().checked_sub(back + 1) else { return };
                let made = self.log.charges.remove(index);
                self.undo(&made, now);
            }
        }
    }

    fn made(&mut self, charge: RingCharge) {
        if charge.units() == 0 {
            return;
        }
        let (log, at) = (&mut self.log, charge.at().as_nanos());
        assert!((self.now.max(log.last.0)..=self.now.max(log.last.1)).contains(&at));
        log.charges.iter_mut().for_each(|made| made.nothing_since = false);
        let left = |at: u64| {
            log.instants.iter().filter(|&&instant| at.saturating_sub(instant) >= self.window).count()
        };
        // This charge may overwrite instants that had left the window before it. Instants that
        // leave with it are dropped if they are so old that their low bits would repeat.
        let overwritten = log.forgettable.max(left(log.last.1));
        let is_far = log.instants.first().is_some_and(|oldest| at - oldest > u64::from(u32::MAX));
        let forgettable = if is_far { overwritten.max(left(at)) } else { overwritten };
        log.charges.push(Made { charge, before: (log.last, overwritten), nothing_since: true });
        log.forgettable = forgettable;
        log.last = (at, at);
        let units = charge.units() as usize;
        let place = log.instants.partition_point(|&instant| instant <= at);
        assert_eq!(place, log.instants.len(), "a charge before the last");
        log.instants.splice(place..place, std::iter::repeat_n(at, units));
    }

    fn undo(&mut self, made: &Made, now: Timestamp) {
        let log = &mut self.log;
        let at = made.charge.at().as_nanos();
        let (from, to) = (
            log.instants.partition_point(|&instant| instant < at),
            log.instants.partition_point(|&instant| instant <= at),
        );
        let units = (to - from).min(made.charge.units() as usize);
        let taken = self.rings.undo(self.ring, &made.charge, now);
        if from >= log.forgettable && !taken && units as u64 == made.charge.units() {
            // Let go because they had left the window, a far jump ahead.
            assert!(log.last.1 - at >= self.window);
            log.forgettable = log.forgettable.max(to);
        }
        log.instants.drain(from..from + units);
        log.forgettable -= log.forgettable.saturating_sub(from).min(units);
        if made.nothing_since {
            assert!(taken);
            (log.last, log.forgettable) = made.before;
        } else {
            log.last.0 = log.last.0.min(made.before.0.0).max(log.instants.last().copied().unwrap_or(0));
            log.charges.iter_mut().for_each(|made| made.nothing_since = false);
        }
        // Undone from the latest on, time may go back all the way; whether it does is the ring's
        // choice.
        if let Some(latest) = log.charges.last() {
            log.last.0 = log.last.0.min(latest.charge.at().as_nanos());
        }
    }
}

/// Runs every sequence of `depth` steps, each after every one of `gaps`.
fn explore(limit: u64, window: u64, depth: usize, gaps: &[i64], steps: &[Step]) -> u64 {
    let choices = gaps.len() * steps.len();
    let mut chosen = vec![0; depth];
    let mut run = Run::new(Rings::new(4_096), limit, window);
    let mut sequences = 0;
    loop {
        for &choice in &chosen {
            run.now = run.now.saturating_add_signed(gaps[choice / steps.len()]);
            run.step(steps[choice % steps.len()]);
        }
        run.check();
        sequences += 1;
        run = run.again(limit, window);
        let Some(position) = chosen.iter().rposition(|&choice| choice + 1 < choices) else {
            return sequences;
        };
        chosen[position] += 1;
        chosen[position + 1..].fill(0);
    }
}

#[test]
fn every_short_sequence_of_admits_agrees_with_a_full_log() {
    let steps = [Step::Admit(1), Step::Admit(2)];
    let sequences = explore(3, 1_000, 6, &[0, 1, 400, 999, 1_000], &steps);
    assert_eq!(sequences, 1_000_000);
}

#[test]
fn every_short_sequence_with_steps_back_and_undoing_agrees_with_a_full_log() {
    use Step::{Admit, Refund, Undo};
    explore(
        2,
        1_000,
        4,
        &[0, 1, 600, 1_000, -300, 1 << 34],
        &[Admit(1), Admit(2), Refund(1), Undo(0), Undo(1)],
    );
    explore(3, 1_000, 6, &[0, 500, -1], &[Admit(1), Undo(0), Undo(1)]);
}

#[test]
fn every_short_sequence_of_changed_limits_and_windows_agrees_with_a_full_log() {
    use Step::{Admit, Limit, Report, Undo, Window};
    let steps = [Admit(1), Admit(2), Report(3), Limit(1), Limit(4), Window(1_000), Window(3_000), Undo(0)];
    explore(3, 2_000, 4, &[0, 700, 2_000, -100], &steps);
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let units = || prop_oneof![4 => 1_u64..=2, 1 => 3_u64..=12];
    let gap = prop_oneof![3 => 0_i64..=50, 2 => 50_i64..=2_500, 1 => -700_i64..=0, 1 => Just(1 << 33), 1 => Just(1 << 32)];
    let step = prop_oneof![
        8 => units().prop_map(Step::Admit),
        1 => units().prop_map(Step::Report),
        1 => units().prop_map(Step::Refund),
        2 => (0_usize..3).prop_map(Step::Undo),
        1 => (0_u64..=12).prop_map(Step::Limit),
        1 => (1_000_u64..=5_000).prop_map(Step::Window),
    ];
    prop::collection::vec((gap, step), 1..120)
}

proptest! {
    #[test]
    fn long_sequences_agree_with_a_full_log(limit in 1_u64..=10, steps in steps()) {
        let mut run = Run::new(Rings::new(8_192), limit, 1_000);
        for (gap, step) in steps {
            run.now = run.now.saturating_add_signed(gap);
            run.step(step);
            run.check();
        }
    }

    /// With ticks of more than a nanosecond: what the window holds, up to one tick at its edge.
    #[test]
    fn long_windows_are_exact_but_for_a_tick(
        window in (1_u64 << 31)..(1 << 54),
        other in (1_u64 << 31)..(1 << 54),
        start in 0_u64..(1 << 60),
        steps in prop::collection::vec((0_u64..512, any::<bool>(), 1_u64..=2), 1..60),
    ) {
        let rings = Rings::new(8_192);
        let ring = rings.create().unwrap();
        let (limits, mut now) = ([rolling(6, window), rolling(6, other)], start);
        let mut log: Vec<u64> = Vec::new();
        for (gap, changed, units) in steps {
            // A gap of half a window at most.
            now += window / 1_024 * gap;
            let limit = limits[usize::from(changed)];
            let span = if changed { other } else { window };
            // The ticks of both windows may have rounded an instant, one after the other.
            let slack = (window >> 30) + (other >> 30);
            let inside = |reach: u64| log.iter().filter(|&&instant| now - instant < reach).count() as u64;
            match rings.admit(ring, &limit, cost(units), at(now)) {
                Ok(_) => {
                    // A shorter window before may have let go of what a longer one would count.
                    let reach = span.min(window).min(other);
                    prop_assert!(inside(reach) + units <= 6);
                    log.extend(std::iter::repeat_n(now, units as usize));
                }
                Err(RingRefusal::Verdict(Verdict::Wait { until })) => {
                    prop_assert!(inside(span + slack) + units > 6);
                    let until = until.as_nanos();
                    prop_assert_eq!(rings.decide(ring, &limit, cost(units), at(until)), Some(Verdict::Admit));
                    prop_assert_ne!(rings.decide(ring, &limit, cost(units), at(until - 1)), Some(Verdict::Admit));
                }
                Err(refusal) => prop_assert!(false, "{:?}", refusal),
            }
        }
    }
}
