//! Scenarios that users write, read as strictly as a policy.

use serde::de::DeserializeOwned;
use tidegate_policy::{DocumentCheck, Problems, parse_document, parse_document_with};

/// Reads and checks the text of the file called `name`. `schema` is the text of the schema of `T`.
pub(crate) fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8], schema: &str) -> Result<T, Problems> {
    let schema = serde_json::from_str(schema).expect("a test compares the text with a schema");
    parse_document(name, bytes, &schema)
}

/// The same for a document that has parts of a policy, which `check` checks.
pub(crate) fn parse_with<T: DeserializeOwned, U>(
    name: &str,
    bytes: &[u8],
    schema: &str,
    check: impl FnOnce(&T, &mut DocumentCheck<'_, '_>) -> U,
) -> Result<(T, U), Problems> {
    let schema = serde_json::from_str(schema).expect("a test compares the text with a schema");
    parse_document_with(name, bytes, &schema, check)
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::Value;
    use tidegate_policy::schema_of;

    use crate::capacity::table_file::{self, TableFile};
    use crate::overload::service_file::{self, ServiceDocument};

    /// With `TIDEGATE_BLESS=1` it writes the schema instead of comparing it.
    #[expect(clippy::disallowed_methods, reason = "the test, and not the crate, writes the file")]
    fn assert_committed<T: JsonSchema>(path: &str, committed: &str, title: &str) {
        let made = schema_of::<T>(title);
        let text = format!("{made:#}\n");
        if std::env::var("TIDEGATE_BLESS").is_ok() {
            std::fs::write(format!("{}/src/{path}", env!("CARGO_MANIFEST_DIR")), text).unwrap();
            return;
        }
        assert!(
            committed == text,
            "src/{path} is out of date; write it with `TIDEGATE_BLESS=1 cargo test -p tidegate-sim schema`"
        );
        let read: Value = serde_json::from_str(committed).unwrap();
        assert!(read == made, "src/{path} does not keep a number");
    }

    #[test]
    fn the_committed_schema_of_tables_is_that_of_their_type() {
        assert_committed::<TableFile>(
            "capacity/table_file.schema.json",
            table_file::SCHEMA,
            "Nodes and tables",
        );
    }

    #[test]
    fn the_committed_schema_of_services_is_that_of_their_type() {
        assert_committed::<ServiceDocument>(
            "overload/service_file.schema.json",
            service_file::SCHEMA,
            "Services and clients",
        );
    }
}
