//! Limits that are spent here from leases: what a caller that holds them needs to know.

use core::sync::atomic::Ordering;
use core::time::Duration;

use smallvec::SmallVec;

use super::Gate;
use super::build::Compiled;
use super::decide::reason_of;
use super::elsewhere::CounterPlace;
use crate::algorithm::Algorithm;
use crate::attributes::Attributes;
use crate::limit::{Mode, OnStoreFailure};
use crate::refusal::{Reason, ScopeValues};
use crate::scope::{KeyBytes, Keyed, Values};
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

    /// The limits that match a request and are spent from leases.
    pub fn leased_limits<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        now: Timestamp,
    ) -> SmallVec<[LeasedLimit<'a>; 2]> {
        let mut leased = SmallVec::new();
        if !self.has_leased {
            return leased;
        }
        let mut values = Values::new();
        self.names.read(attributes.into(), &mut values);
        for (index, limit) in self.limits.iter().enumerate() {
            if !limit.is_leased() || !limit.matches(&values) {
                continue;
            }
            let Keyed::On(key) = limit.key(&values) else { continue };
            let (algorithm, spec) = limit.numbers(&values, now);
            leased.push(LeasedLimit {
                index: index as u16,
                name: &limit.limit.name,
                algorithm,
                reason: reason_of(&limit.limit.algorithm),
                is_shadow: limit.limit.mode == Mode::Shadow,
                on_store_failure: limit.limit.on_store_failure,
                block_on_exceed: limit.limit.on_exceed.blocks_for(),
                blocked_until: self.blocked_here(limit, key, now),
                place: CounterPlace { limit: index as u16, key, spec },
            });
        }
        leased
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
    pub fn store_name<'a>(
        &'a self,
        limit: &LeasedLimit<'_>,
        attributes: impl Into<Attributes<'a>>,
    ) -> StoreName<'a> {
        let compiled = &self.limits[usize::from(limit.index)];
        let mut values = Values::new();
        self.names.read(attributes.into(), &mut values);
        StoreName {
            identity: compiled.ledger_identity(),
            key: compiled.scope.key_bytes(&values),
            scope: self.scope_values(&compiled.scope.parts, &values),
        }
    }

    /// Refuses the key of a leased limit until an instant; `false` if there is no room to remember
    /// it.
    pub fn block_leased(&self, limit: &LeasedLimit<'_>, until: Timestamp, now: Timestamp) -> bool {
        self.block_key(&self.limits[usize::from(limit.index)], limit.place.key, until, now).is_ok()
    }
}
