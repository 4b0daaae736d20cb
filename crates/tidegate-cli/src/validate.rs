//! `tidegate validate`.

mod ratelimit;
mod store;

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use tidegate_policy::{Checked, Comparison, Problem, Problems, compare};

use crate::arguments::Validate;
use crate::exit::{Exit, complain, ended};
use crate::policy_file::{self, NoPolicy};
use ratelimit::{Given, given};
use store::StoreUse;

#[derive(Debug, Default, Serialize)]
struct Verdict<'a> {
    valid: bool,
    /// Of both files, where there are two; each says of which.
    problems: Vec<&'a Problem>,
    /// Whether there were so many problems that looking for more was stopped.
    truncated: bool,
    /// Of the configuration itself, not of the one it is compared with.
    warnings: &'a [Problem],
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<&'a Comparison>,
    /// Where a daemon keeps what it counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreUse>,
    /// For files of envoyproxy/ratelimit: what is not as there.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<&'a [Problem]>,
}

pub(crate) fn run(arguments: &Validate) -> Exit {
    match given(&arguments.file) {
        Ok(Given::Files(files)) => return ratelimit::run(arguments, &files),
        Ok(Given::Policy) => {}
        Err(error) => {
            complain(format_args!("cannot read {}: {error}", arguments.file.display()));
            return Exit::Unreadable;
        }
    }
    let Ok(new) = read(&arguments.file) else { return Exit::Unreadable };
    let old = match arguments.against.as_deref().map(read) {
        Some(Err(Unreadable)) => return Exit::Unreadable,
        Some(Ok(old)) => Some(old),
        None => None,
    };
    let (exit, written) = match (&new, &old) {
        (Ok(new), None | Some(Ok(_))) => match ratelimit::of_policy(&new.policy, arguments) {
            Ok(files) => {
                let old = old.as_ref().and_then(|old| old.as_ref().ok());
                let comparison = old.map(|old| compare(&old.policy, &new.policy));
                let store = StoreUse::of_policy(&new.policy, files.as_ref());
                (Exit::Done, write_valid(arguments, new, store, comparison.as_ref()))
            }
            Err(problems) => (Exit::Problems, write_problems(arguments, &[&problems])),
        },
        (new, old) => {
            let found: Vec<&Problems> = [new.as_ref().err(), old.as_ref().and_then(|old| old.as_ref().err())]
                .into_iter()
                .flatten()
                .collect();
            (Exit::Problems, write_problems(arguments, &found))
        }
    };
    ended(exit, written)
}

/// A file that could not be read; why was said.
struct Unreadable;

fn read(path: &Path) -> Result<Result<Checked, Problems>, Unreadable> {
    match policy_file::read(path) {
        Ok(checked) => Ok(Ok(checked)),
        Err(NoPolicy::Problems(problems)) => Ok(Err(problems)),
        Err(NoPolicy::Unreadable(error)) => {
            complain(format_args!("cannot read {}: {error}", path.display()));
            Err(Unreadable)
        }
    }
}

fn write_json(verdict: &Verdict<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, verdict)?;
    writeln!(out)
}

fn write_problems(arguments: &Validate, found: &[&Problems]) -> io::Result<()> {
    let problems: Vec<&Problem> = found.iter().flat_map(|one| &one.problems).collect();
    let truncated = found.iter().any(|one| one.truncated);
    if arguments.json {
        return write_json(&Verdict { problems, truncated, ..Verdict::default() });
    }
    let mut out = io::stdout().lock();
    for one in found {
        writeln!(out, "{one}")?;
    }
    let count = problems.len();
    let plural = if count == 1 { "" } else { "s" };
    let more = if truncated { " or more" } else { "" };
    writeln!(out, "{count}{more} problem{plural}")
}

fn write_valid(
    arguments: &Validate,
    checked: &Checked,
    store: StoreUse,
    comparison: Option<&Comparison>,
) -> io::Result<()> {
    let warnings = checked.warnings.as_slice();
    if arguments.json {
        let store = Some(store);
        return write_json(&Verdict { valid: true, warnings, comparison, store, ..Verdict::default() });
    }
    let mut out = io::stdout().lock();
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let namespaces = checked.policy.namespaces.len();
    let limits: usize = checked.policy.namespaces.iter().map(|namespace| namespace.limits.len()).sum();
    let warnings = counted(warnings.len(), "warning");
    writeln!(out, "{}: valid: {namespaces} namespaces, {limits} limits{warnings}", arguments.file.display())?;
    write!(out, "{store}")?;
    let Some(comparison) = comparison else { return Ok(()) };
    write!(out, "{comparison}")?;
    match comparison.forgotten() {
        0 => Ok(()),
        1 => writeln!(out, "1 limit forgets what was used"),
        count => writeln!(out, "{count} limits forget what was used"),
    }
}

/// `, 1 warning`, `, 2 warnings`, and nothing for none.
fn counted(count: usize, what: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!(", 1 {what}"),
        count => format!(", {count} {what}s"),
    }
}
