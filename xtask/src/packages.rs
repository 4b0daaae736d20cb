//! The packages of what is published, as a registry would get them.

use crate::cargo::{cargo, succeeds};
use crate::workspace::{self, Member};

/// How much of a package is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// That it can be packed: seconds.
    Packed,
    /// That it compiles from nothing but its own files: minutes.
    Compiled,
}

/// Packs every published crate; true if each passes.
pub(crate) fn check(members: &[Member], depth: Depth) -> bool {
    // Offline: a build has fetched all that they need. Uncommitted changes are packed too.
    let mut command = cargo(&["package", "--locked", "--offline", "--allow-dirty", "--quiet"]);
    match depth {
        Depth::Packed => command.arg("--no-verify"),
        // The question is only whether it compiles: debug information would take time for nothing.
        Depth::Compiled => command.env("CARGO_PROFILE_DEV_DEBUG", "0"),
    };
    for member in members.iter().filter(|member| member.is_published) {
        command.args(["--package", &member.name]);
    }
    succeeds(&mut command)
}

/// Packs every published crate and compiles each package; true if each passes.
pub(crate) fn run() -> bool {
    workspace::with_members(|members| check(members, Depth::Compiled))
}
