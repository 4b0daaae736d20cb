//! The directory of a store: who may use it, and the files in it.
//!
//! - `lock` is locked as long as a store is open. It holds the process that locked it last, for the
//!   message to the next one.
//! - `counters.redb` is the database. It is made under the name `counters.new` and renamed when it
//!   is whole, so that a crash while it is made leaves nothing that has to be understood.
//!
//! The database holds keys in clear: names of users, API keys. So a new directory is for its owner
//! alone (0700), and the files too (0600), whatever the umask. A directory that is there keeps its
//! mode, as a mounted volume needs; a file in it that users outside of its group may read or write,
//! as earlier versions made it, is tightened to 0600. One that only the group may read stays as it
//! is: an operator gave the group that right.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError};

use crate::directory_user::DirectoryUser;
use crate::disk::{Medium, guarded};
use crate::error::{Failure, OpenError};
use crate::format;

const LOCK: &str = "lock";
const DATABASE: &str = "counters.redb";
const UNFINISHED: &str = "counters.new";

/// The mode of a directory that is made.
const DIRECTORY_MODE: u32 = 0o700;

/// The mode of a file that is made, or tightened.
const FILE_MODE: u32 = 0o600;

/// The access of users outside of the group of a file.
const OTHERS: u32 = 0o007;

/// A directory that no other process uses meanwhile.
#[derive(Debug)]
pub(crate) struct Directory {
    database: PathBuf,
    /// A file in it that users outside of its group may read, and that could not be tightened.
    readable: Option<PathBuf>,
    /// Locked until it is closed.
    _lock: File,
}

impl Directory {
    /// Whether a store is kept in the directory at `path`.
    pub(crate) fn has_store(path: &Path) -> bool {
        path.join(DATABASE).is_file()
    }

    /// Takes the directory, and creates it with an empty store if it does not exist.
    pub(crate) fn take(path: &Path, epoch: u128) -> Result<Self, OpenError> {
        make(path)?;
        let lock = lock(path)?;
        let database = path.join(DATABASE);
        let unfinished = path.join(UNFINISHED);
        let of = |error| OpenError::from_io(path, error);
        if !database.try_exists().map_err(of)? {
            if unfinished.try_exists().map_err(of)? {
                fs::remove_file(&unfinished).map_err(of)?;
            }
            make_database(path, &unfinished, epoch)?;
            fs::rename(&unfinished, &database).map_err(of)?;
            File::open(path).and_then(|directory| directory.sync_all()).map_err(of)?;
        }
        let readable = [database.clone(), path.join(LOCK)].into_iter().find(|file| tighten(file).is_err());
        Ok(Self { database, readable, _lock: lock })
    }

    /// A file of the store that users outside of its group may read or write, because its mode
    /// could not be changed.
    pub(crate) fn readable_by_others(&self) -> Option<&Path> {
        self.readable.as_deref()
    }
}

impl Medium for Directory {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.open(&self.database)
    }

    fn path(&self) -> &Path {
        &self.database
    }

    fn bytes(&self) -> u64 {
        fs::metadata(&self.database).map_or(0, |metadata| metadata.len())
    }
}

fn make(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => return Err(OpenError::NotADirectory { path: path.to_owned() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(OpenError::from_io(path, error)),
    }
    // The parent of a name alone is the empty path, which is where we are.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        // The kernel says so too of a directory of its own that takes no other, as /proc.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !parent.exists() => {
            Err(OpenError::NoParent { path: path.to_owned(), parent: parent.to_owned() })
        }
        Err(error) => Err(OpenError::from_io(path, error)),
        Ok(()) => {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| OpenError::from_io(parent, error))
        }
    }
}

/// Takes from users outside of its group what they may do with a file.
fn tighten(file: &Path) -> std::io::Result<()> {
    if fs::metadata(file)?.permissions().mode() & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(file, Permissions::from_mode(FILE_MODE))
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(FILE_MODE);
    let file = options.open(path.join(LOCK));
    let file = file.map_err(|error| OpenError::from_io(path, error))?;
    match file.try_lock() {
        Ok(()) => {
            // Only a message needs it: a disk that takes nothing is reported when the database is
            // opened.
            let _ = DirectoryUser::this_process().write_to(&file);
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            Err(OpenError::InUse { path: path.to_owned(), user: DirectoryUser::read_from(&file) })
        }
        Err(TryLockError::Error(error)) => Err(OpenError::from_io(path, error)),
    }
}

fn make_database(directory: &Path, path: &Path, epoch: u128) -> Result<(), OpenError> {
    // Made here for its mode; the database fills an empty file.
    let made = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(path);
    made.map_err(|error| OpenError::from_io(directory, error))?;
    let database = guarded(|| Ok(Builder::new().create(path)));
    let failed = |failure: Failure| OpenError::Io {
        path: directory.to_owned(),
        source: std::io::Error::other(failure),
    };
    let database = database.map_err(failed)?.map_err(|error| OpenError::from_database(directory, error))?;
    guarded(|| format::initialize(&database, epoch)).map_err(failed)?;
    database.close().map_err(|error| OpenError::from_database(directory, error))
}

#[cfg(test)]
mod tests {
    use tidegate_test_support::TemporaryFolder;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_new_store_is_for_its_owner_alone() {
        let folder = TemporaryFolder::new();
        let path = folder.join("data");
        let directory = Directory::take(&path, 1).unwrap();
        assert_eq!(mode(&path), 0o700);
        for file in [DATABASE, LOCK] {
            assert_eq!(mode(&path.join(file)), 0o600, "{file}");
        }
        assert_eq!(directory.readable_by_others(), None);
    }

    #[test]
    fn files_that_everybody_may_read_are_tightened_and_those_for_a_group_stay() {
        let folder = TemporaryFolder::new();
        let path = folder.join("data");
        drop(Directory::take(&path, 1).unwrap());
        for (before, after) in [(0o644, 0o600), (0o666, 0o600), (0o640, 0o640), (0o660, 0o660)] {
            set_mode(&path, 0o755);
            for file in [DATABASE, LOCK] {
                set_mode(&path.join(file), before);
            }
            let directory = Directory::take(&path, 1).unwrap();
            assert_eq!(mode(&path), 0o755, "a directory that is there keeps its mode");
            for file in [DATABASE, LOCK] {
                assert_eq!(mode(&path.join(file)), after, "{file} of {before:o}");
            }
            assert_eq!(directory.readable_by_others(), None);
        }
    }
}
