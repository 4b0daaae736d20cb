//! Sleeps in tests: each waits for an event or for a clock that a test moves, or says why real time
//! has to pass.
//!
//! The reason stands in a comment within [`LINES_ABOVE`] lines before the call, and begins with
//! [`REASON`]. One that begins with [`PAUSED_CLOCK`] passes no real time. The others stand with
//! their reasons in [`LIST`] too, at most [`REAL_SLEEPS_MAX`]. `cargo xtask layering` refuses a
//! sleep without a reason and a list that differs from the code; `cargo xtask sleeps` prints all.

use std::fs;

use crate::checkout;

/// The beginning of the comment.
const REASON: &str = "// Sleeps: ";

/// How far above the call the comment may end.
const LINES_ABOVE: usize = 3;

/// The beginning of the reason of a sleep on a clock that moves when nothing else is to be done.
const PAUSED_CLOCK: &str = "on tokio's paused clock";

/// Real sleeps, from the root of the checkout: lines of `FILE: REASON`.
const LIST: &str = "xtask/sleeps.txt";

/// How many real sleeps the tests may have.
const REAL_SLEEPS_MAX: usize = 20;

/// Crates that are tools: they attack, load and measure a running daemon by a schedule.
const TOOLS: &[&str] = &["tidegate-bench", "tidegate-blackbox"];

/// The crate of fixtures, all of which is code of tests.
const FIXTURES: &str = "crates/tidegate-test-support/src/";

/// A sleep in a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestSleep {
    /// Path from the root of the checkout.
    file: String,
    /// From 1.
    line: usize,
    /// The reason in its comment; `None` without one.
    reason: Option<String>,
}

/// Prints every sleep in a test with its reason.
pub(crate) fn list() -> Result<(), String> {
    for TestSleep { file, line, reason } in find()? {
        println!("{file}:{line}: {}", reason.as_deref().unwrap_or("NO REASON"));
    }
    Ok(())
}

/// A line for each sleep without a reason, and for each difference from the list.
pub(crate) fn problems() -> Result<Vec<String>, String> {
    let listed = fs::read_to_string(checkout::root().join(LIST))
        .map_err(|error| format!("{LIST} cannot be read: {error}"))?;
    Ok(problems_of(&find()?, &listed))
}

fn problems_of(sleeps: &[TestSleep], listed: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut listed: Vec<&str> =
        listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut real = 0;
    for TestSleep { file, line, reason } in sleeps {
        let Some(reason) = reason else {
            problems.push(format!(
                "{file}:{line} sleeps in a test; wait for an event, or give the reason in a comment {REASON:?}"
            ));
            continue;
        };
        if reason.starts_with(PAUSED_CLOCK) {
            continue;
        }
        real += 1;
        let entry = format!("{file}: {reason}");
        if let Some(position) = listed.iter().position(|one| *one == entry) {
            listed.remove(position);
        } else {
            problems.push(format!("{file}:{line} sleeps in real time; add to {LIST}: {entry}"));
        }
    }
    problems.extend(listed.iter().map(|entry| format!("{LIST} has a sleep that no test has: {entry}")));
    if real > REAL_SLEEPS_MAX {
        problems.push(format!("the tests have {real} real sleeps, allowed are {REAL_SLEEPS_MAX}"));
    }
    problems
}

fn find() -> Result<Vec<TestSleep>, String> {
    let mut sleeps = Vec::new();
    for file in checkout::files()? {
        let path = checkout::path_from_root(&file);
        let is_looked_at = path.starts_with("crates/")
            && (path.contains("/src/") || path.contains("/tests/"))
            && file.extension().is_some_and(|extension| extension == "rs")
            && !TOOLS.contains(&checkout::area_of(&path));
        if is_looked_at {
            let text = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
            sleeps.extend(sleeps_in(&path, &text));
        }
    }
    Ok(sleeps)
}

/// The sleeps in the tests of a file.
fn sleeps_in(path: &str, text: &str) -> Vec<TestSleep> {
    let is_test_file = path.contains("/tests/") || path.ends_with("/tests.rs") || path.starts_with(FIXTURES);
    let lines: Vec<&str> = text.lines().collect();
    // Tests close a file.
    let tests = if is_test_file { Some(0) } else { lines.iter().position(|line| *line == "mod tests {") };
    let Some(tests) = tests else { return Vec::new() };
    let calls = (tests..lines.len()).filter(|index| is_call(lines[*index]));
    calls
        .map(|index| {
            let above = &lines[index.saturating_sub(LINES_ABOVE)..index];
            let reason = above.iter().rev().find_map(|line| line.trim_start().strip_prefix(REASON));
            TestSleep { file: path.to_owned(), line: index + 1, reason: reason.map(str::to_owned) }
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
        assert_eq!(
            sleeps_in("crates/a/tests/it/wait.rs", product),
            [sleep("crates/a/tests/it/wait.rs", 2, None)]
        );
        let tests =
            format!("{product}mod tests {{\n    // Sleeps: nginx counts.\n    thread::sleep(PAUSE);\n}}\n");
        assert_eq!(
            sleeps_in("crates/a/src/wait.rs", &tests),
            [sleep("crates/a/src/wait.rs", 6, Some("nginx counts."))]
        );
    }

    fn sleep(file: &str, line: usize, reason: Option<&str>) -> TestSleep {
        TestSleep { file: file.to_owned(), line, reason: reason.map(str::to_owned) }
    }

    #[test]
    fn a_real_sleep_stands_in_the_list_once_for_each_call() {
        let sleeps = [
            sleep("a.rs", 1, Some("nginx counts.")),
            sleep("a.rs", 9, Some("nginx counts.")),
            sleep("b.rs", 3, Some("on tokio's paused clock, no real time passes.")),
        ];
        let once = "# A comment.\n\na.rs: nginx counts.\n";
        assert_eq!(problems_of(&sleeps[1..], once), [""; 0]);
        assert_eq!(
            problems_of(&sleeps, once),
            ["a.rs:9 sleeps in real time; add to xtask/sleeps.txt: a.rs: nginx counts."]
        );
        assert_eq!(
            problems_of(&sleeps[2..], once),
            ["xtask/sleeps.txt has a sleep that no test has: a.rs: nginx counts."]
        );
    }

    #[test]
    fn real_sleeps_are_bounded_whatever_the_list_has() {
        let sleeps = vec![sleep("a.rs", 1, Some("nginx counts.")); REAL_SLEEPS_MAX + 1];
        let listed = "a.rs: nginx counts.\n".repeat(REAL_SLEEPS_MAX + 1);
        assert_eq!(problems_of(&sleeps, &listed), ["the tests have 21 real sleeps, allowed are 20"]);
        assert_eq!(problems_of(&sleeps[1..], &listed[20..]), [""; 0]);
    }

    #[test]
    fn comments_and_declarations_are_no_calls() {
        for line in ["// thread::sleep(x) is not used", "async fn sleep(span: Duration) {", "asleep(x)"] {
            assert!(!is_call(line), "{line}");
        }
        assert!(is_call("    tokio::time::sleep(PAUSE).await;"));
    }
}
