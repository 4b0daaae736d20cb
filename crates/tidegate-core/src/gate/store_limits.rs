//! Limits that a store decides or leases: the data that a caller needs to ask the store, and
//! decisions in the gate's own table while the store is unavailable.

use core::time::Duration;

use super::Gate;
use super::build::Compiled;
use super::decide::Decision;
use super::explain::Level;
use super::located::LocatedRequest;
use super::operations::TableFull;
use super::permit::{LimitStatus, Permit};
use super::probe::{LocatedCounter, Probe, Probes, reason_of};
use super::unread_refusal::{RefusalNumbers, ViolatedNumbers};
use crate::algorithm::Algorithm;
use crate::attributes::Attributes;
use crate::cost::Cost;
use crate::limit::{Mode, OnStoreFailure};
use crate::refusal::{Reason, ScopeValues, Violated};
use crate::scope::{KeyBytes, Keyed};
use crate::table::{KeyHash, KeyTable, RefundSet, Spec, SpecId, SpecOwner};
use crate::time::Timestamp;

/// A limit that is decided in a store, or lent by one, with the key of a request under it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExactLimit<'a> {
    /// The position of the limit in the policy.
    pub index: usize,
    /// The name of the limit.
    pub name: &'a str,
    /// Its algorithm, with the numbers for this key.
    pub algorithm: &'a Algorithm,
    /// The identity of the limit on every member and across reloads, as bytes: the name it counts
    /// under, the attributes of its key, its algorithm; not its numbers.
    pub identity: &'a [u8],
    /// The values of its key as bytes that no other tuple of values gives.
    pub key: KeyBytes,
    /// The attributes of its key with their values, for people.
    pub scope: ScopeValues,
    /// The reason for which it denies.
    pub reason: Reason,
    /// Whether it is a shadow limit, which refuses nothing.
    pub is_shadow: bool,
    /// The behaviour while the store does not answer.
    pub on_store_failure: OnStoreFailure,
    /// For how long a key that exceeds it is blocked; `None` for not at all.
    pub block_on_exceed: Option<Duration>,
    /// The endings of work on which the charge is given back.
    pub refund_on: RefundSet,
    /// Where this gate's own table would count it.
    pub place: CounterPlace,
    /// Whether the store has a ledger of the key instead of a counter, because the limit is leased.
    pub is_leased: bool,
    /// How long a lease lasts, as [`Limit::lease_period`](crate::Limit::lease_period).
    pub lease_period: Duration,
    /// Of a leased limit the first instant at which its key is no longer blocked here, if it is;
    /// others are blocked in the store.
    pub blocked_until: Option<Timestamp>,
}

/// The place of one key of one limit in a gate's own table. Valid for the gate that returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterPlace {
    pub(super) limit: u16,
    pub(super) key: KeyHash,
    pub(super) spec: SpecId,
}

impl CounterPlace {
    /// The key as a seeded fingerprint; see [`super::LeasedLimit::key`].
    pub const fn key(self) -> u64 {
        self.key.0
    }
}

/// A limit that this member decides itself, with the key of a request under it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalLimit<'a> {
    /// The name of the limit.
    pub name: &'a str,
    /// As [`ExactLimit::identity`].
    pub identity: &'a [u8],
    /// As [`ExactLimit::key`].
    pub key: KeyBytes,
    /// The attributes of its key with their values as the request has them; those it lacks are left
    /// out.
    pub attributes: Vec<(&'a str, &'a str)>,
    /// The end of the block of the key at this member, if it is blocked.
    pub blocked_until: Option<Timestamp>,
}

/// The answers of some limits to a request, each with its position in the list of places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Located<'a> {
    /// The limits that would refuse it.
    pub violated: Vec<(usize, Violated)>,
    /// The status of the limits that have a counter.
    pub limits: Vec<LimitStatus<'a>>,
}

impl KeyTable {
    /// Resets the counter of a key, by its [fingerprint](CounterPlace::key).
    pub fn forget_key(&self, key: u64, now: Timestamp) {
        self.forget(KeyHash(key), now);
    }

    /// Moves the usage of the bucket of a key, by its [fingerprint](CounterPlace::key), to wherever
    /// `book` books it: `book` is called with units that are used, and once all of them are booked
    /// the counter is empty. Does nothing where nothing is used. An error of `book` leaves the
    /// counter as it is.
    ///
    /// A charge that is made meanwhile is booked as well, or stays in the counter.
    pub fn move_usage<E>(
        &self,
        key: u64,
        now: Timestamp,
        mut book: impl FnMut(Cost) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut booked = 0;
        loop {
            let entry = self.look(KeyHash(key));
            let used = self.used_in_bucket(entry, now);
            if let Some(more) = Cost::new(used.saturating_sub(booked)) {
                book(more)?;
                booked = used;
            }
            // Fails where another thread has charged the key since; its units are booked next.
            if used == 0 || self.clear(entry).is_ok() {
                return Ok(());
            }
        }
    }
}

impl Gate {
    /// The limits with `Consistency::Exact` of a located request, for a caller that asks a store
    /// about them.
    #[inline]
    pub fn exact_limits<'a>(&'a self, located: &LocatedRequest<'a>, now: Timestamp) -> Vec<ExactLimit<'a>> {
        if self.left_to_store.has_exact() {
            self.store_limits(located, now, Compiled::is_exact)
        } else {
            Vec::new()
        }
    }

    /// The limits of a request that a store decides or leases.
    pub fn store_limits_of<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        now: Timestamp,
    ) -> Vec<ExactLimit<'a>> {
        self.store_limits(&self.locate_store_limits(attributes, now), now, |_| true)
    }

    /// The limits of this name that a store decides or leases, with the key of a request under
    /// each, whether or not it applies to the request otherwise.
    pub fn store_limits_named<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        name: &str,
        now: Timestamp,
    ) -> Vec<ExactLimit<'a>> {
        self.store_limits(&self.locate_named_store_limits(attributes, name, now), now, |_| true)
    }

    fn store_limits<'a>(
        &'a self,
        located: &LocatedRequest<'a>,
        now: Timestamp,
        is_meant: impl Fn(&Compiled) -> bool,
    ) -> Vec<ExactLimit<'a>> {
        let limits = located.in_store.iter().map(|one| (one, &self.limits[usize::from(one.limit)]));
        limits
            .filter(|(_, limit)| is_meant(limit))
            .map(|(one, limit)| ExactLimit {
                index: usize::from(one.limit),
                name: &limit.limit.name,
                algorithm: one.algorithm,
                identity: if limit.is_leased() { limit.ledger_identity() } else { limit.identity() },
                key: limit.scope.key_bytes(&located.values),
                scope: self.scope_values(&limit.scope.parts, &located.values),
                reason: reason_of(&limit.limit.algorithm),
                is_shadow: limit.limit.mode == Mode::Shadow,
                on_store_failure: limit.limit.on_store_failure,
                block_on_exceed: limit.limit.blocks_for(),
                refund_on: limit.refund_on,
                place: CounterPlace { limit: one.limit, key: one.key, spec: one.spec },
                is_leased: limit.is_leased(),
                lease_period: limit.limit.lease_period,
                blocked_until: self.blocked_here(limit, one.key, now),
            })
            .collect()
    }

    /// The limits that match a request and are decided here, by this member's own table or by its
    /// leases: all of them, or the one called `limit`, for which the attributes of its key are
    /// enough.
    pub fn local_limits<'a>(
        &'a self,
        attributes: impl Into<Attributes<'a>>,
        limit: Option<&str>,
        now: Timestamp,
    ) -> Vec<LocalLimit<'a>> {
        let values = self.names.values(attributes.into());
        let is_meant = |compiled: &&Compiled| {
            let is_local = !compiled.is_in_store || compiled.is_leased();
            is_local
                && limit.map_or_else(|| compiled.matches(&values), |name| name == compiled.limit.name)
                && matches!(compiled.key(&values), Keyed::On(_))
        };
        let blocked_until = |limit: &Compiled| match limit.key(&values) {
            Keyed::On(key) => self.blocked_until(key, now),
            _ => None,
        };
        let limits = self.limits.iter().filter(is_meant);
        limits
            .map(|limit| LocalLimit {
                name: &limit.limit.name,
                identity: limit.identity(),
                key: limit.scope.key_bytes(&values),
                blocked_until: blocked_until(limit),
                attributes: limit
                    .scope
                    .parts
                    .iter()
                    .filter_map(|part| {
                        let value = values[usize::from(part.attribute)]?;
                        Some((self.names.get(part.attribute), value))
                    })
                    .collect(),
            })
            .collect()
    }

    /// Blocks a key again that was blocked before a restart: that of these attributes under the
    /// limit with this [identity](LocalLimit::identity). `Ok(false)` if there is no such limit any
    /// more.
    pub fn restore_block<'a>(
        &'a self,
        identity: &[u8],
        attributes: impl Into<Attributes<'a>>,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, TableFull> {
        let Some(compiled) = self.limits.iter().find(|limit| limit.identity() == identity) else {
            return Ok(false);
        };
        let values = self.names.values(attributes.into());
        let Keyed::On(key) = compiled.key(&values) else { return Ok(false) };
        self.block_key(compiled, key, until, now).map_err(|until| TableFull { until })?;
        Ok(true)
    }

    /// Where this gate's table counts a key while this member decides alone, by its
    /// [share](Algorithm::alone) of the limit. The place is unchanged when no spec number is free.
    #[must_use]
    pub fn alone(&self, place: CounterPlace, holders: u32, members: u32) -> CounterPlace {
        let Some(whole) = self.algorithm_at(&place) else { return place };
        let share = whole.alone(holders, members);
        if share == *whole {
            return place;
        }
        let owner = SpecOwner::policy(self.owner);
        let Some(pin) = self.table.specs.intern(Spec::Algorithm(share), owner) else { return place };
        let spec = pin.id();
        if self.alone_specs.keep_share(pin) { CounterPlace { spec, ..place } } else { place }
    }

    /// Decides limits that a store should have decided, in this gate's own table and by the numbers
    /// of these places: charges all of them or none, and then returns those that refuse.
    pub fn check_located(
        &self,
        places: &[CounterPlace],
        cost: Cost,
        now: Timestamp,
    ) -> Result<Permit, Vec<(usize, Violated)>> {
        match self.decide(&mut self.probes_at(places), Attributes::default(), cost, now) {
            Decision::Admit(permit) => Ok(permit),
            Decision::Refuse(unread) => Err(self.violated_at(places, unread.numbers())),
        }
    }

    /// The answer of [`Gate::check_located`], without changing anything.
    pub fn peek_located(&self, places: &[CounterPlace], cost: Cost, now: Timestamp) -> Located<'_> {
        let mut probes = self.probes_at(places);
        let mut refused = None;
        self.assess_all(&mut probes, cost, now, |one| RefusalNumbers::add(&mut refused, one, (now, cost)));
        let violated = refused.map_or_else(Vec::new, |numbers| self.violated_at(places, &numbers));
        let limits = probes.iter().filter_map(|probe| self.status(probe, now)).collect();
        Located { violated, limits }
    }

    /// The level of each of these limits in this table, as [`Gate::peek_located`] decides it.
    pub fn levels_located(&self, places: &[CounterPlace], cost: Cost, now: Timestamp) -> Vec<Level> {
        let mut probes = self.probes_at(places);
        self.assess_all(&mut probes, cost, now, |_| ());
        probes.iter().map(|probe| self.level(probe, now)).collect()
    }

    /// Charges limits that a store should have charged whether or not there is room, as
    /// [`Gate::report`], and returns their new status.
    pub fn report_located(
        &self,
        places: &[CounterPlace],
        cost: Cost,
        now: Timestamp,
    ) -> Result<Vec<LimitStatus<'_>>, TableFull> {
        self.report_probes(self.probes_at(places), cost, now)
    }

    pub(super) fn probes_at(&self, places: &[CounterPlace]) -> Probes<'_> {
        let probe = |place: &CounterPlace| {
            let CounterPlace { limit, key, spec } = *place;
            let algorithm = self.algorithm_at(place)?;
            let refund_on = self.limits.get(usize::from(limit))?.refund_on;
            let keyed = Keyed::On(key);
            let located = LocatedCounter { limit, keyed, algorithm, spec, refund_on };
            Some(Probe::unread(located, &self.table))
        };
        places.iter().filter_map(probe).collect()
    }

    /// The algorithm of a place that this gate returned.
    fn algorithm_at(&self, place: &CounterPlace) -> Option<&Algorithm> {
        let limit = self.limits.get(usize::from(place.limit))?;
        self.algorithm_of(limit, place.spec)
    }

    /// The limits that refused, each with the position of its place.
    fn violated_at(&self, places: &[CounterPlace], numbers: &RefusalNumbers) -> Vec<(usize, Violated)> {
        let position = |limit| places.iter().position(|place| place.limit == limit);
        let at_place = |one: &ViolatedNumbers| Some((position(one.limit)?, self.violated(*one, numbers)));
        numbers.violated().filter_map(at_place).collect()
    }
}
