//! Values that are read before their type is known.

use serde::de::{DeserializeOwned, Error};
use serde_json::Value;

/// Reads one of several forms that were told apart by hand.
pub(super) fn from_value<T: DeserializeOwned, E: Error>(value: Value) -> Result<T, E> {
    serde_json::from_value(value).map_err(|error| E::custom(error))
}
