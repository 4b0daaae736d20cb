//! The settings of a policy, each by its path, and the differences of two such lists.

use core::fmt;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

/// A setting that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SettingChange {
    /// Its path in the policy, as `http.bounds.body`, or `resources.checkout.queue.bytes` for a
    /// setting of something that has a name.
    pub path: String,
    /// How it was; `none` where it was not set and has no default.
    pub old: String,
    /// How it is.
    pub new: String,
    /// Whether a running daemon goes on with the old one until it is started anew.
    pub needs_restart: bool,
}

/// All settings of a policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicySettings {
    /// Those that belong to no limit, in the order of the reference.
    pub(crate) own: SettingLeaves,
    /// Those of each limit that count as they are written, by its namespace and its name.
    pub(crate) limits: BTreeMap<(String, String), SettingLeaves>,
}

impl PolicySettings {
    /// The settings of a daemon that runs with `running` and takes these over: each key stays as it
    /// is there unless it says by `x-reload` that it is taken over.
    pub(crate) fn in_place_of(self, running: &Self) -> Self {
        let own = self.own.0.into_iter().filter(|(.., reloads)| *reloads);
        let kept = running.own.0.iter().filter(|(.., reloads)| !reloads).cloned();
        Self { own: SettingLeaves(own.chain(kept).collect()), ..self }
    }
}

/// Settings, each by its path, in the order in which they were added.
#[derive(Clone, Default)]
pub(crate) struct SettingLeaves(Vec<(String, SettingLeaf, Reloads)>);

/// Whether a running daemon takes over a change.
type Reloads = bool;

/// The value of a setting.
#[derive(Clone)]
pub(crate) enum SettingLeaf {
    /// In the words of a policy.
    Words(String),
    /// The same, of a value that is as good as none, as a switch that is off: it is not listed
    /// where the other policy has none.
    Implied(String),
    /// Compared but not shown.
    Secret(Value),
}

impl PartialEq for SettingLeaf {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Secret(one), Self::Secret(other)) => one == other,
            (one, other) => one.in_words("") == other.in_words(""),
        }
    }
}

impl SettingLeaf {
    /// The value as people read it; a secret in the words `secret`.
    fn in_words<'a>(&'a self, secret: &'a str) -> &'a str {
        match self {
            Self::Words(words) | Self::Implied(words) => words,
            Self::Secret(_) => secret,
        }
    }

    /// Whether it is listed where the other policy has none.
    fn is_listed_alone(&self) -> bool {
        !matches!(self, Self::Implied(_))
    }
}

impl fmt::Debug for SettingLeaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: BTreeMap<_, _> = self.0.iter().map(|(path, leaf, _)| (path, leaf.in_words("set"))).collect();
        all.fmt(f)
    }
}

impl SettingLeaves {
    /// Adds a setting that a running daemon takes over.
    pub(crate) fn add(&mut self, key: &str, value: impl Into<String>) {
        self.push(key.to_owned(), SettingLeaf::Words(value.into()), true);
    }

    pub(crate) fn push(&mut self, path: String, leaf: SettingLeaf, reloads: Reloads) {
        self.0.push((path, leaf, reloads));
    }

    /// Whether the store in force is one in files.
    pub(super) fn has_embedded_store(&self) -> bool {
        self.0.iter().any(|(path, leaf, _)| path == "store.kind" && leaf.in_words("") == "embedded")
    }

    /// The same with the store of `other`.
    pub(super) fn with_store_of(mut self, other: &Self) -> Self {
        let is_of_store = |(path, ..): &(String, SettingLeaf, Reloads)| path.starts_with("store.");
        self.0.retain(|one| !is_of_store(one));
        self.0.extend(other.0.iter().filter(|one| is_of_store(one)).cloned());
        self
    }
}

/// The settings that differ: first those that the new tree has, in its order, then those that are
/// gone.
pub(super) fn differences(old: SettingLeaves, new: SettingLeaves) -> Vec<SettingChange> {
    let order: Vec<String> = old.0.iter().map(|(path, ..)| path.clone()).collect();
    let mut before: HashMap<String, (SettingLeaf, Reloads)> =
        old.0.into_iter().map(|(path, leaf, reloads)| (path, (leaf, reloads))).collect();
    let mut differences = Vec::new();
    let mut add = |path: String, old: &str, new: String, reloads: Reloads| {
        let old = old.to_owned();
        differences.push(SettingChange { path, old, new, needs_restart: !reloads });
    };
    for (path, leaf, reloads) in new.0 {
        match before.remove(&path) {
            Some((was, _)) if was == leaf => {}
            None if !leaf.is_listed_alone() => {}
            None => add(path, NONE, leaf.in_words("set").to_owned(), reloads),
            Some((was, _)) => {
                add(path, was.in_words("set"), leaf.in_words("changed").to_owned(), reloads);
            }
        }
    }
    for path in order {
        if let Some((was, reloads)) = before.remove(&path).filter(|(was, _)| was.is_listed_alone()) {
            add(path, was.in_words("set"), NONE.to_owned(), reloads);
        }
    }
    differences
}

/// How a setting is shown that is not there.
pub(super) const NONE: &str = "none";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_found_by_its_path_wherever_it_stands() {
        let leaves = |all: &[(&str, &str)]| {
            let mut leaves = SettingLeaves::default();
            for (key, value) in all {
                leaves.add(&format!("a.{key}"), *value);
            }
            leaves
        };
        assert_eq!(
            differences(
                leaves(&[("x", "1"), ("y", "2"), ("gone", "3")]),
                leaves(&[("y", "2"), ("new", "5"), ("x", "4")])
            ),
            [changed("a.new", "none", "5"), changed("a.x", "1", "4"), changed("a.gone", "3", "none")]
        );
    }

    #[test]
    fn a_secret_is_told_as_changed() {
        let leaves = |value: &str| one(SettingLeaf::Secret(value.into()));
        assert_eq!(differences(leaves("a"), leaves("a")), []);
        assert_eq!(differences(leaves("a"), leaves("b")), [changed("key", "set", "changed")]);
        assert_eq!(differences(SettingLeaves::default(), leaves("b")), [changed("key", "none", "set")]);
        assert_eq!(differences(leaves("a"), SettingLeaves::default()), [changed("key", "set", "none")]);
        assert_eq!(format!("{:?}", leaves("hunter2")), "{\"key\": \"set\"}");
    }

    #[test]
    fn a_switch_that_is_off_is_as_one_that_is_not_there() {
        let (off, on) =
            (|| one(SettingLeaf::Implied("false".to_owned())), || one(SettingLeaf::Words("true".to_owned())));
        assert_eq!(differences(off(), SettingLeaves::default()), []);
        assert_eq!(differences(SettingLeaves::default(), off()), []);
        assert_eq!(differences(off(), on()), [changed("key", "false", "true")]);
        assert_eq!(differences(on(), off()), [changed("key", "true", "false")]);
    }

    fn one(leaf: SettingLeaf) -> SettingLeaves {
        let mut leaves = SettingLeaves::default();
        leaves.push("key".to_owned(), leaf, true);
        leaves
    }

    fn changed(path: &str, old: &str, new: &str) -> SettingChange {
        let [path, old, new] = [path, old, new].map(str::to_owned);
        SettingChange { path, old, new, needs_restart: false }
    }
}
