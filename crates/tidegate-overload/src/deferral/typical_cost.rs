//! The typical cost of the requests that ask for tickets, against which each one is weighed.

/// Weights and rooms are counted in quarters of a request.
pub(crate) const QUARTERS: u16 = 4;
/// The smallest weight of a ticket: one request.
pub(crate) const WEIGHT_MIN: u16 = QUARTERS;
/// The largest weight of a ticket: eight requests.
pub(crate) const WEIGHT_MAX: u16 = 8 * QUARTERS;

/// The number of asks that the mean follows.
const ASKS: f64 = 64.0;
/// How many times as much as in a plain average the first asks count.
const FIRST_ASKS: f64 = 4.0;

/// A running mean of the costs that callers name.
///
/// A caller can pick any cost. So one ask counts at most as eight times the mean, and the mean is
/// never below 1: a single number moves the mean by at most an eighth. No ticket weighs less than a
/// request, whatever the mean is. The first asks move the mean by `4/(4 + asks)` instead of 1/64,
/// so that it finds the costs of callers within a dozen asks, and forgets the first number as soon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypicalCost {
    mean: f64,
    asks: f64,
}

impl TypicalCost {
    /// No ask was seen, and the mean is 1.
    pub(crate) const fn new() -> Self {
        Self { mean: 1.0, asks: 0.0 }
    }

    /// The weight of a ticket of this cost to the nearest quarter of a request, [`WEIGHT_MIN`] to
    /// [`WEIGHT_MAX`]. The cost is then part of the mean.
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs three digits")]
    #[expect(clippy::cast_sign_loss, reason = "a weight is at least 4")]
    pub(crate) fn weigh(&mut self, cost: u64) -> u16 {
        let cost = cost as f64;
        let quarters = (cost / self.mean * f64::from(QUARTERS)).round();
        let counted = cost.clamp(1.0, 8.0 * self.mean);
        let gain = (FIRST_ASKS / (FIRST_ASKS + self.asks)).max(1.0 / ASKS);
        self.mean = (self.mean + (counted - self.mean) * gain).max(1.0);
        self.asks = (self.asks + 1.0).min(FIRST_ASKS * ASKS);
        quarters.clamp(f64::from(WEIGHT_MIN), f64::from(WEIGHT_MAX)) as u16
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    /// A mean that has seen many asks of one cost.
    fn settled(cost: u64) -> TypicalCost {
        let mut typical = TypicalCost::new();
        (0..300).for_each(|_| _ = typical.weigh(cost));
        typical
    }

    #[test]
    fn a_ticket_of_the_typical_cost_weighs_one_request_and_one_of_twice_the_cost_two() {
        for cost in [1, 3, 1_000, 1 << 40] {
            let mut typical = settled(cost);
            assert_eq!(typical.weigh(cost), WEIGHT_MIN, "{cost}");
            assert_eq!(typical.weigh(2 * cost), 2 * WEIGHT_MIN, "{cost}");
        }
    }

    #[test]
    fn the_weight_of_any_cost_is_one_to_eight_requests() {
        let mut typical = settled(100);
        for cost in [0, 1, u64::MAX, 0, u64::MAX, 100] {
            assert!((WEIGHT_MIN..=WEIGHT_MAX).contains(&typical.weigh(cost)));
        }
    }

    #[test]
    fn one_caller_moves_the_mean_by_at_most_an_eighth_with_one_number() {
        let mut typical = settled(100);
        typical.weigh(u64::MAX);
        assert!(typical.mean < 112.5 && typical.mean > 100.0, "{}", typical.mean);
        typical.weigh(0);
        assert!(typical.mean > 100.0, "{}", typical.mean);
    }

    #[test]
    fn the_mean_finds_a_large_typical_cost_within_a_dozen_asks_and_one_first_number_does_not_stay() {
        let mut typical = TypicalCost::new();
        let heavy = (0..100).filter(|_| typical.weigh(1_000_000) > WEIGHT_MIN).count();
        assert!(heavy <= 20, "{heavy} tickets weigh more than they should");
        let mut typical = TypicalCost::new();
        typical.weigh(u64::MAX);
        (0..100).for_each(|_| _ = typical.weigh(1));
        assert!(typical.mean < 2.0, "{}", typical.mean);
    }
}
