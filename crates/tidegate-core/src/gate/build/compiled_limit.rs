//! A limit in the form in which every request is checked against it.

use core::hash::Hasher;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;

use super::compiled_plans::{CompiledPlans, PlanIndex};
use super::error::{GateError, too_many};
use super::limit_check::check_limit;
use super::overrides::{OverrideNumbers, Overrides, RunTimeFacts};
use crate::algorithm::Algorithm;
use crate::gate::probe::LocatedCounter;
use crate::limit::{Condition, Consistency, Limit, Mode};
use crate::matcher::Matcher;
use crate::scope::{Keyed, Names, Part, Scope};
use crate::shares::Owner;
use crate::table::{KeyTable, RefundSet, Spec, SpecId, SpecOwner, SpecPin};
use crate::text::Text;
use crate::time::Timestamp;

/// The suffix of the identity of a limit's ledgers.
const LEDGER: &[u8] = b"\0ledger";

/// The numbers of a limit for the requests of a plan.
#[derive(Debug)]
pub(crate) enum PlanSpec {
    /// Those of the limit.
    Own,
    /// The plan is unlimited.
    Unlimited,
    Numbers(PlanSpecNumbers),
}

#[derive(Debug)]
pub(crate) struct PlanSpecNumbers {
    pub(crate) algorithm: Algorithm,
    pub(crate) spec: SpecId,
    /// Keeps `spec` in use as long as this limit is there.
    _pin: SpecPin,
}

/// A limit ready to be checked.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) limit: Limit,
    /// Its name as refusals own it.
    pub(crate) name: Text,
    /// Its algorithm with the numbers it is decided by, which are a part of the limit's where it is
    /// divided.
    algorithm: Algorithm,
    conditions: Box<[(u16, Matcher)]>,
    pub(crate) scope: Scope,
    pub(crate) spec: SpecId,
    /// Keeps `spec` in use as long as this limit is there.
    _pin: SpecPin,
    overrides: Option<Overrides>,
    /// Its numbers for each plan of the namespace; empty where no plan changes them.
    plans: Box<[PlanSpec]>,
    /// The attribute whose value is its time zone.
    pub(crate) zone_from: Option<u16>,
    /// The endings of work on which a charge is given back.
    pub(crate) refund_on: RefundSet,
    /// The name it counts under: its own, or the one it had when it was first counted.
    pub(crate) counts_as: Box<str>,
    ledger_identity: Box<[u8]>,
    /// Whether any key of this limit was ever blocked; until then decisions look for no blocks.
    /// Shared with the same limit of other gates over the table, so that a block outlives a reload,
    /// also a block that is set during the reload.
    pub(crate) has_blocks: Arc<AtomicBool>,
    /// For how long it blocks a key that exceeds it, and how such a block is kept.
    pub(crate) block: Option<(Duration, SpecPin)>,
    /// Whether the caller decides it.
    pub(crate) is_in_store: bool,
    /// Whether it applies to every request that has its key, by its own numbers, and is decided
    /// here.
    pub(crate) is_plain: bool,
}

impl Compiled {
    pub(super) fn new(
        (namespace, owner): (&str, Owner),
        limit: Limit,
        (members, plans): (u32, Option<&CompiledPlans>),
        run_time: &RunTimeFacts,
        table: &KeyTable,
        names: &mut Names,
    ) -> Result<Self, GateError> {
        check_limit(&limit)?;
        let part = |whole: &Algorithm| if limit.is_divided { whole.divided(members) } else { whole.clone() };
        let intern_spec = |spec: Spec| {
            let owner = SpecOwner::policy(owner);
            table.specs.intern(spec, owner).ok_or_else(|| too_many(limit.name.clone(), owner))
        };
        let intern = |algorithm: &Algorithm| intern_spec(Spec::Algorithm(algorithm.clone()));
        let algorithm = part(&limit.algorithm);
        let pin = intern(&algorithm)?;
        let plan_specs = plan_specs(&limit, plans, |whole| {
            let algorithm = part(whole);
            let pin = intern(&algorithm)?;
            Ok(PlanSpec::Numbers(PlanSpecNumbers { algorithm, spec: pin.id(), _pin: pin }))
        })?;
        let conditions = limit
            .matches
            .iter()
            .map(|Condition { attribute, matcher }| (names.intern(attribute), matcher.clone()))
            .collect();
        let parts: Box<[Part]> = limit.key.iter().map(|part| Part::new(part, names)).collect();
        let counts_as: Box<str> = run_time.identities.get(&limit.name).unwrap_or(&limit.name).as_str().into();
        let mut identity_bytes = identity_bytes(&counts_as, &limit);
        let identity = identity(namespace, &identity_bytes, table);
        identity_bytes.extend(LEDGER);
        let ledger_identity = identity_bytes.into();
        let scope = Scope::new(parts, limit.missing, identity, table);
        let overrides = Overrides::new(&limit, &run_time.overrides, part, &scope, owner, table)?;
        let has_blocks = table.blocks.of(identity);
        let zone_from = limit.zone_from.as_deref().map(|attribute| names.intern(attribute));
        let refund_on = table.refund_sets.intern(&limit.refund_on);
        let refund_on = refund_on.ok_or_else(|| GateError::TooManyRefundSets(limit.name.clone()))?;
        let block = match limit.blocks_for() {
            Some(span) => Some((span, intern_spec(Spec::BlockedUntil { at_most: span })?)),
            None => None,
        };
        let is_in_store = false;
        Ok(Self {
            name: Text::from(&limit.name),
            limit,
            algorithm,
            conditions,
            scope,
            spec: pin.id(),
            _pin: pin,
            overrides,
            plans: plan_specs,
            zone_from,
            refund_on,
            counts_as,
            ledger_identity,
            has_blocks,
            block,
            is_in_store,
            is_plain: false,
        })
    }

    /// Says whether the caller decides it, when everything else is known.
    pub(super) fn set_in_store(&mut self, is_in_store: bool) {
        self.is_in_store = is_in_store;
        self.is_plain = !is_in_store && self.conditions.is_empty() && self.has_one_set_of_numbers();
    }

    /// Whether this limit applies to the request with these values.
    #[inline]
    pub(crate) fn matches(&self, values: &[Option<&str>]) -> bool {
        self.unmet(values).is_none()
    }

    /// The first of its conditions that the request with these values does not meet.
    #[inline]
    pub(crate) fn unmet(&self, values: &[Option<&str>]) -> Option<&(u16, Matcher)> {
        self.conditions.iter().find(|(attribute, matcher)| !matcher.matches(values[usize::from(*attribute)]))
    }

    /// The key of a request under this limit.
    #[inline]
    pub(crate) fn key(&self, values: &[Option<&str>]) -> Keyed {
        self.scope.key_of(values)
    }

    /// The counter of a request under this limit by its own numbers; `index` is its position.
    #[inline]
    pub(crate) fn located(&self, index: u16, keyed: Keyed) -> LocatedCounter<'_> {
        let (spec, refund_on) = (self.spec, self.refund_on);
        LocatedCounter { limit: index, keyed, algorithm: &self.algorithm, spec, refund_on }
    }

    /// Whether any of its keys was ever blocked.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        // Relaxed: the caller orders a block of a key before the request.
        self.has_blocks.load(Ordering::Relaxed)
    }

    /// Whether a request that it has no room for is refused, and nothing else follows from that.
    #[inline]
    pub(crate) fn refuses_at_once(&self) -> bool {
        self.limit.mode == Mode::Enforce && self.block.is_none()
    }

    /// Its algorithm with its own numbers.
    #[inline]
    pub(crate) fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// Whether its own numbers count for every request.
    #[inline]
    pub(crate) fn has_one_set_of_numbers(&self) -> bool {
        self.overrides.is_none() && self.plans.is_empty() && self.zone_from.is_none()
    }

    /// Its numbers for the requests of a plan.
    #[inline]
    pub(crate) fn plan_spec(&self, plan: PlanIndex) -> &PlanSpec {
        self.plans.get(plan.get()).unwrap_or(&PlanSpec::Own)
    }

    /// The algorithm of that spec, if this limit uses the spec for itself, an override or a plan.
    pub(crate) fn algorithm_of(&self, spec: SpecId) -> Option<&Algorithm> {
        if spec == self.spec {
            return Some(&self.algorithm);
        }
        let overriding = self.overrides.as_ref().and_then(|overrides| overrides.algorithm_of(spec));
        let of_plan = || {
            self.plans.iter().find_map(|plan| match plan {
                PlanSpec::Numbers(numbers) if numbers.spec == spec => Some(&numbers.algorithm),
                _ => None,
            })
        };
        overriding.or_else(of_plan)
    }

    /// Whether a request has the same numbers at all times.
    pub(crate) fn has_lasting_numbers(&self) -> bool {
        self.overrides.is_none() && self.zone_from.is_none()
    }

    /// The override that fits a request at `now` best, if one does.
    #[inline]
    pub(crate) fn overriding(&self, values: &[Option<&str>], now: Timestamp) -> Option<&OverrideNumbers> {
        self.overrides.as_ref().and_then(|overrides| overrides.find(values, now))
    }

    /// The identity of its counters, the same on every member and across reloads.
    pub(crate) fn identity(&self) -> &[u8] {
        &self.ledger_identity[..self.ledger_identity.len() - LEDGER.len()]
    }

    /// The identity of its ledgers. It differs from [`Self::identity`], so that a ledger is never
    /// taken for a counter of the same limit.
    pub(crate) fn ledger_identity(&self) -> &[u8] {
        &self.ledger_identity
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.limit.consistency == Consistency::Exact
    }

    pub(crate) fn is_leased(&self) -> bool {
        self.limit.consistency == Consistency::Leased
    }
}

/// The numbers of a limit for each plan, in the order of the plans; `numbers` makes those that are
/// not the limit's own.
fn plan_specs(
    limit: &Limit,
    plans: Option<&CompiledPlans>,
    numbers: impl Fn(&Algorithm) -> Result<PlanSpec, GateError>,
) -> Result<Box<[PlanSpec]>, GateError> {
    if limit.plans.is_empty() {
        return Ok(Box::default());
    }
    let count = plans.map_or(0, |plans| plans.plans().names.len());
    let mut specs: Vec<PlanSpec> = (0..count).map(|_| PlanSpec::Own).collect();
    for one in &limit.plans {
        let why = |why: &'static str| GateError::PlanNumbers {
            limit: limit.name.clone(),
            plan: one.plan.clone(),
            why,
        };
        let Some(plan) = plans.and_then(|plans| plans.index(&one.plan)) else {
            return Err(why("is not a plan of the namespace; name one of its plans"));
        };
        let spec = &mut specs[plan.get()];
        if !matches!(spec, PlanSpec::Own) {
            return Err(why("has numbers already; remove one of the two"));
        }
        *spec = match &one.algorithm {
            Some(algorithm) => numbers(algorithm)?,
            None => PlanSpec::Unlimited,
        };
    }
    Ok(specs.into())
}

/// The bytes that identify a limit of a namespace across a reload and on every member: the name it
/// counts under, key attributes, algorithm, civil unit. Numbers are not part of them, nor is the
/// zone of a calendar: usage is kept when those change.
fn identity_bytes(counts_as: &str, limit: &Limit) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    let mut write = |text: &str| {
        bytes.extend((text.len() as u64).to_be_bytes());
        bytes.extend(text.as_bytes());
    };
    write(counts_as);
    for part in &limit.key {
        write(&part.attribute);
        write(&part.ipv6_prefix.map_or(String::new(), |prefix| prefix.to_string()));
    }
    write(limit.algorithm.name());
    match &limit.algorithm {
        Algorithm::SlidingCounter(_) => write("approximate"),
        #[cfg(feature = "calendar")]
        Algorithm::Calendar(calendar) => write(calendar.unit().as_str()),
        _ => {}
    }
    bytes
}

/// The identity of a limit in its namespace, as the number that seeds its keys.
fn identity(namespace: &str, identity_bytes: &[u8], table: &KeyTable) -> u64 {
    let mut hasher = table.hasher();
    hasher.write_u64(namespace.len() as u64);
    hasher.write(namespace.as_bytes());
    hasher.write(identity_bytes);
    hasher.finish()
}
