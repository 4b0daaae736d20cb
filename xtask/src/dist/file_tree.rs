//! Files as they stand in an archive: in the order of their paths, with fixed owners and modes and
//! one time, so that equal files are equal bytes.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// The mode of a file that everybody may read.
pub(super) const READABLE: u32 = 0o644;

/// The mode of a program, and of a folder.
pub(super) const EXECUTABLE: u32 = 0o755;

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TreeEntry {
    /// The bytes of a file; nothing for a folder.
    content: Option<Vec<u8>>,
    mode: u32,
    /// The user and the group.
    owner: u32,
}

/// Files and folders by their paths, without a slash at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileTree {
    entries: BTreeMap<String, TreeEntry>,
}

impl FileTree {
    /// Adds a file of root.
    pub(super) fn add_file(&mut self, path: &str, content: impl Into<Vec<u8>>, mode: u32) {
        self.add(path, TreeEntry { content: Some(content.into()), mode, owner: 0 });
    }

    /// Adds a folder of a user.
    pub(super) fn add_folder_of(&mut self, owner: u32, path: &str) {
        self.add(path, TreeEntry { content: None, mode: EXECUTABLE, owner });
    }

    /// Adds a file of the checkout.
    pub(super) fn add_copy(&mut self, path: &str, source: &Path) -> Result<(), String> {
        let content = std::fs::read(source).map_err(|error| format!("{}: {error}", source.display()))?;
        self.add_file(path, content, READABLE);
        Ok(())
    }

    /// Adds every file of a folder, and of the folders in it, below `path`.
    pub(super) fn add_copies(&mut self, path: &str, folder: &Path) -> Result<(), String> {
        let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let inner = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.file_type().map_err(unreadable)?.is_dir() {
                self.add_copies(&inner, &entry.path())?;
            } else {
                self.add_copy(&inner, &entry.path())?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, entry: TreeEntry) {
        // The folders on the way, unless they are there with an owner of their own.
        for (end, _) in path.match_indices('/') {
            let folder = TreeEntry { content: None, mode: EXECUTABLE, owner: 0 };
            self.entries.entry(path[..end].to_owned()).or_insert(folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// The tree as a tar archive in which everything was changed at `epoch`, in seconds since 1970.
    pub(super) fn tar(&self, epoch: u64) -> Result<Vec<u8>, String> {
        let mut archive = Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            let failed = |error: std::io::Error| format!("{path} cannot be archived: {error}");
            let content = entry.content.as_deref().unwrap_or_default();
            let is_folder = entry.content.is_none();
            let mut header = Header::new_gnu();
            header.set_entry_type(if is_folder { EntryType::Directory } else { EntryType::Regular });
            header.set_mode(entry.mode);
            header.set_uid(entry.owner.into());
            header.set_gid(entry.owner.into());
            header.set_mtime(epoch);
            header.set_size(content.len() as u64);
            let path = if is_folder { format!("{path}/") } else { path.clone() };
            archive.append_data(&mut header, path, content).map_err(failed)?;
        }
        archive.into_inner().map_err(|error| format!("an archive cannot be written: {error}"))
    }
}

/// Bytes compressed by gzip, without a name and a time in the header.
pub(super) fn gzipped(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("an archive cannot be compressed: {error}");
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes).map_err(failed)?;
    encoder.finish().map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    #[test]
    fn the_same_files_in_another_order_are_the_same_bytes() {
        let (mut one, mut other) = (FileTree::default(), FileTree::default());
        one.add_file("a/x", "1", READABLE);
        one.add_file("a/y", "2", EXECUTABLE);
        other.add_file("a/y", "2", EXECUTABLE);
        other.add_file("a/x", "1", READABLE);
        let archive = |tree: &FileTree| gzipped(&tree.tar(7).unwrap()).unwrap();
        assert_eq!(archive(&one), archive(&other));
        assert_ne!(archive(&one), gzipped(&one.tar(8).unwrap()).unwrap(), "the time is in it");
        // RFC 1952: flags without a name, four bytes of time.
        assert_eq!(archive(&one)[3..8], [0; 5]);
    }

    #[test]
    fn an_archive_has_every_folder_with_the_owner_that_was_named() {
        let mut tree = FileTree::default();
        tree.add_folder_of(65532, "var/lib/tidegate");
        tree.add_file("etc/tidegate/tidegate.yaml", "x", READABLE);
        let bytes = gzipped(&tree.tar(0).unwrap()).unwrap();
        let mut plain = Vec::new();
        GzDecoder::new(&*bytes).read_to_end(&mut plain).unwrap();
        let mut found = Vec::new();
        for entry in Archive::new(&*plain).entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            found.push((
                entry.path().unwrap().display().to_string(),
                header.uid().unwrap(),
                header.mode().unwrap(),
                header.mtime().unwrap(),
            ));
        }
        let expected = [
            ("etc/", 0, 0o755),
            ("etc/tidegate/", 0, 0o755),
            ("etc/tidegate/tidegate.yaml", 0, 0o644),
            ("var/", 0, 0o755),
            ("var/lib/", 0, 0o755),
            ("var/lib/tidegate/", 65532, 0o755),
        ];
        assert_eq!(found, expected.map(|(path, owner, mode)| (path.to_owned(), owner, mode, 0)));
    }
}
