//! The JSON schema of the configuration.
//!
//! The schemas are committed as text, so that a daemon is built without the crate that makes them.
//! The tests make them from the raw types and compare.

#[cfg(any(test, feature = "schema"))]
mod generator;

use std::sync::OnceLock;

use serde_json::Value;

use crate::shape::definition;

#[cfg(any(test, feature = "schema"))]
pub use generator::schema_of;

/// The published schema. The file is a link to the one in `docs`, where editors find it.
const CONFIG: &str = include_str!("tidegate.schema.json");

/// The schema of the numbers of one override without its attributes.
const NUMBERS: &str = include_str!("numbers.schema.json");

/// The published schema (JSON Schema 2020-12), as editors use it.
///
/// The schema describes shape: keys, types, words, ranges. It is stricter than the parser in one
/// point: where a text is expected it requires quotes around `1234` and `true`, and it does not
/// accept `${NAME}` for a number. Only [`crate::parse()`] checks conditions on more than one field.
pub fn schema() -> Value {
    compiled().clone()
}

/// The published schema, read once.
pub(crate) fn compiled() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| read(CONFIG))
}

/// The schema of the numbers of one override without its attributes, read once.
pub(crate) fn numbers() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| read(NUMBERS))
}

/// Whether a running daemon takes over a change of the setting at `path`, as `http.bounds.body`:
/// `x-reload` of the last key on the path that has it. Otherwise a change takes a restart.
pub(crate) fn reloads(path: &str) -> bool {
    let (mut schema, mut reloads) = (compiled(), false);
    for key in path.split('.') {
        let Some(next) = property_of(schema, key) else { break };
        reloads = next["x-reload"].as_bool().unwrap_or(reloads);
        schema = next;
    }
    reloads
}

/// The key of a mapping, through references and alternatives.
fn property_of(schema: &'static Value, key: &str) -> Option<&'static Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return property_of(definition(compiled(), reference)?, key);
    }
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    schema["properties"].get(key).or_else(|| choices.into_iter().find_map(|choice| property_of(choice, key)))
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("the tests compare the text with a schema")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::Config;
    use crate::raw::limit::NumbersConfig;

    /// Where editors find the published schema.
    const ID: &str = "https://raw.githubusercontent.com/tidegate/tidegate/main/docs/tidegate.schema.json";

    /// With `TIDEGATE_BLESS=1` it writes the schema instead of comparing it.
    #[expect(clippy::disallowed_methods, reason = "the test, and not the crate, writes the file")]
    fn assert_committed(name: &str, committed: &str, made: &Value) {
        let text = format!("{made:#}\n");
        if std::env::var("TIDEGATE_BLESS").is_ok() {
            let path = format!("{}/src/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, text).unwrap();
            return;
        }
        assert!(
            committed == text,
            "src/{name} is not what the types say; run `TIDEGATE_BLESS=1 cargo test -p tidegate-policy` twice: the \
             second run writes the reference from the new schema"
        );
        assert!(read(committed) == *made, "src/{name} does not keep a number");
    }

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let mut made = schema_of::<Config>("Tidegate configuration");
        made["$id"] = ID.into();
        made.sort_all_objects();
        assert_committed("tidegate.schema.json", CONFIG, &made);
    }

    #[test]
    fn the_committed_schema_of_the_numbers_is_that_of_their_type() {
        let made = schema_of::<NumbersConfig>("The numbers of an override");
        assert_committed("numbers.schema.json", NUMBERS, &made);
    }
}
