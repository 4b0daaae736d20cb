//! The outbox: asks, refunds and undos until one task takes them to the store.

use core::task::{Context, Poll, Waker};

use tidegate_store::{Batch, RequestId};

use super::lease_batch::{DueAsk, LeaseBatches, Posted, Refund};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// How many undos are kept for the task that takes them. One more is dropped: its charge stays
/// until it drains or expires. Only a program that takes none gets there.
const UNDOS_POSTED_MAX: usize = 4096;

/// Messages for the store that no task has taken yet.
///
/// Any thread posts, and any thread takes; each message is taken once. One task polls: it is woken
/// when something is posted after it found the outbox empty.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
    /// Whether there may be something in the outbox. Relaxed: written under the lock only. A thread
    /// that posts sees its own write; the task that polls reads the messages under the lock; a
    /// thread that takes for others orders itself with them by fences of its own.
    is_posted: AtomicBool,
}

#[derive(Debug, Default)]
struct OutboxState {
    posted: Posted,
    /// The waker of the task that polls, set while it waits.
    waker: Option<Waker>,
}

impl Outbox {
    pub(super) fn post_ask(&self, ask: DueAsk) {
        self.post(|posted| posted.asks.push(ask));
    }

    pub(super) fn post_refund(&self, refund: Refund) {
        self.post(|posted| posted.refunds.push(refund));
    }

    pub(crate) fn post_undo(&self, undo: Batch) {
        self.post(|posted| {
            if posted.undos.len() < UNDOS_POSTED_MAX {
                posted.undos.push(undo);
            }
        });
    }

    fn post(&self, add: impl FnOnce(&mut Posted)) {
        let mut state = lock(&self.state);
        add(&mut state.posted);
        self.is_posted.store(true, Ordering::Relaxed);
        let waker = state.waker.take();
        // A waker may run any code.
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether there may be messages. One that is missed here is seen by the next look.
    pub(super) fn may_have_messages(&self) -> bool {
        self.is_posted.load(Ordering::Relaxed)
    }

    /// All messages, in as few batches as there may be; usually none, which costs one relaxed load.
    pub(crate) fn take_batches(&self, id: impl FnMut() -> RequestId) -> LeaseBatches {
        self.take().map_or_else(LeaseBatches::new, |posted| posted.into_batches(id))
    }

    /// The same, once there are some.
    pub(crate) fn poll_batches(
        &self,
        context: &Context<'_>,
        id: impl FnMut() -> RequestId,
    ) -> Poll<LeaseBatches> {
        self.poll(context).map(|posted| posted.into_batches(id))
    }

    /// All messages; `None` if there are none.
    pub(super) fn take(&self) -> Option<Posted> {
        // Without a lock on the way of every request that has nothing to send.
        if !self.may_have_messages() {
            return None;
        }
        self.take_from(&mut lock(&self.state))
    }

    /// All messages, once there are some.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Posted> {
        let mut state = lock(&self.state);
        if let Some(posted) = self.take_from(&mut state) {
            return Poll::Ready(posted);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }

    fn take_from(&self, state: &mut OutboxState) -> Option<Posted> {
        self.is_posted.store(false, Ordering::Relaxed);
        let posted = core::mem::take(&mut state.posted);
        (!posted.is_empty()).then_some(posted)
    }
}
