//! A disk in memory that keeps what is durable apart from what was only written, and can be crashed
//! and filled.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::{Builder, Database, DatabaseError, StorageBackend};
use tidegate_store::conformance::Random;

use crate::disk::Medium;
use crate::format;

/// The unit that a disk writes whole, or not at all.
const SECTOR: usize = 512;

/// One file on a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedDisk(Arc<Mutex<Image>>);

#[derive(Debug, Default)]
struct Image {
    /// The bytes that survive a crash for certain.
    durable: Vec<u8>,
    /// The bytes that a read returns.
    live: Vec<u8>,
    /// The writes since the last sync.
    pending: Vec<Change>,
    /// How often it was written to or synced.
    steps: u64,
    /// The step at which it crashes: that one and all later ones fail.
    crash_at: Option<u64>,
    /// Whether writes that make it longer fail.
    full: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl SimulatedDisk {
    /// A disk with these bytes on it.
    pub(super) fn with(durable: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Image { live: durable.clone(), durable, ..Image::default() })))
    }

    /// A disk with an empty store.
    pub(super) fn formatted() -> Self {
        let disk = Self::default();
        let database = disk.database();
        format::initialize(&database, 7).unwrap();
        database.close().unwrap();
        disk
    }

    /// The database on it, for tests that change it behind the store's back.
    pub(super) fn database(&self) -> Database {
        Builder::new().set_cache_size(1 << 20).create_with_backend(self.clone()).unwrap()
    }

    fn image(&self) -> MutexGuard<'_, Image> {
        self.0.lock().unwrap()
    }

    pub(super) fn crash_at(&self, step: u64) {
        self.image().crash_at = Some(step);
    }

    pub(super) fn fill(&self, full: bool) {
        self.image().full = full;
    }

    pub(super) fn steps(&self) -> u64 {
        self.image().steps
    }

    /// The bytes after a power cut: all that was synced, and of the writes since
    /// those that the seed chooses.
    pub(super) fn after_power_cut(&self, seed: u64) -> Vec<u8> {
        let image = self.image();
        let mut random = Random::new(seed);
        let kept_first = random.below(image.pending.len() as u64 + 1) as usize;
        let mut bytes = image.durable.clone();
        for (index, change) in image.pending.iter().enumerate() {
            let made = match seed % 5 {
                0 => false,
                2 => index < kept_first,
                3 => random.below(2) == 0,
                _ => true,
            };
            match seed % 5 {
                4 => change.make_torn(&mut bytes, &mut random),
                _ if made => change.make(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}

impl Image {
    fn step(&mut self) -> Result<()> {
        if self.crash_at.is_some_and(|at| at <= self.steps) {
            return Err(Error::other("the power is gone"));
        }
        self.steps += 1;
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.make(&mut self.live);
        self.pending.push(change);
    }
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write(at, data) => write(bytes, *at, data),
        }
    }

    /// Makes some sectors of it.
    fn make_torn(&self, bytes: &mut Vec<u8>, random: &mut Random) {
        let Self::Write(at, data) = self else { return self.make(bytes) };
        let mut from = 0;
        while from < data.len() {
            // Up to the next whole sector of the disk.
            let to = ((at + from) / SECTOR * SECTOR + SECTOR - at).min(data.len());
            if random.below(2) == 0 {
                write(bytes, at + from, &data[from..to]);
            }
            from = to;
        }
    }
}

fn write(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    let end = at + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(data);
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> Result<u64> {
        Ok(self.image().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let image = self.image();
        let (from, to) = (offset as usize, offset as usize + out.len());
        let bytes = image.live.get(from..to).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let mut image = self.image();
        if image.full && len as usize > image.live.len() {
            return Err(ErrorKind::StorageFull.into());
        }
        image.step()?;
        image.change(Change::Length(len as usize));
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        let mut image = self.image();
        image.step()?;
        image.durable = image.live.clone();
        image.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut image = self.image();
        if image.full {
            return Err(ErrorKind::StorageFull.into());
        }
        image.step()?;
        image.change(Change::Write(offset as usize, data.to_vec()));
        Ok(())
    }
}

impl Medium for SimulatedDisk {
    fn open(&self, builder: &Builder) -> std::result::Result<Database, DatabaseError> {
        builder.create_with_backend(self.clone())
    }

    fn path(&self) -> &Path {
        Path::new("simulated")
    }

    fn bytes(&self) -> u64 {
        self.image().live.len() as u64
    }
}
