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

pub(super) fn value(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(flag) => Kind::BoolValue(*flag),
        // Numbers of a structure are doubles; a JSON number that is too large for one does not come
        // to be.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::MAX)),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(values) => Kind::ListValue(ListValue { values: values.iter().map(value).collect() }),
        Json::Object(fields) => Kind::StructValue(Struct {
            fields: fields.iter().map(|(name, json)| (name.clone(), value(json))).collect(),
        }),
    };
    Value { kind: Some(kind) }
}

/// A structure as a JSON object.
pub fn json(structure: &Struct) -> serde_json::Value {
    structure.fields.iter().map(|(name, value)| (name.clone(), json_value(value))).collect()
}

fn json_value(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match &value.kind {
        None | Some(Kind::NullValue(_)) => Json::Null,
        Some(Kind::BoolValue(flag)) => Json::Bool(*flag),
        Some(Kind::NumberValue(number)) => json_number(*number),
        Some(Kind::StringValue(text)) => Json::String(text.clone()),
        Some(Kind::ListValue(list)) => list.values.iter().map(json_value).collect(),
        Some(Kind::StructValue(structure)) => json(structure),
    }
}

/// A number without a fraction is written without one; what is no number at all is null.
fn json_number(number: f64) -> serde_json::Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        let whole = number as i64;
        return whole.into();
    }
    number.into()
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

    #[test]
    fn a_structure_is_written_as_the_object_that_it_was() {
        let object =
            serde_json::json!({ "a": null, "b": [true, 1.5, -3, { "c": "x" }], "d": 1e300, "e": {} });
        assert_eq!(json(&structure(&object).unwrap()), object);
        let mut odd = Struct::default();
        odd.fields.insert("a".to_owned(), Value { kind: Some(Kind::NumberValue(f64::NAN)) });
        odd.fields.insert("b".to_owned(), Value { kind: None });
        assert_eq!(json(&odd), serde_json::json!({ "a": null, "b": null }));
    }
}
