//! A partition: a range of a table's keys with throughput of its own, on the nodes of its group.

use std::sync::PoisonError;

use tidegate_core::Timestamp;

use crate::control::sketch::Sketch;
use crate::layout::key_range::KeyRange;
use crate::layout::members::Members;
use crate::layout::partition_id::PartitionId;
use crate::layout::position::{PartitionBy, Position};
use crate::sync::{Mutex, MutexGuard};
use crate::table_config::TableNumbers;
use crate::throughput::Throughput;

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

/// A slot for a partition. Aligned so that cores busy with one do not contend for the next.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Partition {
    // A panic while it is locked leaves valid levels: each change is whole.
    state: Mutex<PartitionState>,
}

/// A partition of a table.
#[derive(Clone, Debug)]
pub(crate) struct PartitionState {
    /// Whether the slot holds a partition that is in force.
    pub(crate) is_live: bool,
    pub(crate) id: PartitionId,
    pub(crate) range: KeyRange,
    pub(crate) members: Members,
    /// The numbers of its table.
    pub(crate) numbers: TableNumbers,
    /// Accesses are refused until this instant, while the partition moves.
    pub(crate) gated_until: Option<Timestamp>,
    /// When it, or one of the partitions that were joined to it, was last cut off from a neighbour;
    /// `None` if the table began with it.
    pub(crate) made_at: Option<Timestamp>,
    pub(crate) directions: Directions,
    /// The keys of reads and of writes, while they are warm.
    pub(crate) sketches: [Option<Box<Sketch>>; 2],
}

impl PartitionState {
    pub(crate) fn new(
        id: PartitionId,
        range: KeyRange,
        members: Members,
        numbers: TableNumbers,
        directions: Directions,
    ) -> Self {
        Self {
            is_live: true,
            id,
            range,
            members,
            numbers,
            gated_until: None,
            made_at: None,
            directions,
            sketches: [None, None],
        }
    }

    #[inline]
    pub(crate) fn owns(&self, position: Position) -> bool {
        self.is_live && self.range.contains(position)
    }

    /// The end of the move for which accesses are refused at `now`; `None` if they are not.
    #[inline]
    pub(crate) fn gate_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.gated_until.filter(|until| now < *until)
    }
}

impl Partition {
    /// A slot without a partition.
    pub(crate) fn unused(numbers: TableNumbers) -> Self {
        let range = KeyRange { by: PartitionBy::Hash, first: Position::FIRST, end: None };
        let empty = |is_read| Throughput::new(numbers.rates(is_read, 0), Timestamp::from_nanos(0));
        let directions = Directions { read: empty(true), write: empty(false) };
        let state =
            PartitionState::new(PartitionId(u32::MAX), range, Members::new([u32::MAX]), numbers, directions);
        Self { state: Mutex::new(PartitionState { is_live: false, ..state }) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, PartitionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
