//! Everything that is given away, made a second time from the same commit in another folder.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_test_support::TemporaryFolder;

use super::root::{needs, succeed, text};
use crate::attack::{Failure, RunContext, require};
use crate::findings::Findings;

/// The target that is built again.
const TARGET: &str = "x86_64-unknown-linux-gnu";

pub(super) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    needs(&["git"])?;
    let first = checksums(&context.artifact("SHA256SUMS")?)?;
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let changes = text(Command::new("git").args(["status", "--porcelain"]).current_dir(&checkout))?;
    if !changes.is_empty() {
        let reason = "the checkout has uncommitted changes, which no second checkout has; commit them";
        return Err(Failure::Skipped(reason.to_owned()));
    }
    let folder = TemporaryFolder::new();
    let clone = folder.join("another-place");
    succeed(Command::new("git").args(["clone", "--quiet"]).arg(&checkout).arg(&clone))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut dist = Command::new(cargo);
    dist.args(["xtask", "dist", "--target", TARGET, "--out", "out"]).current_dir(&clone);
    for (name, _) in std::env::vars_os() {
        // Cargo describes this crate in them, which is not the one that is built.
        let is_of_this_build =
            name.to_str().is_some_and(|name| name.starts_with("CARGO_") && name != "CARGO_HOME");
        if is_of_this_build {
            dist.env_remove(name);
        }
    }
    succeed(&mut dist)?;
    let second = checksums(&clone.join("out/SHA256SUMS"))?;
    for (name, sum) in &second {
        let same = first.get(name) == Some(sum);
        findings.claimed(
            &format!("the same bytes: {name}"),
            require!(same, "{:?} at first, {sum} in another folder", first.get(name)).map(|()| sum.clone()),
        );
    }
    require!(second.keys().any(|name| name.ends_with(".tar.gz")), "no archive among {second:?}")
}

/// The checksums of a folder by the names of its files.
fn checksums(file: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let text = fs::read_to_string(file)?;
    let lines = text.lines().filter_map(|line| line.split_once("  "));
    Ok(lines.map(|(sum, name)| (name.to_owned(), sum.to_owned())).collect())
}
