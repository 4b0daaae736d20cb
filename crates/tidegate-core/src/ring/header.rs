//! The header of a ring: one cache line with many readers and one writer at a time.
//!
//! It is a sequence lock whose sequence is the lock. A writer makes the sequence odd by a
//! compare-and-swap, changes words, and makes it even again. A reader notes an even sequence, reads
//! what it needs (also instants in the slab), and keeps the result only if the sequence has not
//! moved; it writes nothing, so refusals on many cores share the line without taking it from one
//! another. A reader that wants to write after all swaps the sequence it has read at: if that
//! succeeds, what it has read still holds.
//!
//! Orderings. The swap is `Acquire` and the store that makes the sequence even `Release`: a writer
//! sees what the writers before it did. The swap is followed by a `Release` fence and the words are
//! stored relaxed: a reader that sees any of them (relaxed loads, then an `Acquire` fence)
//! therefore sees the odd sequence too, or a later one, when it looks again. A reader's first load
//! is `Acquire`, so from an even sequence on it sees all words of that change. A range of the slab
//! that was freed and given to another ring is written after the arena's lock was handed over and
//! after another `Release` fence, so a reader that sees such an instant sees that this ring's
//! sequence moved as well.

use super::arena::SlotRange;
use super::ticks::Ticks;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock, yield_now};

/// How often a reader looks again when a writer is in the middle, before it waits its turn as a
/// writer does.
const READ_ATTEMPTS: u32 = if cfg!(tidegate_loom) { 2 } else { 128 };

/// How often the next in turn looks again at once, before it lets others run in between: a writer
/// that is still there by then does not run, or has much to do.
const TURN_SPINS: u32 = if cfg!(tidegate_loom) { 1 } else { 128 };

/// The words of a ring, on a cache line of their own: a neighbour's charges must not slow this
/// ring's refusals.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Header {
    /// Odd while a writer holds the ring; only that writer stores anything here. Never goes back,
    /// also when the header is reused.
    sequence: AtomicU64,
    /// Where those wait who found a writer: one looks for the sequence to become even, the others
    /// sleep.
    turn: Mutex<()>,
    /// Generation (upper half) and tick length.
    identity: AtomicU64,
    /// Range of the slab: start (upper half) and capacity.
    range: AtomicU64,
    span: AtomicU64,
    last: AtomicU64,
    /// Length of the window of the last charge, in nanoseconds.
    window: AtomicU64,
    /// Names the change that left the ring as it is, so that [`super::Rings::undo`] knows when
    /// nothing came after.
    stamp: AtomicU64,
}

/// The parts of a header that a decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeaderRecord {
    /// The generation a handle must name; 0 never.
    pub(super) generation: u32,
    pub(super) ticks: Ticks,
    /// Where in the slab the instants are.
    pub(super) range: SlotRange,
    pub(super) span: Span,
    /// The latest instant charged at, in nanoseconds: time does not go back behind it.
    pub(super) last: u64,
    /// The window of the last charge; none at first.
    pub(super) window: RingWindow,
}

/// A length of time to look back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RingWindow {
    pub(super) ns: u64,
}

impl RingWindow {
    /// The ticks that instants of this window are stored in.
    #[inline]
    pub(super) fn ticks(self) -> Ticks {
        Ticks::from_window(self.ns)
    }
}

/// Which slots of a ring's range hold instants, oldest first and wrapping at the range's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// The slot of the oldest instant.
    pub(super) head: u32,
    /// How many instants there are, expired ones that were not dropped yet among them.
    pub(super) len: u32,
}

impl Span {
    /// The place in a range of `capacity` slots of the `index`th oldest instant, or of the next
    /// free slot.
    #[inline]
    pub(super) fn position(self, index: u32, capacity: u32) -> u32 {
        let position = self.head.wrapping_add(index);
        if position >= capacity { position.wrapping_sub(capacity) } else { position }
    }

    /// Without the `count` oldest instants.
    #[inline]
    pub(super) fn without_oldest(self, count: u32, capacity: u32) -> Self {
        Self { head: self.position(count, capacity), len: self.len - count }
    }
}

impl HeaderRecord {
    /// A ring that was never charged.
    pub(super) fn empty(generation: u32) -> Self {
        let range = SlotRange { start: 0, len: 0 };
        let window = RingWindow::default();
        Self { generation, ticks: window.ticks(), range, span: Span::default(), last: 0, window }
    }

    /// Without the `count` oldest instants.
    #[inline]
    pub(super) fn without_oldest(self, count: u32) -> Self {
        Self { span: self.span.without_oldest(count, self.range.len), ..self }
    }
}

const fn pack(upper: u32, lower: u32) -> u64 {
    (upper as u64) << 32 | lower as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Header {
    pub(super) fn new() -> Self {
        Self {
            sequence: AtomicU64::new(0),
            turn: Mutex::new(()),
            identity: AtomicU64::new(pack(1, 0)),
            range: AtomicU64::new(0),
            span: AtomicU64::new(0),
            last: AtomicU64::new(0),
            window: AtomicU64::new(0),
            stamp: AtomicU64::new(0),
        }
    }

    /// Calls `look` with a record that belongs together and returns what it made of that, with the
    /// sequence it was read at.
    ///
    /// `look` may also be called with words and instants of different changes; what it returns then
    /// is thrown away. It writes nothing and takes no lock, unless after [`READ_ATTEMPTS`] looks
    /// writers were always in the middle: then it waits its turn and keeps them out while it looks.
    #[inline]
    pub(super) fn read<R>(&self, look: impl Fn(HeaderRecord) -> R) -> (R, u64) {
        let mut attempts = 0;
        loop {
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence & 1 == 0 {
                let seen = look(self.record());
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == sequence {
                    return (seen, sequence);
                }
            }
            core::hint::spin_loop();
            attempts += 1;
            if attempts == READ_ATTEMPTS {
                return self.read_alone(look);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn read_alone<R>(&self, look: impl Fn(HeaderRecord) -> R) -> (R, u64) {
        let writer = self.lock();
        let seen = look(self.record());
        (seen, writer.leave_unchanged())
    }

    /// Takes the ring for a change, if nothing has changed since `sequence`.
    #[inline]
    pub(super) fn lock_at(&self, sequence: u64) -> Option<HeaderWriter<'_>> {
        let locked = sequence + 1;
        self.sequence.compare_exchange(sequence, locked, Ordering::Acquire, Ordering::Relaxed).ok()?;
        fence(Ordering::Release);
        Some(HeaderWriter { header: self, sequence })
    }

    /// Takes the ring for a change.
    pub(super) fn lock(&self) -> HeaderWriter<'_> {
        self.try_lock().unwrap_or_else(|| self.lock_in_turn())
    }

    fn try_lock(&self) -> Option<HeaderWriter<'_>> {
        // Relaxed is enough: the exchange confirms it and acquires.
        let sequence = self.sequence.load(Ordering::Relaxed);
        if sequence & 1 == 0 { self.lock_at(sequence) } else { None }
    }

    #[cold]
    fn lock_in_turn(&self) -> HeaderWriter<'_> {
        let _turn = lock(&self.turn);
        let mut spins = 0;
        loop {
            if let Some(writer) = self.try_lock() {
                return writer;
            }
            if spins < TURN_SPINS {
                spins += 1;
                core::hint::spin_loop();
            } else {
                yield_now();
            }
        }
    }

    /// The words as they are; they belong together only for a writer, or if the sequence did not
    /// move.
    #[inline]
    fn record(&self) -> HeaderRecord {
        let (generation, shift) = unpack(self.identity.load(Ordering::Relaxed));
        let (start, capacity) = unpack(self.range.load(Ordering::Relaxed));
        let (head, len) = unpack(self.span.load(Ordering::Relaxed));
        HeaderRecord {
            generation,
            ticks: Ticks::from_shift(shift),
            range: SlotRange { start, len: capacity },
            span: Span { head, len },
            last: self.last.load(Ordering::Relaxed),
            window: RingWindow { ns: self.window.load(Ordering::Relaxed) },
        }
    }
}

/// A ring that is taken for a change; dropping it publishes what was changed.
#[derive(Debug)]
pub(super) struct HeaderWriter<'a> {
    header: &'a Header,
    /// The even sequence before.
    sequence: u64,
}

impl HeaderWriter<'_> {
    /// The ring as it is.
    #[inline]
    pub(super) fn record(&self) -> HeaderRecord {
        self.header.record()
    }

    /// The stamp of the last change.
    #[inline]
    pub(super) fn stamp(&self) -> u64 {
        self.header.stamp.load(Ordering::Relaxed)
    }

    /// A stamp that no earlier change of this header has; even.
    #[inline]
    pub(super) fn fresh_stamp(&self) -> u64 {
        self.sequence + 2
    }

    pub(super) fn set_identity(&mut self, generation: u32, ticks: Ticks) {
        self.header.identity.store(pack(generation, ticks.shift()), Ordering::Relaxed);
    }

    pub(super) fn set_range(&mut self, range: SlotRange) {
        self.header.range.store(pack(range.start, range.len), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn set_span(&mut self, span: Span) {
        self.header.span.store(pack(span.head, span.len), Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn set_last(&mut self, last: u64) {
        self.header.last.store(last, Ordering::Relaxed);
    }

    pub(super) fn set_window(&mut self, window: RingWindow) {
        self.header.window.store(window.ns, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn set_stamp(&mut self, stamp: u64) {
        self.header.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Gives the ring back as it was found; what others have read meanwhile still holds.
    pub(super) fn leave_unchanged(self) -> u64 {
        let (header, sequence) = (self.header, self.sequence);
        core::mem::forget(self);
        header.sequence.store(sequence, Ordering::Release);
        sequence
    }
}

impl Drop for HeaderWriter<'_> {
    #[inline]
    fn drop(&mut self) {
        self.header.sequence.store(self.sequence + 2, Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
#[test]
fn a_header_is_one_cache_line() {
    assert_eq!(size_of::<Header>(), 64);
}
