//! Schemas made from types, which tests compare with committed texts.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// The schema of a type, in the form that [`crate::parse_document`] reads.
///
/// Tests compare it with the committed text. Its keys are sorted, and it has no `null`: a field
/// that may be left out is not required.
pub fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let generator =
        SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_null)).into_generator();
    let mut schema = generator.into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    tidy(&mut schema);
    let mut schema = schema.to_value();
    // Another crate may switch on the feature of serde_json that keeps keys as they come.
    schema.sort_all_objects();
    schema
}

/// Descriptions as sentences: a line break in a comment is not one in the text.
fn tidy(schema: &mut Schema) {
    let mut unwrap = RecursiveTransform(|schema: &mut Schema| {
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
        }
    });
    unwrap.transform(schema);
}

/// Takes out `null`, which stands for a field that was left out and is not a value one may write.
fn without_null(schema: &mut Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    let Some(Value::Array(choices)) = schema.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(one)] = choices.as_slice() {
        let one: Map<String, Value> = one.clone();
        schema.remove("anyOf");
        for (key, value) in one {
            schema.insert(key, value);
        }
    }
}
