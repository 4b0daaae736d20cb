//! Other limits over the same state, without a moment in which nothing is decided.

use core::fmt::{self, Write};
use core::mem::discriminant;

use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Gate, Limit, NamespaceConfig};
use tidegate_store::NoteChange;

use crate::engine::Engine;
use crate::error::BuildError;
use crate::numbers::in_words;

/// The changes that a reload made to every limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReloadReport {
    /// One for each limit there is or was: those of the new policy in its order, then those that
    /// are gone.
    pub limits: Vec<LimitChange>,
    /// The notes that a store should keep about the reload: see [`Engine::note_batches`].
    pub notes: Vec<NoteChange>,
}

/// The change that a reload made to one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitChange {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub limit: String,
    /// The change.
    pub change: Change,
    /// Why its `was` was not obeyed, if it has one that was not.
    pub ignored: Option<String>,
}

/// A change that a reload makes to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It counts as before.
    Kept,
    /// It has other numbers; what is used stays used.
    Numbers {
        /// The numbers before, in words.
        from: String,
        /// The numbers now.
        to: String,
    },
    /// It has another name; what is used stays used.
    Renamed {
        /// The name before.
        from: String,
        /// The numbers before and now, if they have changed as well.
        numbers: Option<(String, String)>,
    },
    /// It counts from nothing, because part of its identity has changed.
    Fresh {
        /// The setting that changed, with its old and its new value.
        why: String,
    },
    /// It is new.
    Added,
    /// The policy no longer has the limit. Its counters drain by themselves.
    Removed,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Numbers { from, to } => write!(f, "changed from {from} to {to}, usage kept"),
            Self::Renamed { from, numbers: None } => write!(f, "renamed from {from}, usage kept"),
            Self::Renamed { from, numbers: Some((old, new)) } => {
                write!(f, "renamed from {from} and changed from {old} to {new}, usage kept")
            }
            Self::Fresh { why } => write!(f, "starts fresh: {why}"),
            Self::Added => f.write_str("added"),
            Self::Removed => f.write_str("removed, what it used drains"),
        }
    }
}

impl Engine {
    /// Another engine with these limits over the same state, whole or not at all.
    ///
    /// Counters, kept permits, refund keys, overrides set at run time, capacity and overload go on.
    /// Numbers that have changed apply at once, and what is used stays used; what else is part of a
    /// limit's identity and has changed makes it start fresh, as the report says. A limit with
    /// [`Limit::was`] goes on under its new name. Permits given by this engine may be settled by
    /// the other.
    ///
    /// An error changes nothing. Two reloads of one engine at the same time lose one: make them one
    /// after the other.
    pub fn reconfigured(&self, namespaces: Vec<NamespaceConfig>) -> Result<(Self, ReloadReport), BuildError> {
        let (engine, world) = self.rebuilt(namespaces, &self.lineage, self.overrides.clone())?;
        let notes = engine.lineage.changes_since(&self.lineage);
        let mut report = ReloadReport { limits: Vec::new(), notes };
        for gate in &engine.gates {
            let before = self.gate(gate.namespace()).ok();
            for (limit, counts_as) in gate.identities() {
                let old = before
                    .and_then(|gate| gate.identities().find(|(_, name)| *name == counts_as))
                    .map(|(limit, _)| limit);
                let mut ignored = world.ignored.iter();
                let ignored =
                    ignored.find(|one| one.namespace == gate.namespace() && one.limit == limit.name);
                report.limits.push(LimitChange {
                    namespace: gate.namespace().to_owned(),
                    limit: limit.name.clone(),
                    change: old.map_or(Change::Added, |old| self.change(gate.namespace(), old, limit)),
                    ignored: ignored.map(|one| one.why.clone()),
                });
            }
        }
        for gate in &self.gates {
            let after = engine.gate(gate.namespace()).ok();
            let is_gone = |counts_as: &str| {
                !after.is_some_and(|gate| gate.identities().any(|(_, name)| name == counts_as))
            };
            let gone = gate.identities().filter(|(_, counts_as)| is_gone(counts_as));
            report.limits.extend(gone.map(|(limit, _)| removed(gate, limit)));
        }
        report.notes.extend(world.renamed.iter().filter_map(|one| one.to_note().map(NoteChange::Put)));
        Ok((engine, report))
    }

    fn change(&self, namespace: &str, old: &Limit, new: &Limit) -> Change {
        if let Some(why) = fresh_because(old, new, self.loses_usage(namespace, old, new)) {
            return Change::Fresh { why };
        }
        let numbers = changed_numbers(old, new);
        match numbers {
            numbers if old.name != new.name => Change::Renamed { from: old.name.clone(), numbers },
            Some((from, to)) => Change::Numbers { from, to },
            None => Change::Kept,
        }
    }
}

impl Engine {
    /// Whether a limit is counted elsewhere than before, and its usage is not moved there.
    fn loses_usage(&self, namespace: &str, old: &Limit, new: &Limit) -> bool {
        let asks_store = self.shared.config.asks_store;
        let is_lent_here =
            |limit: &Limit| limit.consistency == Consistency::Leased && self.shared.lent.contains(namespace);
        match (is_lent_here(old), is_lent_here(new)) {
            (true, false) => true,
            // The ledger takes over what the table of keys has counted.
            (false, true) => asks_store && old.consistency != Consistency::Local,
            _ => asks_store && old.consistency != new.consistency,
        }
    }
}

fn removed(gate: &Gate, limit: &Limit) -> LimitChange {
    LimitChange {
        namespace: gate.namespace().to_owned(),
        limit: limit.name.clone(),
        change: Change::Removed,
        ignored: None,
    }
}

/// The part of the identity that two limits which count under one name do not share.
fn fresh_because(old: &Limit, new: &Limit, loses_usage: bool) -> Option<String> {
    let changed = |what: &str, from: &str, to: &str| Some(format!("{what} was {from} and is {to}"));
    if old.key != new.key {
        let parts = |limit: &Limit| {
            let part = |part: &tidegate_core::limit::KeyPart| match part.ipv6_prefix {
                Some(prefix) => format!("{}/{prefix}", part.attribute),
                None => part.attribute.clone(),
            };
            format!("[{}]", limit.key.iter().map(part).collect::<Vec<_>>().join(", "))
        };
        return changed("its key", &parts(old), &parts(new));
    }
    let differs = |old: &dyn fmt::Display, new: &dyn fmt::Display, what: &str| {
        changed(what, &old.to_string(), &new.to_string())
    };
    let kind = |algorithm: &Algorithm| match algorithm {
        Algorithm::SlidingCounter(_) => "rolling, approximate",
        other => other.name(),
    };
    match (&old.algorithm, &new.algorithm) {
        (old, new) if discriminant(old) != discriminant(new) => {
            return changed("its algorithm", kind(old), kind(new));
        }
        (Algorithm::Calendar(old), Algorithm::Calendar(new)) if old.unit() != new.unit() => {
            return changed("its unit", old.unit().as_str(), new.unit().as_str());
        }
        (Algorithm::Fixed(one), Algorithm::Fixed(other))
            if (one.window(), one.start()) != (other.window(), other.start()) =>
        {
            return differs(&in_words(&old.algorithm), &in_words(&new.algorithm), "its window");
        }
        _ => {}
    }
    if loses_usage {
        let place = |limit: &Limit| format!("{:?}", limit.consistency).to_lowercase();
        return changed("its consistency", &place(old), &place(new));
    }
    None
}

/// The numbers of both, in words, if they differ; those of overrides and plans count as well.
fn changed_numbers(old: &Limit, new: &Limit) -> Option<(String, String)> {
    let same_overrides = old.overrides == new.overrides;
    let same_zone = old.zone_from == new.zone_from;
    if old.algorithm == new.algorithm && same_overrides && same_zone && old.plans == new.plans {
        return None;
    }
    let words = |limit: &Limit, other: &Limit| {
        let mut words = in_words(&limit.algorithm);
        if let (Some(attribute), false) = (&limit.zone_from, same_zone) {
            let _ = write!(words, " unless {attribute} names another zone");
        }
        match limit.overrides.len() {
            _ if same_overrides => {}
            1 => words.push_str(" with 1 override"),
            many => {
                let _ = write!(words, " with {many} overrides");
            }
        }
        for one in limit.plans.iter().filter(|one| !other.plans.contains(one)).take(PLANS_SHOWN) {
            let numbers = one.algorithm.as_ref().map_or_else(|| "unlimited".to_owned(), in_words);
            let _ = write!(words, ", plan {} {numbers}", one.plan);
        }
        words
    };
    Some((words(old, new), words(new, old)))
}

/// How many changed plans of a limit a report shows.
const PLANS_SHOWN: usize = 8;
