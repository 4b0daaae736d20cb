//! From limits as they are written to limits as they are checked on every request.

use core::hash::Hasher;
use core::sync::atomic::AtomicBool;
use std::collections::HashMap;
use std::sync::Arc;

use super::Gate;
use super::alone_specs::AloneSpecs;
use crate::algorithm::Algorithm;
use crate::algorithm::{WINDOW_MAX, WINDOW_MIN};
use crate::limit::Missing;
use crate::limit::{Condition, Consistency, Limit, OnExceed, Override};
use crate::matcher::Matcher;
use crate::scope::{Keyed, Names, Part, Scope, Values};
use crate::shares::Owner;
use crate::table::{KeyTable, Spec, SpecId, SpecOwner, SpecPin, Specs, TableConfig};
use crate::time::Timestamp;

/// Why limits make no gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// A name that is empty or too long.
    #[error("limit \"{0}\": a name has 1 to 128 bytes; shorten it")]
    Name(String),
    /// Two limits of one name.
    #[error("duplicate limit \"{0}\"; rename one of them")]
    DuplicateName(String),
    /// More attributes in a key than [`Limit::KEY_PARTS_MAX`].
    #[error("limit \"{limit}\": {parts} attributes in `key`; use at most 16")]
    KeyTooLong {
        /// The limit.
        limit: String,
        /// The attributes in its key.
        parts: usize,
    },
    /// An attribute twice in a key.
    #[error("limit \"{limit}\": duplicate attribute \"{attribute}\" in `key`; remove one")]
    DuplicateKeyPart {
        /// The limit.
        limit: String,
        /// The attribute.
        attribute: String,
    },
    /// An override for an attribute the limit does not count by, or for none.
    #[error(
        "limit \"{limit}\": an override needs attributes of `key`, and \"{attribute}\" is none; use one of them"
    )]
    OverrideAttribute {
        /// The limit.
        limit: String,
        /// The attribute; empty if the override names none.
        attribute: String,
    },
    /// An override with another algorithm.
    #[error("limit \"{limit}\": an override for {given} of a limit that uses {expected}; use {expected}")]
    OverrideAlgorithm {
        /// The limit.
        limit: String,
        /// The algorithm of the limit.
        expected: &'static str,
        /// The algorithm of the override.
        given: &'static str,
    },
    /// A block of no length or longer than 366 days.
    #[error("limit \"{0}\": `block` is not between 1us and 366d; use a span in that range")]
    Block(String),
    /// More limits in a namespace than [`GateBuilder::LIMITS_MAX`].
    #[error("namespace \"{namespace}\" has {limits} limits; use at most 1024, or split it")]
    TooManyLimits {
        /// The namespace.
        namespace: String,
        /// Its limits.
        limits: usize,
    },
    /// More distinct attributes than [`GateBuilder::ATTRIBUTES_MAX`].
    #[error("namespace \"{namespace}\" looks at {attributes} attributes; use at most 256")]
    TooManyAttributes {
        /// The namespace.
        namespace: String,
        /// The attributes its limits look at.
        attributes: usize,
    },
    /// The table holds as many distinct sets of numbers as it can tell apart, or the run-time
    /// overrides of this namespace hold their share of them. Those that no limit uses any more are
    /// reclaimed by [`KeyTable::reclaim_spec_numbers`], so this usually passes within seconds.
    #[error("limit \"{limit}\": {why}; retry in a few seconds, or use numbers that another override has")]
    TooManySpecs {
        /// The limit.
        limit: String,
        /// Which bound was reached.
        why: String,
    },
    /// A limit with `Consistency::Leased` whose algorithm, or that of an override, cannot be
    /// leased.
    #[error("limit \"{limit}\": {why}")]
    NotLeasable {
        /// The limit.
        limit: String,
        /// What is wrong with its numbers, and what to do.
        #[source]
        why: crate::lease::TermsError,
    },
}

/// Makes a [`Gate`].
#[derive(Debug)]
pub struct GateBuilder {
    namespace: Arc<str>,
    limits: Vec<Limit>,
    table: Option<Arc<KeyTable>>,
    exact_elsewhere: bool,
    leased_elsewhere: bool,
    members: u32,
    beside: Beside,
}

/// What a gate knows of its limits that does not stand in a policy.
#[derive(Debug, Default)]
struct Beside {
    /// The names that limits count under, where they are not their own.
    identities: HashMap<String, String>,
    overrides: Vec<TimedOverride>,
}

/// An override set at run time.
#[derive(Debug)]
struct TimedOverride {
    limit: String,
    numbers: Override,
    until: Timestamp,
}

impl GateBuilder {
    /// The most limits in a namespace.
    pub const LIMITS_MAX: usize = 1024;
    /// The most distinct attributes the limits of a namespace look at.
    pub const ATTRIBUTES_MAX: usize = 256;
    /// The seed of a table that was not given: placement is then the same in every process. Give a
    /// table with a random seed wherever strangers choose keys.
    const SEED: [u64; 4] = [0x7469_6465, 0x6761_7465, 0x6b65_7973, 0x7365_6564];

    pub(super) fn new(namespace: Arc<str>) -> Self {
        Self {
            namespace,
            limits: Vec::new(),
            table: None,
            exact_elsewhere: false,
            leased_elsewhere: false,
            members: 1,
            beside: Beside::default(),
        }
    }

    /// Adds a limit. The order of limits is the order of answers; it does not change decisions.
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Adds limits.
    #[must_use]
    pub fn limits(mut self, limits: impl IntoIterator<Item = Limit>) -> Self {
        self.limits.extend(limits);
        self
    }

    /// Keeps the state of keys in `table`, which other gates may share. Without one, the gate makes
    /// its own with [`TableConfig::BYTES_DEFAULT`] and a fixed seed.
    #[must_use]
    pub fn table(mut self, table: Arc<KeyTable>) -> Self {
        self.table = Some(table);
        self
    }

    /// Leaves the limits with `Consistency::Exact` out of every decision: the caller asks a store
    /// about them, with [`Gate::exact_limits`]. Without this call the gate decides them itself, as
    /// the only member there is.
    #[must_use]
    pub fn exact_in_store(mut self) -> Self {
        self.exact_elsewhere = true;
        self
    }

    /// Leaves the limits with `Consistency::Leased` out of every decision: the caller holds leases
    /// of them, with [`Gate::leased_limits`]. Without this call the gate decides them itself, as
    /// the only member there is.
    #[must_use]
    pub fn leased_elsewhere(mut self) -> Self {
        self.leased_elsewhere = true;
        self
    }

    /// How many members divide the limits that [are divided](Limit::divided). Default 1, which 0
    /// counts as.
    #[must_use]
    pub fn members(mut self, members: u32) -> Self {
        self.members = members.max(1);
        self
    }

    /// Counts the limit of that name under another name, as after it was renamed. Without this call
    /// it counts under its own. Two limits of a namespace must not count under one name.
    #[must_use]
    pub fn counts_as(mut self, limit: impl Into<String>, name: impl Into<String>) -> Self {
        self.beside.identities.insert(limit.into(), name.into());
        self
    }

    /// Adds an override set at run time to the limit of that name, valid before `until`;
    /// [`Timestamp::MAX`] never comes. It wins over every override of the limit itself, however
    /// many attributes they name.
    #[must_use]
    pub fn override_at_run_time(
        mut self,
        limit: impl Into<String>,
        numbers: Override,
        until: Timestamp,
    ) -> Self {
        self.beside.overrides.push(TimedOverride { limit: limit.into(), numbers, until });
        self
    }

    /// Checks the limits and makes the gate.
    pub fn build(self) -> Result<Gate, GateError> {
        let Self { namespace, limits, table, exact_elsewhere, leased_elsewhere, members, beside } = self;
        if limits.len() > Self::LIMITS_MAX {
            return Err(GateError::TooManyLimits { namespace: namespace.to_string(), limits: limits.len() });
        }
        let table = table.unwrap_or_else(|| Arc::new(KeyTable::new(TableConfig::seeded(Self::SEED))));
        let attributes = distinct_attributes(&limits);
        if attributes > Self::ATTRIBUTES_MAX {
            return Err(GateError::TooManyAttributes { namespace: namespace.to_string(), attributes });
        }
        let owner = table.join(&namespace);
        let mut names = Names::default();
        let mut compiled: Vec<Compiled> = Vec::with_capacity(limits.len());
        for limit in limits {
            if compiled.iter().any(|other| other.limit.name == limit.name) {
                return Err(GateError::DuplicateName(limit.name));
            }
            let mut limit = Compiled::new((&namespace, owner), limit, members, &beside, &table, &mut names)?;
            limit.is_elsewhere =
                (exact_elsewhere && limit.is_exact()) || (leased_elsewhere && limit.is_leased());
            compiled.push(limit);
        }
        let block_spec = table
            .specs
            .intern(Spec::BlockedUntil, SpecOwner::policy(owner))
            .ok_or_else(|| too_many("block".to_owned(), SpecOwner::policy(owner)))?;
        let limits = compiled.into_boxed_slice();
        let has_leased = leased_elsewhere && limits.iter().any(Compiled::is_leased);
        let alone_specs = AloneSpecs::default();
        Ok(Gate {
            namespace,
            owner,
            table,
            names,
            limits,
            exact_elsewhere,
            has_leased,
            block_spec,
            alone_specs,
        })
    }
}

fn too_many(limit: String, owner: SpecOwner) -> GateError {
    let why = if owner.is_run_time {
        format!(
            "run-time overrides of this namespace hold {} different sets of numbers, in force or not yet reclaimed",
            Specs::AT_RUN_TIME_MAX
        )
    } else {
        format!("the table already tells {} different sets of numbers apart", Specs::MAX)
    };
    GateError::TooManySpecs { limit, why }
}

fn distinct_attributes(limits: &[Limit]) -> usize {
    let mut all: Vec<&str> = limits
        .iter()
        .flat_map(|limit| {
            let keys = limit.key.iter().map(|part| part.attribute.as_str());
            keys.chain(limit.matches.iter().map(|condition| condition.attribute.as_str()))
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// What the identity of a limit's ledgers ends with.
const LEDGER: &[u8] = b"\0ledger";

/// A limit ready to be checked.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) limit: Limit,
    /// Its algorithm with the numbers it is decided by, which are a part of the limit's where it is
    /// divided.
    algorithm: Algorithm,
    conditions: Box<[(u16, Matcher)]>,
    pub(crate) scope: Scope,
    pub(crate) spec: SpecId,
    /// Keeps `spec` in use as long as this limit is there.
    _pin: SpecPin,
    overrides: Option<Overrides>,
    /// The name it counts under: its own, or the one it had when it was first counted.
    pub(crate) counts_as: Box<str>,
    ledger_identity: Box<[u8]>,
    /// Whether any key of this limit was ever blocked; until then nobody looks for blocks. Shared
    /// with the same limit of other gates over the table, so that a block outlives a reload, also
    /// one that is set while it happens.
    pub(crate) has_blocks: Arc<AtomicBool>,
    /// Whether the caller decides it.
    pub(crate) is_elsewhere: bool,
}

impl Compiled {
    fn new(
        (namespace, owner): (&str, Owner),
        limit: Limit,
        members: u32,
        beside: &Beside,
        table: &KeyTable,
        names: &mut Names,
    ) -> Result<Self, GateError> {
        check_limit(&limit)?;
        let part = |whole: &Algorithm| if limit.is_divided { whole.divided(members) } else { whole.clone() };
        let algorithm = part(&limit.algorithm);
        let pin = table
            .specs
            .intern(Spec::Algorithm(algorithm.clone()), SpecOwner::policy(owner))
            .ok_or_else(|| too_many(limit.name.clone(), SpecOwner::policy(owner)))?;
        let conditions = limit
            .matches
            .iter()
            .map(|Condition { attribute, matcher }| (names.intern(attribute), matcher.clone()))
            .collect();
        let parts: Box<[Part]> = limit.key.iter().map(|part| Part::new(part, names)).collect();
        let counts_as: Box<str> = beside.identities.get(&limit.name).unwrap_or(&limit.name).as_str().into();
        let mut identity_bytes = identity_bytes(&counts_as, &limit);
        let identity = identity(namespace, &identity_bytes, table);
        identity_bytes.extend(LEDGER);
        let ledger_identity = identity_bytes.into();
        let scope = Scope::new(parts, limit.missing, identity, table);
        let overrides = Overrides::new(&limit, &beside.overrides, part, &scope, owner, table)?;
        let has_blocks = table.blocks.of(identity);
        let is_elsewhere = false;
        Ok(Self {
            limit,
            algorithm,
            conditions,
            scope,
            spec: pin.id(),
            _pin: pin,
            overrides,
            counts_as,
            ledger_identity,
            has_blocks,
            is_elsewhere,
        })
    }

    /// Whether the request with these values is one this limit speaks of.
    #[inline]
    pub(crate) fn matches(&self, values: &Values<'_>) -> bool {
        self.unmet(values).is_none()
    }

    /// The first of its conditions that the request with these values does not meet.
    #[inline]
    pub(crate) fn unmet(&self, values: &Values<'_>) -> Option<&(u16, Matcher)> {
        self.conditions.iter().find(|(attribute, matcher)| !matcher.matches(values[usize::from(*attribute)]))
    }

    /// The key of a request under this limit.
    #[inline]
    pub(crate) fn key(&self, values: &Values<'_>) -> Keyed {
        self.scope.key(values)
    }

    /// The algorithm for a request at `now`: the limit's, or that of the override that fits best.
    #[inline]
    pub(crate) fn numbers(&self, values: &Values<'_>, now: Timestamp) -> (&Algorithm, SpecId) {
        match self.overriding(values, now) {
            Some(numbers) => (&numbers.algorithm, numbers.spec),
            None => (&self.algorithm, self.spec),
        }
    }

    /// The algorithm of that spec, if this limit or an override of it uses the spec.
    pub(crate) fn algorithm_of(&self, spec: SpecId) -> Option<&Algorithm> {
        if spec == self.spec {
            return Some(&self.algorithm);
        }
        self.overrides.as_ref().and_then(|overrides| overrides.algorithm_of(spec))
    }

    /// The override that fits a request at `now` best, if one does.
    #[inline]
    pub(crate) fn overriding(&self, values: &Values<'_>, now: Timestamp) -> Option<&Numbers> {
        self.overrides.as_ref().and_then(|overrides| overrides.find(values, now))
    }

    /// What makes its counters its own, on every member and across reloads.
    pub(crate) fn identity(&self) -> &[u8] {
        &self.ledger_identity[..self.ledger_identity.len() - LEDGER.len()]
    }

    /// The same of its ledgers, so that none is ever taken for a counter of the same limit.
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

fn check_limit(limit: &Limit) -> Result<(), GateError> {
    let name = || limit.name.clone();
    if limit.name.is_empty() || limit.name.len() > Limit::NAME_BYTES_MAX {
        return Err(GateError::Name(limit.name.chars().take(Limit::NAME_BYTES_MAX).collect()));
    }
    if limit.key.len() > Limit::KEY_PARTS_MAX {
        return Err(GateError::KeyTooLong { limit: name(), parts: limit.key.len() });
    }
    for (index, part) in limit.key.iter().enumerate() {
        if limit.key[..index].iter().any(|earlier| earlier.attribute == part.attribute) {
            return Err(GateError::DuplicateKeyPart { limit: name(), attribute: part.attribute.clone() });
        }
    }
    if let OnExceed::Block(span) = limit.on_exceed
        && !(WINDOW_MIN..=WINDOW_MAX).contains(&span)
    {
        return Err(GateError::Block(name()));
    }
    if limit.consistency == Consistency::Leased {
        limit.check_leasable(&limit.algorithm)?;
    }
    limit.overrides.iter().try_for_each(|one| limit.check_override(one))
}

/// What makes two limits of a namespace the same one across a reload and on every member: the name
/// it counts under, key attributes, algorithm, civil unit. Numbers are not part of it, nor is the
/// zone of a calendar, whose usage is kept.
pub(super) fn identity_bytes(counts_as: &str, limit: &Limit) -> Vec<u8> {
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

/// The overrides of a limit, found by the values they name.
///
/// Overrides that name the same attributes share a map from the hash of the values. Those set at
/// run time are looked at before those of the policy, and of either the groups with more attributes
/// first.
#[derive(Debug)]
struct Overrides {
    groups: Box<[OverrideGroup]>,
    numbers: Box<[Numbers]>,
    /// One of `numbers` for each spec.
    by_spec: HashMap<SpecId, usize, ahash::RandomState>,
}

/// The numbers of one override.
#[derive(Debug)]
pub(crate) struct Numbers {
    algorithm: Algorithm,
    spec: SpecId,
    /// Keeps `spec` in use as long as the override is there.
    _pin: SpecPin,
    /// The values it is for.
    pub(crate) when: Box<[(String, String)]>,
    /// Whether it stands in the policy rather than being set at run time.
    pub(crate) is_policy: bool,
    /// The first instant at which it no longer counts.
    pub(crate) until: Timestamp,
}

#[derive(Debug)]
struct OverrideGroup {
    scope: Scope,
    by_values: HashMap<u64, usize, ahash::RandomState>,
}

/// What the groups are told apart and sorted by: those of the policy after those set at run time,
/// then the parts of the key that are named.
#[derive(Debug, PartialEq, Eq)]
struct GroupName {
    is_policy: bool,
    parts: Vec<usize>,
}

impl Overrides {
    fn new(
        limit: &Limit,
        at_run_time: &[TimedOverride],
        part: impl Fn(&Algorithm) -> Algorithm,
        scope: &Scope,
        namespace: Owner,
        table: &KeyTable,
    ) -> Result<Option<Self>, GateError> {
        let at_run_time = at_run_time.iter().filter(|one| one.limit == limit.name);
        let timed = at_run_time.map(|one| (&one.numbers, one.until, false));
        let policy = limit.overrides.iter().map(|one| (one, Timestamp::MAX, true));
        let mut groups: Vec<(GroupName, OverrideGroup)> = Vec::new();
        let mut numbers = Vec::new();
        let mut by_spec = HashMap::with_hasher(ahash::RandomState::with_seeds(0, 0, 0, 0));
        for (one, until, is_policy) in timed.chain(policy) {
            limit.check_override(one)?;
            let parts = (0..limit.key.len())
                .filter(|part| one.when.iter().any(|(name, _)| *name == limit.key[*part].attribute))
                .collect();
            let name = GroupName { is_policy, parts };
            let at = groups.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                let named = name.parts.iter().map(|part| scope.parts[*part]).collect();
                let scope = Scope::new(named, Missing::Skip, 0, table);
                let by_values = HashMap::with_hasher(ahash::RandomState::with_seeds(0, 0, 0, 0));
                groups.push((name, OverrideGroup { scope, by_values }));
                groups.len() - 1
            });
            let algorithm = part(&one.algorithm);
            let owner = SpecOwner { namespace, is_run_time: !is_policy };
            let pin = table
                .specs
                .intern(Spec::Algorithm(algorithm.clone()), owner)
                .ok_or_else(|| too_many(limit.name.clone(), owner))?;
            let (name, group) = &mut groups[at];
            let highest = group.scope.parts.iter().map(|part| part.attribute).max().unwrap_or(0);
            let mut values: Values<'_> = smallvec::smallvec![None; usize::from(highest) + 1];
            for (position, part) in name.parts.iter().zip(&group.scope.parts) {
                let attribute = &limit.key[*position].attribute;
                let value =
                    one.when.iter().find(|(name, _)| name == attribute).map(|(_, value)| value.as_str());
                values[usize::from(part.attribute)] = value;
            }
            if let Keyed::On(key) = group.scope.key(&values) {
                // The first of two overrides for the same values counts.
                group.by_values.entry(key.0).or_insert(numbers.len());
            }
            let when = one.when.clone().into_boxed_slice();
            by_spec.entry(pin.id()).or_insert(numbers.len());
            numbers.push(Numbers { algorithm, spec: pin.id(), _pin: pin, when, is_policy, until });
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        groups.sort_by_key(|(name, _)| (name.is_policy, core::cmp::Reverse(name.parts.len())));
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(Some(Self { groups, numbers: numbers.into_boxed_slice(), by_spec }))
    }

    fn algorithm_of(&self, spec: SpecId) -> Option<&Algorithm> {
        self.by_spec.get(&spec).map(|at| &self.numbers[*at].algorithm)
    }

    fn find(&self, values: &Values<'_>, now: Timestamp) -> Option<&Numbers> {
        self.groups.iter().find_map(|group| match group.scope.key(values) {
            Keyed::On(key) => {
                let numbers = &self.numbers[*group.by_values.get(&key.0)?];
                (now < numbers.until || numbers.until == Timestamp::MAX).then_some(numbers)
            }
            Keyed::Skipped | Keyed::Lacks(_) => None,
        })
    }
}
