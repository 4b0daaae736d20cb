//! The state of one stream.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::Timestamp;
use tidegate_core::lease::{Grant, LedgerLevel};

use super::BucketId;
use super::bucket::Bucket;
use super::places::PlaceOwner;
use crate::leases::RemoteAsking;
use crate::sync::lock_plain;

/// A stream, as its asks and the views find it.
#[derive(Debug)]
pub(crate) struct StreamCell {
    pub(super) number: u64,
    /// The namespace, the owner, and the name of the peer.
    pub(super) of: Arc<PlaceOwner>,
    pub(super) state: Mutex<StreamState>,
}

#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) buckets: BTreeMap<Arc<BucketId>, Bucket>,
    /// Buckets of a former stream of the same name that this one has not reported.
    pub(super) former: BTreeMap<Arc<BucketId>, Bucket>,
    pub(super) waker: Option<Waker>,
    pub(super) next: Option<Timestamp>,
    /// When a bucket wants to be stepped although nothing has happened.
    pub(super) steps_at: Option<Timestamp>,
    /// Whether something has happened to a bucket since the last poll.
    pub(super) has_news: bool,
    /// Whether a bucket is to be located at each look: it may be blocked, or waits for a place.
    pub(super) has_watched: bool,
    /// The engine and the acts that the limits were located under.
    pub(super) seen: Option<(u32, u64)>,
}

/// An ask of a remote holder that is under way.
#[derive(Debug)]
pub(super) struct RemoteAsk {
    pub(super) cell: Arc<StreamCell>,
    pub(super) bucket: Arc<BucketId>,
    pub(super) key: u64,
}

impl RemoteAsking for RemoteAsk {
    /// Takes in the answer; `None` if the store has not answered.
    fn land(&self, grant: Option<(Grant, LedgerLevel)>, now: Timestamp) {
        let mut state = lock_plain(&self.cell.state);
        // Nothing is found where another stream of that name has the bucket by now: it does not
        // wait for the answer, and the ledger takes the grant back with the next ask.
        let Some(bucket) = state.buckets.get_mut(&self.bucket) else { return };
        match grant {
            Some((grant, level)) => bucket.remote.granted(self.key, &grant, level, now),
            None => bucket.remote.lost(self.key, now),
        }
        state.has_news = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

/// How often a stream looks whether a bucket is blocked by now, or has a place. An operator's act
/// wakes it, and whoever puts another engine in force polls it.
const LOOK: Duration = Duration::from_millis(500);

impl StreamState {
    /// Whether no lease of any bucket lasts.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.buckets.values().chain(self.former.values()).all(|bucket| bucket.remote.is_over(now))
    }

    /// Has the task woken when something happens.
    pub(super) fn wait<T>(&mut self, context: &Context<'_>, now: Timestamp) -> Poll<T> {
        let look = self.has_watched.then(|| now.saturating_add(LOOK));
        self.next = [self.steps_at, look].into_iter().flatten().min();
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Of a stream that has opened, with the buckets of the one before of its name.
    pub(super) fn new(former: BTreeMap<Arc<BucketId>, Bucket>) -> Self {
        Self { former, ..Self::default() }
    }
}

impl StreamCell {
    pub(super) fn namespace(&self) -> &str {
        &self.of.namespace
    }

    /// Has the stream polled.
    pub(super) fn wake(&self) {
        let waker = lock_plain(&self.state).waker.take();
        waker.into_iter().for_each(Waker::wake);
    }
}
