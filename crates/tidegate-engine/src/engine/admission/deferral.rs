//! Refusals of the overload plane that bring a ticket.

use core::time::Duration;

use tidegate_core::{DeferralTicket, Reason, Refusal, RefusalDetails, Retry, Timestamp};
use tidegate_overload::{Resource, TicketAsk, TicketState};

use super::ticket::subject_of;
use crate::engine::{Engine, hasher};
use crate::request::Request;
use crate::ticket::{TicketKeys, TicketTerms};

/// The wait of a request that came in the time of its ticket and found no place. Its ticket stays
/// good until it expires.
const COME_BACK: Duration = Duration::from_secs(1);

/// Whether a request that is refused for this reason may get a ticket.
#[inline]
pub(crate) fn is_deferrable(reason: Reason) -> bool {
    matches!(reason, Reason::OverloadShed | Reason::QueueFull)
}

impl Engine {
    /// The final refusal of a request: with a ticket, if the overload plane refuses it and its
    /// resource defers requests of its class.
    #[cold]
    pub(crate) fn deferred(&self, refusal: Refusal, request: &Request<'_>, now: Timestamp) -> Refusal {
        if !is_deferrable(refusal.reason()) {
            return refusal;
        }
        let Some((overload, id)) = self.overload().zip(self.resource_of(request)) else { return refusal };
        let resource = overload.resource(id);
        if !resource.defers(request.class) || overload.is_shadow(id) {
            return refusal;
        }
        let Some(keys) = self.shared.tickets.keys() else { return refusal };
        let now = self.ticket_time(now);
        let presented = request.ticket.and_then(|_| self.open_ticket(request).ok());
        let presented = presented.and_then(|terms| {
            let state = resource.look_at_ticket(terms.number, (terms.not_before, terms.expires), now);
            // A spent ticket counts for nothing.
            (!matches!(state, TicketState::Spent | TicketState::NoRoom)).then_some((terms, state))
        });
        if let Some((terms, state)) = &presented
            && let Some(kept) = self.kept_ticket(request, terms, *state, now)
        {
            return with_ticket(refusal, kept);
        }
        let presented = presented.map(|(terms, _)| terms);
        let deferrals = presented.map_or(0, |terms| terms.deferrals);
        let Some(sold) = self.sold_ticket(resource, &keys, request, deferrals, now) else { return refusal };
        if let Some(terms) = presented {
            // The new ticket takes the place of the one that was presented.
            resource.replace_ticket(terms.number, now);
        }
        with_ticket(refusal, sold)
    }

    /// A new ticket for a request that was deferred so often before; `None` with a full calendar.
    /// `now` is on the clock of tickets.
    fn sold_ticket(
        &self,
        resource: &Resource,
        keys: &TicketKeys,
        request: &Request<'_>,
        deferrals: u8,
        now: Timestamp,
    ) -> Option<DeferralTicket> {
        let tenant = hasher(self.shared.config.table.seed).hash_one((request.namespace, request.tenant));
        let namespace = u32::from(self.owner(request.namespace).get());
        let ask = TicketAsk { namespace, tenant, cost: request.cost.units() };
        let booking = resource.sell_ticket(ask, now)?;
        let terms = TicketTerms {
            class: request.class,
            cost: request.cost,
            number: booking.number,
            not_before: booking.not_before,
            expires: booking.expires,
            deferrals: deferrals.saturating_add(1),
        };
        let text = keys.seal(&subject_of(request), &terms);
        Some(self.shown_ticket(text, (terms.not_before, terms.expires), terms.deferrals))
    }

    /// The ticket that a request has presented, if it is still good when the request is to come
    /// back. One that was due before its time may be early again after a wait. `now` is on the
    /// clock of tickets.
    fn kept_ticket(
        &self,
        request: &Request<'_>,
        terms: &TicketTerms,
        state: TicketState,
        now: Timestamp,
    ) -> Option<DeferralTicket> {
        let come_back = match state {
            TicketState::Due => now.saturating_add(COME_BACK),
            TicketState::Early { come_back } => come_back,
            TicketState::Expired | TicketState::Spent | TicketState::NoRoom => return None,
        };
        (come_back < terms.expires).then(|| {
            let text = request.ticket.unwrap_or_default();
            self.shown_ticket(text, (come_back, terms.expires), terms.deferrals)
        })
    }
}

/// Turns a refusal into a deferral with this ticket.
fn with_ticket(mut refusal: Refusal, ticket: DeferralTicket) -> Refusal {
    if let Some(first) = refusal.violated.first_mut() {
        (first.reason, first.retry) = (Reason::Deferred, Retry::At(ticket.not_before));
    }
    refusal.retry_hint = None;
    if let Some(RefusalDetails::Overload(details)) = refusal.details.as_deref_mut() {
        details.ticket = Some(Box::new(ticket));
    }
    refusal
}
