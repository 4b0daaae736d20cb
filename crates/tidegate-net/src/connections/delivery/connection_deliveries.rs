//! The deliveries of one connection: what happens to them as its answers are encoded and written.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{
    AnswerDelivery, Deliveries, DeliveryEnd, EncodedAnswer, OpenDeliveries, UnreadAnswer, WATCHED_MAX,
    WrittenAnswer, end_all,
};
use crate::connections::ConnectionActivity;
use crate::connections::budget::WatchedPlace;

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
    pub(in crate::connections) fn looks_before_writing(&self) -> bool {
        self.deliveries.looks.load(Ordering::Relaxed) > 0
    }

    /// Has the connection look for the end of its client's output until the answer of `delivery` is
    /// written, if its request has waited.
    pub fn look_for(&self, delivery: &mut AnswerDelivery) {
        if delivery.has_waited && delivery.counted_in.is_none() {
            self.deliveries.looks.fetch_add(1, Ordering::Relaxed);
            delivery.counted_in = Some(Arc::clone(&self.deliveries.looks));
        }
    }

    #[inline]
    pub(in crate::connections) fn has_deliveries(&self) -> bool {
        self.deliveries.count.load(Ordering::Relaxed) > 0
    }

    /// Whether a reset of the connection would concern an answer that was written.
    pub(in crate::connections) fn is_reset_watched(&self) -> bool {
        self.has_deliveries()
            && self.open_deliveries().as_ref().is_some_and(|open| open.last_watched(Instant::now()).is_some())
    }

    pub(super) fn open_deliveries(&self) -> MutexGuard<'_, Option<Box<OpenDeliveries>>> {
        // Actions run outside of the lock, so no panic leaves a half-made change.
        self.deliveries.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_deliveries(&self, open: &OpenDeliveries) {
        let unread = open.unread.len();
        let count = open.encoded.len() + open.written.len() + unread;
        self.deliveries.count.store(u32::try_from(count).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.deliveries.unread.store(u32::try_from(unread).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Whether an answer waits until the client has read it.
    pub(in crate::connections) fn awaits_reading(&self) -> bool {
        self.deliveries.unread.load(Ordering::Relaxed) > 0
    }

    /// The client has read so many bytes of all bodies.
    pub(in crate::connections) fn data_read(&self, bytes: u64) {
        if !self.awaits_reading() {
            return;
        }
        let mut read = Vec::new();
        if let Some(open) = &mut *self.open_deliveries() {
            let is_read = |answer: &mut UnreadAnswer| answer.end <= bytes;
            read.extend(open.unread.extract_if(.., is_read).map(|answer| answer.delivery));
            self.count_deliveries(open);
        }
        end_all(read, DeliveryEnd::Delivered);
    }

    /// `count` bytes of an HTTP/2 body were encoded.
    #[inline]
    pub(super) fn body_encoded(&self, count: usize) {
        self.deliveries.encoded_bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The last byte of an answer's body was encoded.
    pub(super) fn body_end_encoded(&self, delivery: AnswerDelivery) {
        let Deliveries { encoded_bytes, frame_end, frame_stream, .. } = &self.deliveries;
        let is_http2 = self.is_http2.load(Ordering::Relaxed);
        let end = is_http2.then(|| encoded_bytes.load(Ordering::Relaxed));
        // A long piece is written from where it is, so that its frame has been seen already.
        let is_seen = end.is_some_and(|end| frame_end.load(Ordering::Relaxed) == end);
        let stream = is_seen.then(|| frame_stream.load(Ordering::Relaxed));
        self.answer_encoded(EncodedAnswer { delivery, end, stream, is_last_sent: true });
    }

    /// An answer without a body is about to be encoded: its head is all of it.
    pub(crate) fn head_encoded(&self, delivery: AnswerDelivery) {
        self.answer_encoded(EncodedAnswer { delivery, end: None, stream: None, is_last_sent: true });
    }

    pub(super) fn answer_encoded(&self, answer: EncodedAnswer) {
        let mut open = self.open_deliveries();
        let open = open.get_or_insert_default();
        open.encoded.push(answer);
        self.count_deliveries(open);
    }

    /// A `DATA` frame of `stream` is being written, whose last byte is the `end`th of all bodies.
    pub(in crate::connections) fn data_frame_written(&self, stream: u32, end: u64) {
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
    pub(in crate::connections) fn control_frame_written(&self) {
        if self.has_deliveries()
            && let Some(open) = &mut *self.open_deliveries()
        {
            open.written.iter_mut().for_each(|answer| answer.is_last_sent = false);
        }
    }

    /// The kernel has taken everything that was encoded.
    pub(in crate::connections) fn all_written(&self) {
        let (mut delivered, mut cut_off) = (Vec::new(), Vec::new());
        {
            let mut guard = self.open_deliveries();
            let Some(open) = &mut *guard else { return };
            if open.encoded.is_empty() {
                return;
            }
            let (now, resets) = (Instant::now(), core::mem::take(&mut open.resets));
            for answer in core::mem::take(&mut open.encoded) {
                let EncodedAnswer { mut delivery, end, stream, is_last_sent } = answer;
                if stream.is_some_and(|stream| resets.contains(&stream)) {
                    cut_off.push(delivery);
                } else if let Some(end) = end.filter(|_| delivery.is_until_read) {
                    delivery.stop_looking();
                    open.unread.push(UnreadAnswer { delivery, end, stream });
                } else {
                    delivery.reset_watched_for = delivery.reset_watched_for.filter(|_| is_last_sent);
                    self.count_written(open, delivery, stream, now, &mut delivered);
                }
            }
            self.count_deliveries(open);
        }
        if self.awaits_reading() {
            // The timer of the pings goes on.
            self.poke();
        }
        end_all(delivered, DeliveryEnd::Delivered);
        end_all(cut_off, DeliveryEnd::Undelivered);
    }

    /// Adds a delivery that was written at `now`; those that are delivered for it go to `ended`.
    pub(super) fn count_written(
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
        let owner = delivery.reset_watched_for;
        if owner.is_some() && open.written.len() >= WATCHED_MAX {
            ended.extend(open.written.pop_front().map(|oldest| oldest.delivery));
        }
        ended[before..].iter_mut().for_each(|one| one.watched = None);
        delivery.watched = owner.and_then(|owner| WatchedPlace::take(&self.budget, owner));
        if delivery.watched.is_some() {
            open.written.push_back(WrittenAnswer { delivery, at: now, stream, is_last_sent: true });
        } else {
            ended.push(delivery);
        }
    }

    /// The client has reset a stream.
    pub(in crate::connections) fn stream_reset(&self, stream: u32) {
        if !self.has_deliveries() {
            return;
        }
        let (mut reset, mut cut_off, now) = (Vec::new(), Vec::new(), Instant::now());
        {
            let mut guard = self.open_deliveries();
            let Some(open) = &mut *guard else { return };
            while let Some(at) = open.encoded.iter().position(|answer| answer.stream == Some(stream)) {
                cut_off.push(open.encoded.remove(at).delivery);
            }
            while let Some(at) = open.unread.iter().position(|answer| answer.stream == Some(stream)) {
                cut_off.push(open.unread.remove(at).delivery);
            }
            while let Some(at) = open.written.iter().position(|answer| answer.stream == Some(stream)) {
                reset.extend(open.written.remove(at));
            }
            if open.encoded.iter().any(|answer| answer.stream.is_none()) && open.resets.len() < WATCHED_MAX {
                open.resets.push(stream);
            }
            self.count_deliveries(open);
        }
        end_all(cut_off, DeliveryEnd::Undelivered);
        for answer in reset {
            let is_late = !answer.is_watched(now);
            answer.delivery.end(if is_late { DeliveryEnd::Delivered } else { DeliveryEnd::Reset });
        }
    }

    /// The client has reset the connection.
    pub(in crate::connections) fn connection_reset(&self) {
        if self.has_deliveries() {
            self.end_written(!self.is_commanded());
        }
    }

    /// Another request of HTTP/1 or RESP has come, so that the client has read what was written.
    #[inline]
    pub(in crate::connections) fn another_request_came(&self) {
        if self.has_deliveries() && !self.is_http2.load(Ordering::Relaxed) {
            self.end_written(false);
        }
    }

    /// Bytes of HTTP/1 or RESP were sent behind the answers that were written. They may be what the
    /// client leaves unread.
    #[inline]
    pub(in crate::connections) fn another_answer_sent(&self) {
        self.another_request_came();
    }

    /// Another answer of HTTP/1 is about to be encoded: those before are not the last that is sent.
    #[inline]
    pub(crate) fn another_answer_begins(&self) {
        if self.has_deliveries() && !self.is_http2.load(Ordering::Relaxed) {
            if let Some(open) = &mut *self.open_deliveries() {
                open.encoded.iter_mut().for_each(|answer| answer.is_last_sent = false);
            }
            self.end_written(false);
        }
    }

    /// Ends those that were written: by a reset if `is_reset`, where it concerns them.
    pub(super) fn end_written(&self, is_reset: bool) {
        let (mut reset, mut delivered) = (Vec::new(), Vec::new());
        {
            let mut guard = self.open_deliveries();
            let Some(open) = &mut *guard else { return };
            let now = Instant::now();
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
    pub(in crate::connections) fn expire_deliveries(&self, now: Instant) {
        if !self.has_deliveries() {
            return;
        }
        let mut ended = Vec::new();
        if let Some(open) = &mut *self.open_deliveries() {
            open.expire(now, &mut ended);
            self.count_deliveries(open);
        }
        end_all(ended, DeliveryEnd::Delivered);
    }

    /// The stream of the connection is dropped: nothing more is written. `socket` is a second
    /// handle to its socket, by which a reset is still seen.
    pub(in crate::connections) fn stream_ended(&self, socket: impl FnOnce() -> Option<OwnedFd>) {
        if !self.has_deliveries() {
            return;
        }
        let mut cut_off = Vec::new();
        if let Some(open) = &mut *self.open_deliveries() {
            cut_off.extend(open.encoded.drain(..).map(|answer| answer.delivery));
            cut_off.extend(open.unread.drain(..).map(|answer| answer.delivery));
            self.count_deliveries(open);
            if open.last_watched(Instant::now()).is_some() {
                open.socket = socket();
            }
        }
        end_all(cut_off, DeliveryEnd::Undelivered);
    }
}
