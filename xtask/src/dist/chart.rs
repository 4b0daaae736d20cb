//! The Helm chart in an archive, as `helm package` makes it.

use std::fmt::Write;

use super::file_tree::{FileTree, READABLE, gzipped};
use super::identity::Identity;
use crate::checkout;

/// The folder of the chart, from the root of the checkout.
pub(super) const FOLDER: &str = "deploy/helm/tidegate";

/// The archive of the chart at the version of what is given away; an error says why it cannot be
/// made.
pub(super) fn archive(identity: &Identity) -> Result<Vec<u8>, String> {
    let folder = checkout::root().join(FOLDER);
    if !folder.join("Chart.yaml").is_file() {
        return Err(format!("{FOLDER}/Chart.yaml is not there"));
    }
    let mut tree = FileTree::default();
    tree.add_copies("tidegate", &folder)?;
    let description = super::generated_files::read(&format!("{FOLDER}/Chart.yaml"))?;
    tree.add_file("tidegate/Chart.yaml", described(&description, &identity.version)?, READABLE);
    gzipped(&tree.tar(identity.epoch)?)
}

/// The description of the chart with this version of the chart and of what it starts.
fn described(text: &str, version: &str) -> Result<String, String> {
    let mut described = String::with_capacity(text.len());
    let mut replaced = 0;
    for line in text.lines() {
        match line.split_once(':') {
            Some((key @ ("version" | "appVersion"), _)) => {
                let _ = writeln!(described, "{key}: \"{version}\"");
                replaced += 1;
            }
            _ => described.extend([line, "\n"]),
        }
    }
    if replaced == 2 {
        Ok(described)
    } else {
        Err(format!("{FOLDER}/Chart.yaml needs one line `version:` and one line `appVersion:`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_version_of_what_is_given_away() {
        let text = "apiVersion: v2\nname: tidegate\nversion: 0.0.1\nappVersion: \"0.0.1\"\n";
        let described = described(text, "0.1.0-dirty").unwrap();
        assert_eq!(
            described,
            "apiVersion: v2\nname: tidegate\nversion: \"0.1.0-dirty\"\nappVersion: \"0.1.0-dirty\"\n"
        );
        assert!(super::described("name: tidegate\n", "0.1.0").unwrap_err().contains("appVersion"));
    }
}
