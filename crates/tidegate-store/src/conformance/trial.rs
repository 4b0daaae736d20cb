//! One case on one store: asking it, moving its clock, and saying what was seen.

use core::cell::Cell;
use core::fmt;
use core::time::Duration;

use tidegate_core::algorithm::{
    Bucket, Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, Verdict, WindowStart,
};
use tidegate_core::{Algorithm, Cost, Rate, Timestamp};

use super::harness::{Capabilities, ConformanceStore};
use super::random::Random;
use crate::{
    Answer, Batch, HolderId, Key, Kind, Note, NoteKind, Operation, Outcome, Outcomes, RequestId, Store,
    StoreError,
};

/// How a case ends.
pub type Passed = Result<(), Stopped>;

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The store cannot be asked this.
    Skipped(String),
    /// The store did something else than it should.
    Failed(String),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Failed(format!("the store answered: {error}"))
    }
}

/// Ends the case as failed unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($seen:tt)+) => {
        if !$holds {
            return Err($crate::conformance::Stopped::Failed(format!($($seen)+)));
        }
    };
}
pub(super) use ensure;

/// Units of every limit of [`Trial::algorithms`].
pub(super) const LIMIT: u64 = 10;
/// How long each of them counts over, or takes to refill.
pub(super) const WINDOW: Duration = Duration::from_mins(1);
/// When cases begin: a whole number of minutes, hours and days; some time in 2027.
pub(super) const START: Timestamp = Timestamp::from_secs(20_840 * 86_400);

/// A store and its clock.
pub struct Trial<'h, H: ConformanceStore> {
    pub(super) harness: &'h H,
    pub(super) store: H::Store,
    pub(super) can: Capabilities,
    ids: Cell<u128>,
    now: Cell<Timestamp>,
}

impl<H: ConformanceStore> fmt::Debug for Trial<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'h, H: ConformanceStore> Trial<'h, H> {
    /// An empty store at the start of time.
    pub fn new(harness: &'h H) -> Self {
        harness.set_now(START);
        Self::with_store(harness, harness.open())
    }

    pub(super) fn with_store(harness: &'h H, store: H::Store) -> Self {
        // Ids begin somewhere in the middle, so that both halves of them matter.
        let ids = Cell::new(0x5469_6465_6761_7465_0000_0000_0000_0000);
        Self { harness, store, can: harness.capabilities(), ids, now: Cell::new(START) }
    }

    /// The same store after a restart, if it keeps anything.
    pub(super) fn reopened(self) -> Result<Self, Stopped> {
        let Self { harness, store, can, ids, now } = self;
        let store = harness.reopen(store);
        let store =
            store.ok_or_else(|| Stopped::Skipped("the store forgets when it is closed".to_owned()))?;
        Ok(Self { harness, store, can, ids, now })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now.get()
    }

    pub(super) fn set_now(&self, now: Timestamp) {
        self.now.set(now);
        self.harness.set_now(now);
    }

    pub(super) fn advance(&self, by: Duration) {
        self.set_now(self.now().saturating_add(by));
    }

    pub(super) fn id(&self) -> RequestId {
        self.ids.set(self.ids.get() + 1);
        RequestId(self.ids.get())
    }

    pub(super) fn holder(&self) -> HolderId {
        HolderId(self.id().0 << 1 | 1)
    }

    pub(super) fn random(&self) -> Random {
        Random::new(self.can.seed)
    }

    /// Ends the case unless the store remembers batches.
    pub(super) fn needs_answers(&self, how_many: usize) -> Passed {
        if self.can.answers < how_many {
            return Err(Stopped::Skipped(format!("it does not remember {how_many} batches")));
        }
        Ok(())
    }

    /// Ends the case unless the store supports `algorithm`.
    pub(super) fn needs(&self, algorithm: &Algorithm) -> Passed {
        if !self.store.supports(algorithm) {
            return Err(Stopped::Skipped(format!("it does not support {} limits", algorithm.name())));
        }
        Ok(())
    }

    pub(super) fn ask(&self, batch: &Batch) -> Result<Answer, StoreError> {
        self.harness.block_on(self.store.run(batch))
    }

    pub(super) fn notes(&self, kind: NoteKind) -> Result<Vec<Note>, Stopped> {
        Ok(self.harness.block_on(self.store.notes(kind))?)
    }

    pub(super) fn run(&self, batch: &Batch) -> Result<Answer, Stopped> {
        let answer = self.ask(batch)?;
        let (asked, answered) = (batch.operations.len(), answer.outcomes.len());
        ensure!(asked == answered, "{asked} operations were answered by {answered} outcomes");
        Ok(answer)
    }

    /// Runs these operations as all or nothing.
    pub(super) fn all(&self, operations: impl IntoIterator<Item = Operation>) -> Result<Answer, Stopped> {
        self.run(&Batch::all_or_nothing(self.id(), operations))
    }

    /// Runs one operation by itself.
    pub(super) fn one(&self, operation: Operation) -> Result<Outcome, Stopped> {
        Ok(self.all([operation])?.outcomes[0])
    }

    pub(super) fn peek(&self, on: &Operation) -> Result<Outcome, Stopped> {
        self.one(Operation { kind: Kind::Peek { cost: Cost::ONE }, ..on.clone() })
    }

    /// The used and remaining units of these counters.
    pub(super) fn usage(&self, of: &[Operation]) -> Result<Outcomes, Stopped> {
        of.iter().map(|on| self.peek(on)).collect()
    }

    /// An operation that asks for one unit, or one permit.
    pub(super) fn admit(&self, key: &Key, algorithm: &Algorithm) -> Operation {
        Operation::admit(key.clone(), algorithm.clone(), Cost::ONE, self.holder())
    }

    /// Has `count` units charged one by one.
    pub(super) fn spend(&self, key: &Key, algorithm: &Algorithm, count: u64) -> Passed {
        for spent in 0..count {
            let outcome = self.one(self.admit(key, algorithm))?;
            ensure!(
                outcome.verdict == Verdict::Admit,
                "{} of {count} units of {} were admitted, then: {outcome}",
                spent,
                algorithm.name()
            );
        }
        Ok(())
    }

    /// One of each algorithm the store supports, of [`LIMIT`] units in a [`WINDOW`].
    pub(super) fn algorithms(&self) -> Vec<Algorithm> {
        every_algorithm(LIMIT).into_iter().filter(|algorithm| self.store.supports(algorithm)).collect()
    }

    /// The same without concurrency limits, which count permits rather than units.
    pub(super) fn unit_algorithms(&self) -> Vec<Algorithm> {
        let algorithms = self.algorithms().into_iter();
        algorithms.filter(|algorithm| !matches!(algorithm, Algorithm::Concurrency(_))).collect()
    }

    /// `instant` as this store tells it: rounded up to a step of its clock.
    pub(super) fn told(&self, instant: Timestamp) -> Timestamp {
        let step = self.step();
        Timestamp::from_nanos(instant.as_nanos().div_ceil(step).saturating_mul(step))
    }

    /// One step of the store's clock in nanoseconds.
    pub(super) fn step(&self) -> u64 {
        (self.can.resolution.as_nanos() as u64).clamp(1, 1_000_000)
    }
}

/// One of each algorithm, of `limit` units in a [`WINDOW`].
pub(super) fn every_algorithm(limit: u64) -> Vec<Algorithm> {
    let rate = Rate::new(limit, WINDOW).expect("a few units a minute are a rate");
    vec![
        Algorithm::Bucket(Bucket::new(rate, limit).expect("a minute to refill is not too long")),
        Algorithm::Fixed(Fixed::new(limit, WINDOW, WindowStart::Epoch).expect("a minute is a window")),
        Algorithm::Calendar(Calendar::new(limit, CivilUnit::Minute, "UTC").expect("UTC is a zone")),
        Algorithm::SlidingCounter(SlidingCounter::new(limit, WINDOW).expect("a minute is a window")),
        Algorithm::Rolling(Rolling::new(limit, WINDOW).expect("a minute is a window")),
        Algorithm::Concurrency(Concurrency::new(limit, WINDOW).expect("a minute is a hold")),
    ]
}

/// A key for cases in which it does not matter.
pub(super) fn key(name: &str) -> Key {
    Key::new("conformance", b"limit", name.as_bytes()).expect("short")
}

pub(super) fn cost(units: u64) -> Cost {
    Cost::new(units).expect("not zero")
}
