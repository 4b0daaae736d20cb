//! Other numbers for some keys, set while running.
//!
//! **Which numbers count** for a key: an override set at run time before one of the policy, however
//! many attributes either names; of those of one kind the one that names more attributes; then the
//! one that was written or set first.
//!
//! An override belongs to the limit it was set for, by the name that limit counts under: it follows
//! a limit that is renamed, waits as *dormant* while its limit is gone or does not take it any
//! more, and applies again when it does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_core::algorithm::Bucket;
use tidegate_core::limit::Override;
use tidegate_core::{Algorithm, Gate, Limit, Timestamp};
use tidegate_store::{Note, NoteKind};

use crate::notes::{self, NoteError};
use crate::numbers::{Numbers, in_words};
use crate::stable_hash::name_of;

/// How many overrides may be set at run time, those that are dormant or expired among them. One
/// more is an error and changes nothing; one for attributes that have one already replaces it.
///
/// All namespaces share them. Half of them is divided into shares, one for each namespace, that no
/// other namespace can take; the other half belongs to the first that sets them.
pub const RUNTIME_OVERRIDES_MAX: usize = 10_000;

/// Other numbers for the keys of a limit whose attributes have some values, set while running.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Algorithm, Limit, Rate, Timestamp};
/// # use tidegate_engine::{Engine, EngineConfig, NamespaceConfig, OverrideState, RuntimeOverride};
/// # let limit = Limit::rate("per-user", "100/s")?.key(["user"]);
/// # let api = NamespaceConfig::new("api", [limit]);
/// # let engine = Engine::builder(EngineConfig::default()).namespace(api).build()?;
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let faster = Algorithm::bucket(Rate::per_second(500)?)?;
/// let when = [("user".into(), "batch".into())];
/// let mut import = RuntimeOverride::new("api", "per-user", when, faster, now);
/// import.reason = "import of the archive".into();
/// import.until = Some(now.saturating_add(Duration::from_hours(1)));
/// let (engine, _note_for_the_store) = engine.with_override(import, now)?;
/// let state_at = |at| engine.overrides(at).next().map(|(_, state)| state);
/// assert_eq!(state_at(now), Some(OverrideState::Active));
/// assert_eq!(state_at(now.saturating_add(Duration::from_hours(2))), Some(OverrideState::Expired));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeOverride {
    /// The namespace of the limit.
    pub namespace: String,
    /// The name of the limit. After the limit was renamed, its new name.
    pub limit: String,
    /// Attributes of the limit's key with the values they must have; at least one, not necessarily
    /// all. Their order does not matter.
    pub when: Vec<(String, String)>,
    /// The limit's algorithm, with the numbers for those keys.
    pub algorithm: Algorithm,
    /// Whether the time zone of a calendar counts for those keys although the limit takes its zone
    /// from an attribute. Default no.
    pub fixes_zone: bool,
    /// The first instant at which it no longer applies; `None` applies until it is taken away.
    pub until: Option<Timestamp>,
    /// Why, for whoever reads it later; at most [`RuntimeOverride::TEXT_BYTES_MAX`] bytes.
    pub reason: String,
    /// The author of the override; at most [`RuntimeOverride::TEXT_BYTES_MAX`] bytes.
    pub by: String,
    /// When it was set.
    pub set_at: Timestamp,
    /// The name its limit counts under. The engine fills it in when the override is set, whatever
    /// stands here.
    pub counts_as: Option<String>,
    /// Whether it was set since the burst of a limit follows the rate of an override; see
    /// [`RuntimeOverride::following_the_rate`]. Default yes.
    pub burst_follows_rate: bool,
}

/// Whether an override applies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OverrideState {
    /// It does.
    Active,
    /// Not now: its limit is gone or does not take it any more. For what reason.
    Dormant(String),
    /// Not any more: its time has come.
    Expired,
}

impl RuntimeOverride {
    /// The longest reason and the longest name of who set it, in bytes.
    pub const TEXT_BYTES_MAX: usize = 1024;

    /// An override without end, set at `set_at`, with no reason and nobody's name.
    pub fn new(
        namespace: impl Into<String>,
        limit: impl Into<String>,
        when: impl IntoIterator<Item = (String, String)>,
        algorithm: Algorithm,
        set_at: Timestamp,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            limit: limit.into(),
            when: when.into_iter().collect(),
            algorithm,
            fixes_zone: false,
            until: None,
            reason: String::new(),
            by: String::new(),
            set_at,
            counts_as: None,
            burst_follows_rate: true,
        }
    }

    /// The same as it would be set today, where it was set before the burst of a limit followed the
    /// rate of an override: with another rate it kept the burst of its limit. `None` where the
    /// numbers stay.
    pub fn following_the_rate(&self, limit: &Limit) -> Option<Self> {
        let (Algorithm::Bucket(own), Algorithm::Bucket(of_limit)) = (&self.algorithm, &limit.algorithm)
        else {
            return None;
        };
        let kept_the_burst = !limit.has_default_burst && own.burst() == of_limit.burst();
        if self.burst_follows_rate || !kept_the_burst || own.rate() == of_limit.rate() {
            return None;
        }
        let burst = of_limit.rate().burst_at(own.rate(), of_limit.burst());
        let algorithm =
            Bucket::new(own.rate(), burst).and_then(|bucket| bucket.with_debt(own.debt())).ok()?;
        Some(Self { algorithm: Algorithm::Bucket(algorithm), burst_follows_rate: true, ..self.clone() })
    }

    /// It as an override of its limit.
    pub fn numbers(&self) -> Override {
        Override { fixes_zone: self.fixes_zone, ..Override::new(self.when.clone(), self.algorithm.clone()) }
    }

    /// The name its limit counts under.
    pub(crate) fn limit_counts_as(&self) -> &str {
        self.counts_as.as_ref().unwrap_or(&self.limit)
    }

    /// Its numbers in a line for people: `rate 100/s, burst 200`.
    pub fn numbers_in_words(&self) -> String {
        in_words(&self.algorithm)
    }

    /// The note that keeps it over a restart; `None` if its algorithm is one that this version
    /// cannot store.
    pub fn to_note(&self) -> Option<Note> {
        let value = OverrideNote {
            namespace: self.namespace.clone(),
            limit: self.limit.clone(),
            when: self.when.clone(),
            numbers: Numbers::from_algorithm(&self.algorithm)?,
            fixes_zone: self.fixes_zone,
            until: self.until.map(Timestamp::as_nanos),
            reason: self.reason.clone(),
            by: self.by.clone(),
            set_at: self.set_at.as_nanos(),
            counts_as: self.counts_as.clone(),
            burst_follows_rate: self.burst_follows_rate,
        };
        let until = self.until.unwrap_or(Timestamp::MAX);
        Some(notes::note(NoteKind::Override, self.note_name(), &value, until))
    }

    /// The override that a note keeps.
    pub fn from_note(note: &Note) -> Result<Self, NoteError> {
        let value: OverrideNote = notes::value(NoteKind::Override, note)?;
        let algorithm =
            value.numbers.algorithm().map_err(|error| NoteError::new(NoteKind::Override, error))?;
        Ok(Self {
            namespace: value.namespace,
            limit: value.limit,
            when: value.when,
            algorithm,
            fixes_zone: value.fixes_zone,
            until: value.until.map(Timestamp::from_nanos),
            reason: value.reason,
            by: value.by,
            set_at: Timestamp::from_nanos(value.set_at),
            counts_as: value.counts_as,
            burst_follows_rate: value.burst_follows_rate,
        })
    }

    /// The same for two overrides of one limit for the same keys, also after the limit was renamed.
    pub(crate) fn note_name(&self) -> u128 {
        let identity = self.identity();
        let pairs = identity.when.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let start = [&b"override"[..], identity.namespace.as_bytes(), identity.counts_as.as_bytes()];
        name_of(start.into_iter().chain(pairs))
    }

    pub(crate) fn identity(&self) -> OverrideName {
        let mut when = self.when.clone();
        when.sort();
        let counts_as = self.counts_as.as_ref().unwrap_or(&self.limit).clone();
        OverrideName { namespace: self.namespace.clone(), counts_as, when }
    }

    /// Whether it applies under these limits at `now`.
    pub(crate) fn state(&self, gate: Option<&Gate>, now: Timestamp) -> OverrideState {
        if self.has_expired(now) {
            return OverrideState::Expired;
        }
        let counts_as = self.counts_as.as_ref().unwrap_or(&self.limit);
        let found = gate.and_then(|gate| gate.identities().find(|(_, name)| name == counts_as));
        let limit = found.map(|(limit, _)| limit);
        let Some(limit) = limit else {
            return OverrideState::Dormant(format!("there is no limit \"{}\" now", self.limit));
        };
        match limit.check_override(&self.numbers()) {
            Ok(()) => OverrideState::Active,
            Err(error) => OverrideState::Dormant(error.to_string()),
        }
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_no(value: &bool) -> bool {
    !*value
}

#[derive(Serialize, Deserialize)]
struct OverrideNote {
    namespace: String,
    limit: String,
    when: Vec<(String, String)>,
    numbers: Numbers,
    /// Not in notes of versions that took no zone from an attribute.
    #[serde(default, skip_serializing_if = "is_no")]
    fixes_zone: bool,
    until: Option<u64>,
    reason: String,
    by: String,
    set_at: u64,
    counts_as: Option<String>,
    /// Not in notes of versions in which an override kept the burst of its limit.
    #[serde(default, skip_serializing_if = "is_no")]
    burst_follows_rate: bool,
}

/// The identity of an override.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OverrideName {
    pub(crate) namespace: String,
    pub(crate) counts_as: String,
    pub(crate) when: Vec<(String, String)>,
}

/// All overrides set at run time. A copy shares the overrides themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides(BTreeMap<OverrideName, Arc<RuntimeOverride>>);

impl Overrides {
    /// Sets one; `false` if there are as many as there may be.
    pub(crate) fn set(&mut self, one: RuntimeOverride) -> bool {
        let name = one.identity();
        if self.0.len() >= RUNTIME_OVERRIDES_MAX && !self.0.contains_key(&name) {
            return false;
        }
        self.0.insert(name, Arc::new(one));
        true
    }

    /// Whether this namespace may set one more and leave every other of these namespaces its share.
    ///
    /// The overrides of all and the unused parts of the shares together are at most
    /// [`RUNTIME_OVERRIDES_MAX`] after every call that says yes, so one that holds less than its
    /// share finds room. After a reload with more namespaces the shares are smaller, and what was
    /// set before stays set: until some are removed, a namespace may then find less.
    pub(crate) fn has_share<'n>(&self, namespace: &str, all: impl Iterator<Item = &'n str> + Clone) -> bool {
        let share = RUNTIME_OVERRIDES_MAX / 2 / all.clone().count().max(1);
        if self.0.len() < RUNTIME_OVERRIDES_MAX / 2 || self.0.len() >= RUNTIME_OVERRIDES_MAX {
            // Nobody can have taken of a share yet; or there is nothing left to share, which `set`
            // says.
            return true;
        }
        let held = |namespace: &str| self.iter().filter(|one| one.namespace == namespace).count();
        if held(namespace) < share {
            return true;
        }
        let unused: usize =
            all.filter(|other| *other != namespace).map(|other| share.saturating_sub(held(other))).sum();
        self.0.len() + unused < RUNTIME_OVERRIDES_MAX
    }

    pub(crate) fn contains(&self, name: &OverrideName) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn remove(&mut self, name: &OverrideName) -> Option<Arc<RuntimeOverride>> {
        self.0.remove(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RuntimeOverride> {
        self.0.values().map(|one| &**one)
    }

    /// Takes out those that have expired by `now`.
    pub(crate) fn take_expired(&mut self, now: Timestamp) -> Vec<RuntimeOverride> {
        let mut expired = Vec::new();
        self.0.retain(|_, one| {
            if one.has_expired(now) {
                expired.push(RuntimeOverride::clone(one));
                return false;
            }
            true
        });
        expired
    }

    /// When the first of them expires, of those that do.
    pub(crate) fn first_expiry(&self) -> Option<Timestamp> {
        self.iter().filter_map(|one| one.until).min()
    }

    /// Calls each by the name that its limit has now.
    pub(crate) fn rename(&mut self, name_of: impl Fn(&str, &str) -> Option<String>) -> Vec<RuntimeOverride> {
        let mut renamed = Vec::new();
        for one in self.0.values_mut() {
            let counts_as = one.counts_as.as_ref().unwrap_or(&one.limit);
            if let Some(limit) = name_of(&one.namespace, counts_as)
                && limit != one.limit
            {
                let one = Arc::make_mut(one);
                one.limit = limit;
                renamed.push(one.clone());
            }
        }
        renamed
    }

    /// Those of a namespace, the first set first.
    pub(crate) fn of(&self, namespace: &str) -> Vec<&RuntimeOverride> {
        let mut found: Vec<_> = self.iter().filter(|one| one.namespace == namespace).collect();
        found.sort_by_key(|one| one.set_at);
        found
    }
}
