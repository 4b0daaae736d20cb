//! Reference values: throttled shares that a fluid model of the specification gives for the
//! baseline at full rates over 900 seconds, in hundredths.
//!
//! They were computed once, elsewhere, with other keys. [`crate::capacity::FluidShares`] gives the
//! values for the keys of a run.

use crate::capacity::design::Design;
use crate::capacity::workload::Workload;

/// The reference value of a workload under a design; `None` where the specification has none.
pub const fn reference_percent(workload: Workload, design: Design) -> Option<f64> {
    let [s, b, a, g, gb, gp] = match workload {
        Workload::Uniform => [0.0, 0.0, 0.0, 0.02, 0.02, 0.02],
        Workload::Zipf => [14.6, 9.4, 3.5, 0.02, 0.02, 0.02],
        Workload::SteepZipf => [31.8, 26.6, 18.3, 4.4, 4.4, 0.12],
        Workload::ContiguousZipf => [64.7, 62.1, 57.4, 49.1, 49.1, 2.0],
        Workload::MovingPartition => [15.3, 0.0, 0.0, 0.02, 0.02, 0.02],
        Workload::Step => [14.0, 8.0, 4.1, 0.03, 0.03, 0.03],
        // Of the static design it is said that it throttles the spike.
        Workload::Spike => [-1.0, 0.0, 0.0, 0.02, 0.02, 0.02],
        Workload::SkewSpike => [15.9, 8.1, 5.0, 2.2, 2.2, 0.17],
        Workload::OneKey => [42.7, 39.2, 33.0, 21.9, 21.9, 18.9],
        Workload::Sequential => [68.7, 43.5, 43.5, 43.5, 43.5, 43.5],
    };
    let value = match design {
        Design::Static => s,
        Design::Burst => b,
        Design::Adaptive => a,
        Design::Global => g,
        Design::Balanced => gb,
        Design::Split => gp,
    };
    if value < 0.0 { None } else { Some(value) }
}
