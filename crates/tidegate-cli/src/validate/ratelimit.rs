//! Files of envoyproxy/ratelimit: which they are, and what is said of them.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use tidegate_policy::bounds::TEXT_BYTES_MAX;
use tidegate_policy::envoy::{Files, Read, Settings, Text, is_such_a_file};
use tidegate_policy::{Policy, Problems};

use super::{Verdict, counted, ended, write_json, write_problems};
use crate::arguments::Validate;
use crate::exit::{Exit, complain};

/// The most files that are read from one directory; more are an error.
const FILES_MAX: usize = 4096;

/// What the command was given.
pub(super) enum Given {
    /// A policy, or what is not known to be anything else.
    Policy,
    /// Files of envoyproxy/ratelimit.
    Files(Vec<Source>),
}

/// A file with what is in it.
pub(super) struct Source {
    name: String,
    bytes: Vec<u8>,
}

/// What stands at `path`.
pub(super) fn given(path: &Path) -> io::Result<Given> {
    if path.is_dir() {
        return sources(path).map(Given::Files);
    }
    let source = source(path)?;
    Ok(if is_such_a_file(&source.bytes) { Given::Files(vec![source]) } else { Given::Policy })
}

/// The files in a directory that end in `.yaml` or `.yml`, in the order of their names; those that begin with a dot are
/// not read.
fn sources(folder: &Path) -> io::Result<Vec<Source>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        is_yaml && !is_hidden && path.is_file()
    });
    paths.sort();
    if paths.is_empty() {
        return Err(io::Error::other("no file in it ends in .yaml or .yml"));
    }
    if paths.len() > FILES_MAX {
        return Err(io::Error::other(format!(
            "{} files in it, more than the {FILES_MAX} allowed",
            paths.len()
        )));
    }
    paths.iter().map(|path| source(path)).collect()
}

fn source(path: &Path) -> io::Result<Source> {
    let mut bytes = Vec::new();
    // One byte more than the bound: enough for the reader to say that there is too much.
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Source { name: path.display().to_string(), bytes })
}

fn read(sources: &[Source], settings: Settings) -> Result<Read, Problems> {
    let texts: Vec<Text<'_>> =
        sources.iter().map(|source| Text { name: &source.name, bytes: &source.bytes }).collect();
    Files::read(&texts, settings)
}

/// Says what there is to say about such files.
pub(super) fn run(arguments: &Validate, sources: &[Source]) -> Exit {
    if arguments.against.is_some() {
        let what = "--against compares configurations, which files of envoyproxy/ratelimit are not";
        complain(format_args!("{what}; leave it out"));
        return Exit::Problems;
    }
    let mut settings = Settings::default();
    settings.merge_domains = arguments.merge_domains;
    match read(sources, settings) {
        Ok(read) => ended(Exit::Done, write(arguments, &read)),
        Err(problems) => ended(Exit::Problems, write_problems(arguments, &[&problems])),
    }
}

/// Checks the files that a policy names, if they are where it says.
pub(super) fn of_policy(policy: &Policy, arguments: &Validate) -> Result<(), Problems> {
    let Some(envoy) = &policy.envoy_ratelimit else { return Ok(()) };
    let path = Path::new(&envoy.path);
    let found = if path.is_dir() { sources(path) } else { source(path).map(|one| vec![one]) };
    match found {
        Ok(sources) => read(&sources, envoy.settings.clone()).map(drop),
        Err(error) => {
            let of = arguments.file.display();
            complain(format_args!(
                "cannot read {}, which {of} names: {error}; its files were not checked",
                envoy.path
            ));
            Ok(())
        }
    }
}

fn write(arguments: &Validate, read: &Read) -> io::Result<()> {
    let Read { files, warnings, differences, .. } = read;
    if arguments.json {
        let differences = Some(differences.as_slice());
        return write_json(&Verdict { valid: true, warnings, differences, ..Verdict::default() });
    }
    let mut out = io::stdout().lock();
    for warning in warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for difference in differences {
        writeln!(out, "difference: {difference}")?;
    }
    let (domains, limits) = (files.domains().count(), files.count());
    let (warnings, differences) =
        (counted(warnings.len(), "warning"), counted(differences.len(), "difference"));
    writeln!(
        out,
        "{}: valid: {domains} domains, {limits} limits{warnings}{differences}",
        arguments.file.display()
    )
}
