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
    use crate::parse::read_tree;
    use crate::problem::Report;
    use crate::raw::Config;
    use crate::raw::limit::NumbersConfig;
    use crate::shape::shape;

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

    /// Adds to every key what its description says in a form that a program can read: "Default:
    /// `x`." as `default`, and "For `kind: redis`: .." at its beginning as `x-for`.
    fn add_defaults(schema: &mut Value) {
        let definitions = schema["$defs"].clone();
        let every = schema["$defs"].as_object_mut().unwrap().values_mut();
        let add = |definition: &mut Value| {
            let keys = definition.get_mut("properties").and_then(Value::as_object_mut);
            for property in keys.into_iter().flat_map(|keys| keys.values_mut()) {
                let text = property["description"].as_str().unwrap_or_default().to_owned();
                if let Some(default) = literal_default(&text) {
                    let mut of = property.clone();
                    of["$defs"] = definitions.clone();
                    let mut report = Report::new("default");
                    let node = read_tree(default, &mut report).unwrap();
                    property["default"] = shape(&of, &node, &|_| None, &mut report);
                    assert!(report.finish().is_ok(), "{text}");
                }
                let needed = text.strip_prefix("For `").and_then(|rest| rest.split_once('`'));
                if let Some((key, value)) = needed.and_then(|(needed, _)| needed.split_once(": ")) {
                    property["x-for"] = serde_json::json!({ key: value });
                }
            }
        };
        every.for_each(add);
        add(schema);
    }

    /// The default in a description that is the same whatever other keys say.
    fn literal_default(text: &str) -> Option<&str> {
        let (default, rest) = text.split_once("Default: `")?.1.split_once('`')?;
        (rest.starts_with(['.', ',', ';']) && !rest.starts_with(", or ")).then_some(default)
    }

    #[test]
    fn the_committed_schema_is_that_of_the_types() {
        let mut made = schema_of::<Config>("Tidegate configuration");
        add_defaults(&mut made);
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
