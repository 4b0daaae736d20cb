//! A table that goes on with another configuration: its levels, splits and holds are kept.

use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::layout::Layout;
use crate::levels::Share;
use crate::partition::Members;
use crate::position::Position;
use crate::table::{Table, first_of, members_of};
use crate::table_config::{TableConfig, TableNumbers, share};
use crate::tokens::TokenTerms;
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
        let layout = self.known.as_ref()?.layout();
        if is_cut_anew(&layout, config) {
            return None;
        }
        let is_placed_anew = self.is_placed_anew(&layout, config);
        let [reads, writes] = [true, false].map(|is_read| bases(&layout, config, is_read));
        let changes = has_other_rates(&layout, config);
        let promises = layout.partitions().zip(reads.into_iter().zip(writes)).enumerate();
        let promises = promises.map(|(index, (partition, (read, write)))| {
            let members = if is_placed_anew {
                // At most TableConfig::PARTITIONS_MAX.
                members_of(config, &self.nodes, index as u32)
            } else {
                partition.members
            };
            let of_new_rates = [read + write, write];
            (members, if changes { of_new_rates } else { partition.lock().promised() })
        });
        Some(promises.collect())
    }

    /// Changes the table at `now`.
    pub(crate) fn apply(&self, table: &Table, config: &TableConfig, now: Timestamp) {
        let mut layout = table.layout_mut();
        let is_placed_anew = self.is_placed_anew(&layout, config);
        let is_cut_anew = is_cut_anew(&layout, config);
        if is_cut_anew {
            cut_anew(&mut layout, config, now);
        }
        let changes = has_other_rates(&layout, config);
        let bases = [true, false].map(|is_read| {
            if is_cut_anew {
                let units = TableNumbers::of(config).units_per_second(is_read);
                (0..config.partitions).map(|index| share(units, index, config.partitions)).collect()
            } else {
                bases(&layout, config, is_read)
            }
        });
        layout.numbers = TableNumbers::of(config);
        layout.config = config.clone();
        for index in 0..layout.len() {
            if changes || is_cut_anew {
                for (is_read, bases) in [true, false].into_iter().zip(&bases) {
                    let rates = layout.numbers.rates(is_read, bases[index]);
                    layout.partition(index).lock().of_mut(is_read).set_rates(rates, now);
                }
            }
            if is_placed_anew || is_cut_anew {
                // At most TableConfig::PARTITIONS_MAX.
                layout.partition_mut(index).members = members_of(config, &self.nodes, index as u32);
            }
        }
        for is_read in [true, false] {
            let rate = Units::whole(layout.numbers.units_per_second(is_read));
            if table.tokens(is_read).rate() != rate {
                table.tokens(is_read).set_terms(TokenTerms::of_rate(rate), now);
            }
            table.used_up(is_read).forget();
        }
    }

    fn is_placed_anew(&self, layout: &Layout, config: &TableConfig) -> bool {
        self.is_placed_anew
            || layout.config.nodes != config.nodes
            || layout.config.replicas != config.replicas
    }
}

/// Whether partitions are cut as the configuration says, and not as they were split.
fn is_cut_anew(layout: &Layout, config: &TableConfig) -> bool {
    layout.config.partitions != config.partitions || layout.config.bounds != config.bounds
}

/// Whether the rates of partitions change. Boosts end when they do.
fn has_other_rates(layout: &Layout, config: &TableConfig) -> bool {
    let other = TableNumbers::of(config);
    [true, false].iter().any(|is_read| {
        layout.numbers.units_per_second(*is_read) != other.units_per_second(*is_read)
            || layout.numbers.rates(*is_read, 0) != other.rates(*is_read, 0)
    })
}

/// The shares of the partitions when the table has another throughput: in the same proportions, and
/// adding up exactly.
fn bases(layout: &Layout, config: &TableConfig, is_read: bool) -> Vec<u64> {
    let before = u128::from(layout.numbers.units_per_second(is_read));
    let after = u128::from(TableNumbers::of(config).units_per_second(is_read));
    let (mut sum_before, mut sum_after) = (0_u128, 0_u128);
    let scaled = layout.partitions().map(|partition| {
        sum_before += u128::from(partition.lock().of(is_read).rates.base);
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
fn cut_anew(layout: &mut Layout, config: &TableConfig, now: Timestamp) {
    let firsts: Vec<Position> =
        (0..config.partitions).map(|index| first_of(config, &layout.keyspace, index)).collect();
    for first in &firsts {
        let index = layout.find(*first);
        let range = layout.range(index);
        if range.first != *first {
            let share = Share::of_parts(
                layout.keyspace.width(range.first, Some(*first)),
                layout.keyspace.width(*first, range.end),
            );
            layout.split(index, *first, share, share, now);
        }
    }
    let mut index = 1;
    while index < layout.len() {
        if firsts.binary_search(&layout.range(index).first).is_ok() {
            index += 1;
        } else {
            layout.merge(index - 1, now);
        }
    }
}
