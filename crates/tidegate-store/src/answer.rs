//! The answer of a store to a batch.

use core::fmt;

use smallvec::SmallVec;
use tidegate_core::Timestamp;
use tidegate_core::algorithm::Verdict;
use tidegate_core::lease::Grant;

/// The outcomes of the operations of a batch: mostly one.
pub type Outcomes = SmallVec<[Outcome; 1]>;

/// The grants to the asks of a batch; mostly one.
pub type Grants = SmallVec<[Option<Grant>; 1]>;

/// The answer to a [`crate::Batch`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// One for each operation, in the same order.
    pub outcomes: Outcomes,
    /// Whether the batch was refused, so that nothing took effect: an all-or-nothing batch by one
    /// of its operations, any batch by a note that it would [create](crate::NoteChange::Create) and
    /// that is there already.
    pub refused: bool,
    /// The store's clock when it decided. All instants of the answer are on this clock.
    pub store_now: Timestamp,
    /// The grants of the ledgers: one for each [`crate::OnLedger::Ask`] of the
    /// batch, in their order. `None` for an ask that a later one of the same holder has overtaken,
    /// which nobody waits for any more, and for all of them if the batch was refused. Usually
    /// empty.
    pub grants: Grants,
}

impl Answer {
    /// An answer without grants, for stores.
    pub fn new(outcomes: Outcomes, refused: bool, store_now: Timestamp) -> Self {
        Self { outcomes, refused, store_now, grants: Grants::new() }
    }

    /// The same answer with these grants, for stores.
    #[must_use]
    pub fn with_grants(self, grants: Grants) -> Self {
        Self { grants, ..self }
    }

    /// The outcomes whose verdict is not to admit, with their position in the batch. Those of a
    /// batch that was not refused are shadow limits, peeks, or operations of a batch of each.
    pub fn violated(&self) -> impl Iterator<Item = (usize, &Outcome)> {
        let outcomes = self.outcomes.iter().enumerate();
        outcomes.filter(|(_, outcome)| outcome.verdict != Verdict::Admit)
    }
}

/// The outcome of one operation.
///
/// In a refused batch the verdict is what the operation met, and the rest is the counter as it
/// still is. Otherwise usage is as this operation left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The answer of the limit; a [block](Outcome::blocked_until) is [`Verdict::Wait`]. Always to
    /// admit for kinds that cannot be refused.
    ///
    /// Of an operation on a key that stands earlier in the batch it counts on the earlier ones,
    /// even where the refused batch did not make those.
    pub verdict: Verdict,
    /// Units this operation moved. Check and report: charged (of a report what was booked, if the
    /// debt is bounded). Refund and undo: given back. Acquire and release: 1 for a permit that
    /// changed hands, 0 for one that was only renewed or not held. Everything refused, peeked,
    /// reset or blocked: 0.
    pub units: u64,
    /// The largest number of units the limit admits at once.
    pub limit: u64,
    /// Units used, rounded up; above the limit when in debt or when the limit was lowered.
    pub used: u64,
    /// Units left of the counter, rounded down, whether or not its key is blocked; 0 when in debt.
    pub remaining: u64,
    /// The first instant at which nothing is used any more if nothing else is charged; the store's
    /// `now` if nothing is.
    pub reset_at: Timestamp,
    /// The first instant at which the key is no longer blocked, if it is.
    pub blocked_until: Option<Timestamp>,
    /// Whether the counter could count it. False only where the store is full and its configuration
    /// admits what it cannot count.
    pub counted: bool,
}

impl Outcome {
    /// Units left to the caller: none while the key is blocked.
    pub fn left(&self) -> u64 {
        if self.blocked_until.is_some() { 0 } else { self.remaining }
    }

    /// When nothing is used any more and no block lasts.
    pub fn free_at(&self) -> Timestamp {
        self.blocked_until.map_or(self.reset_at, |until| until.max(self.reset_at))
    }

    /// The outcome of a limit that never counted anything at `now`: admitted, nothing used. For
    /// stores, which then set what differs.
    pub fn unused(limit: u64, now: Timestamp) -> Self {
        Self {
            verdict: Verdict::Admit,
            units: 0,
            limit,
            used: 0,
            remaining: limit,
            reset_at: now,
            blocked_until: None,
            counted: true,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Verdict::Admit => write!(f, "admitted, {} of {} left", self.remaining, self.limit),
            Verdict::Wait { until } => {
                write!(f, "refused before {until}, {} of {} left", self.remaining, self.limit)
            }
            Verdict::Never { largest } => write!(f, "refused for good, at most {largest} at once"),
        }
    }
}
