//! The page of results: one table for each suite, between two markers.

use std::fs;
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Duration;

use super::figures::Figures;
use super::revision::Revision;
use crate::cargo::output_of;
use crate::checkout;

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
    let path = checkout::root().join(PAGE);
    let failed = |error| format!("{PAGE}: {error}");
    let page = fs::read_to_string(&path).map_err(failed)?;
    let (passed, count) = parts;
    let of_all = if passed == count { String::new() } else { format!(" of {count}") };
    let text = format!(
        "`cargo xtask acceptance {suite}` on {}, revision {}: {passed}{of_all} parts in {}.\n\n{}",
        machine(),
        revision.name,
        in_words(took),
        figures.table()
    );
    let page = replaced(&page, suite, &text)
        .ok_or_else(|| format!("{PAGE} has no lines {:?} and {:?}", begin(suite), end(suite)))?;
    fs::write(&path, page).map_err(failed)
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

/// A time as people read it.
pub(super) fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
