//! Requests in flight: how long they have been so, all together, at any instant.
//!
//! The sum of the ages of `n` requests at `t` is `n t - sum of their beginnings`. Both `n` and the
//! sum of beginnings are in one number, so that a reader never sees one without the other: a
//! request adds `ONE + beginning`. At `t` its age is `(t + ONE) - (ONE + beginning)`, so the sum of
//! ages is the negative number modulo `t + ONE`. That is exact while the sum of ages is below 290
//! years.

use core::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::Timestamp;
use tidegate_overload::SpanEnd;

/// Beginnings are kept in units of 2^21 ns, about 2 ms.
const GRAIN_BITS: u32 = 21;

/// More than any beginning.
const ONE: NonZeroU64 = NonZeroU64::new(1 << (64 - GRAIN_BITS)).expect("it is not zero");

/// A look at the work since the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLook {
    pub(crate) from: Timestamp,
    pub(crate) end: SpanEnd,
}

/// The beginning of a request, as sums have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlightMark(NonZeroU64);

impl InFlightMark {
    pub(crate) const fn new(admitted: Timestamp) -> Self {
        let beginning = admitted.as_nanos() >> GRAIN_BITS;
        Self(ONE.saturating_add(beginning))
    }

    /// The mark of this number; `None` for zero.
    #[inline]
    pub(crate) const fn from_number(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            None => None,
            Some(number) => Some(Self(number)),
        }
    }

    pub(crate) const fn get(self) -> u64 {
        self.0.get()
    }
}

/// The requests of a combination of rows that are in flight.
///
/// Above 2^19 requests at once in one combination, sums are wrong until there are fewer again; what
/// is shown of them stays within its bounds. The atomics are relaxed: each number is whole in
/// itself, and publishes nothing else.
#[derive(Debug, Default)]
pub(crate) struct InFlightSums {
    current: AtomicU64,
    /// Those that have ended since the last look without a place time: the time of their end is not
    /// known.
    unserved: AtomicU64,
}

/// Requests in flight at a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InFlightWork {
    pub(crate) requests: u64,
    /// Their ages at the end of the span, in nanoseconds. Negative after a step of the clock.
    pub(crate) age_ns: i128,
    /// Their ages at the beginning of the next span.
    pub(crate) next_age_ns: i128,
    /// The ages at the beginning of the span of those that have ended without a place time since.
    pub(crate) unserved_ns: i128,
}

impl InFlightSums {
    /// A request is in flight.
    #[inline]
    pub(crate) fn begin(&self, mark: InFlightMark) {
        self.current.fetch_add(mark.get(), Ordering::Relaxed);
    }

    /// The place time of a request in flight is counted; it ends next.
    #[inline]
    pub(crate) fn serve(&self, mark: InFlightMark) {
        self.unserved.fetch_sub(mark.get(), Ordering::Relaxed);
    }

    /// A request is no longer in flight.
    #[inline]
    pub(crate) fn end(&self, mark: InFlightMark) {
        self.current.fetch_sub(mark.get(), Ordering::Relaxed);
        self.unserved.fetch_add(mark.get(), Ordering::Relaxed);
    }

    /// The requests in flight at a look, which begins the next span.
    pub(crate) fn look(&self, look: &ShareLook) -> InFlightWork {
        let current = self.current.load(Ordering::Relaxed);
        let unserved = match self.unserved.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.unserved.swap(0, Ordering::Relaxed),
        };
        if current == 0 && unserved == 0 {
            return InFlightWork::default();
        }
        let (requests, age_ns) = ages(current, look.end.until);
        InFlightWork {
            requests,
            age_ns,
            next_age_ns: ages(current, look.end.next_from).1,
            // Requests that came and went within the span would take from the others.
            unserved_ns: ages(unserved, look.from).1.max(0),
        }
    }
}

impl InFlightWork {
    /// Adds what another thread has in flight.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.age_ns += other.age_ns;
        self.next_age_ns += other.next_age_ns;
        self.unserved_ns += other.unserved_ns;
    }
}

/// How many requests a sum is of, and their ages at `at` in nanoseconds.
fn ages(sum: u64, at: Timestamp) -> (u64, i128) {
    let sum = i128::from(sum.cast_signed());
    let one = i128::from(InFlightMark::new(at).get());
    let age = (-sum).rem_euclid(one);
    let age = if age > one / 2 { age - one } else { age };
    let requests = (sum + age) / one;
    (u64::try_from(requests).unwrap_or(0), age << GRAIN_BITS)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn ages_add_up_whatever_the_beginnings_are() {
        let hour = 3_600_000_000_000_u64;
        for start in [0, 1_800_000_000 * 1_000_000_000, u64::MAX - 3 * hour] {
            for count in [1, 2, 1000, 100_000_u64] {
                let beginnings = (0..count).map(|index| start + index * 7_919 % hour * 97 % hour);
                let at = Timestamp::from_nanos(start + hour);
                let sum = beginnings.clone().fold(0_u64, |sum, began| {
                    sum.wrapping_add(InFlightMark::new(Timestamp::from_nanos(began)).get())
                });
                let expected: i128 = beginnings.map(|began| i128::from(start + hour - began)).sum();
                let (requests, age) = ages(sum, at);
                assert_eq!(requests, count);
                let most = i128::from(count) << GRAIN_BITS;
                assert!((age - expected).abs() <= most, "{count} from {start}: {age}, not {expected}");
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_ages_negative() {
        let at = Timestamp::from_secs(1_800_000_000);
        let later = at.saturating_add(core::time::Duration::from_hours(1));
        let (requests, age) = ages(2 * InFlightMark::new(later).get(), at);
        assert_eq!(requests, 2);
        assert!((age + 7_200_000_000_000).abs() < 2 << GRAIN_BITS, "{age}");
        assert_eq!(ages(0, at), (0, 0));
    }
}
