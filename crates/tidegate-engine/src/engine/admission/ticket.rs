//! Step 1: the ticket that a request presents. In its time the cursor lets it pass, and a part of
//! the resource is reserved for it; before its time the request is told how long it still has to
//! wait. A ticket that counts for nothing leaves the request as if it had none.

use tidegate_core::{
    DeferralTicket, OverloadDetails, OverloadMechanism, Reason, Refusal, RefusalDetails, Retry, Text,
    Timestamp,
};
use tidegate_overload::{COHORTS, RequestRecord, Resource, TicketNumber, TicketState};

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use super::refusal::{scope_of, without_numbers};
use crate::engine::Engine;
use crate::permit::Holds;
use crate::request::Request;
use crate::ticket::{TicketFault, TicketSubject, TicketTerms};

/// Costs a request without a ticket one comparison.
#[expect(clippy::inline_always, reason = "as `Engine::walk`")]
#[inline(always)]
pub(crate) fn step(
    engine: &Engine,
    located: &mut Located<'_, '_>,
    mode: Mode,
    _holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    if located.request.ticket.is_none() {
        return Ok(());
    }
    presented(engine, located, mode, now)
}

#[inline(never)]
fn presented(engine: &Engine, located: &mut Located<'_, '_>, mode: Mode, now: Timestamp) -> Answer {
    let Located { request, waited, record, ticket, .. } = located;
    let (Some(overload), Some(record)) = (engine.overload(), record) else { return Ok(()) };
    let resource = overload.resource(record.resource());
    if !resource.defers(request.class) {
        return Ok(());
    }
    // A request that has waited has shown its ticket before.
    let is_new = mode == Mode::Charge && !waited.is_offered;
    let Some((terms, state)) = engine.ticket_state(request, resource, is_new, now) else { return Ok(()) };
    let number = terms.number;
    match state {
        // It came in time and has waited since: its own wait has spent the ticket.
        _ if waited.had_ticket => count_with_ticket(record, ticket, number),
        TicketState::Due => count_with_ticket(record, ticket, number),
        TicketState::Early { come_back } => {
            let text = request.ticket.unwrap_or_default();
            let shown = engine.shown_ticket(text, (come_back, terms.expires), terms.deferrals);
            return Err(Stop::Refuse(Some(early(request, resource, record, shown))));
        }
        TicketState::Expired => {
            let cohorts = terms.deferrals.min(resource.max_deferrals());
            *record = record.at_level(record.level().raised_by(cohorts));
        }
        TicketState::Spent | TicketState::NoRoom => {}
    }
    Ok(())
}

/// Lets a request count as one with a ticket: it is of the highest cohort of its class.
fn count_with_ticket(record: &mut RequestRecord, ticket: &mut Option<TicketNumber>, number: TicketNumber) {
    *record = record.at_level(record.level().raised_by(COHORTS as u8));
    *ticket = Some(number);
}

/// The refusal of a request that comes before the time of its ticket. It shows the same ticket,
/// with the instant at which to come back.
fn early(
    request: &Request<'_>,
    resource: &Resource,
    record: &RequestRecord,
    ticket: DeferralTicket,
) -> Refusal {
    let retry = Retry::At(ticket.not_before);
    let name = OverloadMechanism::Ticket.as_str();
    let violated = without_numbers(Text::from_static(name), Reason::Deferred, retry);
    let mut refusal = Refusal::new(request.namespace, scope_of(request), violated);
    let mut details = OverloadDetails::new(
        resource.name().cloned(),
        OverloadMechanism::Ticket,
        resource.namespace_cursor(record.level().namespace()).level(),
        resource.binding_signal(),
    );
    details.ticket = Some(Box::new(ticket));
    refusal.details = Some(Box::new(RefusalDetails::Overload(details)));
    refusal
}

/// The names that a ticket of a request is about.
pub(crate) fn subject_of<'a>(request: &Request<'a>) -> TicketSubject<'a> {
    TicketSubject {
        namespace: request.namespace,
        resource: request.resource,
        operation: request.operation_or_feature(),
        tenant: request.tenant,
    }
}

impl Engine {
    /// Counts the ticket of a request that begins to wait before its first attempt, and that the
    /// ticket does not help.
    #[cold]
    pub(super) fn count_useless_ticket(&self, request: &Request<'_>, resource: &Resource, now: Timestamp) {
        if request.ticket.is_none() || !resource.defers(request.class) {
            return;
        }
        self.ticket_state(request, resource, true, now);
    }

    /// The ticket that a request presents and its worth at the resource, counted if it is new;
    /// `None` for a ticket with a fault.
    fn ticket_state(
        &self,
        request: &Request<'_>,
        resource: &Resource,
        is_new: bool,
        now: Timestamp,
    ) -> Option<(TicketTerms, TicketState)> {
        let terms = match self.open_ticket(request) {
            Ok(terms) => terms,
            Err(fault) => {
                if is_new {
                    self.shared.tickets.count_fault(fault);
                }
                return None;
            }
        };
        let (times, now) = ((terms.not_before, terms.expires), self.ticket_time(now));
        let state = if is_new {
            resource.present_ticket(terms.number, times, now)
        } else {
            resource.look_at_ticket(terms.number, times, now)
        };
        Some((terms, state))
    }

    /// The terms of the ticket that a request presents; no ticket opens without keys.
    pub(crate) fn open_ticket(&self, request: &Request<'_>) -> Result<TicketTerms, TicketFault> {
        let keys = self.shared.tickets.keys().ok_or(TicketFault::UnknownKey)?;
        let asked = (request.class, request.cost);
        keys.open(request.ticket.unwrap_or_default(), &subject_of(request), asked)
    }
}
