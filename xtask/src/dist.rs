//! `cargo xtask dist`: everything that is given away, in one folder.
//!
//! | artifact | of |
//! |---|---|
//! | `tidegate-VERSION-TARGET.tar.gz` | each target: program, man pages, completions, licences, notices, unit, policy |
//! | `tidegate_VERSION_amd64.deb` | the target with glibc |
//! | `tidegate-VERSION-TARGET.oci.tar` | each static target: an image for containers |
//! | `tidegate-VERSION.tgz` | the Helm chart |
//! | `tidegate-VERSION.cdx.json` | the bill of materials |
//! | `SHA256SUMS` | all of them |
//!
//! Two runs at one commit make the same bytes, whatever the folder and the time: archives are
//! sorted and have the time of the commit, and no binary has a path of the machine. An artifact
//! that cannot be made here is skipped, with the reason.

mod archive;
mod binary;
mod chart;
mod checksum;
mod debian;
mod file_tree;
mod folder;
mod generated_files;
mod identity;
mod image;
mod release_check;
mod sbom;
mod targets;
mod workflow;

use std::path::PathBuf;

use self::binary::{BuiltBinary, Linkage};
use self::folder::ArtifactFolder;
use self::generated_files::GeneratedFiles;
use self::identity::Identity;
use self::targets::{Libc, ReleaseTarget, TARGETS};
use crate::cargo::target_directory;
use crate::step_times::in_words;
use crate::workspace;

/// The options of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DistOptions {
    targets: Vec<ReleaseTarget>,
    out: Option<PathBuf>,
    is_check: bool,
    tag: Option<String>,
    is_strict: bool,
}

impl DistOptions {
    /// Reads the words behind `cargo xtask dist`.
    pub(crate) fn read(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().copied().ok_or_else(|| format!("{word} needs a value"));
            match *word {
                "--target" => options.targets.push(ReleaseTarget::named(value()?)?),
                "--out" => options.out = Some(PathBuf::from(value()?)),
                "--tag" => options.tag = Some(value()?.to_owned()),
                "--check" => options.is_check = true,
                "--strict" => options.is_strict = true,
                other => {
                    return Err(format!(
                        "unknown option {other:?}; use --target TARGET, --out FOLDER, --strict, --check, --tag TAG"
                    ));
                }
            }
        }
        match (options.is_check, &options.tag) {
            (false, Some(_)) => Err("--tag needs --check".to_owned()),
            (true, _) if !options.targets.is_empty() || options.out.is_some() || options.is_strict => {
                Err("--check builds nothing; leave --target, --out and --strict out".to_owned())
            }
            _ => Ok(options),
        }
    }
}

/// The folder where artifacts go unless the command line names another.
pub(crate) fn default_folder() -> PathBuf {
    target_directory().join("artifacts")
}

/// Runs the command; whether it passed. The error is a command line that is wrong.
pub(crate) fn run(words: &[&str]) -> Result<bool, String> {
    let options = DistOptions::read(words)?;
    let passed = if options.is_check {
        release_check::run(options.tag.as_deref(), |words| DistOptions::read(words).is_ok())
    } else {
        make(&options)
    };
    Ok(passed.unwrap_or_else(|error| {
        eprintln!("dist: {error}");
        false
    }))
}

/// Makes what the acceptance suite `packages` installs: the targets that run on this machine. The
/// folder with it, and the binary of the daemon in the archive.
pub(crate) fn make_for_this_machine() -> Result<(PathBuf, PathBuf), String> {
    let targets: Vec<ReleaseTarget> = TARGETS.into_iter().filter(|target| target.runs_here()).collect();
    let options = DistOptions { targets, ..DistOptions::default() };
    if !make(&options)? {
        return Err("`cargo xtask dist` failed".to_owned());
    }
    let target = ReleaseTarget::with_glibc_here().ok_or("no target of this machine has glibc")?;
    Ok((default_folder(), binary::path(target, Linkage::OfTarget)))
}

fn make(options: &DistOptions) -> Result<bool, String> {
    let version = release_check::version(&workspace::members()?)?;
    let identity = Identity::of_checkout(&version)?;
    println!("tidegate {}, commit {}, time {}", identity.version, identity.commit, identity.time()?);
    if identity.is_dirty() {
        println!("note: the checkout has uncommitted changes, so the version ends in -dirty");
    }
    let mut artifacts = ArtifactFolder::prepare(&options.out.clone().unwrap_or_else(default_folder))?;
    let chosen = if options.targets.is_empty() { &TARGETS[..] } else { &options.targets[..] };
    let (binaries, failed) = build(chosen, &identity, &mut artifacts);
    if binaries.is_empty() {
        for error in &failed {
            println!("FAILED: {error}");
        }
        return Err("no target could be built, so nothing is given away".to_owned());
    }
    let here = binaries.iter().find(|binary| binary.target.runs_here());
    let generated = GeneratedFiles::write(here.map(|binary| binary.path.as_path()))?;
    for binary in &binaries {
        add_binary(binary, &generated, &identity, &mut artifacts)?;
    }
    artifacts.add(&format!("tidegate-{}.tgz", identity.version), chart::archive(&identity))?;
    let bill = format!("tidegate-{}.cdx.json", identity.version);
    artifacts.add(&bill, sbom::of_target(chosen[0], &identity))?;
    let (made, skipped) = artifacts.finish()?;
    println!("\n{made} made, {skipped} skipped, {} failed", failed.len());
    for error in &failed {
        println!("FAILED: {error}");
    }
    Ok(failed.is_empty() && (skipped == 0 || !options.is_strict))
}

/// Builds the targets. Those that cannot be built on this machine are skipped; the errors are of
/// builds that failed.
fn build(
    targets: &[ReleaseTarget],
    identity: &Identity,
    artifacts: &mut ArtifactFolder,
) -> (Vec<BuiltBinary>, Vec<String>) {
    let (mut binaries, mut failed) = (Vec::new(), Vec::new());
    let mut try_build =
        |target, toolchain: &_, linkage| match binary::build(target, toolchain, linkage, identity) {
            Ok(binary) => {
                println!("built: {}, in {}", words_of(&binary), in_words(binary.took));
                binaries.push(binary);
            }
            Err(error) => failed.push(error),
        };
    for target in targets {
        match target.toolchain() {
            Ok(toolchain) => try_build(*target, &toolchain, Linkage::OfTarget),
            Err(reason) => {
                artifacts.skip(target.triple, reason);
                let Some((stand_in, toolchain)) = glibc_in_place_of(*target) else { continue };
                println!("instead: a static binary with glibc, for the image of {}", target.architecture);
                try_build(stand_in, &toolchain, Linkage::StaticGlibc);
            }
        }
    }
    (binaries, failed)
}

/// The target whose glibc can be linked in where the musl of `target` cannot be had.
fn glibc_in_place_of(target: ReleaseTarget) -> Option<(ReleaseTarget, targets::Toolchain)> {
    if target.libc != Libc::Musl || !target.runs_here() {
        return None;
    }
    let stand_in = ReleaseTarget::with_glibc_here()?;
    Some((stand_in, stand_in.toolchain().ok()?))
}

/// The artifacts of a binary.
fn add_binary(
    binary: &BuiltBinary,
    generated: &GeneratedFiles,
    identity: &Identity,
    artifacts: &mut ArtifactFolder,
) -> Result<(), String> {
    let name = archive::name(binary, identity);
    if binary.linkage == Linkage::OfTarget {
        artifacts.add(&format!("{name}.tar.gz"), archive::of_binary(binary, generated, identity))?;
    }
    if binary.is_static {
        let files = image::files(binary.bytes.clone(), &generated.notices);
        let image = files.and_then(|files| image::archive(&files, binary.target.architecture, identity));
        artifacts.add(&format!("{name}.oci.tar"), image)?;
    } else {
        artifacts.add(&debian::name(binary, identity), debian::package(binary, identity))?;
    }
    Ok(())
}

/// The binary in words: target, linkage and the glibc that it needs.
fn words_of(binary: &BuiltBinary) -> String {
    match binary.glibc {
        Some(glibc) => format!("{}, needs glibc {glibc} or later", binary.name()),
        None => format!("{}, static", binary.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_each_mistake_says_the_fix() {
        let read =
            DistOptions::read(&["--target", "x86_64-unknown-linux-musl", "--out", "x", "--strict"]).unwrap();
        assert_eq!((read.targets.len(), read.out, read.is_strict), (1, Some(PathBuf::from("x")), true));
        assert_eq!(DistOptions::read(&["--check", "--tag", "v1"]).unwrap().tag.as_deref(), Some("v1"));
        for (words, told) in [
            (&["--target"][..], "--target needs a value"),
            (&["--target", "wasm32"], "use one of: x86_64-unknown-linux-gnu, "),
            (&["--chekc"], "unknown option \"--chekc\"; use --target"),
            (&["--tag", "v1"], "--tag needs --check"),
            (&["--check", "--strict"], "--check builds nothing"),
        ] {
            let error = DistOptions::read(words).unwrap_err();
            assert!(error.contains(told), "{words:?}: {error}");
        }
    }
}
