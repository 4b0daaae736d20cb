//! Planned keys that this version does not have, so that they are not reported as misspellings.

use crate::path::Path;

/// Keys that will exist, by the end of the path they would stand at.
const KEYS: &[(&[&str], &str)] = &[];

/// Values that will exist.
const VALUES: &[(&[&str], &str)] = &[(&["store", "kind"], "dynamodb")];

/// Whether `key` will stand at `path` in a later version.
pub(crate) fn has_key(path: &Path, key: &str) -> bool {
    KEYS.iter().any(|(at, planned)| {
        *planned == key && path.segments().is_empty() == at.is_empty() && path.ends_with_keys(at)
    })
}

/// Whether `value` will be allowed at `path` in a later version.
pub(crate) fn has_value(path: &Path, value: &str) -> bool {
    VALUES.iter().any(|(at, planned)| *planned == value && path.ends_with_keys(at))
}
