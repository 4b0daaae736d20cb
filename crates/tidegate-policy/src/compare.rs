//! The effect on the counters and on the daemon when one policy replaces another.

pub(crate) mod leaves;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tidegate_core::Algorithm;
use tidegate_core::algorithm::WindowStart;
use tidegate_core::limit::{Consistency, KeyPart, Limit, OnStoreFailure};
use tidegate_core::rate::format_span;

pub use self::leaves::SettingChange;
use self::leaves::{NONE, differences};
use crate::policy::{NamespacePolicy, Policy, StoreChoice, StoreKind};
use crate::printable::{on_one_line, shown};
use crate::words::words;

/// The differences between two policies. Made by [`compare`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// Every limit of either policy: by namespace, those of the new one in its order, then those
    /// that are gone.
    pub limits: Vec<LimitChange>,
    /// Every setting that differs and belongs to no limit, in the order of the reference.
    pub settings: Vec<SettingChange>,
}

/// The change of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitChange {
    /// Its namespace.
    pub namespace: String,
    /// Its name in the new policy; in the old one if it is gone.
    pub limit: String,
    /// The fate of its counters.
    pub fate: Fate,
    /// Its name in the old policy, where that was another.
    pub was: Option<String>,
    /// The numbers, where they differ; `none` stands for a limit that was not there, or is gone.
    pub numbers: Option<Change>,
    /// The parts of its identity that differ, which is why it starts fresh; otherwise empty.
    pub identity: Vec<Change>,
    /// Other differences, by their keys in the policy: `match`, `mode` and others; the numbers of a
    /// plan as `plans.gold`, those of an override as `overrides.user=ada`. They change no counter.
    pub rules: Vec<Change>,
}

/// The fate of the counters of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// They are kept, under the same numbers.
    Kept,
    /// They are kept, under other numbers.
    NumbersChanged,
    /// They are kept, under another name.
    Renamed,
    /// They are forgotten, since it is another limit now by what it counts and how.
    StartsFresh,
    /// There were none.
    Added,
    /// They are forgotten, since the limit is gone.
    Forgotten,
}

impl Fate {
    const ALL: [Self; 6] =
        [Self::Kept, Self::NumbersChanged, Self::Renamed, Self::StartsFresh, Self::Added, Self::Forgotten];

    /// The name for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NumbersChanged => "numbers changed",
            Self::Renamed => "renamed",
            Self::StartsFresh => "starts fresh",
            Self::Added => "added",
            Self::Forgotten => "forgotten",
        }
    }

    /// Whether what was used is used no more.
    pub const fn forgets(self) -> bool {
        matches!(self, Self::StartsFresh | Self::Forgotten)
    }
}

/// One thing that differs, in the words of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The key in the policy.
    pub what: String,
    /// How it was.
    pub old: String,
    /// How it is.
    pub new: String,
}

impl Change {
    fn between(what: &str, old: impl fmt::Display, new: impl fmt::Display) -> Option<Self> {
        let (old, new) = (old.to_string(), new.to_string());
        (old != new).then(|| Self { what: what.to_owned(), old, new })
    }
}

/// Compares the counters and settings of `old` with those of `new`, which replaces it.
///
/// It knows the two policies and nothing else: a rename is taken for one if the old policy has the
/// old name. Earlier renames that a daemon remembers, and overrides that were set at run time, are
/// not part of the comparison.
pub fn compare(old: &Policy, new: &Policy) -> Comparison {
    let stores = has_store(old) || has_store(new);
    let mut limits = Vec::new();
    for namespace in &new.namespaces {
        compare_namespace((old, old.namespace(&namespace.name)), (new, namespace), stores, &mut limits);
    }
    for namespace in old.namespaces.iter().filter(|namespace| new.namespace(&namespace.name).is_none()) {
        limits.extend(namespace.limits.iter().map(|limit| plain(&namespace.name, limit, Fate::Forgotten)));
    }
    limits.sort_by(|one, other| one.namespace.cmp(&other.namespace));
    let (before, mut after) = (old.settings.own.clone(), new.settings.own.clone());
    // A store that was opened for quotas stays open when the last of them is gone; that needs no
    // restart.
    let is_for_quotas = |policy: &Policy| matches!(policy.store, StoreChoice::ForQuotas(_));
    if is_for_quotas(old) && is_for_quotas(new) && before.has_embedded_store() {
        after = after.with_store_of(&before);
    }
    Comparison { limits, settings: differences(before, after) }
}

/// Whether a daemon with this policy has a store besides its memory. Files of `envoy_ratelimit` are
/// not read here; they may have quotas, which is reason enough.
fn has_store(policy: &Policy) -> bool {
    let has_quotas = policy.quotas().next().is_some() || policy.envoy_ratelimit.is_some();
    policy.store.kind(has_quotas) != StoreKind::Memory
}

fn compare_namespace(
    (old_policy, old): (&Policy, Option<&NamespacePolicy>),
    (new_policy, new): (&Policy, &NamespacePolicy),
    stores: bool,
    all: &mut Vec<LimitChange>,
) {
    let Some(old) = old else {
        all.extend(new.limits.iter().map(|limit| plain(&new.name, limit, Fate::Added)));
        return;
    };
    let before: BTreeMap<&str, &Limit> = by_name(&old.limits);
    let renames = renames(&before, &new.limits);
    let taken: BTreeSet<&str> = renames.values().copied().collect();
    let mut gone_on: BTreeSet<&str> = BTreeSet::new();
    for limit in &new.limits {
        let name = limit.name.as_str();
        let from = match renames.get(name) {
            Some(was) => Some(*was),
            None => Some(name).filter(|name| !taken.contains(name)),
        };
        match from.and_then(|from| before.get(from)) {
            Some(earlier) => {
                gone_on.insert(&earlier.name);
                all.push(compare_limit((old_policy, earlier), (new_policy, limit), &new.name, stores));
            }
            None => all.push(plain(&new.name, limit, Fate::Added)),
        }
    }
    let gone = old.limits.iter().filter(|limit| !gone_on.contains(limit.name.as_str()));
    all.extend(gone.map(|limit| plain(&old.name, limit, Fate::Forgotten)));
}

fn by_name(limits: &[Limit]) -> BTreeMap<&str, &Limit> {
    limits.iter().map(|limit| (limit.name.as_str(), limit)).collect()
}

/// The limits that go on under another name: the new name, and the old one.
///
/// A limit that had counters under its new name already keeps those, unless they go on under yet
/// another name, as when two limits swap their names. So a claim holds as long as the claims it
/// rests on do.
fn renames<'a>(before: &BTreeMap<&str, &Limit>, new: &'a [Limit]) -> BTreeMap<&'a str, &'a str> {
    let mut renames: BTreeMap<&str, &str> = new
        .iter()
        .filter_map(|limit| Some((limit.name.as_str(), limit.was.as_deref()?)))
        .filter(|(name, was)| {
            // A `was` that stood there before says what happened then, and nothing of today.
            let is_old = before.get(name).is_some_and(|earlier| earlier.was.as_deref() == Some(was));
            !is_old && before.contains_key(was)
        })
        .collect();
    loop {
        let taken: BTreeSet<&str> = renames.values().copied().collect();
        let count = renames.len();
        renames.retain(|name, _| !before.contains_key(name) || taken.contains(name));
        if renames.len() == count {
            return renames;
        }
    }
}

fn plain(namespace: &str, limit: &Limit, fate: Fate) -> LimitChange {
    let own = words(&limit.algorithm);
    let numbers = match fate {
        Fate::Added => Change::between("numbers", NONE, own),
        Fate::Forgotten => Change::between("numbers", own, NONE),
        _ => None,
    };
    LimitChange {
        namespace: namespace.to_owned(),
        limit: limit.name.clone(),
        fate,
        was: None,
        numbers,
        identity: Vec::new(),
        rules: Vec::new(),
    }
}

fn compare_limit(
    (old_policy, old): (&Policy, &Limit),
    (new_policy, new): (&Policy, &Limit),
    namespace: &str,
    stores: bool,
) -> LimitChange {
    let identity = identity(old, new, stores);
    let numbers = Change::between("numbers", words(&old.algorithm), words(&new.algorithm));
    let was = (old.name != new.name).then(|| old.name.clone());
    let fate = match (identity.is_empty(), &was, &numbers) {
        (false, ..) => Fate::StartsFresh,
        (true, Some(_), _) => Fate::Renamed,
        (true, None, Some(_)) => Fate::NumbersChanged,
        (true, None, None) => Fate::Kept,
    };
    let rules = rules((old_policy, old), (new_policy, new), namespace, stores);
    LimitChange { fate, was, numbers, identity, rules, ..plain(namespace, new, fate) }
}

/// The parts of a limit's identity that differ: what it counts by, how, and where. Its name is the
/// caller's business.
fn identity(old: &Limit, new: &Limit, stores: bool) -> Vec<Change> {
    let mut parts = vec![
        Change::between("key", key_words(&old.key), key_words(&new.key)),
        Change::between("algorithm", kind(&old.algorithm), kind(&new.algorithm)),
    ];
    match (&old.algorithm, &new.algorithm) {
        (Algorithm::Fixed(old), Algorithm::Fixed(new)) => {
            let start = |start| match start {
                WindowStart::Epoch => "epoch",
                WindowStart::FirstHit => "first_hit",
            };
            parts.push(Change::between("window", format_span(old.window()), format_span(new.window())));
            parts.push(Change::between("start", start(old.start()), start(new.start())));
        }
        (Algorithm::Calendar(old), Algorithm::Calendar(new)) => {
            parts.push(Change::between("unit", old.unit().as_str(), new.unit().as_str()));
        }
        _ => {}
    }
    if stores {
        // The counters of an exact limit are in the store, those of a local one in the process.
        parts.push(Change::between("consistency", consistency(old), consistency(new)));
    }
    parts.into_iter().flatten().collect()
}

fn kind(algorithm: &Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingCounter(_) => "rolling, approximate",
        other => other.name(),
    }
}

fn consistency(limit: &Limit) -> &'static str {
    match limit.consistency {
        Consistency::Exact => "exact",
        Consistency::Leased => "leased",
        _ => "local",
    }
}

/// A key as it is written: `[user, { attribute: peer, ipv6_prefix: 56 }]`.
fn key_words(key: &[KeyPart]) -> String {
    let parts: Vec<String> = key
        .iter()
        .map(|part| match part.ipv6_prefix {
            Some(prefix) if KeyPart::from(part.attribute.as_str()) != *part => {
                format!("{{ attribute: {}, ipv6_prefix: {prefix} }}", shown(&part.attribute))
            }
            _ => shown(&part.attribute),
        })
        .collect();
    format!("[{}]", parts.join(", "))
}

/// The differences that change no counter, by key: first those of keys that count as they are
/// written, then those in words of their own.
fn rules(
    (old_policy, old): (&Policy, &Limit),
    (new_policy, new): (&Policy, &Limit),
    namespace: &str,
    stores: bool,
) -> Vec<Change> {
    let is_leased = |limit: &Limit| limit.consistency == Consistency::Leased;
    let is_stored = |limit: &Limit| limit.consistency != Consistency::Local;
    let leaves = |policy: &Policy, limit: &Limit| {
        let name = (namespace.to_owned(), limit.name.clone());
        let mut leaves = policy.settings.limits.get(&name).cloned().unwrap_or_default();
        if !stores {
            leaves.add("consistency", consistency(limit));
        }
        if is_stored(old) && is_stored(new) {
            let word = match limit.on_store_failure {
                OnStoreFailure::Refuse => "refuse",
                OnStoreFailure::Allow => "allow",
                _ => "local",
            };
            leaves.add("on_store_failure", word);
        }
        if is_leased(old) && is_leased(new) {
            leaves.add("lease_period", format_span(limit.lease_period));
        }
        let block = limit.on_exceed.blocks_for().map(|span| format!("block {}", format_span(span)));
        leaves.add("on_exceed", block.as_deref().unwrap_or("refuse"));
        if let Some(zone_from) = &limit.zone_from {
            leaves.add("zone_from", zone_from);
        }
        for one in &limit.plans {
            let numbers = one.algorithm.as_ref().map_or_else(|| "unlimited".to_owned(), words);
            leaves.add(&format!("plans.{}", one.plan), numbers);
        }
        for one in &limit.overrides {
            let when = one.when.iter().map(|(attribute, value)| format!("{attribute}={value}"));
            let when = when.collect::<Vec<_>>().join(",");
            let zone = if one.fixes_zone { ", in this zone always" } else { "" };
            leaves.add(&format!("overrides.{when}"), format!("{}{zone}", words(&one.algorithm)));
        }
        leaves
    };
    let changes = differences(leaves(old_policy, old), leaves(new_policy, new));
    changes.into_iter().map(|SettingChange { path, old, new, .. }| Change { what: path, old, new }).collect()
}

/// The keys of a limit and of its namespace's defaults that [`LimitChange`] shows in words of their
/// own. All others are compared as they are written.
pub(crate) const SHOWN_KEYS: [&str; 17] = [
    "name",
    "was",
    "key",
    "rate",
    "burst",
    "debt",
    "rolling",
    "fixed",
    "calendar",
    "zone",
    "zone_from",
    "concurrency",
    "consistency",
    "on_store_failure",
    "lease_period",
    "on_exceed",
    "overrides",
];

impl Comparison {
    /// How many limits start with nothing used although something may have been: they start fresh
    /// or are gone.
    pub fn forgotten(&self) -> usize {
        self.limits.iter().filter(|limit| limit.fate.forgets()).count()
    }

    /// The settings that a running daemon goes on with as they were until it is started anew.
    pub fn needs_restart(&self) -> impl Iterator<Item = &SettingChange> {
        self.settings.iter().filter(|setting| setting.needs_restart)
    }

    fn count(&self, fate: Fate) -> usize {
        self.limits.iter().filter(|limit| limit.fate == fate).count()
    }
}

impl fmt::Display for Comparison {
    /// A line that counts, a line for each limit that is not simply kept, and the settings that
    /// differ; each line ends with a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = Fate::ALL
            .into_iter()
            .filter(|fate| self.count(*fate) > 0)
            .map(|fate| format!("{} {}", self.count(fate), fate.as_str()))
            .collect();
        let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        writeln!(f, "limits: {counts}")?;
        let told = || self.limits.iter().filter(|limit| limit.fate != Fate::Kept || !limit.rules.is_empty());
        let names = || told().map(|limit| format!("{}/{}", shown(&limit.namespace), shown(&limit.limit)));
        let width = names().map(|name| name.chars().count()).max().unwrap_or_default();
        for (name, limit) in names().zip(told()) {
            let mut said: Vec<String> = limit.was.iter().map(|was| format!("was {}", shown(was))).collect();
            let changes =
                limit.identity.iter().map(|part| format!("{}: {} -> {}", part.what, part.old, part.new));
            said.extend(changes);
            said.extend(limit.numbers.iter().map(|numbers| match limit.fate {
                Fate::Added => numbers.new.clone(),
                Fate::Forgotten => numbers.old.clone(),
                _ => format!("{} -> {}", numbers.old, numbers.new),
            }));
            let line = format!("  {name:width$}  {:15}  {}", limit.fate.as_str(), said.join("; "));
            writeln!(f, "{}", line.trim_end())?;
            for Change { what, old, new } in &limit.rules {
                writeln!(f, "    {}: {} -> {}", on_one_line(what), on_one_line(old), on_one_line(new))?;
            }
        }
        for (heading, needs_restart) in
            [("settings that need a restart", true), ("settings taken over while running", false)]
        {
            let of = || self.settings.iter().filter(|setting| setting.needs_restart == needs_restart);
            let width = of().map(|setting| setting.path.chars().count()).max().unwrap_or_default();
            if of().next().is_some() {
                writeln!(f, "{heading}:")?;
            }
            for SettingChange { path, old, new, .. } in of() {
                writeln!(f, "  {:width$}  {} -> {}", on_one_line(path), on_one_line(old), on_one_line(new))?;
            }
        }
        Ok(())
    }
}
