//! What is not as in the peer for a file, or would not be under `semantics: tidegate`.

use super::Unit;
use super::glob;
use super::read::{Document, Written};
use crate::path::Path;
use crate::problem::{Report, shown};

/// Notes what differs, as warnings of a report of their own.
pub(super) fn note(document: &Document, notes: &mut Report<'_>) {
    let mut seen = Seen::default();
    level(&document.descriptors, &mut seen, notes);
    let top = Path::default().key("domain");
    if seen.limits > 0 {
        notes.warn(
            &top,
            "under `semantics: tidegate` a refused hit consumes nothing, and here it does",
            "choose `tidegate` for callers that should recover while they are being refused",
        );
    }
    if seen.limits > 1 {
        notes.warn(
            &top,
            "under `semantics: tidegate` a request is charged to the limits of all its descriptors or to none",
            "choose `tidegate` if one descriptor that is over should not use up the others",
        );
    }
}

#[derive(Default)]
struct Seen {
    limits: usize,
    has_long_units: bool,
    has_values_in_metrics: bool,
}

fn level(descriptors: &[Written], seen: &mut Seen, notes: &mut Report<'_>) {
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
            let what = "values of requests stand in metrics up to a bound, beyond which they are `other`";
            notes.warn(&one.path.key(key), what, "nothing, unless there are more than 1024 values");
        }
        for limit in rule.iter().flat_map(|rule| &rule.limits) {
            let is_aligned = limit.aligned().is_some();
            let is_long = matches!(limit.unit, Some(Unit::Week | Unit::Month | Unit::Year));
            if is_aligned && is_long && !seen.has_long_units {
                seen.has_long_units = true;
                let what = "weeks begin on Thursday, months have 30 days and years 365, as in the peer";
                let fix = "add `algorithm: calendar` for weeks from Monday, and for months and years of the calendar";
                notes.warn(&one.path.key("rate_limit").key("unit"), what, fix);
            }
        }
        level(&one.descriptors, seen, notes);
    }
}

/// Siblings that the peer takes for one another, because it joins key and value with an underscore.
fn collisions(descriptors: &[Written], notes: &mut Report<'_>) {
    // Only keys with an underscore can be another key and the beginning of its value.
    let mut keys: Vec<&str> = descriptors.iter().map(|one| &*one.key).collect();
    keys.sort_unstable();
    keys.dedup();
    for one in descriptors {
        let composite = one.composite();
        let splits = composite.match_indices('_').map(|(at, _)| (&composite[..at], &composite[at + 1..]));
        for (key, value) in splits {
            if key != &*one.key && keys.binary_search(&key).is_ok() {
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
