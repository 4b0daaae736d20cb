//! Lines of code without comments and blank lines, by category and by crate.
//!
//! Rust, Lua, Python and JavaScript are counted, and the lines of Markdown that are not blank.
//! Generated files, policies, pages and styles are not. Tests are the folders `tests` and
//! `examples`, files that only tests and loom models compile, and items under `#[cfg(test)]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::checkout;
use crate::module_tree::ModuleTree;
use crate::workspace::{self, Member};

use rust_source::RustLines;

mod rust_source;

/// Where a line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    Product,
    Simulators,
    Verification,
    Tools,
    Tests,
    Markdown,
}

use Category::{Markdown, Product, Simulators, Tests, Tools, Verification};

const CATEGORIES: [Category; 6] = [Product, Simulators, Verification, Tools, Tests, Markdown];

/// Folders and files that are not of the category of their crate, by the beginning of their paths.
/// A crate is product if it is published, and a tool if not.
const EXCEPTIONS: &[(&str, Category)] = &[
    // Checkers of runs.
    ("crates/tidegate-sim/src/invariants", Verification),
    ("crates/tidegate-sim/src/capacity/judge", Verification),
    ("crates/tidegate-sim/src/fleet/observation.rs", Verification),
    ("crates/tidegate-sim/src/fleet/rule.rs", Verification),
    ("crates/tidegate-sim/src/fleet/watch", Verification),
    ("crates/tidegate-sim/src/overload/ledger.rs", Verification),
    ("crates/tidegate-sim/", Simulators),
    ("crates/tidegate-lab/", Simulators),
    ("crates/tidegate-fuzz/", Verification),
    ("crates/tidegate-store/src/conformance", Verification),
    ("fuzz/", Verification),
    // Fixtures.
    ("crates/tidegate-test-support/", Tests),
    ("docs/", Tests),
    ("examples/", Tests),
];

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Language {
    Rust,
    Lua,
    Python,
    JavaScript,
    Markdown,
}

impl Language {
    /// Those that have a column in the table of categories.
    const OTHERS: [Self; 3] = [Self::Lua, Self::Python, Self::JavaScript];

    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "rs" => Some(Self::Rust),
            "lua" => Some(Self::Lua),
            "py" => Some(Self::Python),
            "cjs" | "js" | "mjs" => Some(Self::JavaScript),
            "md" => Some(Self::Markdown),
            _ => None,
        }
    }

    /// The beginning of a line that is a comment; `None` where every line is read by people.
    fn comment(self) -> Option<&'static str> {
        match self {
            Self::Rust | Self::JavaScript => Some("//"),
            Self::Lua => Some("--"),
            Self::Python => Some("#"),
            Self::Markdown => None,
        }
    }
}

/// Numbers of lines by the name of a crate or folder, by category and by language.
type LineCounts = BTreeMap<(String, Category, Language), usize>;

/// Prints the tables; true unless a file cannot be read.
pub(crate) fn print() -> bool {
    let counted = workspace::members().and_then(|members| {
        let counts = count(&members)?;
        Ok(format!("{}\n{}\n{}", categories(&counts), crates(&counts), public_api()?))
    });
    println!("{}", counted.as_ref().unwrap_or_else(|error| error));
    counted.is_ok()
}

fn count(members: &[Member]) -> Result<LineCounts, String> {
    let mut compiled = BTreeSet::new();
    for member in members {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| member.folder.join(root));
        for root in roots.iter().filter(|root| root.is_file()) {
            compiled.extend(ModuleTree::read(root)?.files);
        }
    }
    let mut counts = LineCounts::new();
    for file in checkout::files()? {
        let Some(language) = Language::of(&file) else { continue };
        let path = checkout::path_from_root(&file);
        let text = fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))?;
        let category = category_of(&path, language, members, &compiled);
        let mut add = |category, lines| {
            *counts.entry((checkout::area_of(&path).to_owned(), category, language)).or_default() += lines;
        };
        if language == Language::Rust {
            let RustLines { code, tests } =
                rust_source::count(&text).map_err(|error| format!("{path}: {error}"))?;
            add(category, code);
            add(Tests, tests);
        } else {
            add(category, lines_in(&text, language));
        }
    }
    Ok(counts)
}

/// The category of a file; `compiled` are the files that the programs and libraries are built of.
fn category_of(path: &str, language: Language, members: &[Member], compiled: &BTreeSet<PathBuf>) -> Category {
    if language == Language::Markdown {
        return Markdown;
    }
    let file = checkout::root().join(path);
    let Some(member) = members.iter().find(|member| file.starts_with(&member.folder)) else {
        return exception(path).unwrap_or(Tools);
    };
    let in_crate = file.strip_prefix(&member.folder).unwrap_or(&file);
    let is_source = in_crate.starts_with("src") && language == Language::Rust;
    let is_test = in_crate.starts_with("tests") || in_crate.starts_with("examples");
    if is_test || is_source && !compiled.contains(&file) {
        return Tests;
    }
    exception(path).unwrap_or(if member.is_published { Product } else { Tools })
}

fn exception(path: &str) -> Option<Category> {
    EXCEPTIONS.iter().find(|(start, _)| path.starts_with(start)).map(|(_, category)| *category)
}

/// Lines that are neither blank nor a comment alone.
fn lines_in(text: &str, language: Language) -> usize {
    let is_comment = |line: &str| language.comment().is_some_and(|marker| line.starts_with(marker));
    text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !is_comment(line)).count()
}

/// The sum of the lines that `is_counted` names.
fn sum(counts: &LineCounts, is_counted: impl Fn(&str, Category, Language) -> bool) -> usize {
    let counted =
        counts.iter().filter(|((name, category, language), _)| is_counted(name, *category, *language));
    counted.map(|(_, lines)| lines).sum()
}

fn categories(counts: &LineCounts) -> String {
    let mut table = format!("{:<24}{:>9}   of these", "category", "lines");
    for language in Language::OTHERS {
        let _ = write!(table, "{:>12}", format!("{language:?}"));
    }
    table.push('\n');
    for category in CATEGORIES {
        let _ = write!(
            table,
            "{:<24}{:>9}           ",
            format!("{category:?}"),
            sum(counts, |_, of, _| of == category)
        );
        for language in Language::OTHERS {
            let _ = write!(table, "{:>12}", sum(counts, |_, of, in_it| of == category && in_it == language));
        }
        table.push('\n');
    }
    table
}

fn crates(counts: &LineCounts) -> String {
    let mut table = format!("{:<24}", "crate or folder");
    for category in CATEGORIES {
        let _ = write!(table, "{:>13}", format!("{category:?}"));
    }
    table.push('\n');
    let names: BTreeSet<&str> = counts.keys().map(|(name, ..)| name.as_str()).collect();
    for name in names {
        let _ = write!(table, "{name:<24}");
        for category in CATEGORIES {
            let _ = write!(table, "{:>13}", sum(counts, |of, in_it, _| of == name && in_it == category));
        }
        table.push('\n');
    }
    table
}

/// The length of the lists of what the libraries promise.
fn public_api() -> Result<String, String> {
    let folder = checkout::root().join("xtask/public-api");
    let unreadable = |error| format!("{}: {error}", folder.display());
    let (mut lists, mut lines) = (0, 0);
    for entry in fs::read_dir(&folder).map_err(unreadable)? {
        let text = fs::read_to_string(entry.map_err(unreadable)?.path()).map_err(unreadable)?;
        lists += 1;
        lines += text.lines().count();
    }
    Ok(format!("public API: {lines} lines in {lists} lists"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_are_no_code() {
        assert_eq!(lines_in("# One.\nx = 1  # two\n\n    # three\n", Language::Python), 1);
        assert_eq!(lines_in("-- One.\nreturn 1\n", Language::Lua), 1);
        assert_eq!(lines_in("# One\n\nTwo.\n", Language::Markdown), 2);
    }

    #[test]
    fn a_file_counts_by_its_crate_its_folder_and_whether_only_tests_compile_it() {
        let members = workspace::members().unwrap();
        let file = checkout::root().join("crates/tidegate-core/src/gate.rs");
        let compiled = BTreeSet::from([file]);
        for (path, language, category) in [
            ("crates/tidegate-core/src/gate.rs", Language::Rust, Product),
            ("crates/tidegate-core/src/gate/tests.rs", Language::Rust, Tests),
            ("crates/tidegate-core/README.md", Language::Markdown, Markdown),
            ("crates/tidegate-store-redis/src/script/main.lua", Language::Lua, Product),
            ("crates/tidegate-store-redis/examples/asks.rs", Language::Rust, Tests),
            ("crates/tidegate-bench/pictures/chart.py", Language::Python, Tools),
            ("fuzz/fuzz_targets/resp.rs", Language::Rust, Verification),
            ("examples/clients/node/client.mjs", Language::JavaScript, Tests),
        ] {
            assert_eq!(category_of(path, language, &members, &compiled), category, "{path}");
        }
    }

    #[test]
    fn every_exception_is_a_file_or_folder() {
        let files = checkout::files().unwrap();
        let paths: Vec<String> = files.iter().map(|file| checkout::path_from_root(file)).collect();
        for (start, _) in EXCEPTIONS {
            assert!(paths.iter().any(|path| path.starts_with(start)), "{start}");
        }
    }

    #[test]
    fn both_tables_add_up_to_the_same_sum() {
        let counts = LineCounts::from([
            (("tidegate-core".to_owned(), Product, Language::Rust), 7),
            (("tidegate-store-redis".to_owned(), Product, Language::Lua), 5),
        ]);
        let categories = categories(&counts);
        assert_eq!(
            categories.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(),
            ["Product", "12", "5", "0", "0"]
        );
        let crates = crates(&counts);
        let rows: Vec<Vec<&str>> =
            crates.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..2], ["tidegate-core", "7"]);
        assert_eq!(rows[1][..2], ["tidegate-store-redis", "5"]);
    }
}
