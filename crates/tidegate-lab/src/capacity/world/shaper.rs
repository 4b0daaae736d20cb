//! Clients that hold back what exceeds the share of a partition: what they send conforms to it and
//! one second of it.

use tidegate_capacity::AccessOperation;
use tidegate_sim::capacity::demand::shaper::RequestShaper;
use tidegate_sim::capacity::scenario::ShaperMaker;
use tidegate_sim::capacity::{CapacityScenario, partition_of};

/// Holds back what exceeds the share of a partition.
pub(crate) const SHAPED: ShaperMaker =
    |scenario, table, operation| Box::new(Shaper::new(scenario, table, operation));

/// The buckets of the clients of one direction of a table, one for each configured partition; full
/// at first.
#[derive(Debug)]
struct Shaper {
    /// Thousandths a second.
    rate: u64,
    /// The level of each, in parts of a thousandth, and when it was filled last.
    levels: Vec<(u128, u64)>,
}

/// Parts of a thousandth: a rate of one thousandth a second fills one in a nanosecond.
const PARTS: u128 = 1_000_000_000;

impl Shaper {
    /// The shaper of a direction of a table whose shares are whole thousandths.
    fn new(scenario: &CapacityScenario, table: usize, operation: AccessOperation) -> Self {
        let partitions = scenario.tables[table].partitions;
        let units = scenario.throughput(table, operation).units_per_second;
        let rate = units * 1000 / u64::from(partitions.max(1));
        Self { rate, levels: vec![(u128::from(rate) * PARTS, 0); partitions as usize] }
    }
}

impl RequestShaper for Shaper {
    fn lets_pass(&mut self, word: u64, cost: i64, at: u64) -> bool {
        let partition = partition_of(word, self.levels.len() as u32);
        let (level, filled_at) = &mut self.levels[partition as usize];
        let inflow = u128::from(self.rate) * u128::from(at - *filled_at);
        *level = (*level + inflow).min(u128::from(self.rate) * PARTS);
        *filled_at = at;
        let cost = u128::from(cost.unsigned_abs()) * PARTS;
        if *level < cost {
            return false;
        }
        *level -= cost;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_sim::kit::SECOND;

    #[test]
    fn a_shaper_lets_a_second_pass_at_once_and_its_rate_from_then_on() {
        let mut shaper = Shaper { rate: 10_000, levels: vec![(10_000 * PARTS, 0); 2] };
        let passed = |shaper: &mut Shaper, at| (0..100).filter(|_| shaper.lets_pass(0, 1000, at)).count();
        assert_eq!(passed(&mut shaper, 0), 10);
        assert_eq!(passed(&mut shaper, SECOND / 2), 5);
        assert_eq!(passed(&mut shaper, 100 * SECOND), 10);
        assert!(!shaper.lets_pass(0, 1000, 100 * SECOND + SECOND / 10 - 1));
        assert!(shaper.lets_pass(0, 1000, 100 * SECOND + SECOND / 10));
        assert!(shaper.lets_pass(u64::MAX, 1000, 100 * SECOND), "the other partition is full");
    }
}
