//! The overrides of a limit: other numbers for the keys that have given values.

use std::collections::HashMap;

use super::error::{GateError, too_many};
use crate::algorithm::Algorithm;
use crate::limit::{Limit, Missing, Override};
use crate::scope::{Keyed, Scope, Values};
use crate::shares::Owner;
use crate::table::{KeyTable, Spec, SpecId, SpecOwner, SpecPin};
use crate::time::Timestamp;

/// Facts about the limits that are not in a policy.
#[derive(Debug, Default)]
pub(super) struct RunTimeFacts {
    /// The names that limits count under, where they are not their own.
    pub(super) identities: HashMap<String, String>,
    pub(super) overrides: Vec<TimedOverride>,
}

/// An override set at run time.
#[derive(Debug)]
pub(super) struct TimedOverride {
    pub(super) limit: String,
    pub(super) numbers: Override,
    pub(super) until: Timestamp,
}

/// The overrides of a limit, found by the values they name.
///
/// Overrides that name the same attributes share a map from the hash of the values. Overrides set
/// at run time are tried before those of the policy, and within each kind the groups with more
/// attributes first.
#[derive(Debug)]
pub(super) struct Overrides {
    groups: Box<[OverrideGroup]>,
    numbers: Box<[OverrideNumbers]>,
    /// One of `numbers` for each spec.
    by_spec: HashMap<SpecId, usize, ahash::RandomState>,
}

/// The numbers of one override.
#[derive(Debug)]
pub(crate) struct OverrideNumbers {
    pub(crate) algorithm: Algorithm,
    pub(crate) spec: SpecId,
    /// Keeps `spec` in use as long as the override is there.
    _pin: SpecPin,
    /// The values it is for.
    pub(crate) when: Box<[(String, String)]>,
    /// Whether it stands in the policy rather than being set at run time.
    pub(crate) is_policy: bool,
    /// The first instant at which it no longer counts.
    pub(crate) until: Timestamp,
    /// Whether its time zone counts whatever zone the request names.
    #[cfg_attr(not(feature = "calendar"), expect(dead_code, reason = "only calendars have time zones"))]
    pub(crate) fixes_zone: bool,
}

#[derive(Debug)]
struct OverrideGroup {
    scope: Scope,
    by_values: HashMap<u64, usize, ahash::RandomState>,
}

/// The sort key of a group: groups set at run time come before those of the policy. Groups are
/// distinct by the parts of the key that they name.
#[derive(Debug, PartialEq, Eq)]
struct GroupName {
    is_policy: bool,
    parts: Vec<usize>,
}

impl Overrides {
    pub(super) fn new(
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
            if let Keyed::On(key) = group.scope.key_of(&values) {
                // The first of two overrides for the same values counts.
                group.by_values.entry(key.0).or_insert(numbers.len());
            }
            let when = one.when.clone().into_boxed_slice();
            by_spec.entry(pin.id()).or_insert(numbers.len());
            numbers.push(OverrideNumbers {
                algorithm,
                spec: pin.id(),
                _pin: pin,
                when,
                is_policy,
                until,
                fixes_zone: one.fixes_zone,
            });
        }
        if numbers.is_empty() {
            return Ok(None);
        }
        groups.sort_by_key(|(name, _)| (name.is_policy, core::cmp::Reverse(name.parts.len())));
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Ok(Some(Self { groups, numbers: numbers.into_boxed_slice(), by_spec }))
    }

    pub(super) fn algorithm_of(&self, spec: SpecId) -> Option<&Algorithm> {
        self.by_spec.get(&spec).map(|at| &self.numbers[*at].algorithm)
    }

    pub(super) fn find(&self, values: &[Option<&str>], now: Timestamp) -> Option<&OverrideNumbers> {
        self.groups.iter().find_map(|group| match group.scope.key_of(values) {
            Keyed::On(key) => {
                let numbers = &self.numbers[*group.by_values.get(&key.0)?];
                (now < numbers.until || numbers.until == Timestamp::MAX).then_some(numbers)
            }
            Keyed::Skipped | Keyed::Lacks(_) => None,
        })
    }
}
