//! Under which name a limit counts, however often it was renamed.
//!
//! The usage of a limit belongs to its identity: namespace, name, attributes of the key,
//! algorithm. A limit that is renamed with `was:` goes on counting under the name it first had, so
//! that nothing moves in memory or in a store. That name is remembered for every limit, also when
//! `was:` is no longer written; and when a new limit takes the old name, it gets a name of its own
//! to count under.
//!
//! - `was: W` is obeyed once, when it is first seen: by a limit without a history of its own, or by
//!   one whose history another limit takes at the same time (two limits that swap names). W must
//!   have been counted, and must be gone or be renamed itself. Otherwise it is ignored, which the
//!   report says.
//! - Taking `was:` away and writing it again later asks anew.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tidegate_core::{Limit, NamespaceConfig, Timestamp};
use tidegate_store::{Note, NoteChange, NoteKind};

use crate::notes::{self, NoteError};
use crate::stable_hash::name_of;

/// How many limits are remembered, those that a policy no longer has among them. When there are
/// more, limits that are gone are forgotten first, then limits that count under their own name;
/// only renamed limits of the policy are always kept.
pub const LINEAGE_MAX: usize = 1 << 16;

/// Under which name each limit counts.
///
/// ```
/// # use tidegate_core::Limit;
/// # use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
/// let before = NamespaceConfig::new("api", [Limit::rate("requests", "100/s")?]);
/// let engine = Engine::builder(EngineConfig::default()).namespace(before).build()?;
/// let renamed = NamespaceConfig::new("api", [Limit::rate("per-api", "100/s")?.was("requests")]);
/// let (renamed, _report) = engine.reconfigured(vec![renamed])?;
/// assert_eq!(renamed.lineage().counts_as("api", "per-api"), Some("requests"));
/// // A store keeps the changes as notes, so that usage survives a restart.
/// assert!(!renamed.lineage().changes_since(engine.lineage()).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// By namespace, then by the name of the limit.
    namespaces: BTreeMap<String, BTreeMap<String, Ancestry>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ancestry {
    counts_as: String,
    /// The `was` that was obeyed and is still written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    was: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct LineageNote {
    namespace: String,
    limit: String,
    #[serde(flatten)]
    ancestry: Ancestry,
}

/// A `was` that was not obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ignored {
    pub(crate) namespace: String,
    pub(crate) limit: String,
    pub(crate) why: String,
}

impl Lineage {
    /// Reads the notes of kind [`NoteKind::Lineage`].
    pub fn from_notes<'a>(notes: impl IntoIterator<Item = &'a Note>) -> Result<Self, NoteError> {
        let mut lineage = Self::default();
        for note in notes {
            let LineageNote { namespace, limit, ancestry } = notes::value(NoteKind::Lineage, note)?;
            lineage.namespaces.entry(namespace).or_default().insert(limit, ancestry);
        }
        Ok(lineage)
    }

    /// The name that a limit counts under, if it is known.
    pub fn counts_as(&self, namespace: &str, limit: &str) -> Option<&str> {
        Some(&self.namespaces.get(namespace)?.get(limit)?.counts_as)
    }

    /// How many limits are remembered.
    pub fn len(&self) -> usize {
        self.namespaces.values().map(BTreeMap::len).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The changes to write into a store that remembers `before`.
    pub fn changes_since(&self, before: &Self) -> Vec<NoteChange> {
        let mut changes = Vec::new();
        for (namespace, limits) in &self.namespaces {
            for (limit, ancestry) in limits {
                if before.ancestry(namespace, limit) != Some(ancestry) {
                    let (namespace, limit) = (namespace.clone(), limit.clone());
                    let name = note_name(&namespace, &limit);
                    let value = LineageNote { namespace, limit, ancestry: ancestry.clone() };
                    changes.push(NoteChange::Put(notes::note(
                        NoteKind::Lineage,
                        name,
                        &value,
                        Timestamp::MAX,
                    )));
                }
            }
        }
        for (namespace, limits) in &before.namespaces {
            let gone = limits.keys().filter(|limit| self.ancestry(namespace, limit).is_none());
            changes.extend(gone.map(|limit| notes::remove(NoteKind::Lineage, note_name(namespace, limit))));
        }
        changes
    }

    fn ancestry(&self, namespace: &str, limit: &str) -> Option<&Ancestry> {
        self.namespaces.get(namespace)?.get(limit)
    }

    /// The lineage under these limits, and which `was` it does not obey.
    pub(crate) fn advance(&self, configs: &[NamespaceConfig]) -> (Self, Vec<Ignored>) {
        let mut next = self.clone();
        let mut ignored = Vec::new();
        for config in configs {
            let known = next.namespaces.entry(config.name.clone()).or_default();
            let why = advance_namespace(known, &config.limits);
            ignored.extend(why.into_iter().map(|(limit, why)| Ignored {
                namespace: config.name.clone(),
                limit,
                why,
            }));
        }
        next.forget(configs);
        (next, ignored)
    }

    /// Keeps at most [`LINEAGE_MAX`], as far as it may.
    fn forget(&mut self, configs: &[NamespaceConfig]) {
        let mut surplus = self.len().saturating_sub(LINEAGE_MAX);
        if surplus == 0 {
            return;
        }
        let present: BTreeSet<(&str, &str)> = configs
            .iter()
            .flat_map(|config| config.limits.iter().map(|limit| (config.name.as_str(), limit.name.as_str())))
            .collect();
        for is_kept in [
            |is_present: bool, _: bool| is_present,
            |is_present: bool, is_renamed: bool| is_present && is_renamed,
        ] {
            for (namespace, limits) in &mut self.namespaces {
                limits.retain(|name, ancestry| {
                    let is_present = present.contains(&(namespace.as_str(), name.as_str()));
                    let kept = surplus == 0 || is_kept(is_present, ancestry.counts_as != *name);
                    surplus -= usize::from(!kept);
                    kept
                });
            }
        }
        self.namespaces.retain(|_, limits| !limits.is_empty());
    }
}

fn note_name(namespace: &str, limit: &str) -> u128 {
    name_of([&b"lineage"[..], namespace.as_bytes(), limit.as_bytes()])
}

/// Brings what is known of one namespace to these limits; which `was` is not obeyed, and why.
fn advance_namespace(known: &mut BTreeMap<String, Ancestry>, limits: &[Limit]) -> Vec<(String, String)> {
    let mut ignored = Vec::new();
    // Whose history each limit asks for. A `was` that was obeyed before asks for nothing.
    let mut takes: BTreeMap<&str, &str> = BTreeMap::new();
    for limit in limits {
        let Some(was) = limit.was.as_deref() else { continue };
        if known.get(&limit.name).is_some_and(|one| one.was.as_deref() == Some(was)) {
            continue;
        }
        let refuse = |why: String| (limit.name.clone(), why);
        if was == limit.name {
            ignored.push(refuse(format!("`was: {was}` is its own name")));
        } else if !known.contains_key(was) {
            ignored.push(refuse(format!("`was: {was}` names a limit that was never counted")));
        } else if takes.values().any(|other| *other == was) {
            ignored.push(refuse(format!("`was: {was}` is written by another limit before it")));
        } else {
            takes.insert(&limit.name, was);
        }
    }
    // One that cannot be obeyed may be what another one relied on, so until nothing changes.
    loop {
        let refused = takes.iter().find_map(|(name, was)| {
            let stays = limits.iter().any(|limit| limit.name == **was) && !takes.contains_key(was);
            let has_history = known.contains_key(*name) && !takes.values().any(|taken| taken == name);
            let why = if stays {
                format!("`was: {was}` names a limit that still exists under that name")
            } else if has_history {
                format!("`was: {was}`, but it has counted under its own name already")
            } else {
                return None;
            };
            Some(((*name).to_owned(), why))
        });
        let Some((name, why)) = refused else { break };
        takes.remove(name.as_str());
        ignored.push((name, why));
    }
    let before = known.clone();
    for was in takes.values() {
        known.remove(*was);
    }
    for (name, was) in &takes {
        let ancestry = Ancestry { counts_as: before[*was].counts_as.clone(), was: Some((*was).to_owned()) };
        known.insert((*name).to_owned(), ancestry);
    }
    for limit in limits.iter().filter(|limit| !takes.contains_key(limit.name.as_str())) {
        let obeyed = |one: &Ancestry| one.was.is_some() && one.was == limit.was;
        match known.get_mut(&limit.name) {
            Some(ancestry) if !obeyed(ancestry) => ancestry.was = None,
            Some(_) => {}
            None => {
                let counts_as = unused_name(known, limits, &limit.name);
                known.insert(limit.name.clone(), Ancestry { counts_as, was: None });
            }
        }
    }
    ignored
}

/// A name that nothing counts under: `name` itself, or the first of `name#2`, `name#3` and so on.
fn unused_name(known: &BTreeMap<String, Ancestry>, limits: &[Limit], name: &str) -> String {
    let is_used = |wanted: &str| known.values().any(|one| one.counts_as == wanted);
    if !is_used(name) {
        return name.to_owned();
    }
    let numbered = (2_u64..).map(|number| format!("{name}#{number}"));
    let mut unused = numbered.filter(|wanted| {
        !is_used(wanted) && !known.contains_key(wanted) && limits.iter().all(|limit| limit.name != *wanted)
    });
    unused.next().expect("there are more numbers than limits")
}
