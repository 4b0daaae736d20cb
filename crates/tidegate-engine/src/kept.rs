//! Permits kept for callers that settle by name: bounded, expiring, settled at most once.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siphasher::sip128::SipHasher24;
use tidegate_core::shares::{Owner, Shares};
use tidegate_core::{Cost, Timestamp};
use tidegate_overload::OverduePlace;

use crate::permit::{Permit, StoredOperation};
use crate::permit_id::PermitId;
use crate::place::Place;

/// A permit that waits for its caller.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) holds: KeptHolds,
    /// Whether a note about it is in the store.
    pub(crate) is_noted: bool,
    pub(crate) source: KeptSource,
    pub(crate) expires: Timestamp,
    /// The namespace whose share of the places it counts against.
    pub(crate) owner: Owner,
    /// Counts the permits as they are kept.
    pub(crate) number: u64,
}

/// Where a kept permit comes from.
#[derive(Debug)]
pub(crate) enum KeptSource {
    /// It was given by this process, in this namespace.
    Given {
        /// Empty if the gate that gave it is not in force any more.
        namespace: Arc<str>,
        /// The limits of its gate that it was charged to. Not the gate: each change of an override
        /// makes another one, and permits would keep them all.
        limits: Box<[Box<str>]>,
        /// When it was kept.
        at: Timestamp,
    },
    /// It was given before a restart, in this namespace.
    Before(Box<str>),
}

impl KeptSource {
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Given { namespace, .. } => namespace,
            Self::Before(namespace) => namespace,
        }
    }
}

/// The charges that a kept permit holds.
#[derive(Debug)]
pub(crate) enum KeptHolds {
    /// The permit as it was given.
    All(Box<Permit>),
    /// The charges that the store still holds for it after a restart, each of this cost.
    Stored {
        /// The cost that each operation charged.
        cost: Cost,
        /// The charges.
        operations: Vec<StoredOperation>,
    },
}

/// Which kept permits are listed.
#[derive(Clone, Copy, Debug)]
pub struct PermitPage<'a> {
    /// Only those of this namespace.
    pub namespace: Option<&'a str>,
    /// Only those with a higher [number](PermitReport::number); 0 for the first page.
    pub after: u64,
    /// At most so many.
    pub n: usize,
}

/// A kept permit, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermitReport {
    /// Counts the permits as they are kept, from 1.
    pub number: u64,
    /// Its name, which permits to settle it.
    pub id: PermitId,
    /// The namespace of its request; empty if its limits were replaced before it was kept.
    pub namespace: String,
    /// The limits it was charged to; empty for a permit from before a restart.
    pub limits: Vec<String>,
    /// The cost of its request.
    pub cost: Cost,
    /// Since when it is kept; `None` for a permit from before a restart.
    pub kept_at: Option<Timestamp>,
    /// When it expires.
    pub expires: Timestamp,
}

/// All kept permits.
///
/// At most `max` at a time, and of one namespace at most its share of them ([`Shares`]); one more
/// is not kept. A permit leaves its place when it is settled or expires. One that expires is
/// dropped, which gives back what it lent and leaves its charges as they are.
#[derive(Debug)]
pub(crate) struct KeptPermits {
    /// Names are a pseudorandom function of the number of the permit: without its key none follows
    /// from the others.
    names: SipHasher24,
    max: usize,
    shares: Shares,
    held: Mutex<Held>,
    /// Permits that have expired since the last tick and were let go before it. Relaxed: a metric.
    expired: AtomicUsize,
}

#[derive(Debug)]
struct Held {
    issued: u64,
    permits: HashMap<PermitId, Kept, ahash::RandomState>,
    /// When each expires, the next one first.
    expiries: BTreeSet<(Timestamp, u128)>,
}

impl KeptPermits {
    /// At most `max` permits, with names made by `key`. `seed` is for the places of the permits in
    /// memory.
    pub(crate) fn new(max: usize, key: [u64; 2], seed: [u64; 4]) -> Self {
        let names = SipHasher24::new_with_keys(key[0], key[1]);
        let permits =
            HashMap::with_hasher(ahash::RandomState::with_seeds(seed[1], seed[0], seed[3], seed[2]));
        Self {
            names,
            max,
            shares: Shares::new(max as u64),
            held: Mutex::new(Held { issued: 0, permits, expiries: BTreeSet::new() }),
            expired: AtomicUsize::new(0),
        }
    }

    /// Divides the places among so many namespaces.
    pub(crate) fn divide(&self, namespaces: usize) {
        self.shares.divide(namespaces);
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic elsewhere leaves the map whole: every change is one insertion or removal.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn len(&self) -> usize {
        self.held().permits.len()
    }

    /// Keeps a permit of `owner` until `expires`; gives it back if there is no place.
    pub(crate) fn keep(
        &self,
        mut permit: Box<Permit>,
        is_noted: bool,
        source: KeptSource,
        owner: Owner,
        expires: Timestamp,
    ) -> Result<PermitId, Box<Permit>> {
        let mut held = self.held();
        if held.permits.len() >= self.max || !self.shares.take(owner, 1) {
            return Err(permit);
        }
        held.issued += 1;
        let id = PermitId::from_bits(self.names.hash(&held.issued.to_le_bytes()).as_u128());
        let number = held.issued;
        for holds in permit.holds_mut() {
            let admitted = holds.limits.admitted_at();
            if let Some(place) = holds.place_mut() {
                place.await_settlement(id, admitted);
            }
        }
        held.insert(id, Kept { holds: KeptHolds::All(permit), is_noted, source, expires, owner, number });
        Ok(id)
    }

    /// Keeps what the store holds for a permit of that name, also beyond the share of `owner`;
    /// `false` if there are too many.
    pub(crate) fn restore(
        &self,
        id: PermitId,
        source: KeptSource,
        owner: Owner,
        cost: Cost,
        operations: Vec<StoredOperation>,
        expires: Timestamp,
    ) -> bool {
        let mut held = self.held();
        if held.permits.contains_key(&id) {
            return true;
        }
        let has_room = held.permits.len() < self.max;
        if has_room {
            self.shares.take_anyway(owner, 1);
            held.issued += 1;
            let (holds, number) = (KeptHolds::Stored { cost, operations }, held.issued);
            held.insert(id, Kept { holds, is_noted: true, source, expires, owner, number });
        }
        has_room
    }

    /// Takes a permit out: the first time only.
    pub(crate) fn take(&self, id: PermitId) -> Option<Kept> {
        let taken = self.held().remove(id);
        self.give_back_places(taken.as_slice());
        taken
    }

    /// Takes a place out of its permit, which stays: the place expires before the permit does. The
    /// place with the instant of its admission; `None` if it is settled or expired already.
    pub(crate) fn expire_place(&self, overdue: OverduePlace) -> Option<(Place, Timestamp)> {
        let mut held = self.held();
        let kept = held.permits.get_mut(&PermitId::from_bits(overdue.permit))?;
        let KeptHolds::All(permit) = &mut kept.holds else { return None };
        permit.holds_mut().iter_mut().find_map(|holds| {
            let place = holds.place_mut()?.expire(overdue.place)?;
            Some((place, holds.limits.admitted_at()))
        })
    }

    /// Lets go all permits that have expired by `now`. The next tick counts them.
    pub(crate) fn expire(&self, now: Timestamp) {
        let expired = self.take_expired(now);
        if !expired.is_empty() {
            self.expired.fetch_add(expired.len(), Ordering::Relaxed);
        }
    }

    /// Lets go all permits that have expired by `now`; how many have since it was asked last.
    pub(crate) fn count_expired(&self, now: Timestamp) -> usize {
        self.expire(now);
        self.expired.swap(0, Ordering::Relaxed)
    }

    fn take_expired(&self, now: Timestamp) -> Vec<Kept> {
        let mut held = self.held();
        let mut expired = Vec::new();
        while let Some((expires, id)) = held.expiries.first().copied() {
            if expires > now {
                break;
            }
            expired.extend(held.remove(PermitId::from_bits(id)));
        }
        drop(held);
        for kept in &expired {
            if let KeptHolds::All(permit) = &kept.holds {
                permit.settle_places(kept.expires);
            }
        }
        self.give_back_places(&expired);
        expired
    }

    fn give_back_places(&self, left: &[Kept]) {
        for kept in left {
            self.shares.give_back(kept.owner, 1);
        }
    }

    /// The permits of a page as `describe` makes them, and how many there are on all pages.
    pub(crate) fn page<T>(
        &self,
        page: &PermitPage<'_>,
        now: Timestamp,
        describe: impl Fn(PermitId, &Kept) -> T,
    ) -> (Vec<T>, usize) {
        let held = self.held();
        let is_selected = |kept: &Kept| {
            kept.expires > now && page.namespace.is_none_or(|wanted| wanted == kept.source.namespace())
        };
        let (mut total, mut after) = (0, Vec::new());
        for (id, kept) in held.permits.iter().filter(|(_, kept)| is_selected(kept)) {
            total += 1;
            if kept.number > page.after {
                after.push((kept.number, *id));
            }
        }
        after.sort_unstable_by_key(|(number, _)| *number);
        let wanted = after.iter().take(page.n);
        let described = wanted.filter_map(|(_, id)| Some(describe(*id, held.permits.get(id)?)));
        (described.collect(), total)
    }

    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.held().expiries.first().map(|(expires, _)| *expires)
    }
}

impl Held {
    fn insert(&mut self, id: PermitId, kept: Kept) {
        self.expiries.insert((kept.expires, id.to_bits()));
        self.permits.insert(id, kept);
    }

    fn remove(&mut self, id: PermitId) -> Option<Kept> {
        let kept = self.permits.remove(&id)?;
        self.expiries.remove(&(kept.expires, id.to_bits()));
        Some(kept)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_by_the_key_and_by_nothing_else_that_is_shared() {
        let name = |key: [u64; 2], seed: [u64; 4], number: u64| {
            KeptPermits::new(1, key, seed).names.hash(&number.to_le_bytes()).as_u128()
        };
        // The vector of the reference implementation: SipHash-2-4-128 of eight bytes 00 to 07 by
        // the key 00 to 0f.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let expected = u128::from_le_bytes([
            0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14, 0x97, 0xb4,
        ]);
        assert_eq!(name(key, [0; 4], 0x0706_0504_0302_0100), expected);
        assert_eq!(name(key, [1, 2, 3, 4], 7), name(key, [5, 6, 7, 8], 7));
        assert_ne!(name(key, [1, 2, 3, 4], 7), name([key[0], key[1] ^ 1], [1, 2, 3, 4], 7));
    }
}
