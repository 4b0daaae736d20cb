//! `tidegate --version --verbose`: the build, and what it shares with other builds.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::ErrorKind;
use tidegate_server::{FORMAT, FORMAT_OLDEST, PROTOCOL, RECORD_LAYOUTS, VALUE_LAYOUTS};

use crate::exit::{Exit, answer};

/// The features that this build has.
const FEATURES: &[(&str, bool)] = &[("default", cfg!(feature = "default")), ("full", cfg!(feature = "full"))];

/// Whether the command line asks for the version and everything about it.
pub(crate) fn are_asked_for(error: &clap::Error, mut words: impl Iterator<Item = OsString>) -> bool {
    error.kind() == ErrorKind::DisplayVersion && words.any(|word| word == "--verbose")
}

/// Prints the facts.
pub(crate) fn print() -> Exit {
    answer(&text(), Exit::Done)
}

fn text() -> String {
    let features = FEATURES.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name);
    let features = features.collect::<Vec<_>>().join(", ");
    let facts = [
        ("commit", env!("TIDEGATE_COMMIT").to_owned()),
        ("target", env!("TIDEGATE_TARGET").to_owned()),
        ("profile", env!("TIDEGATE_PROFILE").to_owned()),
        ("features", if features.is_empty() { "none".to_owned() } else { features }),
        ("lease protocol", PROTOCOL.to_string()),
        ("store in files", format!("format {FORMAT}; reads {FORMAT_OLDEST} to {FORMAT}")),
        ("records in files", format!("reads layouts {}", list(&RECORD_LAYOUTS))),
        ("values in Redis", format!("reads layouts {}", list(&VALUE_LAYOUTS))),
    ];
    let mut text = concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n").to_owned();
    for (name, fact) in facts {
        let _ = writeln!(text, "{name:<18}{fact}");
    }
    text
}

fn list(layouts: &[u8]) -> String {
    layouts.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}
