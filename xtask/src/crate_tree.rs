//! The crates that a package is made of, as `cargo tree` lists them.

use std::collections::BTreeSet;

use crate::cargo::{cargo, output_of};

/// The lines of the tree of a package: `name vVERSION`, and the folder behind it for a crate of
/// this workspace. `options` are those of `cargo tree` beside the ones that are always given.
pub(crate) fn lines(package: &str, edges: &str, options: &[&str]) -> Result<String, String> {
    let mut tree = cargo(&["tree", "--locked", "--package", package, "--edges", edges, "--prefix", "none"]);
    output_of(tree.args(options))
}

/// The crates in these lines, each as `name VERSION`.
pub(crate) fn crates_in<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let crates = lines.filter_map(|line| line.split_once(" v"));
    crates
        .map(|(name, rest)| format!("{name} {}", rest.split_whitespace().next().unwrap_or_default()))
        .collect()
}
