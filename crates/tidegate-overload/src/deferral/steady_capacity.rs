//! The capacity by which seconds are sold: that which a resource shows, without its noise.
//!
//! A rise makes room in seconds that are sold already, and the next tickets go there, before others
//! that were sold earlier. The shown capacity trembles by a few hundredths from tick to tick, so
//! that the order of tickets would be lost for nothing. If a tenth of all seconds gets room again,
//! about a tenth of the pairs changes its order. In the first second of a start, when the capacity
//! rises for good, the calendar keeps the room of what is sold instead.

/// A fall by less than this part does not count.
const FALL: f64 = 1.0 / 16.0;
/// A rise by less than this part counts slowly.
const RISE: f64 = 1.0 / 4.0;
/// A slow rise goes on by this part with each tick: about a half in two minutes.
const SLOW_RISE: f64 = 1.0 / 2_048.0;
/// After so many ticks without a sale, a second, any change counts.
const QUIET_TICKS: u8 = 10;

/// The capacity by which seconds are sold, in requests a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SteadyCapacity {
    value: Option<f64>,
    quiet_ticks: u8,
}

impl SteadyCapacity {
    /// The capacity of a sale while the resource shows this one.
    pub(crate) fn at_sale(&mut self, shown: f64) -> f64 {
        self.quiet_ticks = 0;
        self.follow(shown)
    }

    /// The capacity from a tick on at which the resource shows this one, and whether it is taken
    /// over since it is much higher or nothing was sold for a while.
    pub(crate) fn tick(&mut self, shown: f64) -> (f64, bool) {
        self.quiet_ticks = self.quiet_ticks.saturating_add(1);
        if self.quiet_ticks > QUIET_TICKS {
            self.release();
        }
        let is_large_rise = self.value.is_none_or(|value| shown >= value * (1.0 + RISE));
        let value = self.follow(shown);
        if shown > value {
            self.value = Some(shown.min(value * (1.0 + SLOW_RISE)));
        }
        (self.follow(shown), is_large_rise)
    }

    /// Lets any change count the next time.
    pub(crate) const fn release(&mut self) {
        self.value = None;
    }

    fn follow(&mut self, shown: f64) -> f64 {
        let is_noise = |value: &f64| (value * (1.0 - FALL)..value * (1.0 + RISE)).contains(&shown);
        let kept = self.value.filter(is_noise);
        *self.value.insert(kept.unwrap_or(shown))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
#[expect(clippy::float_cmp, reason = "values are taken over as they are")]
mod tests {
    use super::*;

    #[test]
    fn a_fall_counts_from_a_sixteenth_on_and_a_rise_from_a_quarter_on() {
        let mut steady = SteadyCapacity::default();
        for (shown, taken) in [(100.0, 100.0), (124.0, 100.0), (94.0, 100.0), (93.0, 93.0), (117.0, 117.0)] {
            assert_eq!(steady.at_sale(shown), taken, "{shown}");
        }
        assert!(steady.at_sale(f64::NAN).is_nan());
        assert_eq!(steady.at_sale(7.0), 7.0);
    }

    #[test]
    fn a_small_rise_counts_slowly_while_tickets_are_sold_and_at_once_after_a_second_without_a_sale() {
        let mut steady = SteadyCapacity::default();
        steady.at_sale(100.0);
        for _ in 0..100 {
            steady.tick(120.0);
            steady.at_sale(120.0);
        }
        let slow = steady.at_sale(120.0);
        assert!((104.9..105.1).contains(&slow), "{slow}");
        for _ in 1..QUIET_TICKS {
            assert!(steady.tick(120.0).0 < 106.0);
        }
        steady.tick(120.0);
        assert_eq!(steady.tick(120.0), (120.0, true));
        assert_eq!(steady.tick(119.0), (119.0, true));
    }

    #[test]
    fn a_tick_tells_a_rise_by_a_quarter_from_a_small_one_and_a_fall() {
        let mut steady = SteadyCapacity::default();
        steady.at_sale(100.0);
        assert_eq!(steady.tick(126.0), (126.0, true));
        assert!(!steady.tick(150.0).1 && !steady.tick(50.0).1);
    }
}
