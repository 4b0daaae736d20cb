//! Step 1: the deadline of a request. Read only.

use tidegate_core::Timestamp;

use super::answer::{Answer, Mode, Stop};
use super::located::Located;
use super::refusal::past_deadline;
use crate::engine::Engine;
use crate::permit::Holds;

#[inline]
pub(crate) fn step(
    _engine: &Engine,
    located: &Located<'_, '_>,
    _mode: Mode,
    _holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    match located.request.deadline {
        Some(deadline) if deadline <= now => Err(Stop::Refuse(Some(past_deadline(located.request)))),
        _ => Ok(()),
    }
}
