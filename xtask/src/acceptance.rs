//! Acceptance suites: checks that take minutes and are no part of the gate.
//!
//! A suite that is divided into parts can be interrupted: each finished part is kept in a file
//! below `target/acceptance`, by suite and revision, and a second call goes on with the next part.
//! When all parts have passed, the figures are written as a table into
//! `docs/internals/acceptance.md`.

mod daemon;
mod figures;
mod page;
mod part;
mod progress;
mod revision;
mod suites;
mod watched;

use std::fmt::Write;
use std::time::Instant;

use self::daemon::Needs;
use self::part::Part;
use self::progress::Progress;
use self::suites::{PartedSuite, SUITES, Suite, SuiteKind};
use crate::cargo::target_directory;
use crate::step_times::in_words;

/// Runs the suite that `arguments` begin with, with the rest of them; without any, lists the
/// suites. `None` when there is no suite of that name.
pub(crate) fn run(arguments: &[&str]) -> Option<bool> {
    let [name, rest @ ..] = arguments else {
        print!("{}", list());
        return Some(true);
    };
    let suite = SUITES.iter().find(|suite| suite.name == *name)?;
    let passed = match &suite.kind {
        SuiteKind::Daemon { subcommand } => daemon::run(suite.name, subcommand, Needs::Binary, rest),
        SuiteKind::Artifacts { subcommand } => daemon::run(suite.name, subcommand, Needs::Artifacts, rest),
        SuiteKind::Parted(parted) => {
            Options::read(rest).and_then(|options| run_parts(suite, parted, options))
        }
    };
    Some(passed.unwrap_or_else(|error| {
        eprintln!("acceptance {name}: {error}");
        false
    }))
}

fn list() -> String {
    let mut text = String::from("usage: cargo xtask acceptance SUITE [OPTIONS]\n\n");
    for Suite { name, takes, about, .. } in SUITES {
        let _ = writeln!(text, "  {name:<13}{takes:<17}{about}");
    }
    text.push_str(
        "\nTimes are those of two idle cores, builds excluded. Suites other than abuse, metering, overload, packages, quota and reproduction go on where they \
         were interrupted\nand write a table into docs/internals/acceptance.md when they have passed.\n\n  --fresh   begin anew\n  \
         --so-far  write the table of the finished parts and run nothing\n\nWithout --binary PATH, abuse, metering, overload and quota build \
         the daemon first, with the profile dist;\nwithout --artifacts FOLDER, packages and reproduction run `cargo xtask dist` first.\n",
    );
    text
}

/// The last pass of each suite, a line each: machine, revision and day.
pub(crate) fn last_passes() -> String {
    let page = page::read().unwrap_or_else(|error| {
        println!("{error}");
        String::new()
    });
    let mut text = String::from("acceptance suites, which this command does not run, and their last pass:\n");
    for Suite { name, .. } in SUITES {
        let pass = page::last_pass(&page, name).unwrap_or_else(|| "no pass on record".to_owned());
        let _ = writeln!(text, "  {name:<13}{pass}");
    }
    text
}

/// The options of a suite that is divided into parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    is_fresh: bool,
    is_so_far: bool,
}

impl Options {
    fn read(arguments: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            match *argument {
                "--fresh" => options.is_fresh = true,
                "--so-far" => options.is_so_far = true,
                other => return Err(format!("unknown option {other:?}; use --fresh or --so-far")),
            }
        }
        Ok(options)
    }
}

/// Runs the parts that have not passed yet, and writes the table once all have.
fn run_parts(suite: &Suite, parted: &PartedSuite, options: Options) -> Result<bool, String> {
    (parted.check_tools)()?;
    let revision = revision::of_checkout()?;
    let parts = (parted.parts)()?;
    let folder = target_directory().join("acceptance");
    let file = folder.join(format!("{}-{}.json", suite.name, revision.key));
    let mut progress = if options.is_fresh { Progress::new(file) } else { Progress::open(file)? };
    let names: Vec<_> = parts.iter().map(|part| part.name.as_str()).collect();
    progress.keep_only(&names);
    if progress.count() > 0 {
        println!("{}: {} of {} parts passed before", suite.name, progress.count(), parts.len());
    }
    let mut failed = Vec::new();
    if !options.is_so_far {
        let log = folder.join(format!("{}.log", suite.name));
        for part in &parts {
            if progress.has(&part.name) {
                continue;
            }
            if revision::of_checkout()?.key != revision.key {
                return Err("the sources have changed; run it again for their new revision".to_owned());
            }
            let line = || progress_line(suite.name, part, &progress, parts.len());
            let began = Instant::now();
            match part.run(&log, line) {
                Ok(figures) => progress.finish(&part.name, began.elapsed(), figures)?,
                Err(error) => {
                    println!("{}: {} FAILED: {error}", suite.name, part.name);
                    failed.push(part.name.clone());
                }
            }
        }
        if !failed.is_empty() {
            println!("{}: failed: {}; the output is in {}", suite.name, failed.join(", "), log.display());
            return Ok(false);
        }
    }
    if progress.count() == 0 {
        return Err(format!(
            "no part has passed at this revision, whose parts are in {}",
            progress.file().display()
        ));
    }
    let figures = progress.figures();
    print!("\n{}", figures.table());
    let wrong = parted.expectation.violations(&figures);
    if !wrong.is_empty() {
        for line in wrong {
            println!("{}: {line}", suite.name);
        }
        return Ok(false);
    }
    let parts_passed = (progress.count(), parts.len());
    page::write(suite.name, &figures, &revision, parts_passed, progress.took())?;
    println!("written to {}", page::PAGE);
    Ok(true)
}

/// The line that is printed every ten seconds.
fn progress_line(suite: &str, part: &Part, progress: &Progress, count: usize) -> String {
    let (done, took) = (progress.count(), progress.took());
    let left = count - done;
    let about = match u32::try_from(done) {
        Ok(done @ 1..) => {
            let left = took / done * u32::try_from(left).unwrap_or(u32::MAX);
            format!(", about {} left", in_words(left))
        }
        _ => String::new(),
    };
    format!("{suite}: {done} of {count} parts in {}{about}; now {}", in_words(took), part.name)
}

#[cfg(test)]
mod tests;
