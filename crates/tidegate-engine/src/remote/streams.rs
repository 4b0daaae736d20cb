//! All streams of a member.

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::Timestamp;
use tidegate_core::lease::HolderName;

use super::places::{BucketPlace, BucketPlaces, PlaceOwner};
use super::stream_cell::{StreamCell, StreamState};
use super::{BucketId, RemoteConfig, RemotePeer};
use crate::stable_hash::name_of;
use crate::sync::lock_plain;

/// How many limits are remembered that no Envoy can hold, so that each is reported once.
const NEWS_MAX: usize = 1_024;

/// All streams.
#[derive(Debug)]
pub(crate) struct RemoteStreams {
    /// The run of this member, which names of holders are made of.
    run: u64,
    acts: AtomicU64,
    state: Mutex<OpenStreams>,
    places: Arc<BucketPlaces>,
}

#[derive(Debug, Default)]
struct OpenStreams {
    config: RemoteConfig,
    numbers: u64,
    /// When streams that have ended are looked at next.
    prunes_at: Timestamp,
    open: HashMap<u64, Arc<StreamCell>>,
    /// Streams that have ended, with leases that may last.
    ended: Vec<Arc<StreamCell>>,
    news: HashSet<(Box<str>, String)>,
    /// Keys that were reset, for the streams that have not seen it yet.
    resets: HashMap<u64, Vec<u64>>,
}

impl RemoteStreams {
    pub(crate) fn new(run: u64) -> Self {
        Self { run, acts: AtomicU64::new(0), state: Mutex::default(), places: Arc::default() }
    }

    pub(super) fn config(&self) -> RemoteConfig {
        lock_plain(&self.state).config
    }

    pub(crate) fn set_config(&self, config: RemoteConfig) {
        lock_plain(&self.state).config = config;
    }

    /// Counts operators' acts, which streams look at again.
    pub(super) fn acts(&self) -> u64 {
        // Relaxed: read under the lock of the stream, which `act` takes after it has counted.
        self.acts.load(Ordering::Relaxed)
    }

    /// An operator has changed something: all streams look at their limits again. A stream that
    /// waits is woken, and any other one reads the count when it is polled.
    pub(crate) fn act(&self) {
        self.acts.fetch_add(1, Ordering::Relaxed);
        self.all().iter().for_each(|cell| cell.wake());
    }

    /// The usage of these keys is forgotten.
    pub(crate) fn reset(&self, keys: &[u64]) {
        {
            let state = &mut *lock_plain(&self.state);
            for number in state.open.keys() {
                state.resets.entry(*number).or_default().extend(keys);
            }
        }
        self.act();
    }

    pub(super) fn resets_of(&self, number: u64) -> Vec<u64> {
        lock_plain(&self.state).resets.remove(&number).unwrap_or_default()
    }

    pub(super) fn all(&self) -> Vec<Arc<StreamCell>> {
        lock_plain(&self.state).open.values().cloned().collect()
    }

    pub(super) fn open(&self, namespace: &str, peer: RemotePeer<'_>, now: Timestamp) -> Arc<StreamCell> {
        let OpenStreams { numbers, open, ended, .. } = &mut *lock_plain(&self.state);
        let is_namesake =
            |cell: &StreamCell| &*cell.of.namespace == namespace && &*cell.of.stream.0 == peer.name;
        let taken: HashSet<u32> =
            open.values().filter(|cell| is_namesake(cell)).map(|cell| cell.of.stream.1).collect();
        let ordinal = (0..u32::MAX).find(|ordinal| !taken.contains(ordinal)).unwrap_or(u32::MAX);
        let mut former = BTreeMap::new();
        ended.retain(|cell| {
            let state = &mut *lock_plain(&cell.state);
            if is_namesake(cell) && cell.of.stream.1 == ordinal {
                former.append(&mut state.former);
                former.append(&mut state.buckets);
                return false;
            }
            !state.is_over(now)
        });
        *numbers += 1;
        let cell = Arc::new(StreamCell {
            number: *numbers,
            of: Arc::new(PlaceOwner {
                namespace: namespace.into(),
                owner: peer.owner.into(),
                stream: (peer.name.into(), ordinal),
            }),
            state: Mutex::new(StreamState::new(former)),
        });
        open.insert(cell.number, Arc::clone(&cell));
        cell
    }

    /// Forgets streams that have ended and of which no lease lasts, once a second.
    pub(crate) fn prune(&self, now: Timestamp) {
        const EVERY: Duration = Duration::from_secs(1);
        let state = &mut *lock_plain(&self.state);
        if state.ended.is_empty() || now < state.prunes_at {
            return;
        }
        state.prunes_at = now.saturating_add(EVERY);
        state.ended.retain(|cell| !lock_plain(&cell.state).is_over(now));
    }

    pub(super) fn close(&self, cell: &Arc<StreamCell>) {
        let state = &mut *lock_plain(&self.state);
        state.open.remove(&cell.number);
        state.resets.remove(&cell.number);
        let is_used = {
            let ended = &mut *lock_plain(&cell.state);
            ended.buckets.values_mut().for_each(|bucket| bucket.remote.closed());
            !(ended.buckets.is_empty() && ended.former.is_empty())
        };
        if is_used {
            state.ended.push(Arc::clone(cell));
        }
    }

    /// The name of the holders of a bucket: the same for all streams of a peer at all members, but
    /// for the incarnation.
    pub(super) fn holder(&self, cell: &StreamCell, id: &BucketId) -> HolderName {
        let number = {
            let state = &mut *lock_plain(&self.state);
            state.numbers += 1;
            state.numbers
        };
        let (name, ordinal) = &cell.of.stream;
        let ordinal = ordinal.to_le_bytes();
        let entries = id.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        let peer = [cell.namespace().as_bytes(), name.as_bytes(), &ordinal];
        let member = name_of(peer.into_iter().chain(entries)) as u64 | 1 << 63;
        let own = name_of([&self.run.to_le_bytes()[..], &number.to_le_bytes()]);
        HolderName { member, incarnation: own as u32 }
    }

    /// A place for one more bucket of a stream.
    pub(super) fn take(&self, cell: &StreamCell) -> Option<BucketPlace> {
        self.places.take(&cell.of)
    }

    /// Whether it has not been said before that no Envoy can hold a limit.
    pub(super) fn is_news(&self, namespace: &str, limit: &str) -> bool {
        let state = &mut *lock_plain(&self.state);
        state.news.len() < NEWS_MAX && state.news.insert((namespace.into(), limit.to_owned()))
    }
}
