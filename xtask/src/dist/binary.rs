//! The binary of a target, built with the profile `dist` and without paths of the machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::identity::{EPOCH_VARIABLE, Identity};
use super::targets::{GlibcVersion, ReleaseTarget, Toolchain};
use crate::cargo::{cargo, forget_variables_of_a_build, output_of, succeeds, target_directory};
use crate::{checkout, notices};

/// The package whose binary is given away.
pub(super) const PACKAGE: &str = notices::BINARY;

/// The name of the binary.
const PROGRAM: &str = "tidegate";

/// The features of the binary that is given away.
pub(super) const FEATURES: &str = "full";

/// The profile that it is built with.
const PROFILE: &str = "dist";

/// The variable in which the build script of the command finds the commit.
const COMMIT_VARIABLE: &str = "TIDEGATE_COMMIT";

/// A folder of the machine, and the path that stands for it in the binary.
type RemappedFolder = (PathBuf, &'static str);

/// A binary that was built.
#[derive(Clone, Debug)]
pub(super) struct BuiltBinary {
    pub(super) target: ReleaseTarget,
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) linkage: Linkage,
    /// Whether it is linked with everything that it needs.
    pub(super) is_static: bool,
    /// The highest version of glibc that a symbol needs.
    pub(super) glibc: Option<GlibcVersion>,
    pub(super) took: Duration,
}

impl BuiltBinary {
    /// A name for its artifacts: the target, and how the binary is linked where the target does not
    /// say it.
    pub(super) fn name(&self) -> String {
        match self.linkage {
            Linkage::OfTarget => self.target.triple.to_owned(),
            Linkage::StaticGlibc => format!("{}-static", self.target.triple),
        }
    }
}

/// How a binary of glibc is linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linkage {
    /// As the target has it.
    OfTarget,
    /// With glibc in it. It takes the place of musl where musl cannot be had.
    StaticGlibc,
}

/// Builds the binary of `target`.
pub(super) fn build(
    target: ReleaseTarget,
    toolchain: &Toolchain,
    linkage: Linkage,
    identity: &Identity,
) -> Result<BuiltBinary, String> {
    let folders = remapped_folders()?;
    let mut command = match toolchain {
        Toolchain::Cargo => cargo(&["rustc"]),
        Toolchain::Zigbuild { folder } => zigbuild(folder),
    };
    command.args(["--locked", "--profile", PROFILE, "--package", PACKAGE, "--bin", PROGRAM]);
    command.args(["--features", FEATURES, "--target", target.triple]);
    command.env("CARGO_TARGET_DIR", build_folder(linkage));
    // mimalloc writes the date of its build into the program. One for all commits: the date of the
    // commit would compile it, and all that is above it, anew for each.
    command.env(COMMIT_VARIABLE, &identity.commit).env(EPOCH_VARIABLE, "0");
    // Symbols are for debuggers; a panic names its file and line without them. For the program
    // alone: its dependencies are compiled as for every build with this profile.
    command.args(["--", "-C", "strip=symbols"]);
    // Flags of the caller would make another binary of the same commit.
    command.env_remove("RUSTFLAGS").env_remove("CFLAGS");
    command.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&folders, linkage).join("\u{1f}"));
    command.env(format!("CFLAGS_{}", target.triple.replace('-', "_")), c_flags(&folders).join(" "));
    let began = Instant::now();
    if !succeeds(&mut command) {
        return Err(format!("{}: the build failed", target.triple));
    }
    let took = began.elapsed();
    let path = path(target, linkage);
    let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let shown = machine_paths(&bytes, folders.iter().map(|(folder, _)| folder.as_path()));
    if !shown.is_empty() {
        return Err(format!("{}: the binary has paths of this machine: {}", target.triple, shown.join(", ")));
    }
    let glibc = target.check_glibc(&bytes)?;
    let is_static = glibc.is_none();
    if linkage == Linkage::StaticGlibc && !is_static {
        return Err(format!("{}: the binary should be static and needs glibc", target.triple));
    }
    Ok(BuiltBinary { target, path, bytes, linkage, is_static, glibc, took })
}

/// The place of a binary that was built.
pub(super) fn path(target: ReleaseTarget, linkage: Linkage) -> PathBuf {
    build_folder(linkage).join(target.triple).join(PROFILE).join(PROGRAM)
}

/// The folder that cargo builds in: one for each set of flags, so that none builds the
/// dependencies of another anew.
fn build_folder(linkage: Linkage) -> PathBuf {
    match linkage {
        Linkage::OfTarget => target_directory(),
        Linkage::StaticGlibc => target_directory().join("static"),
    }
}

/// `cargo-zigbuild` of this folder, which also has the Python with the compiler.
fn zigbuild(folder: &Path) -> Command {
    let mut command = Command::new(folder.join("cargo-zigbuild"));
    command.arg("rustc").current_dir(checkout::root()).stdin(Stdio::null());
    forget_variables_of_a_build(&mut command);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    command
}

/// The folders whose paths compilers would write into the binary. The first that fits is taken.
fn remapped_folders() -> Result<Vec<RemappedFolder>, String> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(home?.join(".cargo"))).ok_or("set HOME or CARGO_HOME")?;
    let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))?;
    let mut folders = vec![
        (checkout::root().to_owned(), "/tidegate"),
        (target_directory(), "/tidegate/target"),
        (PathBuf::from(sysroot.trim()), "/rust"),
    ];
    // The name of each folder of sources is that of a registry, which differs between mirrors.
    let sources = cargo_home.join("registry/src");
    for entry in std::fs::read_dir(&sources).into_iter().flatten().flatten() {
        folders.push((entry.path(), "/crates"));
    }
    folders.push((cargo_home, "/cargo"));
    Ok(folders)
}

fn rust_flags(folders: &[RemappedFolder], linkage: Linkage) -> Vec<String> {
    // rustc takes the last mapping that fits.
    let remap = |(from, to): &RemappedFolder| format!("--remap-path-prefix={}={to}", from.display());
    let mut flags: Vec<String> = folders.iter().rev().map(remap).collect();
    if linkage == Linkage::StaticGlibc {
        flags.extend(["-C".to_owned(), "target-feature=+crt-static".to_owned()]);
    }
    flags
}

fn c_flags(folders: &[RemappedFolder]) -> Vec<String> {
    // C compilers take the last mapping that fits, too.
    let remap = |(from, to): &RemappedFolder| format!("-ffile-prefix-map={}={to}", from.display());
    folders.iter().rev().map(remap).collect()
}

/// The folders whose paths are in the binary.
fn machine_paths<'a>(binary: &[u8], folders: impl Iterator<Item = &'a Path>) -> Vec<String> {
    let has = |path: &str| binary.windows(path.len()).any(|window| window == path.as_bytes());
    let paths = folders.map(|folder| folder.display().to_string());
    paths.filter(|path| path.len() > 1 && has(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_machine_in_a_binary_is_found() {
        let folders = [Path::new("/home/ada/tidegate"), Path::new("/home/ada/.cargo")];
        let binary = b"\0/tidegate/crates/tidegate-cli/src/main.rs\0/home/ada/.cargo/registry\0";
        assert_eq!(machine_paths(binary, folders.into_iter()), ["/home/ada/.cargo"]);
    }

    #[test]
    fn a_folder_within_another_keeps_the_name_of_its_own() {
        let folders =
            vec![(PathBuf::from("/c/registry/src/host"), "/crates"), (PathBuf::from("/c"), "/cargo")];
        let flags = rust_flags(&folders, Linkage::StaticGlibc);
        assert_eq!(flags[0], "--remap-path-prefix=/c=/cargo");
        assert_eq!(flags[1], "--remap-path-prefix=/c/registry/src/host=/crates");
        assert_eq!(flags[2..], ["-C", "target-feature=+crt-static"]);
        assert_eq!(c_flags(&folders)[1], "-ffile-prefix-map=/c/registry/src/host=/crates");
    }
}
