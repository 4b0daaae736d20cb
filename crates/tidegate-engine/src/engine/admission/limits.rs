//! Step 2: the limits that are decided here. Those that a store decides or lends are located with
//! them.

use tidegate_core::gate::LocatedRequest;
use tidegate_core::{Decision, Gate, Timestamp, UnreadRefusal};

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use crate::engine::Engine;
use crate::limit_report::LimitReport;
use crate::permit::{Holds, IssuingGate};
use crate::request::Request;

#[expect(clippy::inline_always, reason = "a permit is built where it is held only so")]
#[inline(always)]
pub(crate) fn step(
    _engine: &Engine,
    located: &mut Located<'_, '_>,
    mode: Mode,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    let Located { request, gate, issuer, counters, stored, refused, said, .. } = located;
    let Some(gate) = gate else {
        *holds = Some(Holds::nothing(*issuer, request.cost, now));
        return Ok(());
    };
    let (attributes, cost) = (request.attributes, request.cost);
    let decision = match (mode, counters) {
        (Mode::Charge, Some(counters)) => gate.check_counters(counters, attributes, cost, now),
        // A gate without limits in a store has nothing to locate for later.
        (Mode::Charge, None) if gate.has_store_limits() => {
            gate.check_and_locate(attributes, stored.insert(LocatedRequest::default()), cost, now)
        }
        (Mode::Charge, None) => {
            let is_admitted = check(gate, request, *issuer, holds, refused, now);
            return if is_admitted { Ok(()) } else { Err(Stop::Refuse(None)) };
        }
        (Mode::Look | Mode::LookAtLimits, counters) => {
            let refusal = match counters {
                Some(counters) => gate.find_counter_refusal(counters, attributes, cost, now),
                None => gate.find_refusal(attributes, cost, now),
            };
            if refusal.is_none() {
                return Ok(());
            }
            *refused = refusal;
            return Err(Stop::Refuse(None));
        }
        (Mode::Explain, _) => {
            let peek = gate.peek(attributes, cost, now);
            if let Some(said) = said {
                said.limits = peek.limits.into_iter().map(LimitReport::from).collect();
            }
            return peek.refusal.map_or(Ok(()), |refusal| Err(Stop::Refuse(Some(refusal))));
        }
    };
    match decision {
        Decision::Admit(permit) => {
            *holds = Some(Holds::new(*issuer, permit));
            Ok(())
        }
        Decision::Refuse(unread) => {
            *refused = Some(unread);
            Err(Stop::Refuse(None))
        }
    }
}

/// Checks the limits of a gate that decides all of them here; whether they admit the request. A
/// permit or a refusal is built where it is kept, since it is large to move.
///
/// Apart, since [`Engine::admit`] has a copy of its own for requests of which only limits have
/// something to say.
#[inline(never)]
fn check<'a>(
    gate: &'a Gate,
    request: &Request<'a>,
    issuer: IssuingGate,
    holds: &mut Option<Holds>,
    refused: &mut Option<UnreadRefusal<'a>>,
    now: Timestamp,
) -> bool {
    gate.check_then(
        request.attributes,
        request.cost,
        now,
        #[inline(always)]
        |decision| match decision {
            Decision::Admit(permit) => {
                *holds = Some(Holds::new(issuer, permit));
                true
            }
            Decision::Refuse(unread) => {
                *refused = Some(unread);
                false
            }
        },
    )
}
