//! Scenarios that users write, read as strictly as a policy.

use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tidegate_policy::parse_document;

use crate::exit::{Exit, complain};
use crate::policy_file;

/// Reads and checks a file. `subject` begins the sentence about its problems.
pub(super) fn read<T: DeserializeOwned + JsonSchema>(path: &Path, subject: &str) -> Result<T, Exit> {
    let bytes = policy_file::bytes(path).map_err(|error| {
        complain(format_args!("cannot read {}: {error}", path.display()));
        Exit::Unreadable
    })?;
    parse_document(&policy_file::name(path), &bytes).map_err(|problems| {
        complain(format_args!("{subject} problems\n{problems}"));
        Exit::Untaken
    })
}
