//! Differences between the peer and Tidegate for a file, under the semantics in force.

use std::collections::{BTreeSet, HashSet};

use super::Semantics;
use super::glob;
use super::read::{Document, WrittenDescriptor};
use crate::path::Path;
use crate::printable::shown;
use crate::problem::Report;

/// Notes what differs under `semantics`, as warnings of a report of their own.
pub(super) fn note(document: &Document, semantics: Semantics, notes: &mut Report<'_>) {
    let mut seen = SeenFeatures::default();
    level(&document.descriptors, &mut seen, notes);
    if semantics == Semantics::Strict {
        return;
    }
    let top = Path::default().key("domain");
    if seen.limits > 0 {
        notes.warn(
            &top,
            "a refused hit consumes nothing, unlike in the peer",
            "use `semantics: strict` if refused hits are to count",
        );
    }
    if seen.limits > 1 {
        notes.warn(
            &top,
            "a request is charged to the limits of all its descriptors or to none, unlike in the peer",
            "use `semantics: strict` if each limit is to count by itself",
        );
    }
}

#[derive(Default)]
struct SeenFeatures {
    limits: usize,
    has_values_in_metrics: bool,
}

fn level(descriptors: &[WrittenDescriptor], seen: &mut SeenFeatures, notes: &mut Report<'_>) {
    collisions(descriptors, notes);
    for one in descriptors {
        if glob::is_pattern(&one.key) {
            let what = "a `*` in a key stands for characters of the key alone, not for its value as well";
            notes.warn(&one.path.key("key"), what, "put the `*` into the value where that is meant");
        }
        let rule = one.rule.as_ref();
        seen.limits += rule.map_or(0, |rule| rule.limits.len());
        let is_detailed = rule.is_some_and(|rule| rule.detailed_metric);
        if (one.value_to_metric || is_detailed) && !seen.has_values_in_metrics {
            seen.has_values_in_metrics = true;
            let key = if one.value_to_metric { "value_to_metric" } else { "detailed_metric" };
            let what = "metrics name up to 1024 values of requests, and the others together as `other`";
            notes.warn(
                &one.path.key(key),
                what,
                "keep it, unless more than 1024 values are to be told apart",
            );
        }
        level(&one.descriptors, seen, notes);
    }
}

/// Siblings that the peer takes for one another, because it joins key and value with an underscore.
fn collisions(descriptors: &[WrittenDescriptor], notes: &mut Report<'_>) {
    let keys: HashSet<&str> = descriptors.iter().map(|one| &*one.key).collect();
    // Only at the lengths of keys: a value may have thousands of underscores.
    let lengths: BTreeSet<usize> = keys.iter().map(|key| key.len()).collect();
    for one in descriptors {
        let composite = one.composite();
        let splits = lengths.iter().filter(|at| composite.as_bytes().get(**at) == Some(&b'_'));
        for (key, value) in splits.map(|at| (&composite[..*at], &composite[at + 1..])) {
            if key != &*one.key && keys.contains(key) {
                let what = format!(
                    "the peer also matches this with key \"{}\" and value \"{}\", which is not done here",
                    shown(key),
                    shown(value)
                );
                let fix = "add a descriptor of that key and value if it is meant";
                notes.warn(&one.path, what, fix);
            }
        }
    }
}
