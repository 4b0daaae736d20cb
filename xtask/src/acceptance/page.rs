//! The page of results: one table for each suite, between two markers.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

use super::figures::Figures;
use super::revision::Revision;
use crate::cargo::output_of;
use crate::checkout;
use crate::step_times::in_words;

/// The page.
pub(super) const PAGE: &str = "docs/internals/acceptance.md";

/// Replaces the table of a suite by these figures. `parts` are how many parts passed, and how many
/// there are.
pub(super) fn write(
    suite: &str,
    figures: &Figures,
    revision: &Revision,
    parts: (usize, usize),
    took: Duration,
) -> Result<(), String> {
    let (passed, count) = parts;
    let of_all = if passed == count { String::new() } else { format!(" of {count}") };
    let outcome = format!("{passed}{of_all} parts in {}.\n\n{}", in_words(took), figures.table());
    write_pass(suite, revision, &outcome)
}

/// Writes that a suite has passed today, and with which outcome.
pub(super) fn write_pass(suite: &str, revision: &Revision, outcome: &str) -> Result<(), String> {
    let today = output_of(Command::new("date").args(["-u", "+%F"]))?;
    let (machine, today) = (machine(), today.trim());
    let pass = format!(
        "`cargo xtask acceptance {suite}` on {machine}, revision {}, {today}:\n{outcome}",
        revision.name
    );
    let page = replaced(&read()?, suite, &pass)
        .ok_or_else(|| format!("{PAGE} has no lines {:?} and {:?}", begin(suite), end(suite)))?;
    fs::write(path(), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// The paragraph that tells the last pass of a suite, as one line: machine, revision, day and
/// outcome; `None` if no pass was written.
pub(super) fn last_pass(page: &str, suite: &str) -> Option<String> {
    let (_, rest) = page.split_once(&begin(suite))?;
    let (text, _) = rest.split_once(&end(suite))?;
    let lines = text.lines().skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}

/// The text of the page.
pub(super) fn read() -> Result<String, String> {
    fs::read_to_string(path()).map_err(|error| format!("{PAGE}: {error}"))
}

fn path() -> PathBuf {
    checkout::root().join(PAGE)
}

pub(super) fn begin(suite: &str) -> String {
    format!("<!-- begin of acceptance {suite} -->")
}

pub(super) fn end(suite: &str) -> String {
    format!("<!-- end of acceptance {suite} -->")
}

/// The page with another text between the markers of a suite; `None` without markers.
pub(super) fn replaced(page: &str, suite: &str, text: &str) -> Option<String> {
    let (begin, end) = (begin(suite), end(suite));
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", text.trim_end()))
}

/// The processor, its cores and the system.
fn machine() -> String {
    let information = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model.trim());
    let cores = available_parallelism().map_or(1, usize::from);
    let system = output_of(Command::new("uname").arg("-sr")).unwrap_or_default();
    let system = if system.is_empty() { std::env::consts::OS.to_owned() } else { shortened(system.trim()) };
    format!("{cores} cores ({model}, {system})")
}

/// A system with the first two numbers of its version.
pub(super) fn shortened(system: &str) -> String {
    let parts: Vec<&str> = system.splitn(3, '.').collect();
    parts[..parts.len().min(2)].join(".")
}
