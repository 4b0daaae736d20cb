//! Proposals of merges: neighbours that have been cool for long.

use std::collections::BTreeSet;

use tidegate_core::Timestamp;

use super::Control;
use super::load::{Observed, TableLoad};
use super::moves::nodes_of;
use crate::capacity::Capacity;
use crate::control::load_history::{PartitionTotals, RangeLoad};
use crate::control::merge::{CoolPair, CoolReplicas, JoiningMove, MergeLoad, cool_neighbours, joining_move};
use crate::control::placement::MoveOrder;
use crate::control::plan::{Plan, PlanReason, PlannedChange};
use crate::control::relocation::COOLDOWN;
use crate::control::split::SplitVerdict;
use crate::fault::Fault;
use crate::layout::LayoutPlan;
use crate::layout::key_range::KeyRange;
use crate::layout::partition::PartitionState;
use crate::layout::partition_id::PartitionId;
use crate::table::least_firsts;
use crate::units::Units;

/// A partition of a pair that lies on different nodes.
#[derive(Clone, Copy, Debug)]
struct ApartPartition {
    id: PartitionId,
    range: KeyRange,
    replicas: CoolReplicas,
}

impl Control {
    /// Takes the totals that the look has just read into the history of loads.
    pub(super) fn follow_loads(&mut self, now: Timestamp) {
        let mut look = self.loads.look(now);
        for load in &self.tables {
            let layout = &load.table.layout;
            let plan = layout.plan();
            if !load.follows(&plan) {
                // Changed since the look at the partitions.
                look.keep(load.table.id);
                continue;
            }
            let totals = load.partitions.iter().map(|one| PartitionTotals {
                id: one.id,
                offered: one
                    .directions
                    .each_ref()
                    .map(|one| one.before.map_or(Units::ZERO, |all| all.offered)),
            });
            look.table(load.table.id, layout.keyspace.by, &plan, totals);
        }
    }

    pub(super) fn propose_merges(&self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        let mut nodes = nodes_of(capacity, now);
        for (node, offered) in nodes.iter_mut().zip(&self.node_offered) {
            node.offered = *offered;
        }
        let mut apart = Vec::new();
        for load in &self.tables {
            let place = (&*load.table.namespace, &*load.table.name);
            let plan = load.table.layout.plan();
            let most = self.loads.merges_left(load.table.id, plan.len(), now);
            if most == 0 || !plan.config.merges || !load.follows(&plan) {
                continue;
            }
            let loads = self.merge_loads(capacity, load, &plan, plans);
            for CoolPair { left, is_together, .. } in cool_neighbours(&loads, most, now) {
                if is_together {
                    let change = PlannedChange::Merge { left };
                    plans.push(Plan::new(place, change, PlanReason::Cool, now));
                } else if let Some(index) = loads.iter().position(|load| load.id == left) {
                    let partition = |index: usize| {
                        let state = load.table.layout.lock(&plan, index);
                        let promised = state.directions.promised().map(Units::from_rate);
                        let replicas = CoolReplicas { nodes: loads[index].nodes, promised };
                        ApartPartition { id: state.id, range: state.range, replicas }
                    };
                    apart.push((load, [partition(index), partition(index + 1)]));
                }
            }
        }
        // Once all pairs are known that need no move.
        for (load, pair) in apart {
            let is_rested = |partition: &ApartPartition| {
                let mut moved = self.moved.iter();
                let moved = moved.find(|one| (one.table, one.partition) == (load.table.id, partition.id));
                moved.is_none_or(|moved| now.saturating_since(moved.moved_at) >= COOLDOWN)
            };
            if !pair.iter().all(is_rested) {
                continue;
            }
            let replicas = pair.map(|partition| partition.replicas);
            if let Some(JoiningMove { is_right, from, to, promised }) = joining_move(replicas, &nodes) {
                nodes[to].promised = nodes[to].promised + promised;
                let ApartPartition { id, range, .. } = pair[usize::from(is_right)];
                let place = (&*load.table.namespace, &*load.table.name);
                let [from, to] = [from, to].map(|node| &*capacity.nodes[node].name);
                let order = MoveOrder::new(place, (id, range), from, to);
                plans.push(Plan::new(place, PlannedChange::Move(order), PlanReason::Cool, now));
            }
        }
    }

    /// The partitions of a table as candidates for merges. Those whose history already forbids one
    /// are not locked.
    fn merge_loads(
        &self,
        capacity: &Capacity,
        load: &TableLoad,
        plan: &LayoutPlan,
        plans: &[Plan],
    ) -> Vec<MergeLoad> {
        let is_here = |namespace: &str, table: &str| load.is_named((namespace, table));
        let planned = plans.iter().filter_map(|plan| match &plan.change {
            _ if !is_here(&plan.namespace, &plan.table) => None,
            PlannedChange::Split { partition, .. } | PlannedChange::Isolate { partition, .. } => {
                Some(*partition)
            }
            PlannedChange::Merge { left } => Some(*left),
            PlannedChange::Move(order) => Some(order.partition),
        });
        let running = self.running.iter().filter(|order| is_here(&order.namespace, &order.table));
        let busy: BTreeSet<PartitionId> = planned.chain(running.map(|order| order.partition)).collect();
        let histories = self.loads.of_table(load.table.id);
        if histories.len() != load.partitions.len() || !histories.iter().any(has_loads) {
            return Vec::new();
        }
        let layout = &load.table.layout;
        let mut configured = least_firsts(&plan.config, &layout.keyspace).into_iter().peekable();
        let begins_configured = histories.iter().map(|history| {
            let first = history.range().first;
            while configured.next_if(|at| *at < first).is_some() {}
            configured.peek() == Some(&first)
        });
        let begins_configured: Vec<bool> = begins_configured.collect();
        let ceilings = load.partitions.first().map_or([Units::ZERO; 2], |_| {
            let state = layout.lock(plan, 0);
            [true, false].map(|is_read| Units::from_rate(state.directions.of(is_read).rates.ceiling))
        });
        let former = self.grown.fitting(load.table.id, histories, ceilings);
        let is_known = |index: usize| histories.get(index).is_some_and(has_loads);
        let merge_load = |index: usize| {
            let (history, observed) = (&histories[index], &load.partitions[index]);
            let joins_left = index > 0 && !begins_configured[index] && is_known(index - 1);
            let joins_right =
                begins_configured.get(index + 1).is_some_and(|begins| !begins) && is_known(index + 1);
            let is_candidate = is_known(index) && (joins_left || joins_right);
            // A partition that is to change is not joined in the same tick.
            if !is_candidate || history.id() != observed.id || busy.contains(&observed.id) {
                return MergeLoad::unknown(observed.id);
            }
            let state = layout.lock(plan, index);
            let is_hot = |one: &Observed| matches!(one.verdict, Some(SplitVerdict::HotKey { .. }));
            MergeLoad {
                has_hot_key: observed.directions.iter().any(is_hot),
                former: former[index],
                begins_configured: begins_configured[index],
                ..candidate(capacity, &state, history)
            }
        };
        (0..histories.len()).map(merge_load).collect()
    }
}

/// Whether it was observed for as long as the load of neighbours counts.
fn has_loads(history: &RangeLoad) -> bool {
    history.peaks().is_some() || Fault::JoinedAtOnce.is_planted()
}

/// A partition that is locked, as a candidate for a merge.
fn candidate(capacity: &Capacity, state: &PartitionState, history: &RangeLoad) -> MergeLoad {
    let rates = [true, false].map(|is_read| state.directions.of(is_read).rates);
    let member = |member: usize| {
        let number = state.members.as_slice().get(member);
        number.and_then(|number| capacity.node_position(*number)).unwrap_or(usize::MAX)
    };
    MergeLoad {
        made_at: state.made_at,
        rejoined_at: history.rejoined_at(),
        peaks: history.peaks(),
        bases: rates.map(|rates| Units::from_rate(rates.base)),
        ceilings: rates.map(|rates| Units::from_rate(rates.ceiling)),
        width: state.range.width(),
        nodes: core::array::from_fn(member),
        ..MergeLoad::unknown(state.id)
    }
}
