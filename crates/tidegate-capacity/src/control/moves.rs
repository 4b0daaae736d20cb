//! Proposals of moves away from nodes that are asked for more than they can do.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::Control;
use crate::capacity::Capacity;
use crate::control::placement::MoveOrder;
use crate::control::plan::{Plan, PlanReason, PlannedChange};
use crate::control::relocation::{
    COOLDOWN, NodeUse, ReplicaMove, ReplicaUse, move_benefit, placing_moves, unburdening_moves,
};
use crate::layout::key_range::KeyRange;
use crate::layout::partition::PartitionState;
use crate::units::Units;

/// The nodes and the replicas on them, as a relocation sees them.
struct NodeMap<'a> {
    names: Vec<&'a str>,
    nodes: Vec<NodeUse>,
    replicas: Vec<ReplicaUse>,
    /// The keys of each replica.
    ranges: Vec<KeyRange>,
    running: Vec<ReplicaMove>,
}

impl Control {
    /// Proposes moves of replicas away from nodes that are nearly full.
    pub(super) fn propose_moves(&mut self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        self.moved.retain(|one| now >= one.moved_at && now.saturating_since(one.moved_at) < COOLDOWN);
        self.full_since.resize(capacity.nodes.len(), None);
        let nodes = nodes_of(capacity, now);
        for ((node, offered), since) in nodes.iter().zip(&self.node_offered).zip(&mut self.full_since) {
            let is_full = NodeUse { offered: *offered, ..*node }.is_full();
            *since = is_full.then(|| since.unwrap_or(now));
        }
        if self.full_since.iter().all(Option::is_none) {
            return;
        }
        let map = self.node_map(capacity, now);
        for chosen in unburdening_moves(&map.nodes, &map.replicas, &map.running, now) {
            plans.extend(self.plan_of(&map, chosen, now));
        }
    }

    /// Proposes a move of the hotter part of each cut of the last tick whose node cannot bear both.
    /// Whether there were any.
    pub(super) fn place_new(&self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) -> bool {
        if self.new.is_empty() {
            return false;
        }
        let map = self.node_map(capacity, now);
        let is_new = |place: &usize| {
            let replica = &map.replicas[*place];
            let table = self.tables[replica.table].table.id;
            self.new.iter().any(|one| (one.table, one.id) == (table, replica.partition))
        };
        let new: Vec<usize> = (0..map.replicas.len()).filter(is_new).collect();
        let chosen = placing_moves(&map.nodes, &map.replicas, &map.running, &new, now);
        plans.extend(chosen.iter().filter_map(|one| self.plan_of(&map, *one, now)));
        !chosen.is_empty()
    }

    fn plan_of(&self, map: &NodeMap<'_>, chosen: ReplicaMove, now: Timestamp) -> Option<Plan> {
        let table = &self.tables.get(chosen.table)?.table;
        let name = (&*table.namespace, &*table.name);
        let is_it = |one: &ReplicaUse| {
            (one.table, one.partition, one.node) == (chosen.table, chosen.partition, chosen.from)
        };
        let range = map.ranges[map.replicas.iter().position(is_it)?];
        let [from, to] = [chosen.from, chosen.to].map(|node| map.names[node]);
        let order = MoveOrder::new(name, (chosen.partition, range), from, to);
        let benefit = move_benefit(&map.nodes, &map.replicas, chosen);
        Some(Plan { benefit, ..Plan::new(name, PlannedChange::Move(order), PlanReason::NodeBusy, now) })
    }

    /// A walk over all partitions: only for a store of which a node is nearly full.
    fn node_map<'a>(&self, capacity: &'a Capacity, now: Timestamp) -> NodeMap<'a> {
        let names: Vec<&str> = capacity.nodes.iter().map(|node| &*node.name).collect();
        let mut nodes = nodes_of(capacity, now);
        for (node, since) in nodes.iter_mut().zip(&self.full_since) {
            node.full_for = since.map_or(Duration::ZERO, |since| now.saturating_since(since));
        }
        let (mut replicas, mut ranges) = (Vec::new(), Vec::new());
        for (index, load) in self.tables.iter().enumerate() {
            let plan = load.table.layout.plan();
            for place in 0..plan.len() {
                let state = load.table.layout.lock(&plan, place);
                let Some(observed) = load.partition(state.id) else { continue };
                let offered = observed.directions.each_ref().map(|one| one.offered);
                let moved =
                    self.moved.iter().find(|one| (one.table, one.partition) == (load.table.id, state.id));
                let promised = state.directions.promised().map(Units::from_rate);
                for (member, number) in state.members.as_slice().iter().enumerate() {
                    let Some(node) = capacity.node_position(*number) else { continue };
                    let role = usize::from(member > 0);
                    let offered = reaching_node(&state, offered)[role];
                    nodes[node].offered = nodes[node].offered + offered;
                    replicas.push(ReplicaUse {
                        table: index,
                        partition: state.id,
                        node,
                        promised: promised[role],
                        offered,
                        bytes: 0,
                        moved_at: moved.map(|one| one.moved_at),
                    });
                    ranges.push(state.range);
                }
            }
        }
        let position = |name: &str| names.iter().position(|known| *known == name);
        let running = self.running.iter().filter_map(|order| {
            Some(ReplicaMove {
                table: self.tables.iter().position(|one| one.is_named((&order.namespace, &order.table)))?,
                partition: order.partition,
                from: position(&order.from)?,
                to: position(&order.to)?,
            })
        });
        NodeMap { running: running.collect(), names, nodes, replicas, ranges }
    }
}

/// The nodes, asked for nothing yet.
pub(super) fn nodes_of(capacity: &Capacity, now: Timestamp) -> Vec<NodeUse> {
    let nodes = capacity.nodes(now).map(|node| NodeUse {
        units: node.rate,
        promisable: node.promisable,
        promised: node.promised,
        offered: Units::ZERO,
        full_for: Duration::ZERO,
    });
    nodes.collect()
}

/// The units a second that reach the node of the leader, and those of other members, when a
/// partition is offered so many reads and writes: no more than its ceilings let through. All reads
/// count for the leader, whichever member serves them.
pub(super) fn reaching_node(state: &PartitionState, [reads, writes]: [Units; 2]) -> [Units; 2] {
    let [read_ceiling, write_ceiling] =
        [true, false].map(|is_read| Units::from_rate(state.directions.of(is_read).rates.ceiling));
    let writes = writes.min(write_ceiling);
    [reads.min(read_ceiling) + writes, writes]
}
