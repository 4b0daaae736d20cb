//! The load of a resource in the last minute: the requests for it, and their time in its places.

use core::time::Duration;
use std::collections::VecDeque;

use tidegate_core::Timestamp;

/// The time that the load of a [`LoadMinute`] is of.
const MINUTE: Duration = Duration::from_mins(1);
/// The shortest time between two totals that are kept.
const STEP: Duration = Duration::from_secs(2);
/// The most totals that are kept: a minute of them, and the one before.
const TOTALS_MAX: usize = 31;
/// Totals further apart are of a process that was suspended.
const GAP: Duration = Duration::from_mins(2);

/// Counts since the start of a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct LoadTotals {
    /// Requests that were offered and that no limit, table or feature refused.
    pub(crate) asked: u64,
    /// Those that were refused because of the load, or waited in vain.
    pub(crate) refused: u64,
    /// Those whose end was reported, and for how many microseconds they kept their places together.
    pub(crate) ended: u64,
    pub(crate) micros: u64,
}

/// The totals of the last minute, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct LoadMinute(VecDeque<(Timestamp, LoadTotals)>);

/// The load of about a minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RecentLoad {
    pub(crate) span: Duration,
    pub(crate) counts: LoadTotals,
}

impl LoadMinute {
    /// Takes in the totals of an instant.
    pub(crate) fn note(&mut self, totals: LoadTotals, now: Timestamp) {
        if let Some((last, _)) = self.0.back() {
            if now < *last || now.saturating_since(*last) > GAP {
                self.0.clear();
            } else if now.saturating_since(*last) < STEP {
                return;
            }
        }
        self.0.push_back((now, totals));
        let is_old = |at: Timestamp| now.saturating_since(at) >= MINUTE;
        // The oldest one that is kept is a minute old.
        while self.0.len() > TOTALS_MAX || self.0.get(1).is_some_and(|(at, _)| is_old(*at)) {
            self.0.pop_front();
        }
    }

    /// The load of the last minute; `None` while less than half of it is known.
    pub(crate) fn recent(&self) -> Option<RecentLoad> {
        let ((first, before), (last, after)) = (self.0.front()?, self.0.back()?);
        let span = last.saturating_since(*first);
        let counts = LoadTotals {
            asked: after.asked.saturating_sub(before.asked),
            refused: after.refused.saturating_sub(before.refused),
            ended: after.ended.saturating_sub(before.ended),
            micros: after.micros.saturating_sub(before.micros),
        };
        (span >= MINUTE / 2).then_some(RecentLoad { span, counts })
    }
}

impl RecentLoad {
    /// The part of the requests that was refused.
    pub(crate) fn refused_part(&self) -> f64 {
        self.counts.refused as f64 / self.counts.asked.max(1) as f64
    }

    /// The mean time for which a request kept its place, in seconds.
    pub(crate) fn place_seconds(&self) -> f64 {
        self.counts.micros as f64 / self.counts.ended.max(1) as f64 / 1e6
    }

    /// The requests a second.
    pub(crate) fn asked_rate(&self) -> f64 {
        self.counts.asked as f64 / self.span.as_secs_f64()
    }

    /// The places in use on average, by Little's law.
    pub(crate) fn in_use(&self) -> f64 {
        self.counts.micros as f64 / 1e6 / self.span.as_secs_f64()
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_the_last_minute_and_unknown_at_first_and_after_a_gap() {
        let mut minute = LoadMinute::default();
        let at = |seconds: u64| Timestamp::from_secs(1_800_000_000 + seconds);
        let totals = |seconds: u64| LoadTotals {
            asked: 100 * seconds,
            refused: 80 * seconds,
            ended: 20 * seconds,
            micros: 20 * seconds * 40_000,
        };
        for second in 0..=29 {
            minute.note(totals(second), at(second));
            assert_eq!(minute.recent(), None);
        }
        for second in 30..200 {
            minute.note(totals(second), at(second));
        }
        let recent = minute.recent().unwrap();
        assert!((58..=62).contains(&recent.span.as_secs()), "{recent:?}");
        assert!((recent.asked_rate() - 100.0).abs() < 0.01 && (recent.refused_part() - 0.8).abs() < 0.01);
        assert!((recent.place_seconds() - 0.04).abs() < 0.001 && (recent.in_use() - 0.8).abs() < 0.01);
        assert!(minute.0.len() <= TOTALS_MAX);
        minute.note(totals(900), at(900));
        assert_eq!(minute.recent(), None);
        minute.note(totals(1), at(1));
        assert_eq!(minute.0.len(), 1, "the clock has stepped back");
    }
}
