//! Validation of files of envoyproxy/ratelimit.

use std::path::Path;

use tidegate_policy::envoy::{Files, Read, Semantics, Settings};
use tidegate_policy::{Policy, Problems};

use super::input::Input;
use super::store::StoreUse;
use super::verdict::{Verdict, number};
use crate::arguments::{EnvoySemantics, Validate};
use crate::exit::{Exit, complain};

/// The result of reading the files that a policy names.
#[derive(Debug)]
pub(super) enum PolicyFilesVerdict {
    /// The policy names no files.
    None,
    /// The files cannot be read; the error has been reported.
    Unreadable,
    Read(Read),
    Broken(Problems),
}

/// The verdict about such files, or the exit code after the error has been reported.
pub(super) fn check(input: &Input, arguments: &Validate) -> Result<Verdict, Exit> {
    if arguments.against.is_some() {
        let what = "--against compares configurations, which files of envoyproxy/ratelimit are not";
        complain(format_args!("{what}; leave it out"));
        return Err(Exit::Problems);
    }
    let mut settings = Settings::default();
    settings.merge_domains = arguments.merge_domains;
    let mut verdict = match Files::read(&input.texts(), chosen(settings, arguments)) {
        Ok(Read { files, warnings, differences, .. }) => Verdict {
            valid: true,
            counted: counted(&files),
            store: Some(StoreUse::from_files(&files)),
            warnings,
            differences: Some(differences),
            ..Verdict::default()
        },
        Err(problems) => Verdict::broken([problems]),
    };
    input.name().clone_into(&mut verdict.file);
    Ok(verdict)
}

/// Checks the files that a policy names.
pub(super) fn check_files_of(policy: &Policy, arguments: &Validate) -> PolicyFilesVerdict {
    let Some(envoy) = &policy.envoy_ratelimit else { return PolicyFilesVerdict::None };
    let settings = chosen(envoy.settings.clone(), arguments);
    match Input::read(Path::new(&envoy.path)) {
        Ok(input) => match Files::read(&input.texts(), settings) {
            Ok(read) => PolicyFilesVerdict::Read(read),
            Err(problems) => PolicyFilesVerdict::Broken(problems),
        },
        Err(error) => {
            complain(format_args!(
                "cannot read {}, which `envoy_ratelimit.path` names: {error}; its files were not checked",
                envoy.path
            ));
            PolicyFilesVerdict::Unreadable
        }
    }
}

/// `3 domains, 9 limits`.
pub(super) fn counted(files: &Files) -> String {
    let (domains, limits) = (number(files.domains().count(), "domain"), number(files.count(), "limit"));
    format!("{domains}, {limits}")
}

fn chosen(mut settings: Settings, arguments: &Validate) -> Settings {
    settings.semantics = match arguments.semantics {
        None => settings.semantics,
        Some(EnvoySemantics::Strict) => Semantics::Strict,
        Some(EnvoySemantics::Tidegate) => Semantics::Tidegate,
    };
    settings
}
