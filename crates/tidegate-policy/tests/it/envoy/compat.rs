//! `docs/compat.md` names a test for each thing it says, and each of them exists.

use std::path::{Path, PathBuf};

#[expect(clippy::disallowed_methods, reason = "the test, and not the crate, reads the document")]
fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn sources(folder: &Path, found: &mut String) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push_str(&text_of(&path));
        }
    }
}

#[test]
fn every_test_that_the_page_of_compatibility_names_exists() {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect();
    let page = text_of(&root.join("docs/compat.md"));
    let mut code = String::new();
    sources(&root.join("crates"), &mut code);
    let (mut count, mut is_of_tests) = (0, false);
    for line in page.lines() {
        let Some(row) = line.strip_suffix('|').filter(|_| line.starts_with('|')) else {
            is_of_tests = false;
            continue;
        };
        // Tests are named in the last cell of a row, in tables that say so.
        let cell = row.rsplit('|').next().unwrap_or_default().trim();
        if cell == "test" {
            is_of_tests = true;
        } else if is_of_tests && !cell.starts_with("---") {
            let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty(), "docs/compat.md names no test: {line}");
            for name in names {
                count += 1;
                assert!(
                    code.contains(&format!("fn {name}(")),
                    "docs/compat.md names {name}, which is no test: {line}"
                );
            }
        }
    }
    assert!(count >= 60, "{count} tests are named");
}
