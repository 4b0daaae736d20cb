//! The sliding counter by its definition: the whole log, and beside it an exact sliding window over
//! the same log.

use core::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Clone)]
struct World {
    counter: SlidingCounter,
    state: State,
    now: u64,
    /// Instant and units of each charge. The instant is that of the window it fell into, if the
    /// clock was behind it.
    log: Vec<(u64, u64)>,
    charges: Vec<Charged>,
}

#[derive(Clone, Copy, Debug)]
enum Letter {
    Check(u64),
    Peek(u64),
    Report(u64),
    Undo(usize),
    Move(i64),
    Limit(u64),
}

impl World {
    fn new(limit: u64, window: u64, now: u64) -> Self {
        let counter = SlidingCounter::new(limit, Duration::from_nanos(window)).unwrap();
        Self { counter, state: State::EMPTY, now, log: Vec::new(), charges: Vec::new() }
    }

    fn window(&self) -> u64 {
        self.counter.window().as_nanos() as u64
    }

    /// The clock, which windows keep from going back behind the start of the last one used.
    fn effective_now(&self) -> u64 {
        let latest = self.log.iter().map(|(at, _)| at - at % self.window()).max().unwrap_or(0);
        self.now.max(latest)
    }

    fn counted(&self, from: u64, until: u64) -> u128 {
        self.log
            .iter()
            .filter(|(at, _)| (from..until).contains(at))
            .map(|(_, units)| u128::from(*units))
            .sum()
    }

    /// The used units, times the window.
    fn used(&self) -> u128 {
        let (now, window) = (self.effective_now(), self.window());
        let start = now - now % window;
        let covered = start + window - now;
        self.counted(start, start + window) * u128::from(window)
            + self.counted(start - window, start) * u128::from(covered)
    }

    fn check(&mut self, units: u64) -> Option<State> {
        let (admitted, next) = decide_and_check(&self.counter, self.state, units, at(self.now));
        let window = u128::from(self.window());
        assert_eq!(u128::from(self.counter.used(self.state, at(self.now))), self.used().div_ceil(window));
        let fits = self.used() + u128::from(units) * window <= u128::from(self.counter.limit()) * window;
        assert_eq!(admitted, fits, "{units} at {}: {:?}", self.now, self.log);
        admitted.then_some(next)
    }

    fn push(&mut self, units: u64, after: State) {
        self.log.push((self.effective_now(), units));
        self.charges.push(Charged { before: self.state, after, cost: cost(units) });
        self.state = after;
    }

    fn take(&mut self, letter: Letter) {
        match letter {
            Letter::Check(units) => {
                if let Some(after) = self.check(units) {
                    self.push(units, after);
                }
            }
            Letter::Peek(units) => drop(self.check(units)),
            Letter::Report(units) => {
                let (now, window) = (self.effective_now(), self.window());
                let current = self.counted(now - now % window, now - now % window + window) as u64;
                let room = (self.counter.limit() * (1 + REPORT_DEBT_LIMITS)).saturating_sub(current);
                let after = self.counter.charge(self.state, cost(units), at(self.now));
                self.push(units, after);
                self.log.last_mut().unwrap().1 = units.min(room);
            }
            Letter::Undo(on_top) => {
                let Some(index) = self.charges.len().checked_sub(on_top + 1) else { return };
                let charge = self.charges[index];
                self.charges.clear();
                let exactly = self.state == charge.after;
                let entry = self.log.len() - on_top - 1;
                self.state = self.counter.undo(self.state, &charge, at(self.now));
                if exactly {
                    assert_eq!(self.state, charge.before);
                    self.log.remove(entry);
                } else {
                    // The window it fell into stays the last one used.
                    self.log[entry].1 = 0;
                }
            }
            Letter::Move(by) => self.now = moved(self.now, by),
            Letter::Limit(limit) => {
                let next = SlidingCounter::new(limit, self.counter.window()).unwrap();
                self.state = next.carry_over(self.state, &self.counter, at(self.now));
                self.counter = next;
            }
        }
    }
}

#[test]
fn every_short_sequence_is_answered_by_the_log() {
    use Letter::{Check, Limit, Move, Peek, Report, Undo};
    let letters = [
        Check(1),
        Check(2),
        Peek(3),
        Report(2),
        Undo(0),
        Undo(1),
        Move(1),
        Move(333),
        Move(999),
        Move(-500),
        Limit(2),
    ];
    for now in [50_000, 50_999] {
        let world = World::new(3, 1_000, now);
        every_sequence(&world, &letters, 5, &|world, letter| world.take(letter));
    }
}

#[test]
fn every_sequence_of_seven_checks_is_answered_by_the_log() {
    use Letter::{Check, Move};
    let letters = [Check(1), Check(2), Move(1), Move(250), Move(1_700), Move(-2_000)];
    for limit in [2, 3] {
        let world = World::new(limit, 1_001, 70_000);
        every_sequence(&world, &letters, 7, &|world, letter| world.take(letter));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn long_sequences_across_clock_steps_and_limit_changes_are_answered_by_the_log(
        window in prop::sample::select(vec![1_000_000_u64, 1_234_567, 1_000_000_000, 86_400_000_000_000]),
        limit in 1..200_u64,
        letters in prop::collection::vec((0..20_u8, 1..60_u64, 0..1_000_i64), 1..100),
    ) {
        let mut world = World::new(limit, window, 1_800_000_000_000_000_000);
        let mut reported = 0;
        for (which, units, part) in letters {
            world.take(match which {
                0..=7 => Letter::Check(units),
                8..=12 => Letter::Move((window.cast_signed() / 600) * part),
                // As long as all of it is booked.
                13 if reported < 200 => {
                    reported += units;
                    Letter::Report(units)
                }
                15 => Letter::Undo(units as usize % 4),
                16 => Letter::Move(-HOUR),
                17 if part < 100 => Letter::Move(TEN_YEARS),
                18 => Letter::Limit(units),
                _ => Letter::Peek(units),
            });
        }
    }
}

/// The most units that lie in any span of the window's length.
fn most_in_any_window(admitted: &[(u64, u64)], window: u64) -> u64 {
    let mut most = 0;
    let (mut from, mut sum) = (0, 0);
    for (at, units) in admitted {
        sum += units;
        while admitted[from].0 + window <= *at {
            sum -= admitted[from].1;
            from += 1;
        }
        most = most.max(sum);
    }
    most
}

#[test]
fn the_worst_case_is_twice_the_limit_less_one_and_is_reached() {
    for (limit, window) in
        [(1, 1_000_u64), (2, 1_000), (7, 1_000_000), (100, 1_000_000), (10_000, 1_000_000_000)]
    {
        let counter = SlidingCounter::new(limit, Duration::from_nanos(window)).unwrap();
        // All of it in the last instant of a window, then each unit as soon as it fades.
        let last = 1_000 * window - 1;
        let mut state = counter.charge(State::EMPTY, cost(limit), at(last));
        let mut admitted = vec![(last, limit)];
        let mut now = at(last);
        while now.as_nanos() < last + window {
            match counter.decide(state, Cost::ONE, now) {
                (Verdict::Admit, next) => {
                    state = next;
                    admitted.push((now.as_nanos(), 1));
                }
                (Verdict::Wait { until }, _) => now = until,
                (never, _) => panic!("{never:?}"),
            }
        }
        admitted.pop_if(|(at, _)| *at >= last + window);
        assert_eq!(most_in_any_window(&admitted, window), 2 * limit - 1);
    }
}

/// A sequence of numbers that look random, the same every time.
fn scramble(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Runs traffic whose gaps are `gap(random, position in the window)` through the counter, and
/// through an exact sliding window. Returns the most the counter admitted in any window in
/// thousandths of the limit, and all that it admitted in thousandths of what the exact window did.
fn measure(limit: u64, mut gap: impl FnMut(u64, u64) -> u64) -> (u64, u64) {
    let counter = SlidingCounter::new(limit, Duration::from_nanos(MINUTE)).unwrap();
    let (mut state, mut now, mut seed) = (State::EMPTY, 1_000 * MINUTE, 42);
    let mut admitted: Vec<(u64, u64)> = Vec::new();
    let mut exactly: Vec<u64> = Vec::new();
    while now < 1_400 * MINUTE {
        now += gap(scramble(&mut seed), now % MINUTE);
        let (verdict, next) = counter.decide(state, Cost::ONE, at(now));
        state = next;
        if verdict == Verdict::Admit {
            admitted.push((now, 1));
        }
        // An exact window admits when the one admitted `limit` before it has left.
        let oldest = exactly.len().checked_sub(limit as usize).map(|index| exactly[index]);
        if oldest.is_none_or(|oldest| oldest + MINUTE <= now) {
            exactly.push(now);
        }
    }
    (most_in_any_window(&admitted, MINUTE) * 1000 / limit, (admitted.len() * 1000 / exactly.len()) as u64)
}

const MINUTE: u64 = 60_000_000_000;

#[test]
fn even_and_random_traffic_stays_close_to_an_exact_window() {
    let limit = 1_000;
    // Random gaps around a mean that makes up this many percent of the limit.
    let random =
        |percent: u64| move |random: u64, _: u64| random % (2 * MINUTE * 100 / (limit * percent)) + 1;
    // Two hundred at once, on average as many as the limit.
    let bursts = |random: u64, _: u64| if random.is_multiple_of(200) { random % (2 * MINUTE / 5) } else { 1 };
    // Nothing until the last tenth of each minute, then half as much again as the limit.
    let late = |random: u64, within: u64| match (MINUTE * 9 / 10).checked_sub(within) {
        Some(wait) if wait > 0 => wait,
        _ => random % (MINUTE / 7_500) + 1,
    };
    // The largest share of the limit in any window, and the least and most of what an exact window
    // admits.
    let bounds = [
        ("even, 200 %", measure(limit, |_, _| MINUTE / (2 * limit)), 1000, 990..=1000),
        ("random, 50 %", measure(limit, random(50)), 600, 1000..=1000),
        ("random, 95 %", measure(limit, random(95)), 1010, 995..=1005),
        ("random, 110 %", measure(limit, random(110)), 1020, 990..=1010),
        ("random, 300 %", measure(limit, random(300)), 1020, 990..=1010),
        ("bursts of 200", measure(limit, bursts), 1200, 950..=1050),
        ("last tenth only", measure(limit, late), 1200, 600..=1050),
    ];
    for (traffic, (most, all), most_bound, all_bound) in bounds {
        println!(
            "{traffic}: at most {most} thousandths of the limit in any window, {all} of an exact window in all"
        );
        assert!(most <= most_bound && all_bound.contains(&all), "{traffic}: {most}, {all}");
    }
}
