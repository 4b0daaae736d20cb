//! The folder of what is given away.

use std::fs;
use std::path::{Path, PathBuf};

use super::checksum;

/// Artifacts, written one by one. The skipped ones are listed with their reasons.
#[derive(Debug)]
pub(super) struct ArtifactFolder {
    folder: PathBuf,
    sums: String,
    made: Vec<(String, usize)>,
    skipped: Vec<(String, String)>,
}

impl ArtifactFolder {
    /// An empty folder. Of what is there, only artifacts of an earlier run are removed.
    pub(super) fn prepare(folder: &Path) -> Result<Self, String> {
        let failed =
            |error: std::io::Error| format!("{}: {error}; name another with --out", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let sums = folder.join(checksum::FILE);
        let earlier = fs::read_to_string(&sums).unwrap_or_default();
        for name in checksum::names(&earlier) {
            let _ = fs::remove_file(folder.join(name));
        }
        let _ = fs::remove_file(sums);
        Ok(Self { folder: folder.to_owned(), sums: String::new(), made: Vec::new(), skipped: Vec::new() })
    }

    /// Writes an artifact, or notes why it cannot be made.
    pub(super) fn add(&mut self, name: &str, content: Result<Vec<u8>, String>) -> Result<(), String> {
        match content {
            Ok(bytes) => {
                let path = self.folder.join(name);
                fs::write(&path, &bytes).map_err(|error| format!("{}: {error}", path.display()))?;
                println!("made: {name}, {}", in_megabytes(bytes.len()));
                self.sums.push_str(&checksum::line(name, &bytes));
                self.made.push((name.to_owned(), bytes.len()));
            }
            Err(reason) => self.skip(name, reason),
        }
        Ok(())
    }

    /// Notes why an artifact is not made.
    pub(super) fn skip(&mut self, name: &str, reason: String) {
        println!("skipped: {name}: {reason}");
        self.skipped.push((name.to_owned(), reason));
    }

    /// Writes the checksums and prints the list; how many artifacts were made and skipped.
    pub(super) fn finish(mut self) -> Result<(usize, usize), String> {
        let mut lines: Vec<&str> = self.sums.lines().collect();
        lines.sort_unstable_by_key(|line| line.split_once("  ").map(|(_, name)| name));
        let text = lines.join("\n") + "\n";
        let sums = self.folder.join(checksum::FILE);
        fs::write(&sums, &text).map_err(|error| format!("{}: {error}", sums.display()))?;
        println!("\n{}:\n{text}", self.folder.display());
        self.made.sort_unstable();
        for (name, bytes) in &self.made {
            println!("{:>10}  {name}", in_megabytes(*bytes));
        }
        for (name, reason) in &self.skipped {
            println!("   skipped  {name}: {reason}");
        }
        Ok((self.made.len(), self.skipped.len()))
    }
}

#[expect(clippy::cast_precision_loss, reason = "artifacts are far below 2^52 bytes")]
fn in_megabytes(bytes: usize) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use tidegate_test_support::TemporaryFolder;

    use super::*;

    #[test]
    fn a_second_run_removes_what_the_first_has_made_and_nothing_else() {
        let folder = TemporaryFolder::new();
        folder.write("mine.txt", "x");
        let mut first = ArtifactFolder::prepare(folder.path()).unwrap();
        first.add("a.tar.gz", Ok(b"a".to_vec())).unwrap();
        first.add("b.deb", Err("no tool".to_owned())).unwrap();
        assert_eq!(first.finish(), Ok((1, 1)));
        let mut second = ArtifactFolder::prepare(folder.path()).unwrap();
        second.add("c.tar.gz", Ok(b"c".to_vec())).unwrap();
        second.add("b.tar.gz", Ok(b"b".to_vec())).unwrap();
        assert_eq!(second.finish(), Ok((2, 0)));
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        assert_eq!(names, ["SHA256SUMS", "b.tar.gz", "c.tar.gz", "mine.txt"]);
        let sums = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
        assert_eq!(checksum::names(&sums).collect::<Vec<_>>(), ["b.tar.gz", "c.tar.gz"], "in order");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_the_option() {
        let folder = TemporaryFolder::new();
        let file = folder.write("file", "");
        let error = ArtifactFolder::prepare(&file.join("inner")).unwrap_err();
        assert!(error.contains("--out") && error.contains("inner"), "{error}");
    }
}
