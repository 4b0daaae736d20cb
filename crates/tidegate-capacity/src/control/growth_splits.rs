//! Proposals of splits for tables whose limits have grown, or whose load comes near the limit.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Timestamp;

use super::Control;
use super::load::statuses;
use crate::capacity::Capacity;
use crate::control::growth::{EvenCut, GrownTable};
use crate::control::plan::{Plan, PlanReason, PlannedChange};
use crate::control::reshape::SplitShares;
use crate::layout::key_range::KeyRange;
use crate::layout::partition_id::PartitionId;
use crate::levels::Share;

impl Control {
    /// Cuts partitions of a table for what it can reach at once. The cuts of one partition follow
    /// one another from the middle, so each finds the piece of the one before by its position. A
    /// partition that moves is cut when it has arrived.
    pub(super) fn propose_growth(
        &self,
        capacity: &Capacity,
        grown: &GrownTable,
        now: Timestamp,
        plans: &mut Vec<Plan>,
    ) {
        let place = (grown.namespace.as_str(), grown.table.as_str());
        let planned = plans.iter().filter_map(|plan| match &plan.change {
            PlannedChange::Move(order) => Some(order),
            PlannedChange::Split { .. } | PlannedChange::Isolate { .. } | PlannedChange::Merge { .. } => None,
        });
        let moving: BTreeSet<PartitionId> = planned
            .chain(&self.running)
            .filter(|order| (order.namespace.as_str(), order.table.as_str()) == place)
            .map(|order| order.partition)
            .collect();
        let ranges: BTreeMap<PartitionId, KeyRange> = statuses(capacity, place.0, place.1, now)
            .iter()
            .map(|status| (status.id, status.range))
            .collect();
        for EvenCut { partition, pieces } in grown.cuts.iter().filter(|cut| !moving.contains(&cut.partition))
        {
            let Some(range) = ranges.get(partition) else { continue };
            let cuts = range.even_cuts(*pieces);
            let mut parts = vec![&cuts[..]];
            while let Some(part) = parts.pop() {
                let Some(at) = part.get(part.len() / 2) else { continue };
                let (left, right) = (&part[..part.len() / 2], &part[part.len() / 2 + 1..]);
                let share = Share::from_parts(left.len() as u64 + 1, right.len() as u64 + 1);
                let shares = SplitShares { read: share, write: share };
                let change = PlannedChange::Split { partition: *partition, at: *at, shares };
                plans.push(Plan::new(place, change, PlanReason::Growth, now));
                parts.extend([right, left]);
            }
        }
    }
}
