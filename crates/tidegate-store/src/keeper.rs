//! The batch logic of a store, apart from where it is kept and how it is made atomic: pure, and
//! the same for every store that decides in this process.
//!
//! A [`Keeper`] holds everything, or it holds what is in use of what a disk holds. In the second
//! case its owner
//!
//! 1. gives it the counters of a batch that it [does not know](Keeper::unknown) with
//!    [`Keeper::load`],
//! 2. [runs](Keeper::run) the batch,
//! 3. writes, now and then, [all that has changed](Keeper::hand_out) in one step, and says whether
//!    that [succeeded](Keeper::written) or [not](Keeper::not_written).
//!
//! Changes that are not written stay in memory; of the rest, the least recently used counters make
//! room.

mod answers;
mod notes;
mod shelf;
mod space;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use std::sync::Arc;

use tidegate_core::lease::Epoch;
use tidegate_core::{Algorithm, Timestamp, WhenFull};

use self::answers::{Answers, Remembered};
use self::notes::{Notes, Room};
use self::shelf::Shelf;
pub use self::space::{Space, SpaceConfig, SpaceUsage};
use crate::record::{DecisionTime, Numbers, Record, UndoEntry};
pub use crate::record::{RECORD_LAYOUTS, Unreadable};
use crate::step::{self, Done, Keyed, OpVec, Slot};
use crate::{Answer, Batch, Key, Kind, MemoryConfig, MemoryStats, Note, NoteKind, Operation, StoreError};

/// Counters, notes and answers in memory. Its owner brings the time and sees that one batch runs at
/// a time.
#[derive(Debug)]
pub struct Keeper {
    config: MemoryConfig,
    shelf: Shelf,
    notes: Notes,
    answers: Answers,
    /// The latest instant ever seen: before it, the clock has stepped back.
    latest: Timestamp,
    full: u64,
    /// Whether the last batch found no room for what is not written.
    waits_for_writing: bool,
    /// Whether that was space where counters are written, which writing may turn out to leave.
    waits_for_space: bool,
    /// The bytes of counters where they are written.
    space: Space,
    numbers: Numbers,
    epoch: Epoch,
}

/// The changes since the last write: all of them go to the disk in one step, or none.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Changes {
    /// Counters by their keys, each as it is to be written or `None` for one to remove. In no
    /// order.
    counters: Vec<shelf::Handed>,
    bytes: Vec<u8>,
    /// Notes by kind and name, each as it is to be written or `None` for one to remove. In the
    /// order of their names.
    pub notes: Vec<(NoteKind, Arc<[u8]>, Option<Note>)>,
    /// The latest instant the keeper has seen.
    pub latest: Timestamp,
}

impl Changes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty() && self.notes.is_empty()
    }

    /// How many counters there are.
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Counters by the bytes of their keys, in their order: each as it is to be written, or `None`
    /// for one to remove.
    pub fn counters(&mut self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.counters.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let bytes = &self.bytes;
        self.counters.iter().map(|(key, range)| (&**key, range.clone().map(|range| &bytes[range])))
    }
}

/// Says of counters as they are written whether they have drained, for whoever looks through them
/// beside the keeper.
#[derive(Debug)]
pub struct DrainCheck {
    numbers: Numbers,
}

impl DrainCheck {
    /// One that has seen no counter yet; the seed as [`MemoryConfig::seed`].
    pub fn new(seed: [u64; 4]) -> Self {
        Self { numbers: Numbers::new(seed) }
    }

    /// Whether the counter that [`Changes`] wrote as these bytes has drained at `now`, so that it
    /// may be removed from where it is written, unless what has changed since is about it.
    pub fn has_drained(&mut self, written: &[u8], now: Timestamp) -> Result<bool, Unreadable> {
        Ok(Record::read(written, &mut self.numbers)?.is_drained(now))
    }

    /// When that counter drains, if nothing else is charged; not before `now`.
    pub fn drained_at(&mut self, written: &[u8], now: Timestamp) -> Result<Timestamp, Unreadable> {
        Ok(Record::read(written, &mut self.numbers)?.drained_at(now))
    }
}

/// The result of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// The answer.
    pub answer: Answer,
    /// Whether it was answered before, and this is the same answer again.
    pub again: bool,
    /// Whether it changed anything that is to be written.
    pub changed: bool,
}

impl Keeper {
    /// An empty keeper that holds all there is.
    pub fn new(config: MemoryConfig) -> Self {
        Self::with(config, false)
    }

    /// A keeper that holds what is in use, and whose owner writes all of it elsewhere.
    ///
    /// [`MemoryConfig::bytes`] bounds what it holds, apart from what a single batch is about. At
    /// the bound counters that are as written make room. Where too much is not written yet a batch
    /// is [`StoreError::Full`] and the keeper [waits for writing](Keeper::waits_for_writing):
    /// write, and run it again. [`MemoryConfig::when_full`] does not matter.
    pub fn written_elsewhere(config: MemoryConfig) -> Self {
        Self::with(MemoryConfig { when_full: WhenFull::Refuse, ..config }, true)
    }

    fn with(config: MemoryConfig, written: bool) -> Self {
        let config = MemoryConfig { bytes: config.bytes.max(MemoryConfig::BYTES_MIN), ..config };
        Self {
            shelf: Shelf::new(config.bytes, config.seed, written),
            notes: Notes::new(Room { notes: config.notes, bytes: config.note_bytes }, written),
            answers: Answers::new(config.answers, config.answers_kept, config.seed),
            latest: Timestamp::MIN,
            full: 0,
            waits_for_writing: false,
            waits_for_space: false,
            space: Space::default(),
            numbers: Numbers::new(config.seed),
            epoch: Self::FIRST_EPOCH,
            config,
        }
    }

    /// The epoch of a keeper that was not told another: the first, of a store that was always
    /// there. One that holds nothing has lent nothing, so a limit of which it has no ledger is
    /// full.
    pub const FIRST_EPOCH: Epoch = Epoch { number: 1, began: Timestamp::MIN, is_after_loss: false };

    /// Begins another epoch: ledgers of earlier ones begin anew, each when it is next asked. For
    /// keepers that have lost what they held, or that simulate it; counters and notes do not look
    /// at it. Default [`Keeper::FIRST_EPOCH`].
    pub fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// The epoch that lasts.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether it can decide `algorithm`.
    pub fn supports(algorithm: &Algorithm) -> bool {
        Record::supports(algorithm)
    }

    /// The current contents of the keeper.
    pub fn stats(&self) -> MemoryStats {
        let Room { notes, bytes: note_bytes } = self.notes.used();
        MemoryStats {
            keys: self.shelf.len(),
            bytes_used: self.shelf.bytes_used(),
            answers: self.answers.len(),
            notes,
            note_bytes,
            full: self.full,
        }
    }

    /// The keys of a batch whose counters it does not know, so that they are to be
    /// [loaded](Keeper::load) first.
    pub fn unknown<'a>(&self, batch: &'a Batch) -> Vec<&'a Key> {
        let mut unknown = Vec::new();
        for operation in &batch.operations {
            if !self.shelf.knows(&operation.key) && !unknown.contains(&&operation.key) {
                unknown.push(&operation.key);
            }
        }
        unknown
    }

    /// Takes up what is written of the counters of a batch, at `now`. Call it before
    /// [`Keeper::run`], with what no later writing has replaced; keys of which nothing is written
    /// need not be named. Known counters stay as they are.
    ///
    /// Bytes that are no counter are an error, and what came before them is loaded.
    pub fn load<'a>(
        &mut self,
        batch: &Batch,
        written: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        now: Timestamp,
    ) -> Result<(), Unreadable> {
        for (key, bytes) in written {
            let record = Record::read(bytes, &mut self.numbers)?;
            self.shelf.load(key, record, now);
        }
        // Those of the batch are about to be used. Whether the rest fits matters to a batch that
        // adds to it.
        let keyed = Keyed::new(batch);
        let _ = self.shelf.make_room(0, &keyed.distinct, now);
        Ok(())
    }

    /// Bounds what counters take where they are written. Notes do not count: they have bounds of
    /// their own.
    ///
    /// Where a charge would take more it is [`StoreError::Full`], or admitted without being
    /// counted, as [`SpaceConfig::when_full`] says; charges to counters that take no more room go
    /// on. Call it again when there are other namespaces.
    pub fn bound_space(&mut self, config: SpaceConfig) {
        self.space.configure(config);
    }

    /// The bound of [`Keeper::bound_space`], if there is one.
    pub fn space(&self) -> Option<SpaceConfig> {
        self.space.config()
    }

    /// The bytes of counters where they are written, as [`Space::bytes_of`] counts; bytes on the
    /// way there are included.
    pub fn space_used(&self) -> u64 {
        self.space.used()
    }

    /// Sets the written bytes after a complete recount.
    pub fn measured(&mut self, written: SpaceUsage) {
        self.space.measured(written);
    }

    /// The first instant at which a counter that is written drains, as far as its owner has seen:
    /// until then there is no more room.
    pub fn drains_first_at(&mut self, at: Timestamp) {
        self.space.drains_first_at(at);
    }

    /// Takes up a note as it is written, at the start. One that has expired is to be removed by the
    /// next writing; one that lasts longer than [its kind](NoteKind::longest) may was written under
    /// a clock that was ahead, and ends then.
    pub fn load_note(&mut self, note: Note, now: Timestamp) {
        self.notes.load(note, now);
    }

    /// How many counters and notes have changed and are not written yet, those handed out included.
    pub fn unsaved(&self) -> usize {
        self.shelf.unsaved() + self.notes.unsaved()
    }

    /// Whether the last batch was [`StoreError::Full`] only because too much is not written yet: it
    /// fits when that is written.
    pub fn waits_for_writing(&self) -> bool {
        self.waits_for_writing
    }

    /// Whether it [waits for writing](Keeper::waits_for_writing) only to know what is on the way to
    /// where counters are written takes there: it may fit then, or may not.
    pub fn waits_for_space(&self) -> bool {
        self.waits_for_space
    }

    /// All that has changed since the last time. Say whether it was [written](Keeper::written) or
    /// [not](Keeper::not_written) before asking again.
    ///
    /// Takes about a tenth of a microsecond a counter; of a rolling limit, longer by a few
    /// nanoseconds for each instant.
    pub fn hand_out(&mut self) -> Changes {
        let mut bytes = Vec::new();
        let counters = self.shelf.hand_out(&mut bytes);
        self.space.hand_out();
        Changes { counters, bytes, notes: self.notes.hand_out(), latest: self.latest }
    }

    /// The changes that were handed out are written, and counters take so many bytes more or less
    /// there; without a bound on [space](Keeper::bound_space) an empty [`SpaceUsage`] will do.
    pub fn written(&mut self, changes: &SpaceUsage) {
        self.shelf.written();
        self.notes.written();
        self.space.written(changes);
    }

    /// The changes that were handed out could not be written; they are handed out again.
    pub fn not_written(&mut self) {
        self.shelf.not_written();
        self.notes.not_written();
        self.space.not_written();
    }

    /// All notes of a kind that have not expired at `now`, in the order of their names.
    pub fn notes(&self, kind: NoteKind, now: Timestamp) -> Vec<Note> {
        self.notes.of_kind(kind, now)
    }

    /// Every counter and note with everything known about it, in the order of their keys. For
    /// tests: two dumps are equal if and only if nothing has changed.
    #[cfg(any(test, feature = "conformance"))]
    pub fn dump(&self) -> String {
        self.shelf.dump() + &self.notes.dump()
    }

    /// Carries out one batch at `now`.
    ///
    /// [`StoreError::Full`] says from when on there may be room.
    pub fn run(&mut self, batch: &Batch, now: Timestamp) -> Result<Ran, StoreError> {
        batch.check()?;
        if let Some(operation) =
            batch.operations.iter().find(|operation| !Self::supports(&operation.algorithm))
        {
            return Err(StoreError::Unsupported { what: format!("{} limits", operation.algorithm.name()) });
        }
        (self.waits_for_writing, self.waits_for_space) = (false, false);
        self.notes.forget_expired(now);
        self.answers.forget_old(now);
        if let Some(answer) = self.answers.recall(batch)? {
            return Ok(Ran { answer, again: true, changed: false });
        }
        let keyed = Keyed::new(batch);
        // Before the decision and whatever it is: a refused batch could not bring a state back, and
        // the wait that it is told would begin anew whenever the counter is read again.
        for Operation { key, algorithm, .. } in &batch.operations {
            self.shelf.bring_back(key, algorithm, now);
        }
        self.latest = self.latest.max(now);
        self.check_peeked_space(&keyed, now)?;

        let charges = self.charges(batch);
        let records: OpVec<_> = keyed.distinct.iter().map(|key| self.shelf.get(key)).collect();
        let at = DecisionTime { now, epoch: self.epoch };
        let plan = step::plan(&keyed, &records, &charges, at);
        let has_note = !plan.refused && self.notes.refuses(batch, now);
        if has_note {
            self.notes.bring_back(batch, now);
        }
        if plan.refused || has_note {
            let answer = plan.refusal(&keyed, &records, at);
            self.answers.remember(batch, Remembered::new(&answer, OpVec::new()), now);
            return Ok(Ran { answer, again: false, changed: false });
        }
        let growth: OpVec<usize> = keyed
            .distinct
            .iter()
            .enumerate()
            .map(|(key, name)| plan.growth(&keyed, key, records[key], Shelf::entry_bytes(name)))
            .collect();
        drop(records);

        self.notes.has_room(batch).inspect_err(|_| self.full += 1)?;
        let has_room = self.has_space(&keyed, &growth, now)? && self.has_room(&keyed, &growth, now)?;
        let mut slots = OpVec::new();
        for (key, growth) in keyed.distinct.iter().zip(&growth) {
            slots.push(Slot { record: self.shelf.take(key), has_room: has_room || *growth == 0 });
        }
        let were: OpVec<bool> = slots.iter().map(|slot| slot.record.is_some()).collect();
        let Done { answer, made } = step::carry_out(&keyed, &mut slots, &charges, at);
        let mut changed = !batch.notes.is_empty();
        for (at, (key, mut slot)) in keyed.distinct.iter().zip(slots).enumerate() {
            if let (Some(record), false) = (&mut slot.record, were[at]) {
                record.share_numbers(&mut self.numbers);
            }
            // Counters that were only peeked at, those refused in a batch of each, and those that
            // are still empty need not be written.
            let differs = keyed.may_change(at, &answer) && (were[at] || slot.record.is_some());
            changed |= differs;
            if has_room && differs && growth[at] > 0 {
                self.space.take(key.as_bytes(), growth_of(growth[at]));
            }
            self.shelf.put(key, slot.record, differs, now);
        }
        for operation in &batch.operations {
            if let Kind::Undo { batch } = operation.kind {
                self.answers.forget_charges(batch, &operation.key);
            }
        }
        batch.notes.iter().for_each(|change| self.notes.apply(change, now));
        if !batch.is_forgettable() {
            let made = made.into_iter().map(|(key, made)| (keyed.distinct[key].share(), made));
            self.answers.remember(batch, Remembered::new(&answer, made.collect()), now);
        }
        Ok(Ran { answer, again: false, changed })
    }

    /// The error of a check in the place of each peek, where the key has no counter yet and there
    /// is no space for one where counters are written.
    fn check_peeked_space(&self, keyed: &Keyed<'_>, now: Timestamp) -> Result<(), StoreError> {
        let only_peeks = |batch: &Batch| {
            batch.operations.iter().all(|operation| matches!(operation.kind, Kind::Peek { .. }))
        };
        let refuses = self.space.config().is_some_and(|config| config.when_full == WhenFull::Refuse);
        // Writes in flight are counted as more than they will take; a check waits until that is
        // known.
        if !refuses || self.space.is_estimated() || !only_peeks(keyed.batch) {
            return Ok(());
        }
        let has_space = |operation: &Operation| {
            let key = &operation.key;
            let growth = Record::growth(None, &operation.algorithm, 1) + Shelf::entry_bytes(key);
            self.shelf.get(key).is_some() || self.space.has_room(key.as_bytes(), growth_of(growth))
        };
        if keyed.batch.operations.iter().all(has_space) {
            return Ok(());
        }
        Err(StoreError::Full { until: self.space.room_again(now) })
    }

    /// Whether there is space where counters are written for all a batch adds.
    fn has_space(&mut self, keyed: &Keyed<'_>, growth: &[usize], now: Timestamp) -> Result<bool, StoreError> {
        // A batch is of one namespace; where it is not, each key asks for all.
        let all = growth_of(growth.iter().copied().fold(0, usize::saturating_add));
        let grows = keyed.distinct.iter().zip(growth).filter(|(_, growth)| **growth > 0);
        if all == 0 || grows.map(|(key, _)| key).all(|key| self.space.has_room(key.as_bytes(), all)) {
            return Ok(true);
        }
        let until = self.space.room_again(now);
        if self.space.is_estimated() {
            // Changes on the way count as more than they will take.
            (self.waits_for_writing, self.waits_for_space) = (true, true);
            return Err(StoreError::Full { until });
        }
        self.full += 1;
        match self.space.config().map_or(WhenFull::Refuse, |config| config.when_full) {
            WhenFull::Refuse => Err(StoreError::Full { until }),
            WhenFull::Admit => Ok(false),
        }
    }

    /// Whether there is room for all a batch adds. If not, and what has no room is refused, an
    /// error that says from when on there may be.
    fn has_room(&mut self, keyed: &Keyed<'_>, growth: &[usize], now: Timestamp) -> Result<bool, StoreError> {
        let growth = growth.iter().copied().fold(0, usize::saturating_add);
        // The counters loaded by a batch may already exceed the bound; the next batch waits until
        // they are written.
        if growth == 0 && (keyed.batch.is_read_only() || self.shelf.fits(0)) {
            return Ok(true);
        }
        match (self.shelf.make_room(growth, &keyed.distinct, now), self.config.when_full) {
            (Ok(()), _) => Ok(true),
            (Err(until), WhenFull::Refuse) => {
                self.full += 1;
                self.waits_for_writing = self.shelf.unsaved() > 0;
                Err(StoreError::Full { until })
            }
            (Err(_), WhenFull::Admit) => {
                self.full += 1;
                Ok(false)
            }
        }
    }

    /// For each operation of the batch, the charges it takes back.
    fn charges(&self, batch: &Batch) -> OpVec<OpVec<UndoEntry>> {
        let mut undone = OpVec::new();
        let mut charges = OpVec::new();
        for operation in &batch.operations {
            charges.push(match operation.kind {
                // The second undo of the same in one batch finds nothing left.
                Kind::Undo { batch } if !undone.contains(&(batch, &operation.key)) => {
                    undone.push((batch, &operation.key));
                    self.answers.charges(batch, &operation.key)
                }
                _ => OpVec::new(),
            });
        }
        charges
    }
}

/// Growth in memory as it is counted where counters are written, until it is known: a counter takes
/// no more there.
fn growth_of(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
