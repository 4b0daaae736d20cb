//! `cargo xtask dist --check`: what a release needs and can be told anywhere, without a build.

use std::collections::BTreeSet;

use super::generated_files::read;
use super::{archive, workflow};
use crate::workspace::{self, Member};
use crate::{checkout, crate_tree, notices};

/// The folder of the workflows.
const WORKFLOWS: &str = ".github/workflows";

/// Files beside those of [`archive::COPIED`] that are given away or describe it.
const NEEDED: &[&str] = &[
    "deploy/docker/Dockerfile",
    "deploy/docker/tidegate.yaml",
    "deploy/docker/README.md",
    ".github/workflows/release.yml",
];

/// Runs all checks and prints their results; true when nothing is wrong. `tag` is the tag of a
/// release.
pub(super) fn run(tag: Option<&str>, is_command: impl Fn(&[&str]) -> bool) -> Result<bool, String> {
    let members = workspace::members()?;
    let version = version(&members)?;
    let mut passed = true;
    let mut report = |name: &str, held: &str, problems: Vec<String>| {
        passed &= problems.is_empty();
        if problems.is_empty() {
            println!("ok: {name}: {held}");
        }
        for problem in problems {
            println!("FAILED: {name}: {problem}");
        }
    };
    if let Some(tag) = tag {
        report("tag", tag, tag_problems(tag, &version));
    }
    let log = read("CHANGELOG.md")?;
    report("changelog", &version, changelog_problems(&log, &version, tag.is_some()));
    let order = publish_order(&members);
    let shown = order.as_ref().map(|order| order.join(", ")).unwrap_or_default();
    report("order of crates", &shown, order.err().into_iter().collect());
    report("files", "all there", missing_files());
    for (name, text) in workflows()? {
        report(&name, "keys, pins and commands", workflow::problems(&text, &is_command));
    }
    report("notices", "every crate of others", notice_problems()?);
    Ok(passed)
}

/// The version of the workspace, which every published crate has.
pub(super) fn version(members: &[Member]) -> Result<String, String> {
    let versions: BTreeSet<&str> =
        members.iter().filter(|member| member.is_published).map(|member| &*member.version).collect();
    match versions.iter().collect::<Vec<_>>().as_slice() {
        [version] => Ok((**version).to_owned()),
        several => Err(format!("published crates need one version, and have {several:?}")),
    }
}

fn tag_problems(tag: &str, version: &str) -> Vec<String> {
    let wanted = format!("v{version}");
    if tag == wanted {
        Vec::new()
    } else {
        vec![format!("the tag is {tag:?} and the version of the workspace {version}; use the tag {wanted}")]
    }
}

/// A release has a section of its version; before, `Unreleased` serves.
fn changelog_problems(text: &str, version: &str, is_release: bool) -> Vec<String> {
    let of_version = format!("[{version}]");
    let is_section =
        |title: &str| title.starts_with(&of_version) || !is_release && title.starts_with("[Unreleased]");
    let sections = text.split("\n## ").skip(1).filter(|section| is_section(section));
    let has_text = sections.map(str::lines).any(|mut lines| {
        lines.next();
        lines.any(|line| !line.trim().is_empty() && !line.starts_with('#'))
    });
    if has_text {
        Vec::new()
    } else {
        vec![format!("CHANGELOG.md has no text under `## [{version}]`; rename the section Unreleased")]
    }
}

/// The published crates, each behind those it needs; the error says why there is no such order.
fn publish_order(members: &[Member]) -> Result<Vec<String>, String> {
    let mut left: Vec<&Member> = members.iter().filter(|member| member.is_published).collect();
    let mut order: Vec<String> = Vec::new();
    for member in &left {
        let is_unpublished =
            |name: &&String| members.iter().any(|other| other.name == **name && !other.is_published);
        if let Some(needed) = member.needs.iter().find(is_unpublished) {
            return Err(format!("{} needs {needed}, which is never published", member.name));
        }
    }
    while !left.is_empty() {
        let is_ready =
            |member: &&Member| !member.needs.iter().any(|name| left.iter().any(|other| other.name == *name));
        let Some(index) = left.iter().position(is_ready) else {
            let names: Vec<&str> = left.iter().map(|member| &*member.name).collect();
            return Err(format!("these crates need each other: {}", names.join(", ")));
        };
        order.push(left.remove(index).name.clone());
    }
    Ok(order)
}

fn missing_files() -> Vec<String> {
    let files = archive::COPIED.iter().map(|(file, _)| *file).chain(NEEDED.iter().copied());
    let absent = files.filter(|file| !checkout::root().join(file).is_file());
    absent.map(|file| format!("{file} is not there")).collect()
}

/// The names and texts of the workflows.
fn workflows() -> Result<Vec<(String, String)>, String> {
    let folder = checkout::root().join(WORKFLOWS);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{WORKFLOWS}: {error}"))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names.into_iter().map(|name| read(&format!("{WORKFLOWS}/{name}")).map(|text| (name, text))).collect()
}

/// Crates of others that `cargo tree` lists and the notices do not.
fn notice_problems() -> Result<Vec<String>, String> {
    let tree = crate_tree::lines(super::binary::PACKAGE, "normal", &[])?;
    Ok(unlisted(&tree, &notices::collect()?))
}

fn unlisted(tree: &str, notices: &str) -> Vec<String> {
    let listed: BTreeSet<&str> =
        notices.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
    // A crate of the workspace has its folder behind the version.
    let names = crate_tree::crates_in(tree.lines().filter(|line| !line.contains("(/")));
    let missing = names.iter().filter(|name| !listed.contains(name.as_str()));
    missing.map(|name| format!("{name} is in the binary and not in the notices")).collect()
}

#[cfg(test)]
mod tests;
