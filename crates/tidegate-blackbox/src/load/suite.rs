//! The table of the experiments.

use crate::load::experiments::{
    authorize, crashes, deferral, factors, feature_steps, forged_tickets, neighbour, rates, rehearsal, step,
    streams, waits,
};
use crate::trial::{Pace, Repetition, Trial};

macro_rules! experiments {
    ($($name:literal $repeats:ident $run:path: $claim:literal;)*) => {
        &[$(Trial {
            name: $name,
            claim: $claim,
            pace: Pace::Long,
            repeats: Repetition::$repeats,
            mebibytes_max: None,
            run: $run,
        }),*]
    };
}

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Trial] = experiments! {
    "factors" Run factors::run:
        "E1 and E2: goodput at 1, 2, 5 and 10 times the capacity, and the tenant that matters";
    "step" Trial step::run:
        "E3: a step from 0.8 to 2 times the capacity and down to 0.5";
    "feature-steps" Trial feature_steps::run:
        "E4: a feature that is switched off at T1 and on again at T2, while two others rise and fall";
    "rates" Trial rates::run:
        "the last ten seconds of a resource beside the count of its client, at 200 and 2 000 a second";
    "rehearsal" Trial rehearsal::run:
        "E1 at twice the capacity in shadow mode: what it would refuse beside what it refuses";
    "deferral" Trial deferral::run:
        "E9: a batch of 3 000 that comes at once and returns with tickets, beside a tenant that matters";
    "forged-tickets" Trial forged_tickets::run:
        "the processor time of a request with a forged ticket, and a tenant beside a flood of them";
    "neighbour" Run neighbour::run:
        "an upstream beside one that is offered 10 times its capacity";
    "killed-upstream" Trial crashes::killed_upstream:
        "kill -9 of the upstream at 5 times its capacity";
    "killed-daemon" Trial crashes::killed_daemon:
        "kill -9 and restart of the daemon at 5 times the capacity";
    "authorize" Trial authorize::run:
        "a daemon that is asked only by /v1/authorize, 100 times a second";
    "streams" Run streams::run:
        "four endless streams on four places, beside 100 short requests a second";
    "waits" Trial waits::run:
        "a client that opens 1 000 requests, which wait, and leaves";
};
