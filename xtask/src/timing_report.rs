//! The table of `cargo xtask test --timings`: what each crate costs to compile in each build, what
//! each program costs to link and to run, and which tests are slowest.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::cargo::target_directory;
use crate::test_jobs::FinishedJob;
use crate::workspace_build::TestProgram;

/// How many tests are listed.
const TESTS_LISTED: usize = 20;

/// Crates that take less than this in all builds together share a row.
const CRATE_LISTED_MIN: Duration = Duration::from_secs(1);

/// The times of one run.
#[derive(Debug)]
pub(crate) struct TimingReport {
    /// Below `target`: where the linker writes its times, and the table goes.
    folder: PathBuf,
    /// By the name of the crate: the time of its compilations in each build.
    compiled: BTreeMap<String, BTreeMap<&'static str, Duration>>,
    builds: Vec<&'static str>,
    /// The names of test programs by the file that the linker writes.
    programs: BTreeMap<String, String>,
    jobs: Vec<(String, Duration)>,
    tests: Vec<(String, Duration)>,
}

impl TimingReport {
    /// A report without times. Times of the linker from a run before are removed.
    pub(crate) fn begin() -> Self {
        let folder = target_directory().join("timings");
        let report = Self {
            folder,
            compiled: BTreeMap::new(),
            builds: Vec::new(),
            programs: BTreeMap::new(),
            jobs: Vec::new(),
            tests: Vec::new(),
        };
        if let Err(error) = fs::create_dir_all(&report.folder) {
            println!("{}: {error}", report.folder.display());
        }
        let _ = fs::remove_file(report.link_times());
        report
    }

    /// The file for the times of the linker.
    pub(crate) fn link_times(&self) -> PathBuf {
        self.folder.join("link-times.txt")
    }

    /// Takes the times of the build of `programs` that has just ended, from the page that cargo
    /// writes.
    pub(crate) fn add_build(&mut self, name: &'static str, programs: &[TestProgram]) {
        for program in programs {
            let file = program.executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.programs.insert(file, format!("{}, {name}", program.name));
        }
        let page = target_directory().join("cargo-timings/cargo-timing.html");
        self.builds.push(name);
        match fs::read_to_string(&page) {
            Ok(text) => {
                for (unit, took) in units(&text) {
                    let of_crate = self.compiled.entry(unit).or_default();
                    *of_crate.entry(name).or_default() += took;
                }
            }
            Err(error) => println!("{}: {error}", page.display()),
        }
    }

    /// Takes the times of jobs and of their tests.
    pub(crate) fn add_jobs(&mut self, jobs: &[FinishedJob]) {
        for job in jobs {
            self.jobs.push((job.name.clone(), job.took));
            let tests = job.tests.iter().map(|(test, took)| (format!("{}: {test}", job.name), *took));
            self.tests.extend(tests);
        }
    }

    /// Writes the table below `target` and says where it is.
    pub(crate) fn write(&self) {
        let linked = fs::read_to_string(self.link_times()).unwrap_or_default();
        let file = self.folder.join("timings.md");
        match fs::write(&file, self.text(&linked)) {
            Ok(()) => println!("\ntimes are in {}", file.display()),
            Err(error) => println!("{}: {error}", file.display()),
        }
    }

    fn text(&self, linked: &str) -> String {
        let mut text = String::from("| compiled, seconds |");
        self.builds.iter().for_each(|build| {
            let _ = write!(text, " {build} |");
        });
        text.push_str("\n|---|");
        text.push_str(&"--:|".repeat(self.builds.len()));
        let sum = |builds: &BTreeMap<&str, Duration>| builds.values().sum::<Duration>();
        let (mut crates, quick): (Vec<_>, Vec<_>) =
            self.compiled.iter().partition(|(_, builds)| sum(builds) >= CRATE_LISTED_MIN);
        crates.sort_by_key(|(_, builds)| std::cmp::Reverse(sum(builds)));
        let mut row = |name: &str, time_in: &dyn Fn(&str) -> Option<Duration>| {
            let _ = write!(text, "\n| {name} |");
            for build in &self.builds {
                let took = time_in(build).map(|took| format!("{:.1}", took.as_secs_f64()));
                let _ = write!(text, " {} |", took.unwrap_or_default());
            }
        };
        for (name, builds) in crates {
            row(name, &|build| builds.get(build).copied());
        }
        if !quick.is_empty() {
            let name = format!("{} crates below a second", quick.len());
            row(&name, &|build| Some(quick.iter().filter_map(|(_, builds)| builds.get(build)).sum()));
        }
        let program = |file: String| self.programs.get(&file).cloned().unwrap_or(file);
        let linked = linked.lines().filter_map(link_time).map(|(file, took)| (program(file), took));
        let linked: Vec<(String, Duration)> = linked.collect();
        for (title, times, count) in [
            ("linked", &linked, usize::MAX),
            ("run", &self.jobs, usize::MAX),
            ("slowest tests", &self.tests, TESTS_LISTED),
        ] {
            let mut times: Vec<_> = times.iter().collect();
            times.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
            let _ = write!(text, "\n\n| {title} | seconds |\n|---|--:|");
            for (name, took) in times.into_iter().take(count) {
                let _ = write!(text, "\n| {name} | {:.1} |", took.as_secs_f64());
            }
        }
        text.push('\n');
        text
    }
}

/// Crates and times of the compilations in cargo's page, which holds them as a list in JSON.
fn units(page: &str) -> Vec<(String, Duration)> {
    let list = page.split_once("const UNIT_DATA = ").and_then(|(_, rest)| Some(rest.split_once("];")?.0));
    let units: Vec<Value> =
        list.and_then(|list| serde_json::from_str(&format!("{list}]")).ok()).unwrap_or_default();
    let time = |unit: &Value| Duration::try_from_secs_f64(unit["duration"].as_f64()?).ok();
    units.iter().filter_map(|unit| Some((unit["name"].as_str()?.to_owned(), time(unit)?))).collect()
}

/// A line that the linker wrote: milliseconds, and the file without its folder.
fn link_time(line: &str) -> Option<(String, Duration)> {
    let (milliseconds, path) = line.split_once(' ')?;
    let file = Path::new(path).file_name()?.to_str()?;
    Some((file.to_owned(), Duration::from_millis(milliseconds.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_of_a_build_are_read_from_the_page_of_cargo() {
        let page = r#"x const UNIT_DATA = [{"name":"a","duration":1.5},{"name":"b","duration":0.25}]; y"#;
        let millis = |(name, took): (String, Duration)| (name, took.as_millis());
        let found: Vec<_> = units(page).into_iter().map(millis).collect();
        assert_eq!(found, [("a".to_owned(), 1500), ("b".to_owned(), 250)]);
        assert_eq!(units("another page"), []);
    }

    #[test]
    fn the_table_lists_builds_side_by_side_and_the_slowest_first() {
        let seconds = Duration::from_secs;
        let of = |name: &str, took| (name.to_owned(), seconds(took));
        let report = TimingReport {
            folder: PathBuf::new(),
            compiled: BTreeMap::from([
                ("core".to_owned(), BTreeMap::from([("programs", seconds(3)), ("loom", seconds(2))])),
                ("wire".to_owned(), BTreeMap::from([("programs", seconds(9))])),
                ("http".to_owned(), BTreeMap::from([("loom", Duration::from_millis(500))])),
                ("itoa".to_owned(), BTreeMap::from([("loom", Duration::from_millis(200))])),
            ]),
            builds: vec!["programs", "loom"],
            programs: BTreeMap::from([("it-0123".to_owned(), "wire, test it, programs".to_owned())]),
            jobs: vec![of("quick", 1), of("slow", 2)],
            tests: vec![of("slow: a_test", 2)],
        };
        let expected = "\
| compiled, seconds | programs | loom |
|---|--:|--:|
| wire | 9.0 |  |
| core | 3.0 | 2.0 |
| 2 crates below a second | 0.0 | 0.7 |

| linked | seconds |
|---|--:|
| wire, test it, programs | 1.2 |
| axum-0456 | 0.3 |

| run | seconds |
|---|--:|
| slow | 2.0 |
| quick | 1.0 |

| slowest tests | seconds |
|---|--:|
| slow: a_test | 2.0 |
";
        assert_eq!(
            report.text("300 /debug/examples/axum-0456\n1200 /debug/deps/it-0123\nhalf a li"),
            expected
        );
    }
}
