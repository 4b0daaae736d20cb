//! A client that opens many requests, which wait for places, and leaves.

use std::time::Duration;

use crate::attack::{Failure, RunContext};
use crate::raw::{self, RawConnection};

use crate::findings::{Findings, Gate};
use crate::load::experiments::idleness::EMPTY_AFTER;
use crate::load::gauges::{self, Gauges};
use crate::load::testbed::{APP_WORKERS, AppPlaces, GOLD, Testbed};

/// Requests that the client opens.
const OPENED: usize = 1_000;
/// The least that wait before the client leaves: all that get no place.
const WAITING_MIN: usize = OPENED - APP_WORKERS;
/// How long they have to arrive.
const ARRIVED_AFTER: Duration = Duration::from_secs(5);
/// The work of a request; no place comes free meanwhile.
const WORK: Duration = Duration::from_mins(1);

pub(crate) fn run(context: &RunContext, findings: &mut Findings) -> Result<(), Failure> {
    let testbed = Testbed::start(context, AppPlaces::Fixed, ("30s", "30s"))?;
    let operators = testbed.operators()?;
    let request = raw::encoded(&GOLD.request(WORK));
    let mut connections = Vec::new();
    for _ in 0..OPENED {
        let mut connection = RawConnection::open(testbed.proxy())?;
        connection.send(&request)?;
        connections.push(connection);
    }
    gauges::time_until(operators, ARRIVED_AFTER, |gauges| gauges.waiting >= WAITING_MIN as u64)?;
    let Gauges { places, waiting, .. } = Gauges::read(operators)?;
    let note = format!("{places} places taken");
    findings.gated("waiting", waiting as f64, "", Gate::AtLeast(WAITING_MIN as f64), &note);
    drop(connections);
    let empty = gauges::time_until(operators, EMPTY_AFTER, Gauges::is_idle)?;
    let Gauges { places, waiting, .. } = Gauges::read(operators)?;
    let left = format!("{places} places and {waiting} waiting are left");
    findings.timed("places and queue empty after leaving", empty.ok_or(left), EMPTY_AFTER);
    Ok(())
}
