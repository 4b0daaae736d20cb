//! One bucket of a stream with the limits that it meets.

use core::time::Duration;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::lease::{Assignment, HolderName, RemoteBucket};

use super::places::{BucketPlace, HolderPlaces};
use super::{Action, BucketId, NotHeld};
use crate::leases::LeasedKey;

/// A bucket of a stream.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) id: Arc<BucketId>,
    pub(super) remote: RemoteBucket,
    /// The keys that its limits have in the store, in the order of its holders.
    pub(super) keys: SmallVec<[Arc<LeasedKey>; 1]>,
    /// The limit that no Envoy can hold.
    pub(super) not_held: Option<NotHeld>,
    /// Whether one of its limits blocks keys that exceed it, so that it may be blocked at any time.
    pub(super) may_be_blocked: bool,
    /// The end of the block that denies it.
    pub(super) blocked_until: Option<Timestamp>,
    /// The action that was sent last.
    pub(super) action: Option<Action>,
    /// Requests of which the Envoy has reported that it denied them.
    pub(super) denied: u64,
    /// Its places among the holders of its keys.
    pub(super) holders: HolderPlaces,
    /// Its place in its namespace.
    _place: BucketPlace,
}

impl Bucket {
    pub(super) fn new(
        id: Arc<BucketId>,
        name: HolderName,
        place: BucketPlace,
        ttl: Duration,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            remote: RemoteBucket::new(name, ttl, now),
            keys: SmallVec::new(),
            not_held: None,
            may_be_blocked: false,
            blocked_until: None,
            action: None,
            denied: 0,
            holders: place.holder_places(),
            _place: place,
        }
    }

    /// Whether it waits for a place among the holders of a key.
    pub(super) fn is_waiting(&self) -> bool {
        self.not_held.as_ref().is_some_and(|not_held| not_held.is_full)
    }

    /// The action for an assignment.
    pub(super) fn tell(&mut self, assignment: Assignment) -> Action {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let action = match assignment {
            Assignment::Bucket(bucket, ttl) => Action::Assign {
                max_tokens: bucket.max_tokens,
                tokens_per_fill: bucket.tokens_per_fill,
                fill_interval: seconds(bucket.interval_s),
                ttl: seconds(ttl),
            },
            Assignment::Deny(ttl) => Action::Deny { ttl: seconds(ttl) },
            Assignment::Abandon => Action::Abandon,
        };
        self.action = Some(action);
        action
    }
}
