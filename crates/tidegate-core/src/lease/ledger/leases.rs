//! The leases of one ledger, with cached sums over them.
//!
//! If more members ask for a key than there are places, the asks of the others change no lease.
//! There may be [`HOLDERS_MAX`](crate::lease::HOLDERS_MAX) leases, so their sums are computed when
//! a lease has changed, or has begun or stopped to release, and not for every ask.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, DerefMut};

use super::allocation::Sums;
use super::lease::Lease;

/// The leases in order of their holders. Whatever is changed among them, sums are counted anew.
#[derive(Clone, Default)]
pub(super) struct Leases {
    all: Vec<Lease>,
    /// Made when there are many, and kept then.
    known: Option<Box<CachedSums>>,
}

/// The number of leases from which on sums are cached.
const MANY: usize = 16;

/// Sums at one instant, and how long sums at later instants can be derived from them.
#[derive(Clone, Copy, Debug)]
pub(super) struct CachedSums {
    sums: Sums,
    now_us: u64,
    from_us: u64,
    /// By how much less there is to come with every microsecond, in parts.
    slope: u64,
    /// Before that none of them begins or ends to release.
    steady_us: u64,
    /// When the last of them ends.
    last_us: u64,
    /// Whether any has been changed since.
    is_old: bool,
}

impl Leases {
    /// The sums over all leases at `now_us`, with releases counted from `from_us` on.
    pub(super) fn sums(&self, now_us: u64, from_us: u64) -> Sums {
        match &self.known {
            Some(known) if known.is_of(now_us, from_us) => {
                let sums = known.sums.later((from_us - known.from_us) * known.slope);
                debug_assert_eq!(sums, self.count(now_us, from_us));
                sums
            }
            _ => self.count(now_us, from_us),
        }
    }

    /// The same, to be found with less effort the next time.
    pub(super) fn know_sums(&mut self, now_us: u64, from_us: u64) -> Sums {
        if self.all.len() >= MANY && !self.known.as_ref().is_some_and(|known| known.is_of(now_us, from_us)) {
            let known = self.known_at(now_us, from_us);
            match &mut self.known {
                Some(place) => **place = known,
                none => *none = Some(Box::new(known)),
            }
        }
        self.sums(now_us, from_us)
    }

    /// Puts a lease in its place. Most keys never have more than one at a time, so room is made for
    /// no more at first.
    pub(super) fn add(&mut self, index: usize, lease: Lease) {
        if self.all.capacity() == 0 {
            self.all.reserve_exact(1);
        }
        self.insert(index, lease);
    }

    /// The cached sums at `now_us`, to be [kept](Leases::keep_known) when one lease has changed;
    /// `None` where the leases are few or the cache is stale.
    pub(super) fn known_now(&self, now_us: u64, from_us: u64) -> Option<CachedSums> {
        let known = self.known.as_ref().filter(|known| known.is_of(now_us, from_us))?;
        Some(CachedSums { now_us, from_us, ..**known })
    }

    /// Keeps what was known before the lease at `index` became what it is. `others` are the sums of
    /// all but that one, and `was` is what stood there, if anything.
    pub(super) fn keep_known(
        &mut self,
        mut known: CachedSums,
        others: Sums,
        was: Option<&Lease>,
        index: usize,
    ) {
        let lease = &self.all[index];
        let (now_us, from_us) = (known.now_us, known.from_us);
        known.sums = others.with(lease, now_us, from_us);
        let was_last = was.is_some_and(|was| was.ends_us().1 == known.last_us);
        // Too much to be counted is no sum of anything, and when the last one ends has to be looked
        // for.
        if known.sums.to_come == u64::MAX || (was_last && lease.ends_us().1 < known.last_us) {
            return;
        }
        known.slope -= was.map_or(0, |was| was.slope(from_us));
        known.slope += lease.slope(from_us);
        known.last_us = known.last_us.max(lease.ends_us().1);
        known.steady_us = lease.steady_us(now_us.min(from_us)).min(known.steady_us);
        if let Some(place) = &mut self.known {
            **place = known;
        }
    }

    /// When the last of those ended that have by `now_us`.
    pub(super) fn last_ended_us(&self, now_us: u64) -> Option<u64> {
        match &self.known {
            Some(known) if known.is_of(now_us, now_us) && known.sums.are_all_alive(self.all.len()) => None,
            _ => self.all.iter().map(|lease| lease.ends_us().1).filter(|ends_us| *ends_us <= now_us).max(),
        }
    }

    /// When the last of them ends; the beginning of time without leases.
    pub(super) fn last_us(&self) -> u64 {
        match &self.known {
            Some(known) if !known.is_old => known.last_us,
            _ => self.all.iter().map(|lease| lease.ends_us().1).max().unwrap_or(0),
        }
    }

    /// Bytes on the heap of so many places.
    pub(super) const fn heap_bytes(capacity: usize) -> usize {
        capacity * size_of::<Lease>() + if capacity >= MANY { size_of::<CachedSums>() } else { 0 }
    }

    fn count(&self, now_us: u64, from_us: u64) -> Sums {
        self.all.iter().fold(Sums::default(), |sums, lease| sums.with(lease, now_us, from_us))
    }

    fn known_at(&self, now_us: u64, from_us: u64) -> CachedSums {
        let (mut steady_us, mut last_us, mut slope) = (u64::MAX, 0, 0);
        let mut sums = Sums::default();
        for lease in &self.all {
            sums = sums.with(lease, now_us, from_us);
            slope += lease.slope(from_us);
            last_us = last_us.max(lease.ends_us().1);
            steady_us = steady_us.min(lease.steady_us(now_us.min(from_us)));
        }
        if sums.to_come == u64::MAX {
            // Too much to be counted is no sum of anything.
            steady_us = 0;
        }
        CachedSums { sums, now_us, from_us, slope, steady_us, last_us, is_old: false }
    }
}

impl Lease {
    /// By how much less there is to come of it with every microsecond, in parts.
    fn slope(&self, from_us: u64) -> u64 {
        self.to_come(from_us).saturating_sub(self.to_come(from_us + 1))
    }

    /// When it next begins or ends to release after `from_us`; the end of time if it does not.
    fn steady_us(&self, from_us: u64) -> u64 {
        let (first_us, end_us) = self.ends_us();
        [first_us, end_us].into_iter().filter(|at_us| *at_us > from_us).min().unwrap_or(u64::MAX)
    }
}

impl CachedSums {
    /// Whether it says what the sums of these instants are.
    fn is_of(&self, now_us: u64, from_us: u64) -> bool {
        let is_later = self.now_us <= now_us && self.from_us <= from_us;
        !self.is_old && is_later && now_us.max(from_us) < self.steady_us
    }
}

impl Deref for Leases {
    type Target = Vec<Lease>;

    fn deref(&self) -> &Vec<Lease> {
        &self.all
    }
}

impl DerefMut for Leases {
    fn deref_mut(&mut self) -> &mut Vec<Lease> {
        if let Some(known) = &mut self.known {
            known.is_old = true;
        }
        &mut self.all
    }
}

impl fmt::Debug for Leases {
    /// The leases: what is known of them is no part of what they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

impl PartialEq for Leases {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Leases {}

impl Hash for Leases {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all.hash(state);
    }
}
