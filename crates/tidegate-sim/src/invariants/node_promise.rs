//! I6: the allocations on a node are together at most what the node may promise.

use super::books::{NodeBook, TableBook};
use super::level::{fine, units};

/// Promises of each table to each node, in thousandths a second.
#[derive(Debug, Default)]
pub(super) struct NodePromises {
    by_table: Vec<Vec<i64>>,
    sums: Vec<i64>,
}

impl NodePromises {
    /// After a change of the partitions, rates or nodes of a table.
    pub(super) fn change(&mut self, index: usize, table: &TableBook, nodes: usize) {
        self.sums.resize(nodes.max(self.sums.len()), 0);
        self.by_table.resize_with(self.by_table.len().max(index + 1), Vec::new);
        let promised = &mut self.by_table[index];
        for (sum, before) in self.sums.iter_mut().zip(promised.iter()) {
            *sum -= before;
        }
        promised.clear();
        promised.resize(self.sums.len(), 0);
        for partition in &table.partitions {
            // Reads are promised at the leader, writes at every member.
            let [reads, writes] = [0, 1].map(|direction| partition.directions[direction].levels.rate);
            promised[partition.members.node(0)] += reads;
            for node in partition.members.iter() {
                promised[node] += writes;
            }
        }
        for (sum, now) in self.sums.iter_mut().zip(promised.iter()) {
            *sum += now;
        }
    }

    /// The nodes that are promised more than they may be.
    pub(super) fn check(&self, nodes: &[NodeBook]) -> Option<String> {
        let mut promised = self.sums.iter().zip(nodes).enumerate();
        let (place, (sum, node)) = promised.find(|(_, (sum, node))| **sum > node.promisable)?;
        Some(format!(
            "partitions on the node at place {place} are promised {} units a second; at most {} may be",
            units(fine(*sum)),
            units(fine(node.promisable))
        ))
    }
}
