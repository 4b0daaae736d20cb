//! Folders and files that are gone when a test is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// A folder that is removed, with everything in it, when it is dropped.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// A new folder in the directory for temporary files, which only this process uses.
    ///
    /// # Panics
    ///
    /// If it cannot be made, as every function here.
    #[expect(clippy::new_without_default, reason = "each one is another folder")]
    #[must_use]
    pub fn new() -> Self {
        // Only the numbers matter, and they differ whatever the order.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("tidegate-test-{}-{number}", process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // A process of the same id was killed before it removed this one.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of this name in it.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file of this name in it, and returns the path of the file.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
pub struct TemporaryFile {
    path: PathBuf,
    _folder: TemporaryFolder,
}

impl TemporaryFile {
    /// A new file whose name ends in `.yaml`.
    #[must_use]
    pub fn new(content: &str) -> Self {
        let folder = TemporaryFolder::new();
        Self { path: folder.write("file.yaml", content), _folder: folder }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.path.to_str().expect("the directory for temporary files has a name in UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_folders_differ_and_both_go_with_all_that_is_in_them() {
        let (one, other) = (TemporaryFolder::new(), TemporaryFolder::new());
        assert_ne!(one.path(), other.path());
        let path = one.path().to_owned();
        fs::create_dir(one.join("inner")).unwrap();
        one.write("inner/file", "text");
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    #[test]
    fn a_file_goes_with_its_value() {
        let file = TemporaryFile::new("text");
        let path = file.path().to_owned();
        assert_eq!(fs::read_to_string(file.as_str()).unwrap(), "text");
        drop(file);
        assert!(!path.exists());
    }
}
