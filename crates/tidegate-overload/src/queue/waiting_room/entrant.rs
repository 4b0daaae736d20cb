//! The entrants of the waiting room: their groups, obstacles and positions.

use core::fmt;
use core::hash::{Hash, Hasher};

use tidegate_core::{Class, Cost, Timestamp};

use super::waiting_connection::WaitingConnection;
use crate::cursor::marginal_rank::MarginalRank;
use crate::resource_id::ResourceId;

/// The thing that a waiting request lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Obstacle {
    /// A limit's counter, by the fingerprint of its key. Requests for two counters of one
    /// fingerprint wait in one line: one of them may then wait longer than it needs to, and none is
    /// admitted that should not be.
    Counter(u64),
    /// A place in flight of a resource.
    Place(ResourceId),
    /// An answer that only this request waits for, of the store or of a ledger. It is alone in its
    /// line, so that others are called meanwhile, and keeps its arrival.
    Answer(Position),
}

/// The position of one waiting request: its number by arrival.
///
/// A position is never used again. Positions compare by arrival, the earlier one first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    // Halves rather than one word, whose alignment would pad what is kept beside it. The high one
    // is first, so that positions compare as their numbers.
    high: u32,
    low: u32,
}

impl Position {
    pub(crate) const fn new(arrival: u64) -> Self {
        Self { high: (arrival >> 32) as u32, low: arrival as u32 }
    }

    /// The number: positions are counted from 0 in order of arrival.
    pub const fn get(self) -> u64 {
        (self.high as u64) << 32 | self.low as u64
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({})", self.get())
    }
}

impl Hash for Position {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.get());
    }
}

/// The requests that share one part of the room: those of one namespace for one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The number of the namespace, as `tidegate_core::shares::Owner` counts them.
    pub namespace: u32,
    /// The resource that the request is for.
    pub resource: Option<ResourceId>,
}

/// A request that enters the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrant {
    /// The group in whose share it waits.
    pub group: Group,
    /// How much it matters.
    pub class: Class,
    /// The memory that it occupies while it waits.
    pub bytes: usize,
    /// The thing that it lacks.
    pub obstacle: Obstacle,
    /// Its connection, if other requests may wait on the same one: the memory of it counts once,
    /// beside `bytes`.
    pub connection: Option<WaitingConnection>,
    /// A hash of its tenant, the same for all requests of a tenant in a namespace. Requests without
    /// one are those of one tenant. Looked at by fair queues only, as is what follows.
    pub tenant: Option<u64>,
    /// The charge of the fair queue of its resource: the time that it is expected to keep a place,
    /// in microseconds; at most 2^32 - 1 counts. A room sets it when the request enters.
    pub cost: Cost,
    /// The instant from which it is refused rather than served.
    pub until: Timestamp,
    /// The instant at which its answer is late; `None` if it is never.
    pub deadline: Option<Timestamp>,
    /// Its rank, if it is one of the least important requests that the admission cursor of its
    /// resource lets in; see [`FairQueue::sheds_on_arrival`](crate::FairQueue::sheds_on_arrival).
    pub marginal: Option<MarginalRank>,
    /// Whether it has a ticket for this time: a part of the service is reserved for such requests
    /// ([`QueueConfig::ticket_share`](crate::QueueConfig::ticket_share)), and beyond it they are
    /// the first of their class. Default false.
    pub has_ticket: bool,
}

impl Entrant {
    /// A request without bytes and without a tenant, of cost 1, that may wait for ever.
    pub const fn new(group: Group, class: Class, obstacle: Obstacle) -> Self {
        Self {
            group,
            class,
            bytes: 0,
            obstacle,
            connection: None,
            tenant: None,
            cost: Cost::ONE,
            until: Timestamp::MAX,
            deadline: None,
            marginal: None,
            has_ticket: false,
        }
    }

    /// The same, occupying so many bytes.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// The same, on a connection that counts once for all of its requests that wait.
    #[must_use]
    pub const fn connection(mut self, connection: Option<WaitingConnection>) -> Self {
        self.connection = connection;
        self
    }

    /// The same, of the tenant with this hash.
    #[must_use]
    pub const fn tenant(mut self, tenant: Option<u64>) -> Self {
        self.tenant = tenant;
        self
    }

    /// The same, of another cost.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// The same, refused from this instant.
    #[must_use]
    pub const fn until(mut self, until: Timestamp) -> Self {
        self.until = until;
        self
    }

    /// The same, with its rank among the least important requests.
    #[must_use]
    pub const fn marginal(mut self, rank: Option<MarginalRank>) -> Self {
        self.marginal = rank;
        self
    }

    /// The same, with a ticket for this time or without one.
    #[must_use]
    pub const fn has_ticket(mut self, has_ticket: bool) -> Self {
        self.has_ticket = has_ticket;
        self
    }

    /// The same, with a deadline for its answer.
    #[must_use]
    pub const fn deadline(mut self, deadline: Option<Timestamp>) -> Self {
        self.deadline = deadline;
        self
    }
}
