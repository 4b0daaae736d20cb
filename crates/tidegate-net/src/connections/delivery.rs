//! The delivery of answers that hand something over, such as a permit.
//!
//! Such an answer carries an [`AnswerDelivery`] from the decision to the socket. If the connection
//! or the stream ends before the kernel has taken the last byte of the answer, its client cannot
//! know of the permit, and the delivery ends as [`DeliveryEnd::Undelivered`]. A reset of the
//! connection or the stream within [`RESET_WINDOW`] after that byte ends it as
//! [`DeliveryEnd::Reset`]: the client's system drops what it has not read. Everything else ends it
//! as [`DeliveryEnd::Delivered`].
//!
//! ```text
//!   attached to a body ------> encoded ------> written ------> Delivered
//!          |    its bytes are     |  the next    |  a second, or another
//!          |    in the buffer of  |  flush that  |  request of HTTP/1 or RESP
//!          |    the protocol      |  completes   |
//!          +-------- end ---------+              +-- reset --> Reset
//!                     |
//!                Undelivered
//! ```
//!
//! **Encoded.** The protocol library buffers an answer, so that the end of its body says nothing.
//! [`AnswerBytes`] notices when the library has copied or written its last byte. The library
//! flushes the stream below only when its own buffer is empty, so the next flush that completes
//! says that the kernel has every byte.
//!
//! **Streams.** HTTP/2 answers count the bytes of their bodies as they are encoded, and the stream
//! below counts the bytes of the `DATA` frames it writes. The frame that ends at the count of an
//! answer is the last one of that answer, and names its stream.
//!
//! **Resets.** Bytes that the client leaves unread make its system reset a connection that is
//! closed. So a reset says something about an answer only while that answer is the last thing that
//! was sent: a request that comes after it shows that it was read, and a frame of the protocol
//! after it, such as `GOAWAY`, may be the bytes that were left unread. A connection that the daemon
//! has told to end proves nothing either.
//!
//! **Bounds.** At most [`WATCHED_MAX`] deliveries of a connection, and `WATCHED_TOTAL_MAX` of all
//! connections, wait for a reset. Beyond them the oldest of the connection, or the new one, counts
//! as delivered.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::activity::ConnectionActivity;

mod answer_bytes;
mod reset_watch;

pub use answer_bytes::{AnswerBytes, DeliveredBody};

/// How long after the last byte of an answer a reset gives back what the answer has lent.
pub const RESET_WINDOW: Duration = Duration::from_secs(1);

/// The most deliveries of one connection that wait for a reset.
pub const WATCHED_MAX: usize = 1024;

/// The end of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// The connection or the stream ended before the kernel had the whole answer.
    Undelivered,
    /// The kernel had the whole answer, and the client reset the connection or the stream within
    /// [`RESET_WINDOW`].
    Reset,
    /// The answer belongs to its client.
    Delivered,
}

/// The action that follows the end of a delivery.
type EndAction = Box<dyn FnOnce(DeliveryEnd) + Send>;

/// The delivery of one answer, which ends once. Dropping it before the answer is written ends it as
/// [`DeliveryEnd::Undelivered`].
pub struct AnswerDelivery {
    /// `None` once it has ended.
    action: Option<EndAction>,
    is_reset_watched: bool,
    has_waited: bool,
    /// Whether the kernel has the whole answer.
    is_written: bool,
    /// The connection of the answer to a request that has waited, until the answer is written.
    looks_at: Option<Arc<ConnectionActivity>>,
}

impl AnswerDelivery {
    /// The delivery of an answer; `action` runs at its end. It must not wait.
    pub fn new(action: impl FnOnce(DeliveryEnd) + Send + 'static) -> Self {
        let action: EndAction = Box::new(action);
        Self {
            action: Some(action),
            is_reset_watched: false,
            has_waited: false,
            is_written: false,
            looks_at: None,
        }
    }

    /// Also ends as [`DeliveryEnd::Reset`]; without it a written answer is delivered.
    #[must_use]
    pub fn watching_resets(mut self) -> Self {
        self.is_reset_watched = true;
        self
    }

    /// The request has waited for its turn, so that a client which has ended its output has left:
    /// the connection looks for that end before it writes the answer.
    #[must_use]
    pub fn after_wait(mut self) -> Self {
        self.has_waited = true;
        self
    }

    /// Notes the connection that is to look for the end of its client's output.
    pub(crate) fn look_at(&mut self, line: &Arc<ConnectionActivity>) {
        if self.has_waited && self.looks_at.is_none() {
            line.deliveries.looks.fetch_add(1, Ordering::Relaxed);
            self.looks_at = Some(Arc::clone(line));
        }
    }

    fn stop_looking(&mut self) {
        if let Some(line) = self.looks_at.take() {
            line.deliveries.looks.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn end(mut self, end: DeliveryEnd) {
        self.end_once(end);
    }

    fn end_once(&mut self, end: DeliveryEnd) {
        self.stop_looking();
        if let Some(action) = self.action.take() {
            action(end);
        }
    }
}

impl Drop for AnswerDelivery {
    fn drop(&mut self) {
        self.end_once(if self.is_written { DeliveryEnd::Delivered } else { DeliveryEnd::Undelivered });
    }
}

impl fmt::Debug for AnswerDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerDelivery")
            .field("is_reset_watched", &self.is_reset_watched)
            .field("has_waited", &self.has_waited)
            .finish_non_exhaustive()
    }
}

/// The deliveries of one connection whose answers are encoded.
///
/// All atomics are relaxed: one task reads and writes the connection, and its streams are polled by
/// that task. The sweep only ends deliveries whose time is over, under the mutex.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// How many there are, so that a connection without one pays a load.
    count: AtomicU32,
    /// Unwritten answers to requests that have waited.
    looks: AtomicU32,
    /// The bytes of HTTP/2 bodies that were encoded.
    encoded_bytes: AtomicU64,
    /// The end of the last `DATA` frame that was written, counted as `encoded_bytes`, and its
    /// stream.
    frame_end: AtomicU64,
    frame_stream: AtomicU32,
    open: Mutex<Option<Box<OpenDeliveries>>>,
}

#[derive(Debug, Default)]
struct OpenDeliveries {
    /// Those whose bytes are in a buffer, in order.
    encoded: Vec<EncodedAnswer>,
    /// Those whose bytes the kernel has, the oldest first.
    written: VecDeque<WrittenAnswer>,
    /// Streams that were reset while encoded answers had none yet.
    resets: Vec<u32>,
    /// The socket of a connection that has ended, while a reset may come.
    socket: Option<OwnedFd>,
}

#[derive(Debug)]
struct EncodedAnswer {
    delivery: AnswerDelivery,
    /// The count of [`Deliveries::encoded_bytes`] at its last byte; `None` apart from HTTP/2.
    end: Option<u64>,
    stream: Option<u32>,
}

#[derive(Debug)]
struct WrittenAnswer {
    delivery: AnswerDelivery,
    at: Instant,
    stream: Option<u32>,
    /// Whether nothing but answers was sent since, so that a reset of the connection concerns it.
    is_last_sent: bool,
}

impl ConnectionActivity {
    /// The answer of a delivery is whole in the output of a protocol that counts what it writes,
    /// and the kernel has taken it.
    pub fn delivery_written(&self, delivery: AnswerDelivery) {
        let mut ended = Vec::new();
        {
            let mut open = self.open_deliveries();
            let open = open.get_or_insert_default();
            self.count_written(open, delivery, None, Instant::now(), &mut ended);
            self.count_deliveries(open);
        }
        end_all(ended, DeliveryEnd::Delivered);
    }

    /// Whether an answer to a request that has waited is not written yet.
    #[inline]
    pub(super) fn looks_before_writing(&self) -> bool {
        self.deliveries.looks.load(Ordering::Relaxed) > 0
    }

    #[inline]
    pub(super) fn has_deliveries(&self) -> bool {
        self.deliveries.count.load(Ordering::Relaxed) > 0
    }

    /// Whether a reset of the connection would concern an answer that was written.
    pub(super) fn is_reset_watched(&self) -> bool {
        self.has_deliveries()
            && self.open_deliveries().as_ref().is_some_and(|open| open.last_watched(Instant::now()).is_some())
    }

    fn open_deliveries(&self) -> MutexGuard<'_, Option<Box<OpenDeliveries>>> {
        // Actions run outside of the lock, so no panic leaves a half-made change.
        self.deliveries.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_deliveries(&self, open: &OpenDeliveries) {
        let count = open.encoded.len() + open.written.len();
        self.deliveries.count.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// `count` bytes of an HTTP/2 body were encoded.
    #[inline]
    fn body_encoded(&self, count: usize) {
        self.deliveries.encoded_bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The last byte of an answer's body was encoded.
    fn body_end_encoded(&self, delivery: AnswerDelivery) {
        let Deliveries { encoded_bytes, frame_end, frame_stream, .. } = &self.deliveries;
        let is_http2 = self.is_http2.load(Ordering::Relaxed);
        let end = is_http2.then(|| encoded_bytes.load(Ordering::Relaxed));
        // A long piece is written from where it is, so that its frame has been seen already.
        let is_seen = end.is_some_and(|end| frame_end.load(Ordering::Relaxed) == end);
        let stream = is_seen.then(|| frame_stream.load(Ordering::Relaxed));
        self.answer_encoded(EncodedAnswer { delivery, end, stream });
    }

    /// An answer without a body is about to be encoded: its head is all of it.
    pub(crate) fn head_encoded(&self, delivery: AnswerDelivery) {
        self.answer_encoded(EncodedAnswer { delivery, end: None, stream: None });
    }

    fn answer_encoded(&self, answer: EncodedAnswer) {
        let mut open = self.open_deliveries();
        let open = open.get_or_insert_default();
        open.encoded.push(answer);
        self.count_deliveries(open);
    }

    /// A `DATA` frame of `stream` is being written, whose last byte is the `end`th of all bodies.
    pub(super) fn data_frame_written(&self, stream: u32, end: u64) {
        self.deliveries.frame_end.store(end, Ordering::Relaxed);
        self.deliveries.frame_stream.store(stream, Ordering::Relaxed);
        if self.has_deliveries()
            && let Some(open) = &mut *self.open_deliveries()
        {
            for answer in open.encoded.iter_mut().filter(|answer| answer.end == Some(end)) {
                answer.stream = Some(stream);
            }
        }
    }

    /// A frame of the protocol was written that belongs to no answer.
    pub(super) fn control_frame_written(&self) {
        if self.has_deliveries()
            && let Some(open) = &mut *self.open_deliveries()
        {
            open.written.iter_mut().for_each(|answer| answer.is_last_sent = false);
        }
    }

    /// The kernel has taken everything that was encoded.
    pub(super) fn all_written(&self) {
        let (mut delivered, mut cut_off) = (Vec::new(), Vec::new());
        {
            let mut guard = self.open_deliveries();
            let Some(open) = &mut *guard else { return };
            if open.encoded.is_empty() {
                return;
            }
            let (now, resets) = (Instant::now(), core::mem::take(&mut open.resets));
            for EncodedAnswer { delivery, stream, .. } in core::mem::take(&mut open.encoded) {
                if stream.is_some_and(|stream| resets.contains(&stream)) {
                    cut_off.push(delivery);
                } else {
                    self.count_written(open, delivery, stream, now, &mut delivered);
                }
            }
            self.count_deliveries(open);
        }
        end_all(delivered, DeliveryEnd::Delivered);
        end_all(cut_off, DeliveryEnd::Undelivered);
    }

    /// Adds a delivery that was written at `now`; those that are delivered for it go to `ended`.
    fn count_written(
        &self,
        open: &mut OpenDeliveries,
        mut delivery: AnswerDelivery,
        stream: Option<u32>,
        now: Instant,
        ended: &mut Vec<AnswerDelivery>,
    ) {
        delivery.stop_looking();
        delivery.is_written = true;
        let before = ended.len();
        open.expire(now, ended);
        if delivery.is_reset_watched && open.written.len() >= WATCHED_MAX {
            ended.extend(open.written.pop_front().map(|oldest| oldest.delivery));
        }
        self.budget.watched.give_back(ended.len() - before);
        if delivery.is_reset_watched && self.budget.watched.take() {
            open.written.push_back(WrittenAnswer { delivery, at: now, stream, is_last_sent: true });
        } else {
            ended.push(delivery);
        }
    }

    /// The client has reset a stream.
    pub(super) fn stream_reset(&self, stream: u32) {
        if !self.has_deliveries() {
            return;
        }
        let (mut reset, mut cut_off) = (Vec::new(), Vec::new());
        {
            let mut guard = self.open_deliveries();
            let Some(open) = &mut *guard else { return };
            let now = Instant::now();
            while let Some(at) = open.encoded.iter().position(|answer| answer.stream == Some(stream)) {
                cut_off.push(open.encoded.remove(at).delivery);
            }
            while let Some(at) = open.written.iter().position(|answer| answer.stream == Some(stream)) {
                reset.extend(open.written.remove(at).map(|answer| (answer.at, answer.delivery)));
            }
            if open.encoded.iter().any(|answer| answer.stream.is_none()) && open.resets.len() < WATCHED_MAX {
                open.resets.push(stream);
            }
            self.budget.watched.give_back(reset.len());
            self.count_deliveries(open);
            reset.retain(|(at, _)| now.duration_since(*at) < RESET_WINDOW);
        }
        end_all(cut_off, DeliveryEnd::Undelivered);
        for (_, delivery) in reset {
            delivery.end(DeliveryEnd::Reset);
        }
    }

    /// The client has reset the connection.
    pub(super) fn connection_reset(&self) {
        if self.has_deliveries() {
            self.end_written(!self.is_commanded());
        }
    }

    /// Another request of HTTP/1 or RESP has come, so that the client has read what was written.
    #[inline]
    pub(super) fn another_request_came(&self) {
        if self.has_deliveries() && !self.is_http2.load(Ordering::Relaxed) {
            self.end_written(false);
        }
    }

    /// Ends those that were written: by a reset if `is_reset`, where it concerns them.
    fn end_written(&self, is_reset: bool) {
        let (mut reset, mut delivered) = (Vec::new(), Vec::new());
        {
            let mut guard = self.open_deliveries();
            let Some(open) = &mut *guard else { return };
            let now = Instant::now();
            self.budget.watched.give_back(open.written.len());
            for answer in open.written.drain(..) {
                let concerns = is_reset && answer.is_watched(now) && answer.is_last_sent;
                if concerns { &mut reset } else { &mut delivered }.push(answer.delivery);
            }
            self.count_deliveries(open);
        }
        end_all(delivered, DeliveryEnd::Delivered);
        end_all(reset, DeliveryEnd::Reset);
    }

    /// Ends the deliveries whose time is over at `now`. The sweep calls it.
    pub(super) fn expire_deliveries(&self, now: Instant) {
        if !self.has_deliveries() {
            return;
        }
        let mut ended = Vec::new();
        if let Some(open) = &mut *self.open_deliveries() {
            open.expire(now, &mut ended);
            self.budget.watched.give_back(ended.len());
            self.count_deliveries(open);
        }
        end_all(ended, DeliveryEnd::Delivered);
    }

    /// The stream of the connection is dropped: nothing more is written. `socket` is a second
    /// handle to its socket, by which a reset is still seen.
    pub(super) fn stream_ended(&self, socket: impl FnOnce() -> Option<OwnedFd>) {
        if !self.has_deliveries() {
            return;
        }
        let mut cut_off = Vec::new();
        if let Some(open) = &mut *self.open_deliveries() {
            cut_off.extend(open.encoded.drain(..).map(|answer| answer.delivery));
            self.count_deliveries(open);
            if open.last_watched(Instant::now()).is_some() {
                open.socket = socket();
            }
        }
        end_all(cut_off, DeliveryEnd::Undelivered);
    }
}

impl OpenDeliveries {
    /// When the last of the deliveries was written that a reset of the connection concerns.
    fn last_watched(&self, now: Instant) -> Option<Instant> {
        let mut concerned = self.written.iter().rev().filter(|answer| answer.is_last_sent);
        concerned.next().filter(|answer| answer.is_watched(now)).map(|answer| answer.at)
    }

    fn expire(&mut self, now: Instant, ended: &mut Vec<AnswerDelivery>) {
        while self.written.front().is_some_and(|answer| !answer.is_watched(now)) {
            ended.extend(self.written.pop_front().map(|answer| answer.delivery));
        }
    }
}

impl WrittenAnswer {
    fn is_watched(&self, now: Instant) -> bool {
        now.duration_since(self.at) < RESET_WINDOW
    }
}

fn end_all(deliveries: Vec<AnswerDelivery>, end: DeliveryEnd) {
    for delivery in deliveries {
        delivery.end(end);
    }
}

#[cfg(test)]
mod tests;
