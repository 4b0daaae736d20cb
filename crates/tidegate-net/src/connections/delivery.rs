//! The delivery of answers that hand something over, such as a permit.
//!
//! Such an answer carries an [`AnswerDelivery`] from the decision to the socket. If the connection
//! or the stream ends before the kernel has taken the last byte of the answer, its client cannot
//! know of the permit, and the delivery ends as [`DeliveryEnd::Undelivered`]. A reset of the
//! connection or the stream within [`RESET_WINDOW`] after that byte ends it as
//! [`DeliveryEnd::Reset`]: the client's system drops what it has not read. Everything else ends it
//! as [`DeliveryEnd::Delivered`].
//!
//! A kernel also takes bytes for a program that has stopped. Where that matters, a delivery on
//! HTTP/2 waits [until the client has read](AnswerDelivery::until_read) its answer: until it has
//! answered a ping that was sent behind the last byte.
//!
//! ```text
//!   attached to a body ------> encoded ------> written ------> Delivered
//!          |    its bytes are     |  the next    |  a second, or another request
//!          |    in the buffer of  |  flush that  |  or answer of HTTP/1 or RESP
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
//! closed. A reset therefore concerns an answer only while that answer was sent last: a request
//! after it shows that it was read, and another answer of HTTP/1 after it, a later write of RESP,
//! or a frame of the protocol such as `GOAWAY`, may be the bytes that were left unread. Answers of
//! HTTP/2 do not end each other, nor do replies of RESP that are written together: unread answers
//! all give back what they hold. Nor does a reset count after the daemon has
//! told the connection to end.
//!
//! **Bounds.** At most [`WATCHED_MAX`] deliveries of a connection, and `WATCHED_TOTAL_MAX` of all
//! connections, wait for a reset, the latter in [shares](tidegate_core::shares) for each namespace.
//! Beyond them the oldest of the connection, or the new one, counts as delivered.

use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::shares::Owner;
use tokio::time::Instant;

use super::budget::WatchedPlace;

mod answer_bytes;
mod connection_deliveries;
mod messages;
mod reset_watch;

pub use answer_bytes::{AnswerBytes, DeliveredBody};
pub use messages::{MessageSender, NoMessageRoom};

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
    /// The namespace in whose share it is watched for a reset; `None`: it is not.
    reset_watched_for: Option<Owner>,
    /// Its place among those that are watched.
    watched: Option<WatchedPlace>,
    has_waited: bool,
    /// Whether the kernel has the whole answer.
    is_written: bool,
    /// Whether it ends only when the client has read the answer.
    is_until_read: bool,
    /// The count of [`Deliveries::looks`] in which it stands, until the answer is written.
    counted_in: Option<Arc<AtomicU32>>,
}

impl AnswerDelivery {
    /// The delivery of an answer; `action` runs at its end. It must not wait.
    pub fn new(action: impl FnOnce(DeliveryEnd) + Send + 'static) -> Self {
        let action: EndAction = Box::new(action);
        Self {
            action: Some(action),
            reset_watched_for: None,
            watched: None,
            has_waited: false,
            is_written: false,
            is_until_read: false,
            counted_in: None,
        }
    }

    /// Also ends as [`DeliveryEnd::Reset`]; without it a written answer is delivered. It is watched
    /// within the share of this namespace.
    #[must_use]
    pub fn watching_resets(mut self, of: Owner) -> Self {
        self.reset_watched_for = Some(of);
        self
    }

    /// The request has waited for its turn, so that a client which has ended its output has left:
    /// the connection looks for that end before it writes the answer.
    #[must_use]
    pub fn after_wait(mut self) -> Self {
        self.has_waited = true;
        self
    }

    /// On HTTP/2 ends as [`DeliveryEnd::Delivered`] only when the client has read the answer, by a
    /// ping that it has answered; as [`DeliveryEnd::Undelivered`] if the stream or the connection
    /// ends before. Resets are not watched then.
    #[must_use]
    pub fn until_read(mut self) -> Self {
        self.is_until_read = true;
        self
    }

    fn stop_looking(&mut self) {
        if let Some(looks) = self.counted_in.take() {
            looks.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn end(mut self, end: DeliveryEnd) {
        self.end_once(end);
    }

    fn end_once(&mut self, end: DeliveryEnd) {
        self.stop_looking();
        self.watched = None;
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

tidegate_core::debug_fields!(AnswerDelivery { reset_watched_for, has_waited, is_until_read });

/// The deliveries of one connection whose answers are encoded.
///
/// All atomics are relaxed: one task reads and writes the connection, and its streams are polled by
/// that task. The sweep only ends deliveries whose time is over, under the mutex.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// How many there are, so that a connection without one pays a load.
    count: AtomicU32,
    /// Unwritten answers to requests that have waited.
    looks: Arc<AtomicU32>,
    /// How many of them wait until the client has read their answers.
    pub(super) unread: AtomicU32,
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
    /// Those whose bytes the kernel has, and of which the client has shown nothing yet.
    unread: Vec<UnreadAnswer>,
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
    /// Whether no other answer of HTTP/1 was encoded behind it.
    is_last_sent: bool,
}

/// An answer whose client is to show that it has read it.
#[derive(Debug)]
struct UnreadAnswer {
    delivery: AnswerDelivery,
    /// The count of [`Deliveries::encoded_bytes`] at its last byte.
    end: u64,
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
