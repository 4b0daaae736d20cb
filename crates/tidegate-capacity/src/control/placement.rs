//! The seam to the store whose partitions lie on nodes: relocation really moves data there.
//!
//! The plane decides what moves; a driver moves it, and is believed only after it has been asked
//! what is so. A driver may fail, be killed in the middle or report a move that it did not make:
//! the plane changes nothing until the topology shows the replica at its destination.

use tidegate_core::Timestamp;

use crate::layout::key_range::KeyRange;
use crate::layout::partition_id::PartitionId;

/// A move for a driver to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MoveOrder {
    /// The namespace of the table.
    pub namespace: String,
    /// The table.
    pub table: String,
    /// The partition.
    pub partition: PartitionId,
    /// Its keys when the move was planned.
    pub range: KeyRange,
    /// The node that the replica leaves.
    pub from: String,
    /// The node that it goes to.
    pub to: String,
}

impl MoveOrder {
    /// A move of the replica of a partition.
    pub fn new(
        (namespace, table): (&str, &str),
        (partition, range): (PartitionId, KeyRange),
        from: &str,
        to: &str,
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            table: table.to_owned(),
            partition,
            range,
            from: from.to_owned(),
            to: to.to_owned(),
        }
    }
}

/// The progress of a move, as a driver reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveProgress {
    /// It runs. Accesses to the partition are refused until the instant, if there is one.
    Running {
        /// The end of the time for which the keys cannot be served.
        gated_until: Option<Timestamp>,
    },
    /// The replica lies at its destination, if the topology agrees.
    Done,
    /// It failed, and the data lies where it lay.
    Failed,
}

/// The store whose partitions the plane places.
///
/// No method waits: a driver that moves real data starts its work, and answers for it when it is
/// asked.
pub trait PlacementDriver {
    /// The reason for which a driver cannot do what it is asked.
    type Error: core::fmt::Debug + core::fmt::Display;

    /// Starts a move, or goes on with it: the same order may come again after a restart.
    fn start(&mut self, order: &MoveOrder, now: Timestamp) -> Result<MoveProgress, Self::Error>;

    /// The progress of a move that was started.
    fn progress(&mut self, order: &MoveOrder, now: Timestamp) -> Result<MoveProgress, Self::Error>;

    /// Whether the keys of the order lie on `node`, from the store itself and not from memory.
    fn lies_on(&mut self, order: &MoveOrder, node: &str, now: Timestamp) -> Result<bool, Self::Error>;

    /// Gives a move up where that is safe; `false` where it can only go on.
    fn abort(&mut self, order: &MoveOrder, now: Timestamp) -> Result<bool, Self::Error>;
}
