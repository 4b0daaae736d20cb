//! Files of envoyproxy/ratelimit: which they are, and what is said of them.

use std::io::{self, Write as _};
use std::path::Path;

use tidegate_policy::envoy::{Files, Read, Settings, is_such_a_file};
use tidegate_policy::{Policy, Problems};
use tidegate_server::EnvoySource;

use super::store::StoreUse;
use super::{Verdict, counted, write_json, write_problems};
use crate::arguments::Validate;
use crate::exit::{Exit, complain, ended};

/// What the command was given.
pub(super) enum Given {
    /// A policy, or what is not known to be anything else.
    Policy,
    /// Files of envoyproxy/ratelimit.
    Files(Vec<EnvoySource>),
}

/// What stands at `path`.
pub(super) fn given(path: &Path) -> io::Result<Given> {
    if path.is_dir() {
        return sources(path).map(Given::Files);
    }
    let source = EnvoySource::read(path)?;
    Ok(if is_such_a_file(source.text().bytes) { Given::Files(vec![source]) } else { Given::Policy })
}

/// The files in a directory, of which there must be some.
fn sources(folder: &Path) -> io::Result<Vec<EnvoySource>> {
    let sources = EnvoySource::read_folder(folder).map_err(|(_, error)| error)?;
    if sources.is_empty() {
        return Err(io::Error::other("no file in it ends in .yaml or .yml"));
    }
    Ok(sources)
}

fn read(sources: &[EnvoySource], settings: Settings) -> Result<Read, Problems> {
    let texts: Vec<_> = sources.iter().map(EnvoySource::text).collect();
    Files::read(&texts, settings)
}

/// Says what there is to say about such files.
pub(super) fn run(arguments: &Validate, sources: &[EnvoySource]) -> Exit {
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

/// Checks the files that a policy names; `None` if there are none where it says.
pub(super) fn of_policy(policy: &Policy, arguments: &Validate) -> Result<Option<Files>, Problems> {
    let Some(envoy) = &policy.envoy_ratelimit else { return Ok(None) };
    let path = Path::new(&envoy.path);
    let found = if path.is_dir() { sources(path) } else { EnvoySource::read(path).map(|one| vec![one]) };
    match found {
        Ok(sources) => read(&sources, envoy.settings.clone()).map(|read| Some(read.files)),
        Err(error) => {
            let of = arguments.file.display();
            complain(format_args!(
                "cannot read {}, which {of} names: {error}; its files were not checked",
                envoy.path
            ));
            Ok(None)
        }
    }
}

fn write(arguments: &Validate, read: &Read) -> io::Result<()> {
    let Read { files, warnings, differences, .. } = read;
    if arguments.json {
        let (differences, store) = (Some(differences.as_slice()), Some(StoreUse::of_files(files)));
        return write_json(&Verdict { valid: true, warnings, differences, store, ..Verdict::default() });
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
    )?;
    write!(out, "{}", StoreUse::of_files(files))
}
