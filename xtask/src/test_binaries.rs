//! The test binaries of the workspace: their names, and how long each of them runs.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use crate::step_times::StepTimes;

/// Reads what cargo prints while it builds test binaries and runs them.
#[derive(Debug, Default)]
pub(crate) struct TestBinaries {
    /// Package and target of each executable, by the name of its file, which ends in a hash.
    names: HashMap<String, String>,
    /// The times of the build and of the binaries that have run.
    pub(crate) times: StepTimes,
}

impl TestBinaries {
    /// Takes a line of `cargo test --no-run --message-format json`.
    pub(crate) fn read_built(&mut self, line: &str) {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return };
        let folder = message["manifest_path"].as_str().and_then(|path| Path::new(path).parent()?.file_name());
        if let (Some(executable), Some(folder), Some(target)) =
            (message["executable"].as_str(), folder, message["target"]["name"].as_str())
            && let Some(file) = file_name(executable)
        {
            // The folder of a crate is the name of its package.
            let folder = folder.to_string_lossy();
            let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
            let name = match kind {
                "lib" => format!("{folder}, unit tests"),
                _ => format!("{folder}, {kind} {target}"),
            };
            self.names.insert(file.to_owned(), name);
        }
    }

    /// Takes a line that `cargo test` printed on standard error at `now`.
    pub(crate) fn read(&mut self, line: &str, now: Instant) {
        let line = without_colours(line);
        let line = line.trim_start();
        if let Some(library) = line.strip_prefix("Doc-tests ") {
            self.times.begin(format!("{}, examples in the documentation", library.trim()), now);
        } else if let Some(binary) = line.strip_prefix("Running ")
            && let Some((source, path)) =
                binary.trim_end().strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
        {
            let name = file_name(path).and_then(|file| self.names.get(file)).cloned();
            self.times.begin(name.unwrap_or_else(|| source.to_owned()), now);
        }
    }
}

fn file_name(path: &str) -> Option<&str> {
    Path::new(path).file_name()?.to_str()
}

/// The line without terminal escapes, which cargo writes where its output has colours.
fn without_colours(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut parts = line.split('\u{1b}');
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        // `[1m`: the escape ends with its first letter.
        text.push_str(
            part.split_once(|letter: char| letter.is_ascii_alphabetic()).map_or("", |(_, rest)| rest),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BUILT: &str = r#"{"reason":"compiler-artifact","manifest_path":"/checkout/crates/tidegate-cli/Cargo.toml",
        "target":{"kind":["test"],"name":"it"},"executable":"/checkout/target/debug/deps/it-0123456789abcdef"}"#;

    fn slowest(lines: &[(&str, u64)]) -> String {
        let start = Instant::now();
        let mut binaries = TestBinaries::default();
        binaries.read_built(BUILT);
        for (line, seconds) in lines {
            binaries.read(line, start + Duration::from_secs(*seconds));
        }
        binaries.times.end(start + Duration::from_mins(1));
        binaries.times.slowest(10)
    }

    #[test]
    fn a_binary_is_named_by_its_package_and_its_time_ends_with_the_next() {
        let lines = [
            ("     Running tests/it/main.rs (target/debug/deps/it-0123456789abcdef)", 10),
            ("running 3 tests", 10),
            ("test result: ok. 3 passed", 14),
            ("   Doc-tests tidegate_engine", 15),
        ];
        assert_eq!(
            slowest(&lines),
            "   45.0 s   tidegate_engine, examples in the documentation\n    5.0 s   tidegate-cli, test it\n"
        );
    }

    #[test]
    fn colours_and_binaries_that_were_not_announced_are_read_too() {
        let lines =
            [("\u{1b}[1m\u{1b}[32m     Running\u{1b}[0m unittests src/lib.rs (/elsewhere/deps/x-01)", 30)];
        assert_eq!(slowest(&lines), "   30.0 s   unittests src/lib.rs\n");
    }

    #[test]
    fn output_of_tests_is_not_taken_for_the_start_of_a_binary() {
        assert_eq!(slowest(&[("Running late", 1), ("not JSON", 2)]), "");
    }
}
