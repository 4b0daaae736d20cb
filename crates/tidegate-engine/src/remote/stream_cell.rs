//! The state of one stream.

use core::task::Waker;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::Timestamp;
use tidegate_core::lease::{Grant, LedgerLevel};

use super::BucketId;
use super::bucket::Bucket;
use crate::leases::RemoteAsking;
use crate::sync::lock_plain;

/// A stream, as its asks and the views find it.
#[derive(Debug)]
pub(crate) struct StreamCell {
    pub(super) number: u64,
    pub(super) namespace: Box<str>,
    /// The name of the peer, and how many open streams had that name before.
    pub(super) name: Box<str>,
    pub(super) ordinal: u32,
    pub(super) state: Mutex<StreamState>,
}

#[derive(Debug, Default)]
pub(super) struct StreamState {
    pub(super) buckets: BTreeMap<Arc<BucketId>, Bucket>,
    /// Buckets of a former stream of the same name that this one has not reported.
    pub(super) former: BTreeMap<Arc<BucketId>, Bucket>,
    pub(super) waker: Option<Waker>,
    pub(super) next: Option<Timestamp>,
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
        // Nothing is found where another stream of that name has the bucket by now: it counts the
        // ask as lost, and the ledger takes the grant back with the next.
        let Some(bucket) = state.buckets.get_mut(&self.bucket) else { return };
        match grant {
            Some((grant, level)) => bucket.remote.granted(self.key, &grant, level, now),
            None => bucket.remote.lost(self.key, now),
        }
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl StreamState {
    /// Of a stream that has opened, with the buckets of the one before of its name.
    pub(super) fn new(former: BTreeMap<Arc<BucketId>, Bucket>) -> Self {
        Self { former, ..Self::default() }
    }
}

impl StreamCell {
    /// Has the stream polled.
    pub(super) fn wake(&self) {
        let waker = lock_plain(&self.state).waker.take();
        waker.into_iter().for_each(Waker::wake);
    }
}
