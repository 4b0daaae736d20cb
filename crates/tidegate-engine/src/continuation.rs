//! Requests that are not decided yet: what they wait for, and what they go on with.

use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;
use std::vec;

use smallvec::SmallVec;
use tidegate_core::gate::{CounterPlace, LocatedCounters};
use tidegate_core::limit::OnStoreFailure;
use tidegate_core::refusal::ScopeValues;
use tidegate_core::table::RefundSet;
use tidegate_core::{Cost, Gate, Reason, Refusal, Text, Timestamp};
use tidegate_overload::{Entrant, TicketNumber};
use tidegate_store::{Answer, Batch, Operation, RequestId, StoreError};

use crate::decision::Step;
use crate::demand::Demand;
use crate::leases::{Flights, Landing};
use crate::permit::Holds;
use crate::request::OwnedRequest;
use crate::waiting_room::{Seat, Turn};

/// A request, or a batch of them, that waits: for the store, or for leases. Dropping it while it
/// waits for the store leaves its local charges as they are, as if the answer were lost; while it
/// waits for a lease it holds nothing.
///
/// It is resumed by the engine that began it, or by one of a later configuration.
#[derive(Debug)]
#[must_use = "an undecided request holds its charges"]
pub struct Pending(pub(crate) Waiting);

impl Pending {
    /// The answers that the request waits for.
    pub fn wants(&self) -> Wants<'_> {
        match &self.0 {
            Waiting::Store(asked) => Wants::Store(&asked.batch),
            Waiting::Lease(parked) => Wants::Lease(Landing(&parked.flights)),
            Waiting::Turn(queued) => Wants::Turn(Turn { seat: &queued.seat, wake_at: queued.wake_at }),
        }
    }

    /// The batch to send to the store, if the request waits for the store.
    pub fn batch(&self) -> Option<&Batch> {
        self.wants().batch()
    }
}

/// The answers that an undecided request waits for.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing happens unless it is brought"]
pub enum Wants<'a> {
    /// The answer of the store to this batch. It goes on with [`Answered::Store`].
    Store(&'a Batch),
    /// The end of asks that are under way; see `Engine::poll_lease_asks`. It goes on with
    /// [`Answered::Lease`].
    Lease(Landing<'a>),
    /// Its turn in the waiting room, or the instant [`Turn::wake_at`]. It goes on with
    /// [`Answered::Turn`].
    Turn(Turn<'a>),
}

impl<'a> Wants<'a> {
    pub(crate) fn batch(self) -> Option<&'a Batch> {
        match self {
            Self::Store(batch) => Some(batch),
            Self::Lease(_) | Self::Turn(_) => None,
        }
    }
}

/// The answer with which an undecided request goes on.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is handed over at once, and most answers are the store's")]
pub enum Answered {
    /// The store has answered, or failed to.
    Store(Result<Answer, StoreError>),
    /// The asks it waited for have landed.
    Lease,
    /// It was called, or the instant to go on has come.
    Turn,
}

impl From<Result<Answer, StoreError>> for Answered {
    fn from(answer: Result<Answer, StoreError>) -> Self {
        Self::Store(answer)
    }
}

/// The state of undecided requests while they wait. Boxed, since they are handed on often.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The store is asked something.
    Store(Box<StoreQuestion>),
    /// The store is asked for leases.
    Lease(Box<Parked>),
    /// Something that other requests use has to be returned first, or time has to pass.
    Turn(Box<Queued>),
}

/// A batch for the store, and what its answer leads to.
#[derive(Debug)]
pub(crate) struct StoreQuestion {
    pub(crate) batch: Batch,
    pub(crate) then: AfterStore,
}

/// The work that an answer of the store leads to.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would cost more than the move, and most batches charge")]
pub(crate) enum AfterStore {
    /// The batch charges exact limits; go on with the order.
    Admit(BatchAdmission),
    /// The batch takes charges back, and so do `more` of them; then this step is taken.
    Conclude { step: Box<Step<'static>>, more: vec::IntoIter<Batch> },
}

/// Requests that hold nothing and begin anew when their leases are there.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) requests: SmallVec<[OwnedRequest; 1]>,
    pub(crate) flights: Flights,
    /// How often they have waited before.
    pub(crate) rounds: u8,
    /// The demand of each, if it was offered.
    pub(crate) demands: SmallVec<[Option<Demand>; 1]>,
    /// The position in the waiting room of a single request that has waited there.
    pub(crate) seat: Option<Seat>,
}

/// A request in the waiting room. It holds nothing but its position.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) request: OwnedRequest,
    pub(crate) seat: Seat,
    pub(crate) demand: Option<Demand>,
    /// Its last refusal; `None` if it has joined a line without asking.
    pub(crate) refusal: Option<Refusal>,
    /// The counters of its limits, as the engine of that generation has located them.
    pub(crate) counters: Option<Box<KeptCounters>>,
    /// When it asks again, if it is the next of its line.
    pub(crate) ask_at: Timestamp,
    /// When its driver resumes it, unless it is called before.
    pub(crate) wake_at: Timestamp,
}

/// The counters of a request under the limits of an engine, kept while it waits. An engine with
/// other limits or overrides has another generation, and locates them anew.
#[derive(Debug)]
pub(crate) struct KeptCounters {
    pub(crate) generation: u32,
    pub(crate) counters: LocatedCounters,
}

impl KeptCounters {
    /// The bytes that these take beside the request. Without a limit nothing is kept.
    pub(crate) fn bytes(counters: Option<&LocatedCounters>) -> usize {
        let kept = counters.filter(|counters| !counters.is_empty());
        kept.map_or(0, |counters| size_of::<Self>() + counters.len() * size_of::<CounterPlace>())
    }
}

/// Requests on their way through the planes, past all that is decided without the store.
#[derive(Debug)]
pub(crate) struct BatchAdmission {
    /// The charges that each request holds.
    pub(crate) holds: SmallVec<[Holds; 1]>,
    /// The facts about each request that the rest of the order needs.
    pub(crate) origins: SmallVec<[Origin; 1]>,
    /// Of those that have exact limits, in the order of the requests.
    pub(crate) questions: SmallVec<[LimitQuestion; 1]>,
    /// The questions that are asked now. Those before have been asked, those after will be.
    pub(crate) asked: Range<usize>,
}

/// A request, as far as the rest of the order needs to know of it.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) gate: Arc<Gate>,
    pub(crate) cost: Cost,
    pub(crate) demand: Option<Demand>,
    /// Set for a single request that may wait.
    pub(crate) waitable: Option<Box<WaitableRequest>>,
}

/// A request that may wait after the store has refused it.
#[derive(Debug)]
pub(crate) struct WaitableRequest {
    pub(crate) request: OwnedRequest,
    /// Its position, if it has waited before.
    pub(crate) seat: Option<Seat>,
    /// The request as the fair queue of its resource knows it, if it has a position.
    pub(crate) entrant: Option<Entrant>,
    /// [`Room::returns`](crate::waiting_room::Room::returns) before it asked.
    pub(crate) returns: u64,
}

/// The operations that the store runs on behalf of one request.
#[derive(Debug)]
pub(crate) struct LimitQuestion {
    /// The position of the request.
    pub(crate) at: usize,
    /// A unique name: of the holder of loans, and of the batch whose first question it is.
    pub(crate) id: RequestId,
    pub(crate) exact: Vec<ExactName>,
    /// One for each exact limit; empty once they are in a batch.
    pub(crate) operations: Vec<Operation>,
}

/// A limit that the store was asked about, in the order of the batch.
#[derive(Clone, Debug)]
pub(crate) struct ExactName {
    pub(crate) name: Text,
    pub(crate) limit: u64,
    pub(crate) window: Option<Duration>,
    pub(crate) civil_zone: Option<Text>,
    pub(crate) reason: Reason,
    pub(crate) is_shadow: bool,
    pub(crate) scope: ScopeValues,
    pub(crate) on_store_failure: OnStoreFailure,
    pub(crate) block_on_exceed: Option<Duration>,
    /// The endings of work on which the charge is given back.
    pub(crate) refund_on: RefundSet,
    pub(crate) place: CounterPlace,
    /// Of a concurrency limit: after which time a permit expires.
    pub(crate) hold: Option<Duration>,
    /// Set for a leased limit.
    pub(crate) lease: Option<Box<LeaseName>>,
}

/// A leased limit that the store was asked about.
#[derive(Clone, Debug)]
pub(crate) struct LeaseName {
    /// The fingerprint of the key.
    pub(crate) key: u64,
    pub(crate) algorithm: tidegate_core::Algorithm,
    pub(crate) blocked_until: Option<Timestamp>,
}

/// The refusal of a request that may wait, and how the request came to it.
pub(crate) struct Denial {
    pub(crate) refusal: Refusal,
    pub(crate) demand: Option<Demand>,
    /// Its position, if it has waited before.
    pub(crate) seat: Option<Seat>,
    /// `Room::returns` before it asked.
    pub(crate) returns: u64,
    /// The counters of its limits, as far as they are known.
    pub(crate) counters: Option<Box<KeptCounters>>,
    /// Its ticket, if it comes in its time.
    pub(crate) ticket: Option<TicketNumber>,
}
