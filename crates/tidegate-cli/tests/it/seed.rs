//! The seed of a test whose random numbers can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// A seed from the variable of this name, or another one every time.
pub(crate) fn seed(variable: &str) -> u64 {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos().into())
}
