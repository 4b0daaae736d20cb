//! The archive of a target: the program and everything that belongs beside it.

use super::binary::BuiltBinary;
use super::file_tree::{EXECUTABLE, FileTree, READABLE, gzipped};
use super::generated_files::GeneratedFiles;
use super::identity::Identity;
use crate::checkout;

/// The files of the checkout that are in each archive, with their places in it. The folder of an
/// archive has its own name.
pub(super) const COPIED: &[(&str, &str)] = &[
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("deploy/systemd/tidegate.service", "systemd/tidegate.service"),
    ("deploy/systemd/README.md", "systemd/README.md"),
    ("crates/tidegate-policy/src/reference/annotated.yaml", "annotated.yaml"),
];

/// The name of an archive without its ending, which is the folder in it.
pub(super) fn name(binary: &BuiltBinary, identity: &Identity) -> String {
    format!("tidegate-{}-{}", identity.version, binary.name())
}

/// The archive of a binary.
pub(super) fn of_binary(
    binary: &BuiltBinary,
    generated: &GeneratedFiles,
    identity: &Identity,
) -> Result<Vec<u8>, String> {
    let folder = name(binary, identity);
    let mut tree = FileTree::default();
    let within = |path: &str| format!("{folder}/{path}");
    tree.add_file(&within("tidegate"), binary.bytes.clone(), EXECUTABLE);
    tree.add_file(&within("THIRD-PARTY-NOTICES"), generated.notices.as_str(), READABLE);
    tree.add_copies(&within("man"), &generated.man())?;
    tree.add_copies(&within("completions"), &generated.completions())?;
    for (source, place) in COPIED {
        tree.add_copy(&within(place), &checkout::root().join(source))?;
    }
    gzipped(&tree.tar(identity.epoch)?)
}
