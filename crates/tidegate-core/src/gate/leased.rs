//! Limits that are spent from leases: the data for a caller that holds the leases.

use core::time::Duration;

use smallvec::SmallVec;

use super::Gate;
use super::build::Compiled;
use super::located::LocatedRequest;
use super::probe::reason_of;
use super::store_limits::CounterPlace;
use crate::algorithm::Algorithm;
use crate::limit::{Mode, OnStoreFailure};
use crate::refusal::{Reason, ScopeValues};
use crate::scope::KeyBytes;
use crate::table::{KeyHash, RefundSet};
use crate::time::Timestamp;

/// A limit of a request that is spent from a lease.
///
/// It is made for every request, so it holds nothing that takes an allocation; [`Gate::store_name`]
/// returns the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeasedLimit<'a> {
    /// The position of the limit in the policy.
    pub index: u16,
    /// The name of the limit.
    pub name: &'a str,
    /// Its algorithm, with the numbers for this key.
    pub algorithm: &'a Algorithm,
    /// How long a lease lasts, as [`Limit::lease_period`](crate::Limit::lease_period).
    pub lease_period: Duration,
    /// The reason for which it denies.
    pub reason: Reason,
    /// Whether it is a shadow limit, which refuses nothing.
    pub is_shadow: bool,
    /// The behaviour while the store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// For how long a key that exceeds it is blocked; `None` for not at all.
    pub block_on_exceed: Option<Duration>,
    /// The first instant at which the key is no longer blocked, if it is.
    pub blocked_until: Option<Timestamp>,
    /// The endings of work on which the charge is given back.
    pub refund_on: RefundSet,
    place: CounterPlace,
}

impl LeasedLimit<'_> {
    /// The key as a seeded fingerprint: two keys, also of different limits, share one only by a
    /// collision of 64 bits.
    pub const fn key(&self) -> u64 {
        self.place.key.0
    }

    /// Where the gate's own table would count the key.
    pub const fn place(&self) -> CounterPlace {
        self.place
    }

    /// The spec number of the algorithm: equal algorithms share it.
    pub fn numbers(&self) -> u32 {
        self.place.spec.get()
    }
}

/// The name of a key of a limit in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreName<'a> {
    /// As [`super::ExactLimit::identity`].
    pub identity: &'a [u8],
    /// As [`super::ExactLimit::key`].
    pub key: KeyBytes,
    /// The attributes of the key with their values, for people.
    pub scope: ScopeValues,
}

impl Gate {
    /// Whether any limit is spent from leases.
    #[inline]
    pub const fn has_leased(&self) -> bool {
        self.left_to_store.has_leased()
    }

    /// The limits of a located request that are spent from leases.
    pub fn leased_limits<'a>(
        &'a self,
        located: &LocatedRequest<'a>,
        now: Timestamp,
    ) -> SmallVec<[LeasedLimit<'a>; 2]> {
        let leased = located.in_store.iter().filter_map(|one| {
            let limit = &self.limits[usize::from(one.limit)];
            limit.is_leased().then(|| LeasedLimit {
                index: one.limit,
                name: &limit.limit.name,
                algorithm: one.algorithm,
                lease_period: limit.limit.lease_period,
                reason: reason_of(&limit.limit.algorithm),
                is_shadow: limit.limit.mode == Mode::Shadow,
                on_store_failure: limit.limit.on_store_failure,
                block_on_exceed: limit.limit.blocks_for(),
                blocked_until: self.blocked_here(limit, one.key, now),
                refund_on: limit.refund_on,
                place: CounterPlace { limit: one.limit, key: one.key, spec: one.spec },
            })
        });
        leased.collect()
    }

    /// The end of the block of the key of a leased limit, if it is blocked.
    #[inline]
    pub(super) fn blocked_here(&self, limit: &Compiled, key: KeyHash, now: Timestamp) -> Option<Timestamp> {
        let is_watched = limit.is_leased() && limit.has_blocks();
        if is_watched { self.blocked_until(key, now) } else { None }
    }

    /// The name in a store of the key of a request under one of its [leased
    /// limits](Gate::leased_limits).
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
