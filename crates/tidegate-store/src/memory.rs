//! The store in memory: the reference all others are measured against, and the store of a single member.
//!
//! One lock around read, decide, write. Batches never wait for anything else, so its futures are ready when they are
//! first polled and any executor runs them.

mod answers;
mod shelf;

#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::{Algorithm, Timestamp, WhenFull};

use self::answers::{Answers, Remembered};
use self::shelf::Shelf;
use crate::record::{Made, Record};
use crate::step::{self, Done, Few, Keyed, Slot};
use crate::{Answer, Batch, Kind, Store, StoreError};

/// The bounds of a [`MemoryStore`].
#[derive(Clone, Copy, Debug)]
pub struct MemoryConfig {
    /// Bytes for all counters, with their keys and what it takes to find them. Default 64 MiB; less than
    /// [`MemoryConfig::BYTES_MIN`] counts as that.
    pub bytes: usize,
    /// What happens to a charge that needs room when there is none: [`WhenFull::Refuse`] (default) answers the whole
    /// batch with [`StoreError::Full`], [`WhenFull::Admit`] admits it [uncounted](crate::Outcome::counted). Counters that
    /// have room go on counting either way, and drained ones make room.
    pub when_full: WhenFull,
    /// How many operations of answered batches are remembered, so that a batch sent again is not carried out again and a
    /// batch can be undone. Default 65 536, about 16 MiB. When they are all in use the oldest batch is forgotten; 0 and
    /// batches of more operations than this remember nothing.
    pub answers: usize,
    /// How long an answered batch is remembered at most. Default 10 minutes.
    pub answers_kept: Duration,
    /// Where keys and ids fall in the tables. Draw it at random, so that nobody can choose keys that collide.
    pub seed: [u64; 4],
}

impl MemoryConfig {
    /// The smallest number of bytes: room for one batch of the longest keys.
    pub const BYTES_MIN: usize = 256 << 10;

    /// The defaults with this seed.
    pub fn new(seed: [u64; 4]) -> Self {
        Self {
            bytes: 64 << 20,
            when_full: WhenFull::Refuse,
            answers: 1 << 16,
            answers_kept: Duration::from_mins(10),
            seed,
        }
    }
}

/// What a [`MemoryStore`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStats {
    /// Counters, drained ones included.
    pub keys: usize,
    /// Bytes they take, at most [`MemoryConfig::bytes`].
    pub bytes_used: usize,
    /// Operations of answered batches that are remembered, at most [`MemoryConfig::answers`].
    pub answers: usize,
    /// How many batches have met a full store since it was made.
    pub full: u64,
}

/// Counters in memory. The example of the [crate] uses one.
pub struct MemoryStore {
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    config: MemoryConfig,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    shelf: Shelf,
    answers: Answers,
    /// The latest instant ever seen: before it, the clock has stepped back.
    latest: Timestamp,
    full: u64,
}

impl MemoryStore {
    /// An empty store that reads the time from `clock`.
    ///
    /// The clock is read once a batch, under the store's lock: it must not call the store.
    pub fn new(config: MemoryConfig, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let config = MemoryConfig { bytes: config.bytes.max(MemoryConfig::BYTES_MIN), ..config };
        let held = Held {
            shelf: Shelf::new(config.bytes, config.seed),
            answers: Answers::new(config.answers, config.answers_kept, config.seed),
            latest: Timestamp::MIN,
            full: 0,
        };
        Self { clock: Box::new(clock), config, held: Mutex::new(held) }
    }

    /// [`Store::run`], which for this store takes no waiting.
    pub fn run_now(&self, batch: &Batch) -> Result<Answer, StoreError> {
        batch.check()?;
        if let Some(operation) =
            batch.operations.iter().find(|operation| !self.supports(&operation.algorithm))
        {
            return Err(StoreError::Unsupported { what: format!("{} limits", operation.algorithm.name()) });
        }
        let mut held = self.held();
        let now = (self.clock)();
        held.run(batch, self.config.when_full, now)
    }

    /// What it holds now.
    pub fn stats(&self) -> MemoryStats {
        let held = self.held();
        MemoryStats {
            keys: held.shelf.len(),
            bytes_used: held.shelf.bytes_used(),
            answers: held.answers.len(),
            full: held.full,
        }
    }

    /// Every counter with everything known about it, in the order of their keys. For tests: two dumps are equal if and
    /// only if no counter has changed.
    #[cfg(any(test, feature = "conformance"))]
    pub fn dump(&self) -> String {
        self.held().shelf.dump()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing in a batch panics once it has begun to change counters.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    async fn run(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.run_now(batch)
    }

    fn supports(&self, algorithm: &Algorithm) -> bool {
        Record::supports(algorithm)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("config", &self.config)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Held {
    fn run(&mut self, batch: &Batch, when_full: WhenFull, now: Timestamp) -> Result<Answer, StoreError> {
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

        let has_room = self.has_room(&keyed, &growth, when_full, now)?;
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
        if !batch.is_read_only() {
            let made = made.into_iter().map(|(key, made)| (keyed.distinct[key].as_bytes().into(), made));
            self.answers.remember(batch, Remembered::new(&answer, made.collect()), now);
        }
        Ok(answer)
    }

    /// Whether there is room for all a batch adds. If not, and what has no room is refused, an error that says from when
    /// on there may be.
    fn has_room(
        &mut self,
        keyed: &Keyed<'_>,
        growth: &[usize],
        when_full: WhenFull,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let growth = growth.iter().copied().fold(0, usize::saturating_add);
        if growth == 0 {
            return Ok(true);
        }
        match (self.shelf.make_room(growth, &keyed.distinct, now), when_full) {
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
