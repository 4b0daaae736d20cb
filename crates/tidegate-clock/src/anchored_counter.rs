//! The time since the start by the counter of the processor, kept to `Instant`.
//!
//! A reading is at most 0.1 ms away from `Instant` while the counter is sound, and never back on
//! any thread, whatever the counter does. The counter is believed for one [`Segment`] at a time.
//! The first reader after its end reads both clocks, judges the counter, and begins the next
//! segment; nothing runs in the background, and a start waits for nothing: `Instant` serves until
//! the speed is known.
//!
//! A reading by the counter alone cannot tell that the counter stands still, so each thread
//! compares it with `Instant` at its first, second, fourth, eighth (and so on) reading in a
//! segment, and whenever time did not advance since its last reading. A counter that misbehaves
//! is seen
//!
//! - when a thread reads it outside of the segment: at once for a jump by more than a segment,
//!   after 64 us of the counter's time otherwise, and
//! - when a thread has read it as often again as before in the segment, for a counter that stops,
//!   slows down, or is set back into the segment. Until then readings are late by what it missed.
//!
//! Once it is seen, `Instant` serves for good.

#[cfg(all(test, not(tidegate_loom)))]
mod tests;

use core::cell::Cell;

use crate::segment::{Judgement, NOISE_NS, PairedReading, Segment};
use crate::sequence_lock::SequenceLock;

/// The longest time that a pair may take to read. A thread that was put aside meanwhile says
/// nothing of the counter.
const PAIR_NS_MAX: u64 = 2_000;

/// How often a pair is tried before `Instant` serves a reading alone.
const PAIR_TRIES: usize = 3;

/// The clocks of the machine, or those of a test.
pub(crate) trait Readings {
    /// The counter.
    fn ticks(&self) -> u64;

    /// Nanoseconds by `Instant` since the start.
    fn elapsed_ns(&self) -> u64;

    /// Runs `read` with what is known of the readings of this thread.
    fn on_thread<T>(&self, read: impl FnOnce(&ThreadReadings) -> T) -> T;
}

/// The readings that a thread has made.
#[derive(Debug)]
pub(crate) struct ThreadReadings {
    /// The last one; none after it is less.
    latest_ns: Cell<u64>,
    /// Where the segment of the last one began, in ticks.
    segment: Cell<u64>,
    /// How many of them were in this segment.
    count: Cell<u64>,
}

impl ThreadReadings {
    /// A thread that has read nothing.
    pub(crate) const fn new() -> Self {
        Self { latest_ns: Cell::new(0), segment: Cell::new(0), count: Cell::new(0) }
    }

    /// Takes a reading by the counter, unless this one must be compared with `Instant`.
    #[inline]
    fn take(&self, segment: u64, ns: u64) -> bool {
        let count = self.count.get() + 1;
        if segment != self.segment.get() || count.is_power_of_two() || ns <= self.latest_ns.get() {
            return false;
        }
        self.count.set(count);
        self.latest_ns.set(ns);
        true
    }

    /// Counts a reading that was compared.
    fn count(&self, segment: u64) {
        let others = if segment == self.segment.get() { self.count.get() } else { 0 };
        self.segment.set(segment);
        self.count.set(others + 1);
    }

    /// Takes a reading by `Instant`. The time stands where an earlier one was ahead of it.
    fn take_at_least(&self, ns: u64) -> u64 {
        let ns = ns.max(self.latest_ns.get());
        self.latest_ns.set(ns);
        ns
    }
}

/// The time since the start.
#[derive(Debug)]
pub(crate) struct AnchoredCounter<R> {
    /// The [`Segment`] in force, as its words. Closed once the counter is distrusted.
    segment: SequenceLock<6>,
    readings: R,
}

impl<R: Readings> AnchoredCounter<R> {
    /// A time that begins with the clocks, and uses the counter only if it is invariant.
    pub(crate) fn new(readings: R, is_invariant: bool) -> Self {
        let segment = SequenceLock::new();
        if !is_invariant {
            segment.close();
        }
        Self { segment, readings }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.readings.on_thread(|thread| {
            let Some((version, words)) = self.segment.read() else {
                return self.read_instant(thread);
            };
            let segment = Segment::from_words(words);
            let Some(ns) = segment.elapsed_ns(self.readings.ticks()) else {
                return self.read_both(thread, version, &segment);
            };
            if thread.take(segment.start.ticks, ns) { ns } else { self.check(thread, version, &segment, ns) }
        })
    }

    #[cold]
    #[inline(never)]
    fn read_instant(&self, thread: &ThreadReadings) -> u64 {
        thread.take_at_least(self.readings.elapsed_ns())
    }

    /// Compares a reading by the counter with a later one by `Instant`.
    #[cold]
    #[inline(never)]
    fn check(&self, thread: &ThreadReadings, version: u64, segment: &Segment, ns: u64) -> u64 {
        let after = self.readings.elapsed_ns();
        if after.abs_diff(ns) > NOISE_NS {
            // The counter is wrong, or the thread was put aside in between.
            return self.read_both(thread, version, segment);
        }
        thread.count(segment.start.ticks);
        thread.take_at_least(after)
    }

    /// Judges the counter, and begins a segment where it is due.
    #[cold]
    #[inline(never)]
    fn read_both(&self, thread: &ThreadReadings, version: u64, segment: &Segment) -> u64 {
        let (pair, ns) = self.read_pair();
        match pair.map(|pair| segment.judge(pair)) {
            None => {}
            Some(Judgement::Holds) => thread.count(segment.start.ticks),
            // Where another thread was first, its segment counts the next reading.
            Some(Judgement::Next(next)) if !self.segment.replace(version, next.to_words()) => {}
            Some(Judgement::Next(next)) => thread.count(next.start.ticks),
            Some(Judgement::Distrusted) => self.segment.close(),
        }
        thread.take_at_least(ns)
    }

    /// Both clocks, unless the thread was put aside at each try; and the latest time by `Instant`.
    fn read_pair(&self) -> (Option<PairedReading>, u64) {
        let mut before = self.readings.elapsed_ns();
        for _ in 0..PAIR_TRIES {
            let ticks = self.readings.ticks();
            let after = self.readings.elapsed_ns();
            if after.saturating_sub(before) <= PAIR_NS_MAX {
                return (Some(PairedReading { ticks, ns: before.midpoint(after) }), after);
            }
            before = after;
        }
        (None, before)
    }
}
