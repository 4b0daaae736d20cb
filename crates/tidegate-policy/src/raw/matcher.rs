//! The matchers of attributes, as they are written.

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::json_value::from_value;

/// A value it must be, a list of values it may be, or a form.
#[derive(Debug)]
pub(crate) enum MatcherConfig {
    Exact(String),
    OneOf(Vec<String>),
    Form(Box<MatcherForm>),
}

/// The conditions on the value of an attribute; all of them must hold. Except for `present`
/// and `not`, a request that lacks the attribute does not match.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, rename = "match")]
pub(crate) struct MatcherForm {
    /// The value is this text.
    pub(crate) exact: Option<String>,
    /// The value is one of these texts.
    pub(crate) one_of: Option<Vec<String>>,
    /// The value begins with this text.
    pub(crate) prefix: Option<String>,
    /// The value ends with this text.
    pub(crate) suffix: Option<String>,
    /// The complete value matches this pattern: `*` stands for any characters, `?` for one, `[a-z]`
    /// for one of these, `[!a-z]` for one of the others, `{a,b}` for either; `\` makes the next
    /// character literal. At most 4096 bytes.
    pub(crate) glob: Option<String>,
    /// The complete value matches this regular expression (syntax of the Rust crate `regex`, in
    /// linear time). At most 4096 bytes.
    pub(crate) regex: Option<String>,
    /// The value is an address in one of these networks, as `10.0.0.0/8`.
    pub(crate) cidr: Option<TextOrTexts>,
    /// `true`: the request has the attribute; `false`: it lacks it.
    pub(crate) present: Option<bool>,
    /// The value does not match this. Also true if the attribute is missing.
    pub(crate) not: Option<MatcherConfig>,
}

/// One text or a list of them.
#[derive(Debug)]
pub(crate) enum TextOrTexts {
    One(String),
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for TextOrTexts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(one) => Ok(Self::One(one)),
            list => from_value(list).map(Self::List),
        }
    }
}

#[cfg(test)]
impl JsonSchema for TextOrTexts {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "texts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

impl<'de> Deserialize<'de> for MatcherConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Exact(text)),
            list @ Value::Array(_) => from_value(list).map(Self::OneOf),
            form => from_value(form).map(Self::Form),
        }
    }
}

#[cfg(test)]
impl JsonSchema for MatcherConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "matcher".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let form = generator.subschema_for::<MatcherForm>();
        json_schema!({
            "description": "What an attribute must look like: a value (`GET`), a list of values (`[GET, HEAD]`), or a form.",
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }, form],
        })
    }
}
