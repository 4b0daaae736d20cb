//! The places in flight of one resource: a bounded count of requests that are being worked on.

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;

use tidegate_core::Class;

use crate::sync::{AtomicU64, Ordering};

/// The bounded count. Every request writes it, so it shares no cache line with what others read.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct InFlight {
    /// At least 1.
    max: AtomicU64,
    /// The places that classes below the highest may use: `max` without those in reserve.
    max_common: AtomicU64,
    count: AtomicU64,
    /// The highest count since the last call of [`InFlight::take_pressure`].
    peak: AtomicU64,
    /// The requests that found no place since that call.
    turned_away: AtomicU64,
    /// The counts that arrivals saw since that call: their number above [`SEEN_BITS`] bits, and
    /// below it the sum of the parts of the places in use, in [`FULL`]ths. One word, so that an
    /// arrival adds to both at once.
    seen: AtomicU64,
}

/// All places in use, as arrivals count it.
const FULL: u64 = 256;
/// Enough for 2^28 arrivals that all see full use. More of them between two ticks, 50 seconds of
/// five million a second, give one tick a wrong utilization, which still is at most 1.0.
const SEEN_BITS: u32 = 36;

/// The use of the places over a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PlaceUse {
    /// The places wanted at the peak, those of requests turned away included, divided by all.
    pub(crate) wanted: f64,
    /// The average of the places in use, as a part of all: 0.0 to 1.0. It is what arrivals saw on
    /// average, which for arrivals by chance is the average over time (PASTA), and needs no clock.
    /// Without arrivals it is full use where requests were served from a queue, else what is in use
    /// now.
    pub(crate) utilization: f64,
}

impl InFlight {
    pub(crate) fn new(max: u64) -> Self {
        Self {
            max: AtomicU64::new(max),
            max_common: AtomicU64::new(max),
            count: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            turned_away: AtomicU64::new(0),
            seen: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(crate) fn max(&self) -> u64 {
        // Relaxed: a request that sees the bound before a change comes just before it.
        self.max.load(Ordering::Relaxed)
    }

    /// The places that a class may use.
    #[inline]
    pub(crate) fn max_of(&self, class: Class) -> u64 {
        let max = if class == Class::CriticalPlus { &self.max } else { &self.max_common };
        max.load(Ordering::Relaxed)
    }

    /// Sets the bound, at least 1, of which `reserve` are for the highest class. Requests in flight
    /// above it stay; no other gets a place until enough of them have ended.
    pub(crate) fn set_max(&self, max: u64, reserve: u64) {
        self.max.store(max, Ordering::Relaxed);
        self.max_common.store(max.saturating_sub(reserve).max(1), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn count(&self) -> u64 {
        // Relaxed: the count guards no other memory.
        self.count.load(Ordering::Relaxed)
    }

    /// Takes a place for a request of a class: the places in use with it, or `None` if none was
    /// free.
    #[inline]
    pub(crate) fn acquire(&self, class: Class) -> Option<u64> {
        let max = self.max_of(class);
        // Relaxed: the count guards no other memory; only its own value must be right.
        let taken = self
            .count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < max).then_some(count + 1));
        let Ok(before) = taken else {
            self.turn_away();
            return None;
        };
        self.seen.fetch_add((1 << SEEN_BITS) | part_of(before, max), Ordering::Relaxed);
        // Almost always the peak is higher, and a load takes nothing from other cores.
        if self.peak.load(Ordering::Relaxed) <= before {
            self.peak.fetch_max(before + 1, Ordering::Relaxed);
        }
        Some(before + 1)
    }

    /// Counts a request that found no place.
    pub(crate) fn turn_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        self.seen.fetch_add((1 << SEEN_BITS) | FULL, Ordering::Relaxed);
    }

    /// Returns a place that [`InFlight::acquire`] took.
    #[inline]
    pub(crate) fn give_back(&self) {
        // Relaxed: as in `acquire`. Each permit was counted once, so the count stays at zero or
        // above.
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more places are returned than were taken");
    }

    /// The use of the places since the last call. Of the places that were taken, `from_queue` were
    /// by requests that had waited: they are counted where they arrived, and each of them sees the
    /// place that was free for it.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53, and shares are rough numbers")]
    pub(crate) fn take_use(&self, from_queue: u64) -> PlaceUse {
        let places = self.max();
        let max = places as f64;
        let count = self.count.load(Ordering::Relaxed);
        let peak = self.peak.swap(count, Ordering::Relaxed).max(count);
        let wanted = peak + self.turned_away.swap(0, Ordering::Relaxed);
        let seen = self.seen.swap(0, Ordering::Relaxed);
        let arrivals = (seen >> SEEN_BITS).saturating_sub(from_queue);
        let parts_of_queue = from_queue.saturating_mul(part_of(places - 1, places));
        let parts = (seen & ((1 << SEEN_BITS) - 1)).saturating_sub(parts_of_queue);
        let utilization = match arrivals {
            0 if from_queue > 0 => 1.0,
            0 => count as f64 / max,
            _ => parts as f64 / (arrivals * FULL) as f64,
        };
        PlaceUse { wanted: wanted as f64 / max, utilization: utilization.min(1.0) }
    }
}

/// The part of the places in use, in [`FULL`]ths.
fn part_of(count: u64, max: u64) -> u64 {
    (count * FULL + max / 2) / max
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
#[expect(clippy::float_cmp, reason = "quotients of small integers are exact")]
mod tests {
    use super::*;

    #[test]
    fn utilization_is_what_arrivals_saw_and_not_the_peak() {
        let places = InFlight::new(10);
        for _ in 0..9 {
            assert!(places.acquire(Class::Sheddable).is_some());
        }
        (0..9).for_each(|_| places.give_back());
        assert_eq!(places.take_use(0).wanted, 0.9);
        for _ in 0..100 {
            assert!(places.acquire(Class::Sheddable).is_some());
            places.give_back();
        }
        assert_eq!(places.take_use(0), PlaceUse { wanted: 0.1, utilization: 0.0 });
        (0..10).for_each(|_| assert!(places.acquire(Class::Sheddable).is_some()));
        let _ = places.take_use(0);
        assert_eq!(places.take_use(0).utilization, 1.0, "without arrivals what is in use counts");
        (0..50).for_each(|_| assert!(places.acquire(Class::Sheddable).is_none()));
        assert_eq!(places.take_use(0), PlaceUse { wanted: 6.0, utilization: 1.0 });
    }

    #[test]
    fn requests_that_waited_count_once_whatever_the_number_of_places() {
        for max in [1, 2, 8, 1000] {
            let places = InFlight::new(max);
            (0..max).for_each(|_| assert!(places.acquire(Class::Sheddable).is_some()));
            let _ = places.take_use(0);
            for _ in 0..50 {
                assert!(places.acquire(Class::Sheddable).is_none());
                places.give_back();
                assert!(places.acquire(Class::Sheddable).is_some());
            }
            assert_eq!(places.take_use(50).utilization, 1.0, "{max} places");
            places.give_back();
            assert!(places.acquire(Class::Sheddable).is_some());
            assert_eq!(places.take_use(1).utilization, 1.0, "{max} places, without arrivals");
        }
    }

    #[test]
    fn places_in_reserve_are_for_the_highest_class_and_never_exceed_the_bound() {
        let places = InFlight::new(20);
        places.set_max(20, 2);
        let common = (0..30).filter(|_| places.acquire(Class::Critical).is_some()).count();
        let highest = (0..30).filter(|_| places.acquire(Class::CriticalPlus).is_some()).count();
        assert_eq!((common, highest, places.count()), (18, 2, 20));
        places.give_back();
        assert!(places.acquire(Class::Critical).is_none());
        assert_eq!(places.acquire(Class::CriticalPlus), Some(20));
    }
}
