//! Tickets that requests have spent.

use std::sync::Arc;

use tidegate_core::Timestamp;
use tidegate_overload::{Resource, TicketNumber};

/// A ticket that the admission of a request has spent.
#[derive(Debug)]
pub(crate) struct SpentTicket {
    resource: Arc<Resource>,
    number: TicketNumber,
    /// The instant at which it was spent, on the clock of tickets.
    since: Timestamp,
}

impl SpentTicket {
    /// Spends a ticket at an instant of the clock of tickets; `None` if it is not good any more.
    pub(crate) fn spend(resource: &Arc<Resource>, number: TicketNumber, now: Timestamp) -> Option<Self> {
        let is_good = resource.spend_ticket(number, now);
        is_good.then(|| Self { resource: Arc::clone(resource), number, since: now })
    }

    /// Makes it good again: its request was not served after all.
    pub(crate) fn give_back(self) {
        self.resource.give_ticket_back(self.number, self.since);
    }
}

/// The ticket of a request that waits. It is spent, so that no other request waits with the same
/// ticket. Dropping it makes the ticket good again.
#[derive(Debug)]
pub(crate) struct HeldTicket(
    /// `None` once the request is admitted.
    Option<SpentTicket>,
);

impl HeldTicket {
    /// A ticket that was spent for a request that begins to wait.
    pub(crate) const fn new(spent: SpentTicket) -> Self {
        Self(Some(spent))
    }

    /// The ticket of a request that is admitted, which stays spent.
    pub(crate) fn into_spent(mut self) -> Option<SpentTicket> {
        self.0.take()
    }
}

impl Drop for HeldTicket {
    fn drop(&mut self) {
        if let Some(spent) = self.0.take() {
            spent.give_back();
        }
    }
}
