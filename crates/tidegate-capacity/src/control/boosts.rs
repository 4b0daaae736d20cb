//! Boosts of the tables of the adaptive mode, which the control loops make by themselves.

use core::cmp::Reverse;

use tidegate_core::Timestamp;

use super::Control;
use super::load::{OPERATIONS, TableLoad, Totals};
use crate::capacity::Capacity;
use crate::control::boost::{self, BoostLoad, boosted_rates};
use crate::layout::partition_id::PartitionId;
use crate::table_config::TableMode;
use crate::units::Units;

impl Control {
    /// Boosts the tables of the adaptive mode, if it is time. The partitions that are refused most
    /// are raised first, each as far as its nodes have room to promise.
    pub(super) fn boost(&mut self, capacity: &Capacity, now: Timestamp) {
        let elapsed = now.saturating_since(self.boosted_at);
        if elapsed < boost::PERIOD {
            return;
        }
        self.boosted_at = now;
        for load in &mut self.tables {
            let observed = observe(load);
            if observed.is_empty() {
                continue;
            }
            for (index, operation) in OPERATIONS.into_iter().enumerate() {
                let (mut consumed, mut provisioned) = (Units::ZERO, Units::ZERO);
                let mut refused = Vec::with_capacity(observed.len());
                let loads: Vec<BoostLoad> = observed
                    .iter()
                    .map(|one| {
                        let [offered, admitted, throttled] = one.rates(index, elapsed);
                        consumed = consumed + admitted;
                        provisioned = provisioned + one.loads[index].base;
                        refused.push(throttled);
                        let is_throttled = throttled > Units::ZERO;
                        BoostLoad { offered, is_throttled, ..one.loads[index] }
                    })
                    .collect();
                let rates = boosted_rates(&loads, consumed, provisioned, elapsed);
                let mut changes: Vec<usize> =
                    (0..loads.len()).filter(|place| rates[*place] != loads[*place].rate).collect();
                // Those that are lowered make room for those that are raised.
                changes.sort_by_key(|place| {
                    let is_raised = rates[*place] > loads[*place].rate;
                    (is_raised, Reverse(refused[*place]), observed[*place].id)
                });
                let (namespace, table) = (&*load.table.namespace, &*load.table.name);
                for place in changes {
                    // A partition that was split or merged meanwhile keeps its rates.
                    let id = observed[place].id;
                    let _ = capacity.allocate_within(namespace, table, id, operation, rates[place], now);
                }
            }
        }
    }
}

/// A partition since boosts were decided last.
struct BoostedPartition {
    id: PartitionId,
    totals: [Totals; 2],
    before: [Totals; 2],
    /// Its rates; without the load, which depends on the time that has passed.
    loads: [BoostLoad; 2],
}

impl BoostedPartition {
    fn rates(&self, direction: usize, elapsed: core::time::Duration) -> [Units; 3] {
        self.totals[direction].since(self.before[direction], elapsed)
    }
}

/// The partitions of a table of the adaptive mode; none of another one.
fn observe(load: &mut TableLoad) -> Vec<BoostedPartition> {
    let table = load.table.clone();
    let plan = table.layout.plan();
    if plan.numbers.mode != TableMode::Adaptive {
        load.boosted.clear();
        return Vec::new();
    }
    let observed = table.layout.map(&plan, |state| {
        let directions = [&state.directions.read, &state.directions.write];
        let totals = directions.map(|direction| Totals::from_meter(&direction.meter));
        let loads = directions.map(|direction| {
            let [base, rate, ceiling] =
                [direction.rates.base, direction.rates.allocated, direction.rates.ceiling]
                    .map(Units::from_rate);
            BoostLoad { base, rate, ceiling, offered: Units::ZERO, is_throttled: false }
        });
        let before = load.boosted.get(&state.id).copied().unwrap_or(totals);
        BoostedPartition { id: state.id, totals, before, loads }
    });
    load.boosted = observed.iter().map(|one| (one.id, one.totals)).collect();
    observed
}
