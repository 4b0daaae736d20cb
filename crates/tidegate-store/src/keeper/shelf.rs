//! The counters of a memory store, within a number of bytes.
//!
//! Nothing is forgotten before room is needed. Then drained counters go, which are the same as none, found through a
//! queue ordered by the instant at which each drains.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tidegate::Timestamp;

use crate::Key;
use crate::record::Record;

/// How many counters are looked at when room is needed, so that no batch takes long.
const RECLAIM_STEPS_MAX: usize = 1024;

/// Counters by key.
#[derive(Debug)]
pub(super) struct Shelf {
    bytes: usize,
    bytes_used: usize,
    entries: HashMap<Arc<[u8]>, Entry, ahash::RandomState>,
    /// Every entry with its `due`, the earliest first.
    queue: BTreeSet<(Timestamp, Arc<[u8]>)>,
}

#[derive(Debug)]
struct Entry {
    /// Taken out while a batch works on it.
    record: Option<Record>,
    /// When to see whether it has drained: never later than it does.
    due: Timestamp,
    /// Heap bytes of the record, as counted.
    heap: usize,
}

impl Shelf {
    pub(super) fn new(bytes: usize, seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[0], seed[1], seed[2], seed[3]);
        Self { bytes, bytes_used: 0, entries: HashMap::with_hasher(hasher), queue: BTreeSet::new() }
    }

    /// Bytes of a counter beside the heap of its record: the key once, its two counts, an entry of each table with the
    /// room that tables keep free (a half at most).
    pub(super) fn entry_bytes(key: &Key) -> usize {
        Self::bytes_of(key.as_bytes())
    }

    fn bytes_of(key: &[u8]) -> usize {
        const TABLES: usize = 2 * (size_of::<(Arc<[u8]>, Entry)>() + size_of::<(Timestamp, Arc<[u8]>)>() + 8);
        TABLES + 2 * size_of::<usize>() + key.len().next_multiple_of(16)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes_used(&self) -> usize {
        self.bytes_used
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Record> {
        self.entries.get(key.as_bytes())?.record.as_ref()
    }

    /// Takes a counter out until it is [put](Shelf::put) back.
    pub(super) fn take(&mut self, key: &Key) -> Option<Record> {
        self.entries.get_mut(key.as_bytes())?.record.take()
    }

    /// Puts a counter where it was taken from; `None` if nothing is left of it.
    pub(super) fn put(&mut self, key: &Key, record: Option<Record>, now: Timestamp) {
        let Some(record) = record else {
            self.remove(key.as_bytes());
            return;
        };
        let heap = record.bytes();
        let due = record.drained_at(now);
        if let Some(entry) = self.entries.get_mut(key.as_bytes()) {
            self.bytes_used = self.bytes_used - entry.heap + heap;
            entry.heap = heap;
            entry.record = Some(record);
            // A later instant is found out when the earlier one has come, which most charges never cause.
            if due < entry.due {
                self.requeue(key.as_bytes(), due);
            }
        } else {
            let key: Arc<[u8]> = key.as_bytes().into();
            self.bytes_used += Self::bytes_of(&key) + heap;
            self.queue.insert((due, Arc::clone(&key)));
            self.entries.insert(key, Entry { record: Some(record), due, heap });
        }
    }

    fn requeue(&mut self, key: &[u8], due: Timestamp) {
        let Some((name, _)) = self.entries.get_key_value(key) else { return };
        let name = Arc::clone(name);
        let Some(entry) = self.entries.get_mut(key) else { return };
        let was = core::mem::replace(&mut entry.due, due);
        let mut place = (was, name);
        self.queue.remove(&place);
        place.0 = due;
        self.queue.insert(place);
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some((name, entry)) = self.entries.remove_entry(key) {
            self.bytes_used -= Self::bytes_of(key) + entry.heap;
            self.queue.remove(&(entry.due, name));
        }
    }

    /// Brings a counter back that lies too far ahead of a clock that has stepped back.
    pub(super) fn on_load(&mut self, key: &Key, now: Timestamp) {
        let Some(mut record) = self.take(key) else { return };
        record.on_load(now);
        self.put(key, Some(record), now);
    }

    /// Sees that `growth` more bytes fit, by forgetting drained counters other than `kept`. If they do not fit: the first
    /// instant from which they may.
    pub(super) fn make_room(
        &mut self,
        growth: usize,
        kept: &[&Key],
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        let fits = |shelf: &Self| shelf.bytes_used.saturating_add(growth) <= shelf.bytes;
        // Those of the batch itself are set aside: it was decided on them.
        let mut after = None;
        for _ in 0..RECLAIM_STEPS_MAX {
            if fits(self) {
                return Ok(());
            }
            let next = match &after {
                None => self.queue.first(),
                Some(place) => {
                    self.queue.range((core::ops::Bound::Excluded(place), core::ops::Bound::Unbounded)).next()
                }
            };
            let Some((due, key)) = next.cloned() else { return Err(now) };
            if due > now {
                return Err(due);
            }
            if kept.iter().any(|kept| kept.as_bytes() == &*key) {
                after = Some((due, key));
                continue;
            }
            let record = self.entries.get(&key).and_then(|entry| entry.record.as_ref());
            match record.map(|record| (record.is_drained(now), record.drained_at(now))) {
                Some((false, drained_at)) => {
                    // At least one nanosecond on, so that each is looked at once.
                    let due = drained_at.max(Timestamp::from_nanos(now.as_nanos().saturating_add(1)));
                    self.requeue(&key, due);
                }
                Some((true, _)) | None => self.remove(&key),
            }
        }
        if fits(self) { Ok(()) } else { Err(now) }
    }

    #[cfg(any(test, feature = "conformance"))]
    pub(super) fn dump(&self) -> String {
        use core::fmt::Write;

        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        let mut text = String::new();
        for (key, entry) in entries {
            writeln!(text, "{} {:?}", key.escape_ascii(), entry.record).expect("text always takes more");
        }
        text
    }
}
