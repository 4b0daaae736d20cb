//! I5: a request beyond a partition's allocation is admitted only while its node has room for it.
//! I7: a write, only while the node of every required member has.
//!
//! In any span that ends with such a request, everything that the node was charged is at most its
//! rate over the span and the depth of its bucket. Requests on the allocated path are charged
//! whatever is left, and close the way for the others until the node is back in credit.

use super::books::{NodeBook, PartitionBook, PassedBy, TableBook};
use super::level::{LevelSpan, fine, units};

/// I5, by the level of the serving node after a charge.
#[inline]
pub(super) fn check_node(path: PassedBy, node: &NodeBook, after: LevelSpan) -> Option<String> {
    let is_beyond = matches!(path, PassedBy::Burst | PassedBy::Spare);
    (is_beyond && after.most < 0).then(|| {
        format!(
            "a request beyond its partition's allocation brought the node to {} units beyond {} a second; at most \
             {} may be",
            units(fine(node.level.depth) - after.most),
            units(fine(node.level.rate)),
            units(fine(node.level.depth))
        )
    })
}

/// I7, before a write is charged.
pub(super) fn check_members(
    table: &TableBook,
    partition: &PartitionBook,
    nodes: &[NodeBook],
    path: PassedBy,
    cost: i64,
    at: u64,
) -> Option<String> {
    if matches!(path, PassedBy::Allocation | PassedBy::Either) && !table.is_every_write_checked {
        return None;
    }
    let count = partition.members.count();
    // A majority of 1, 2 and 3 members is 1, 2 and 2.
    let required = if table.is_majority_enough { count / 2 } else { count - 1 };
    let has_room = |node: &usize| nodes[*node].level.at(at).most >= fine(cost);
    let leader = partition.members.node(0);
    let followers = partition.members.iter().skip(1);
    if has_room(&leader) && followers.filter(has_room).count() >= required {
        return None;
    }
    let short = partition.members.iter().find(|node| !has_room(node))?;
    Some(format!(
        "partition {} admitted a write of {} units beyond its allocation while the node at place {short} had {} left",
        partition.id,
        units(fine(cost)),
        nodes[short].level.at(at)
    ))
}
