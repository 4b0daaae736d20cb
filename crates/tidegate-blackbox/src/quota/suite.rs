//! The table of the experiments.

use super::experiments::{calm, kills, neighbour, operator_acts, shares, ten_envoys};
use crate::trial::{Pace, Repetition, Trial};

macro_rules! experiments {
    ($($name:literal $run:path: $claim:literal;)*) => {
        &[$(Trial {
            name: $name,
            claim: $claim,
            pace: Pace::Long,
            repeats: Repetition::Trial,
            mebibytes_max: None,
            run: $run,
        }),*]
    };
}

/// All experiments, in the order in which they run.
pub const EXPERIMENTS: &[Trial] = experiments! {
    "share" shares::run:
        "two Envoys at two daemons share 20 a second by demand, and follow demand that moves";
    "kill" kills::run:
        "daemons and Envoys are killed and started again for two minutes, then both daemons for good";
    "calm" calm::run:
        "callers within the limit while a daemon restarts, the store fails, or one of them moves";
    "acts" operator_acts::run:
        "a block, its end and a reset reach Envoys of the daemon that was told, and of the other one";
    "beside" neighbour::run:
        "a client of Envoy's RLS alone, and beside 1 000 streams of 10 buckets";
    "ten" ten_envoys::run:
        "ten Envoys at two daemons share 200 a second by demand";
};
