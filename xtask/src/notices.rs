//! The notices that a binary must be handed out with: each crate of others in it, its licence, and
//! the texts of the licences as the crates bring them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cargo::{cargo, output_of};
use crate::crate_tree;

/// The package whose binary is handed out.
pub(crate) const BINARY: &str = "tidegate-cli";

/// How the names of files with licences and notices begin, in capitals.
const FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// A crate of others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ForeignCrate {
    name: String,
    version: String,
    /// As SPDX writes it.
    license: String,
    folder: PathBuf,
}

/// Prints the notices; false if they cannot be collected.
pub(crate) fn print() -> bool {
    match collect() {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("{error}");
            return false;
        }
    }
    true
}

/// The notices as one text.
pub(crate) fn collect() -> Result<String, String> {
    let tree = crate_tree::lines(BINARY, "normal", &["--format", "{p}"])?;
    let metadata = output_of(&mut cargo(&["metadata", "--locked", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let crates = foreign_crates(&tree, &metadata)?;
    let texts = crates.iter().map(|one| Ok((one, texts_in(&one.folder)?)));
    Ok(written(&texts.collect::<Result<Vec<_>, String>>()?))
}

/// The crates of others that `tree` lists as `name vVERSION`, with what `metadata` says of them.
fn foreign_crates(tree: &str, metadata: &Value) -> Result<BTreeSet<ForeignCrate>, String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no `packages`")?;
    let mut crates = BTreeSet::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let version = version.trim_start_matches('v');
        let package = packages
            .iter()
            .find(|package| package["name"] == name && package["version"] == version)
            .ok_or_else(|| format!("cargo metadata does not know {name} {version}"))?;
        // Crates of this workspace have no source.
        if package["source"].is_null() {
            continue;
        }
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        crates.insert(ForeignCrate {
            name: name.to_owned(),
            version: version.to_owned(),
            license: package["license"].as_str().unwrap_or("see its text").to_owned(),
            folder: Path::new(manifest).parent().unwrap_or(Path::new("")).to_owned(),
        });
    }
    Ok(crates)
}

/// The licences and notices in a folder.
fn texts_in(folder: &Path) -> Result<Vec<String>, String> {
    let shown = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(shown)? {
        let path = entry.map_err(shown)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && FILES.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    let read = |path: &PathBuf| {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    files.iter().map(read).collect()
}

/// The list of the crates, then each text once with the crates that bring it.
fn written(crates: &[(&ForeignCrate, Vec<String>)]) -> String {
    let mut out = String::from("Tidegate contains the following crates of others.\n\n");
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (one, own) in crates {
        let _ = writeln!(out, "{} {}: {}", one.name, one.version, one.license);
        for text in own {
            texts.entry(text).or_default().push(format!("{} {}", one.name, one.version));
        }
    }
    let mut texts: Vec<(&str, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|(_, one), (_, other)| one.cmp(other));
    for (text, names) in texts {
        let _ = write!(out, "\n{}\n{}\n\n{text}\n", "-".repeat(80), names.join(", "));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_listed_and_those_of_the_workspace_are_not() {
        let metadata: Value = serde_json::from_str(
            r#"{"packages":[
                {"name":"tidegate-cli","version":"0.1.0","source":null,"manifest_path":"/w/Cargo.toml"},
                {"name":"bytes","version":"1.2.3","source":"registry","license":"MIT",
                 "manifest_path":"/r/bytes/Cargo.toml"}]}"#,
        )
        .unwrap();
        let tree = "tidegate-cli v0.1.0 (/w)\nbytes v1.2.3\nbytes v1.2.3 (*)\n";
        let crates = foreign_crates(tree, &metadata).unwrap();
        let names: Vec<_> =
            crates.iter().map(|one| (&*one.name, &*one.license, one.folder.as_path())).collect();
        assert_eq!(names, [("bytes", "MIT", Path::new("/r/bytes"))]);
        assert!(foreign_crates("other v1.0.0", &metadata).unwrap_err().contains("other 1.0.0"));
    }

    #[test]
    fn a_text_stands_once_with_all_crates_that_bring_it() {
        let one = |name: &str| ForeignCrate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: "MIT".to_owned(),
            folder: PathBuf::new(),
        };
        let (a, b) = (one("a"), one("b"));
        let mit = || vec!["MIT text".to_owned()];
        let text = written(&[(&a, mit()), (&b, mit())]);
        assert_eq!(text.matches("MIT text").count(), 1);
        assert!(
            text.contains("a 1.0.0: MIT\nb 1.0.0: MIT\n") && text.contains("a 1.0.0, b 1.0.0\n\nMIT text\n")
        );
    }
}
