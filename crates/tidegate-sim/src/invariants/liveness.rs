//! I13: a stationary demand that the table, the ceilings of its keys and the nodes can serve is
//! served after a while.
//!
//! A trace does not show whether it can be served, so the world says so.

use core::time::Duration;

use super::level::{fine, units};

/// How soon, and how well, a stationary demand is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessTerms {
    /// The time that the control loops have; default 3 minutes.
    pub settling: Duration,
    /// The units that may be throttled afterwards, of a million in each minute; default 1000.
    pub throttled_per_million: u32,
}

impl Default for LivenessTerms {
    fn default() -> Self {
        Self { settling: Duration::from_mins(3), throttled_per_million: 1000 }
    }
}

impl LivenessTerms {
    /// Leaves the control loops so much time.
    #[must_use]
    pub const fn settling(mut self, time: Duration) -> Self {
        self.settling = time;
        self
    }

    /// Lets so many of a million units be throttled.
    #[must_use]
    pub const fn throttled_per_million(mut self, units: u32) -> Self {
        self.throttled_per_million = units;
        self
    }
}

/// The span that is judged at once, in nanoseconds.
const WINDOW: u64 = 60_000_000_000;

/// The demand for one direction of a table.
#[derive(Debug, Default)]
pub(super) struct ServedMinutes {
    /// When the span that is judged begins; `None` while demand is not stationary.
    begins: Option<u64>,
    terms: LivenessTerms,
    /// Thousandths.
    asked: i64,
    throttled: i64,
}

impl ServedMinutes {
    pub(super) fn stationary(&mut self, since: u64, terms: LivenessTerms) {
        *self = Self {
            begins: Some(since.saturating_add(terms.settling.as_nanos() as u64)),
            terms,
            ..Self::default()
        };
    }

    /// Demand changes: the span so far is judged.
    pub(super) fn disturb(&mut self) -> Option<String> {
        let found = self.judge();
        *self = Self::default();
        found
    }

    #[inline]
    pub(super) fn decide(&mut self, cost: i64, is_throttled: bool, at: u64) {
        if self.begins.is_some_and(|begins| begins <= at) {
            self.asked += cost;
            self.throttled += if is_throttled { cost } else { 0 };
        }
    }

    /// Judges the span if it is over.
    pub(super) fn look(&mut self, at: u64) -> Option<String> {
        let end = self.begins?.saturating_add(WINDOW);
        if at < end {
            return None;
        }
        let found = self.judge();
        (self.begins, self.asked, self.throttled) = (Some(at), 0, 0);
        found
    }

    fn judge(&self) -> Option<String> {
        self.begins?;
        let most = i128::from(self.asked) * i128::from(self.terms.throttled_per_million) / 1_000_000;
        (i128::from(self.throttled) > most).then(|| {
            format!(
                "{} of {} units were throttled although the demand has long been stationary and can be served",
                units(fine(self.throttled)),
                units(fine(self.asked))
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_demand_that_is_throttled_after_the_loops_have_settled_is_found_and_one_before_is_not() {
        let terms = LivenessTerms::default().settling(Duration::from_secs(10)).throttled_per_million(100_000);
        let mut liveness = ServedMinutes::default();
        // Nothing is declared.
        liveness.decide(1000, true, SECOND);
        assert_eq!(liveness.look(1000 * SECOND), None);
        liveness.stationary(SECOND, terms);
        liveness.decide(1000, true, 10 * SECOND);
        for second in 11..20 {
            liveness.decide(1000, false, second * SECOND);
        }
        liveness.decide(1000, true, 20 * SECOND);
        // One of ten, and then two of eleven.
        assert_eq!(liveness.look(71 * SECOND), None);
        liveness.stationary(SECOND, terms);
        for second in 11..22 {
            liveness.decide(1000, second < 13, second * SECOND);
        }
        assert_eq!(liveness.look(70 * SECOND), None, "the minute is not over");
        assert!(liveness.disturb().unwrap().starts_with("2 of 11 units were throttled"));
        assert_eq!(liveness.disturb(), None);
    }
}
