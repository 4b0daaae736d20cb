//! The thread that writes the decision log.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use super::file::{RotatingFile, WriteFailure};
use super::queue::{FLUSH_AFTER, Message, WriterState};

/// How many bytes are collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// The idle time after which pending lines are written.
const IDLE_AFTER: Duration = Duration::from_millis(10);

/// How often a file that cannot be written is spoken of.
const COMPLAIN_AFTER: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(super) struct Writer {
    receiver: Receiver<Message>,
    shared: Arc<WriterState>,
    file: RotatingFile,
    /// Lines that are not in the file yet, how many, and when the first came.
    pending: Vec<u8>,
    pending_lines: u64,
    pending_since: Option<Instant>,
    complained_at: Option<Instant>,
}

impl Writer {
    pub(super) fn new(receiver: Receiver<Message>, shared: Arc<WriterState>, file: RotatingFile) -> Self {
        Self {
            receiver,
            shared,
            file,
            pending: Vec::with_capacity(BUFFER_BYTES),
            pending_lines: 0,
            pending_since: None,
            complained_at: None,
        }
    }

    /// Writes until the log is closed or dropped, and then the remaining lines.
    pub(super) fn run(mut self, mut before_each: impl FnMut()) {
        loop {
            before_each();
            let message = if self.pending_since.is_none() {
                self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                self.receiver.recv_timeout(IDLE_AFTER)
            };
            match message {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => self.flush(Instant::now()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.shared.reopen.swap(false, Ordering::Acquire) {
                let now = Instant::now();
                self.flush(now);
                let reopened = self.file.reopen(now);
                self.count(reopened, 0, now);
            }
            if self.shared.closing.load(Ordering::Acquire) {
                while let Ok(message) = self.receiver.try_recv() {
                    self.take(message);
                }
                break;
            }
        }
        self.flush(Instant::now());
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::DecisionRecord(line) => {
                self.shared.left_queue(line.len());
                self.add(&line, Instant::now());
                self.shared.give_back(line);
            }
            Message::Wake => {}
            #[cfg(test)]
            Message::Flush(done) => {
                self.flush(Instant::now());
                // The caller may have given up waiting.
                let _ = done.try_send(());
            }
        }
    }

    fn add(&mut self, line: &[u8], now: Instant) {
        let mut ready = self.file.ready(now);
        if ready.is_ok() && !self.file.has_room(&self.pending, line) {
            self.flush(now);
            // The flush may have opened another file, or failed.
            ready = self.file.ready(now);
            if ready.is_ok() && !self.file.has_room(&self.pending, line) {
                ready = self.file.rotate(now);
            }
        }
        if ready.is_err() {
            self.count(ready, 1, now);
            return;
        }
        self.pending.extend_from_slice(line);
        self.pending_lines += 1;
        let since = *self.pending_since.get_or_insert(now);
        if self.pending.len() >= BUFFER_BYTES || now.duration_since(since) >= FLUSH_AFTER {
            self.flush(now);
        }
    }

    fn flush(&mut self, now: Instant) {
        self.pending_since = None;
        if self.pending.is_empty() {
            return;
        }
        let lines = core::mem::take(&mut self.pending_lines);
        let appended = self.file.append(&self.pending, now);
        if appended.is_ok() {
            self.shared.written.fetch_add(lines, Ordering::Relaxed);
        }
        // Lines that may be in the file in part are not written again: a reader would count them
        // twice.
        self.pending.clear();
        self.count(appended, lines, now);
    }

    /// Counts lost lines, and logs the count at intervals.
    fn count(&mut self, outcome: Result<(), WriteFailure>, lines: u64, now: Instant) {
        let Err(lost) = outcome else { return };
        let dropped = self.shared.dropped.fetch_add(lines, Ordering::Relaxed) + lines;
        let WriteFailure::Failed(error) = lost else { return };
        self.shared.errors.fetch_add(1, Ordering::Relaxed);
        let is_time = self.complained_at.is_none_or(|last| now.duration_since(last) >= COMPLAIN_AFTER);
        if is_time {
            self.complained_at = Some(now);
            tracing::warn!(
                path = %self.file.path().display(),
                %error,
                dropped,
                "the decision log cannot be written; lines are dropped until it can"
            );
        }
    }
}
