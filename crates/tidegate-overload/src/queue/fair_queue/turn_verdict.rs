//! The answer to a request whose turn it may be.

/// The answer to a request that is about to take a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnVerdict {
    /// It is its turn.
    Go,
    /// Another request is next, or this one does not wait here.
    Wait,
    /// It is refused, and should leave the queue.
    Shed(QueueShed),
}

/// Why a request in the queue is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueShed {
    /// The queue stands, and the request has waited for more than twice its class's delay target.
    Delay,
    /// The time for which it may wait is over.
    Expired,
    /// Less than a typical service time is left until its deadline.
    TooLate,
}
