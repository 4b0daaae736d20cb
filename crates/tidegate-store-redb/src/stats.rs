//! The contents of a store and the counts of its writes.

use std::time::Duration;

/// The contents of a [`RedbStore`](crate::RedbStore) and its writes. Counts are since it was
/// opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RedbStats {
    /// Transactions committed.
    pub commits: u64,
    /// Batches they carried: those that changed something.
    pub batches: u64,
    /// Batches of the last commit.
    pub batches_last: u64,
    /// Batches of the largest commit.
    pub batches_max: u64,
    /// How long the last commit took, its `fsync` included.
    pub commit_last: Duration,
    /// How long the longest commit took.
    pub commit_max: Duration,
    /// How long all of them took.
    pub commit_total: Duration,
    /// Bytes of the database on disk, free pages within it included.
    pub bytes_on_disk: u64,
    /// Bytes that counters take on disk, as [`RedbConfig::disk`](crate::RedbConfig::disk) counts.
    pub space_used: u64,
    /// Bytes that they may take.
    pub space_max: u64,
    /// Charges that found no room, on disk or in memory.
    pub full: u64,
    /// Counters in memory.
    pub keys: usize,
    /// Bytes they take, as a rule at most [`RedbConfig::memory`](crate::RedbConfig::memory).
    pub bytes_used: usize,
    /// Notes.
    pub notes: usize,
    /// Bytes they take, at most [`RedbConfig::note_bytes`](crate::RedbConfig::note_bytes).
    pub note_bytes: usize,
    /// Counters and notes that have changed and are not on disk yet.
    pub unsaved: usize,
    /// Counters that had drained and were removed from the disk by the way.
    pub swept: u64,
    /// Counters that were read from the disk.
    pub loaded: u64,
    /// Commits that failed.
    pub failures: u64,
    /// Why the disk was last not written, if it ever was not.
    pub last_error: Option<String>,
    /// Whether it fails now, so that batches are refused.
    pub failing: bool,
}

impl RedbStats {
    /// Batches of a commit on average; 0 before the first.
    #[expect(clippy::cast_precision_loss, reason = "a mean is told in a few digits")]
    pub fn batches_mean(&self) -> f64 {
        if self.commits == 0 { 0.0 } else { self.batches as f64 / self.commits as f64 }
    }
}
