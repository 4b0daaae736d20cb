//! Unfinished heads of HTTP/1 requests: the bytes that have arrived are held until the rest does.
//!
//! A head that fits into the first buffer of a connection costs nothing more. A larger one is
//! charged to the budget for slow peers while it is unfinished. Where that has no room, nothing
//! more of the head is read until it has, or until the time for a head is over; the sweep has the
//! connection try again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::activity::ConnectionActivity;
use super::buffered::Buffered;

/// The bytes of a head that every connection may hold without a charge: the first read buffer.
const FREE_HEAD_BYTES: usize = 8 << 10;

/// The most bytes that a head is charged for. Further bytes belong to a body that was refused, and
/// are not kept.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The head that a connection is in the middle of.
#[derive(Default)]
pub(super) struct UnfinishedHead {
    /// Bytes that were read since the last request was noticed.
    pub(super) bytes: usize,
    /// How many requests had begun by then.
    started: u64,
    buffered: Option<Buffered>,
}

impl UnfinishedHead {
    /// Whether more may be read.
    #[inline]
    pub(super) fn has_room(&mut self, line: &Arc<ConnectionActivity>) -> bool {
        if self.bytes < FREE_HEAD_BYTES {
            return true;
        }
        self.has_room_beyond_the_first_buffer(line)
    }

    fn has_room_beyond_the_first_buffer(&mut self, line: &Arc<ConnectionActivity>) -> bool {
        let started = line.started.load(Ordering::Relaxed);
        // While a request is under way, further bytes belong to its body, which has bounds of its
        // own.
        if line.in_flight() > 0 || started != self.started {
            *self = Self { bytes: 0, started, buffered: None };
            return true;
        }
        // The buffer is enlarged by doubling, and the old one is still there while it is copied.
        let buffered = self.buffered.get_or_insert_with(|| Buffered::new(Arc::clone(line)));
        let has_room = buffered.resize(2 * self.bytes.min(HEAD_BYTES_MAX)).is_ok();
        line.waits_for_room.store(!has_room, Ordering::Relaxed);
        has_room
    }
}

tidegate_core::debug_fields!(UnfinishedHead { bytes });
