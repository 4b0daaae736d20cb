//! Values as Envoy's messages hold them.

use core::time::Duration;

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};

/// A JSON object as a structure; `None` for any other value.
pub fn structure(json: &serde_json::Value) -> Option<Struct> {
    match value(json).kind {
        Some(Kind::StructValue(structure)) => Some(structure),
        _ => None,
    }
}

fn value(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(flag) => Kind::BoolValue(*flag),
        // Numbers of a structure are doubles; a JSON number that is too large for one does not come to be.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::MAX)),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(values) => Kind::ListValue(ListValue { values: values.iter().map(value).collect() }),
        Json::Object(fields) => Kind::StructValue(Struct {
            fields: fields.iter().map(|(name, json)| (name.clone(), value(json))).collect(),
        }),
    };
    Value { kind: Some(kind) }
}

/// A span in whole seconds; what is beyond them is left out.
pub fn seconds(span: Duration) -> prost_types::Duration {
    prost_types::Duration { seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX), nanos: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_value_is_carried_over() {
        let json =
            serde_json::json!({ "a": null, "b": true, "c": 1.5, "d": "x", "e": [{}, 2], "f": { "g": "y" } });
        let fields = structure(&json).unwrap().fields;
        let kinds: Vec<_> = fields.values().map(|value| value.kind.clone().unwrap()).collect();
        assert_eq!(
            kinds[..4],
            [
                Kind::NullValue(0),
                Kind::BoolValue(true),
                Kind::NumberValue(1.5),
                Kind::StringValue("x".to_owned()),
            ]
        );
        let Kind::ListValue(list) = &kinds[4] else { panic!("a list") };
        assert_eq!(list.values[1].kind, Some(Kind::NumberValue(2.0)));
        let Kind::StructValue(inner) = &kinds[5] else { panic!("a structure") };
        assert_eq!(inner.fields["g"].kind, Some(Kind::StringValue("y".to_owned())));
        assert_eq!(structure(&serde_json::json!([1])), None);
    }
}
