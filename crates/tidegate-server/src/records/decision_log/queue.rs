//! The queue between the callers of a decision log and its writer.

use core::time::Duration;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
#[cfg(test)]
use std::sync::mpsc::SyncSender;

/// How long a line waits for others at most before it is in the file.
pub(crate) const FLUSH_AFTER: Duration = Duration::from_millis(200);

/// How long the file is left alone after it could not be written, and how often it is looked for
/// where it was.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How many buffers are kept to be used again.
const SPARE_MAX: usize = 256;

/// A message to the writer.
#[derive(Debug)]
pub(super) enum Message {
    /// A line with its line break.
    DecisionRecord(Vec<u8>),
    /// Check the flags.
    Wake,
    /// Reply when all earlier lines are in the file, or lost.
    #[cfg(test)]
    Flush(SyncSender<()>),
}

/// The state that the callers share with the writer. Counts are `Relaxed`, because nothing is
/// ordered by them. The flags are set with `Release` and read with `Acquire`, so that the writer
/// sees everything that happened before.
#[derive(Debug, Default)]
pub(super) struct WriterState {
    pub(super) queued: AtomicUsize,
    pub(super) queued_bytes: AtomicUsize,
    pub(super) written: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) closing: AtomicBool,
    pub(super) reopen: AtomicBool,
    pub(super) spare: Mutex<Vec<Vec<u8>>>,
}

impl WriterState {
    /// An empty buffer, one that was used before if one is at hand.
    pub(super) fn take_spare(&self) -> Vec<u8> {
        // If another thread holds the lock, a new buffer is cheaper than waiting.
        self.spare.try_lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
    }

    pub(super) fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if let Ok(mut spare) = self.spare.try_lock()
            && spare.len() < SPARE_MAX
        {
            spare.push(buffer);
        }
    }

    pub(super) fn left_queue(&self, bytes: usize) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
        self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
