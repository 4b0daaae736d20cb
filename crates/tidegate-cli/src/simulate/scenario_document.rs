//! Scenarios that users write, read as strictly as a policy.

use std::path::Path;

use serde::de::DeserializeOwned;
use tidegate_policy::parse_document;

use crate::exit::{Exit, complain};
use crate::policy_file;

/// Reads and checks a file. `schema` is the text of the schema of `T`; `subject` begins the
/// sentence about the problems of the file.
pub(super) fn read<T: DeserializeOwned>(path: &Path, schema: &str, subject: &str) -> Result<T, Exit> {
    let bytes = policy_file::bytes(path).map_err(|error| {
        complain(format_args!("cannot read {}: {error}", path.display()));
        Exit::Unreadable
    })?;
    let schema = serde_json::from_str(schema).expect("a test compares the text with a schema");
    parse_document(&policy_file::name(path), &bytes, &schema).map_err(|problems| {
        complain(format_args!("{subject} problems\n{problems}"));
        Exit::Untaken
    })
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde_json::Value;
    use tidegate_policy::schema_of;

    use crate::simulate::service_file::{self, ServiceFile};
    use crate::simulate::table_file::{self, TableFile};

    /// With `TIDEGATE_BLESS=1` it writes the schema instead of comparing it.
    fn assert_committed<T: JsonSchema>(name: &str, committed: &str, title: &str) {
        let made = schema_of::<T>(title);
        let text = format!("{made:#}\n");
        if std::env::var("TIDEGATE_BLESS").is_ok() {
            let path = format!("{}/src/simulate/{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, text).unwrap();
            return;
        }
        assert!(
            committed == text,
            "src/simulate/{name} is out of date; write it with `TIDEGATE_BLESS=1 cargo test -p tidegate-cli schema`"
        );
        let read: Value = serde_json::from_str(committed).unwrap();
        assert!(read == made, "src/simulate/{name} does not keep a number");
    }

    #[test]
    fn the_committed_schema_of_tables_is_that_of_their_type() {
        assert_committed::<TableFile>("table_file.schema.json", table_file::SCHEMA, "Nodes and tables");
    }

    #[test]
    fn the_committed_schema_of_services_is_that_of_their_type() {
        assert_committed::<ServiceFile>(
            "service_file.schema.json",
            service_file::SCHEMA,
            "Services and clients",
        );
    }
}
