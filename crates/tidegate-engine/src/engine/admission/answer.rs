//! How the planes are asked, and what they answer.

use tidegate_core::Refusal;

use crate::error::RequestError;
use crate::leases::Flights;

/// How the planes are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A plane that admits charges the request.
    Charge,
    /// Nothing is charged, and no lease is asked for. The first refusal ends the walk, with what it
    /// brings with it, such as a block. For a request that finds no place.
    Look,
    /// [`Mode::Look`] that ends behind the local limits. For a request that joins a line.
    LookAtLimits,
    /// Nothing is charged or changed. After a refusal the walk goes on, and what
    /// each plane says is kept.
    Explain,
}

/// The planes in the order of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WalkStep {
    Deadline,
    Ticket,
    Feature,
    Cursor,
    Limits,
    Leases,
    Capacity,
    Place,
    Store,
}

/// Why a walk ends before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A plane refuses. `None`: the limits that are decided here, whose refusal is large until it
    /// is read, and is in [`Located::refused`](super::located::Located::refused).
    Refuse(Option<Refusal>),
    /// A lease has to be asked for first.
    Wait(Flights),
    /// A plane cannot decide.
    Fail(Box<RequestError>),
}

/// The answer of a plane to a request: to go on, or why not.
pub(crate) type Answer = Result<(), Stop>;

impl<E: Into<RequestError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Fail(Box::new(error.into()))
    }
}
