//! The state that a connection shares with the sweep.

use core::net::IpAddr;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::budget::BufferBudget;
use super::delivery::Deliveries;
use super::open_bodies::OpenBodies;
use super::peers::PeerUse;
use crate::Bounds;

/// The state that a connection shares with the sweep.
#[derive(Debug, Default)]
pub struct ConnectionActivity {
    pub(super) reads: AtomicU64,
    pub(super) reads_at_finish: AtomicU64,
    /// Whether bytes that came with the last request are a part of the next one.
    has_part_of_next: AtomicBool,
    pub(super) started: AtomicU64,
    pub(super) finished: AtomicU64,
    pub(super) is_http2: AtomicBool,
    /// Whether something is to be written that the client does not take.
    pub(super) is_stuck: AtomicBool,
    /// How often it went on after that.
    pub(super) freed: AtomicU64,
    /// Requests that wait in line, with their bodies unread.
    pub(super) held: AtomicU64,
    /// Whether unread bytes hide the end of the client's output while requests wait in line.
    pub(super) is_unwatched: AtomicBool,
    /// Whether it reads no more of a head until there is room for it.
    pub(super) waits_for_room: AtomicBool,
    /// Answers that are on their way.
    pub(super) flows: OpenBodies,
    /// Answers that hand something over.
    pub(super) deliveries: Deliveries,
    /// The bytes that are held for all connections, for those of this peer, and for this
    /// connection.
    pub(super) budget: Arc<BufferBudget>,
    pub(super) peer: Arc<PeerUse>,
    /// Where it comes from; `None` for a Unix socket.
    pub(super) peer_address: Option<IpAddr>,
    pub(super) buffered: AtomicUsize,
    order: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

/// The command of the sweep, or of the drain, to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ConnectionCommand {
    /// Go on.
    Serve = 0,
    /// Answer the requests that were read, read no more, close.
    Finish = 1,
    /// Close at once.
    Close = 2,
}

// All counters of a line are relaxed: the sweep reads them to judge seconds, and the order is made
// visible by the mutex of the waker.
impl ConnectionActivity {
    /// A connection of `peer` that holds nothing yet.
    pub(super) fn new(budget: Arc<BufferBudget>, peer: Arc<PeerUse>, peer_address: Option<IpAddr>) -> Self {
        Self { budget, peer, peer_address, ..Self::default() }
    }

    /// Where the connection comes from; `None` for a Unix socket.
    pub fn peer_address(&self) -> Option<IpAddr> {
        self.peer_address
    }

    /// Marks a request as waiting in the queue until the guard is dropped. A client that ends its
    /// output meanwhile has left, and its connection ends.
    pub fn hold(&self) -> HeldRequest<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        HeldRequest(self)
    }

    /// How many requests of the connection wait in the queue.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether requests wait and the end of the client's output wakes nobody, because unread bytes
    /// lie before it. The task of the connection must then look by itself.
    #[inline]
    pub fn is_unwatched(&self) -> bool {
        self.held() > 0 && self.is_unwatched.load(Ordering::Relaxed)
    }

    /// Wakes the task of the connection.
    pub(super) fn poke(&self) {
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake_by_ref();
        }
    }

    /// Something was written, or could not be.
    #[inline]
    pub(super) fn wrote(&self, is_stuck: bool) {
        // Only a change is stored, so that a client that reads costs one load.
        if self.is_stuck.load(Ordering::Relaxed) != is_stuck {
            self.is_stuck.store(is_stuck, Ordering::Relaxed);
            self.freed.fetch_add(u64::from(!is_stuck), Ordering::Relaxed);
        }
    }

    /// How many times bytes have come.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// A request was read.
    #[inline]
    pub fn request_started(&self) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    /// Its answer is ready.
    #[inline]
    pub fn request_finished(&self) {
        self.reads_at_finish.store(self.reads.load(Ordering::Relaxed), Ordering::Relaxed);
        self.has_part_of_next.store(false, Ordering::Relaxed);
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes that came with the last request are a part of the next one, whose time-out starts now.
    pub fn has_begun_another(&self) {
        self.has_part_of_next.store(true, Ordering::Relaxed);
    }

    /// Whether bytes have come since the last request that are not yet one. On HTTP/2 these are
    /// pings and window updates.
    pub(super) fn has_begun_a_head(&self) -> bool {
        let has_bytes = self.has_part_of_next.load(Ordering::Relaxed)
            || self.reads.load(Ordering::Relaxed) != self.reads_at_finish.load(Ordering::Relaxed);
        has_bytes && !self.is_http2.load(Ordering::Relaxed)
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.started.load(Ordering::Relaxed).saturating_sub(self.finished.load(Ordering::Relaxed))
    }

    pub(super) fn command(&self, order: ConnectionCommand) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        self.order.fetch_max(order as u8, Ordering::Relaxed);
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }

    /// Closes the connection at once, because its client does not take what it is sent.
    pub fn close(&self) {
        self.command(ConnectionCommand::Close);
    }

    /// Returns when the connection has been commanded to end.
    pub async fn until_commanded(&self) {
        // Registered each time: an order uses the waker up.
        std::future::poll_fn(|cx| match self.order(cx, &mut false) {
            ConnectionCommand::Serve => Poll::Pending,
            ConnectionCommand::Finish | ConnectionCommand::Close => Poll::Ready(()),
        })
        .await;
    }

    /// Whether it was commanded to end.
    pub(super) fn is_commanded(&self) -> bool {
        self.order.load(Ordering::Relaxed) != ConnectionCommand::Serve as u8
    }

    /// How long its client may take none of the bytes to be written. On HTTP/2 each answer has a
    /// bound of its own.
    pub(super) fn patience(&self, bounds: &Bounds) -> Duration {
        let own = if self.is_http2.load(Ordering::Relaxed) { None } else { self.flows.patience() };
        own.unwrap_or(bounds.idle_timeout)
    }

    /// The order in force; the task of `cx` is woken when a stricter one comes.
    ///
    /// The waker is left only when `is_registered` is false or the order has changed since, so that
    /// the usual call is one load.
    #[inline]
    pub fn order(&self, cx: &Context<'_>, is_registered: &mut bool) -> ConnectionCommand {
        if !*is_registered {
            *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            *is_registered = true;
        }
        match self.order.load(Ordering::Relaxed) {
            0 => ConnectionCommand::Serve,
            1 => ConnectionCommand::Finish,
            _ => ConnectionCommand::Close,
        }
    }
}

/// A request that waits in line.
#[derive(Debug)]
pub struct HeldRequest<'a>(&'a ConnectionActivity);

impl Drop for HeldRequest<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}
