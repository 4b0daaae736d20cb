//! The Envoys of a fleet, as its world keeps them.

use core::task::Waker;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use tidegate_engine::RemoteStream;

use super::envoy_bucket::{EnvoyBucket, REPORT_EVERY};
use super::scenario::Scenario;
use crate::kit::Chance;

/// All Envoys.
#[derive(Debug)]
pub(super) struct EnvoyPeers {
    pub(super) all: Vec<EnvoyPeer>,
    pub(super) chance: Chance,
    pub(super) woken: Arc<WokenStreams>,
}

/// One Envoy.
#[derive(Debug)]
pub(super) struct EnvoyPeer {
    /// By key.
    pub(super) buckets: BTreeMap<u32, EnvoyBucket>,
    /// The stream as its member has it, from the first report on.
    pub(super) stream: Option<RemoteStream>,
    pub(super) waker: Waker,
    /// When the member looks at the stream next.
    pub(super) looks_at: u64,
    /// When the last report arrives: a stream keeps their order.
    pub(super) last_report_at: u64,
    /// Whether a response is under way. The next one waits until it is known to be taken.
    pub(super) is_responding: bool,
}

/// Streams that an answer of the store has woken.
#[derive(Debug, Default)]
pub(super) struct WokenStreams(Mutex<BTreeSet<u32>>);

#[derive(Debug)]
struct StreamWaker {
    envoy: u32,
    woken: Arc<WokenStreams>,
}

impl Wake for StreamWaker {
    fn wake(self: Arc<Self>) {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).insert(self.envoy);
    }
}

impl WokenStreams {
    /// The streams that were woken since the last call.
    pub(super) fn take(&self) -> BTreeSet<u32> {
        core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EnvoyPeers {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let woken = Arc::<WokenStreams>::default();
        let all = (0..scenario.envoys).map(|envoy| EnvoyPeer {
            buckets: BTreeMap::new(),
            stream: None,
            waker: Waker::from(Arc::new(StreamWaker { envoy, woken: Arc::clone(&woken) })),
            looks_at: u64::MAX,
            last_report_at: 0,
            is_responding: false,
        });
        Self { all: all.collect(), chance: Chance::new(scenario.seed, 9), woken }
    }

    /// When each of them reports first; then it does so every [`REPORT_EVERY`].
    pub(super) fn first_reports(&self) -> Vec<u64> {
        let mut chance = self.chance.clone();
        self.all.iter().map(|_| chance.below(REPORT_EVERY)).collect()
    }
}
