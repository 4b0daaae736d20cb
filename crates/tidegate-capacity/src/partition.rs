//! A partition: a range of a table's keys with throughput of its own, on the nodes of its group.

use std::sync::PoisonError;

use tidegate_core::Timestamp;

use crate::partition_id::PartitionId;
use crate::sync::{Mutex, MutexGuard};
use crate::throughput::{MEMBERS_MAX, Throughput};

/// The nodes that hold replicas of a partition, by their numbers; the leader first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    nodes: [u32; MEMBERS_MAX],
    count: u8,
}

impl Members {
    /// The first [`MEMBERS_MAX`] of `nodes`, at least one.
    pub(crate) fn new(nodes: impl IntoIterator<Item = u32>) -> Self {
        let mut members = Self { nodes: [u32::MAX; MEMBERS_MAX], count: 0 };
        for (place, node) in members.nodes.iter_mut().zip(nodes) {
            *place = node;
            members.count += 1;
        }
        assert!(members.count > 0, "the builder places each partition");
        members
    }

    pub(crate) fn leader(self) -> u32 {
        self.nodes[0]
    }

    pub(crate) fn as_slice(&self) -> &[u32] {
        &self.nodes[..usize::from(self.count)]
    }

    /// With `to` in place of `from`.
    pub(crate) fn replaced(mut self, from: u32, to: u32) -> Self {
        for node in &mut self.nodes[..usize::from(self.count)] {
            if *node == from {
                *node = to;
            }
        }
        self
    }
}

/// Both directions of a partition's throughput.
#[derive(Clone, Debug)]
pub(crate) struct Directions {
    pub(crate) read: Throughput,
    pub(crate) write: Throughput,
}

impl Directions {
    pub(crate) const fn of(&self, is_read: bool) -> &Throughput {
        if is_read { &self.read } else { &self.write }
    }

    #[inline]
    pub(crate) const fn of_mut(&mut self, is_read: bool) -> &mut Throughput {
        if is_read { &mut self.read } else { &mut self.write }
    }

    /// The thousandths a second that the leader is promised, and each other member: reads are
    /// promised at the leader, writes at every member.
    pub(crate) const fn promised(&self) -> [u64; 2] {
        let writes = self.write.rates.allocated;
        [self.read.rates.allocated + writes, writes]
    }
}

/// A partition in force. Aligned so that cores busy with one do not contend for the next.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    pub(crate) members: Members,
    /// Accesses are refused until this instant, while the partition moves.
    pub(crate) gated_until: Option<Timestamp>,
    /// When it was made by a split or a merge; `None` if the table began with it.
    pub(crate) made_at: Option<Timestamp>,
    // A panic while it is locked leaves valid levels: each change is whole.
    directions: Mutex<Directions>,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, members: Members, directions: Directions) -> Self {
        Self { id, members, gated_until: None, made_at: None, directions: Mutex::new(directions) }
    }

    /// A partition that a cut or a join at `now` made of one or two that are refused until
    /// `gated_until`.
    pub(crate) fn made_of(
        id: PartitionId,
        members: Members,
        directions: Directions,
        gated_until: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        Self { gated_until, made_at: Some(now), ..Self::new(id, members, directions) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Directions> {
        self.directions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
