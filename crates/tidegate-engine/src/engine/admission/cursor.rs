//! Step 1: the admission cursor of the resource. A request without a feature is offered to its
//! resource here, once.

use tidegate_core::Timestamp;

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use super::refusal::shed_by;
use crate::engine::Engine;
use crate::permit::Holds;

#[expect(clippy::inline_always, reason = "as `Engine::walk`")]
#[inline(always)]
pub(crate) fn step(
    engine: &Engine,
    located: &mut Located<'_, '_>,
    mode: Mode,
    _holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    let Located { request, waited, record, feature, ticket, is_shed, .. } = located;
    let (Some(overload), Some(record)) = (engine.overload(), record) else { return Ok(()) };
    let shed = if mode == Mode::Charge {
        if !waited.is_offered && feature.is_none() && engine.is_new(request, record) {
            overload.offer(record, now);
        }
        // A caller over a limit of its own gets no ticket: the limits are looked at first.
        if (ticket.is_some() || overload.resource(record.resource()).defers(request.class))
            && overload.is_below_cursor(record.resource(), record.level())
        {
            *is_shed = ticket.is_none();
            return Ok(());
        }
        overload.shed(record)
    } else {
        let shed = overload.would_shed(record.resource(), record.level());
        shed.filter(|_| ticket.is_none())
    };
    match shed {
        Some(shed) => Err(Stop::Refuse(Some(shed_by(request.namespace, &shed, request)))),
        None => Ok(()),
    }
}
