//! The layers: which crate may depend on which, what a pure crate must not reach, and how the
//! source of each crate is ordered and named.
//!
//! The rules between crates are the table in [`rules`]; this file compares them with the output of
//! cargo. Dependencies of tests are free, since users of a crate do not get them. The rules within
//! a crate are in [`crate_source`]. A page of documents follows requests through the layers, and
//! [`request_chains`] holds it against the source.

use std::fs;

use crate::cargo::{cargo, output_of};
use crate::workspace::{self, Member};
use crate::{checkout, sleeps};

pub(crate) use rules::INTERNAL;
use rules::{
    ANY, IMPURE_PACKAGES, INHERITED, INTERNAL_NOTICE, Kind, LEAST_BANS, MODEL_OF_BANS, RUNTIMES,
    UNUSED_IMPURITIES, WITHOUT_RUNTIME, matches, rule_for,
};

mod circles;
mod crate_source;
mod file_names;
mod imports;
mod own_lints;
mod request_chains;
mod rules;
mod sole_users;
mod type_names;

/// Prints every broken rule of this workspace; true if every rule is kept.
pub(crate) fn run() -> bool {
    match problems() {
        Ok(problems) if problems.is_empty() => {
            println!("every crate keeps its layer, and no file breaks a rule");
            true
        }
        Ok(problems) => {
            for problem in &problems {
                println!("layering: {problem}");
            }
            false
        }
        Err(error) => {
            println!("layering: {error}");
            false
        }
    }
}

/// The internal crates that do not say so in their first line.
fn unmarked_internals(members: &[Member]) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for name in INTERNAL {
        let Some(member) = members.iter().find(|member| member.name == *name) else {
            problems.push(format!("{name} is listed as internal, and there is no such crate"));
            continue;
        };
        let path = member.folder.join("src/lib.rs");
        let text = fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if !text.starts_with(INTERNAL_NOTICE) {
            problems.push(format!("{name}: begin src/lib.rs with `{INTERNAL_NOTICE}`"));
        }
    }
    Ok(problems)
}

/// Every broken rule of this workspace.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let members = workspace::members()?;
    let mut problems = broken_arrows(&members);
    problems.extend(sole_users::broken(&members)?);
    problems.extend(request_chains::broken(&members)?);
    problems.extend(unmarked_internals(&members)?);
    problems.extend(sleeps::problems()?);
    let bans = fs::read_to_string(checkout::root().join("crates").join(MODEL_OF_BANS).join("clippy.toml"));
    let bans = bans.as_deref().map(bans_in).unwrap_or_default();
    for ban in LEAST_BANS.iter().filter(|ban| !bans.contains(ban)) {
        problems.push(format!(
            "crates/{MODEL_OF_BANS}/clippy.toml, the model for pure crates, does not ban {ban}"
        ));
    }
    let workspace_manifest = fs::read_to_string(checkout::root().join("Cargo.toml"))
        .map_err(|error| format!("the Cargo.toml of the workspace cannot be read: {error}"))?;
    let files = checkout::files()?;
    for member in &members {
        problems.extend(crate_source::broken(member, &files)?);
        let manifest = fs::read_to_string(member.folder.join("Cargo.toml"))
            .map_err(|error| format!("{}: Cargo.toml cannot be read: {error}", member.name))?;
        problems.extend(not_inherited(&member.name, &manifest));
        if own_lints::has(&member.name) {
            problems.extend(own_lints::differences(&workspace_manifest, &manifest));
        }
        if rule_for(&member.name).is_some_and(|rule| rule.kind == Kind::Pure) {
            let own = fs::read_to_string(member.folder.join("clippy.toml")).unwrap_or_default();
            problems.extend(missing_bans(&member.name, &own, &bans));
            let reached = reached_packages(&tree_of(&member.name)?, IMPURE_PACKAGES);
            problems.extend(
                reached.iter().map(|way| format!("{} is pure and must not reach {way}", member.name)),
            );
        }
        if WITHOUT_RUNTIME.contains(&member.name.as_str()) {
            let reached = reached_packages(&tree_of(&member.name)?, RUNTIMES);
            problems.extend(
                reached
                    .iter()
                    .map(|way| format!("{} needs no runtime and must not reach {way}", member.name)),
            );
        }
    }
    Ok(problems)
}

/// The packages that the crate of that name is built from, each line a depth and a package.
///
/// A tree for each crate rather than one `cargo metadata` for all: the metadata unites the features
/// of the whole workspace, so that a feature the daemon turns on would be charged to a pure crate
/// that never asked for it.
fn tree_of(name: &str) -> Result<String, String> {
    output_of(&mut cargo(&[
        "tree",
        "--package",
        name,
        "--edges",
        "normal",
        "--all-features",
        "--prefix",
        "depth",
        "--format",
        " {p}",
    ]))
}

/// Dependencies that the table does not allow, crates without a rule, and wrong `publish` settings.
fn broken_arrows(members: &[Member]) -> Vec<String> {
    let mut problems = Vec::new();
    for member in members {
        let name = &member.name;
        let Some(rule) = rule_for(name) else {
            problems.push(format!(
                "{name} is in no layer; add it to CRATES in xtask/src/layers/rules.rs and to ARCHITECTURE.md"
            ));
            continue;
        };
        let is_apart = rule.kind == Kind::Apart;
        if is_apart && member.is_published {
            problems.push(format!("{name} is never published; say `publish = false`"));
        }
        if !is_apart && !member.is_published {
            problems.push(format!("{name} is part of the product; remove `publish = false`"));
        }
        if !member.has_description {
            problems.push(format!("{name} has no `description`"));
        }
        for needed in &member.needs {
            let Some(below) = members.iter().find(|other| other.name == *needed) else { continue };
            let is_tool = rule_for(&below.name).is_some_and(|rule| rule.kind == Kind::Apart);
            let is_allowed =
                rule.may_use.iter().any(|allowed| *allowed == ANY && !is_tool || matches(allowed, needed));
            if !is_allowed {
                let allowed = match rule.may_use {
                    [] => "no other crate of the workspace".to_owned(),
                    crates => crates.join(", "),
                };
                problems.push(format!("{name} depends on {needed}; it may depend on {allowed}"));
            }
        }
    }
    problems
}

/// Those of `packages` that are in a dependency tree, each with the way that leads to it. Ways that
/// end in one of [`UNUSED_IMPURITIES`] do not count.
fn reached_packages(tree: &str, packages: &[&str]) -> Vec<String> {
    let mut way: Vec<&str> = Vec::new();
    let mut reached = Vec::new();
    for line in tree.lines() {
        let mut words = line.split_whitespace();
        let (Some(depth), Some(package)) = (words.next().and_then(|depth| depth.parse().ok()), words.next())
        else {
            continue;
        };
        way.truncate(depth);
        way.push(package);
        if packages.contains(&package) && !is_unused(&way) {
            reached.push(format!("{package}: {}", way.join(" -> ")));
        }
    }
    reached
}

/// Whether the last package of a way is there for a part of the one before that is banned.
fn is_unused(way: &[&str]) -> bool {
    let [.., package, brings] = way else { return false };
    UNUSED_IMPURITIES.iter().any(|unused| unused.package == *package && unused.brings == *brings)
}

/// The bans that the `clippy.toml` of the pure crate `name` lacks.
fn missing_bans(name: &str, clippy: &str, bans: &[&str]) -> Vec<String> {
    let own = bans_in(clippy);
    let missing = bans.iter().filter(|ban| !own.contains(ban));
    missing
        .map(|ban| {
            format!("{name} is pure, and its clippy.toml does not ban {ban}; copy crates/{MODEL_OF_BANS}/clippy.toml")
        })
        .collect()
}

/// The paths that a `clippy.toml` bans.
fn bans_in(clippy: &str) -> Vec<&str> {
    let lines = clippy.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once("path = \"")?.1.split('"').next()).collect()
}

/// Fields that the `Cargo.toml` of the crate `name` must inherit from the workspace and does not.
fn not_inherited(name: &str, manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut inherited: Vec<(&str, &str)> = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
        } else if let Some((key, "true")) =
            line.split_once('=').map(|(key, value)| (key.trim(), value.trim()))
            && let Some(field) = key.strip_suffix("workspace")
        {
            inherited.push((section, field.trim_end_matches('.')));
        }
    }
    let required =
        INHERITED.iter().flat_map(|(section, fields)| fields.iter().map(move |field| (*section, *field)));
    let is_own = |field: &(&str, &str)| own_lints::has(name) && field.0 == "lints";
    let missing = required.filter(|field| !is_own(field) && !inherited.contains(field));
    missing
        .map(|(section, field)| {
            let dot = if field.is_empty() { "" } else { "." };
            format!("{name}: [{section}] in its Cargo.toml must say `{field}{dot}workspace = true`")
        })
        .collect()
}

#[cfg(test)]
mod tests;
