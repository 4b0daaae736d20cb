//! Proposals of splits for tables on demand whose limits have grown.

use tidegate_core::Timestamp;

use super::load::statuses;
use crate::capacity::Capacity;
use crate::growth::GrownTable;
use crate::plan::{Plan, PlanReason, PlannedChange};
use crate::position::Position;
use crate::reshape::SplitShares;
use crate::status::PartitionStatus;

/// Halves the widest partitions of a table whose limits have grown, as many as are missing.
pub(super) fn propose_growth(capacity: &Capacity, grown: &GrownTable, now: Timestamp, plans: &mut Vec<Plan>) {
    let mut statuses = statuses(capacity, &grown.namespace, &grown.table, now);
    let missing = (grown.partitions as usize).saturating_sub(statuses.len());
    let width = |status: &PartitionStatus<'_>| {
        let (first, last) = status.range.words();
        last - first
    };
    statuses.sort_by_key(|status| core::cmp::Reverse(width(status)));
    for status in statuses.iter().take(missing).filter(|status| width(status) > 0) {
        let middle = status.range.words().0 + width(status) / 2 + 1;
        let (partition, at) = (status.id, Position::of_first_word(middle));
        let change = PlannedChange::Split { partition, at, shares: SplitShares::HALF };
        plans.push(Plan::new((&grown.namespace, &grown.table), change, PlanReason::Growth, now));
    }
}
