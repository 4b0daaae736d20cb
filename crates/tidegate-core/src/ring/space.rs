//! The memory of the rings of one table: headers and instants out of one byte budget.
//!
//! Memory is never freed, only reused, so that a reader with an old handle reads an old header and
//! nothing else. Memory is taken when needed, a segment at a time.

use std::sync::OnceLock;

use super::arena::{Arena, GRANULE, SlotRange};
use super::header::Header;
use super::segments::{Handle, Places, Segments};
use crate::shares::{Owner, Shares};
use crate::sync::{AtomicU32, Mutex, lock};

/// The bytes of a ring without its instants: its header, and the entries that freeing it leaves
/// behind, which are its number and a free range in two half-full B-trees.
pub(super) const RING_BYTES: usize = 64 + 48;

/// The bytes of an instant.
pub(super) const INSTANT_BYTES: usize = 4;

/// The share of the budget that headers may take: a half, so that a flood of rings of one instant
/// each cannot use up, as headers, the memory that later rings need for their instants.
const HEADER_SHARE: usize = 2;

/// Headers are created 2^9 at a time: 56 KiB of the budget.
const HEADER_SEGMENT_BITS: u32 = 9;

/// The arena grows by the next 64 KiB of the slab when all its slots are in use.
const SLOTS_AT_A_TIME: usize = 1 << 14;

/// Headers, instants, and who has which.
#[derive(Debug)]
pub(super) struct Space {
    bytes: usize,
    headers: Segments<Header, HEADER_SEGMENT_BITS>,
    slots_max: usize,
    /// As many slots as the budget has bytes for, made when the first is needed. The system backs
    /// written pages with memory, and the arena grows only when it has to.
    slots: OnceLock<Box<[AtomicU32]>>,
    allocations: Mutex<Allocations>,
    header_shares: Shares,
    /// Shares of the half of the budget that headers cannot take. Several namespaces share that;
    /// one alone has all that is left.
    slot_shares: Shares,
}

#[derive(Debug, Default)]
struct Allocations {
    arena: Arena,
    headers: Places,
    /// The namespace of each header that was ever handed out.
    owners: Vec<Owner>,
}

impl Space {
    pub(super) fn new(bytes: usize) -> Self {
        let headers_max = (bytes / HEADER_SHARE / RING_BYTES).min(u32::MAX as usize);
        let slots_max = (bytes / INSTANT_BYTES).min(u32::MAX as usize);
        Self {
            bytes,
            headers: Segments::new(headers_max),
            slots_max,
            slots: OnceLock::new(),
            allocations: Mutex::new(Allocations::default()),
            header_shares: Shares::new(headers_max as u64),
            slot_shares: Shares::new((slots_max / HEADER_SHARE) as u64),
        }
    }

    /// Divides headers and instants among so many namespaces.
    pub(super) fn divide(&self, owners: usize) {
        self.header_shares.divide(owners);
        self.slot_shares.divide(owners);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of rings in use and of their instants.
    pub(super) fn bytes_used(&self) -> usize {
        let allocations = lock(&self.allocations);
        allocations.headers.in_use() * RING_BYTES
            + (allocations.arena.len() - allocations.arena.free()) as usize * INSTANT_BYTES
    }

    /// Bytes not taken from the system yet. A segment of headers that is shorter than it could be
    /// leaves none for another.
    fn bytes_left(&self, allocations: &Allocations) -> usize {
        let taken =
            allocations.headers.created() * RING_BYTES + allocations.arena.len() as usize * INSTANT_BYTES;
        self.bytes.saturating_sub(taken)
    }

    #[inline]
    pub(super) fn header(&self, index: u32) -> Option<&Header> {
        self.headers.get(index)
    }

    /// The slots of `range`; none if it does not lie in the slab.
    #[inline]
    pub(super) fn slots(&self, range: SlotRange) -> &[AtomicU32] {
        let slab = self.slots.get().map_or(&[][..], |slab| slab);
        let start = range.start as usize;
        slab.get(start..start + range.len as usize).unwrap_or_default()
    }

    /// A slab of zeros: zeroed memory from the system, which an optimised build does not touch
    /// here.
    fn slab(&self) -> Box<[AtomicU32]> {
        vec![0; self.slots_max].into_iter().map(AtomicU32::new).collect()
    }

    /// Takes an unused header for a ring of `owner`.
    pub(super) fn take_header(&self, owner: Owner) -> Option<(u32, &Header)> {
        let mut allocations = lock(&self.allocations);
        if !self.header_shares.take_within(owner, 1) {
            return None;
        }
        let affordable = self.bytes_left(&allocations) / RING_BYTES;
        let index = allocations.headers.take(|start| {
            let more = self.headers.room(start, affordable);
            self.headers.create(start, more, Header::new);
            more
        });
        let Some(index) = index else {
            self.header_shares.give_back(owner, 1);
            return None;
        };
        let at = index as usize;
        if allocations.owners.len() <= at {
            allocations.owners.resize(at + 1, Owner::NONE);
        }
        allocations.owners[at] = owner;
        Some((index, self.headers.get(index)?))
    }

    /// Gives back a header together with the range it had.
    pub(super) fn give_back(&self, header: Handle, range: SlotRange) {
        let mut allocations = lock(&self.allocations);
        let owner = allocations.owner(header.index());
        self.slot_shares.give_back(owner, u64::from(range.len));
        self.header_shares.give_back(owner, 1);
        allocations.arena.release(range);
        allocations.headers.give_back(header);
    }

    /// Takes a range of at least `len` instants for the ring with that header, if the budget has
    /// one.
    pub(super) fn take_range(&self, header: u32, len: u32) -> Option<SlotRange> {
        let len = len.checked_next_multiple_of(GRANULE)?;
        let mut allocations = lock(&self.allocations);
        let owner = allocations.owner(header);
        if !self.slot_shares.take_within(owner, u64::from(len)) {
            return None;
        }
        loop {
            if let Some(range) = allocations.arena.allocate(len) {
                return Some(range);
            }
            let left = (self.bytes_left(&allocations) / INSTANT_BYTES)
                .min(self.slots_max - allocations.arena.len() as usize);
            if left == 0 {
                self.slot_shares.give_back(owner, u64::from(len));
                return None;
            }
            self.slots.get_or_init(|| self.slab());
            allocations.arena.extend(left.min(SLOTS_AT_A_TIME) as u32);
        }
    }

    /// Gives back a range of the ring with that header.
    pub(super) fn give_back_range(&self, header: u32, range: SlotRange) {
        let mut allocations = lock(&self.allocations);
        self.slot_shares.give_back(allocations.owner(header), u64::from(range.len));
        allocations.arena.release(range);
    }
}

impl Allocations {
    fn owner(&self, header: u32) -> Owner {
        self.owners.get(header as usize).copied().unwrap_or(Owner::NONE)
    }
}
