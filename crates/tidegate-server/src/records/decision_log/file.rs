//! A file that is renamed when it is full.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::queue::RETRY_AFTER;

/// The file that is written, and those that were before it.
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    size_bytes: u64,
    files: u16,
    current: Option<OpenLogFile>,
    /// Until then nothing is tried, after something failed.
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct OpenLogFile {
    file: File,
    bytes: u64,
    /// Which file it is, to see whether it was moved or removed.
    identity: (u64, u64),
    /// Whether it can be renamed: not a device or a pipe.
    is_regular: bool,
    look_at: Instant,
}

/// Why nothing was written.
#[derive(Debug)]
pub(super) enum WriteFailure {
    /// It failed.
    Failed(io::Error),
    /// It failed a moment ago and is not tried again yet.
    Waiting,
}

impl RotatingFile {
    /// Opens the file, which is made if it is missing.
    pub(super) fn open(path: PathBuf, size_bytes: u64, files: u16) -> io::Result<Self> {
        let current = Some(OpenLogFile::open(&path, Instant::now())?);
        Ok(Self { path, size_bytes, files, current, retry_at: None })
    }

    /// The path it is at.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that the file is open and is the one at the path.
    pub(super) fn ready(&mut self, now: Instant) -> Result<(), WriteFailure> {
        if self.retry_at.is_some_and(|until| now < until) {
            return Err(WriteFailure::Waiting);
        }
        if let Some(current) = &mut self.current
            && now >= current.look_at
        {
            current.look_at = now + RETRY_AFTER;
            let is_there = fs::metadata(&self.path).is_ok_and(|found| identity(&found) == current.identity);
            if !is_there {
                self.current = None;
            }
        }
        if self.current.is_none() {
            match OpenLogFile::open(&self.path, now) {
                Ok(opened) => self.current = Some(opened),
                Err(error) => return Err(self.failed(error, now)),
            }
        }
        self.retry_at = None;
        Ok(())
    }

    /// Whether a line fits after those that are `pending`. An empty file takes one of any length.
    pub(super) fn has_room(&self, pending: &[u8], line: &[u8]) -> bool {
        self.current.as_ref().is_none_or(|current| {
            let before = current.bytes + pending.len() as u64;
            !current.is_regular || before == 0 || before + line.len() as u64 <= self.size_bytes
        })
    }

    /// Appends lines, or none of them that counts.
    pub(super) fn append(&mut self, bytes: &[u8], now: Instant) -> Result<(), WriteFailure> {
        self.ready(now)?;
        let Some(current) = &mut self.current else { return Err(WriteFailure::Waiting) };
        match current.file.write_all(bytes) {
            Ok(()) => {
                current.bytes += bytes.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.failed(error, now)),
        }
    }

    /// Renames the file to the first of the kept ones, each of those to the next, and opens
    /// another.
    pub(super) fn rotate(&mut self, now: Instant) -> Result<(), WriteFailure> {
        // Closed first: after a failure on the way, the path is opened anew.
        self.current = None;
        let renamed = (|| {
            if self.files == 0 {
                return fs::remove_file(&self.path);
            }
            for number in (1..self.files).rev() {
                match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::rename(&self.path, self.numbered(1))
        })();
        match renamed {
            Ok(()) => self.ready(now),
            Err(error) => Err(self.failed(error, now)),
        }
    }

    /// Opens the file at the path, without the pause after a failure.
    pub(super) fn reopen(&mut self, now: Instant) -> Result<(), WriteFailure> {
        self.current = None;
        self.retry_at = None;
        self.ready(now)
    }

    fn numbered(&self, number: u16) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    fn failed(&mut self, error: io::Error, now: Instant) -> WriteFailure {
        self.current = None;
        self.retry_at = Some(now + RETRY_AFTER);
        WriteFailure::Failed(error)
    }
}

impl OpenLogFile {
    fn open(path: &Path, now: Instant) -> io::Result<Self> {
        // Not readable for other users: attributes of requests may be keys or names of people.
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(path)?;
        let found = file.metadata()?;
        let mut bytes = found.len();
        let is_regular = found.is_file();
        if is_regular && bytes > 0 {
            // A line that was cut off, by a crash or a full disk, must not swallow the next.
            let mut last = [0];
            file.read_exact_at(&mut last, bytes - 1)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                bytes += 1;
            }
        }
        Ok(Self { file, bytes, identity: identity(&found), is_regular, look_at: now + RETRY_AFTER })
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}
