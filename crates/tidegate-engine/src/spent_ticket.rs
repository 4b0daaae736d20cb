//! Tickets that requests have spent.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_overload::{Resource, TicketNumber};

/// A ticket that the admission of a request has spent.
#[derive(Debug)]
pub(crate) struct SpentTicket {
    resource: Arc<Resource>,
    number: TicketNumber,
}

impl SpentTicket {
    /// Spends a ticket; `None` if it is not good any more.
    pub(crate) fn spend(resource: &Arc<Resource>, number: TicketNumber, now: Timestamp) -> Option<Self> {
        resource.spend_ticket(number, now).then(|| Self { resource: Arc::clone(resource), number })
    }

    /// Makes it good again: its request was not served after all.
    pub(crate) fn give_back(self, now: Timestamp) {
        self.resource.give_ticket_back(self.number, now);
    }
}

/// A ticket of a request that waits, so that no other request with the same ticket waits beside it.
/// Dropping it makes the ticket good again.
#[derive(Debug)]
pub(crate) struct HeldTicket {
    spent: Option<SpentTicket>,
    since: Timestamp,
}

impl HeldTicket {
    /// A ticket that was spent at this instant.
    pub(crate) const fn new(spent: SpentTicket, since: Timestamp) -> Self {
        Self { spent: Some(spent), since }
    }

    /// The ticket of a request that is admitted.
    pub(crate) fn into_spent(mut self) -> Option<SpentTicket> {
        self.spent.take()
    }
}

impl Drop for HeldTicket {
    fn drop(&mut self) {
        if let Some(spent) = self.spent.take() {
            spent.give_back(self.since);
        }
    }
}
