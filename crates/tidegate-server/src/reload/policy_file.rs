//! Detection of changes of a policy file: written in place, replaced by another file, or reached
//! through a link that now leads elsewhere, as a Kubernetes `ConfigMap` does.
//!
//! The file is polled rather than watched: that works on every file system, for links of any depth,
//! and for files that are not there at the moment. A poll of an unchanged file is one system call.

use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tidegate_net::regular_file::open_regular;

/// The largest policy file that is read. Above it: an error, and the policy in force stays.
pub const POLICY_BYTES_MAX: u64 = tidegate_policy::bounds::TEXT_BYTES_MAX as u64;

/// How often a policy file is looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long a file that is written in place must have rested before it is read: half of a policy
/// may be a policy too.
const REST_IN_PLACE: Duration = Duration::from_millis(200);

/// The same for a file that took the place of another one, which usually is whole from the start.
const REST_REPLACED: Duration = Duration::from_millis(20);

/// A policy file, and its state at the last read.
#[derive(Debug)]
pub struct PolicyFile {
    path: PathBuf,
    seen: Option<Stamp>,
    /// The last error that was returned, so that it is returned once and not four times a second.
    trouble: Option<String>,
}

/// The metadata by which two states of a file differ, without reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    const fn is_same_file(self, other: Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }
}

/// The result of a look at the file.
#[derive(Debug)]
pub enum PolicyFileLook {
    /// Nothing new, or nothing that is whole yet.
    Nothing,
    /// Other content than the last time.
    Changed(Vec<u8>),
    /// The file cannot be read; returned once for each kind of error.
    Unreadable(io::Error),
}

impl PolicyFile {
    /// The file at `path`, read now.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<(Self, Vec<u8>)> {
        let path = path.into();
        let (stamp, bytes) = read(&path)?;
        Ok((Self { path, seen: Some(stamp), trouble: None }, bytes))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks whether there is something new. `wall` is the time by the clock that files are stamped
    /// with.
    pub fn look(&mut self, wall: SystemTime) -> PolicyFileLook {
        let stamp = match fs::metadata(&self.path) {
            Ok(metadata) => Stamp::from_metadata(&metadata),
            Err(error) => return self.unreadable(error),
        };
        if self.seen == Some(stamp) {
            self.trouble = None;
            return PolicyFileLook::Nothing;
        }
        let rest = match self.seen {
            Some(seen) if seen.is_same_file(stamp) => REST_IN_PLACE,
            _ => REST_REPLACED,
        };
        if !has_rested(stamp, wall, rest) {
            return PolicyFileLook::Nothing;
        }
        self.read_now()
    }

    /// Reads the file whether or not it has changed.
    pub fn read_now(&mut self) -> PolicyFileLook {
        match read(&self.path) {
            Ok((stamp, bytes)) => {
                self.trouble = None;
                self.seen = Some(stamp);
                PolicyFileLook::Changed(bytes)
            }
            // The file changed during the read, so the text may be a mixture of the old and the new
            // one.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => PolicyFileLook::Nothing,
            Err(error) => self.unreadable(error),
        }
    }

    fn unreadable(&mut self, error: io::Error) -> PolicyFileLook {
        let trouble = error.to_string();
        if self.trouble.as_ref() == Some(&trouble) {
            return PolicyFileLook::Nothing;
        }
        self.trouble = Some(trouble);
        PolicyFileLook::Unreadable(error)
    }
}

fn has_rested(stamp: Stamp, wall: SystemTime, rest: Duration) -> bool {
    let (seconds, nanos) = stamp.modified;
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else { return true };
    let modified = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    // Another clock has stamped a file from the future, so its age is unknown.
    wall.duration_since(modified).map_or(true, |age| age >= rest)
}

fn read(path: &Path) -> io::Result<(Stamp, Vec<u8>)> {
    let file = open_regular(path)?;
    let before = Stamp::from_metadata(&file.metadata()?);
    if before.bytes > POLICY_BYTES_MAX {
        let text = format!("it has {} bytes, more than the {POLICY_BYTES_MAX} of a policy", before.bytes);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    let mut bytes = Vec::new();
    (&file).take(POLICY_BYTES_MAX).read_to_end(&mut bytes)?;
    if Stamp::from_metadata(&file.metadata()?) != before {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok((before, bytes))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::symlink;

    use tidegate_test_support::TemporaryFolder;

    use super::*;

    /// Long after everything the test wrote.
    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_hours(1)
    }

    fn content(look: PolicyFileLook) -> Option<String> {
        match look {
            PolicyFileLook::Changed(bytes) => Some(String::from_utf8(bytes).unwrap()),
            PolicyFileLook::Nothing => None,
            PolicyFileLook::Unreadable(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_file_that_stays_is_read_once_and_a_replaced_one_again() {
        let folder = TemporaryFolder::new();
        let path = folder.write("policy.yaml", "one");
        let (mut file, bytes) = PolicyFile::open(&path).unwrap();
        assert_eq!(bytes, b"one");
        assert_eq!(content(file.look(later())), None);
        let new = folder.write("new.yaml", "two");
        fs::rename(new, &path).unwrap();
        assert_eq!(content(file.look(later())).as_deref(), Some("two"));
        assert_eq!(content(file.look(later())), None);
    }

    #[test]
    fn a_file_written_in_place_is_left_alone_until_it_rests() {
        let folder = TemporaryFolder::new();
        let path = folder.write("policy.yaml", "one");
        let (mut file, _) = PolicyFile::open(&path).unwrap();
        fs::write(&path, "hal").unwrap();
        assert_eq!(content(file.look(fs::metadata(&path).unwrap().modified().unwrap())), None);
        fs::write(&path, "half and half").unwrap();
        assert_eq!(content(file.look(later())).as_deref(), Some("half and half"));
    }

    #[test]
    fn a_link_that_leads_elsewhere_is_a_change_and_one_that_leads_nowhere_is_told_once() {
        let folder = TemporaryFolder::new();
        // As a ConfigMap is mounted: policy.yaml -> ..data/policy.yaml, ..data -> a folder that is
        // swapped.
        for version in ["v1", "v2"] {
            fs::create_dir(folder.join(version)).unwrap();
            fs::write(folder.join(version).join("policy.yaml"), version).unwrap();
        }
        symlink("v1", folder.join("..data")).unwrap();
        symlink("..data/policy.yaml", folder.join("policy.yaml")).unwrap();
        let (mut file, bytes) = PolicyFile::open(folder.join("policy.yaml")).unwrap();
        assert_eq!(bytes, b"v1");
        let swap = |to: &str| {
            symlink(to, folder.join("..new")).unwrap();
            fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
        };
        swap("v2");
        assert_eq!(content(file.look(later())).as_deref(), Some("v2"));
        swap("v3");
        assert!(matches!(file.look(later()), PolicyFileLook::Unreadable(_)), "a link to nothing");
        assert_eq!(content(file.look(later())), None, "told once");
        swap("v1");
        assert_eq!(content(file.look(later())).as_deref(), Some("v1"));
    }

    #[test]
    fn a_file_beyond_the_bound_is_an_error_that_says_how_large_it_is() {
        let folder = TemporaryFolder::new();
        let path = folder.write("policy.yaml", "one");
        let (mut file, _) = PolicyFile::open(&path).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(POLICY_BYTES_MAX + 1).unwrap();
        let PolicyFileLook::Unreadable(error) = file.look(later()) else { panic!("it is too large") };
        assert!(error.to_string().contains(&format!("more than the {POLICY_BYTES_MAX} ")), "{error}");
    }
}
