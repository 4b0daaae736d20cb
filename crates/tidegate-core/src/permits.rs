//! The permits behind [`Concurrency`]: at most N held at once, each given back or expired.
//!
//! Guarantees, with N the limit passed in the call:
//!
//! - A permit is handed out only while fewer than N that were handed out have neither been given
//!   back nor expired.
//! - A permit lasts for the `hold` of the call that took it; a changed hold changes later permits
//!   only.
//! - A permit can be released once, also after expiry as long as its place was not reused; a
//!   release never frees the permit of another request.
//! - Time does not go back: a `now` earlier than the last acquisition counts as that one's instant.
//! - N raised, the difference is handed out at once; N lowered, nothing is until enough have come
//!   back.
//!
//! The permits of a key are a search tree ordered by expiry (`permits/expiries.rs`) behind one
//! lock: acquiring, giving back and refusing take O(log n). Expired permits are not swept;
//! acquiring reuses them. A lock is right here, for a permit is taken once a request, and every
//! request writes anyway. The place of a set outlives its key: it is never freed while [`Permits`]
//! lives, only reused, and a [`PermitsHandle`] names the use as well as the place.

mod expiries;

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::num::NonZeroU64;
use core::time::Duration;

use self::expiries::{Expiries, PERMIT_BYTES};
use crate::algorithm::{Concurrency, Verdict};
use crate::ring::segments::{Handle, Places, Segments};
use crate::shares::{Owner, Shares};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::time::{Timestamp, duration_nanos};

/// The bytes of a set without its permits: its place, and its number when it is given back.
const SET_BYTES: usize = 112;

/// The share of the budget that places of sets may take: a half, so that a flood of keys cannot use
/// up the memory that later keys need for their permits.
const SET_SHARE: usize = 2;

/// Places are created 2^9 at a time: 56 KiB of the budget.
const SET_SEGMENT_BITS: u32 = 9;

/// The permits a set has room for at first.
const CAPACITY_FIRST: usize = 4;

/// All sets of permits of one key table, within a number of bytes.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::Concurrency;
/// # use tidegate_core::{Timestamp, permits::Permits};
/// let permits = Permits::new(1 << 20);
/// let set = permits.create().expect("the budget has room for a set");
/// let one = Concurrency::new(1, Duration::from_secs(30))?;
/// let now = Timestamp::from_secs(1_800_000_000);
/// let slot = permits.acquire(set, &one, now).expect("one permit is free");
/// assert!(permits.acquire(set, &one, now).is_err());
/// assert!(permits.release(set, slot, now));
/// assert_eq!(permits.held(set, now), Some(0));
/// # Ok::<(), tidegate_core::AlgorithmError>(())
/// ```
pub struct Permits {
    bytes: usize,
    /// Bytes taken: places that exist, and the capacity of every set. Relaxed: a count that guards
    /// no other data; additions go through [`Permits::take_bytes`], which never passes the budget.
    bytes_taken: AtomicUsize,
    sets: Segments<Mutex<PermitSet>, SET_SEGMENT_BITS>,
    places: Mutex<Places>,
    set_shares: Shares,
    /// Shares of the half of the budget that sets cannot take. Several namespaces share that; one
    /// alone has all that is left.
    permit_shares: Shares,
}

/// The permits of one key.
#[derive(Debug)]
struct PermitSet {
    /// The generation that a handle must name; never 0.
    generation: u32,
    /// The namespace that it belongs to.
    owner: Owner,
    /// The latest instant of an acquisition, in nanoseconds.
    last: u64,
    expiries: Expiries,
}

/// Names one set of a [`Permits`], until it is reclaimed; afterwards it is stale and every call
/// says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermitsHandle(Handle);

impl PermitsHandle {
    /// The handle in one word that is never zero, for storing.
    pub const fn to_bits(self) -> NonZeroU64 {
        self.0.to_bits()
    }

    /// The handle with these bits; `None` if no handle has them. Bits that no [`Permits`] gave out
    /// make a stale handle or name the set of another key, as a pointer would.
    pub const fn from_bits(bits: u64) -> Option<Self> {
        match Handle::from_bits(bits) {
            Some(handle) => Some(Self(handle)),
            None => None,
        }
    }
}

/// A permit that was handed out. Copies name the same permit; the first to be given back counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermitSlot {
    index: u32,
    stamp: u32,
    expires: u64,
}

impl PermitSlot {
    /// The first instant at which the permit no longer counts.
    pub const fn expires(&self) -> Timestamp {
        Timestamp::from_nanos(self.expires)
    }
}

/// Why no permit was handed out; the set is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitsRefusal {
    /// As many are held as there may be: [`Verdict::Wait`], or [`Verdict::Never`] if the limit
    /// is 0.
    Verdict(Verdict),
    /// The set was reclaimed.
    Stale,
    /// The limit has room, but the byte budget has none.
    Full,
}

/// How long a refused caller waits before its first retry, where a permit comes back every
/// `interval`: that long, but at least 10 ms and at most 1 s.
pub fn retry_hint(interval: Duration) -> Duration {
    interval.clamp(Duration::from_millis(10), Duration::from_secs(1))
}

impl Permits {
    /// Sets of permits that together take at most `bytes` bytes, and one part in ten thousand for
    /// finding them. An unused budget costs nothing. Half of it may go into places of 112 bytes a
    /// set; 0 creates no set.
    pub fn new(bytes: usize) -> Self {
        let sets_max = (bytes / SET_SHARE / SET_BYTES).min(u32::MAX as usize);
        Self {
            bytes,
            bytes_taken: AtomicUsize::new(0),
            sets: Segments::new(sets_max),
            places: Mutex::new(Places::default()),
            set_shares: Shares::new(sets_max as u64),
            permit_shares: Shares::new((bytes / SET_SHARE / PERMIT_BYTES) as u64),
        }
    }

    /// Divides the budget among so many namespaces that have permits. Until then one may use all of
    /// it.
    pub(crate) fn divide(&self, owners: usize) {
        self.set_shares.divide(owners);
        self.permit_shares.divide(owners);
    }

    /// The byte budget.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes in use by sets that were not reclaimed; at most [`Permits::bytes`].
    pub fn bytes_used(&self) -> usize {
        let places = lock(&self.places);
        let unused = places.created() - places.in_use();
        self.bytes_taken.load(Ordering::Relaxed).saturating_sub(unused * SET_BYTES)
    }

    /// A new set with no permit handed out; `None` if the budget is used up.
    pub fn create(&self) -> Option<PermitsHandle> {
        self.create_for(Owner::NONE)
    }

    /// The same for a namespace; `None` also if its share of the budget is used up.
    pub fn create_for(&self, owner: Owner) -> Option<PermitsHandle> {
        if !self.set_shares.take_within(owner, 1) {
            return None;
        }
        let Some(index) = lock(&self.places).take(|start| self.create_sets(start)) else {
            self.set_shares.give_back(owner, 1);
            return None;
        };
        let mut set = lock(self.sets.get(index)?);
        set.owner = owner;
        Handle::new(index, set.generation).map(PermitsHandle)
    }

    /// Creates places from `start` on; how many.
    fn create_sets(&self, start: usize) -> usize {
        let left = self.bytes - self.bytes_taken.load(Ordering::Relaxed);
        let more = self.sets.room(start, left / SET_BYTES);
        // Another key may have taken what was left, for its permits, since.
        if !self.take_bytes(more * SET_BYTES) {
            return 0;
        }
        self.sets.create(start, more, || Mutex::new(PermitSet::new()));
        more
    }

    /// Takes `bytes` out of the budget; whether it had them.
    fn take_bytes(&self, bytes: usize) -> bool {
        let mut taken = self.bytes_taken.load(Ordering::Relaxed);
        loop {
            let Some(after) = taken.checked_add(bytes).filter(|&after| after <= self.bytes) else {
                return false;
            };
            match self.bytes_taken.compare_exchange(taken, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => taken = seen,
            }
        }
    }

    fn give_back_bytes(&self, bytes: usize) {
        self.bytes_taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether a permit would be handed out at `now`; if not, until the earliest expiry that makes
    /// room. `None` if the handle is stale. Changes nothing.
    pub fn decide(&self, set: PermitsHandle, concurrency: &Concurrency, now: Timestamp) -> Option<Verdict> {
        self.with(set, |set| set.verdict(concurrency, now))
    }

    /// Takes a permit, if there is one at `now`; it expires `hold` later.
    pub fn acquire(
        &self,
        set: PermitsHandle,
        concurrency: &Concurrency,
        now: Timestamp,
    ) -> Result<PermitSlot, PermitsRefusal> {
        let acquired = self.with(set, |set| match set.verdict(concurrency, now) {
            Verdict::Admit => self.add(set, concurrency, now),
            verdict => Err(PermitsRefusal::Verdict(verdict)),
        });
        acquired.unwrap_or(Err(PermitsRefusal::Stale))
    }

    fn add(
        &self,
        set: &mut PermitSet,
        concurrency: &Concurrency,
        now: Timestamp,
    ) -> Result<PermitSlot, PermitsRefusal> {
        let at = set.clamp(now);
        let expires = at.saturating_add(duration_nanos(concurrency.hold()));
        let permits = &mut set.expiries;
        if permits.nth(0).is_none_or(|first| first > at) {
            if permits.is_full() {
                self.grow(set.owner, permits, concurrency)?;
            }
        } else if permits.max().is_some_and(|last| last <= at) {
            // Everything has expired: start over, with less memory if there was much.
            let freed = permits.clear(CAPACITY_FIRST);
            self.give_back_permits(set.owner, freed);
        } else {
            // Two for one, so that what has expired goes faster than it comes.
            permits.remove_expired(at);
            permits.remove_expired(at);
        }
        let (index, stamp) = permits.insert(expires);
        set.last = at;
        Ok(PermitSlot { index, stamp, expires })
    }

    /// Makes room for another permit below the limit: doubles it up to the limit, or else makes
    /// room for one.
    fn grow(
        &self,
        owner: Owner,
        permits: &mut Expiries,
        concurrency: &Concurrency,
    ) -> Result<(), PermitsRefusal> {
        let capacity = permits.capacity();
        let below_limit = (concurrency.limit() as usize).saturating_sub(capacity).max(1);
        for more in [capacity.max(CAPACITY_FIRST).min(below_limit), 1] {
            if !self.permit_shares.take_within(owner, more as u64) {
                continue;
            }
            if self.take_bytes(more * PERMIT_BYTES) {
                permits.reserve(more);
                return Ok(());
            }
            self.permit_shares.give_back(owner, more as u64);
        }
        Err(PermitsRefusal::Full)
    }

    /// Gives back what permits of `owner` took, in bytes.
    fn give_back_permits(&self, owner: Owner, bytes: usize) {
        self.permit_shares.give_back(owner, (bytes / PERMIT_BYTES) as u64);
        self.give_back_bytes(bytes);
    }

    /// Lets permits that were taken more than a hold ahead of `now`, as under a clock that was
    /// wrong, end a hold from `now`. Whether there were any.
    pub fn bring_back(&self, set: PermitsHandle, concurrency: &Concurrency, now: Timestamp) -> bool {
        let hold = duration_nanos(concurrency.hold());
        let latest = now.as_nanos().saturating_add(hold);
        let brought_back = self.with(set, |set| {
            let lay_ahead = set.expiries.bring_back(latest.saturating_add(hold), latest);
            if lay_ahead {
                set.last = now.as_nanos();
            }
            lay_ahead
        });
        brought_back.unwrap_or(false)
    }

    /// Gives a permit back. `true` the first time, also after its expiry as long as its place was
    /// not reused; `false` if it was given back before, if its place was reused, or if the handle
    /// is stale.
    pub fn release(&self, set: PermitsHandle, permit: PermitSlot, _now: Timestamp) -> bool {
        self.with(set, |set| set.expiries.remove(permit.index, permit.stamp, permit.expires)).unwrap_or(false)
    }

    /// Permits held at `now`, above the limit if it was lowered; `None` if the handle is stale.
    pub fn held(&self, set: PermitsHandle, now: Timestamp) -> Option<u64> {
        self.with(set, |set| u64::from(set.expiries.len() - set.expiries.expired(set.clamp(now))))
    }

    /// The first instant at which no permit is held any more, if none is handed out or given back;
    /// `now` if none is held. `None` if the handle is stale.
    pub fn reset_at(&self, set: PermitsHandle, now: Timestamp) -> Option<Timestamp> {
        self.with(set, |set| match set.expiries.max() {
            Some(expires) if expires > set.clamp(now) => Timestamp::from_nanos(expires),
            _ => now,
        })
    }

    /// The mean time between two permits that come back, estimated from how long the permits that
    /// are held now have been held: twice their median age, divided by their number. A permit of a
    /// crashed caller, which never comes back, hardly moves the median. `None` if none is held or
    /// the handle is stale.
    ///
    /// Twice, because the callers in progress are on average half done: exact where all hold
    /// equally long, and 1.4 times too long where the times are exponentially distributed.
    pub fn release_interval(
        &self,
        set: PermitsHandle,
        concurrency: &Concurrency,
        now: Timestamp,
    ) -> Option<Duration> {
        self.with(set, |set| {
            let at = set.clamp(now);
            let expired = set.expiries.expired(at);
            let held = set.expiries.len() - expired;
            let median = set.expiries.nth(expired + held / 2)?;
            let left = Duration::from_nanos(median.saturating_sub(at));
            Some(concurrency.hold().saturating_sub(left) * 2 / held)
        })?
    }

    /// Whether from `now` on the set answers as one that never handed out a permit. A stale handle
    /// is drained.
    pub fn is_drained(&self, set: PermitsHandle, now: Timestamp) -> bool {
        self.with(set, |set| set.is_drained(now)).unwrap_or(true)
    }

    /// Reclaims the set if it [is drained](Permits::is_drained), so that no acquisition comes in
    /// between; whether the handle is stale afterwards.
    pub fn reclaim_if_drained(&self, set: PermitsHandle, now: Timestamp) -> bool {
        self.reclaim_if(set, |set| set.is_drained(now))
    }

    /// Reclaims the set with whatever is held, as after losing the race to create it. Does nothing
    /// if the handle is stale.
    pub fn reclaim(&self, set: PermitsHandle) {
        self.reclaim_if(set, |_| true);
    }

    fn reclaim_if(&self, handle: PermitsHandle, condition: impl Fn(&PermitSet) -> bool) -> bool {
        let reclaimed = self.with(handle, |set| {
            let is_due = condition(set);
            if is_due {
                let freed = set.expiries.capacity() * PERMIT_BYTES;
                self.give_back_permits(set.owner, freed);
                self.set_shares.give_back(set.owner, 1);
                *set = PermitSet { generation: handle.0.next_generation(), ..PermitSet::new() };
            }
            is_due
        });
        if reclaimed == Some(true) {
            lock(&self.places).give_back(handle.0);
        }
        reclaimed.unwrap_or(true)
    }

    /// Returns the result of `act` on the locked set; `None` if the handle is stale.
    fn with<R>(&self, handle: PermitsHandle, act: impl FnOnce(&mut PermitSet) -> R) -> Option<R> {
        let mut set = lock(self.sets.get(handle.0.index())?);
        (set.generation == handle.0.generation()).then(|| act(&mut set))
    }
}

crate::debug_fields!(Permits { bytes });

impl PermitSet {
    fn new() -> Self {
        Self { generation: 1, owner: Owner::NONE, last: 0, expiries: Expiries::default() }
    }

    /// `now`, or the last acquisition if that is later; never the last instant there is, so that
    /// what lasts until then is held for good.
    fn clamp(&self, now: Timestamp) -> u64 {
        now.as_nanos().min(u64::MAX - 1).max(self.last)
    }

    fn verdict(&self, concurrency: &Concurrency, now: Timestamp) -> Verdict {
        let limit = concurrency.limit();
        if limit == 0 {
            return Verdict::Never { largest: 0 };
        }
        // Of all permits, expired or not, this many must have expired for there to be room: the
        // last of them decides.
        let Some(over) = u64::from(self.expiries.len()).checked_sub(limit) else { return Verdict::Admit };
        match self.expiries.nth(over as u32) {
            Some(expires) if expires > self.clamp(now) => {
                Verdict::Wait { until: Timestamp::from_nanos(expires) }
            }
            _ => Verdict::Admit,
        }
    }

    fn is_drained(&self, now: Timestamp) -> bool {
        let now = now.as_nanos();
        now >= self.last && self.expiries.max().is_none_or(|expires| expires <= now)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
#[test]
fn a_set_costs_what_is_counted_for_it() {
    assert!(
        size_of::<Mutex<PermitSet>>() + size_of::<u32>() * 2 <= SET_BYTES,
        "{}",
        size_of::<Mutex<PermitSet>>()
    );
}
