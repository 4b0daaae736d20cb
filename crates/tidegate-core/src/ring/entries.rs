//! The instants of one ring, read: what is used, and when there is room.

use super::header::{HeaderRecord, RingWindow, Span};
use super::ticks::{NS_MAX, Ticks};
use crate::algorithm::Verdict;
use crate::sync::{AtomicU32, Ordering};
use crate::time::Timestamp;

/// A ring as it was at one moment.
///
/// Reads the slab with relaxed loads: they belong together as the record does, see
/// [`super::header`]. A record that does not belong together may point outside of the slab; it
/// reads zeros, and what comes of it is thrown away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'a> {
    /// All slots of the ring's range.
    slots: &'a [AtomicU32],
    span: Span,
    ticks: Ticks,
    /// The latest instant charged at, in nanoseconds and in ticks.
    last: u64,
    latest_tick: u64,
    /// The window of the last charge; the instants are stored in its ticks.
    window: RingWindow,
}

impl<'a> Entries<'a> {
    #[inline]
    pub(super) fn new(slots: &'a [AtomicU32], record: HeaderRecord) -> Self {
        let HeaderRecord { span, ticks, last, window, .. } = record;
        Self { slots, span, ticks, last, latest_tick: ticks.up(last), window }
    }

    #[inline]
    pub(super) fn span(&self) -> Span {
        self.span
    }

    /// How many instants there are.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.span.len
    }

    /// How many there is room for.
    #[inline]
    pub(super) fn capacity(&self) -> u32 {
        // As the range of the record, or 0.
        self.slots.len() as u32
    }

    #[inline]
    pub(super) fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// The latest instant charged at, in nanoseconds.
    #[inline]
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The same without the `count` oldest instants.
    #[inline]
    pub(super) fn without_oldest(self, count: u32) -> Self {
        Self { span: self.span.without_oldest(count, self.capacity()), ..self }
    }

    /// The slot of the `index`th oldest instant, or a free one behind the newest.
    #[inline]
    fn slot(&self, index: u32) -> Option<&'a AtomicU32> {
        self.slots.get(self.span.position(index, self.capacity()) as usize)
    }

    /// Stores an instant of a locked ring; only its low half, [`Ticks::widen`] finds the rest
    /// again.
    #[inline]
    pub(super) fn store(&self, index: u32, tick: u64) {
        let slot = self.slot(index).expect("the range of a locked ring lies in the slab");
        slot.store(tick as u32, Ordering::Relaxed);
    }

    /// The tick of the `index`th oldest instant.
    #[inline]
    pub(super) fn tick(&self, index: u32) -> u64 {
        Ticks::widen(self.slot(index).map_or(0, |slot| slot.load(Ordering::Relaxed)), self.latest_tick)
    }

    /// The window of the last charge.
    #[inline]
    pub(super) fn window(&self) -> RingWindow {
        self.window
    }

    /// `now`, or the last instant charged at if that is later; the end of time at most.
    #[inline]
    pub(super) fn clamp(&self, now: Timestamp) -> u64 {
        now.as_nanos().min(NS_MAX).max(self.last)
    }

    /// The same instants seen through `window`.
    #[inline]
    pub(super) fn through(self, window: RingWindow) -> VisibleEntries<'a> {
        VisibleEntries { entries: self, window }
    }

    /// The first instant stored at `tick` or later.
    pub(super) fn first_at_or_after(&self, tick: u64) -> u32 {
        self.first(|index| self.tick(index) >= tick)
    }

    /// The first index `reached` holds for, given that it holds for all later ones; the length if
    /// for none.
    fn first(&self, reached: impl Fn(u32) -> bool) -> u32 {
        let (mut low, mut high) = (0, self.span.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if reached(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// Instants seen through a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct VisibleEntries<'a> {
    entries: Entries<'a>,
    window: RingWindow,
}

impl VisibleEntries<'_> {
    /// The `index`th oldest instant in nanoseconds, as it was rounded when it was stored.
    #[inline]
    pub(super) fn instant(&self, index: u32) -> u64 {
        self.entries.ticks.start(self.entries.tick(index))
    }

    /// Whether the `index`th oldest instant has left the window that ends at `at`.
    ///
    /// By age, not by the instant it leaves at: that one may lie behind the end of time.
    #[inline]
    pub(super) fn has_expired(&self, index: u32, at: u64) -> bool {
        at.saturating_sub(self.instant(index)) >= self.window.ns
    }

    /// How many instants have left the window that ends at `at`; these are the oldest.
    pub(super) fn expired(&self, at: u64) -> u32 {
        self.entries.first(|index| !self.has_expired(index, at))
    }

    /// Units used at `now`.
    pub(super) fn used(&self, now: Timestamp) -> u32 {
        self.entries.span.len - self.expired(self.entries.clamp(now))
    }

    /// The first instant at which nothing is used any more; `now` if nothing is.
    pub(super) fn reset_at(&self, now: Timestamp) -> Timestamp {
        match self.entries.span.len.checked_sub(1) {
            Some(newest) if !self.has_expired(newest, self.entries.clamp(now)) => {
                Timestamp::from_nanos(self.instant(newest).saturating_add(self.window.ns))
            }
            _ => now,
        }
    }

    /// Whether from `now` on everything is as if the ring had never been charged.
    pub(super) fn is_drained(&self, now: Timestamp) -> bool {
        let now = now.as_nanos().min(NS_MAX);
        let newest = self.entries.span.len.checked_sub(1);
        now >= self.entries.last && newest.is_none_or(|newest| self.has_expired(newest, now))
    }

    /// Whether `units` have room at `now` within `limit`: one comparison with one instant.
    ///
    /// They have if at most `limit - units` are used, that is if of the `limit - units + 1` newest
    /// instants the oldest has left the window.
    #[inline]
    pub(super) fn verdict(&self, limit: u64, units: u64, now: Timestamp) -> Verdict {
        let Some(beside) = limit.checked_sub(units) else {
            return Verdict::Never { largest: limit };
        };
        let Some(deciding) = u64::from(self.entries.span.len).checked_sub(beside + 1) else {
            return Verdict::Admit;
        };
        let instant = self.instant(deciding as u32);
        if self.entries.clamp(now).saturating_sub(instant) >= self.window.ns {
            Verdict::Admit
        } else {
            Verdict::Wait { until: Timestamp::from_nanos(instant.saturating_add(self.window.ns)) }
        }
    }
}
