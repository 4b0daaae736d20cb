//! The parts of a suite that have passed, kept in a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::figures::Figures;

/// The passed parts of one suite at one revision.
#[derive(Debug)]
pub(super) struct Progress {
    file: PathBuf,
    passed: BTreeMap<String, (Duration, Figures)>,
}

impl Progress {
    /// No part has passed.
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, passed: BTreeMap::new() }
    }

    /// The parts of the file, which may be absent.
    pub(super) fn open(file: PathBuf) -> Result<Self, String> {
        let mut progress = Self::new(file);
        if !progress.file.exists() {
            return Ok(progress);
        }
        let file = progress.file.display();
        let text = fs::read_to_string(&progress.file).map_err(|error| format!("{file}: {error}"))?;
        progress.passed = serde_json::from_str(&text)
            .map_err(|error| format!("{file} is damaged: {error}; run with --fresh"))?;
        Ok(progress)
    }

    /// Forgets parts that the suite does not have any more.
    pub(super) fn keep_only(&mut self, names: &[&str]) {
        self.passed.retain(|name, _| names.contains(&name.as_str()));
    }

    /// Keeps a part that has passed. The file is replaced as a whole, so that a process which is
    /// killed leaves the old one or the new one.
    pub(super) fn finish(&mut self, part: &str, took: Duration, figures: Figures) -> Result<(), String> {
        self.passed.insert(part.to_owned(), (took, figures));
        let text = serde_json::to_vec(&self.passed).expect("times and figures always serialise");
        let unwritable = |error| format!("{}: {error}", self.file.display());
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder).map_err(unwritable)?;
        }
        let new = self.file.with_extension("new");
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.file)).map_err(unwritable)
    }

    pub(super) fn has(&self, part: &str) -> bool {
        self.passed.contains_key(part)
    }

    /// The file that keeps the parts.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// How many parts have passed.
    pub(super) fn count(&self) -> usize {
        self.passed.len()
    }

    /// How long these parts took together.
    pub(super) fn took(&self) -> Duration {
        self.passed.values().map(|(took, _)| *took).sum()
    }

    /// The sum of their figures.
    pub(super) fn figures(&self) -> Figures {
        Figures::sum(self.passed.values().map(|(_, figures)| figures))
    }
}
