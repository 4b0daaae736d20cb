//! Fixed windows by their definition: the whole log, sorted into windows.

use core::time::Duration;

use proptest::prelude::*;

use super::*;

/// One charge: the start of the window it fell into, and what of it is still counted.
#[derive(Clone, Copy, Debug)]
struct Entry {
    opened: u64,
    units: u64,
}

#[derive(Clone)]
struct World {
    fixed: Fixed,
    state: State,
    now: u64,
    log: Vec<Entry>,
    /// The start of the window opened last. One that has been followed by another does not come
    /// back.
    latest: Option<u64>,
    /// The charges that may be taken back, in the order of the log, and the window opened last
    /// before each.
    charges: Vec<(Charged, Option<u64>)>,
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
    Limit(u64),
}

impl World {
    fn new(limit: u64, window: u64, start: WindowStart, now: u64) -> Self {
        let fixed = Fixed::new(limit, Duration::from_nanos(window), start).unwrap();
        Self { fixed, state: State::EMPTY, now, log: Vec::new(), latest: None, charges: Vec::new() }
    }

    fn window(&self) -> u64 {
        self.fixed.window().as_nanos() as u64
    }

    /// Where the window that `now` would open begins.
    fn would_open(&self) -> u64 {
        match self.fixed.start() {
            WindowStart::Epoch => self.now - self.now % self.window(),
            WindowStart::FirstHit => {
                // The largest power of two within a thousandth.
                let mut step = 1;
                while step * 2 <= self.window() / 1000 {
                    step *= 2;
                }
                (self.now..self.now + step).find(|start| start.is_multiple_of(step)).unwrap()
            }
        }
    }

    /// The start of the window that counts now: the last one opened, until it has passed.
    fn in_force(&self) -> u64 {
        let still = self.latest.filter(|opened| self.now < opened + self.window());
        still.unwrap_or_else(|| self.would_open())
    }

    fn used(&self) -> u64 {
        let opened = self.in_force();
        self.log.iter().filter(|entry| entry.opened == opened).map(|entry| entry.units).sum()
    }

    fn check(&mut self, units: u64) -> Option<State> {
        let (admitted, next) = decide_and_check(&self.fixed, self.state, units, at(self.now));
        assert_eq!(self.fixed.used(self.state, at(self.now)), self.used(), "{:?}", self.log);
        assert_eq!(
            admitted,
            self.used() + units <= self.fixed.limit(),
            "{units} at {}: {:?}",
            self.now,
            self.log
        );
        admitted.then_some(next)
    }

    fn push(&mut self, units: u64, after: State) {
        let opened = self.in_force();
        self.log.push(Entry { opened, units });
        self.charges.push((Charged { before: self.state, after, cost: cost(units) }, self.latest));
        self.latest = Some(opened);
        self.state = after;
    }

    fn take(&mut self, letter: Letter) {
        let now = at(self.now);
        match letter {
            Letter::Check(units) => {
                if let Some(after) = self.check(units) {
                    self.push(units, after);
                }
            }
            Letter::Peek(units) => drop(self.check(units)),
            Letter::Report(units) => {
                let room = (self.fixed.limit() * (1 + REPORT_DEBT_LIMITS)).saturating_sub(self.used());
                let after = self.fixed.charge(self.state, cost(units), now);
                self.push(units, after);
                self.log.last_mut().unwrap().units = units.min(room);
            }
            Letter::Refund(mut units) => {
                self.state = self.fixed.refund(self.state, cost(units), now);
                let opened = self.in_force();
                for entry in self.log.iter_mut().filter(|entry| entry.opened == opened) {
                    let back = entry.units.min(units);
                    (entry.units, units) = (entry.units - back, units - back);
                }
                self.charges.clear();
                self.forget_empty_windows();
            }
            Letter::Undo(on_top) => self.undo(on_top),
            Letter::Move(by) => self.now = moved(self.now, by),
            Letter::Limit(limit) => {
                let next = Fixed::new(limit, self.fixed.window(), self.fixed.start()).unwrap();
                self.state = next.carry_over(self.state, &self.fixed, now);
                self.fixed = next;
            }
        }
    }

    fn undo(&mut self, on_top: usize) {
        let Some(index) = self.charges.len().checked_sub(on_top + 1) else { return };
        let (charge, latest_before) = self.charges[index];
        self.charges.clear();
        let made = self.log.remove(self.log.len() - on_top - 1);
        let exactly = self.state == charge.after;
        self.state = self.fixed.undo(self.state, &charge, at(self.now));
        if exactly {
            assert_eq!(self.state, charge.before);
            self.latest = latest_before;
            return;
        }
        // Had it opened the window, one of those on top did: all that is known is that this was not
        // after now. Nothing is left of a window that has passed, no matter which charge opened it.
        let opened = latest_before != Some(made.opened) && self.now < made.opened + self.window();
        if self.fixed.start() == WindowStart::FirstHit && opened && self.latest == Some(made.opened) {
            let at_latest = self.would_open().max(made.opened);
            self.log
                .iter_mut()
                .filter(|entry| entry.opened == made.opened)
                .for_each(|e| e.opened = at_latest);
            self.latest = Some(at_latest);
        }
        self.forget_empty_windows();
    }

    /// A window from the first hit whose hits were all given back counts as never opened.
    fn forget_empty_windows(&mut self) {
        if self.fixed.start() == WindowStart::FirstHit {
            let holds = |opened| self.log.iter().any(|entry| entry.opened == opened && entry.units > 0);
            self.latest = self.latest.filter(|opened| holds(*opened));
        }
    }
}

const MILLISECOND: u64 = 1_000_000;

#[test]
fn every_short_sequence_is_answered_by_the_log() {
    use Letter::{Check, Limit, Move, Peek, Refund, Report, Undo};
    let ms = MILLISECOND.cast_signed();
    let letters = [
        Check(1),
        Check(2),
        Peek(3),
        Report(2),
        Refund(1),
        Undo(0),
        Undo(1),
        Move(1),
        Move(ms * 2 / 3),
        Move(-ms),
        Limit(2),
    ];
    for start in [WindowStart::Epoch, WindowStart::FirstHit] {
        for now in [5 * MILLISECOND, 5 * MILLISECOND + 7] {
            let world = World::new(3, MILLISECOND, start, now);
            every_sequence(&world, &letters, 5, &|world, letter| world.take(letter));
        }
    }
}

#[test]
fn every_sequence_of_six_checks_is_answered_by_the_log() {
    use Letter::{Check, Move};
    let ms = MILLISECOND.cast_signed();
    let letters = [Check(1), Check(2), Check(4), Move(1), Move(ms / 2), Move(ms), Move(-ms / 3)];
    for (start, limit) in [(WindowStart::Epoch, 2), (WindowStart::Epoch, 0), (WindowStart::FirstHit, 3)] {
        let world = World::new(limit, MILLISECOND, start, 9 * MILLISECOND - 1);
        every_sequence(&world, &letters, 6, &|world, letter| world.take(letter));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn long_sequences_across_clock_steps_and_limit_changes_are_answered_by_the_log(
        first_hit: bool,
        window in prop::sample::select(vec![MILLISECOND, 1_234_567, 1_000_000_000, 86_400_000_000_000]),
        limit in 1..200_u64,
        letters in prop::collection::vec((0..20_u8, 1..60_u64, 0..1_000_i64), 1..100),
    ) {
        let start = if first_hit { WindowStart::FirstHit } else { WindowStart::Epoch };
        // The smaller bounds leave room for a hundred times as much in reports, and keep the search
        // for the step short.
        let (window, limit_max) = if first_hit { (window.min(1_234_567), 4) } else { (window, 5_000) };
        let mut world = World::new(limit.min(limit_max), window, start, 1_800_000_000_000_000_000);
        for (which, units, part) in letters {
            world.take(match which {
                0..=7 => Letter::Check(units),
                8..=12 => Letter::Move((window.cast_signed() / 600) * part),
                13 => Letter::Report(units),
                14 => Letter::Refund(units),
                15 => Letter::Undo(units as usize % 4),
                16 => Letter::Move(-HOUR),
                17 if part < 100 => Letter::Move(TEN_YEARS),
                18 => Letter::Limit(units.min(limit_max)),
                _ => Letter::Peek(units),
            });
        }
    }
}
