//! The bill of materials: every crate in the binary, as `CycloneDX` lists them.
//!
//! The tool sees the features that any member of the workspace turns on, and so lists crates that
//! the command is never linked with. Those that `cargo tree` does not know are taken out: nobody
//! should look for a fault in them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::binary::{FEATURES, PACKAGE};
use super::identity::{EPOCH_VARIABLE, Identity};
use super::targets::ReleaseTarget;
use crate::cargo::{cargo, succeeds};
use crate::{checkout, crate_tree, prerequisites};

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
    let mut bill: Value = serde_json::from_str(&without_paths(&text?))
        .map_err(|error| format!("the bill of materials is no JSON: {error}"))?;
    let options = ["--features", FEATURES, "--target", target.triple];
    let tree = crate_tree::lines(PACKAGE, "normal,build", &options)?;
    keep_only(&mut bill, &tree);
    serde_json::to_vec_pretty(&bill).map_err(|error| format!("the bill of materials: {error}"))
}

/// Keeps the components that `tree` lists as `name vVERSION`, and what the bill says of them.
fn keep_only(bill: &mut Value, tree: &str) {
    let crates = crate_tree::crates_in(tree.lines());
    let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut kept = BTreeSet::from([text(&bill["metadata"]["component"], "bom-ref")]);
    if let Some(components) = bill["components"].as_array_mut() {
        components.retain(|component| {
            let name = format!("{} {}", text(component, "name"), text(component, "version"));
            crates.contains(&name)
        });
        kept.extend(components.iter().map(|component| text(component, "bom-ref")));
    }
    let Some(dependencies) = bill["dependencies"].as_array_mut() else { return };
    dependencies.retain(|dependency| kept.contains(&text(dependency, "ref")));
    for dependency in dependencies {
        if let Some(needed) = dependency.get_mut("dependsOn").and_then(Value::as_array_mut) {
            needed.retain(|needed| needed.as_str().is_some_and(|needed| kept.contains(needed)));
        }
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crates_that_the_command_is_not_linked_with_are_not_in_the_bill() {
        let component = |name: &str| json!({ "name": name, "version": "1.0.0", "bom-ref": name });
        let mut bill = json!({
            "metadata": { "component": { "bom-ref": "cli" } },
            "components": [component("bytes"), component("axum")],
            "dependencies": [
                { "ref": "cli", "dependsOn": ["bytes", "axum"] }, { "ref": "axum", "dependsOn": ["bytes"] },
                { "ref": "bytes" },
            ],
        });
        keep_only(&mut bill, "tidegate-cli v0.1.0 (/w)\nbytes v1.0.0\naxum v0.9.0\n");
        assert_eq!(bill["components"], json!([component("bytes")]));
        assert_eq!(
            bill["dependencies"],
            json!([{ "ref": "cli", "dependsOn": ["bytes"] }, { "ref": "bytes" }])
        );
    }
}
