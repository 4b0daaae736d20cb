//! Step 1: the level of the feature that a request is for. A request with a feature is offered
//! here, once, to its resource and to its feature.

use tidegate_core::Timestamp;
use tidegate_overload::{Overload, RequestRecord};

use super::answer::{Answer, Mode, Stop};
use super::located::{Located, LocatedFeature};
use super::refusal::{disabled_feature, scope_of};
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
    if located.feature.is_none() {
        return Ok(());
    }
    granted(engine, located, mode, now)
}

/// Finds the level of its feature for a request, which is refused if the feature is off.
#[inline(never)]
fn granted(engine: &Engine, located: &mut Located<'_, '_>, mode: Mode, now: Timestamp) -> Answer {
    let Located { request, waited, record, feature, .. } = located;
    let (Some(overload), Some(record), Some(located)) = (engine.overload(), record, feature) else {
        return Ok(());
    };
    if mode == Mode::Charge && !waited.is_offered && engine.is_new(request, record) {
        offer(overload, record, Some(*located), now);
    }
    let feature = overload.feature(located.id);
    let grant = feature.grant(record.level());
    located.grant = Some(grant);
    if !grant.is_refused() {
        return Ok(());
    }
    let (whose, level) = ((request.namespace, scope_of(request)), feature.level_name(grant.level));
    Err(Stop::Refuse(Some(disabled_feature(whose, overload, located.id, level, now))))
}

/// Counts a request as new demand on its resource and its feature.
pub(crate) fn offer(
    overload: &Overload,
    record: &mut RequestRecord,
    feature: Option<LocatedFeature>,
    now: Timestamp,
) {
    overload.offer(record, now);
    if let Some(feature) = feature {
        overload.feature(feature.id).count_offered(record.level());
    }
}
