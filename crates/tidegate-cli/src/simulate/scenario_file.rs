//! Files of tables or services that users write.

use std::path::Path;

use tidegate_policy::Problems;

use crate::exit::{Exit, complain};
use crate::policy_file;

/// Reads a file and lets `parse` make sense of its name and bytes. `subject` begins the sentence
/// about its problems.
pub(super) fn read<T>(
    path: &Path,
    subject: &str,
    parse: impl FnOnce(&str, &[u8]) -> Result<T, Problems>,
) -> Result<T, Exit> {
    let bytes = policy_file::bytes(path).map_err(|error| {
        complain(format_args!("cannot read {}: {error}", path.display()));
        Exit::Unreadable
    })?;
    parse(&policy_file::name(path), &bytes).map_err(|problems| {
        complain(format_args!("{subject} problems\n{problems}"));
        Exit::Untaken
    })
}
