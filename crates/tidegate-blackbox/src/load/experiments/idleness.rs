//! Places, queue and load level, which must be back to nothing after load.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::attack::Failure;
use crate::findings::{Findings, Gate};
use crate::load::gauges::{self, Gauges};
use crate::load::testbed::Testbed;

/// How long after load queue and places may be taken.
pub(crate) const EMPTY_AFTER: Duration = Duration::from_secs(1);
/// How long after load the load level may be above normal.
pub(crate) const NORMAL_AFTER: Duration = Duration::from_secs(6);
/// How often the level is asked for.
const LOOK: Duration = Duration::from_millis(100);

/// Judges places and queue [`EMPTY_AFTER`] after `event`.
pub(crate) fn judge_empty(
    findings: &mut Findings,
    testbed: &Testbed<'_>,
    event: Instant,
) -> Result<(), Failure> {
    thread::sleep((event + EMPTY_AFTER).saturating_duration_since(Instant::now()));
    let Gauges { places, waiting, .. } = Gauges::read(testbed.operators()?)?;
    findings.gated("places after 1 s", places as f64, "", Gate::AtMost(0.0), "");
    findings.gated("queue after 1 s", waiting as f64, "", Gate::AtMost(0.0), "");
    Ok(())
}

/// The time from `event` until the level of `app` is normal and stays so until [`NORMAL_AFTER`] and
/// a look more. The error says why it could not be read.
pub(crate) fn time_until_normal(operators: SocketAddr, event: Instant) -> Result<Duration, String> {
    let mut above_until = Duration::ZERO;
    while event.elapsed() <= NORMAL_AFTER + LOOK {
        if !gauges::is_normal(&gauges::level(operators, "app")?) {
            above_until = event.elapsed();
        }
        thread::sleep(LOOK);
    }
    Ok(above_until)
}

/// Adds the result of [`time_until_normal`].
pub(crate) fn judge_level(findings: &mut Findings, time: Result<Duration, String>) {
    findings.timed("level above normal for", time, NORMAL_AFTER);
}
