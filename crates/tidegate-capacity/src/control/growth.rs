//! Growth: tables whose limits follow the units that they admit, and whose partitions are cut for
//! what they can reach at once.
//!
//! The *entitlement* of a table is what it can reach at once: its limit on demand, or its warm
//! throughput and the partitions that it had in former days. It is a right, not a number of
//! partitions to keep. Partitions are cut within it, without the delay of a verdict,
//!
//! - when a limit on demand or the warm throughput is raised, by as many as the raise needs;
//! - when a partition that is wider than the entitlement asks for is *pressed*: less than half of a
//!   second of its ceiling is left. It is cut into pieces of at most that width, with a quarter
//!   more room. Partitions elsewhere stay merged;
//! - when a partition of a provisioned table is pressed, and the table has fewer partitions than in
//!   former days. It is halved.
//!
//! An access that presses a partition sets the signal [`Capacity::wants_growth`]. A caller that
//! looks at it every ten milliseconds has the cuts made before the other half is used, for loads
//! of up to fifty times the ceiling of a partition. No partitions are kept for that.
//!
//! Nodes promise the shares of partitions only, so cuts change no promise. Units that full nodes
//! refuse are not admitted, and so raise no limit.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use tidegate_core::{AccessOperation, Timestamp};

use crate::admission::is_pressed;
use crate::builder::CapacityBuilder;
use crate::capacity::Capacity;
use crate::error::CapacityError;
use crate::layout::partition_id::PartitionId;
use crate::status::{DemandStatus, OperationDemand};
use crate::table::{Table, limit_of};
use crate::table_config::{TableConfig, TableMode};
use crate::units::Units;

/// The most partitions that a table gets in one call; the rest follow with the next ones.
const CUTS_MAX: u32 = 1024;

/// The partitions that are cut at once for each that the entitlement fills, in quarters: keys are
/// not asked for so evenly that every partition could be at its ceiling.
const ROOM_QUARTERS: u128 = 5;

/// A table whose partitions are to be cut for what it can reach at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrownTable {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub table: String,
    /// The partitions to cut, in the order of their ranges.
    pub cuts: Vec<EvenCut>,
}

/// A partition to cut into equal pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvenCut {
    /// The partition.
    pub partition: PartitionId,
    /// At least two.
    pub pieces: u32,
}

impl Capacity {
    /// Lets the limits of tables on demand follow the units admitted since the last call; a call
    /// every second is often enough, and one that comes late counts as one average. Returns the
    /// tables with global admission whose partitions are to be cut.
    pub fn follow_demand(&self, now: Timestamp) -> Vec<GrownTable> {
        self.grown_among(|_| true, now)
    }

    /// As [`Capacity::follow_demand`], for the tables alone that want to grow. One of which no
    /// partition can be cut is not asked again before the next [`Capacity::follow_demand`].
    pub(crate) fn grow_pressed(&self, now: Timestamp) -> Vec<GrownTable> {
        let pressed: Vec<bool> = self.tables.iter().map(|entry| entry.table.growth.is_pressed()).collect();
        let grown = self.grown_among(|index| pressed[index], now);
        for (entry, _) in self.tables.iter().zip(pressed).filter(|(_, is_pressed)| *is_pressed) {
            let table = &entry.table;
            if !grown.iter().any(|one| *one.table == *table.name && *one.namespace == *table.namespace) {
                table.growth.look(false);
            }
        }
        grown
    }

    fn grown_among(&self, is_asked: impl Fn(usize) -> bool, now: Timestamp) -> Vec<GrownTable> {
        let mut grown = Vec::new();
        let counts = self.tables.iter().map(|entry| entry.table.layout.plan().len());
        let mut room = CapacityBuilder::PARTITIONS_MAX.saturating_sub(counts.sum());
        for (_, entry) in self.tables.iter().enumerate().filter(|(index, _)| is_asked(*index)) {
            let table = &entry.table;
            let cuts = table.follow_demand(room, now);
            if !cuts.is_empty() {
                room -= cuts.iter().map(|cut| cut.pieces as usize - 1).sum::<usize>();
                let (namespace, name) = (table.namespace.to_string(), table.name.to_string());
                grown.push(GrownTable { namespace, table: name, cuts });
            }
        }
        grown
    }

    /// Whether a partition has used half of its ceiling since the last [`Capacity::follow_demand`],
    /// of a table that may have more partitions at once. Cheap enough to be asked a hundred times a
    /// second.
    pub fn wants_growth(&self) -> bool {
        self.tables.iter().any(|entry| entry.table.growth.is_pressed())
    }

    /// Whether [`Capacity::wants_growth`] may become true: a table may have more partitions at
    /// once, as of the last [`Capacity::follow_demand`].
    pub fn may_want_growth(&self) -> bool {
        self.tables.iter().any(|entry| entry.table.growth.is_open())
    }

    /// The throughput that a table may use and that it can reach at once, as of the last
    /// [`Capacity::follow_demand`].
    ///
    /// Fails when there is no such table.
    pub fn demand_status(&self, namespace: &str, table: &str) -> Result<DemandStatus, CapacityError> {
        let table = self.table(namespace, table)?;
        let plan = table.layout.plan();
        let demand = *table.demand();
        let operation = |is_read| {
            let terms = plan.config.on_demand_of(is_read);
            let ratchet = &demand.ratchets[usize::from(!is_read)];
            let (limit, peak) = (limit_of(&plan.config, &demand, is_read), ratchet.peak());
            OperationDemand {
                limit,
                peak,
                warm: if terms.is_some() { limit } else { peak.max(plan.config.warm_of(is_read)) },
                is_at_maximum: terms.is_some_and(|terms| ratchet.is_at_max(&terms)),
            }
        };
        let units = [true, false].map(|is_read| demand.reach_of(&plan.config, is_read));
        Ok(DemandStatus {
            is_on_demand: plan.config.on_demand.is_some(),
            read: operation(true),
            write: operation(false),
            // At most TableConfig::PARTITIONS_MAX.
            partitions: plan.len() as u32,
            partitions_warm: demand.partitions_warm(&plan.config, plan.numbers.partitions_for(units)),
        })
    }

    /// The units a second that a table may use: those of its tokens.
    ///
    /// Fails when there is no such table.
    pub fn token_rate(
        &self,
        namespace: &str,
        table: &str,
        operation: AccessOperation,
    ) -> Result<Units, CapacityError> {
        Ok(self.table(namespace, table)?.tokens(operation == AccessOperation::Read).rate())
    }
}

impl Table {
    /// The cuts of one table, of at most `room` more partitions.
    fn follow_demand(&self, room: usize, now: Timestamp) -> Vec<EvenCut> {
        let plan = self.layout.plan();
        let config = &plan.config;
        if config.mode != TableMode::Global {
            return Vec::new();
        }
        let mut demand = self.demand();
        if demand.is_due(now) {
            demand.observe(config, self.admitted(&plan), now);
        }
        if config.on_demand.is_some() {
            self.set_limits(config, &demand, now);
        }
        // At most TableConfig::PARTITIONS_MAX.
        let count = plan.len() as u32;
        demand.count_partitions(config, count, now);
        let reach = [true, false].map(|is_read| demand.reach_of(config, is_read));
        let needed = plan.numbers.partitions_for(reach);
        let raised = needed.saturating_sub(demand.cut_for).min(CUTS_MAX);
        demand.cut_for = needed.min(demand.cut_for.saturating_add(raised));
        let raised = raised.min(needed.saturating_sub(count));
        let warm = demand.partitions_warm(config, needed);
        // Powers of two, none wider than the width asked for, can be twice as many.
        let most = warm.max(needed.saturating_mul(2)).min(TableConfig::PARTITIONS_MAX);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let more = most.saturating_sub(count).min(CUTS_MAX).min(room);
        // Hot ranges of a provisioned table lay in more partitions than its units need.
        let former = if config.on_demand.is_some() { 0 } else { warm.saturating_sub(count) };
        let has_reach = reach.iter().any(|units| *units > Units::ZERO);
        self.growth.look(more > 0 && (former > 0 || has_reach && count < needed.saturating_mul(2)));
        if more == 0 {
            return Vec::new();
        }
        let seen = self.layout.map(&plan, |state| {
            let is_pressed = [true, false].into_iter().any(|is_read| is_pressed(state, is_read, now));
            SeenPartition { id: state.id, width: state.range.width(), is_pressed }
        });
        let warm_quarters = u128::from(warm) * if has_reach { ROOM_QUARTERS } else { 4 };
        even_cuts(&seen, warm_quarters, CutBudget { more, raised, former })
    }
}

/// A partition, its width, and whether it has less than half of its ceiling left.
#[derive(Clone, Copy, Debug)]
struct SeenPartition {
    id: PartitionId,
    width: u128,
    is_pressed: bool,
}

/// The partitions that a table may get at once.
#[derive(Clone, Copy, Debug)]
struct CutBudget {
    /// All together.
    more: u32,
    /// For a raise: the widest are cut.
    raised: u32,
    /// Those that it had formerly: any pressed partition is halved.
    former: u32,
}

/// The pieces of partitions that tile a table: powers of two, so that merges find the ranges again
/// that were cut. Those that are pressed become at most as wide as each of so many quarters of
/// equal partitions would be.
fn even_cuts(partitions: &[SeenPartition], warm_quarters: u128, budget: CutBudget) -> Vec<EvenCut> {
    let space: u128 = partitions.iter().map(|one| one.width).sum::<u128>().max(1);
    let mut left = u128::from(budget.more);
    let mut former = u128::from(budget.former);
    let mut pieces = vec![1_u128; partitions.len()];
    for (one, pieces) in partitions.iter().zip(&mut pieces).filter(|(one, _)| one.is_pressed) {
        // To a sixteenth, since equal partitions differ by one.
        let parts = one.width * warm_quarters * 4;
        let sixteenths = (parts + space / 2) / space;
        let mut wanted = sixteenths.div_ceil(16).max(1).next_power_of_two();
        if former > 0 {
            wanted = wanted.max(2);
        }
        // Hashes and slots are not cut, nor keys that differ behind their first eight bytes, whose
        // range has no width.
        while wanted > 1 && (wanted - 1 > left || wanted > one.width) {
            wanted /= 2;
        }
        *pieces = wanted;
        left -= wanted - 1;
        former = former.saturating_sub(wanted - 1);
    }
    // The widest pieces first; of equal ones the first.
    let piece = |index: usize, pieces: u128| (partitions[index].width / pieces, Reverse(index));
    let mut widest: BinaryHeap<_> =
        pieces.iter().enumerate().map(|(index, pieces)| piece(index, *pieces)).collect();
    let mut left = left.min(budget.raised.into());
    while left > 0
        && let Some((width, Reverse(index))) = widest.pop()
    {
        let pieces = &mut pieces[index];
        if *pieces <= left && width > 1 {
            left -= *pieces;
            *pieces *= 2;
            widest.push(piece(index, *pieces));
        }
    }
    partitions
        .iter()
        .zip(pieces)
        .filter(|(_, pieces)| *pieces > 1)
        // At most `more` and one.
        .map(|(one, pieces)| EvenCut { partition: one.id, pieces: pieces as u32 })
        .collect()
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::access::Access;
    use crate::admission::throttled::Bound;
    use crate::capacity::Admission;
    use crate::control::on_demand::{OnDemand, OnDemandTerms};
    use crate::table_config::TableConfig;

    const SHOP: &str = "shop";

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_secs(1_795_210_800 + seconds)
    }

    fn store(max: Option<Units>) -> Capacity {
        let terms = OnDemandTerms {
            read: OnDemand::new(Units::whole(300)),
            write: OnDemand { max, ..OnDemand::new(Units::whole(100)) },
        };
        let table = TableConfig::new(SHOP, "orders", 1, 1).on_demand(terms).nodes(["a"]);
        Capacity::builder().node("a", 100_000).table(table).build_at(at(0)).unwrap()
    }

    /// The writes of a second that are admitted of so many, and the bound of the last refusal.
    fn second(capacity: &Capacity, second: u64, writes: u64) -> (u64, Option<Bound>) {
        let (mut admitted, mut bound) = (0, None);
        for write in 0..writes {
            let now = at(second).saturating_add(Duration::from_nanos(write * 1_000_000_000 / writes));
            match capacity.admit(SHOP, &Access::write("orders", &write.to_le_bytes(), 1), now).unwrap() {
                Admission::Admit(_) => admitted += 1,
                Admission::Throttle(throttled) => bound = Some(throttled.bound),
            }
        }
        (admitted, bound)
    }

    #[test]
    fn the_limit_of_a_table_on_demand_doubles_a_minute_and_asks_for_partitions() {
        let capacity = store(None);
        let mut grown = Vec::new();
        let mut admitted = Vec::new();
        for number in 0..300 {
            admitted.push(second(&capacity, number, 1500).0);
            grown.extend(capacity.follow_demand(at(number + 1)));
        }
        let write = capacity.token_rate(SHOP, "orders", AccessOperation::Write).unwrap();
        // 100, 200, 400, 800, then the ceiling of one partition.
        assert!((1600..=2100).contains(&write.whole_left()), "{write}");
        assert!(admitted[30..59].iter().all(|units| (99..=101).contains(units)), "{admitted:?}");
        assert!(grown.iter().any(|table| table.cuts[0].pieces >= 2), "{grown:?}");
    }

    #[test]
    fn a_pressed_partition_of_no_width_stays_whole() {
        let seen = |id, width| SeenPartition { id: PartitionId(id), width, is_pressed: true };
        for more in [0, 1, 5] {
            for former in [0, 2] {
                let budget = CutBudget { more, raised: 0, former };
                assert_eq!(even_cuts(&[seen(0, 0)], 40, budget), []);
                let cuts = even_cuts(&[seen(0, 0), seen(1, 1 << 60), seen(2, 0)], 40, budget);
                assert!(cuts.iter().all(|cut| cut.partition == PartitionId(1)), "{cuts:?}");
            }
        }
    }

    #[test]
    fn a_table_at_its_maximum_says_so_and_a_reload_keeps_its_peak() {
        let capacity = store(Some(Units::whole(150)));
        for number in 0..130 {
            second(&capacity, number, 400);
            capacity.follow_demand(at(number + 1));
        }
        let (admitted, bound) = second(&capacity, 130, 400);
        assert!((149..=151).contains(&admitted), "{admitted}");
        assert_eq!(bound, Some(Bound::OnDemandMaximum));
        let terms = OnDemandTerms {
            read: OnDemand::new(Units::whole(300)),
            write: OnDemand { max: Some(Units::whole(150)), ..OnDemand::new(Units::whole(100)) },
        };
        let table = TableConfig::new(SHOP, "orders", 1, 1).on_demand(terms).nodes(["a"]);
        let after =
            Capacity::builder().node("a", 90_000).table(table).build_over(&capacity, at(132)).unwrap();
        after.follow_demand(at(132));
        let rate = after.token_rate(SHOP, "orders", AccessOperation::Write).unwrap();
        assert_eq!(rate, Units::whole(150));
    }
}
