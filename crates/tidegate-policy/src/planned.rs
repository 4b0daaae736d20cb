//! Planned keys that this version does not have, so that they are not reported as misspellings.

use crate::path::Path;

/// Keys that will exist, by the path they would stand at. `*` is any key; entries of lists do not
/// count.
const KEYS: &[(&[&str], &[&str])] =
    &[(&[], &["prices"]), (&["proxy", "routes"], &["ticket"]), (&["resources", "*"], &["scale"])];

/// Values that will exist, by the path of their key. `*` is any value.
const VALUES: &[(&[&str], &[&str])] = &[
    (&["namespaces", "*", "limits", "consistency"], &["auto", "broadcast", "observed"]),
    (&["namespaces", "*", "defaults", "consistency"], &["auto", "broadcast", "observed"]),
    // Any source that is not one of this version may be one of a later one.
    (&["signals", "source"], &["*"]),
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

fn is_among(planned: &[(&[&str], &[&str])], path: &Path, word: &str) -> bool {
    let is_listed = |words: &[&str]| words.contains(&word) || words.contains(&"*");
    planned.iter().any(|(at, words)| is_listed(words) && path.is_keys(at))
}
