//! The sizes of the pages beside their bounds, and what the pages for users promised before they
//! were shortened.
//!
//! Words are counted as `wc -w` does. The generated reference and the changelog are searched by
//! their readers and not read through, so no bound counts them.

use std::fmt::Write as _;
use std::path::Path;

use crate::checkout;

use page::{Page, pages};

mod page;
mod promise_lists;
mod promises;

/// Words of the pages for users, of the pages about the inside, and of `ARCHITECTURE.md` at most.
const USER_WORDS_MAX: usize = 54_000;
const INTERNALS_WORDS_MAX: usize = 27_000;
const ARCHITECTURE_WORDS_MAX: usize = 5_500;

/// Lines of `README.md` at most.
const README_LINES_MAX: usize = 120;

/// Columns of its lines at most, tables and code included: it is read in terminals.
const README_COLUMNS: usize = 80;

/// A number of the pages and its bound.
#[derive(Debug, PartialEq, Eq)]
struct Measure {
    name: &'static str,
    value: usize,
    max: usize,
}

/// Prints the measures and the promises that no page keeps; true when all are within their bounds.
pub(crate) fn run() -> bool {
    let found = pages(checkout::root()).and_then(|pages| {
        let problems = promise_lists::problems(&pages)?;
        Ok((measures(&pages, problems.len()), problems))
    });
    match found {
        Ok((measures, problems)) => {
            print!("{}", table(&measures));
            for problem in &problems {
                println!("{problem}");
            }
            measures.iter().all(|measure| measure.value <= measure.max)
        }
        Err(error) => {
            println!("documents: {error}");
            false
        }
    }
}

/// Prints what the pages for users below a folder promise, one promise a line.
pub(crate) fn print_promises(folder: &str) -> bool {
    match pages(Path::new(folder)) {
        Ok(pages) => {
            for promise in promise_lists::promises_to_users(&pages) {
                println!("{promise}");
            }
            true
        }
        Err(error) => {
            println!("documents: {error}");
            false
        }
    }
}

fn measures(pages: &[Page], lost_promises: usize) -> Vec<Measure> {
    let words = |is_counted: &dyn Fn(&Page) -> bool| {
        pages.iter().filter(|page| is_counted(page)).map(Page::words).sum()
    };
    let readme = pages.iter().find(|page| page.path == "README.md").map_or("", |page| &page.text);
    let readme_wide = readme.lines().filter(|line| line.chars().count() > README_COLUMNS).count();
    vec![
        Measure {
            name: "words: docs/*.md and docs/gateways, for users",
            value: words(&Page::is_for_users),
            max: USER_WORDS_MAX,
        },
        Measure {
            name: "words: docs/internals",
            value: words(&Page::is_about_inside),
            max: INTERNALS_WORDS_MAX,
        },
        Measure {
            name: "words: ARCHITECTURE.md",
            value: words(&|page| page.path == "ARCHITECTURE.md"),
            max: ARCHITECTURE_WORDS_MAX,
        },
        Measure { name: "lines: README.md", value: readme.lines().count(), max: README_LINES_MAX },
        Measure { name: "lines of README.md wider than 80 columns", value: readme_wide, max: 0 },
        Measure {
            name: "lines of prose wider than 100 columns",
            value: pages.iter().map(Page::wide_lines).sum(),
            max: 0,
        },
        Measure { name: "promises to users that no page keeps", value: lost_promises, max: 0 },
    ]
}

fn table(measures: &[Measure]) -> String {
    let mut table = format!("{:<48}{:>8}{:>9}\n", "measure", "now", "at most");
    for Measure { name, value, max } in measures {
        let verdict = if value > max { "  too many" } else { "" };
        let _ = writeln!(table, "{name:<48}{value:>8}{max:>9}{verdict}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn pages_count_by_their_readers() {
        let wide = format!("{} end\n", "word ".repeat(20));
        let pages = [
            page("docs/http.md", "a b c"),
            page("docs/gateways/nginx/README.md", "a b"),
            page("docs/internals/leases.md", "a"),
            page("docs/reference/limits.md", "a b c d e f"),
            page("ARCHITECTURE.md", "a b c d"),
            page("README.md", &format!("a\n\n| {} |\n{wide}", "b".repeat(80))),
        ];
        let values: Vec<usize> = measures(&pages, 7).iter().map(|measure| measure.value).collect();
        assert_eq!(values, [5, 1, 4, 4, 2, 1, 7]);
    }

    #[test]
    fn a_measure_beyond_its_bound_is_marked() {
        let measure = |value| Measure { name: "lines", value, max: 120 };
        assert!(table(&[measure(121)]).ends_with("     121      120  too many\n"));
        assert!(table(&[measure(120)]).ends_with("     120      120\n"));
    }
}
