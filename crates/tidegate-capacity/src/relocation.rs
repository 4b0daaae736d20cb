//! Relocation: replicas leave a node that is asked for more than it can do.
//!
//! A node above nine tenths of its units proposes one move at a time. Its cold replicas are tried
//! first, if together they free enough: the keys of the hot one are those that callers wait for.
//! Moves that run count as done. The destination stays below nine tenths, has room for what the
//! replica is promised, and holds no other replica of the partition.

use core::cmp::Reverse;
use core::time::Duration;

use tidegate_core::Timestamp;

use crate::partition_id::PartitionId;
use crate::units::Units;

/// The hundredths of a node's units above which it gives replicas away, and up to which another one
/// takes them.
pub const FULL_PERCENT: i64 = 90;

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
    let mut nodes = nodes.to_vec();
    let mut replicas = replicas.to_vec();
    let mut is_busy = vec![false; nodes.len()];
    for done in running {
        carry_out(done, &mut nodes, &mut replicas);
        (is_busy[done.from], is_busy[done.to]) = (true, true);
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|node| Reverse(use_percent(&nodes[*node], Units::ZERO)));
    let mut moves = Vec::new();
    for from in order {
        if is_busy[from] || use_percent(&nodes[from], Units::ZERO) <= FULL_PERCENT {
            continue;
        }
        if let Some(best) = best_move(from, &nodes, &replicas, &is_busy, now) {
            carry_out(&best, &mut nodes, &mut replicas);
            (is_busy[best.from], is_busy[best.to]) = (true, true);
            moves.push(best);
        }
    }
    moves
}

fn best_move(
    from: usize,
    nodes: &[NodeUse],
    replicas: &[ReplicaUse],
    is_busy: &[bool],
    now: Timestamp,
) -> Option<ReplicaMove> {
    let may_move = |one: &&ReplicaUse| {
        one.node == from && one.moved_at.is_none_or(|moved| now.saturating_since(moved) >= COOLDOWN)
    };
    let mut candidates: Vec<&ReplicaUse> = replicas.iter().filter(may_move).collect();
    candidates.sort_by_key(|one| (one.offered, one.table, one.partition));
    // Without the hottest one, if the others free enough.
    let full = nodes[from].units.as_thousandths() * FULL_PERCENT / 100;
    let excess = nodes[from].offered.as_thousandths() - full;
    if let Some((_, cold)) = candidates.split_last()
        && cold.iter().map(|one| one.offered.as_thousandths()).sum::<i64>() >= excess
    {
        candidates.pop();
    }
    let before = use_percent(&nodes[from], Units::ZERO);
    let mut best: Option<(i64, u64, ReplicaMove)> = None;
    for replica in candidates {
        for (to, node) in nodes.iter().enumerate() {
            let is_taken = replicas.iter().any(|one| {
                one.node == to && (one.table, one.partition) == (replica.table, replica.partition)
            });
            let has_room = node.promised + replica.promised <= node.promisable;
            let after_to = use_percent(node, replica.offered);
            if to == from || is_busy[to] || is_taken || !has_room || after_to > FULL_PERCENT {
                continue;
            }
            let after = after_to.max(use_percent(&nodes[from], Units::ZERO - replica.offered));
            if before - after < IMPROVEMENT_PERCENT {
                continue;
            }
            if best.is_none_or(|(least, bytes, _)| (after, replica.bytes) < (least, bytes)) {
                let (table, partition) = (replica.table, replica.partition);
                best = Some((after, replica.bytes, ReplicaMove { table, partition, from, to }));
            }
        }
    }
    best.map(|(.., best)| best)
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
}
