//! The bill of materials: every crate in the binary, as `CycloneDX` lists them.

use std::fs;

use super::binary::{FEATURES, PACKAGE};
use super::identity::{EPOCH_VARIABLE, Identity};
use super::targets::ReleaseTarget;
use crate::cargo::{cargo, succeeds};
use crate::{checkout, prerequisites};

/// The name of the file that `cargo cyclonedx` writes beside each manifest, without its ending.
const WRITTEN: &str = "tidegate-sbom";

/// The bill of a target; an error says why it cannot be made.
pub(super) fn of_target(target: ReleaseTarget, identity: &Identity) -> Result<Vec<u8>, String> {
    prerequisites::cargo_cyclonedx()?;
    let folder = checkout::root().join("crates").join(PACKAGE);
    let mut command = cargo(&["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"]);
    command.args(["--target", target.triple, "--features", FEATURES, "--override-filename", WRITTEN]);
    command.arg("--manifest-path").arg(folder.join("Cargo.toml"));
    command.env(EPOCH_VARIABLE, identity.epoch.to_string());
    let is_written = succeeds(&mut command);
    let text = collected(target);
    if !is_written {
        return Err("`cargo cyclonedx` failed".to_owned());
    }
    text.map(|text| without_paths(&text).into_bytes())
}

/// The bill of the command. The tool writes one beside each manifest of the workspace; all of them
/// are removed again.
fn collected(target: ReleaseTarget) -> Result<String, String> {
    let mut found = Err("`cargo cyclonedx` wrote nothing".to_owned());
    let crates = checkout::root().join("crates");
    let failed = |error: std::io::Error| format!("{}: {error}", crates.display());
    let folders = fs::read_dir(&crates).map_err(failed)?.flatten().map(|entry| entry.path());
    for folder in folders.chain([checkout::root().join("xtask")]) {
        for name in [format!("{WRITTEN}.json"), format!("{WRITTEN}_{}.json", target.triple)] {
            let file = folder.join(name);
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let _ = fs::remove_file(&file);
            if folder.ends_with(PACKAGE) {
                found = Ok(text);
            }
        }
    }
    found
}

/// The bill with the name of the project in the place of the folder of the checkout.
fn without_paths(text: &str) -> String {
    text.replace(&checkout::root().display().to_string(), "/tidegate")
}
