//! The counters of a store, within a number of bytes.
//!
//! Nothing is evicted before room is needed. The choice then depends on whether the counters are
//! also written elsewhere: if not, drained ones, which are the same as none, found through a queue
//! ordered by the instant at which each drains; if they are, those that are as they were written,
//! the longest unused first.

use core::ops::{Bound, Range};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use tidegate_core::{Algorithm, Timestamp};

use crate::Key;
use crate::record::Record;

/// How many counters are looked at when room is needed, so that no batch takes long.
const RECLAIM_STEPS_MAX: usize = 1024;

/// Counters by key.
#[derive(Debug)]
pub(super) struct Shelf {
    bytes: usize,
    bytes_used: usize,
    entries: HashMap<Arc<[u8]>, ShelfEntry, ahash::RandomState>,
    reclaim: Reclaim,
}

#[derive(Debug)]
struct ShelfEntry {
    /// Taken out while a batch works on it; also `None` where nothing is left and that is not
    /// written yet.
    record: Option<Record>,
    /// When to see whether it has drained: never later than it does. Only where drained counters
    /// are forgotten.
    due: Timestamp,
    /// Heap bytes of the record, as counted.
    heap: usize,
    /// The changes that are not written yet.
    unsaved: Unsaved,
    /// Whether it stands among the [saved](SavedCounters::saved).
    queued: bool,
    /// Whether it was used since it was last looked at for eviction.
    used: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsaved {
    /// It is as it was written.
    Nothing,
    /// It has changed since.
    Changed,
    /// It was handed out to be written.
    Handed,
    /// It was handed out, and has changed since.
    HandedAndChanged,
}

/// Which counters go when room is needed.
#[derive(Debug)]
enum Reclaim {
    /// Drained ones: every entry with its `due`, the earliest first.
    Drained(BTreeSet<(Timestamp, Arc<[u8]>)>),
    /// Saved ones.
    Saved(SavedCounters),
}

/// Where counters stand on their way to where they are kept.
#[derive(Debug, Default)]
struct SavedCounters {
    /// Those that have changed and were not handed out since.
    changed: Vec<Arc<[u8]>>,
    /// Those that were handed out.
    handed: Vec<Arc<[u8]>>,
    /// Those that were as written when they came here, the longest ago first. Some have changed or
    /// gone since.
    saved: VecDeque<Arc<[u8]>>,
}

/// The next stored form of one counter: a part of the bytes beside it, or nothing.
pub(super) type Handed = (Arc<[u8]>, Option<Range<usize>>);

impl Shelf {
    /// No counters yet. `saved` says that they are also written elsewhere.
    pub(super) fn new(bytes: usize, seed: [u64; 4], saved: bool) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[0], seed[1], seed[2], seed[3]);
        let reclaim =
            if saved { Reclaim::Saved(SavedCounters::default()) } else { Reclaim::Drained(BTreeSet::new()) };
        Self { bytes, bytes_used: 0, entries: HashMap::with_hasher(hasher), reclaim }
    }

    /// Bytes of a counter beside the heap of its record: the key once, its two counts, its numbers,
    /// an entry of each table with the room that tables keep free (a half at most).
    pub(super) fn entry_bytes(key: &Key) -> usize {
        Self::bytes_of(key.as_bytes())
    }

    fn bytes_of(key: &[u8]) -> usize {
        const TABLES: usize =
            2 * (size_of::<(Arc<[u8]>, ShelfEntry)>() + size_of::<(Timestamp, Arc<[u8]>)>() + 8);
        const NUMBERS: usize = size_of::<Algorithm>() + 2 * size_of::<usize>();
        TABLES + NUMBERS + 2 * size_of::<usize>() + key.len().next_multiple_of(16)
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

    /// Whether the counter is known, present or absent.
    pub(super) fn knows(&self, key: &Key) -> bool {
        self.entries.contains_key(key.as_bytes())
    }

    /// Takes a counter out until it is [put](Shelf::put) back.
    pub(super) fn take(&mut self, key: &Key) -> Option<Record> {
        let entry = self.entries.get_mut(key.as_bytes())?;
        entry.used = true;
        entry.record.take()
    }

    /// Puts a counter where it was taken from; `None` if nothing is left of it. `changed` says
    /// whether it differs from what was taken.
    pub(super) fn put(&mut self, name: &Key, record: Option<Record>, changed: bool, now: Timestamp) {
        let key = name.as_bytes();
        let saving = matches!(self.reclaim, Reclaim::Saved(_));
        if record.is_none() && !saving {
            self.remove(key);
            return;
        }
        if record.is_none() && !changed && !self.entries.contains_key(key) {
            return;
        }
        self.place(key, || name.share(), record, now);
        if changed && saving {
            self.mark_changed(key);
        }
    }

    /// Puts a counter here as it stands elsewhere; one that has drained since as nothing, to be
    /// written.
    pub(super) fn load(&mut self, key: &[u8], record: Record, now: Timestamp) {
        if self.entries.contains_key(key) {
            return;
        }
        if record.is_drained(now) {
            self.place(key, || key.into(), None, now);
            self.mark_changed(key);
        } else {
            self.place(key, || key.into(), Some(record), now);
            self.mark_saved(key);
        }
    }

    /// Puts a counter under its key; a new key is kept as `name`.
    fn place(
        &mut self,
        key: &[u8],
        name: impl FnOnce() -> Arc<[u8]>,
        record: Option<Record>,
        now: Timestamp,
    ) {
        let heap = record.as_ref().map_or(0, Record::bytes);
        let due_of = |record: &Option<Record>| match (&self.reclaim, record) {
            (Reclaim::Drained(_), Some(record)) => record.drained_at(now),
            _ => Timestamp::MIN,
        };
        if let Some(entry) = self.entries.get_mut(key) {
            // A later instant is found out when the earlier one has come, which most charges never
            // cause; and none is earlier than now.
            let is_later = |record: &Record| entry.due <= now || record.lasts_until(now) >= entry.due;
            let due = if record.as_ref().is_some_and(is_later) { entry.due } else { due_of(&record) };
            self.bytes_used = self.bytes_used - entry.heap + heap;
            entry.heap = heap;
            entry.record = record;
            if due < entry.due {
                self.requeue(key, due);
            }
            return;
        }
        let due = due_of(&record);
        let key = name();
        self.bytes_used += Self::bytes_of(&key) + heap;
        if let Reclaim::Drained(queue) = &mut self.reclaim {
            queue.insert((due, Arc::clone(&key)));
        }
        let unsaved = Unsaved::Nothing;
        self.entries.insert(key, ShelfEntry { record, due, heap, unsaved, queued: false, used: true });
    }

    fn requeue(&mut self, key: &[u8], due: Timestamp) {
        let Reclaim::Drained(queue) = &mut self.reclaim else { return };
        let Some((name, _)) = self.entries.get_key_value(key) else { return };
        let name = Arc::clone(name);
        let Some(entry) = self.entries.get_mut(key) else { return };
        let was = core::mem::replace(&mut entry.due, due);
        let mut place = (was, name);
        queue.remove(&place);
        place.0 = due;
        queue.insert(place);
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some((name, entry)) = self.entries.remove_entry(key) {
            self.bytes_used -= Self::bytes_of(key) + entry.heap;
            if let Reclaim::Drained(queue) = &mut self.reclaim {
                queue.remove(&(entry.due, name));
            }
        }
    }

    /// Brings back a counter that lies too far ahead, as after a clock that was wrong.
    pub(super) fn bring_back(&mut self, key: &Key, of: &Algorithm, now: Timestamp) {
        if self.get(key).is_some_and(|record| record.lies_ahead(of, now))
            && let Some(mut record) = self.take(key)
        {
            record.bring_back(of, now);
            self.put(key, Some(record), true, now);
        }
    }

    /// Sees that `growth` more bytes fit, by forgetting counters other than `kept` that need not be
    /// kept here. If they do not fit: the first instant from which they may.
    ///
    /// Where counters are also written elsewhere they fail to fit only as long as some are not
    /// written yet: what one batch is about may take more than there is.
    pub(super) fn make_room(
        &mut self,
        growth: usize,
        kept: &[&Key],
        now: Timestamp,
    ) -> Result<(), Timestamp> {
        match self.reclaim {
            Reclaim::Drained(_) => self.forget_drained(growth, kept, now),
            Reclaim::Saved(_) => {
                self.forget_saved(growth, kept);
                if self.fits(growth) || self.unsaved() == 0 { Ok(()) } else { Err(now) }
            }
        }
    }

    /// Whether there is room for so many bytes more.
    pub(super) fn fits(&self, growth: usize) -> bool {
        self.bytes_used.saturating_add(growth) <= self.bytes
    }

    fn forget_drained(&mut self, growth: usize, kept: &[&Key], now: Timestamp) -> Result<(), Timestamp> {
        // Those of the batch itself are set aside: it was decided on them.
        let mut after = None;
        for _ in 0..RECLAIM_STEPS_MAX {
            if self.fits(growth) {
                return Ok(());
            }
            let Reclaim::Drained(queue) = &self.reclaim else { return Err(now) };
            let next = match &after {
                None => queue.first(),
                Some(place) => queue.range((Bound::Excluded(place), Bound::Unbounded)).next(),
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
        if self.fits(growth) { Ok(()) } else { Err(now) }
    }

    fn forget_saved(&mut self, growth: usize, kept: &[&Key]) {
        for _ in 0..RECLAIM_STEPS_MAX {
            if self.fits(growth) {
                return;
            }
            let Reclaim::Saved(saving) = &mut self.reclaim else { return };
            let Some(key) = saving.saved.pop_front() else { return };
            let Some(entry) = queued_entry(&mut self.entries, &key) else { continue };
            if kept.iter().any(|kept| kept.as_bytes() == &*key) || (entry.used && entry.is_saved()) {
                entry.used = false;
                saving.saved.push_back(key);
                continue;
            }
            entry.queued = false;
            if entry.is_saved() {
                self.remove(&key);
            }
        }
    }

    /// How many counters have changed and are not written yet.
    pub(super) fn unsaved(&self) -> usize {
        match &self.reclaim {
            Reclaim::Drained(_) => 0,
            Reclaim::Saved(saving) => saving.changed.len() + saving.handed.len(),
        }
    }

    fn mark_changed(&mut self, key: &[u8]) {
        let Reclaim::Saved(saving) = &mut self.reclaim else { return };
        let Some((name, _)) = self.entries.get_key_value(key) else { return };
        let name = Arc::clone(name);
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.unsaved = match entry.unsaved {
            Unsaved::Nothing => Unsaved::Changed,
            Unsaved::Handed => Unsaved::HandedAndChanged,
            Unsaved::Changed | Unsaved::HandedAndChanged => return,
        };
        saving.changed.push(name);
    }

    fn mark_saved(&mut self, key: &[u8]) {
        let Reclaim::Saved(saving) = &mut self.reclaim else { return };
        let Some((name, _)) = self.entries.get_key_value(key) else { return };
        let name = Arc::clone(name);
        let Some(entry) = self.entries.get_mut(key) else { return };
        if !core::mem::replace(&mut entry.queued, true) {
            saving.saved.push_back(name);
        }
        // Counters that went by another way leave their place behind. Looking at two for each that
        // comes keeps the places in proportion to the counters.
        for _ in 0..2 {
            if saving.saved.len() <= 2 * self.entries.len() + RECLAIM_STEPS_MAX {
                break;
            }
            let Some(key) = saving.saved.pop_front() else { break };
            if queued_entry(&mut self.entries, &key).is_some() {
                saving.saved.push_back(key);
            }
        }
    }

    /// Hands out all changes to be written; their encoding goes to the end of `bytes`. Changes that
    /// were handed out before must have been [written](Shelf::written) or
    /// [not](Shelf::not_written).
    pub(super) fn hand_out(&mut self, bytes: &mut Vec<u8>) -> Vec<Handed> {
        let Reclaim::Saved(saving) = &mut self.reclaim else { return Vec::new() };
        assert!(saving.handed.is_empty(), "what was handed out before is neither written nor taken back");
        saving.handed = core::mem::take(&mut saving.changed);
        let mut handed = Vec::with_capacity(saving.handed.len());
        for key in &saving.handed {
            let Some(entry) = self.entries.get_mut(key) else { continue };
            entry.unsaved = Unsaved::Handed;
            let start = bytes.len();
            let range = entry.record.as_ref().map(|record| {
                record.write(bytes);
                start..bytes.len()
            });
            handed.push((Arc::clone(key), range));
        }
        handed
    }

    /// The changes that were handed out are written.
    pub(super) fn written(&mut self) {
        let Reclaim::Saved(saving) = &mut self.reclaim else { return };
        for key in core::mem::take(&mut saving.handed) {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            match entry.unsaved {
                Unsaved::HandedAndChanged => entry.unsaved = Unsaved::Changed,
                Unsaved::Handed => {
                    entry.unsaved = Unsaved::Nothing;
                    if entry.record.is_none() {
                        self.remove(&key);
                    } else {
                        self.mark_saved(&key);
                    }
                }
                Unsaved::Nothing | Unsaved::Changed => {}
            }
        }
    }

    /// The changes that were handed out could not be written, and are to be handed out again.
    pub(super) fn not_written(&mut self) {
        let Reclaim::Saved(saving) = &mut self.reclaim else { return };
        for key in core::mem::take(&mut saving.handed) {
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            if entry.unsaved == Unsaved::Handed {
                saving.changed.push(key);
            }
            entry.unsaved = Unsaved::Changed;
        }
    }

    /// How many places there are among the saved, those of counters that have gone included.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        match &self.reclaim {
            Reclaim::Drained(queue) => queue.len(),
            Reclaim::Saved(saving) => saving.saved.len(),
        }
    }

    /// Forgets everything that is as written.
    #[cfg(test)]
    pub(super) fn forget_all_saved(&mut self) {
        let bytes = core::mem::replace(&mut self.bytes, 0);
        for _ in 0..3 {
            self.forget_saved(0, &[]);
        }
        self.bytes = bytes;
    }

    #[cfg(any(test, feature = "conformance"))]
    pub(super) fn dump(&self) -> String {
        use core::fmt::Write;

        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        let mut text = String::new();
        for (key, entry) in entries {
            let record = entry.record.as_ref().map(Record::without_charged_at);
            writeln!(text, "{} {record:?}", key.escape_ascii()).expect("text always takes more");
        }
        text
    }
}

impl ShelfEntry {
    fn is_saved(&self) -> bool {
        self.unsaved == Unsaved::Nothing
    }
}

/// The entry whose place among the saved this is; `None` if it has gone, though another may have
/// come under its key.
fn queued_entry<'a>(
    entries: &'a mut HashMap<Arc<[u8]>, ShelfEntry, ahash::RandomState>,
    key: &Arc<[u8]>,
) -> Option<&'a mut ShelfEntry> {
    let (name, entry) = entries.get_key_value(key)?;
    if !Arc::ptr_eq(name, key) || !entry.queued {
        return None;
    }
    entries.get_mut(key)
}
