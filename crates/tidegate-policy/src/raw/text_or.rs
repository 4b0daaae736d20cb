//! Values that are a text alone, or a mapping with what belongs to it.

#[cfg(any(test, feature = "schema"))]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, DeserializeOwned, Deserializer};
use serde_json::Value;

use super::json_value::from_value;

/// A text, or the longer form.
#[derive(Clone, Debug)]
pub(crate) enum TextOr<F> {
    Text(String),
    Form(F),
}

impl<'de, F: DeserializeOwned> Deserialize<'de> for TextOr<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text)),
            form => from_value(form).map(Self::Form),
        }
    }
}

/// A form in place of which a text may stand.
#[cfg(any(test, feature = "schema"))]
pub(crate) trait LongerForm: JsonSchema {
    /// The name of the definition that allows both.
    const ENTRY: &'static str;
    /// Its description.
    const DESCRIPTION: &'static str;
}

#[cfg(any(test, feature = "schema"))]
impl<F: LongerForm> JsonSchema for TextOr<F> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        F::ENTRY.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let form = generator.subschema_for::<F>();
        json_schema!({ "description": F::DESCRIPTION, "anyOf": [{ "type": "string" }, form] })
    }
}
