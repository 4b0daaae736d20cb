//! The public API of every library that promises one, one item a line, held against its committed
//! list: a change that users of a crate would notice shows in the diff of its commit.
//!
//! The list is made of what rustdoc says as JSON. The form of that JSON belongs to one version of
//! Rust, so the version is fixed, as is the version of the crate `public-api` that reads it. The
//! JSON is not stable, which `RUSTC_BOOTSTRAP` allows; nothing else is built that way.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use public_api::Builder;

use crate::cargo::{add_flags, succeeds, target_directory};
use crate::layers::INTERNAL;
use crate::tally::Tally;
use crate::workspace::Member;
use crate::{checkout, prerequisites, workspace};

/// The version of Rust whose rustdoc is asked.
const RUST: &str = "1.95";

/// Where the lists are.
const FOLDER: &str = "xtask/public-api";

/// How many lines of a difference are printed of one crate.
const LINES_SHOWN: usize = 40;

/// The outcome of [`check`], and its reason where the check could not be made.
pub(crate) struct Checked {
    pub(crate) tally: Tally,
    pub(crate) skipped: String,
}

/// Compares the API of each published library with its list.
pub(crate) fn check(members: &[Member], features: &str) -> Checked {
    let mut tally = Tally::default();
    match listed(members, features) {
        Ok(Listing::Skipped(skipped)) => {
            println!("skipped: {skipped}");
            return Checked { tally: Tally::SKIPPED, skipped };
        }
        Ok(Listing::Read(apis)) => {
            for (name, api) in &apis {
                let committed = fs::read_to_string(list_of(name)).unwrap_or_default();
                let difference = difference(&committed, api);
                if !difference.is_empty() {
                    println!("the public API of {name} is not what {FOLDER}/{name}.txt lists:");
                    print!("{difference}");
                    println!(
                        "when this is meant, run `cargo xtask public-api`, and tell users in CHANGELOG.md"
                    );
                }
                tally = tally.plus(Tally::of(difference.is_empty()));
            }
            for stale in stale_lists(&apis) {
                println!("{} belongs to no library that promises its API; remove it", stale.display());
                tally = tally.plus(Tally::FAILED);
            }
        }
        Err(error) => {
            println!("{error}");
            tally = Tally::FAILED;
        }
    }
    Checked { tally, skipped: String::new() }
}

/// Compares the APIs of this workspace with their lists; true if nothing differs.
pub(crate) fn run_check(features: &str) -> bool {
    workspace::with_members(|members| check(members, features).tally.failed == 0)
}

/// Writes the lists anew; false if that cannot be done.
pub(crate) fn write(features: &str) -> bool {
    let written = workspace::members().and_then(|members| match listed(&members, features)? {
        Listing::Skipped(reason) => Err(reason),
        Listing::Read(apis) => {
            let failed = |error: std::io::Error| format!("{FOLDER} cannot be written: {error}");
            fs::create_dir_all(checkout::root().join(FOLDER)).map_err(failed)?;
            for stale in stale_lists(&apis) {
                fs::remove_file(stale).map_err(failed)?;
            }
            apis.iter().try_for_each(|(name, api)| fs::write(list_of(name), api).map_err(failed))
        }
    });
    if let Err(error) = &written {
        println!("{error}");
    }
    written.is_ok()
}

enum Listing {
    /// Each published library by name, with its API.
    Read(Vec<(String, String)>),
    /// Why nothing could be read on this machine.
    Skipped(String),
}

fn listed(members: &[Member], features: &str) -> Result<Listing, String> {
    let mut command = match prerequisites::cargo_of(RUST) {
        Ok(command) => command,
        Err(reason) => return Ok(Listing::Skipped(reason)),
    };
    let folder = target_directory().join("public-api");
    command.args(["doc", "--locked", "--lib", "--no-deps", "--features", features]);
    let promises = |member: &&Member| !INTERNAL.contains(&member.name.as_str());
    let libraries =
        || members.iter().filter(|member| member.is_published && member.has_library()).filter(promises);
    for member in libraries() {
        command.args(["--package", &member.name]);
    }
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &folder);
    add_flags(&mut command, "RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow");
    if !succeeds(&mut command) {
        return Err("rustdoc could not describe the public API".to_owned());
    }
    let api = |member: &Member| {
        let json = folder.join("doc").join(format!("{}.json", member.name.replace('-', "_")));
        let api = Builder::from_rustdoc_json(&json)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()
            .map_err(|error| format!("{}: {error}", json.display()))?;
        let mut text = String::new();
        for item in api.items() {
            let _ = writeln!(text, "{item}");
        }
        Ok((member.name.clone(), text))
    };
    libraries().map(api).collect::<Result<_, String>>().map(Listing::Read)
}

fn list_of(name: &str) -> PathBuf {
    checkout::root().join(FOLDER).join(format!("{name}.txt"))
}

/// Lists of libraries that are gone.
fn stale_lists(apis: &[(String, String)]) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(checkout::root().join(FOLDER)) else { return Vec::new() };
    let is_known = |path: &Path| apis.iter().any(|(name, _)| list_of(name) == *path);
    let mut stale: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| !is_known(path)).collect();
    stale.sort();
    stale
}

/// The lines that only one of the two has, those that are gone with `-` and new ones with `+`;
/// empty if both have the same lines.
///
/// Their order and number do not count: they follow from how the methods of a type are divided
/// between the blocks and files of its crate, which no user of it notices.
fn difference(committed: &str, api: &str) -> String {
    let mut lines = Vec::new();
    for (mark, these, others) in [('-', committed, api), ('+', api, committed)] {
        let mut others: Vec<&str> = others.lines().collect();
        others.sort_unstable();
        let only_here = these.lines().filter(|line| others.binary_search(line).is_err());
        lines.extend(only_here.map(|line| format!("{mark} {line}\n")));
    }
    let left_out = lines.len().saturating_sub(LINES_SHOWN);
    lines.truncate(LINES_SHOWN);
    if left_out > 0 {
        lines.push(format!("  and {left_out} more lines\n"));
    }
    lines.concat()
}
