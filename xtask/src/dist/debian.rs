//! The Debian package, by `cargo deb` and the metadata in the manifest of the command.

use std::fs;

use super::binary::{BuiltBinary, PACKAGE};
use super::generated_files::read;
use super::identity::{EPOCH_VARIABLE, Identity};
use crate::cargo::{cargo, succeeds, target_directory};
use crate::prerequisites;

/// The manifest with the metadata.
const MANIFEST: &str = "crates/tidegate-cli/Cargo.toml";

/// The name of the package of a binary.
pub(super) fn name(binary: &BuiltBinary, identity: &Identity) -> String {
    format!("tidegate_{}_{}.deb", identity.debian_version(), binary.target.architecture)
}

/// The package of a binary; an error says why it cannot be made.
pub(super) fn package(binary: &BuiltBinary, identity: &Identity) -> Result<Vec<u8>, String> {
    if !read(MANIFEST)?.contains("[package.metadata.deb]") {
        return Err(format!("{MANIFEST} has no section [package.metadata.deb]"));
    }
    prerequisites::cargo_deb()?;
    let file = target_directory().join(name(binary, identity));
    // Nothing is built: the binary and the files beside it are there.
    let mut command = cargo(&["deb", "--no-build", "--no-strip", "--no-dbgsym", "--locked", "--quiet"]);
    command.args(["--package", PACKAGE, "--profile", "dist", "--target", binary.target.triple]);
    command.args(["--deb-version", &identity.debian_version(), "--output"]).arg(&file);
    command.env("CARGO_TARGET_DIR", target_directory()).env(EPOCH_VARIABLE, identity.epoch.to_string());
    if !succeeds(&mut command) {
        return Err("`cargo deb` failed".to_owned());
    }
    let bytes = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let _ = fs::remove_file(file);
    Ok(bytes)
}
