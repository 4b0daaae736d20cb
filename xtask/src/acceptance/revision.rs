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
    /// A name for files; another one after each change of the sources, and the same after a commit
    /// of anything else.
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
    let mut hasher = DefaultHasher::new();
    of_sources(&["ls-tree", "HEAD"])?.hash(&mut hasher);
    let name = if changes.is_empty() {
        commit
    } else {
        (&changes, of_sources(&["diff", "HEAD"])?).hash(&mut hasher);
        format!("{commit} with changes")
    };
    Ok(Revision { key: format!("{:016x}", hasher.finish()), name })
}
