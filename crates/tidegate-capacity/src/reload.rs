//! A table that goes on with another configuration: its levels, splits and holds are kept.

use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::layout::members::Members;
use crate::layout::position::Position;
use crate::layout::{Layout, LayoutPlan};
use crate::levels::Share;
use crate::table::{Table, initial_firsts, members_of};
use crate::table_config::{TableConfig, TableMode, TableNumbers, share};
use crate::units::Units;

/// The change of one table to be.
#[derive(Debug)]
pub(crate) struct TableChange {
    /// The table in force, if there is one with the same order of keys.
    pub(crate) known: Option<Arc<Table>>,
    /// The numbers of its nodes, in the order of the configuration.
    pub(crate) nodes: Vec<u32>,
    /// Whether its partitions are laid on the nodes in turn, wherever they were.
    pub(crate) is_placed_anew: bool,
}

impl TableChange {
    /// The members of each partition as they will be, and what is promised at the leader and at
    /// each of the others; `None` for a new table.
    pub(crate) fn promises(&self, config: &TableConfig) -> Option<Vec<(Members, [u64; 2])>> {
        let layout = &self.known.as_ref()?.layout;
        let plan = layout.plan();
        if is_cut_anew(&plan, config) {
            return None;
        }
        let is_placed_anew = self.is_placed_anew(&plan, config);
        let [reads, writes] = [true, false].map(|is_read| bases(layout, &plan, config, is_read));
        let changes = has_other_rates(&plan, config);
        let promises = (0..plan.len()).map(|index| {
            let state = layout.lock(&plan, index);
            let members = if is_placed_anew {
                // At most TableConfig::PARTITIONS_MAX.
                members_of(config, &self.nodes, index as u32)
            } else {
                state.members
            };
            let of_new_rates = [reads[index] + writes[index], writes[index]];
            (members, if changes { of_new_rates } else { state.directions.promised() })
        });
        Some(promises.collect())
    }

    /// Changes the table at `now`.
    pub(crate) fn apply(&self, table: &Table, config: &TableConfig, now: Timestamp) {
        let layout = &table.layout;
        let mut plan = layout.plan();
        let is_placed_anew = self.is_placed_anew(&plan, config);
        let is_cut_anew = is_cut_anew(&plan, config);
        let admitted = table.admitted(&plan);
        if is_cut_anew {
            cut_anew(layout, &mut plan, config, now);
        }
        // At most TableConfig::PARTITIONS_MAX.
        let count = plan.len() as u32;
        let changes = has_other_rates(&plan, config);
        let numbers = TableNumbers::from_config(config);
        let bases = [true, false].map(|is_read| {
            if is_cut_anew {
                let units = numbers.units_per_second(is_read);
                (0..count).map(|index| share(units, index, count)).collect()
            } else {
                bases(layout, &plan, config, is_read)
            }
        });
        let mut demand = table.demand();
        if plan.config.on_demand.is_none() && config.on_demand.is_some() {
            let before = [true, false].map(|is_read| Units::whole(plan.numbers.units_per_second(is_read)));
            demand.begin_on_demand(before, admitted, count, now);
        }
        table.set_limits(config, &demand, now);
        drop(demand);
        plan.numbers = numbers;
        plan.config = config.clone();
        for index in 0..plan.len() {
            let mut state = layout.lock(&plan, index);
            state.numbers = numbers;
            if changes || is_cut_anew {
                for (is_read, bases) in [true, false].into_iter().zip(&bases) {
                    let rates = numbers.rates(is_read, bases[index]);
                    state.directions.of_mut(is_read).set_rates(rates, now);
                }
            }
            if is_placed_anew || is_cut_anew {
                // At most TableConfig::PARTITIONS_MAX.
                state.members = members_of(config, &self.nodes, index as u32);
            }
        }
        for is_read in [true, false] {
            table.used_up(is_read).forget();
        }
    }

    fn is_placed_anew(&self, plan: &LayoutPlan, config: &TableConfig) -> bool {
        self.is_placed_anew || plan.config.nodes != config.nodes || plan.config.replicas != config.replicas
    }
}

/// Whether partitions are cut as the configuration says, and not as they were split.
fn is_cut_anew(plan: &LayoutPlan, config: &TableConfig) -> bool {
    plan.config.partitions != config.partitions || plan.config.bounds != config.bounds
}

/// Whether the rates of partitions change. Boosts end when they do.
fn has_other_rates(plan: &LayoutPlan, config: &TableConfig) -> bool {
    let other = TableNumbers::from_config(config);
    // Nothing would lower a boost any more.
    let ends_boosts = plan.numbers.mode == TableMode::Adaptive && other.mode != TableMode::Adaptive;
    ends_boosts
        || [true, false].iter().any(|is_read| {
            plan.numbers.units_per_second(*is_read) != other.units_per_second(*is_read)
                || plan.numbers.rates(*is_read, 0) != other.rates(*is_read, 0)
        })
}

/// The shares of the partitions when the table has another throughput: in the same proportions, and
/// adding up exactly.
fn bases(layout: &Layout, plan: &LayoutPlan, config: &TableConfig, is_read: bool) -> Vec<u64> {
    let before = u128::from(plan.numbers.units_per_second(is_read));
    let after = u128::from(TableNumbers::from_config(config).units_per_second(is_read));
    let (mut sum_before, mut sum_after) = (0_u128, 0_u128);
    let bases = layout.map(plan, |state| state.directions.of(is_read).rates.base);
    let scaled = bases.into_iter().map(|base| {
        sum_before += u128::from(base);
        let until = sum_before * after / before;
        // Below the throughput of the table.
        let base = (until - sum_after) as u64;
        sum_after = until;
        base
    });
    scaled.collect()
}

/// Cuts and joins partitions until they are as the configuration says. A cut takes shares of the
/// levels by the width of the ranges.
fn cut_anew(layout: &Layout, plan: &mut LayoutPlan, config: &TableConfig, now: Timestamp) {
    let keyspace = &layout.keyspace;
    let firsts: Vec<Position> = initial_firsts(config, keyspace);
    for first in &firsts {
        let index = plan.find(*first);
        let range = plan.range(keyspace.by, index);
        if range.first != *first {
            let share = Share::from_parts(
                keyspace.width(range.first, Some(*first)),
                keyspace.width(*first, range.end),
            );
            layout.split(plan, index, *first, [share; 2], now);
        }
    }
    let mut index = 1;
    while index < plan.len() {
        if firsts.binary_search(&plan.first(index)).is_ok() {
            index += 1;
        } else {
            layout.merge(plan, index - 1, now);
        }
    }
}
