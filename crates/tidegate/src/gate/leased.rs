//! Limits that are spent here from leases: what a caller that holds them needs to know.

use core::sync::atomic::Ordering;
use core::time::Duration;

use smallvec::SmallVec;

use super::Gate;
use super::build::Compiled;
use super::decide::reason_of;
use super::elsewhere::CounterPlace;
use super::located::LocatedRequest;
use crate::algorithm::Algorithm;
use crate::limit::{Mode, OnStoreFailure};
use crate::refusal::{Reason, ScopeValues};
use crate::scope::KeyBytes;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// A limit of a request that is spent from a lease.
///
/// Made for every request, so it holds nothing that takes an allocation; [`Gate::store_name`] says
/// the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeasedLimit<'a> {
    /// The position of the limit in the policy.
    pub index: u16,
    /// The name of the limit.
    pub name: &'a str,
    /// Its algorithm, with the numbers for this key.
    pub algorithm: &'a Algorithm,
    /// The reason for which it denies.
    pub reason: Reason,
    /// Whether it only says what it would refuse.
    pub is_shadow: bool,
    /// What happens while the store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// For how long a key that exceeds it is blocked; `None` for not at all.
    pub block_on_exceed: Option<Duration>,
    /// The first instant at which the key is no longer blocked, if it is.
    pub blocked_until: Option<Timestamp>,
    place: CounterPlace,
}

impl LeasedLimit<'_> {
    /// The key as a seeded fingerprint: two keys, also of different limits, have the same one as
    /// seldom as chance has it.
    pub const fn key(&self) -> u64 {
        self.place.key.0
    }

    /// Where the gate's own table would count the key.
    pub const fn place(&self) -> CounterPlace {
        self.place
    }

    /// A number of the algorithm with these numbers: two that are equal have the same one.
    pub fn numbers(&self) -> u32 {
        self.place.spec.get()
    }
}

/// What a key of a limit is called in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreName<'a> {
    /// As [`super::ExactLimit::identity`].
    pub identity: &'a [u8],
    /// As [`super::ExactLimit::key`].
    pub key: KeyBytes,
    /// The attributes of the key with their values, for people.
    pub scope: ScopeValues<'a>,
}

impl Gate {
    /// Whether any limit is spent from leases.
    #[inline]
    pub const fn has_leased(&self) -> bool {
        self.has_leased
    }

    /// The limits of a located request that are spent from leases.
    pub fn leased_limits<'a>(
        &'a self,
        located: &LocatedRequest<'a>,
        now: Timestamp,
    ) -> SmallVec<[LeasedLimit<'a>; 2]> {
        let leased = located.elsewhere.iter().filter_map(|one| {
            let limit = &self.limits[usize::from(one.limit)];
            limit.is_leased().then(|| LeasedLimit {
                index: one.limit,
                name: &limit.limit.name,
                algorithm: one.algorithm,
                reason: reason_of(&limit.limit.algorithm),
                is_shadow: limit.limit.mode == Mode::Shadow,
                on_store_failure: limit.limit.on_store_failure,
                block_on_exceed: limit.limit.on_exceed.blocks_for(),
                blocked_until: self.blocked_here(limit, one.key, now),
                place: CounterPlace { limit: one.limit, key: one.key, spec: one.spec },
            })
        });
        leased.collect()
    }

    /// Until when the key of a leased limit is blocked, if it is.
    #[inline]
    pub(super) fn blocked_here(&self, limit: &Compiled, key: KeyHash, now: Timestamp) -> Option<Timestamp> {
        // Relaxed: as where limits are decided here.
        let is_watched = limit.is_leased() && limit.has_blocks.load(Ordering::Relaxed);
        if is_watched { self.blocked_until(key, now) } else { None }
    }

    /// What the key of a request under one of its [leased limits](Gate::leased_limits) is called in
    /// a store.
    pub fn store_name<'a>(&'a self, limit: &LeasedLimit<'_>, located: &LocatedRequest<'a>) -> StoreName<'a> {
        let compiled = &self.limits[usize::from(limit.index)];
        StoreName {
            identity: compiled.ledger_identity(),
            key: compiled.scope.key_bytes(&located.values),
            scope: self.scope_values(&compiled.scope.parts, &located.values),
        }
    }

    /// Refuses the key of a leased limit until an instant; `false` if there is no room to remember
    /// it.
    pub fn block_leased(&self, limit: &LeasedLimit<'_>, until: Timestamp, now: Timestamp) -> bool {
        self.block_key(&self.limits[usize::from(limit.index)], limit.place.key, until, now).is_ok()
    }
}
