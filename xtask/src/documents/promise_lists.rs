//! The committed lists: what the pages for users promised, and what was left out on purpose.
//!
//! [`PROMISES`] was made by `cargo xtask documents --promises-of FOLDER` from the pages before they
//! were shortened. A promise is kept by any page today, the generated reference included. The
//! others stand in [`LOSSES`], each with the reason.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;

use super::page::Page;
use super::promises::{self, Promise};
use crate::checkout;

/// Lines of `figure FIGURE` or `name NAME`.
const PROMISES: &str = "xtask/documents/promises.txt";

/// Lines of `PROMISE | REASON`.
const LOSSES: &str = "xtask/documents/losses.txt";

/// The promises of the README and of the pages for users.
pub(super) fn promises_to_users(pages: &[Page]) -> BTreeSet<Promise> {
    let for_users = pages.iter().filter(|page| page.is_for_users() || page.path == "README.md");
    for_users.flat_map(|page| promises::of_page(&page.text)).collect()
}

/// A line for each promise that no page keeps and no reason explains, and for each line of the
/// lists that is wrong.
pub(super) fn problems(pages: &[Page]) -> Result<Vec<String>, String> {
    let read = |list: &str| {
        fs::read_to_string(checkout::root().join(list)).map_err(|error| format!("{list}: {error}"))
    };
    Ok(problems_of(pages, &read(PROMISES)?, &read(LOSSES)?))
}

fn problems_of(pages: &[Page], promised: &str, lost: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut listed = BTreeSet::new();
    for line in entries(promised) {
        match Promise::parse(line) {
            Some(promise) => drop(listed.insert(promise)),
            None => problems.push(format!("{PROMISES}: neither `figure` nor `name`: {line}")),
        }
    }
    let mut losses = BTreeMap::new();
    for line in entries(lost) {
        let entry = line.split_once(" | ").and_then(|(promise, reason)| {
            let promise = Promise::parse(promise)?;
            (!reason.trim().is_empty()).then_some((promise, reason))
        });
        match entry {
            Some((promise, _)) if !listed.contains(&promise) => {
                problems.push(format!("{LOSSES}: not in {PROMISES}: {promise}"));
            }
            Some((promise, reason)) => drop(losses.insert(promise, reason)),
            None => problems.push(format!("{LOSSES}: no `PROMISE | REASON`: {line}")),
        }
    }
    let kept = KeptPromises::of(pages);
    for promise in listed.iter().filter(|promise| !kept.contains(promise) && !losses.contains_key(promise)) {
        problems.push(format!("no page has {promise}; say it again, or give the reason in {LOSSES}"));
    }
    problems
}

/// The lines of a list without its comments.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The texts and figures of the pages today.
struct KeptPromises {
    figures: HashSet<String>,
    /// All texts, with one blank for each run of white space.
    text: String,
}

impl KeptPromises {
    fn of(pages: &[Page]) -> Self {
        let mut text = String::new();
        let mut figures = HashSet::new();
        for page in pages {
            figures.extend(promises::figures_in(&page.text.replace('`', " ")));
            for word in page.text.split_whitespace() {
                text.extend([word, " "]);
            }
        }
        Self { figures, text }
    }

    fn contains(&self, promise: &Promise) -> bool {
        match promise {
            Promise::Figure(figure) => self.figures.contains(figure),
            Promise::Name(name) => self.text.match_indices(name.as_str()).any(|(at, _)| {
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
                let before = self.text[..at].ends_with(is_part) && name.starts_with(is_part);
                let after = self.text[at + name.len()..].starts_with(is_part) && name.ends_with(is_part);
                !before && !after
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_with(page: &str, promised: &str, lost: &str) -> Vec<String> {
        let page = Page { path: "docs/http.md".to_owned(), text: page.to_owned() };
        problems_of(&[page], promised, lost)
    }

    #[test]
    fn a_promise_is_kept_by_any_page_or_lost_with_a_reason() {
        let promised = "# Comment.\n\nfigure 64 KiB\nname wait_ms\n";
        let page = "`wait_ms` takes\nat most 64\nKiB.\n";
        assert_eq!(problems_with(page, promised, ""), [""; 0]);
        let lost =
            "no page has figure 64 KiB; say it again, or give the reason in xtask/documents/losses.txt";
        assert_eq!(problems_with("`wait_ms`", promised, ""), [lost]);
        assert_eq!(problems_with("`wait_ms`", promised, "figure 64 KiB | measured anew\n"), [""; 0]);
        assert_eq!(problems_with("`wait_ms_max`, 64 KiB", promised, "").len(), 1, "a longer name is another");
    }

    #[test]
    fn a_loss_was_promised_and_has_a_reason() {
        let promised = "name wait_ms\n";
        for (lost, problem) in [
            (
                "name wait | shorter\n",
                "xtask/documents/losses.txt: not in xtask/documents/promises.txt: name wait",
            ),
            ("name wait_ms |  \n", "xtask/documents/losses.txt: no `PROMISE | REASON`: name wait_ms |  "),
            ("name wait_ms\n", "xtask/documents/losses.txt: no `PROMISE | REASON`: name wait_ms"),
        ] {
            assert_eq!(problems_with("wait_ms", promised, lost), [problem]);
        }
        assert_eq!(
            problems_with("", "wait\n", ""),
            ["xtask/documents/promises.txt: neither `figure` nor `name`: wait"]
        );
    }
}
