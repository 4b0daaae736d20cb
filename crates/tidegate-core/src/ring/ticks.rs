//! Instants of a ring in 4 bytes: ticks of a power of two nanoseconds, rounded up.
//!
//! A window has between 2^30 and 2^31 ticks (fewer only where a tick is already one nanosecond), so
//! a tick is less than a 2^30th of the window, and every instant within two windows of a known one
//! has its own low 32 bits.

/// The most ticks a window has.
const WINDOW_TICKS_MAX_BITS: u32 = 31;

/// The length of a tick, as a power of two of nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticks {
    shift: u32,
}

impl Ticks {
    /// The ticks of a window of `window_ns` nanoseconds, at least 1.
    #[inline]
    pub(super) fn from_window(window_ns: u64) -> Self {
        Self { shift: u64::BITS - (window_ns.saturating_sub(1) >> WINDOW_TICKS_MAX_BITS).leading_zeros() }
    }

    /// Ticks of `1 << shift` nanoseconds; what does not fit is taken as the longest there is.
    #[inline]
    pub(super) fn from_shift(shift: u32) -> Self {
        Self { shift: shift & (u64::BITS - 1) }
    }

    /// The power of two.
    pub(super) fn shift(self) -> u32 {
        self.shift
    }

    /// The tick that begins at `ns`, or the next one; `ns` is at most [`NS_MAX`].
    #[inline]
    pub(super) fn up(self, ns: u64) -> u64 {
        ns.wrapping_add((1 << self.shift) - 1) >> self.shift
    }

    /// When `tick` begins.
    #[inline]
    pub(super) fn start(self, tick: u64) -> u64 {
        tick << self.shift
    }

    /// The tick at or before `latest` whose low 32 bits are `low`, if it is fewer than 2^32 ticks
    /// before.
    #[inline]
    pub(super) fn widen(low: u32, latest: u64) -> u64 {
        latest.wrapping_sub(u64::from((latest as u32).wrapping_sub(low)))
    }
}

/// Where time ends for rings: 34 ms before the last instant of the year 2554, so that rounding up
/// the longest tick does not overflow.
pub(super) const NS_MAX: u64 = u64::MAX - (1 << 25);

/// The longest span between the oldest instant of a ring and its last, in ticks.
pub(super) const SPAN_TICKS_MAX: u64 = u32::MAX as u64;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::algorithm::{WINDOW_MAX, WINDOW_MIN};
    use crate::time::duration_nanos;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tick_is_at_most_a_nanosecond_or_a_billionth_of_the_window(
            window in duration_nanos(WINDOW_MIN)..=duration_nanos(WINDOW_MAX),
        ) {
            let ticks = Ticks::from_window(window);
            let tick = ticks.start(1);
            prop_assert!(tick == 1 || tick < window / 1_000_000_000 + 1);
            prop_assert!(ticks.up(window) <= 1 << WINDOW_TICKS_MAX_BITS);
        }

        #[test]
        fn an_instant_is_stored_late_by_less_than_a_tick_and_never_early(
            ns in prop_oneof![0..=NS_MAX, NS_MAX - (1 << 26)..=NS_MAX],
            window in duration_nanos(WINDOW_MIN)..=duration_nanos(WINDOW_MAX),
        ) {
            let ticks = Ticks::from_window(window);
            let stored = ticks.start(ticks.up(ns));
            prop_assert!(stored >= ns);
            prop_assert!(stored - ns < ticks.start(1));
        }

        #[test]
        fn low_bits_name_one_tick_among_those_of_two_windows(latest: u64, back in 0..=SPAN_TICKS_MAX) {
            let tick = latest.saturating_sub(back);
            prop_assert_eq!(Ticks::widen(tick as u32, latest), tick);
        }
    }
}
