//! The worth of the ticket of an explained request, in words.

use tidegate_core::Timestamp;
use tidegate_core::display::HumanDuration;
use tidegate_engine::{Engine, Request, TicketReport, TicketTerms};
use tidegate_overload::TicketState;
use tidegate_wire::explanation::TicketExplanation;
use tidegate_wire::text::shortened;

/// How much of a name a sentence shows, in bytes.
const SHOWN_BYTES: usize = 64;

/// Explains the ticket of a request; `None` for a request without one. Counts nothing.
pub(crate) fn explain_ticket(
    engine: &Engine,
    request: &Request<'_>,
    now: Timestamp,
) -> Option<TicketExplanation> {
    Some(match engine.ticket_report(request, now)? {
        TicketReport::NotDeferred => without_worth(None, undeferred(request)),
        TicketReport::Faulty(fault) => without_worth(Some(fault.as_str()), fault.to_string()),
        TicketReport::Good { terms, state } => of_terms(&terms, state, now),
    })
}

fn without_worth(fault: Option<&str>, because: String) -> TicketExplanation {
    TicketExplanation {
        worth: "nothing".to_owned(),
        fault: fault.map(str::to_owned),
        not_before: None,
        expires: None,
        deferrals: None,
        because,
    }
}

/// Why no ticket is good for a request.
fn undeferred(request: &Request<'_>) -> String {
    match request.resource {
        Some(name) => {
            let name = shortened(name, SHOWN_BYTES);
            format!("resource {name} defers no requests of class {}; see its `defer`", request.class)
        }
        None => "the request has no resource that defers; name the one that gave the ticket".to_owned(),
    }
}

fn of_terms(terms: &TicketTerms, state: TicketState, now: Timestamp) -> TicketExplanation {
    let shown = |instant: Timestamp| instant.to_whole_millis().to_string();
    let mut not_before = terms.not_before;
    let (worth, because) = match state {
        TicketState::Due => {
            let left = HumanDuration(terms.expires.saturating_since(now));
            ("due", format!("its time has come and lasts for {left}; it is spent when the request is admitted"))
        }
        TicketState::Early { come_back } => {
            not_before = come_back;
            let wait = HumanDuration(come_back.saturating_since(now));
            ("early", format!("it is good in {wait}; until then the request is deferred with the same ticket"))
        }
        TicketState::Expired => (
            "expired",
            "its time is over, or its second was not honoured; the request is raised by a cohort for each deferral, and \
             gets a new ticket if it is deferred again"
                .to_owned(),
        ),
        TicketState::Spent => {
            ("spent", "a request was admitted with it here; the request is decided as one without".to_owned())
        }
        TicketState::NoRoom => (
            "unremembered",
            "another member sold it, and this one has no memory left to note it as spent; the request is decided as one \
             without"
                .to_owned(),
        ),
    };
    TicketExplanation {
        worth: worth.to_owned(),
        fault: None,
        not_before: Some(shown(not_before)),
        expires: Some(shown(terms.expires)),
        deferrals: Some(terms.deferrals),
        because,
    }
}
