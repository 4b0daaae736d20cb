//! Step 1: the admission cursor of the resource.

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
    _now: Timestamp,
) -> Answer {
    let Located { request, record, .. } = located;
    let (Some(overload), Some(record)) = (engine.overload(), record) else { return Ok(()) };
    let shed = if mode == Mode::Charge {
        overload.shed(record)
    } else {
        overload.would_shed(record.resource(), record.level())
    };
    match shed {
        Some(shed) => Err(Stop::Refuse(Some(shed_by(request.namespace, &shed, request)))),
        None => Ok(()),
    }
}
