//! The batch that a store is asked: operations on counters that belong together.

use core::time::Duration;

use smallvec::SmallVec;
use tidegate_core::lease::{Ask, Terms, TermsError};
use tidegate_core::limit::Mode;
use tidegate_core::{Algorithm, Cost, Timestamp};

use crate::{HolderId, Key, NoteChange, RequestId, StoreError};

/// The operations of a batch: mostly one.
pub type Operations = SmallVec<[Operation; 1]>;

/// Operations that a store carries out in one atomic step.
///
/// ```
/// # use tidegate_core::{Algorithm, Cost, Rate, Timestamp};
/// # use tidegate_store::{Batch, Key, Kind, MemoryConfig, MemoryStore, Operation, RequestId};
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// # let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), clock);
/// let check = |limit: &[u8], rate: &str| -> Result<Operation, Box<dyn std::error::Error>> {
///     let kind = Kind::Check { cost: Cost::new(5).unwrap() };
///     Ok(Operation::new(Key::new("api", limit, b"ada")?, Algorithm::bucket(rate.parse()?)?, kind))
/// };
/// let operations = [check(b"per-user", "10/s")?, check(b"per-export", "3/m")?];
/// let answer = store.run_now(&Batch::all_or_nothing(RequestId(1), operations))?;
/// // The second limit has no room, so the first is not charged either.
/// assert!(answer.refused);
/// assert_eq!(answer.outcomes[0].remaining, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// Its name. The same id again gives the same answer and changes nothing; see [`crate::Store`].
    pub id: RequestId,
    /// Whether the operations stand and fall together.
    pub mode: BatchMode,
    /// In the order they take effect. The same key may stand several times: each operation is
    /// decided on what those before it left. At most [`Batch::OPERATIONS_MAX`]; none is allowed and
    /// answers with the store's time.
    pub operations: Operations,
    /// Changes of notes in the same step: unless the batch is refused, all of them, in this
    /// order, after the operations. At most [`Batch::NOTES_MAX`]; usually none.
    pub notes: Vec<NoteChange>,
}

impl Batch {
    /// The most operations in one batch. More are refused whole with [`StoreError::TooLarge`].
    pub const OPERATIONS_MAX: usize = 64;

    /// The most notes that one batch changes. More are refused whole with [`StoreError::TooLarge`].
    pub const NOTES_MAX: usize = 64;

    /// A batch of which all operations take effect or none: none as soon as one that
    /// [binds](Operation::mode) is refused.
    pub fn all_or_nothing(id: RequestId, operations: impl IntoIterator<Item = Operation>) -> Self {
        Self {
            id,
            mode: BatchMode::AllOrNothing,
            operations: operations.into_iter().collect(),
            notes: Vec::new(),
        }
    }

    /// A batch of which each operation takes effect or not by itself.
    pub fn each(id: RequestId, operations: impl IntoIterator<Item = Operation>) -> Self {
        Self { id, mode: BatchMode::Each, operations: operations.into_iter().collect(), notes: Vec::new() }
    }

    /// The same batch, changing these notes as well.
    #[must_use]
    pub fn with_notes(mut self, notes: impl IntoIterator<Item = NoteChange>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// A batch under the new id `id` that takes back what `batch` charged, as far as it is still
    /// there.
    pub fn undo_of(batch: &Self, id: RequestId) -> Self {
        let mut operations = Operations::new();
        for charged in batch.operations.iter().rev().filter(|operation| operation.kind.may_charge()) {
            // One undo takes back everything the batch did to a key.
            if operations.iter().all(|undo| undo.key != charged.key) {
                let kind = Kind::Undo { batch: batch.id };
                operations.push(Operation { kind, ..charged.clone() });
            }
        }
        Self { id, mode: BatchMode::Each, operations, notes: Vec::new() }
    }

    /// Whether a store may be asked this at all: [`StoreError::TooLarge`] if there are too many
    /// operations, [`StoreError::Unsupported`] if one does not go with its algorithm. Stores call
    /// it first.
    pub fn check(&self) -> Result<(), StoreError> {
        let size = self.operations.len();
        if size > Self::OPERATIONS_MAX {
            return Err(StoreError::TooLarge {
                what: "operations in a batch",
                size,
                max: Self::OPERATIONS_MAX,
            });
        }
        let size = self.notes.len();
        if size > Self::NOTES_MAX {
            return Err(StoreError::TooLarge { what: "notes in a batch", size, max: Self::NOTES_MAX });
        }
        self.notes.iter().try_for_each(NoteChange::check)?;
        self.operations.iter().try_for_each(Operation::check)
    }

    /// Whether it is about nothing, and answers with the store's time alone.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.notes.is_empty()
    }

    /// Whether it changes nothing whatever the answer.
    pub fn is_read_only(&self) -> bool {
        self.notes.is_empty()
            && self
                .operations
                .iter()
                .all(|operation| matches!(operation.kind, Kind::Peek { .. } | Kind::Ledger(OnLedger::Look)))
    }

    /// Whether a store need not remember its id: it changes nothing, or only asks ledgers, which
    /// know an ask that is repeated by themselves.
    pub fn is_forgettable(&self) -> bool {
        self.notes.is_empty()
            && self.operations.iter().all(|operation| {
                matches!(operation.kind, Kind::Peek { .. } | Kind::Ledger(OnLedger::Look | OnLedger::Ask(_)))
            })
    }
}

/// Whether the operations of a batch stand and fall together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchMode {
    /// If one operation that binds is refused, none takes effect, whatever its kind, and every
    /// state is as before, bit for bit.
    AllOrNothing,
    /// Each operation takes effect unless it is itself refused. The batch is still one step: no
    /// other batch comes in between.
    Each,
}

/// One operation on one counter.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Algorithm, Cost, Timestamp, algorithm::Concurrency};
/// # use tidegate_store::{Batch, HolderId, Key, MemoryConfig, MemoryStore, Operation, RequestId};
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// # let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), clock);
/// let exports = Algorithm::Concurrency(Concurrency::new(1, Duration::from_secs(30))?);
/// let key = Key::new("api", b"exports", b"ada")?;
/// let first = Operation::admit(key.clone(), exports.clone(), Cost::ONE, HolderId(1));
/// let second = Operation::admit(key, exports, Cost::ONE, HolderId(2)).shadow();
/// let batch = Batch::all_or_nothing(RequestId(1), [first, second]);
/// // A shadow operation says that there is no room, and refuses nothing.
/// let answer = store.run_now(&batch)?;
/// assert!(!answer.refused);
/// assert!(answer.violated().map(|(position, _)| position).eq([1]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The counter.
    pub key: Key,
    /// How it counts, with the numbers in force for this key. When they differ from those of an
    /// earlier operation, what is used stays used, as [`Operation::carry_over`] says.
    ///
    /// A key belongs to one algorithm: it is part of the identity the key is made of. Another
    /// algorithm under the same key finds it empty, and takes it over when it charges.
    pub algorithm: Algorithm,
    /// How long a lease lasts, of an operation on a ledger; from [`Terms::PERIOD_MIN`] to
    /// [`Terms::PERIOD_MAX`]. Members may ask with different ones, as during a reload of a fleet:
    /// each ask is answered by its own, and leases on record end when they were to end.
    pub lease_period: Duration,
    /// The usage of a bucket that is kept when `algorithm` has other numbers than before.
    pub carry_over: CarryOver,
    /// The action on the counter.
    pub kind: Kind,
    /// [`Mode::Enforce`]: refused, it refuses an all-or-nothing batch. [`Mode::Shadow`]: it is charged if there is
    /// room, says so if not, and refuses nothing.
    pub mode: Mode,
}

impl Operation {
    /// An operation that binds. Leases last for [`Terms::PERIOD`].
    pub fn new(key: Key, algorithm: Algorithm, kind: Kind) -> Self {
        let carry_over = CarryOver::Units;
        Self { key, algorithm, lease_period: Terms::PERIOD, carry_over, kind, mode: Mode::Enforce }
    }

    /// The same operation, by which a bucket of other numbers is full again when it would have
    /// been.
    #[must_use]
    pub fn keeping_instant(self) -> Self {
        Self { carry_over: CarryOver::Instant, ..self }
    }

    /// The same operation, with leases of `period`.
    #[must_use]
    pub fn with_lease_period(self, period: Duration) -> Self {
        Self { lease_period: period, ..self }
    }

    /// The terms of an operation on a ledger at `now`, the store's time.
    pub fn terms(&self, now: Timestamp) -> Result<Terms, TermsError> {
        Terms::for_period(&self.algorithm, self.lease_period, now)
    }

    /// The operation by which a request asks to be admitted: [`Kind::Acquire`] for a concurrency
    /// limit, which takes one permit whatever the cost, and [`Kind::Check`] for any other.
    pub fn admit(key: Key, algorithm: Algorithm, cost: Cost, holder: HolderId) -> Self {
        let kind = match algorithm {
            Algorithm::Concurrency(_) => Kind::Acquire { holder },
            _ => Kind::Check { cost },
        };
        Self::new(key, algorithm, kind)
    }

    /// The same operation, refusing nothing.
    #[must_use]
    pub fn shadow(self) -> Self {
        Self { mode: Mode::Shadow, ..self }
    }

    fn check(&self) -> Result<(), StoreError> {
        let permits = matches!(self.algorithm, Algorithm::Concurrency(_));
        let what = match self.kind {
            Kind::Check { .. } | Kind::Report { .. } | Kind::Refund { .. } if permits => {
                "check, report or refund of a concurrency limit; acquire and release its permits"
            }
            Kind::Acquire { .. } | Kind::Release { .. } if !permits => {
                "permits of a limit that is not a concurrency limit; check and refund it"
            }
            Kind::Ledger(_) => match self.terms(Timestamp::MIN) {
                Ok(_) => return Ok(()),
                Err(error) => return Err(StoreError::Unsupported { what: error.to_string() }),
            },
            _ => return Ok(()),
        };
        Err(StoreError::Unsupported { what: what.to_owned() })
    }
}

/// The usage of a bucket that is kept when it is counted by other numbers.
///
/// Other algorithms have nothing to choose: they keep what
/// [`tidegate_core::algorithm::Counter::carry_over`] keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CarryOver {
    /// The used units, as for a limit of a policy whose numbers change.
    #[default]
    Units,
    /// The instant at which the bucket is full again, as for a limit that arrives with the request
    /// ([`tidegate_core::CarriedLimit`]). An undo takes back the time by which a charge moved it.
    Instant,
}

/// An action on a counter. Every store carries out every kind: a new one is a breaking change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Charge `cost` if there is room. Not for concurrency limits.
    Check {
        /// The weight of the request.
        cost: Cost,
    },
    /// Reports the answer of [`Kind::Check`] (or, for a concurrency limit, of [`Kind::Acquire`] by
    /// a new holder) without a charge. Changes nothing and refuses nothing: its verdict does not
    /// refuse the batch.
    Peek {
        /// The cost that would be charged; a concurrency limit ignores it.
        cost: Cost,
    },
    /// Charge `cost` whether or not there is room or a block, as for work already done. Never
    /// refused; the debt is bounded by [`tidegate_core::algorithm::REPORT_DEBT_LIMITS`], for
    /// rolling limits by [`tidegate_core::ring::RING_DEBT_LIMITS`]. Not for concurrency limits.
    Report {
        /// The cost that was used.
        cost: Cost,
    },
    /// Give `cost` back, never more than is used; of a rolling limit the newest units. Not for
    /// concurrency limits.
    Refund {
        /// The cost to give back.
        cost: Cost,
    },
    /// Take back what an earlier batch charged to this key by check, report or acquire, all of it
    /// that has not yet drained. Nothing if that batch is not known (it never arrived, was refused,
    /// or is forgotten), was already undone, or if the key was reset since: the answer says how
    /// much. Refunds, resets, releases and blocks stay.
    Undo {
        /// The batch.
        batch: RequestId,
    },
    /// Take one permit of a concurrency limit if one is free, and hold it until [`Kind::Release`]
    /// or until it expires. A holder that has one keeps that one and its expiry starts anew.
    Acquire {
        /// The holder of the permit.
        holder: HolderId,
    },
    /// Give a permit back; nothing if the holder has none (any more).
    Release {
        /// The former holder of the permit.
        holder: HolderId,
    },
    /// Forget everything used, and lift a block.
    Reset,
    /// Refuse every check and acquire of the key before `until`, an instant of the store's clock.
    /// Used units go on draining. An instant that has passed lifts the block; the latest block
    /// counts, even if it ends earlier.
    Block {
        /// The first instant at which it is no longer blocked.
        until: Timestamp,
    },
    /// Something about the [`tidegate_core::lease::Ledger`] of a key, which lends the limit to
    /// members. Only for algorithms that can be leased ([`Terms::from_algorithm`]), and only on
    /// keys that no other kind is ever used on: a ledger and a counter under one key are two
    /// things, and the one that is used replaces the other.
    Ledger(OnLedger),
}

/// An action on the ledger of a key.
///
/// Never refused and never blocked, and an [`Kind::Undo`] does not take it back. `units` of the
/// outcome is what was granted, booked or given back; `used` counts what members still have in hand
/// as used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnLedger {
    /// A holder asks. [`crate::Answer::grants`] has the grant; the verdict is always
    /// to admit.
    Ask(Ask),
    /// Reports the used units and changes nothing.
    Look,
    /// Charge `cost` whether or not there is room, as for work already done; see
    /// [`tidegate_core::lease::Ledger::report`].
    Report {
        /// The cost that was used.
        cost: Cost,
    },
    /// Give `cost` back; see [`tidegate_core::lease::Ledger::refund`].
    Refund {
        /// The cost to give back.
        cost: Cost,
    },
    /// Forget what is used, but for what members have in hand; see
    /// [`tidegate_core::lease::Ledger::reset`].
    Reset,
}

impl Kind {
    /// The ask of a holder, if this is one.
    pub const fn ask(self) -> Option<Ask> {
        match self {
            Self::Ledger(OnLedger::Ask(ask)) => Some(ask),
            _ => None,
        }
    }

    /// Whether it may leave a charge that an [`Kind::Undo`] takes back.
    pub const fn may_charge(self) -> bool {
        matches!(self, Self::Check { .. } | Self::Report { .. } | Self::Acquire { .. })
    }
}
