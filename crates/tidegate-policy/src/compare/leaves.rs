//! The settings of a policy as leaves of a tree, and the differences of two such trees.

use core::fmt;
use std::collections::HashMap;

/// The settings of a policy, each by its path, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct SettingLeaves {
    /// The path of what is added next, with a dot at its end unless it is empty.
    prefix: String,
    all: Vec<(String, SettingLeaf)>,
}

/// The value of a setting.
#[derive(Debug, PartialEq, Eq)]
enum SettingLeaf {
    /// In the words of a policy.
    Words(String),
    /// In words that may leave something out, beside all of it.
    Shortened { words: String, whole: String },
    /// Compared but not shown: it has no words, or may be secret.
    Opaque(String),
}

impl SettingLeaves {
    pub(super) fn add(&mut self, key: &str, value: impl fmt::Display) {
        self.push(key, SettingLeaf::Words(value.to_string()));
    }

    /// Adds it if there is a value.
    pub(super) fn add_some(&mut self, key: &str, value: Option<impl fmt::Display>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }

    /// Adds a value of which the words may leave something out; `whole` is compared as well.
    pub(super) fn add_shortened(&mut self, key: &str, words: String, whole: impl fmt::Debug) {
        self.push(key, SettingLeaf::Shortened { words, whole: format!("{whole:?}") });
    }

    /// Adds a value that is compared and not shown.
    pub(super) fn add_opaque(&mut self, key: &str, value: impl fmt::Debug) {
        self.push(key, SettingLeaf::Opaque(format!("{value:?}")));
    }

    /// The same if there is a value.
    pub(super) fn add_opaque_some(&mut self, key: &str, value: Option<impl fmt::Debug>) {
        if let Some(value) = value {
            self.add_opaque(key, value);
        }
    }

    /// Adds the entries of a list in one line, if there are any.
    pub(super) fn add_list(&mut self, key: &str, entries: impl Iterator<Item = String>) {
        let entries: Vec<String> = entries.collect();
        if !entries.is_empty() {
            self.add(key, entries.join(", "));
        }
    }

    /// Adds a value for each entry of a map below `key`.
    pub(super) fn add_map<'a>(
        &mut self,
        key: &str,
        entries: impl IntoIterator<Item = (&'a String, impl fmt::Display)>,
    ) {
        self.under(key, |leaves| entries.into_iter().for_each(|(name, value)| leaves.add(name, value)));
    }

    /// Adds all that `add` adds below `key`.
    pub(super) fn under(&mut self, key: &str, add: impl FnOnce(&mut Self)) {
        let length = self.prefix.len();
        self.prefix.extend([key, "."]);
        add(self);
        self.prefix.truncate(length);
    }

    fn push(&mut self, key: &str, leaf: SettingLeaf) {
        self.all.push((format!("{}{key}", self.prefix), leaf));
    }
}

/// The paths of which the values differ, with the old and the new one: first those that the new
/// tree has, in its order, then those that are gone.
pub(super) fn differences(old: SettingLeaves, new: SettingLeaves) -> Vec<(String, String, String)> {
    let order: Vec<String> = old.all.iter().map(|(path, _)| path.clone()).collect();
    let mut before: HashMap<String, SettingLeaf> = old.all.into_iter().collect();
    let mut differences = Vec::new();
    for (path, leaf) in new.all {
        match before.remove(&path) {
            Some(was) if was == leaf => {}
            was => {
                let opaque = if was.is_some() { "changed" } else { "set" };
                let (old, mut new) = (in_words(was, "set"), in_words(Some(leaf), opaque));
                if old == new {
                    new.push_str(", changed where it is cut off here");
                }
                differences.push((path, old, new));
            }
        }
    }
    for path in order {
        if let Some(was) = before.remove(&path) {
            differences.push((path, in_words(Some(was), "set"), none()));
        }
    }
    differences
}

fn in_words(leaf: Option<SettingLeaf>, opaque: &str) -> String {
    match leaf {
        None => none(),
        Some(SettingLeaf::Words(words) | SettingLeaf::Shortened { words, .. }) => words,
        Some(SettingLeaf::Opaque(_)) => opaque.to_owned(),
    }
}

/// How a setting is told that is not set.
pub(super) fn none() -> String {
    "none".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_found_by_its_path_wherever_it_stands() {
        let leaves = |all: &[(&str, &str)]| {
            let mut leaves = SettingLeaves::default();
            leaves.under("a", |leaves| {
                for (key, value) in all {
                    leaves.add(key, value);
                }
            });
            leaves
        };
        let changed = |path: &str, old: &str, new: &str| (path.to_owned(), old.to_owned(), new.to_owned());
        assert_eq!(
            differences(
                leaves(&[("x", "1"), ("y", "2"), ("gone", "3")]),
                leaves(&[("y", "2"), ("new", "5"), ("x", "4")])
            ),
            [changed("a.new", "none", "5"), changed("a.x", "1", "4"), changed("a.gone", "3", "none")]
        );
    }

    #[test]
    fn a_change_beyond_the_words_is_a_change() {
        let leaves = |whole: &str| {
            let mut leaves = SettingLeaves::default();
            leaves.add_shortened("key", "one of 9".to_owned(), whole);
            leaves
        };
        assert_eq!(differences(leaves("a"), leaves("a")), []);
        let told = "one of 9, changed where it is cut off here".to_owned();
        assert_eq!(differences(leaves("a"), leaves("b")), [("key".to_owned(), "one of 9".to_owned(), told)]);
    }

    #[test]
    fn what_has_no_words_is_told_as_changed() {
        let leaves = |value: &str| {
            let mut leaves = SettingLeaves::default();
            leaves.add_opaque("key", value);
            leaves
        };
        let changed = |old: &str, new: &str| [("key".to_owned(), old.to_owned(), new.to_owned())];
        assert_eq!(differences(leaves("a"), leaves("a")), []);
        assert_eq!(differences(leaves("a"), leaves("b")), changed("set", "changed"));
        assert_eq!(differences(SettingLeaves::default(), leaves("b")), changed("none", "set"));
        assert_eq!(differences(leaves("a"), SettingLeaves::default()), changed("set", "none"));
    }
}
