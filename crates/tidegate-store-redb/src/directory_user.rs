//! The process that has a store open, as it is named in the lock file.
//!
//! The first line is the id of the process, the second the name of its host, where the system tells
//! it: two containers that share a volume may both be process 1.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::process;

/// Where Linux tells the name of the host. Elsewhere, and in a service that may not read it, the
/// name stays unknown.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// How much of the lock file is read; it holds less.
const BYTES_MAX: u64 = 256;

/// The process that has the directory of a store open.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectoryUser {
    /// The lock file does not name it.
    Unknown,
    /// Another store of this process.
    ThisProcess,
    /// Another process.
    Process {
        /// Its id, as its host counts processes.
        id: u32,
        /// The name of its host; empty if that is this host, or is not known.
        host: String,
    },
}

impl DirectoryUser {
    pub(crate) fn this_process() -> ProcessName {
        ProcessName { id: process::id(), host: host_name() }
    }

    /// The content of a lock file that another store has locked.
    pub(crate) fn read_from(mut file: &File) -> Self {
        let mut text = String::new();
        let read = (&mut file).take(BYTES_MAX).read_to_string(&mut text);
        let mut lines = text.lines();
        let id = lines.next().and_then(|line| line.parse().ok());
        let (Ok(_), Some(id)) = (read, id) else { return Self::Unknown };
        let host = lines.next().unwrap_or_default();
        match Self::this_process() {
            this if this.host != host => Self::Process { id, host: host.to_owned() },
            this if this.id == id => Self::ThisProcess,
            _ => Self::Process { id, host: String::new() },
        }
    }
}

impl fmt::Display for DirectoryUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("another process"),
            Self::ThisProcess => f.write_str("another store of this process"),
            Self::Process { id, host } if host.is_empty() => write!(f, "process {id}"),
            Self::Process { id, host } => write!(f, "process {id} of host {}", host.escape_default()),
        }
    }
}

/// The name of a process in a lock file.
#[derive(Debug)]
pub(crate) struct ProcessName {
    id: u32,
    host: String,
}

impl ProcessName {
    pub(crate) fn write_to(&self, mut file: &File) -> io::Result<()> {
        file.set_len(0)?;
        file.write_all(format!("{}\n{}\n", self.id, self.host).as_bytes())
    }
}

fn host_name() -> String {
    fs::read_to_string(HOST_NAME).map(|name| name.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use tidegate_test_support::TemporaryFolder;

    use super::*;

    fn lock_file(text: &[u8]) -> File {
        File::open(TemporaryFolder::new().write("LOCK", text)).unwrap()
    }

    #[test]
    fn a_process_is_named_as_far_as_the_lock_file_names_it() {
        let here = host_name();
        let this = process::id();
        for (text, expected) in [
            (String::new(), "another process"),
            ("x".to_owned(), "another process"),
            ("x".repeat(1 << 10), "another process"),
            (format!("{this}\n{here}\n"), "another store of this process"),
            (format!("0\n{here}\n"), "process 0"),
            (format!("{this}\nelse\u{7}where\n"), &format!("process {this} of host else\\u{{7}}where")),
        ] {
            assert_eq!(DirectoryUser::read_from(&lock_file(text.as_bytes())).to_string(), expected, "{text}");
        }
        assert_eq!(DirectoryUser::read_from(&lock_file(&[0xff; 9])), DirectoryUser::Unknown);
    }
}
