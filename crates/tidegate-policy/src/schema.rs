//! The JSON schema of the configuration, from the raw types.

use std::sync::OnceLock;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

use crate::raw::Config;
use crate::raw::limit::NumbersConfig;

/// The published schema (JSON Schema 2020-12), as editors use it.
///
/// The schema describes shape: keys, types, words, ranges. It is stricter than the parser in one
/// point: where a text is expected it requires quotes around `1234` and `true`, and it does not
/// accept `${NAME}` for a number. Only [`crate::parse()`] checks conditions on more than one field.
pub fn schema() -> Value {
    let mut schema = compiled().clone();
    schema["$id"] = ID.into();
    schema.sort_all_objects();
    schema
}

/// Where editors find the schema.
const ID: &str = "https://raw.githubusercontent.com/tidegate/tidegate/main/docs/tidegate.schema.json";

/// The schema, made once.
pub(crate) fn compiled() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| made_of::<Config>("Tidegate configuration"))
}

/// The schema of the numbers of one override without its attributes, made once.
pub(crate) fn numbers() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| made_of::<NumbersConfig>("The numbers of an override"))
}

/// The schema of a type.
pub(crate) fn made_of<T: JsonSchema>(title: &str) -> Value {
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

/// The name of a definition in the schema.
pub(crate) fn name_of<T: JsonSchema>() -> String {
    T::schema_name().into_owned()
}
