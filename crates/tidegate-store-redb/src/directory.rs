//! The directory of a store: who may use it, and the files in it.
//!
//! - `lock` is locked as long as a store is open. It holds the process that locked it last, for the message to the next one.
//! - `counters.redb` is the database. It is made under the name `counters.new` and renamed when it is whole, so that a crash
//!   while it is made leaves nothing that has to be understood.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use redb::{Builder, Database, DatabaseError};

use crate::directory_user::DirectoryUser;
use crate::disk::{Medium, guarded};
use crate::error::{Failure, OpenError};
use crate::format;

const LOCK: &str = "lock";
const DATABASE: &str = "counters.redb";
const UNFINISHED: &str = "counters.new";

/// A directory that no other process uses meanwhile.
#[derive(Debug)]
pub(crate) struct Directory {
    database: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

impl Directory {
    /// Whether a store is kept in the directory at `path`.
    pub(crate) fn has_store(path: &Path) -> bool {
        path.join(DATABASE).is_file()
    }

    /// Takes the directory, making it and an empty store in it if there is none.
    pub(crate) fn take(path: &Path, epoch: u128) -> Result<Self, OpenError> {
        make(path)?;
        let lock = lock(path)?;
        let database = path.join(DATABASE);
        let unfinished = path.join(UNFINISHED);
        let of = |error| OpenError::of(path, error);
        if !database.try_exists().map_err(of)? {
            if unfinished.try_exists().map_err(of)? {
                fs::remove_file(&unfinished).map_err(of)?;
            }
            make_database(path, &unfinished, epoch)?;
            fs::rename(&unfinished, &database).map_err(of)?;
            File::open(path).and_then(|directory| directory.sync_all()).map_err(of)?;
        }
        Ok(Self { database, _lock: lock })
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
        Err(error) => return Err(OpenError::of(path, error)),
    }
    // The parent of a name alone is the empty path, which is where we are.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match fs::create_dir(path) {
        // The kernel says so too of a directory of its own that takes no other, as /proc.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !parent.exists() => {
            Err(OpenError::NoParent { path: path.to_owned(), parent: parent.to_owned() })
        }
        Err(error) => Err(OpenError::of(path, error)),
        Ok(()) => {
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.map_err(|error| OpenError::of(parent, error))
        }
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path.join(LOCK));
    let file = file.map_err(|error| OpenError::of(path, error))?;
    match file.try_lock() {
        Ok(()) => {
            // Only a message needs it: a disk that takes nothing is reported when the database is opened.
            let _ = DirectoryUser::this_process().write_to(&file);
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            Err(OpenError::InUse { path: path.to_owned(), user: DirectoryUser::read_from(&file) })
        }
        Err(TryLockError::Error(error)) => Err(OpenError::of(path, error)),
    }
}

fn make_database(directory: &Path, path: &Path, epoch: u128) -> Result<(), OpenError> {
    let database = guarded(|| Ok(Builder::new().create(path)));
    let failed = |failure: Failure| OpenError::Io {
        path: directory.to_owned(),
        source: std::io::Error::other(failure),
    };
    let database = database.map_err(failed)?.map_err(|error| OpenError::of_database(directory, error))?;
    guarded(|| format::initialize(&database, epoch)).map_err(failed)?;
    database.close().map_err(|error| OpenError::of_database(directory, error))
}
