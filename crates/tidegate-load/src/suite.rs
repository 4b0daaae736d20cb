//! The table of the experiments.

use tidegate_abuse::attack::Failure;

use crate::experiments::{authorize, crashes, factors, neighbour, step, waits};
use crate::findings::Findings;
use crate::testbed::Settings;

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name, unique in the suite, as `--only` takes it.
    pub name: &'static str,
    /// The question that it answers.
    pub asks: &'static str,
    /// Runs it. Figures that were found before it failed are kept.
    pub run: fn(&Settings, &mut Findings) -> Result<(), Failure>,
}

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "factors",
        asks: "E1 and E2: goodput at 1, 2, 5 and 10 times the capacity, and the tenant that matters",
        run: factors::run,
    },
    Experiment {
        name: "step",
        asks: "E3: a step from 0.8 to 2 times the capacity and down to 0.5",
        run: step::run,
    },
    Experiment {
        name: "neighbour",
        asks: "an upstream beside one that is offered 10 times its capacity",
        run: neighbour::run,
    },
    Experiment {
        name: "killed-upstream",
        asks: "kill -9 of the upstream at 5 times its capacity",
        run: crashes::killed_upstream,
    },
    Experiment {
        name: "killed-daemon",
        asks: "kill -9 and restart of the daemon at 5 times the capacity",
        run: crashes::killed_daemon,
    },
    Experiment {
        name: "authorize",
        asks: "a daemon that is asked only by /v1/authorize, 100 times a second",
        run: authorize::run,
    },
    Experiment {
        name: "waits",
        asks: "a client that opens 1 000 requests, which wait, and leaves",
        run: waits::run,
    },
];
