//! Step 3: the capacity units of the access to a table.

use tidegate_capacity::{Admission, Throttled};
use tidegate_core::Timestamp;

use super::answer::{Answer, Mode, Stop};
use super::located::{Located, TableAccess};
use super::refusal::throttled_by;
use crate::engine::Engine;
use crate::permit::Holds;

#[expect(clippy::inline_always, reason = "as `Engine::walk`")]
#[inline(always)]
pub(crate) fn step<'a>(
    engine: &'a Engine,
    located: &mut Located<'_, 'a>,
    mode: Mode,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    if located.request.access.is_none() {
        return Ok(());
    }
    let namespace = located.request.namespace;
    let refuse = |throttled: &Throttled<'_>| Err(Stop::Refuse(Some(throttled_by(namespace, throttled, now))));
    let Some(access) = located.access(engine)? else { return Ok(()) };
    let TableAccess { located: access, sources, leased_limits } = access;
    match (mode, holds) {
        (Mode::Charge, Some(holds)) => match access.admit(sources, now) {
            Admission::Admit(units) => {
                holds.other_mut().units = Some(units);
                engine.renew_leases(&holds.leased()[*leased_limits..], now);
                Ok(())
            }
            Admission::Throttle(throttled) => refuse(&throttled),
        },
        (Mode::Charge, None) => Ok(()),
        (Mode::Look | Mode::LookAtLimits, _) => {
            access.find_refusal(now).map_or(Ok(()), |throttled| refuse(&throttled))
        }
        (Mode::Explain, _) => {
            let statuses = engine.peek_access(access, now);
            let throttled = statuses.iter().find_map(|status| status.throttled.as_ref()).map(refuse);
            if let Some(said) = &mut located.said {
                let report = |status| engine.access_report(namespace, status);
                said.access = statuses.iter().map(report).collect();
            }
            throttled.unwrap_or(Ok(()))
        }
    }
}
