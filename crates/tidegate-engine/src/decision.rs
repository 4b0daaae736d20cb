//! What the engine answers, and what an admitted request holds.

use core::time::Duration;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate::gate::CounterPlace;
use tidegate::limit::OnStoreFailure;
use tidegate::{Gate, Refusal, Timestamp};
use tidegate_capacity::UnitsHold;
use tidegate_overload::{InFlightPermit, Overload};
use tidegate_store::{Answer, Batch, Kind, StoreError};

use crate::engine::LimitReport;
use crate::leases::{Landing, LeaseCharge};
use crate::together::Waiting;

/// What the caller has to do next.
#[derive(Debug)]
#[must_use = "an undecided request holds its charges"]
#[expect(
    clippy::large_enum_variant,
    reason = "most steps are decisions, and a box for each would cost more than the move"
)]
pub enum Step {
    /// Answer the request.
    Decided(Decision),
    /// Bring what [`Pending::wants`] and hand it to `Engine::resume`.
    Ask(Pending),
}

/// The answer of the engine.
#[derive(Debug)]
#[must_use = "a permit gives back what it holds when it is dropped"]
pub enum Decision {
    /// The request may go ahead.
    Admit(Permit),
    /// It may not, and this is why.
    Refuse(Refusal<'static>),
}

/// How the work of an admitted request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was done.
    Succeeded,
    /// It was tried and failed; what was spent stays spent.
    Failed,
    /// It was never started: everything is given back as if the request had not come.
    Cancelled,
    /// It was done and cost this much, in units of the limits.
    Cost(u64),
}

/// What settling a permit leaves to do.
#[derive(Debug, Default)]
#[must_use = "the store must hear of what was given back"]
pub struct Settled {
    /// A batch for the store; its answer changes nothing any more.
    pub batch: Option<Box<Batch>>,
}

/// Everything an admitted request holds, until it is settled, expires or is dropped.
///
/// Dropping it gives back what is lent (permits of concurrency limits, the place in flight). What
/// was spent stays spent.
#[derive(Debug)]
#[must_use = "dropping a permit gives back what it lends"]
pub struct Permit {
    pub(crate) home: Home,
    pub(crate) limits: tidegate::Permit,
    /// What was taken from leases.
    pub(crate) leased: SmallVec<[LeaseCharge; 1]>,
    pub(crate) units: Option<UnitsHold>,
    /// The exact limits charged in the store, with what they had left.
    pub(crate) remote: Option<Box<Remote>>,
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) longest_hold: Option<Duration>,
    /// Whether a leased limit was decided here by this member's share of it.
    pub(crate) is_alone: bool,
}

/// The gate that gave a permit: where it stands in an engine of that generation. Only names are
/// looked up there; what a permit holds is given back without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) namespace: u32,
    pub(crate) generation: u32,
}

impl Permit {
    /// When the request was admitted.
    pub fn admitted_at(&self) -> Timestamp {
        self.limits.admitted_at()
    }

    /// Whether one of its limits was decided by this member alone, by its share of the limit, as
    /// the store was silent.
    pub fn is_alone(&self) -> bool {
        self.is_alone || self.remote.as_ref().is_some_and(|remote| remote.fallback.is_some())
    }

    /// Whether something is lent that somebody should give back when the work is done.
    pub fn must_be_settled(&self) -> bool {
        let lends = self.remote.as_ref().is_some_and(|remote| remote.lends());
        self.limits.must_be_settled() || lends || self.in_flight.is_some()
    }

    /// When everything that is lent has expired by itself; `None` if nothing is lent or it does not
    /// expire.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.longest_hold.map(|hold| self.admitted_at().saturating_add(hold))
    }
}

/// Charges to exact limits.
#[derive(Debug)]
pub(crate) struct Remote {
    /// What the store charged: operations that were admitted and counted, under the id they were
    /// sent with. `None` while the store is away.
    pub(crate) batch: Option<Batch>,
    /// Which of its operations are on keys that a request beside it has charged in the same batch:
    /// bit by bit, the first operation the lowest. An undo of the batch would take back what both
    /// have charged there.
    pub(crate) shared: u64,
    /// What was charged here instead, while the store is away.
    pub(crate) fallback: Option<tidegate::Permit>,
    pub(crate) reports: Vec<LimitReport>,
}

impl Remote {
    /// Whether something is lent that somebody should give back.
    pub(crate) fn lends(&self) -> bool {
        let mut operations = self.batch.iter().flat_map(|batch| &batch.operations);
        operations.any(|one| matches!(one.kind, Kind::Acquire { .. }))
            || self.fallback.as_ref().is_some_and(tidegate::Permit::must_be_settled)
    }
}

/// A place in flight, given back by dropping.
#[derive(Debug)]
pub(crate) struct InFlight {
    overload: Arc<Overload>,
    permit: Option<InFlightPermit>,
}

impl InFlight {
    pub(crate) fn new(overload: &Arc<Overload>, permit: InFlightPermit) -> Self {
        Self { overload: Arc::clone(overload), permit: Some(permit) }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            self.overload.give_back(permit);
        }
    }
}

/// A request that waits, for the store or for a lease. Dropping one that waits for the store leaves
/// its local charges as they are, as if the answer were lost; one that waits for a lease holds
/// nothing.
///
/// It is resumed by the engine that began it, or by one of a later configuration.
#[derive(Debug)]
#[must_use = "an undecided request holds its charges"]
pub struct Pending(pub(crate) Waiting);

impl Pending {
    /// What it waits for.
    pub fn wants(&self) -> Wants<'_> {
        self.0.wants()
    }

    /// What to ask the store, if it waits for that.
    pub fn batch(&self) -> Option<&Batch> {
        self.0.wants().batch()
    }
}

/// What an undecided request waits for.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing happens unless it is brought"]
pub enum Wants<'a> {
    /// The answer of the store to this batch. It goes on with [`Answered::Store`].
    Store(&'a Batch),
    /// The end of asks that are under way, which whoever drives the engine brings about; see
    /// `Engine::poll_lease_asks`. It goes on with [`Answered::Lease`].
    Lease(Landing<'a>),
}

impl<'a> Wants<'a> {
    /// Brings it: `ask` carries a batch to the store, and what leases ask is waited for.
    pub async fn bring<F>(self, ask: impl FnOnce(&'a Batch) -> F) -> Answered
    where
        F: Future<Output = Result<Answer, StoreError>>,
    {
        match self {
            Self::Store(batch) => Answered::Store(ask(batch).await),
            Self::Lease(landing) => {
                landing.await;
                Answered::Lease
            }
        }
    }

    pub(crate) fn batch(self) -> Option<&'a Batch> {
        match self {
            Self::Store(batch) => Some(batch),
            Self::Lease(_) => None,
        }
    }
}

/// What an undecided request goes on with.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed over at once, and most answers are the store's")]
pub enum Answered {
    /// The store has answered, or failed to.
    Store(Result<Answer, StoreError>),
    /// The asks it waited for have landed.
    Lease,
}

impl From<Result<Answer, StoreError>> for Answered {
    fn from(answer: Result<Answer, StoreError>) -> Self {
        Self::Store(answer)
    }
}

/// What the rest of the order needs to know of a request.
#[derive(Clone, Debug)]
pub(crate) struct AfterStore {
    pub(crate) gate: Arc<Gate>,
    pub(crate) class: tidegate::Class,
    pub(crate) tenant: Option<Box<str>>,
    pub(crate) cost: tidegate::Cost,
    pub(crate) offered_at: Timestamp,
}

/// A limit that the store was asked about, in the order of the batch.
#[derive(Clone, Debug)]
pub(crate) struct ExactName {
    pub(crate) name: String,
    pub(crate) limit: u64,
    pub(crate) window: Option<Duration>,
    pub(crate) civil_zone: Option<String>,
    pub(crate) reason: tidegate::Reason,
    pub(crate) is_shadow: bool,
    pub(crate) scope: Vec<(String, String)>,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) block_on_exceed: Option<Duration>,
    pub(crate) place: CounterPlace,
    /// Of a concurrency limit: after which time a permit expires.
    pub(crate) hold: Option<Duration>,
    /// What there is to know if it is leased.
    pub(crate) lease: Option<Box<LeaseName>>,
}

/// What there is to know of a leased limit that the store was asked about.
#[derive(Clone, Debug)]
pub(crate) struct LeaseName {
    /// The fingerprint of the key.
    pub(crate) key: u64,
    pub(crate) algorithm: tidegate::Algorithm,
    pub(crate) blocked_until: Option<Timestamp>,
}
