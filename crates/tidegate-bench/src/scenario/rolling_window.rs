//! Never more than a hundred in any window.

use std::time::Duration;

use crate::calls::{HOT, MutexedLog, OneRing, check_one, gate_of_one};
use crate::timing::Side::{Floor, Ours};
use crate::timing::{Candidate, Scenario};
use crate::workload::{Clock, table_of_words};

const LIMIT: u64 = 100;
/// Shorter than a hundred decisions take, so that there is always room.
const SLIDING: Duration = Duration::from_micros(1);
/// Longer than any run.
const FULL: Duration = Duration::from_hours(1);

/// There is always room, because the window always slides.
pub(super) fn admit() -> Scenario {
    scenario("admit", true, SLIDING, |ring| ring.within(40.0))
}

/// There is never room.
pub(super) fn deny() -> Scenario {
    scenario("deny", false, FULL, |ring| ring.within(30.0).within_by_two(30.0))
}

fn scenario(what: &str, admits: bool, window: Duration, budget: fn(Candidate) -> Candidate) -> Scenario {
    let clock = Clock::start();
    let ring = OneRing::new(LIMIT, window);
    let log = MutexedLog::new(LIMIT as usize, window);
    let rolling =
        tidegate_core::algorithm::Rolling::new(LIMIT, window).expect("a hundred in an hour is valid");
    let mut table = table_of_words(1 << 20);
    table.ring_share_percent = 50;
    let gate = gate_of_one(tidegate_core::Algorithm::Rolling(rolling), table);
    if !admits {
        while ring.admit(clock.now()) {}
        while log.admit(clock.now()) {}
        while check_one(&gate, HOT, clock.now()) {}
    }
    let candidates = vec![
        budget(Candidate::each("**tidegate**, the ring alone", Ours, move |_| ring.admit(clock.now()))),
        Candidate::each("**tidegate**, through the gate by key", Ours, move |_| {
            check_one(&gate, std::hint::black_box(HOT), clock.now())
        }),
        Candidate::each("floor: mutexed log, no key", Floor, move |_| log.admit(clock.now())),
    ];
    Scenario {
        title: format!("`rolling`, N = 100, {what}"),
        admits: Some(admits),
        calls: 1 << 19,
        candidates: with_keyed_logs(candidates, admits, window, clock),
    }
}

#[cfg(feature = "rivals")]
fn with_keyed_logs(
    mut candidates: Vec<Candidate>,
    admits: bool,
    window: Duration,
    clock: Clock,
) -> Vec<Candidate> {
    let logs = crate::rival::KeyedLogs::new(LIMIT as usize, window);
    if !admits {
        while logs.check(HOT, clock.now()) {}
    }
    let check = move |_| logs.check(std::hint::black_box(HOT), clock.now());
    candidates.push(Candidate::each(crate::rival::KeyedLogs::NAME, crate::timing::Side::Rival, check));
    candidates
}

#[cfg(not(feature = "rivals"))]
const fn with_keyed_logs(candidates: Vec<Candidate>, _: bool, _: Duration, _: Clock) -> Vec<Candidate> {
    candidates
}
