//! What a store does with a batch, apart from where it is kept and what makes it atomic: pure, and the same for every
//! store that decides in this process.

mod answers;
mod notes;
mod shelf;

use tidegate::{Algorithm, Timestamp, WhenFull};

use self::answers::{Answers, Remembered};
use self::notes::{Notes, Room};
use self::shelf::Shelf;
use crate::record::{Made, Record};
use crate::step::{self, Done, Few, Keyed, Slot};
use crate::{Answer, Batch, Kind, MemoryConfig, MemoryStats, Note, NoteKind, StoreError};

/// Counters, notes and answers in memory. Its owner brings the time and sees that one batch runs at a time.
#[derive(Debug)]
pub struct Keeper {
    config: MemoryConfig,
    shelf: Shelf,
    notes: Notes,
    answers: Answers,
    /// The latest instant ever seen: before it, the clock has stepped back.
    latest: Timestamp,
    full: u64,
}

impl Keeper {
    /// An empty keeper.
    pub fn new(config: MemoryConfig) -> Self {
        let config = MemoryConfig { bytes: config.bytes.max(MemoryConfig::BYTES_MIN), ..config };
        Self {
            shelf: Shelf::new(config.bytes, config.seed),
            notes: Notes::new(Room { notes: config.notes, bytes: config.note_bytes }, false),
            answers: Answers::new(config.answers, config.answers_kept, config.seed),
            latest: Timestamp::MIN,
            full: 0,
            config,
        }
    }

    /// Whether it can decide `algorithm`.
    pub fn supports(algorithm: &Algorithm) -> bool {
        Record::supports(algorithm)
    }

    /// What it holds now.
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

    /// All notes of a kind that have not expired at `now`, in the order of their names.
    pub fn notes(&self, kind: NoteKind, now: Timestamp) -> Vec<Note> {
        self.notes.of_kind(kind, now)
    }

    /// Every counter and note with everything known about it, in the order of their keys. For tests: two dumps are
    /// equal if and only if nothing has changed.
    #[cfg(any(test, feature = "conformance"))]
    pub fn dump(&self) -> String {
        self.shelf.dump() + &self.notes.dump()
    }

    /// Carries out one batch at `now`.
    ///
    /// [`StoreError::Full`] says from when on there may be room.
    pub fn run(&mut self, batch: &Batch, now: Timestamp) -> Result<Answer, StoreError> {
        batch.check()?;
        if let Some(operation) =
            batch.operations.iter().find(|operation| !Self::supports(&operation.algorithm))
        {
            return Err(StoreError::Unsupported { what: format!("{} limits", operation.algorithm.name()) });
        }
        self.notes.forget_expired(now);
        self.answers.forget_old(now);
        if let Some(answer) = self.answers.recall(batch)? {
            return Ok(answer);
        }
        let keyed = Keyed::new(batch);
        if now < self.latest {
            // Before the decision and whatever it is: a refused batch could not bring a state back.
            keyed.distinct.iter().for_each(|key| self.shelf.on_load(key, now));
        }
        self.latest = self.latest.max(now);

        let charges = self.charges(batch);
        let records: Few<_> = keyed.distinct.iter().map(|key| self.shelf.get(key)).collect();
        let plan = step::plan(&keyed, &records, &charges, now);
        if plan.refused {
            let answer = plan.refusal(&keyed, &records, now);
            self.answers.remember(batch, Remembered::new(&answer, Few::new()), now);
            return Ok(answer);
        }
        let growth: Few<usize> = keyed
            .distinct
            .iter()
            .enumerate()
            .map(|(key, name)| plan.growth(&keyed, key, records[key], Shelf::entry_bytes(name)))
            .collect();
        drop(records);

        self.notes.has_room(batch).inspect_err(|_| self.full += 1)?;
        let has_room = self.has_room(&keyed, &growth, now)?;
        let mut slots = Few::new();
        for (key, growth) in keyed.distinct.iter().zip(&growth) {
            slots.push(Slot { record: self.shelf.take(key), has_room: has_room || *growth == 0 });
        }
        let Done { answer, made } = step::carry_out(&keyed, &mut slots, &charges, now);
        for (key, slot) in keyed.distinct.iter().zip(slots) {
            self.shelf.put(key, slot.record, now);
        }
        for operation in &batch.operations {
            if let Kind::Undo { batch } = operation.kind {
                self.answers.forget_charges(batch, &operation.key);
            }
        }
        batch.notes.iter().for_each(|change| self.notes.apply(change, now));
        if !batch.is_read_only() {
            let made = made.into_iter().map(|(key, made)| (keyed.distinct[key].as_bytes().into(), made));
            self.answers.remember(batch, Remembered::new(&answer, made.collect()), now);
        }
        Ok(answer)
    }

    /// Whether there is room for all a batch adds. If not, and what has no room is refused, an error that says from when
    /// on there may be.
    fn has_room(&mut self, keyed: &Keyed<'_>, growth: &[usize], now: Timestamp) -> Result<bool, StoreError> {
        let growth = growth.iter().copied().fold(0, usize::saturating_add);
        if growth == 0 {
            return Ok(true);
        }
        match (self.shelf.make_room(growth, &keyed.distinct, now), self.config.when_full) {
            (Ok(()), _) => Ok(true),
            (Err(until), WhenFull::Refuse) => {
                self.full += 1;
                Err(StoreError::Full { until })
            }
            (Err(_), WhenFull::Admit) => {
                self.full += 1;
                Ok(false)
            }
        }
    }

    /// For each operation of the batch, the charges it takes back.
    fn charges(&self, batch: &Batch) -> Few<Few<Made>> {
        let mut undone = Few::new();
        let mut charges = Few::new();
        for operation in &batch.operations {
            charges.push(match operation.kind {
                // The second undo of the same in one batch finds nothing left.
                Kind::Undo { batch } if !undone.contains(&(batch, &operation.key)) => {
                    undone.push((batch, &operation.key));
                    self.answers.charges(batch, &operation.key)
                }
                _ => Few::new(),
            });
        }
        charges
    }
}
