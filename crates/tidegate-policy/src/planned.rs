//! Planned keys that this version does not have, so that they are not reported as misspellings.

use crate::path::Path;

/// Keys that will exist, by the path they would stand at. `*` is any key; entries of lists do not
/// count.
const KEYS: &[(&[&str], &[&str])] = &[
    (&[], &["features", "prices", "signals"]),
    (&["namespaces", "*", "request"], &["feature", "ticket"]),
    (&["proxy", "routes"], &["feature", "ticket"]),
    (&["resources", "*"], &["defer", "scale"]),
    (&["resources", "*", "queue"], &["weights"]),
];

/// Values that will exist, by the path of their key.
const VALUES: &[(&[&str], &[&str])] = &[
    (&["namespaces", "*", "limits", "consistency"], &["auto", "broadcast", "observed"]),
    (&["namespaces", "*", "defaults", "consistency"], &["auto", "broadcast", "observed"]),
    (&["resources", "*", "concurrency"], &["auto"]),
    (&["store", "kind"], &["dynamodb"]),
];

/// Whether `key` will stand at `path` in a later version.
pub(crate) fn has_key(path: &Path, key: &str) -> bool {
    is_among(KEYS, path, key)
}

/// Whether `value` will be allowed at `path` in a later version.
pub(crate) fn has_value(path: &Path, value: &str) -> bool {
    is_among(VALUES, path, value)
}

/// Whether a mapping will be allowed at `path` in a later version, where there is one value now.
pub(crate) fn has_mapping(path: &Path) -> bool {
    path.is_keys(&["resources", "*", "concurrency"])
}

fn is_among(planned: &[(&[&str], &[&str])], path: &Path, word: &str) -> bool {
    planned.iter().any(|(at, words)| words.contains(&word) && path.is_keys(at))
}
