//! The crates of this workspace as `cargo metadata` describes them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo::{cargo, output_of};
use crate::tally::Tally;

/// One crate of the workspace.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The name of the package.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// The folder of its `Cargo.toml`.
    pub(crate) folder: PathBuf,
    /// False when `publish = false`.
    pub(crate) is_published: bool,
    /// The kinds of its targets, such as `lib` and `bin`.
    pub(crate) targets: Vec<String>,
    /// Whether it has a description, without which it cannot be published.
    pub(crate) has_description: bool,
    /// The version of Rust it asks for; empty when it asks for none.
    pub(crate) rust_version: String,
    /// The names of its features, `default` excluded.
    pub(crate) features: Vec<String>,
    /// Packages it needs to be used: normal and build dependencies on any platform, under their
    /// real names.
    pub(crate) needs: Vec<String>,
    /// Whether it depends on loom, for tests only or under a `cfg`.
    pub(crate) has_loom_models: bool,
}

impl Member {
    /// Whether other crates can use it.
    pub(crate) fn has_library(&self) -> bool {
        self.targets.iter().any(|kind| kind == "lib" || kind == "proc-macro")
    }
}

/// All crates of this workspace.
pub(crate) fn members() -> Result<Vec<Member>, String> {
    let metadata = output_of(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    read(&metadata)
}

/// Runs a command on all crates of this workspace. If they cannot be read, that is its one failure.
pub(crate) fn with_members(run: impl FnOnce(&[Member]) -> bool) -> bool {
    match members() {
        Ok(members) => run(&members),
        Err(error) => {
            println!("{error}\n{}", Tally::FAILED);
            false
        }
    }
}

/// All crates of the workspace that `metadata`, as printed by `cargo metadata --no-deps`,
/// describes.
pub(crate) fn read(metadata: &str) -> Result<Vec<Member>, String> {
    let metadata: Value =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no `packages`")?;
    packages.iter().map(member).collect()
}

fn member(package: &Value) -> Result<Member, String> {
    let text = |field: &str| package[field].as_str().map(str::to_owned);
    let name = text("name").ok_or("a package in cargo metadata has no `name`")?;
    let manifest = text("manifest_path").ok_or_else(|| format!("{name} has no `manifest_path`"))?;
    let folder = Path::new(&manifest).parent().ok_or_else(|| format!("{name} lies in no folder"))?.to_owned();
    let dependencies =
        package["dependencies"].as_array().ok_or_else(|| format!("{name} has no `dependencies`"))?;
    // The kind is absent for a normal dependency.
    let needs = dependencies.iter().filter(|dependency| dependency["kind"].as_str() != Some("dev"));
    let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
    let kinds = targets.iter().filter_map(|target| target["kind"].as_array()).flatten();
    Ok(Member {
        is_published: package["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
        targets: kinds.filter_map(Value::as_str).map(str::to_owned).collect(),
        has_description: text("description").is_some_and(|description| !description.trim().is_empty()),
        version: text("version").unwrap_or_default(),
        rust_version: text("rust_version").unwrap_or_default(),
        features: package["features"]
            .as_object()
            .map(|features| features.keys().filter(|feature| *feature != "default").cloned().collect())
            .unwrap_or_default(),
        needs: needs.filter_map(|dependency| dependency["name"].as_str().map(str::to_owned)).collect(),
        has_loom_models: dependencies.iter().any(|dependency| dependency["name"].as_str() == Some("loom")),
        name,
        folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_depends_on_loom_in_any_way_has_loom_models() {
        for (dependency, has_models) in [
            (r#"{"name":"loom","kind":null,"target":"cfg(tidegate_loom)"}"#, true),
            (r#"{"name":"loom","kind":"dev","target":null}"#, true),
            (r#"{"name":"bloom","kind":null,"target":null}"#, false),
        ] {
            let metadata = format!(
                r#"{{"packages":[{{"name":"a","manifest_path":"/a/Cargo.toml","dependencies":[{dependency}]}}]}}"#
            );
            assert_eq!(read(&metadata).unwrap()[0].has_loom_models, has_models, "{dependency}");
        }
    }
}
