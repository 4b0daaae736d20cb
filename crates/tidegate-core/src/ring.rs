//! The instants behind [`Rolling`]: never more than N units in *any* window.
//!
//! A ring keeps one instant of 4 bytes for each unit charged within the window. Whether there is
//! room is one comparison: of the N newest instants, has the oldest left the window? A refusal
//! therefore reads one cache line and one instant, writes nothing and takes no lock; any number of
//! threads refuse side by side. A charge is made under the ring's own lock.
//!
//! Guarantees, with N the limit passed in the call and W its window:
//!
//! - At no instant `t` are more than N units admitted in `(t - W, t]`, whatever the threads, as
//!   long as N stays. No count is lost.
//! - Instants are rounded up to a tick of at most one nanosecond or a 2^30th of W, so a unit leaves
//!   the window never early, and late by less than that tick.
//! - Time does not go back: a `now` earlier than the last charge counts as the instant of that
//!   charge. A jump ahead frees at most what one window holds.
//! - N is no part of the ring: raised, it admits the difference at once; lowered, it refuses until
//!   enough has left, and forgets nothing meanwhile. A changed window applies at once to every unit
//!   that is still recorded; a longer one cannot bring back units that were dropped because they
//!   had left the shorter one.
//! - Refused is unchanged. A charge that is undone before anything else happened leaves the ring as
//!   it was.
//!
//! Why a lock: the lock-free ring this grew from loses counts under contention, and a repaired one
//! that does not pays two contended cache lines for each charge, 400 to 490 ns with two threads
//! where a lock costs 158 ns. Refusals must not contend, since a flood consists of refusals.
//!
//! How: a ring is a header of one cache line (`ring/header.rs`: a sequence lock), and a range in a
//! slab of instants (`ring/arena.rs`). Ranges grow by doubling and shrink when a lowered limit
//! leaves them mostly empty. Headers and slab are never freed while [`Rings`] lives, only reused; a
//! [`RingHandle`] names the use as well as the place.

mod arena;
mod entries;
mod header;
pub(crate) mod segments;
mod space;
mod ticks;

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod published;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::num::NonZeroU64;

use self::entries::{Entries, VisibleEntries};
use self::header::{HeaderRecord, HeaderWriter, RingWindow, Span};
use self::segments::Handle;
use self::space::Space;
use self::ticks::{SPAN_TICKS_MAX, Ticks};
use crate::algorithm::{Rolling, Verdict};
use crate::cost::Cost;
use crate::shares::Owner;
use crate::sync::{Ordering, fence};
use crate::time::Timestamp;

/// How many times its own size a limit may be in debt after reports: a ring keeps at most twice the
/// limit.
pub const RING_DEBT_LIMITS: u64 = 1;

/// The instants a ring has room for at first; most keys never need more.
const CAPACITY_FIRST: u64 = 8;

/// A range this many times larger than what is needed is exchanged for a smaller one.
const SHRINK_FACTOR: u64 = 4;

/// Marks the stamp of a charge whose undoing takes up again instants that are outside of the ring's
/// span.
const STAMP_REACHES_BACK: u64 = 1;

/// A stamp no change ever leaves.
const STAMP_NONE: u64 = u64::MAX;

/// All rings of one key table, within a number of bytes.
///
/// Memory is taken from the system as rings need it and kept for reuse until the `Rings` are
/// dropped.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::{Rolling, Verdict};
/// # use tidegate_core::{Cost, Timestamp, ring::RingRefusal, ring::Rings};
/// let rings = Rings::new(1 << 20);
/// let ring = rings.create().expect("the budget has room for a ring");
/// let rolling = Rolling::new(1, Duration::from_secs(10))?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// assert!(rings.admit(ring, &rolling, Cost::ONE, now).is_ok());
/// let until = now.saturating_add(Duration::from_secs(10));
/// let refused = RingRefusal::Verdict(Verdict::Wait { until });
/// assert_eq!(rings.admit(ring, &rolling, Cost::ONE, now), Err(refused));
/// # Ok::<(), tidegate_core::AlgorithmError>(())
/// ```
#[derive(Debug)]
pub struct Rings {
    space: Space,
}

/// Names one ring of a [`Rings`], until it is reclaimed; afterwards it is stale and every call says
/// so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RingHandle(Handle);

impl RingHandle {
    /// The handle in one word that is never zero, for storing.
    pub const fn to_bits(self) -> NonZeroU64 {
        self.0.to_bits()
    }

    /// The handle with these bits; `None` if no handle has them. Bits that no [`Rings`] gave out
    /// make a stale handle or name the ring of another key, as a pointer would.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match Handle::from_bits(bits) {
            Some(handle) => Some(Self(handle)),
            None => None,
        }
    }
}

/// A charge that was made, as [`Rings::undo`] needs it. Undo it at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCharge {
    at: u64,
    units: u32,
    ticks: Ticks,
    /// The stamp that the charge left.
    stamp: u64,
    /// The state before the charge.
    before: ReplacedSpan,
}

/// The state that undoing a charge restores if no other charge came after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplacedSpan {
    span: Span,
    last: u64,
    stamp: u64,
}

impl RingCharge {
    /// The instant the units count from: `now` of the charge, or the instant of an earlier charge
    /// if that was later.
    pub const fn at(&self) -> Timestamp {
        Timestamp::from_nanos(self.at)
    }

    /// The units charged: the cost if admitted; after [`Rings::charge`] possibly fewer, down to 0.
    pub const fn units(&self) -> u64 {
        self.units as u64
    }
}

/// Why nothing was charged; the ring is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingRefusal {
    /// There is no room: [`Verdict::Wait`] or [`Verdict::Never`].
    Verdict(Verdict),
    /// The ring was reclaimed.
    Stale,
    /// There is room, but the byte budget has none for the instants.
    Full,
}

impl Rings {
    /// Rings that together take at most `bytes` bytes, and one part in ten thousand for finding
    /// them. An unused budget costs nothing. Half of it may go into headers of 112 bytes a ring; 0
    /// creates no ring.
    pub fn new(bytes: usize) -> Self {
        Self { space: Space::new(bytes) }
    }

    /// The byte budget.
    pub fn bytes(&self) -> usize {
        self.space.bytes()
    }

    /// Bytes in use by rings that were not reclaimed; at most [`Rings::bytes`].
    pub fn bytes_used(&self) -> usize {
        self.space.bytes_used()
    }

    /// Divides the budget among so many namespaces that have rings. Until then one may use all of
    /// it.
    pub(crate) fn divide(&self, owners: usize) {
        self.space.divide(owners);
    }

    /// A new ring that was never charged; `None` if the budget is used up.
    pub fn create(&self) -> Option<RingHandle> {
        self.create_for(Owner::NONE)
    }

    /// The same for a namespace; `None` also if its share of the budget is used up.
    pub fn create_for(&self, owner: Owner) -> Option<RingHandle> {
        let (index, header) = self.space.take_header(owner)?;
        // No handle of this generation exists yet, so it stays.
        let (generation, _) = header.read(|record| record.generation);
        Handle::new(index, generation).map(RingHandle)
    }

    /// Whether `cost` is admitted at `now`, without charging it; `None` if the handle is stale.
    ///
    /// Writes nothing and takes no lock, unless a charge to the same ring was suspended half way.
    #[inline]
    pub fn decide(&self, ring: RingHandle, rolling: &Rolling, cost: Cost, now: Timestamp) -> Option<Verdict> {
        let header = self.space.header(ring.0.index())?;
        header.read(|record| judge(ring, record, self.entries(record), rolling, cost, now)).0
    }

    /// Charges `cost`, all of it or nothing, if it is admitted at `now`. A refusal writes nothing
    /// and takes no lock, as [`Rings::decide`].
    #[inline]
    pub fn admit(
        &self,
        ring: RingHandle,
        rolling: &Rolling,
        cost: Cost,
        now: Timestamp,
    ) -> Result<RingCharge, RingRefusal> {
        let header = self.space.header(ring.0.index()).ok_or(RingRefusal::Stale)?;
        let (verdict, sequence) =
            header.read(|record| judge(ring, record, self.entries(record), rolling, cost, now));
        match verdict {
            Some(Verdict::Admit) => {}
            Some(verdict) => return Err(RingRefusal::Verdict(verdict)),
            None => return Err(RingRefusal::Stale),
        }
        let Some(writer) = header.lock_at(sequence) else {
            return self.admit_in_turn(header.lock(), ring, rolling, cost, now);
        };
        let entries = self.entries(writer.record());
        // Admitted costs are at most the limit, which fits.
        self.push(writer, ring, entries, rolling, cost.units() as u32, now)
    }

    /// Decides again under the lock, since another charge came in between.
    #[inline(never)]
    fn admit_in_turn(
        &self,
        writer: HeaderWriter<'_>,
        ring: RingHandle,
        rolling: &Rolling,
        cost: Cost,
        now: Timestamp,
    ) -> Result<RingCharge, RingRefusal> {
        let record = writer.record();
        let entries = self.entries(record);
        match judge(ring, record, entries, rolling, cost, now) {
            Some(Verdict::Admit) => self.push(writer, ring, entries, rolling, cost.units() as u32, now),
            Some(verdict) => {
                writer.leave_unchanged();
                Err(RingRefusal::Verdict(verdict))
            }
            None => {
                writer.leave_unchanged();
                Err(RingRefusal::Stale)
            }
        }
    }

    /// Charges `cost` at `now` whether or not there is room, as for work that is already done. At
    /// most [`RING_DEBT_LIMITS`] further limits are booked; [`RingCharge::units`] says how much
    /// was.
    pub fn charge(
        &self,
        ring: RingHandle,
        rolling: &Rolling,
        cost: Cost,
        now: Timestamp,
    ) -> Result<RingCharge, RingRefusal> {
        let (writer, record) = self.write(ring).ok_or(RingRefusal::Stale)?;
        let entries = self.entries(record);
        let used = u64::from(entries.through(window(rolling)).used(now));
        let room = (rolling.limit() * (1 + RING_DEBT_LIMITS)).saturating_sub(used);
        let units = cost.units().min(room) as u32;
        if units == 0 {
            let before = ReplacedSpan { span: record.span, last: record.last, stamp: STAMP_NONE };
            return Ok(RingCharge {
                at: now.as_nanos(),
                units,
                ticks: record.ticks,
                stamp: STAMP_NONE,
                before,
            });
        }
        self.push(writer, ring, entries, rolling, units, now)
    }

    /// Takes the units of `charge` out again; whether all of them were still there.
    ///
    /// If nothing came after the charge, every later call answers as if it had not been made.
    /// Otherwise exactly its units go, the later ones stay, and time still does not go back behind
    /// the last charge.
    pub fn undo(&self, ring: RingHandle, charge: &RingCharge, _now: Timestamp) -> bool {
        if charge.units == 0 {
            return true;
        }
        let Some((mut writer, record)) = self.write(ring) else { return false };
        if writer.stamp() == charge.stamp {
            writer.set_span(charge.before.span);
            writer.set_last(charge.before.last);
            writer.set_stamp(charge.before.stamp);
            return true;
        }
        let entries = self.entries(record);
        let tick = record.ticks.up(charge.at);
        let from = entries.first_at_or_after(tick);
        let to = if record.ticks == charge.ticks {
            entries.first_at_or_after(tick + 1)
        } else {
            // The window was changed since and the instant may have been rounded differently.
            record.span.len
        };
        let count = (to - from).min(charge.units);
        self.cut_out(&mut writer, record, from, count);
        // A later charge could restore the removed instants when it is undone. The new stamp
        // prevents that.
        writer.set_stamp(writer.fresh_stamp());
        count == charge.units
    }

    /// Takes the newest `cost` units out, at most those used at `now`; whether any were.
    pub fn refund(&self, ring: RingHandle, rolling: &Rolling, cost: Cost, now: Timestamp) -> bool {
        let Some((mut writer, record)) = self.write(ring) else { return false };
        let used = self.entries(record).through(window(rolling)).used(now);
        let count = cost.units().min(u64::from(used)) as u32;
        self.cut_out(&mut writer, record, record.span.len - count, count);
        count > 0
    }

    /// Counts from `now` on what was charged more than a window ahead of it, as under a clock that
    /// was wrong. Whether anything was.
    pub fn bring_back(&self, ring: RingHandle, rolling: &Rolling, now: Timestamp) -> bool {
        let Some((mut writer, record)) = self.write(ring) else { return false };
        let entries = self.entries(record);
        let window = window(rolling);
        if entries.last() <= now.as_nanos().saturating_add(window.ns) {
            writer.leave_unchanged();
            return false;
        }
        // Those within the window of the last charge are all later than now.
        let expired = entries.through(window).expired(entries.last());
        let tick = record.ticks.up(now.as_nanos());
        for index in expired..entries.len() {
            entries.store(index, tick);
        }
        writer.set_span(record.without_oldest(expired).span);
        writer.set_last(now.as_nanos());
        // No charge from before can restore what it replaced.
        writer.set_stamp(writer.fresh_stamp());
        true
    }

    /// Units used at `now`, above the limit when in debt or when the limit was lowered; `None` if
    /// the handle is stale. O(log n).
    pub fn used(&self, ring: RingHandle, rolling: &Rolling, now: Timestamp) -> Option<u64> {
        self.look(ring, rolling, |seen| u64::from(seen.used(now)))
    }

    /// Units left at `now`; 0 when in debt; `None` if the handle is stale. O(log n).
    pub fn remaining(&self, ring: RingHandle, rolling: &Rolling, now: Timestamp) -> Option<u64> {
        Some(rolling.limit().saturating_sub(self.used(ring, rolling, now)?))
    }

    /// The first instant at which nothing is used any more, if nothing else is charged; `now` if
    /// nothing is; `None` if the handle is stale.
    pub fn reset_at(&self, ring: RingHandle, rolling: &Rolling, now: Timestamp) -> Option<Timestamp> {
        self.look(ring, rolling, |seen| seen.reset_at(now))
    }

    /// Whether from `now` on the ring answers as one that was never charged, under the window of
    /// its last charge. A stale handle is drained.
    pub fn is_drained(&self, ring: RingHandle, now: Timestamp) -> bool {
        let Some(header) = self.space.header(ring.0.index()) else { return true };
        let (drained, _) = header.read(|record| {
            record.generation != ring.0.generation()
                || self.entries(record).through(record.window).is_drained(now)
        });
        drained
    }

    /// Reclaims the ring if it [is drained](Rings::is_drained), so that no charge comes in between;
    /// whether the handle is stale afterwards.
    pub fn reclaim_if_drained(&self, ring: RingHandle, now: Timestamp) -> bool {
        self.reclaim_if(ring, |seen| seen.is_drained(now))
    }

    /// Reclaims the ring with whatever is used, as after losing the race to create it. Does nothing
    /// if the handle is stale.
    pub fn reclaim(&self, ring: RingHandle) {
        self.reclaim_if(ring, |_| true);
    }

    fn reclaim_if(&self, ring: RingHandle, condition: impl Fn(VisibleEntries<'_>) -> bool) -> bool {
        let Some((mut writer, record)) = self.write(ring) else { return true };
        if !condition(self.entries(record).through(record.window)) {
            return false;
        }
        let next = HeaderRecord::empty(ring.0.next_generation());
        writer.set_identity(next.generation, next.ticks);
        writer.set_range(next.range);
        writer.set_span(next.span);
        writer.set_last(next.last);
        writer.set_window(next.window);
        writer.set_stamp(STAMP_NONE);
        drop(writer);
        self.space.give_back(ring.0, record.range);
        true
    }

    /// Returns the result of `look` on the ring; `None` if the handle is stale.
    #[inline]
    fn look<R>(
        &self,
        ring: RingHandle,
        rolling: &Rolling,
        look: impl Fn(VisibleEntries<'_>) -> R,
    ) -> Option<R> {
        let (seen, _) = self.space.header(ring.0.index())?.read(|record| {
            let is_current = record.generation == ring.0.generation();
            is_current.then(|| look(self.entries(record).through(window(rolling))))
        });
        seen
    }

    /// Locks the ring; `None` if the handle is stale.
    fn write(&self, ring: RingHandle) -> Option<(HeaderWriter<'_>, HeaderRecord)> {
        let writer = self.space.header(ring.0.index())?.lock();
        let record = writer.record();
        (record.generation == ring.0.generation()).then_some((writer, record))
    }

    #[inline]
    fn entries(&self, record: HeaderRecord) -> Entries<'_> {
        Entries::new(self.space.slots(record.range), record)
    }

    /// Adds `units` instants at `now`, or at the last charge if that is later, to a locked ring
    /// that has `entries`.
    #[inline]
    fn push(
        &self,
        mut writer: HeaderWriter<'_>,
        ring: RingHandle,
        entries: Entries<'_>,
        rolling: &Rolling,
        units: u32,
        now: Timestamp,
    ) -> Result<RingCharge, RingRefusal> {
        let window = window(rolling);
        let at = entries.clamp(now);
        let surplus = (entries.len() + units).saturating_sub(entries.capacity());
        let is_settled = window == entries.window() && !is_oversized(entries.capacity(), rolling, units);
        let (found, stamp_found) = if is_settled && surplus == 0 {
            (entries, writer.stamp())
        } else if is_settled && surplus <= entries.len() && {
            entries.through(window).has_expired(surplus - 1, entries.last())
        } {
            // These had left the window at the last charge already, so not even undoing that one
            // takes them up again; but undoing an earlier one might.
            (entries.without_oldest(surplus), STAMP_NONE)
        } else {
            (self.entries(self.make_room(&mut writer, ring, rolling, units, at)?), STAMP_NONE)
        };

        // This charge may overwrite instants outside of the span that an undo would restore.
        let stamp_found = if stamp_found & STAMP_REACHES_BACK == 0 { stamp_found } else { STAMP_NONE };
        let before = ReplacedSpan { span: found.span(), last: found.last(), stamp: stamp_found };
        let ticks = found.ticks();
        let tick = ticks.up(at);
        let (mut kept, mut reaches_back) = (found, 0);
        if found.len() > 0 && tick - found.tick(0) > SPAN_TICKS_MAX {
            // Older than two windows, the oldest would be taken for a newer one. They stay where
            // they are, in case this charge is undone.
            kept = found.without_oldest(found.through(window).expired(at));
            reaches_back = STAMP_REACHES_BACK;
        }
        for index in kept.len()..kept.len() + units {
            kept.store(index, tick);
        }
        writer.set_span(Span { len: kept.len() + units, ..kept.span() });
        writer.set_last(at);
        if window != found.window() {
            writer.set_window(window);
        }
        let stamp = writer.fresh_stamp() | reaches_back;
        writer.set_stamp(stamp);
        Ok(RingCharge { at, units, ticks, stamp, before })
    }

    /// Sees to it that `units` more instants of the window of `rolling` fit, without touching any
    /// that count at the last charge or later.
    #[cold]
    #[inline(never)]
    fn make_room(
        &self,
        writer: &mut HeaderWriter<'_>,
        ring: RingHandle,
        rolling: &Rolling,
        units: u32,
        at: u64,
    ) -> Result<HeaderRecord, RingRefusal> {
        let window = window(rolling);
        let mut record = writer.record();
        if window.ticks() != record.ticks {
            record = self.store_anew(writer, record, window);
        }
        let entries = self.entries(record);
        let capacity = u64::from(entries.capacity());
        let expired = entries.through(window).expired(entries.last());
        let needed = u64::from(entries.len() - expired + units);
        // In debt, or with units of a larger limit, twice the limit is the end.
        let settled = settled_capacity(rolling, units);
        let end = if needed > settled { settled + rolling.limit() } else { settled };
        let surplus = (entries.len() + units).saturating_sub(entries.capacity());
        if surplus == 0 {
            let is_mostly_empty = needed <= capacity / SHRINK_FACTOR;
            let smaller = if is_oversized(entries.capacity(), rolling, units) && is_mostly_empty {
                self.move_to(writer, ring, record, expired, needed.max(end.min(2 * needed)))
            } else {
                None
            };
            return Ok(smaller.unwrap_or(record));
        }
        if surplus <= expired {
            return Ok(record.without_oldest(surplus));
        }
        let larger = needed.max(end.min((2 * capacity).max(CAPACITY_FIRST)));
        let moved = self.move_to(writer, ring, record, expired, larger);
        if let Some(moved) = moved.or_else(|| self.move_to(writer, ring, record, expired, needed)) {
            return Ok(moved);
        }
        // The budget is used up. Instants that have left the window by now make room too. If the
        // charge is undone, the ring's time does not step back, so those instants are not needed
        // again.
        let expired = entries.through(window).expired(at);
        if entries.len() - expired + units > entries.capacity() {
            return Err(RingRefusal::Full);
        }
        Ok(HeaderRecord { last: at, ..record.without_oldest(expired) })
    }

    /// Moves the instants, but for the `expired` oldest, to a range of at least `capacity`, if
    /// there is one.
    fn move_to(
        &self,
        writer: &mut HeaderWriter<'_>,
        ring: RingHandle,
        old: HeaderRecord,
        expired: u32,
        capacity: u64,
    ) -> Option<HeaderRecord> {
        let range = self.space.take_range(ring.0.index(), u32::try_from(capacity).ok()?)?;
        // A reader of the ring that had this range before may see what is stored below; it then
        // also sees, through this fence, that its ring has moved on.
        fence(Ordering::Release);
        let new = HeaderRecord { range, span: Span { head: 0, len: old.span.len - expired }, ..old };
        let (from, to) = (self.entries(old), self.entries(new));
        for index in 0..to.len() {
            // No other thread knows the new range yet.
            to.store(index, from.tick(expired + index));
        }
        writer.set_range(new.range);
        writer.set_span(new.span);
        writer.set_stamp(writer.fresh_stamp());
        self.space.give_back_range(ring.0.index(), old.range);
        Some(new)
    }

    /// Stores the instants in the ticks of `window`, leaving out those that have left it.
    fn store_anew(
        &self,
        writer: &mut HeaderWriter<'_>,
        old: HeaderRecord,
        window: RingWindow,
    ) -> HeaderRecord {
        let ticks = window.ticks();
        let entries = self.entries(old);
        let seen = entries.through(window);
        let expired = seen.expired(entries.last());
        let new = HeaderRecord { ticks, ..old.without_oldest(expired) };
        let latest_tick = ticks.up(entries.last());
        for index in expired..entries.len() {
            // No unit was charged after the last charge, so where a finer tick shows that rounding
            // had moved one there, it moves back.
            entries.store(index, ticks.up(seen.instant(index)).min(latest_tick));
        }
        writer.set_identity(new.generation, ticks);
        writer.set_span(new.span);
        writer.set_window(window);
        writer.set_stamp(writer.fresh_stamp());
        HeaderRecord { window, ..new }
    }

    /// Takes `count` instants out, from the `from`th oldest on, and closes the gap from the shorter
    /// side.
    fn cut_out(&self, writer: &mut HeaderWriter<'_>, record: HeaderRecord, from: u32, count: u32) {
        if count == 0 {
            return;
        }
        let entries = self.entries(record);
        let newer = entries.len() - from - count;
        if newer <= from {
            for index in from..from + newer {
                entries.store(index, entries.tick(index + count));
            }
            writer.set_span(Span { len: entries.len() - count, ..record.span });
        } else {
            for index in (0..from).rev() {
                entries.store(index + count, entries.tick(index));
            }
            writer.set_span(record.without_oldest(count).span);
        }
        writer.set_stamp(writer.fresh_stamp());
    }
}

/// Whether `units` are admitted by the ring that has `record`; `None` if it is not the one `ring`
/// names.
#[inline]
fn judge(
    ring: RingHandle,
    record: HeaderRecord,
    entries: Entries<'_>,
    rolling: &Rolling,
    cost: Cost,
    now: Timestamp,
) -> Option<Verdict> {
    let is_current = record.generation == ring.0.generation();
    is_current.then(|| entries.through(window(rolling)).verdict(rolling.limit(), cost.units(), now))
}

/// The window of `rolling`; at most [`crate::algorithm::WINDOW_MAX`], so its nanoseconds fit.
#[inline]
fn window(rolling: &Rolling) -> RingWindow {
    let window = rolling.window();
    RingWindow { ns: window.as_secs() * 1_000_000_000 + u64::from(window.subsec_nanos()) }
}

/// The capacity that a limit and a cost need in the long run: instants that count, and room for the
/// next charge.
fn settled_capacity(rolling: &Rolling, units: u32) -> u64 {
    (rolling.limit() + u64::from(units)).max(CAPACITY_FIRST)
}

/// Whether a range of `capacity` instants is worth exchanging for a smaller one.
fn is_oversized(capacity: u32, rolling: &Rolling, units: u32) -> bool {
    u64::from(capacity) > SHRINK_FACTOR * settled_capacity(rolling, units)
}
