//! A request of a resource with a fair queue, while it waits for something else.

use tidegate_core::{Cost, Timestamp};

use crate::queue::waiting_room::Entrant;

/// The facts of a request that its fair queue needs when the request comes, or comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueTerms {
    pub(crate) tenant: Option<u64>,
    pub(crate) cost: Cost,
    pub(crate) until: Timestamp,
    pub(crate) deadline: Option<Timestamp>,
    /// The beginning of its wait in the queue; `None` if it was not there since it waits for
    /// something else.
    pub(crate) since: Option<Timestamp>,
    pub(crate) has_ticket: bool,
    /// Whether its tenant was charged already.
    pub(crate) is_charged: bool,
}

impl QueueTerms {
    /// A request that was not in the queue yet.
    pub(crate) const fn new(entrant: &Entrant) -> Self {
        let Entrant { tenant, cost, until, deadline, has_ticket, .. } = *entrant;
        Self { tenant, cost, until, deadline, since: None, has_ticket, is_charged: false }
    }
}
