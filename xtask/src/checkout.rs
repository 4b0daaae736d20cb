//! The folder of the checkout, and the files in it that people write.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of the checkout with such files; the files in its root are added to them.
const FOLDERS: &[&str] =
    &[".cargo", ".ci", ".github", "crates", "deploy", "docs", "examples", "fuzz", "xtask"];

/// Folders anywhere below those whose files are not ours or are not read by people.
const SKIPPED_FOLDERS: &[&str] = &["corpus", "generated", "node_modules", "proto", "target", "__pycache__"];

/// The folder that holds the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace")
}

/// The files that people write, in the order of their paths.
pub(crate) fn files() -> Result<BTreeSet<PathBuf>, String> {
    files_below(root())
}

/// The same of another checkout.
pub(crate) fn files_below(root: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let mut files = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if !entry.file_type().map_err(unreadable)?.is_dir() {
                files.insert(path);
            } else if if folder == root {
                FOLDERS.contains(&&*name)
            } else {
                !SKIPPED_FOLDERS.contains(&&*name)
            } {
                folders.push(path);
            }
        }
    }
    Ok(files)
}

/// The path of a file of the checkout from its root.
pub(crate) fn path_from_root(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).to_string_lossy().replace('\\', "/")
}

/// The name under which a file is counted: its crate, its folder in the root, or `root`.
pub(crate) fn area_of(path_from_root: &str) -> &str {
    let mut parts = path_from_root.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some(folder), Some(_)) if !folder.starts_with('.') => folder,
        _ => "root",
    }
}
