//! Proposals of merges: neighbours that have been cool for long.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_core::Timestamp;

use super::Control;
use super::load::{Observed, statuses};
use super::moves::nodes_of;
use crate::capacity::Capacity;
use crate::load_history::RangeLoad;
use crate::merge::{CoolPair, CoolReplicas, JoiningMove, MergeLoad, cool_neighbours, joining_move};
use crate::partition_id::PartitionId;
use crate::placement::MoveOrder;
use crate::plan::{Plan, PlanReason, PlannedChange};
use crate::relocation::COOLDOWN;
use crate::split::SplitVerdict;
use crate::status::PartitionStatus;
use crate::units::Units;

impl Control {
    pub(super) fn propose_merges(&self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        let names: Vec<&str> = capacity.nodes(now).map(|node| node.name).collect();
        let positions: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
        let mut nodes = nodes_of(capacity, now);
        let mut apart = Vec::new();
        for (namespace, table) in capacity.tables() {
            let statuses = statuses(capacity, namespace, table, now);
            let loads = self.merge_loads(capacity, (namespace, table), &statuses, &positions, plans);
            let histories = self.loads.of_table(namespace, table);
            for (load, history) in loads.iter().zip(histories) {
                let [reads, writes] = history.latest();
                for (member, node) in load.nodes.iter().enumerate() {
                    // Those of nodes that are gone, and of members that there are not, have none.
                    let Some(node) = nodes.get_mut(*node) else { continue };
                    let of_member = if member == 0 { reads + writes } else { writes };
                    node.offered = node.offered + of_member;
                }
            }
            let most = self.loads.merges_left(namespace, table, statuses.len(), now);
            for CoolPair { left, is_together, .. } in cool_neighbours(&loads, most, now) {
                if is_together {
                    let change = PlannedChange::Merge { left };
                    plans.push(Plan::new((namespace, table), change, PlanReason::Cool, now));
                } else if let Some(index) = loads.iter().position(|load| load.id == left) {
                    let pair = [(statuses[index], loads[index]), (statuses[index + 1], loads[index + 1])];
                    apart.push(((namespace, table), pair));
                }
            }
        }
        // Once it is known what all nodes are asked for.
        for (place, pair) in apart {
            let is_rested = |status: &PartitionStatus<'_>| {
                let id = capacity.table(place.0, place.1).map(|table| table.id);
                let mut moved = self.moved.iter();
                let moved = moved.find(|one| Ok(one.table) == id && one.partition == status.id);
                moved.is_none_or(|moved| now.saturating_since(moved.moved_at) >= COOLDOWN)
            };
            if !pair.iter().all(|(status, _)| is_rested(status)) {
                continue;
            }
            let replicas = pair.map(|(status, load)| CoolReplicas {
                nodes: load.nodes,
                promised: [status.read_rate + status.write_rate, status.write_rate],
            });
            if let Some(JoiningMove { is_right, from, to, promised }) = joining_move(replicas, &nodes) {
                nodes[to].promised = nodes[to].promised + promised;
                let (status, _) = pair[usize::from(is_right)];
                let order = MoveOrder::new(place, (status.id, status.range), names[from], names[to]);
                plans.push(Plan::new(place, PlannedChange::Move(order), PlanReason::Cool, now));
            }
        }
    }

    /// The partitions of a table as candidates for merges.
    fn merge_loads(
        &self,
        capacity: &Capacity,
        (namespace, table): (&str, &str),
        statuses: &[PartitionStatus<'_>],
        nodes: &BTreeMap<&str, usize>,
        plans: &[Plan],
    ) -> Vec<MergeLoad> {
        let is_here = |(of_namespace, of_table): (&str, &str)| of_namespace == namespace && of_table == table;
        let planned = plans.iter().filter_map(|plan| match &plan.change {
            _ if !is_here((&plan.namespace, &plan.table)) => None,
            PlannedChange::Split { partition, .. } | PlannedChange::Isolate { partition, .. } => {
                Some(*partition)
            }
            PlannedChange::Merge { left } => Some(*left),
            PlannedChange::Move(order) => Some(order.partition),
        });
        let running = self.running.iter().filter(|order| is_here((&order.namespace, &order.table)));
        let busy: BTreeSet<PartitionId> = planned.chain(running.map(|order| order.partition)).collect();
        let bounds = capacity.configured_bounds(namespace, table).unwrap_or_default();
        let histories = self.loads.of_table(namespace, table);
        let ceilings = statuses.first().map_or([Units::ZERO; 2], |one| [one.read.ceiling, one.write.ceiling]);
        let former = self.grown.fitting((namespace, table), histories, ceilings);
        let load = |(status, history): (&PartitionStatus<'_>, Option<&RangeLoad>), former| {
            let observed = self.observed((namespace, table), status.id);
            let is_hot = |one: &Observed| matches!(one.verdict, Some(SplitVerdict::HotKey { .. }));
            let members = [Some(status.node), status.followers[0], status.followers[1]];
            // A partition that is to change is not joined in the same tick.
            let history = history.filter(|history| history.id() == status.id && !busy.contains(&status.id));
            MergeLoad {
                id: status.id,
                made_at: status.made_at,
                rejoined_at: history.and_then(RangeLoad::rejoined_at),
                peaks: history.and_then(RangeLoad::peaks),
                bases: [status.read.base, status.write.base],
                ceilings: [status.read.ceiling, status.write.ceiling],
                has_hot_key: observed.is_some_and(|both| both.iter().any(is_hot)),
                former,
                begins_configured: bounds.binary_search(&status.range.first).is_ok(),
                width: status.range.width(),
                nodes: members
                    .map(|node| node.and_then(|node| nodes.get(node).copied()).unwrap_or(usize::MAX)),
            }
        };
        // Observed just before, in the order of the ranges.
        let histories = histories.iter().map(Some).chain(core::iter::repeat(None));
        let former = former.into_iter().chain(core::iter::repeat(None));
        statuses.iter().zip(histories).zip(former).map(|(one, former)| load(one, former)).collect()
    }
}
