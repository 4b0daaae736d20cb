//! The packages of what is published, as a registry would get them.

use std::path::PathBuf;

use crate::cargo::{cargo, succeeds};
use crate::checkout;
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
        Depth::Compiled => {
            // Cargo takes a package for the one of an earlier run that had the same version.
            let folder = checkout::root().join("target/packages");
            let _ = std::fs::remove_dir_all(&folder);
            forget_unpacked(members);
            // The question is only whether it compiles: debug information would take time for
            // nothing.
            command.env("CARGO_TARGET_DIR", folder).env("CARGO_PROFILE_DEV_DEBUG", "0")
        }
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

/// Removes what cargo has unpacked of these crates for a registry in a folder, as it makes one of
/// packages that need each other. The name of its folder begins with a dash: it has no host.
fn forget_unpacked(members: &[Member]) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let Some(sources) = home.and_then(|home| std::fs::read_dir(home.join("registry/src")).ok()) else {
        return;
    };
    let of_folders = sources.flatten().filter(|source| source.file_name().to_string_lossy().starts_with('-'));
    for package in of_folders.filter_map(|source| std::fs::read_dir(source.path()).ok()).flatten().flatten() {
        let name = package.file_name();
        if members.iter().any(|member| is_version_of(&name.to_string_lossy(), &member.name)) {
            let _ = std::fs::remove_dir_all(package.path());
        }
    }
}

/// Whether a folder holds a version of the crate: `tidegate-core-0.1.0`.
fn is_version_of(folder: &str, name: &str) -> bool {
    let version = folder.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_belongs_to_the_crate_whose_whole_name_it_has() {
        assert!(is_version_of("tidegate-core-0.1.0", "tidegate-core"));
        assert!(!is_version_of("tidegate-store-redis-0.1.0", "tidegate-store"));
        assert!(!is_version_of("tidegate-core", "tidegate-core"));
    }
}
