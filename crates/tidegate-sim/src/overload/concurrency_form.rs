//! The most requests in flight at a service of a scenario: a number, or `auto`.

use core::fmt;

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use tidegate_overload::AdaptiveLimitConfig;

use super::service::ServiceSpec;

/// The most places of a service.
const PLACES_MAX: u32 = 1_000_000;

/// `concurrency:` of a service, with the two short forms of a resource of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConcurrencyForm {
    /// So many places, 1 to [`PLACES_MAX`].
    Places(u32),
    /// A limit that finds itself, from the initial limit of the plane on.
    Auto,
}

impl ConcurrencyForm {
    /// Sets the places of `service`.
    pub(super) fn apply(self, service: &mut ServiceSpec) {
        (service.places, service.is_adaptive) = match self {
            Self::Places(places) => (Some(places), false),
            Self::Auto => (Some(AdaptiveLimitConfig::default().initial), true),
        };
    }
}

/// The schema has refused every other number and word before.
struct ConcurrencyVisitor;

impl Visitor<'_> for ConcurrencyVisitor {
    type Value = ConcurrencyForm;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {PLACES_MAX}, or auto")
    }

    fn visit_u64<E: Error>(self, places: u64) -> Result<Self::Value, E> {
        let places = u32::try_from(places).ok().filter(|places| (1..=PLACES_MAX).contains(places));
        places.map(ConcurrencyForm::Places).ok_or_else(|| E::custom("out of range"))
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(ConcurrencyForm::Auto)
    }
}

impl<'de> Deserialize<'de> for ConcurrencyForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConcurrencyVisitor)
    }
}

#[cfg(test)]
impl JsonSchema for ConcurrencyForm {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConcurrencyForm".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The most requests in flight: a number, or `auto`.",
            "anyOf": [
                { "type": "integer", "format": "uint32", "minimum": 1, "maximum": PLACES_MAX },
                { "type": "string", "enum": ["auto"] },
            ],
        })
    }
}
