//! The division of a bounded table among namespaces: no namespace can take the places that another
//! one is entitled to.
//!
//! Half of the places of a table are guaranteed, in equal shares, to the namespaces that use it.
//! The other half, the pool, goes to the first namespace that asks. So with C places and N
//! namespaces:
//!
//! - A namespace that holds fewer than `C / 2N` places always gets another one, whatever the others
//!   do.
//! - One namespace holds at most `C / 2 + C / 2N` places, and a namespace that is alone holds all
//!   of them.
//! - Places beyond a share are not taken away again: they come back when their states end.
//!
//! A namespace that joins makes the shares of all smaller. Places that others held before then stay
//! with them, so the guarantee of the newcomer counts from the instant at which they have come
//! back.
//!
//! [`Namespaces`] gives each namespace its [`Owner`] number, [`Shares`] counts the places of one
//! table. Taking and giving back a place is one addition to a counter of the owner, and one to the
//! pool's only beyond the share.

mod pool;

#[cfg(test)]
#[cfg(tidegate_loom)]
mod loom;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::fmt;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};

use portable_atomic::{AtomicBool, AtomicU64, Ordering};

use self::pool::Pool;
use crate::ring::segments::Segments;

/// The number of a namespace that holds places of shared tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(u16);

impl Owner {
    /// The owner of the places of all namespaces that no policy has.
    pub const NONE: Self = Self(0);

    /// The most owners with numbers of their own. All namespaces beyond it share one number.
    pub const MAX: usize = u16::MAX as usize;

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The namespaces that hold places of the tables of one process, each with its number.
///
/// A number is never reused: places may belong to a namespace that a policy does not have any more.
/// A request may name a namespace that no policy has, with a limit of its own; all of those are one
/// owner, [`Owner::NONE`].
#[derive(Debug)]
pub struct Namespaces {
    numbers: RwLock<HashMap<Box<str>, Owner, ahash::RandomState>>,
    /// Whether [`Owner::NONE`] was ever returned to a request. Relaxed: it guards no other data.
    has_unnamed: AtomicBool,
}

impl Namespaces {
    /// No namespace yet.
    pub fn new(seed: u64) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed, 7, 8, 9);
        Self { numbers: RwLock::new(HashMap::with_hasher(hasher)), has_unnamed: AtomicBool::new(false) }
    }

    /// The number of a namespace, a new one at its first mention; the last one when [`Owner::MAX`]
    /// are in use.
    pub fn owner(&self, namespace: &str) -> Owner {
        // Every change is one insertion, so a panic elsewhere leaves the map whole.
        let known = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = known.get(namespace) {
            return *owner;
        }
        drop(known);
        let mut known = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        let next = Owner(u16::try_from(known.len() + 1).unwrap_or(u16::MAX));
        if next.0 == u16::MAX {
            return next;
        }
        *known.entry(namespace.into()).or_insert(next)
    }

    /// The number of a namespace, if it has one.
    pub fn known(&self, namespace: &str) -> Option<Owner> {
        self.numbers.read().unwrap_or_else(PoisonError::into_inner).get(namespace).copied()
    }

    /// The number of a namespace that a request names; [`Owner::NONE`], and one owner more, if it
    /// has none.
    pub fn find(&self, namespace: &str) -> Owner {
        self.known(namespace).unwrap_or_else(|| {
            if !self.has_unnamed.load(Ordering::Relaxed) {
                self.has_unnamed.store(true, Ordering::Relaxed);
            }
            Owner::NONE
        })
    }

    /// How many owners there are: the namespaces, and one for all others once there is one.
    pub fn owners(&self) -> usize {
        let named = self.numbers.read().unwrap_or_else(PoisonError::into_inner).len();
        named + usize::from(self.has_unnamed.load(Ordering::Relaxed))
    }
}

/// Owners whose counters come into being together, as a power of two.
const SEGMENT_BITS: u32 = 6;

/// How many places of one table each namespace holds.
///
/// Its atomics are not `crate::sync`'s: nothing is published through them, so they add no
/// interleaving that could change an answer. `shares/loom.rs` explores them by themselves.
///
/// ```
/// # use tidegate_core::shares::{Namespaces, Shares};
/// let namespaces = Namespaces::new(7);
/// let (orders, search) = (namespaces.owner("orders"), namespaces.owner("search"));
/// let shares = Shares::new(100);
/// shares.divide(2);
/// assert_eq!(shares.guaranteed(), 25);
/// // One namespace may have its own share and the pool, and never the share of another.
/// assert!(shares.take(orders, 75) && !shares.take(orders, 1));
/// assert!(shares.take(search, 25));
/// ```
pub struct Shares {
    pool: Pool<AtomicU64>,
    held: Segments<AtomicU64, SEGMENT_BITS>,
    /// Serialises [`Shares::divide`].
    dividing: Mutex<()>,
}

impl Shares {
    /// `places` free places. Until they are [divided](Shares::divide), all of them are the pool's.
    pub fn new(places: u64) -> Self {
        Self { pool: Pool::new(places), held: Segments::new(Owner::MAX + 1), dividing: Mutex::new(()) }
    }

    /// All places.
    pub fn places(&self) -> u64 {
        self.pool.places
    }

    /// The places that each namespace is entitled to.
    pub fn guaranteed(&self) -> u64 {
        self.pool.guaranteed()
    }

    /// Whether the places are divided: by more than one owner.
    pub fn is_divided(&self) -> bool {
        self.guaranteed() > 0
    }

    /// Divides half of the places among `owners`, or nothing if there is only one; nothing changes
    /// if the shares stay the same.
    pub fn divide(&self, owners: usize) {
        let _only_me = self.dividing.lock().unwrap_or_else(PoisonError::into_inner);
        // Counters are made here, so that taking a place allocates nothing.
        let last = Owner(u16::try_from(owners).unwrap_or(u16::MAX));
        (0..=last.0).step_by(1 << SEGMENT_BITS).for_each(|owner| {
            self.counter(Owner(owner));
        });
        let share = if owners < 2 { 0 } else { self.pool.places / 2 / (owners as u64) };
        let held = (0..=Owner::MAX).step_by(1 << SEGMENT_BITS).flat_map(|first| {
            (first..first + (1 << SEGMENT_BITS)).map_while(|owner| self.held.get(owner as u32))
        });
        self.pool.divide(share, held);
    }

    /// Takes `count` places for `owner`; whether it may have them.
    pub fn take(&self, owner: Owner, count: u64) -> bool {
        self.pool.take(self.counter(owner), count)
    }

    /// Takes `count` places for `owner` if it may have them; while only one owner has any, it may
    /// have as many as the table itself finds.
    pub(crate) fn take_within(&self, owner: Owner, count: u64) -> bool {
        if self.is_divided() {
            return self.take(owner, count);
        }
        self.take_anyway(owner, count);
        true
    }

    /// Takes `count` places for `owner` also where it may not have them, as for states from before
    /// a restart.
    pub fn take_anyway(&self, owner: Owner, count: u64) {
        self.pool.take_anyway(self.counter(owner), count);
    }

    /// Gives `count` places of `owner` back.
    pub fn give_back(&self, owner: Owner, count: u64) {
        self.pool.give_back(self.counter(owner), count);
    }

    /// The places that `owner` holds.
    pub fn held(&self, owner: Owner) -> u64 {
        self.held.get(u32::from(owner.0)).map_or(0, |held| held.load(Ordering::Relaxed))
    }

    /// Whether `owner` holds as many places as its share has, or more.
    pub fn has_used_share(&self, owner: Owner) -> bool {
        self.held(owner) >= self.guaranteed()
    }

    fn counter(&self, owner: Owner) -> &AtomicU64 {
        let index = u32::from(owner.0);
        if let Some(counter) = self.held.get(index) {
            return counter;
        }
        let start = (owner.0 as usize) >> SEGMENT_BITS << SEGMENT_BITS;
        self.held.create(start, 1 << SEGMENT_BITS, || AtomicU64::new(0));
        self.held.get(index).expect("there is a segment for every owner")
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares")
            .field("places", &self.places())
            .field("guaranteed", &self.guaranteed())
            .finish_non_exhaustive()
    }
}
