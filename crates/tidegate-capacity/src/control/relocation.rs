//! Relocation: replicas leave a node that is asked for more than it can do.
//!
//! A node above its units, or above nine tenths of them for a minute, gives replicas away, one at a
//! time: a hot spot that moves on by itself is not followed. Its cold replicas are tried
//! first, if together they free enough: the keys of the hot one are those that callers wait for.
//! Moves that run count as done. The destination stays below nine tenths, has room for what the
//! replica is promised, and holds no other replica of the partition.

use core::cmp::Reverse;
use core::time::Duration;

use tidegate_core::Timestamp;

use crate::layout::partition_id::PartitionId;
use crate::units::Units;

/// The hundredths of a node's units above which it gives replicas away, and up to which another one
/// takes them.
pub const FULL_PERCENT: i64 = 90;

/// The hundredths of a node's units above which replicas leave it at once.
const OVERLOADED_PERCENT: i64 = 105;

/// The time for which a node is full before replicas leave it.
const PATIENCE: Duration = Duration::from_mins(1);

/// A move must bring the busier of the two nodes down by so many hundredths.
const IMPROVEMENT_PERCENT: i64 = 5;

/// The time after a move of a partition in which it does not move again.
pub const COOLDOWN: Duration = Duration::from_mins(1);

/// A node as the relocation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeUse {
    /// Units a second that it can do.
    pub units: Units,
    /// Units a second that may be promised.
    pub promisable: Units,
    /// Units a second that are promised.
    pub promised: Units,
    /// Units a second that it is asked for, refused ones included.
    pub offered: Units,
    /// For how long it has been asked for more than nine tenths of its units.
    pub full_for: Duration,
}

impl NodeUse {
    /// Whether replicas should leave it now: it is asked for more than it can do, or has been full
    /// for long. A load that moves on by itself is not followed.
    fn is_due(&self) -> bool {
        let percent = use_percent(self, Units::ZERO);
        percent > OVERLOADED_PERCENT || percent > FULL_PERCENT && self.full_for >= PATIENCE
    }

    /// Whether it is asked for so much that replicas should leave it sooner or later.
    pub(crate) fn is_full(&self) -> bool {
        use_percent(self, Units::ZERO) > FULL_PERCENT
    }
}

/// A replica as the relocation sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaUse {
    /// The position of its table.
    pub table: usize,
    /// Its partition.
    pub partition: PartitionId,
    /// The position of its node.
    pub node: usize,
    /// Units a second that it is promised.
    pub promised: Units,
    /// Units a second that it is asked for.
    pub offered: Units,
    /// The data that a move copies.
    pub bytes: u64,
    /// When the partition moved last.
    pub moved_at: Option<Timestamp>,
}

/// A replica that moves to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaMove {
    /// The position of its table.
    pub table: usize,
    /// Its partition.
    pub partition: PartitionId,
    /// The position of the node that it leaves.
    pub from: usize,
    /// The position of the node that it goes to.
    pub to: usize,
}

/// The moves that unburden the nodes that are asked for too much, the busiest first; at most one
/// from and to each node, none of which `running` moves touch.
pub fn unburdening_moves(
    nodes: &[NodeUse],
    replicas: &[ReplicaUse],
    running: &[ReplicaMove],
    now: Timestamp,
) -> Vec<ReplicaMove> {
    let mut relocation = Relocation::new(nodes, replicas, running);
    for from in relocation.nodes_by_use() {
        if relocation.nodes[from].is_due() {
            let cold_first = relocation.candidates(from, now);
            relocation.choose(from, &cold_first);
        }
    }
    relocation.chosen
}

/// The moves away from nodes that cannot bear new partitions: of each node the hottest one of
/// `new`, which are positions in `replicas`, or another one if that fits nowhere. Nodes are bound
/// as those of [`unburdening_moves`].
pub fn placing_moves(
    nodes: &[NodeUse],
    replicas: &[ReplicaUse],
    running: &[ReplicaMove],
    new: &[usize],
    now: Timestamp,
) -> Vec<ReplicaMove> {
    let mut relocation = Relocation::new(nodes, replicas, running);
    for from in relocation.nodes_by_use() {
        if relocation.nodes[from].is_full() {
            let is_there = |place: &&usize| relocation.replicas[**place].node == from;
            let hottest = new.iter().copied().filter(|place| is_there(&place));
            let Some(hottest) =
                hottest.max_by_key(|place| (relocation.replicas[*place].offered, Reverse(*place)))
            else {
                continue;
            };
            if !relocation.choose(from, &[hottest]) {
                let cold_first = relocation.candidates(from, now);
                relocation.choose(from, &cold_first);
            }
        }
    }
    relocation.chosen
}

/// Moves under choice.
struct Relocation {
    nodes: Vec<NodeUse>,
    replicas: Vec<ReplicaUse>,
    /// The nodes that a move touches.
    is_busy: Vec<bool>,
    chosen: Vec<ReplicaMove>,
}

impl Relocation {
    fn new(nodes: &[NodeUse], replicas: &[ReplicaUse], running: &[ReplicaMove]) -> Self {
        let is_busy = vec![false; nodes.len()];
        let mut relocation =
            Self { nodes: nodes.to_vec(), replicas: replicas.to_vec(), is_busy, chosen: Vec::new() };
        for done in running {
            relocation.carry_out(done);
        }
        relocation
    }

    /// The nodes, the busiest first.
    fn nodes_by_use(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|node| Reverse(use_percent(&self.nodes[*node], Units::ZERO)));
        order
    }

    /// Counts a move as done.
    fn carry_out(&mut self, done: &ReplicaMove) {
        carry_out(done, &mut self.nodes, &mut self.replicas);
        (self.is_busy[done.from], self.is_busy[done.to]) = (true, true);
    }

    /// The replicas that may leave a node: without the hottest one, if the others free enough.
    fn candidates(&self, from: usize, now: Timestamp) -> Vec<usize> {
        let may_move = |one: &ReplicaUse| {
            one.node == from && one.moved_at.is_none_or(|moved| now.saturating_since(moved) >= COOLDOWN)
        };
        let mut candidates: Vec<usize> =
            (0..self.replicas.len()).filter(|place| may_move(&self.replicas[*place])).collect();
        candidates.sort_by_key(|place| {
            let one = &self.replicas[*place];
            (one.offered, one.table, one.partition)
        });
        let full = self.nodes[from].units.as_thousandths() * FULL_PERCENT / 100;
        let excess = self.nodes[from].offered.as_thousandths() - full;
        let offered = |place: &usize| self.replicas[*place].offered.as_thousandths();
        if let Some((_, cold)) = candidates.split_last()
            && cold.iter().map(offered).sum::<i64>() >= excess
        {
            candidates.pop();
        }
        candidates
    }

    /// Chooses the best move of one of the candidates away from a node. Whether there is one.
    fn choose(&mut self, from: usize, candidates: &[usize]) -> bool {
        let best = if self.is_busy[from] { None } else { self.best_move(from, candidates) };
        if let Some(best) = best {
            self.carry_out(&best);
            self.chosen.push(best);
        }
        best.is_some()
    }

    fn best_move(&self, from: usize, candidates: &[usize]) -> Option<ReplicaMove> {
        let before = use_percent(&self.nodes[from], Units::ZERO);
        // The use of the busier node afterwards, the bytes, and the use of the destination.
        let mut best: Option<((i64, u64, i64), ReplicaMove)> = None;
        for place in candidates {
            let replica = &self.replicas[*place];
            let is_of_group =
                |one: &&ReplicaUse| (one.table, one.partition) == (replica.table, replica.partition);
            let taken: Vec<usize> = self.replicas.iter().filter(is_of_group).map(|one| one.node).collect();
            for (to, node) in self.nodes.iter().enumerate() {
                let has_room = node.promised + replica.promised <= node.promisable;
                let after_to = use_percent(node, replica.offered);
                if to == from
                    || self.is_busy[to]
                    || taken.contains(&to)
                    || !has_room
                    || after_to > FULL_PERCENT
                {
                    continue;
                }
                let after = after_to.max(use_percent(&self.nodes[from], Units::ZERO - replica.offered));
                if before - after < IMPROVEMENT_PERCENT {
                    continue;
                }
                let cost = (after, replica.bytes, after_to);
                if best.is_none_or(|(least, _)| cost < least) {
                    let (table, partition) = (replica.table, replica.partition);
                    best = Some((cost, ReplicaMove { table, partition, from, to }));
                }
            }
        }
        best.map(|(_, best)| best)
    }
}

/// The units a second that the nodes refuse less after a move; zero where neither refuses any.
pub fn move_benefit(nodes: &[NodeUse], replicas: &[ReplicaUse], chosen: ReplicaMove) -> Units {
    let refused = |nodes: &[NodeUse]| {
        let excess = |node: usize| (nodes[node].offered - nodes[node].units).max(Units::ZERO);
        excess(chosen.from) + excess(chosen.to)
    };
    let before = refused(nodes);
    let (mut nodes, mut replicas) = (nodes.to_vec(), replicas.to_vec());
    carry_out(&chosen, &mut nodes, &mut replicas);
    (before - refused(&nodes)).max(Units::ZERO)
}

/// The hundredths of its units that a node is asked for, with `more`.
fn use_percent(node: &NodeUse, more: Units) -> i64 {
    let offered = (node.offered + more).as_thousandths();
    offered.saturating_mul(100) / node.units.as_thousandths().max(1)
}

fn carry_out(done: &ReplicaMove, nodes: &mut [NodeUse], replicas: &mut [ReplicaUse]) {
    let is_it = |one: &&mut ReplicaUse| {
        (one.table, one.partition, one.node) == (done.table, done.partition, done.from)
    };
    let Some(replica) = replicas.iter_mut().find(is_it) else { return };
    replica.node = done.to;
    let (offered, promised) = (replica.offered, replica.promised);
    nodes[done.from].offered = nodes[done.from].offered - offered;
    nodes[done.from].promised = nodes[done.from].promised - promised;
    nodes[done.to].offered = nodes[done.to].offered + offered;
    nodes[done.to].promised = nodes[done.to].promised + promised;
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_795_210_800);

    /// Nodes of a thousand units with replicas of these loads.
    fn world(loads: &[&[u64]]) -> (Vec<NodeUse>, Vec<ReplicaUse>) {
        let mut replicas = Vec::new();
        let mut nodes = Vec::new();
        for (node, loads) in loads.iter().enumerate() {
            for offered in *loads {
                replicas.push(ReplicaUse {
                    table: 0,
                    partition: PartitionId(replicas.len() as u32),
                    node,
                    promised: Units::whole(50),
                    offered: Units::whole(*offered),
                    bytes: 0,
                    moved_at: None,
                });
            }
            nodes.push(NodeUse {
                units: Units::whole(1000),
                promisable: Units::whole(900),
                promised: Units::whole(50 * loads.len() as u64),
                offered: Units::whole(loads.iter().sum()),
                full_for: PATIENCE,
            });
        }
        (nodes, replicas)
    }

    #[test]
    fn cold_neighbours_leave_before_the_hot_partition() {
        let (nodes, replicas) = world(&[&[700, 150, 200], &[100], &[300]]);
        let moves = unburdening_moves(&nodes, &replicas, &[], NOW);
        assert_eq!(moves, [ReplicaMove { table: 0, partition: PartitionId(2), from: 0, to: 1 }]);
        // Neighbours that free too little: the hot one goes.
        let (nodes, replicas) = world(&[&[880, 100, 60], &[0]]);
        let moves = unburdening_moves(&nodes, &replicas, &[], NOW);
        assert_eq!(moves[0].partition, PartitionId(1), "140 are the excess, and the cold ones have 160");
        let (nodes, replicas) = world(&[&[890, 30, 100], &[0]]);
        let moves = unburdening_moves(&nodes, &replicas, &[], NOW);
        assert_eq!(moves[0].partition, PartitionId(2));
        let (nodes, replicas) = world(&[&[880, 50, 60, 60], &[0]]);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW)[0].from, 0);
        let (nodes, replicas) = world(&[&[880, 70], &[0]]);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW)[0].partition, PartitionId(1));
    }

    #[test]
    fn nothing_moves_below_nine_tenths_to_a_full_node_or_for_little() {
        let (nodes, replicas) = world(&[&[700, 200], &[0]]);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW), []);
        let (nodes, replicas) = world(&[&[700, 250], &[700]]);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW), [], "950 there");
        let (nodes, replicas) = world(&[&[910, 20], &[0]]);
        let moves = unburdening_moves(&nodes, &replicas, &[], NOW);
        assert_eq!(moves, [], "two hundredths are not worth a move, and 910 fit nowhere");
        // The destination must bear the promise, and hold no other replica of the partition.
        let (mut nodes, mut replicas) = world(&[&[700, 250], &[0]]);
        nodes[1].promised = Units::whole(851);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW), []);
        nodes[1].promised = Units::whole(850);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW).len(), 1);
        replicas.push(ReplicaUse { node: 1, ..replicas[1] });
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW), []);
    }

    #[test]
    fn a_running_move_counts_as_done_and_holds_its_nodes() {
        let (nodes, replicas) = world(&[&[700, 250], &[0], &[0]]);
        let running = unburdening_moves(&nodes, &replicas, &[], NOW);
        assert_eq!(running.len(), 1);
        assert_eq!(unburdening_moves(&nodes, &replicas, &running, NOW), []);
        let cooling: Vec<_> = replicas.iter().map(|one| ReplicaUse { moved_at: Some(NOW), ..*one }).collect();
        assert_eq!(unburdening_moves(&nodes, &cooling, &[], NOW), []);
        assert_eq!(unburdening_moves(&nodes, &cooling, &[], NOW.saturating_add(COOLDOWN)).len(), 1);
    }

    #[test]
    fn a_node_above_its_units_is_left_at_once_and_one_below_them_after_a_minute() {
        let (mut nodes, replicas) = world(&[&[700, 250], &[0]]);
        nodes[0].full_for = Duration::from_secs(59);
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW), []);
        nodes[0].full_for = PATIENCE;
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW).len(), 1);
        let (mut nodes, replicas) = world(&[&[700, 351], &[0]]);
        nodes[0].full_for = Duration::ZERO;
        assert_eq!(unburdening_moves(&nodes, &replicas, &[], NOW), [], "105 hundredths");
        let (mut nodes, replicas) = world(&[&[700, 360], &[0]]);
        nodes[0].full_for = Duration::ZERO;
        let moves = unburdening_moves(&nodes, &replicas, &[], NOW);
        assert_eq!(moves.len(), 1);
        // 60 more than the node can do.
        assert_eq!(move_benefit(&nodes, &replicas, moves[0]), Units::whole(60));
    }

    #[test]
    fn the_hottest_new_replica_of_a_full_node_is_placed_elsewhere() {
        let (mut nodes, replicas) = world(&[&[100, 400, 450], &[300], &[0]]);
        nodes[0].full_for = Duration::ZERO;
        let placed = placing_moves(&nodes, &replicas, &[], &[0, 1, 2], NOW);
        assert_eq!(placed, [ReplicaMove { table: 0, partition: PartitionId(2), from: 0, to: 2 }]);
        assert_eq!(placing_moves(&nodes, &replicas, &placed, &[0, 1, 2], NOW), [], "it leaves already");
        assert_eq!(placing_moves(&nodes, &replicas, &[], &[], NOW), []);
        // The hottest one fits nowhere: a cold neighbour goes, to the node with the most room.
        let (nodes, replicas) = world(&[&[200, 400, 450], &[600], &[550]]);
        let placed = placing_moves(&nodes, &replicas, &[], &[2], NOW);
        assert_eq!(placed, [ReplicaMove { table: 0, partition: PartitionId(0), from: 0, to: 2 }]);
        let (nodes, replicas) = world(&[&[100, 350, 450], &[300], &[0]]);
        assert_eq!(placing_moves(&nodes, &replicas, &[], &[1, 2], NOW), [], "nine tenths are borne");
    }
}
