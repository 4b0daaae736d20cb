//! The decision log: a file with one JSON object a line for each decision, for people and for other
//! programs.
//!
//! It never makes a caller wait. [`DecisionLog::write`] builds the line and hands it to a thread of
//! its own; a line that finds the queue full is dropped and counted. The thread writes pending
//! lines as soon as it is idle, and at the latest after [`queue::FLUSH_AFTER`]. Disk in use is
//! bounded: a file that is full is renamed to `path.1`, the one before it to `path.2`, and the last
//! is removed. A disk that fails costs lines, which are counted, and nothing else; the file is
//! opened anew every [`queue::RETRY_AFTER`] until that works.

mod file;
mod line;
mod queue;
mod writer;

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use line::{DecisionRecord, TEXT_BYTES_MAX};

use file::RotatingFile;
use queue::{Message, WriterState};
use writer::Writer;

/// The most bytes of lines that wait to be written, whatever [`DecisionLogConfig::queue`] says;
/// more are dropped.
pub(crate) const QUEUED_BYTES_MAX: usize = 64 << 20;

/// The room in the channel for messages that are no lines.
const CONTROL_MAX: usize = 8;

/// Where the log is, and how much of it there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecisionLogConfig {
    /// The file. Its directory must exist. New lines are appended to an existing file.
    pub(crate) path: PathBuf,
    /// The size at which it is renamed. A line is never split over two files, and never dropped for
    /// its size.
    pub(crate) size_bytes: u64,
    /// How many renamed files are kept, `path.1` to `path.N`; at 0 a full file is removed.
    pub(crate) files: u16,
    /// How many lines may wait to be written; at 0 every line is dropped.
    pub(crate) queue: usize,
}

/// An open decision log. Dropping it lets the writer finish the queued lines, without waiting for
/// it.
#[derive(Debug)]
pub(crate) struct DecisionLog {
    sender: SyncSender<Message>,
    shared: Arc<WriterState>,
    queue: usize,
    /// Nothing is ever sent: it is disconnected when the writer has ended.
    ended: Mutex<Receiver<()>>,
}

impl DecisionLog {
    /// Opens the file and starts the thread that writes it.
    pub(crate) fn open(config: DecisionLogConfig) -> io::Result<Self> {
        Self::open_with(config, || {})
    }

    /// As [`DecisionLog::open`]; `before_each` is called in the thread before it takes anything
    /// from the queue.
    fn open_with(config: DecisionLogConfig, before_each: impl FnMut() + Send + 'static) -> io::Result<Self> {
        let DecisionLogConfig { path, size_bytes, files, queue } = config;
        let file = RotatingFile::open(path, size_bytes, files)?;
        let (sender, receiver) = sync_channel(queue.saturating_add(CONTROL_MAX));
        let (ending, ended) = sync_channel(1);
        let shared = Arc::new(WriterState::default());
        let writer = Writer::new(receiver, Arc::clone(&shared), file);
        std::thread::Builder::new().name("decision-log".to_owned()).spawn(move || {
            writer.run(before_each);
            drop(ending);
        })?;
        Ok(Self { sender, shared, queue, ended: Mutex::new(ended) })
    }

    /// Hands a line over to be written, or drops it and counts that. Never waits.
    pub(crate) fn write(&self, line: &DecisionRecord<'_>) {
        let shared = &self.shared;
        let ahead = shared.queued.fetch_add(1, Ordering::Relaxed);
        let has_room = ahead < self.queue
            && shared.queued_bytes.load(Ordering::Relaxed) < QUEUED_BYTES_MAX
            && !shared.closing.load(Ordering::Acquire);
        if !has_room {
            shared.queued.fetch_sub(1, Ordering::Relaxed);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut buffer = shared.take_spare();
        line.append_to(&mut buffer);
        let bytes = buffer.len();
        shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.sender.try_send(Message::DecisionRecord(buffer)).is_err() {
            shared.left_queue(bytes);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lines that are in the file, or were in one of those that were renamed.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Lines that are lost: the queue was full, or the file could not be written.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// How often the file could not be opened, written or renamed.
    pub(crate) fn errors(&self) -> u64 {
        self.shared.errors.load(Ordering::Relaxed)
    }

    /// Closes the file and opens the one at its path, which logrotate may have replaced. Does not
    /// wait for it.
    pub(crate) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        // If the channel is full, the writer is busy and checks the flag after the next line.
        let _ = self.sender.try_send(Message::Wake);
    }

    /// Waits until all that was handed over before is in the file or lost; `false` if that takes
    /// longer than `within`.
    #[cfg(test)]
    fn flush(&self, within: Duration) -> bool {
        let (done, is_done) = sync_channel(1);
        self.sender.try_send(Message::Flush(done)).is_ok() && is_done.recv_timeout(within).is_ok()
    }

    /// Takes no more lines and waits until all that were handed over are in the file; `false` if
    /// that takes longer than `within`, and then the rest may be lost. Blocks the thread. May be
    /// called again.
    pub(crate) fn close(&self, within: Duration) -> bool {
        self.shared.closing.store(true, Ordering::Release);
        let _ = self.sender.try_send(Message::Wake);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let in_time = matches!(ended.recv_timeout(within), Err(RecvTimeoutError::Disconnected));
        if in_time {
            // A line that was handed over while the writer ended is counted nowhere else.
            let late = self.shared.queued.swap(0, Ordering::Relaxed);
            self.shared.dropped.fetch_add(late as u64, Ordering::Relaxed);
        }
        in_time
    }
}
