//! The revision that a suite checks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

use crate::cargo::output_of;
use crate::checkout;

/// The sources that are checked; the rest of the repository, documents for example, may differ.
const SOURCES: &[&str] = &["crates", "fuzz", "Cargo.toml", "Cargo.lock"];

/// A revision of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Revision {
    /// A name for files; another one after each change.
    pub(super) key: String,
    /// A name for people.
    pub(super) name: String,
}

/// The revision of this checkout.
pub(super) fn of_checkout() -> Result<Revision, String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        output_of(git.args(arguments).current_dir(checkout::root()))
    };
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?.trim().to_owned();
    let of_sources = |arguments: &[&str]| git(&[arguments, &["--"], SOURCES].concat());
    let changes = of_sources(&["status", "--porcelain"])?;
    if changes.is_empty() {
        return Ok(Revision { key: commit.clone(), name: commit });
    }
    let mut hasher = DefaultHasher::new();
    (changes, of_sources(&["diff", "HEAD"])?).hash(&mut hasher);
    let key = format!("{commit}-{:08x}", hasher.finish() & 0xffff_ffff);
    Ok(Revision { key, name: format!("{commit} with changes") })
}
