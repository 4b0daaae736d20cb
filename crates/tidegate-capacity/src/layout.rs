//! The partitions of a table in the order of their keys, and how they are cut and joined.
//!
//! The ranges tile the keys by construction: a range ends where the next one begins.

use tidegate_core::Timestamp;

use crate::key_range::{KeyRange, partition_of};
use crate::levels::Share;
use crate::partition::{Directions, Members, Partition};
use crate::partition_id::PartitionId;
use crate::position::{Keyspace, PartitionBy, Position};
use crate::table_config::{TableConfig, TableNumbers};

/// The partitions of a table, and its numbers.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) keyspace: Keyspace,
    /// The configuration in force. Its partitions may have been split and merged since.
    pub(crate) config: TableConfig,
    pub(crate) numbers: TableNumbers,
    /// The first position of each partition, ascending from [`Position::FIRST`].
    firsts: Vec<Position>,
    partitions: Vec<Partition>,
    next_id: u32,
}

impl Layout {
    /// A layout of these partitions in order, each with its first position.
    pub(crate) fn new(
        config: TableConfig,
        numbers: TableNumbers,
        parts: impl IntoIterator<Item = (Position, Members, Directions)>,
    ) -> Self {
        let keyspace = Keyspace { by: config.partition_by, prefix: config.key_prefix.as_slice().into() };
        let (firsts, partitions) = (Vec::new(), Vec::new());
        let mut layout = Self { keyspace, config, numbers, firsts, partitions, next_id: 0 };
        for (first, members, directions) in parts {
            let id = layout.next_id();
            layout.firsts.push(first);
            layout.partitions.push(Partition::new(id, members, directions));
        }
        debug_assert!(layout.firsts[0] == Position::FIRST && layout.firsts.is_sorted());
        layout
    }

    /// Whether a table of this configuration has its keys in the same order.
    pub(crate) fn has_order_of(&self, config: &TableConfig) -> bool {
        self.config.partition_by == config.partition_by && self.config.key_prefix == config.key_prefix
    }

    const fn next_id(&mut self) -> PartitionId {
        let id = PartitionId(self.next_id);
        // A split every millisecond for 49 days; a table is split every ten seconds at most.
        self.next_id = self.next_id.checked_add(1).expect("fewer than 2^32 splits");
        id
    }

    /// The index of the partition that holds `position`.
    #[inline]
    pub(crate) fn find(&self, position: Position) -> usize {
        let count = self.firsts.len();
        if matches!(self.keyspace.by, PartitionBy::Hash) {
            // Right at once as long as nothing was split.
            let guess = partition_of(position.first_word(), count as u32) as usize;
            let is_before_end = self.firsts.get(guess + 1).is_none_or(|next| position < *next);
            if self.firsts[guess] <= position && is_before_end {
                return guess;
            }
        }
        // At least one, since the first range begins with the first position.
        self.firsts.partition_point(|first| *first <= position) - 1
    }

    /// The index of the partition with this number; `None` if it was split or merged.
    pub(crate) fn index_of(&self, id: PartitionId) -> Option<usize> {
        // Where it is as long as nothing was split.
        let guess = id.0 as usize;
        if self.partitions.get(guess).is_some_and(|partition| partition.id == id) {
            return Some(guess);
        }
        self.partitions.iter().position(|partition| partition.id == id)
    }

    #[inline]
    pub(crate) fn partition(&self, index: usize) -> &Partition {
        &self.partitions[index]
    }

    pub(crate) fn partition_mut(&mut self, index: usize) -> &mut Partition {
        &mut self.partitions[index]
    }

    pub(crate) fn partitions(&self) -> impl ExactSizeIterator<Item = &Partition> + Clone {
        self.partitions.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }

    pub(crate) fn range(&self, index: usize) -> KeyRange {
        KeyRange { by: self.keyspace.by, first: self.firsts[index], end: self.firsts.get(index + 1).copied() }
    }

    /// Cuts a partition before `at`, which lies in it and is not its first position. The left part
    /// gets these shares of reads and writes. Both parts are new partitions on the same nodes.
    pub(crate) fn split(
        &mut self,
        index: usize,
        at: Position,
        read: Share,
        write: Share,
        now: Timestamp,
    ) -> [PartitionId; 2] {
        debug_assert!(self.range(index).contains(at) && self.firsts[index] != at);
        let directions = self.partitions[index].lock().clone();
        let [left_read, right_read] = directions.read.cut(read, now);
        let [left_write, right_write] = directions.write.cut(write, now);
        let left = Directions { read: left_read, write: left_write };
        let right = Directions { read: right_read, write: right_write };
        let ids = [self.next_id(), self.next_id()];
        let parent = &self.partitions[index];
        let [left, right] = [(ids[0], left), (ids[1], right)].map(|(id, directions)| {
            Partition::made_of(id, parent.members, directions, parent.gated_until, now)
        });
        self.partitions[index] = left;
        self.partitions.insert(index + 1, right);
        self.firsts.insert(index + 1, at);
        ids
    }

    /// Joins a partition and the one behind it. The new partition lies on the nodes of the left.
    pub(crate) fn merge(&mut self, index: usize, now: Timestamp) -> PartitionId {
        let right = self.partitions.remove(index + 1);
        self.firsts.remove(index + 1);
        let id = self.next_id();
        let left = &self.partitions[index];
        let (mine, other) = (left.lock().clone(), right.lock().clone());
        let directions = Directions {
            read: mine.read.joined(other.read, now),
            write: mine.write.joined(other.write, now),
        };
        let gated_until = left.gated_until.max(right.gated_until);
        self.partitions[index] = Partition::made_of(id, left.members, directions, gated_until, now);
        id
    }
}
