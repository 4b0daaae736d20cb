//! The worth of the ticket of a request at one member, for explanations.

use tidegate_core::Timestamp;
use tidegate_overload::TicketState;

use crate::engine::Engine;
use crate::request::Request;
use crate::ticket::{TicketFault, TicketTerms};

/// The worth of the ticket of a request here, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketReport {
    /// The resource of the request sells no tickets to its class, or there is no resource.
    NotDeferred,
    /// The ticket counts for nothing.
    Faulty(TicketFault),
    /// The ticket was sold for the request. All instants are on the clock of the member.
    Good {
        /// The promise of the ticket.
        terms: TicketTerms,
        /// Its worth now.
        state: TicketState,
    },
}

impl Engine {
    /// The worth of the ticket of a request at `now`; `None` for a request without one. Nothing
    /// is counted, and the ticket stays as good as it was.
    pub fn ticket_report(&self, request: &Request<'_>, now: Timestamp) -> Option<TicketReport> {
        request.ticket?;
        let resource = self.overload().zip(self.resource_of(request));
        let resource = resource.map(|(overload, id)| overload.resource(id));
        let Some(resource) = resource.filter(|resource| resource.defers(request.class)) else {
            return Some(TicketReport::NotDeferred);
        };
        Some(match self.open_ticket(request) {
            Err(fault) => TicketReport::Faulty(fault),
            Ok(terms) => {
                let clock = self.ticket_clock();
                let times = (terms.not_before, terms.expires);
                let state = match resource.look_at_ticket(terms.number, times, clock.from_member(now)) {
                    TicketState::Early { come_back } => {
                        TicketState::Early { come_back: clock.to_member(come_back) }
                    }
                    state => state,
                };
                let (not_before, expires) = (clock.to_member(times.0), clock.to_member(times.1));
                TicketReport::Good { terms: TicketTerms { not_before, expires, ..terms }, state }
            }
        })
    }
}
