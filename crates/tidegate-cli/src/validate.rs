//! `tidegate validate`.

use std::io::{self, Write};

use serde::Serialize;
use tidegate_policy::{Checked, Problem};

use crate::arguments::Validate;
use crate::exit::{Exit, complain};
use crate::policy_file::{self, NoPolicy};

#[derive(Debug, Serialize)]
struct Verdict<'a> {
    valid: bool,
    problems: &'a [Problem],
    /// Whether there were so many problems that looking for more was stopped.
    truncated: bool,
    warnings: &'a [Problem],
}

pub(crate) fn run(arguments: &Validate) -> Exit {
    let outcome = policy_file::read(&arguments.file);
    let (exit, written) = match &outcome {
        Ok(checked) if arguments.json => (Exit::Done, write_json(true, &[], false, &checked.warnings)),
        Ok(checked) => (Exit::Done, write_valid(arguments, checked)),
        Err(NoPolicy::Problems(problems)) if arguments.json => {
            (Exit::Problems, write_json(false, &problems.problems, problems.truncated, &[]))
        }
        Err(NoPolicy::Problems(problems)) => {
            let count = problems.problems.len();
            let plural = if count == 1 { "" } else { "s" };
            let more = if problems.truncated { " or more" } else { "" };
            (Exit::Problems, writeln!(io::stdout(), "{problems}\n{count}{more} problem{plural}"))
        }
        Err(NoPolicy::Unreadable(error)) => {
            complain(format_args!("cannot read {}: {error}", arguments.file.display()));
            (Exit::Unreadable, Ok(()))
        }
    };
    if let Err(error) = written {
        complain(format_args!("cannot write: {error}"));
        return Exit::Unreadable;
    }
    exit
}

fn write_json(valid: bool, problems: &[Problem], truncated: bool, warnings: &[Problem]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &Verdict { valid, problems, truncated, warnings })?;
    writeln!(out)
}

fn write_valid(arguments: &Validate, checked: &Checked) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for warning in &checked.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let namespaces = checked.policy.namespaces.len();
    let limits: usize = checked.policy.namespaces.iter().map(|namespace| namespace.limits.len()).sum();
    let warnings = match checked.warnings.len() {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        count => format!(", {count} warnings"),
    };
    writeln!(out, "{}: valid: {namespaces} namespaces, {limits} limits{warnings}", arguments.file.display())
}
