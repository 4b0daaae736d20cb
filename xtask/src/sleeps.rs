//! Sleeps in tests: each waits for an event or for a clock that a test moves, or says why real time
//! has to pass.
//!
//! The reason stands in a comment within [`LINES_ABOVE`] lines before the call, and begins with
//! [`REASON`]. `cargo xtask layering` refuses a sleep without one; `cargo xtask sleeps` lists all.

use std::fs;
use std::path::{Path, PathBuf};

use crate::checkout;
use crate::workspace::Member;

/// The beginning of the comment.
const REASON: &str = "// Sleeps: ";

/// How far above the call the comment may end.
const LINES_ABOVE: usize = 3;

/// Crates that are tools: they attack, load and measure a running daemon by a schedule.
const TOOLS: &[&str] = &["tidegate-abuse", "tidegate-bench", "tidegate-load", "xtask"];

/// A sleep in a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestSleep {
    /// Path from the root of the checkout, and the line.
    place: String,
    /// The reason in its comment; `None` without one.
    reason: Option<String>,
}

/// Prints every sleep in a test with its reason.
pub(crate) fn list(members: &[Member]) -> Result<(), String> {
    for TestSleep { place, reason } in find(members)? {
        println!("{place}: {}", reason.as_deref().unwrap_or("NO REASON"));
    }
    Ok(())
}

/// A line for each sleep without a reason.
pub(crate) fn problems(members: &[Member]) -> Result<Vec<String>, String> {
    let without = find(members)?.into_iter().filter(|sleep| sleep.reason.is_none());
    Ok(without
        .map(|TestSleep { place, .. }| {
            format!("{place} sleeps in a test; wait for an event, or give the reason in a comment {REASON:?}")
        })
        .collect())
}

fn find(members: &[Member]) -> Result<Vec<TestSleep>, String> {
    let mut sleeps = Vec::new();
    for member in members.iter().filter(|member| !TOOLS.contains(&member.name.as_str())) {
        let mut files = Vec::new();
        for folder in ["src", "tests"] {
            collect(&member.folder.join(folder), &mut files)?;
        }
        files.sort_unstable();
        for file in files {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let path = file.strip_prefix(checkout::root()).unwrap_or(&file);
            sleeps.extend(sleeps_in(&path.display().to_string(), &text));
        }
    }
    Ok(sleeps)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    // A crate without this folder.
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// The sleeps in the tests of a file.
fn sleeps_in(path: &str, text: &str) -> Vec<TestSleep> {
    let is_test_file = path.contains("/tests/") || path.ends_with("/tests.rs");
    let lines: Vec<&str> = text.lines().collect();
    // Tests close a file.
    let tests = if is_test_file { Some(0) } else { lines.iter().position(|line| *line == "mod tests {") };
    let Some(tests) = tests else { return Vec::new() };
    let calls = (tests..lines.len()).filter(|index| is_call(lines[*index]));
    calls
        .map(|index| {
            let above = &lines[index.saturating_sub(LINES_ABOVE)..index];
            let reason = above.iter().rev().find_map(|line| line.trim_start().strip_prefix(REASON));
            TestSleep { place: format!("{path}:{}", index + 1), reason: reason.map(str::to_owned) }
        })
        .collect()
}

/// Whether the line calls a function that sleeps.
fn is_call(line: &str) -> bool {
    let is_comment = line.trim_start().starts_with("//");
    let calls = ["thread::sleep(", "time::sleep(", "time::sleep_until(", " sleep(", "(sleep("];
    !is_comment && !line.contains("fn sleep") && calls.iter().any(|call| line.contains(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_in_a_test_needs_a_reason_and_one_in_the_product_does_not() {
        let product = "fn wait() {\n    std::thread::sleep(PAUSE);\n}\n";
        assert_eq!(sleeps_in("crates/a/src/wait.rs", product), []);
        let place = |place: &str, reason: Option<&str>| TestSleep {
            place: place.to_owned(),
            reason: reason.map(str::to_owned),
        };
        assert_eq!(
            sleeps_in("crates/a/tests/it/wait.rs", product),
            [place("crates/a/tests/it/wait.rs:2", None)]
        );
        let tests =
            format!("{product}mod tests {{\n    // Sleeps: nginx counts.\n    thread::sleep(PAUSE);\n}}\n");
        assert_eq!(
            sleeps_in("crates/a/src/wait.rs", &tests),
            [place("crates/a/src/wait.rs:6", Some("nginx counts."))]
        );
    }

    #[test]
    fn comments_and_declarations_are_no_calls() {
        for line in ["// thread::sleep(x) is not used", "async fn sleep(span: Duration) {", "asleep(x)"] {
            assert!(!is_call(line), "{line}");
        }
        assert!(is_call("    tokio::time::sleep(PAUSE).await;"));
    }
}
