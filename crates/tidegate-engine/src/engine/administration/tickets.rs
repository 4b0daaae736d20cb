//! The keys and the name of deferral tickets.

use tidegate_core::{DeferralTicket, Text, Timestamp};
use tidegate_overload::{Overload, TicketClock, TicketIssuer};

use crate::engine::Engine;
use crate::ticket::{TicketFault, TicketKeys};

impl Engine {
    /// Sets the keys that sign and verify tickets. `None`, the default: nobody gets a ticket, and
    /// none counts, whatever the resources' settings are.
    pub fn set_ticket_keys(&self, keys: Option<TicketKeys>) {
        self.shared.tickets.set_keys(keys);
    }

    /// Takes keys in the place of those in force, so that tickets which are out stay valid: see
    /// [`TicketKeys::rotated_from`]. Without keys in force, they are set.
    pub fn rotate_ticket_keys(&self, keys: TicketKeys) {
        self.shared.tickets.rotate_keys(keys);
    }

    /// Sets the name under which this member sells tickets from its first one on: its number in the
    /// fleet, and a number that no other start of it has. To be set before the first request.
    /// Default zeros, which are enough only where tickets end with the process.
    pub fn set_ticket_issuer(&self, issuer: TicketIssuer) {
        if let Some(overload) = self.overload() {
            overload.set_ticket_issuer(issuer);
        }
    }

    /// Sets the clock that tickets are on: that of the store, where members share one. Default the
    /// clock of the member. It may be set at any time, and reloads keep it.
    pub fn set_ticket_clock(&self, clock: TicketClock) {
        if let Some(overload) = self.overload() {
            overload.set_ticket_clock(clock);
        }
    }

    /// An instant of the member on the clock that tickets are on.
    pub(crate) fn ticket_time(&self, instant: Timestamp) -> Timestamp {
        self.ticket_clock().from_member(instant)
    }

    /// The clock that tickets are on.
    pub(crate) fn ticket_clock(&self) -> TicketClock {
        self.overload().map_or_else(TicketClock::default, Overload::ticket_clock)
    }

    /// A ticket as a refusal shows it, on the clock of the member. The instants given are on the
    /// clock of tickets.
    pub(crate) fn shown_ticket(
        &self,
        text: impl Into<Text>,
        (not_before, expires): (Timestamp, Timestamp),
        deferrals: u8,
    ) -> DeferralTicket {
        let clock = self.ticket_clock();
        let (not_before, expires) = (clock.to_member(not_before), clock.to_member(expires));
        DeferralTicket::new(text.into(), not_before, expires, deferrals)
    }

    /// The tickets that counted for nothing since the start, by the fault.
    pub fn ticket_faults(&self) -> [(TicketFault, u64); TicketFault::ALL.len()] {
        self.shared.tickets.faults()
    }
}
