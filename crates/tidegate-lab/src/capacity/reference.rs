//! Reference values: throttled shares that a fluid model of the specification gives for the
//! baseline at full rates over 900 seconds, in hundredths.
//!
//! They were computed once, elsewhere, with other keys. [`tidegate_sim::capacity::FluidShares`]
//! gives the values for the keys of a run.

use tidegate_sim::capacity::Design;

use crate::capacity::workload::Workload;

impl Workload {
    /// The reference value under a design; `None` where the specification has none.
    pub const fn reference_percent(self, design: Design) -> Option<f64> {
        let [s, b, a, g, gb, gp] = match self {
            Self::Uniform => [0.0, 0.0, 0.0, 0.02, 0.02, 0.02],
            Self::Zipf => [14.6, 9.4, 3.5, 0.02, 0.02, 0.02],
            Self::SteepZipf => [31.8, 26.6, 18.3, 4.4, 4.4, 0.12],
            Self::ContiguousZipf => [64.7, 62.1, 57.4, 49.1, 49.1, 2.0],
            Self::MovingPartition => [15.3, 0.0, 0.0, 0.02, 0.02, 0.02],
            Self::Step => [14.0, 8.0, 4.1, 0.03, 0.03, 0.03],
            // Of the static design it is said that it throttles the spike.
            Self::Spike => [-1.0, 0.0, 0.0, 0.02, 0.02, 0.02],
            Self::SkewSpike => [15.9, 8.1, 5.0, 2.2, 2.2, 0.17],
            Self::OneKey => [42.7, 39.2, 33.0, 21.9, 21.9, 18.9],
            Self::Sequential => [68.7, 43.5, 43.5, 43.5, 43.5, 43.5],
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
}
