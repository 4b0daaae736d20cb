//! The instants of an exact sliding window, kept in order: the sequential counterpart of
//! [`tidegate_core::ring`].
//!
//! Units charged at one instant are one entry, so a large cost takes no more room than a small one.
//! Entries count through, so that what is used within a window is one search and one subtraction.
//! Time does not go back: a `now` earlier than the newest charge counts as the instant of that
//! charge.

use core::time::Duration;
use std::collections::VecDeque;

use tidegate_core::Timestamp;
use tidegate_core::algorithm::{Rolling, Verdict};
use tidegate_core::ring::RING_DEBT_LIMITS;

/// Units by the instant they were charged at, the oldest first.
///
/// At most `1 + `[`RING_DEBT_LIMITS`] times the largest limit it was charged under, and not more
/// entries than units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitLog {
    entries: VecDeque<LogEntry>,
    /// Units counted before the first entry. Counts wrap; only their differences mean anything.
    before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogEntry {
    at: Timestamp,
    /// All units charged up to and with this entry.
    through: u64,
}

impl UnitLog {
    /// Heap bytes of one entry.
    const ENTRY_BYTES: usize = size_of::<LogEntry>();

    /// A log this many times larger than its entries gives room back.
    const SHRINK_FACTOR: usize = 4;

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Heap bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * Self::ENTRY_BYTES
    }

    /// The most heap bytes that so many more entries add.
    pub(crate) fn growth(&self, entries: usize) -> usize {
        let needed = self.entries.len() + entries;
        if needed <= self.entries.capacity() {
            return 0;
        }
        // It grows twofold whenever it is full, which ends before twice what is needed, or at the
        // first four.
        let capacity = (2 * needed).max(4);
        (capacity - self.entries.capacity()) * Self::ENTRY_BYTES
    }

    /// `now`, or the newest instant charged at if that is later.
    fn clamp(&self, now: Timestamp) -> Timestamp {
        self.entries.back().map_or(now, |newest| newest.at.max(now))
    }

    /// The index of the oldest entry that is still within `window` at `now`, and what was counted
    /// before it.
    fn live(&self, window: Duration, now: Timestamp) -> (usize, u64) {
        let now = self.clamp(now);
        let first = self.entries.partition_point(|entry| now.saturating_since(entry.at) >= window);
        (first, first.checked_sub(1).map_or(self.before, |last_gone| self.entries[last_gone].through))
    }

    fn total(&self) -> u64 {
        self.entries.back().map_or(self.before, |newest| newest.through)
    }

    /// Units used at `now`; above the limit when in debt or when the limit was lowered.
    pub(crate) fn used(&self, window: Duration, now: Timestamp) -> u64 {
        self.total().wrapping_sub(self.live(window, now).1)
    }

    /// Whether `cost` units are admitted at `now`.
    pub(crate) fn decide(&self, rolling: &Rolling, cost: u64, now: Timestamp) -> Verdict {
        let limit = rolling.limit();
        if cost > limit {
            return Verdict::Never { largest: limit };
        }
        let (first, before) = self.live(rolling.window(), now);
        let used = self.total().wrapping_sub(before);
        // Both are at most a few million.
        let Some(excess) = (used + cost).checked_sub(limit).filter(|excess| *excess > 0) else {
            return Verdict::Admit;
        };
        // The first entry with whose leaving enough has left.
        let live = self.entries.range(first..);
        let binding = live.into_iter().find(|entry| entry.through.wrapping_sub(before) >= excess);
        let until = binding.map_or(Timestamp::MAX, |entry| entry.at.saturating_add(rolling.window()));
        Verdict::Wait { until }
    }

    /// Charges `units` at `now` and forgets what has left the window. The instant they count from.
    pub(crate) fn charge(&mut self, window: Duration, units: u64, now: Timestamp) -> Timestamp {
        let at = self.clamp(now);
        let (gone, before) = self.live(window, at);
        self.entries.drain(..gone);
        self.before = before;
        let through = self.total().wrapping_add(units);
        match self.entries.back_mut() {
            Some(newest) if newest.at == at => newest.through = through,
            _ => self.entries.push_back(LogEntry { at, through }),
        }
        self.shrink();
        at
    }

    /// As [`UnitLog::charge`], whether or not there is room, as deep as the debt may be. The
    /// instant and how many units were booked.
    pub(crate) fn report(
        &mut self,
        rolling: &Rolling,
        units: u64,
        now: Timestamp,
    ) -> Option<(Timestamp, u64)> {
        let room =
            (rolling.limit() * (1 + RING_DEBT_LIMITS)).saturating_sub(self.used(rolling.window(), now));
        let booked = units.min(room);
        (booked > 0).then(|| (self.charge(rolling.window(), booked, now), booked))
    }

    /// Takes the newest `units` out, at most those used at `now`. How many there were.
    pub(crate) fn refund(&mut self, window: Duration, units: u64, now: Timestamp) -> u64 {
        let units = units.min(self.used(window, now));
        if units == 0 {
            return 0;
        }
        let end = self.total().wrapping_sub(units);
        while let Some(newest) = self.entries.pop_back() {
            // Counted from the oldest, which comes before `end` however the counts wrap.
            if self.total().wrapping_sub(self.before) < end.wrapping_sub(self.before) {
                self.entries.push_back(LogEntry { through: end, ..newest });
                break;
            }
            if self.total() == end {
                break;
            }
        }
        self.shrink();
        units
    }

    /// Takes out `units` that were charged at `at`, as far as they are there. How many there were.
    pub(crate) fn take_out(&mut self, at: Timestamp, units: u64) -> u64 {
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.at) else { return 0 };
        let before = index.checked_sub(1).map_or(self.before, |older| self.entries[older].through);
        let here = self.entries[index].through.wrapping_sub(before);
        let units = units.min(here);
        for entry in self.entries.range_mut(index..) {
            entry.through = entry.through.wrapping_sub(units);
        }
        if units == here {
            self.entries.remove(index);
        }
        self.shrink();
        units
    }

    /// When nothing is used any more; `now` if nothing is.
    pub(crate) fn reset_at(&self, window: Duration, now: Timestamp) -> Timestamp {
        match self.entries.back() {
            Some(newest) if self.used(window, now) > 0 => newest.at.saturating_add(window),
            _ => now,
        }
    }

    /// Whether instants lie more than a window ahead of `now`.
    pub(crate) fn lies_ahead(&self, window: Duration, now: Timestamp) -> bool {
        self.entries.back().is_some_and(|newest| newest.at > now.saturating_add(window))
    }

    /// Brings instants that lie more than a window ahead of `now` back to `now`, as after a clock
    /// that was wrong. Whether there were any.
    pub(crate) fn bring_back(&mut self, window: Duration, now: Timestamp) -> bool {
        if !self.lies_ahead(window, now) {
            return false;
        }
        let through = self.total();
        self.entries.retain(|entry| entry.at < now);
        self.entries.push_back(LogEntry { at: now, through });
        true
    }

    /// Units counted before the first entry, and the entries: an instant, and all units up to and
    /// with it.
    pub(crate) fn parts(&self) -> (u64, impl ExactSizeIterator<Item = (Timestamp, u64)>) {
        (self.before, self.entries.iter().map(|entry| (entry.at, entry.through)))
    }

    /// The log with these parts; `None` if it could not be one.
    pub(crate) fn from_parts(before: u64, entries: Vec<(Timestamp, u64)>) -> Option<Self> {
        // As much as the largest limit can be in debt, with entries that have left and were not
        // dropped yet.
        const UNITS_MAX: u64 = 2 * Rolling::LIMIT_MAX * (1 + RING_DEBT_LIMITS);
        let in_order = entries.windows(2).all(|pair| {
            let counted = |through: u64| through.wrapping_sub(before);
            pair[0].0 < pair[1].0 && counted(pair[0].1) <= counted(pair[1].1)
        });
        let total = entries.last().map_or(0, |(_, through)| through.wrapping_sub(before));
        if !in_order || total > UNITS_MAX {
            return None;
        }
        let entries = entries.into_iter().map(|(at, through)| LogEntry { at, through }).collect();
        Some(Self { entries, before })
    }

    fn shrink(&mut self) {
        let needed = self.entries.len().max(4);
        if self.entries.capacity() > needed * Self::SHRINK_FACTOR {
            self.entries.shrink_to(needed);
        }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
