//! The group of nodes that hold replicas of a partition.

use crate::throughput::MEMBERS_MAX;

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
