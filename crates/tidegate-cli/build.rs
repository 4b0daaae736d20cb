//! The facts about this build that the compiler does not tell a program: commit, target, profile.
//!
//! A commit runs nothing anew: it is taken from the variable `TIDEGATE_COMMIT`, which `cargo xtask
//! dist` sets, or from the file that cargo puts into a package for a registry. Elsewhere it is
//! unknown.

use std::env::var;
use std::fs;
use std::path::Path;

/// The variable with the commit.
const COMMIT: &str = "TIDEGATE_COMMIT";

/// Where cargo notes the commit of a package.
const PACKAGED: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={COMMIT}");
    let commit = var(COMMIT).ok().or_else(packaged_commit).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env={COMMIT}={commit}");
    println!("cargo:rustc-env=TIDEGATE_TARGET={}", var("TARGET").unwrap_or_default());
    println!("cargo:rustc-env=TIDEGATE_PROFILE={}", profile());
}

/// The commit of a package from a registry.
fn packaged_commit() -> Option<String> {
    let folder = var("CARGO_MANIFEST_DIR").ok()?;
    let text = fs::read_to_string(Path::new(&folder).join(PACKAGED)).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The name of the profile. Cargo tells only what the profile inherits, so it is read from the
/// folder: `target/PROFILE/build/PACKAGE/out`.
fn profile() -> String {
    let out = var("OUT_DIR").unwrap_or_default();
    let names: Vec<&str> = out.split(['/', '\\']).collect();
    match names.as_slice() {
        [.., profile, "build", _, "out"] => (*profile).to_owned(),
        _ => var("PROFILE").unwrap_or_default(),
    }
}
