//! The controller of a load level: pressure in, a level out, without flapping.
//!
//! A level is entered after two ticks in a row at its threshold, or one that is far above. It is
//! left after a whole settle time without such a tick, if the mean pressure of that time is a
//! margin below the threshold; the level then falls in one step to what the mean says.

use tidegate_core::Timestamp;

use crate::levels::load_level::{LevelThresholds, LoadLevel};
use crate::levels::threshold_entry::ThresholdEntry;

/// The ticks in a row with the queue over its target, the cursor closed, that make an emergency.
const EMERGENCY_TICKS: u32 = 5;
/// A settle time is kept in so many parts.
const PARTS: usize = 50;
/// Ticks that are further apart, in settle times over [`PARTS`], leave a gap.
const GAP_PARTS: u64 = 10;

/// The pressure of a part of the settle time.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    sum: f64,
    ticks: u32,
    max: f64,
    is_emergency: bool,
}

/// The input of the controller in one tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelInput {
    /// The worst pressure; `None`: no signal is fresh, and the level is held.
    pub(crate) pressure: Option<f64>,
    /// Whether the queue stood over its target for the whole tick.
    pub(crate) is_queue_over: bool,
    /// Whether the cursor is closed.
    pub(crate) is_cursor_closed: bool,
}

/// The state of the controller of one resource.
#[derive(Debug)]
pub(crate) struct LevelControl {
    thresholds: LevelThresholds,
    level: LoadLevel,
    transitions: u64,
    /// Of each threshold.
    entries: [ThresholdEntry; 4],
    emergency_ticks: u32,
    parts: [Part; PARTS],
    /// The number of the part that the last tick was in, and its instant.
    last: Option<(u64, Timestamp)>,
    /// Since when ticks have come without a gap.
    since: Timestamp,
}

impl LevelControl {
    pub(crate) fn new(thresholds: LevelThresholds) -> Self {
        Self {
            thresholds,
            level: LoadLevel::Normal,
            transitions: 0,
            entries: [ThresholdEntry::default(); 4],
            emergency_ticks: 0,
            parts: [Part { sum: 0.0, ticks: 0, max: 0.0, is_emergency: false }; PARTS],
            last: None,
            since: Timestamp::MIN,
        }
    }

    pub(crate) const fn level(&self) -> LoadLevel {
        self.level
    }

    pub(crate) const fn thresholds(&self) -> &LevelThresholds {
        &self.thresholds
    }

    /// Goes on at the level it has under other thresholds, with a settle time that starts anew.
    pub(crate) fn reconfigure(&mut self, thresholds: LevelThresholds) {
        if self.thresholds != thresholds {
            (self.thresholds, self.last) = (thresholds, None);
        }
    }

    /// How often the level has changed.
    pub(crate) const fn transitions(&self) -> u64 {
        self.transitions
    }

    pub(crate) fn tick(&mut self, input: LevelInput, now: Timestamp) -> LoadLevel {
        let part = self.advance(now);
        let stands = input.is_queue_over && input.is_cursor_closed;
        self.emergency_ticks = if stands { self.emergency_ticks.saturating_add(1) } else { 0 };
        let Some(pressure) = input.pressure else {
            // Nothing is known: the level is held, and no time passes for it.
            self.entries = Default::default();
            self.forget(now);
            return self.level;
        };
        let emergency = self.emergency_ticks >= EMERGENCY_TICKS;
        let enter = self.thresholds.enter();
        let is_emergency = emergency && pressure >= enter[3];
        let slot = &mut self.parts[part];
        slot.sum += pressure;
        slot.ticks += 1;
        slot.max = slot.max.max(pressure);
        slot.is_emergency |= is_emergency;
        let mut level = self.level;
        for (index, threshold) in enter.into_iter().enumerate() {
            if index == 3 && !emergency {
                self.entries[index].reset();
            } else if self.entries[index].observe(pressure, threshold) {
                level = level.max(LoadLevel::ALL[index + 1]);
            }
        }
        if level == self.level {
            level = self.settled(now);
        }
        self.transitions += u64::from(level != self.level);
        self.level = level;
        level
    }

    /// The level after the settle time: lower, or the same.
    fn settled(&self, now: Timestamp) -> LoadLevel {
        let index = self.level as usize;
        if index == 0 || now.saturating_since(self.since) < self.thresholds.settle {
            return self.level;
        }
        let enter = self.thresholds.enter();
        let is_at_level = if self.level == LoadLevel::Emergency {
            self.parts.iter().any(|part| part.is_emergency)
        } else {
            self.parts.iter().any(|part| part.ticks > 0 && part.max >= enter[index - 1])
        };
        let ticks: u32 = self.parts.iter().map(|part| part.ticks).sum();
        if is_at_level || ticks == 0 {
            return self.level;
        }
        let mean = self.parts.iter().map(|part| part.sum).sum::<f64>() / f64::from(ticks);
        // An emergency is over with its queue, whatever the use is.
        let highest = if self.level == LoadLevel::Emergency { 3 } else { index };
        let held = (0..highest).rev().find(|below| mean >= enter[*below] - self.thresholds.margin);
        held.map_or(LoadLevel::Normal, |below| LoadLevel::ALL[below + 1])
    }

    /// The part of `now`, those between it and the last tick emptied. A gap, or a clock that
    /// stepped back, starts the settle time anew.
    fn advance(&mut self, now: Timestamp) -> usize {
        let span = (self.thresholds.settle.as_nanos() as u64 / PARTS as u64).max(1);
        let number = now.as_nanos() / span;
        match self.last {
            Some((last, at)) if at <= now && number - last <= GAP_PARTS => {
                for skipped in last + 1..=number {
                    self.parts[(skipped % PARTS as u64) as usize] = Part::default();
                }
            }
            _ => self.forget(now),
        }
        self.last = Some((number, now));
        (number % PARTS as u64) as usize
    }

    fn forget(&mut self, now: Timestamp) {
        self.parts = [Part::default(); PARTS];
        self.since = now;
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::tick::TICK;

    struct Run {
        control: LevelControl,
        now: Timestamp,
    }

    impl Run {
        fn new() -> Self {
            let now = Timestamp::from_secs(1_800_000_000);
            Self { control: LevelControl::new(LevelThresholds::DEFAULT), now }
        }

        fn tick(&mut self, pressure: f64) -> LoadLevel {
            self.tick_of(LevelInput {
                pressure: Some(pressure),
                is_queue_over: false,
                is_cursor_closed: false,
            })
        }

        fn tick_of(&mut self, input: LevelInput) -> LoadLevel {
            self.now = self.now.saturating_add(TICK);
            self.control.tick(input, self.now)
        }

        /// Ticks at this pressure until the level is another, at most a minute.
        fn ticks_until_change(&mut self, pressure: f64) -> usize {
            let before = self.control.level();
            (1..=600).find(|_| self.tick(pressure) != before).unwrap_or(usize::MAX)
        }
    }

    #[test]
    fn a_level_is_entered_after_two_ticks_or_after_one_far_above() {
        let mut run = Run::new();
        assert_eq!((run.tick(0.75), run.tick(0.69)), (LoadLevel::Normal, LoadLevel::Normal));
        assert_eq!((run.tick(0.75), run.tick(0.70)), (LoadLevel::Normal, LoadLevel::Soft));
        assert_eq!(run.tick(0.97), LoadLevel::Brownout, "more than 1.2 times 0.80");
        assert_eq!(run.tick(1.1), LoadLevel::Hard);
        assert_eq!((run.tick(5.0), run.control.transitions()), (LoadLevel::Hard, 3), "no queue stands");
    }

    #[test]
    fn a_level_falls_in_one_step_after_the_settle_time() {
        let mut run = Run::new();
        (0..10).for_each(|_| assert!(run.tick(0.95) <= LoadLevel::Hard));
        let ticks = run.ticks_until_change(0.5);
        assert!((49..=52).contains(&ticks), "{ticks} ticks");
        assert_eq!(run.control.level(), LoadLevel::Normal);
        let mut run = Run::new();
        (0..10).for_each(|_| assert!(run.tick(0.95) <= LoadLevel::Hard));
        assert_eq!(run.ticks_until_change(0.85), usize::MAX, "within the margin");
        run.ticks_until_change(0.75);
        assert_eq!(run.control.level(), LoadLevel::Brownout, "0.75 holds what 0.80 enters");
    }

    #[test]
    fn an_emergency_needs_five_ticks_of_a_queue_over_target_behind_a_closed_cursor() {
        let mut run = Run::new();
        let stands = LevelInput { pressure: Some(1.0), is_queue_over: true, is_cursor_closed: true };
        for tick in 1..=6 {
            let level = run.tick_of(stands);
            assert_eq!(level == LoadLevel::Emergency, tick == 6, "tick {tick}: {level:?}");
        }
        let open = LevelInput { is_cursor_closed: false, ..stands };
        let ticks = (1..=600).find(|_| run.tick_of(open) != LoadLevel::Emergency).unwrap();
        assert!((48..=52).contains(&ticks), "{ticks}");
        assert_eq!(run.control.level(), LoadLevel::Hard, "full use without a queue is no emergency");
    }

    #[test]
    fn a_gap_absent_signals_and_a_clock_that_steps_back_hold_the_level() {
        let mut run = Run::new();
        (0..10).for_each(|_| assert!(run.tick(0.95) <= LoadLevel::Hard));
        run.now = run.now.saturating_add(Duration::from_mins(1));
        assert_eq!(run.tick(0.5), LoadLevel::Hard, "one tick says nothing of the minute before");
        let absent = LevelInput { pressure: None, is_queue_over: false, is_cursor_closed: false };
        (0..600).for_each(|_| assert_eq!(run.tick_of(absent), LoadLevel::Hard));
        run.now = run.now.saturating_sub(Duration::from_hours(1));
        let ticks = run.ticks_until_change(0.5);
        assert!((49..=52).contains(&ticks), "{ticks} ticks");
    }

    #[test]
    fn noise_around_a_threshold_changes_the_level_once() {
        let mut run = Run::new();
        for tick in 0..6000_u32 {
            run.tick(0.70 + (f64::from(tick * 7919 % 100) - 50.0) / 1000.0);
        }
        assert_eq!(run.control.transitions(), 1);
    }
}
