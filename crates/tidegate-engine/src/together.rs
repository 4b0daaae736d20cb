//! Several requests that go ahead together or not at all: what the engine answers, and what they
//! hold.

use core::ops::Range;
use core::slice;
use std::vec;

use smallvec::SmallVec;
use tidegate::Refusal;
use tidegate_store::{Batch, Operation, RequestId};

use crate::decision::{AfterStore, ExactName, Permit, Wants};
use crate::engine::EngineError;
use crate::leases::{Flights, Landing};
use crate::request::OwnedRequest;

/// What the caller of [`crate::Engine::admit_all`] has to do next.
#[derive(Debug)]
#[must_use = "undecided requests hold their charges"]
#[expect(clippy::large_enum_variant, reason = "a box for each decision would cost more than the move")]
pub enum StepAll {
    /// Answer the requests.
    Decided(DecisionAll),
    /// Bring what [`PendingAll::wants`] and hand it to [`crate::Engine::resume_all`].
    Ask(PendingAll),
}

/// The answer of the engine to several requests.
#[derive(Debug)]
#[must_use = "permits give back what they hold when they are dropped"]
#[expect(clippy::large_enum_variant, reason = "a box for each admission would cost more than the move")]
pub enum DecisionAll {
    /// All may go ahead.
    Admit(Permits),
    /// None may, and nothing stays charged. For each request, in their order, why it was refused;
    /// `None` for those that were not asked or would have been admitted. At least one was refused.
    Refuse(Vec<Option<Refusal<'static>>>),
}

/// What requests hold that were admitted together: a permit for each, in their order.
///
/// Settle them together with [`crate::Engine::settle_all`], or take them apart and settle each by
/// itself. Dropping them drops each.
#[derive(Debug)]
#[must_use = "dropping permits gives back what they lend"]
pub struct Permits(pub(crate) SmallVec<[Permit; 1]>);

impl Permits {
    /// How many there are: as many as there were requests.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there were no requests.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The permits in the order of the requests.
    pub fn iter(&self) -> slice::Iter<'_, Permit> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Permits {
    type Item = &'a Permit;
    type IntoIter = slice::Iter<'a, Permit>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for Permits {
    type Item = Permit;
    type IntoIter = smallvec::IntoIter<[Permit; 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// What settling permits together leaves to do.
#[derive(Debug, Default)]
#[must_use = "the store must hear of what was given back"]
pub struct SettledAll {
    /// Batches for the store, as few as there may be and usually none, in this order; their answers
    /// change nothing any more.
    pub batches: Vec<Batch>,
}

/// Requests that wait, for the store or for leases. Dropping those that wait for the store leaves
/// their local charges as they are, as if the answer were lost.
///
/// They are resumed by the engine that began them, or by one of a later configuration.
#[derive(Debug)]
#[must_use = "undecided requests hold their charges"]
pub struct PendingAll(pub(crate) Waiting);

impl PendingAll {
    /// What they wait for.
    pub fn wants(&self) -> Wants<'_> {
        self.0.wants()
    }

    /// What to ask the store, if they wait for that.
    pub fn batch(&self) -> Option<&Batch> {
        self.0.wants().batch()
    }
}

/// Why several requests could not be decided; nothing was charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmitAllError {
    /// One of them could not be.
    #[error("request {at}: {source}")]
    Request {
        /// Its place among the requests, from 0.
        at: usize,
        /// Why.
        #[source]
        source: EngineError,
    },
    /// There are more than are decided together.
    #[error("{given} requests are more than the {max} that are decided together; ask in several parts", max = crate::Engine::TOGETHER_MAX)]
    TooMany {
        /// How many there are.
        given: usize,
    },
}

/// Requests, one or several, that are not decided yet. Boxed by what they wait for, since they are
/// handed on often.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The store is asked something.
    Store(Box<Asked>),
    /// The store is asked for leases.
    Lease(Box<Parked>),
}

/// What the store is asked, and what its answer leads to.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) batch: Batch,
    pub(crate) then: Then,
}

impl Waiting {
    pub(crate) fn wants(&self) -> Wants<'_> {
        match self {
            Self::Store(asked) => Wants::Store(&asked.batch),
            Self::Lease(parked) => Wants::Lease(Landing(&parked.flights)),
        }
    }
}

/// Requests that hold nothing and begin anew when their leases are there.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) requests: SmallVec<[OwnedRequest; 1]>,
    pub(crate) flights: Flights,
    /// How often they have waited before.
    pub(crate) rounds: u8,
}

/// What an answer of the store leads to.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost more than the move, and most batches charge")]
pub(crate) enum Then {
    /// The batch charges exact limits; go on with the order.
    Admit(Party),
    /// The batch takes charges back, and so do `more` of them; then refuse.
    Refuse { refusals: Vec<Option<Refusal<'static>>>, more: vec::IntoIter<Batch> },
}

/// Requests on their way through the order.
#[derive(Debug)]
pub(crate) struct Party {
    /// What each holds.
    pub(crate) permits: SmallVec<[Permit; 1]>,
    /// What the rest of the order needs to know of each.
    pub(crate) after: SmallVec<[AfterStore; 1]>,
    /// Of those that have exact limits, in the order of the requests.
    pub(crate) questions: SmallVec<[Question; 1]>,
    /// Which of the questions are asked now. Those before have been, those after will be.
    pub(crate) asked: Range<usize>,
}

/// What the store is asked on behalf of one request.
#[derive(Debug)]
pub(crate) struct Question {
    /// The place of the request.
    pub(crate) at: usize,
    /// A name that nothing else has: of whoever holds what is lent, and of the batch if the
    /// question stands first in one.
    pub(crate) id: RequestId,
    pub(crate) exact: Vec<ExactName>,
    /// One for each exact limit; none any more once they are in a batch.
    pub(crate) operations: Vec<Operation>,
}
