//! Step 2: the limits that are decided here. Those that a store decides or lends are located with
//! them.

use tidegate_core::gate::LocatedRequest;
use tidegate_core::{Decision, Timestamp};

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use crate::engine::Engine;
use crate::limit_report::LimitReport;
use crate::permit::Holds;

#[expect(clippy::inline_always, reason = "a permit is built where it is held only so")]
#[inline(always)]
pub(crate) fn step(
    _engine: &Engine,
    located: &mut Located<'_>,
    mode: Mode,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    let Located { request, gate, home, counters, stored, said, .. } = located;
    let Some(gate) = gate else {
        *holds = Some(Holds::nothing(*home, request.cost, now));
        return Ok(());
    };
    if let Some(counters) = counters {
        if mode == Mode::Charge
            && let Some(permit) = gate.check_counters(counters, request.cost, now)
        {
            *holds = Some(Holds::new(*home, permit));
            return Ok(());
        }
        let is_look = matches!(mode, Mode::Look | Mode::LookAtLimits);
        if is_look && !gate.refuses_counters(counters, request.cost, now) {
            return Ok(());
        }
    }
    let decision = match mode {
        // A gate without limits in a store has nothing to locate for later.
        Mode::Charge if gate.has_elsewhere() => {
            let stored = stored.insert(LocatedRequest::default());
            gate.check_and_locate(request.attributes, stored, request.cost, now)
        }
        Mode::Charge => gate.check(request.attributes, request.cost, now),
        Mode::Look | Mode::LookAtLimits => {
            let refusal = gate.find_refusal(request.attributes, request.cost, now);
            return refusal.map_or(Ok(()), |refusal| Err(Stop::Refuse(refusal)));
        }
        Mode::Explain => {
            let peek = gate.peek(request.attributes, request.cost, now);
            if let Some(said) = said {
                said.limits = peek.limits.into_iter().map(LimitReport::from).collect();
            }
            return peek.refusal.map_or(Ok(()), |refusal| Err(Stop::Refuse(refusal)));
        }
    };
    match decision {
        Decision::Admit(permit) => {
            *holds = Some(Holds::new(*home, permit));
            Ok(())
        }
        Decision::Refuse(refusal) => Err(Stop::Refuse(refusal)),
    }
}
