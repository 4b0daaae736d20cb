//! `tidegate validate`.

mod input;
mod ratelimit;
mod store;
mod verdict;

use std::io::{self, Write};
use std::path::Path;

use tidegate_policy::{Checked, Policy, Problem, Problems, compare};

use crate::arguments::Validate;
use crate::exit::{Exit, complain, ended};
use crate::policy_file::{self, PolicyFileError, STANDARD_INPUT};
use input::Input;
use ratelimit::PolicyFilesVerdict;
use store::StoreUse;
use verdict::{Verdict, number};

pub(crate) fn run(arguments: &Validate) -> Exit {
    if let Some(message) = untaken(arguments) {
        complain(message);
        return Exit::Untaken;
    }
    let mut verdicts = Vec::new();
    let mut worst = Exit::Done;
    for file in &arguments.files {
        let exit = match check(file, arguments) {
            Ok(verdict) => {
                let exit = verdict.exit(arguments.deny_warnings);
                verdicts.push(verdict);
                exit
            }
            Err(exit) => exit,
        };
        worst = if exit as u8 > worst as u8 { exit } else { worst };
    }
    let written = if arguments.json { write_json(arguments, &verdicts) } else { write(arguments, &verdicts) };
    ended(worst, written)
}

/// Why the arguments cannot be taken together.
fn untaken(arguments: &Validate) -> Option<&'static str> {
    let is_input = |path: &&Path| *path == Path::new(STANDARD_INPUT);
    let files = arguments.files.iter().map(std::path::PathBuf::as_path);
    if files.chain(arguments.against.as_deref()).filter(is_input).count() > 1 {
        return Some("standard input can be read only once; give `-` once");
    }
    if arguments.files.len() > 1 && arguments.against.is_some() {
        return Some("--against compares one configuration with another; give one FILE");
    }
    None
}

/// The verdict about a file, or the exit code after the error has been reported.
fn check(path: &Path, arguments: &Validate) -> Result<Verdict, Exit> {
    let unreadable = |error: io::Error| {
        complain(format_args!("cannot read {}: {error}", path.display()));
        Exit::Unreadable
    };
    let input = Input::read(path).map_err(unreadable)?;
    if input.is_ratelimit() {
        return ratelimit::check(&input, arguments);
    }
    let Input::File { name, bytes } = input else { unreachable!("a directory holds such files") };
    let new = policy_file::check(&name, &bytes);
    let old = arguments.against.as_deref().map(read).transpose()?;
    let mut verdict = match (new, old) {
        (Ok(new), None) => policy_verdict((&name, &bytes), new, None, arguments),
        (Ok(new), Some(Ok(old))) => policy_verdict((&name, &bytes), new, Some(&old.policy), arguments),
        (new, old) => Verdict::broken([new.err(), old.and_then(Result::err)].into_iter().flatten()),
    };
    verdict.file = name;
    Ok(verdict)
}

fn read(path: &Path) -> Result<Result<Checked, Problems>, Exit> {
    match policy_file::read(path) {
        Ok(checked) => Ok(Ok(checked)),
        Err(PolicyFileError::Problems(problems)) => Ok(Err(problems)),
        Err(PolicyFileError::Unreadable(error)) => {
            complain(format_args!("cannot read {}: {error}", path.display()));
            Err(Exit::Unreadable)
        }
    }
}

/// The verdict about a policy without problems and the files of envoyproxy/ratelimit that it names.
fn policy_verdict(
    (name, text): (&str, &[u8]),
    checked: Checked,
    old: Option<&Policy>,
    arguments: &Validate,
) -> Verdict {
    let policy = &checked.policy;
    let mut warnings = checked.warnings;
    let (files, differences, is_partial) = match ratelimit::check_files_of(policy, arguments) {
        PolicyFilesVerdict::None => (None, None, false),
        PolicyFilesVerdict::Unreadable => (None, None, true),
        PolicyFilesVerdict::Read(read) => {
            warnings.extend(read.warnings);
            (Some(read.files), Some(read.differences), false)
        }
        PolicyFilesVerdict::Broken(problems) => return Verdict::broken([problems]),
    };
    let warn = |section, what, fix: &str| Problem::from_section((name, text), section, what, fix.to_owned());
    if checked.lacks_namespaces && old.is_some_and(|old| !old.namespaces.is_empty()) {
        let what = "a reload refuses a policy without `namespaces:` while some are in force".to_owned();
        warnings.push(warn("namespaces", what, "add them, or write `namespaces: {}` to mean none"));
    }
    let store = StoreUse::from_policy(policy, files.as_ref());
    if let Some(what) = store.forgetting() {
        warnings.push(warn("store", what, "remove `kind: memory` to keep them in files"));
    }
    for domain in files.iter().flat_map(tidegate_policy::envoy::Files::domains) {
        if policy.namespaces.iter().any(|namespace| namespace.name == domain) {
            let what = format!(
                "domain \"{domain}\" is hidden by the namespace of that name, so its limits never count"
            );
            warnings.push(warn("envoy_ratelimit", what, "rename one of them"));
        }
    }
    let mut counted = Vec::new();
    if !policy.namespaces.is_empty() || files.is_none() {
        let limits: usize = policy.namespaces.iter().map(|namespace| namespace.limits.len()).sum();
        counted.push(number(policy.namespaces.len(), "namespace"));
        counted.push(number(limits, "limit"));
        let tables = policy.namespaces.iter().map(|namespace| namespace.tables.len()).sum();
        for (count, noun) in [(tables, "table"), (policy.resources.len(), "resource")] {
            counted.extend((count > 0).then(|| number(count, noun)));
        }
    }
    counted.extend(files.as_ref().map(ratelimit::counted));
    Verdict {
        valid: true,
        comparison: old.map(|old| compare(old, policy)),
        store: Some(store),
        counted: counted.join(", "),
        warnings,
        differences,
        is_partial,
        ..Verdict::default()
    }
}

fn write_json(arguments: &Validate, verdicts: &[Verdict]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match verdicts {
        [] if arguments.files.len() == 1 => return Ok(()),
        [one] if arguments.files.len() == 1 => serde_json::to_writer_pretty(&mut out, one)?,
        several => serde_json::to_writer_pretty(&mut out, several)?,
    }
    writeln!(out)
}

fn write(arguments: &Validate, verdicts: &[Verdict]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for verdict in verdicts {
        for problem in &verdict.problems {
            writeln!(out, "{problem}")?;
        }
        if verdict.truncated {
            writeln!(out, "and perhaps more; fix these first")?;
        }
        for warning in &verdict.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        for difference in verdict.differences.iter().flatten() {
            writeln!(out, "difference: {difference}")?;
        }
        writeln!(out, "{}", verdict.summary(arguments.files.len() > 1))?;
        if let Some(store) = &verdict.store {
            write!(out, "{store}")?;
        }
        let Some(comparison) = &verdict.comparison else { continue };
        write!(out, "{comparison}")?;
        match comparison.forgotten() {
            0 => {}
            1 => writeln!(out, "1 limit forgets what was used")?,
            count => writeln!(out, "{count} limits forget what was used")?,
        }
    }
    Ok(())
}
