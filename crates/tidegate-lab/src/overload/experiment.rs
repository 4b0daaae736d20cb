//! The experiments, each made for one claim about the plane.

use clap::ValueEnum;

/// An experiment. Its rates and its length are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
pub enum OverloadExperiment {
    /// Work done in time at one to ten times the capacity.
    #[value(name = "E1")]
    Goodput,
    /// An important tenant beside an unimportant flood.
    #[value(name = "E2")]
    HighValue,
    /// Load that rises in a step and eases again.
    #[value(name = "E3")]
    DetectAndRecover,
    /// Features that are off while there is no room for them.
    #[value(name = "E4")]
    FeatureRamp,
    /// Features that stay as they are under noise.
    #[value(name = "E5")]
    FeatureNoise,
    /// Features with levels rather than on and off.
    #[value(name = "E6")]
    FeatureLevels,
    /// A batch whose requests are deferred.
    #[value(name = "E9")]
    Deferral,
    /// Shares of classes and tenants.
    #[value(name = "E10")]
    Fairness,
    /// Faults that mislead control loops.
    #[value(name = "E11")]
    ControlTraps,
}

impl OverloadExperiment {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Goodput,
        Self::HighValue,
        Self::DetectAndRecover,
        Self::FeatureRamp,
        Self::FeatureNoise,
        Self::FeatureLevels,
        Self::Deferral,
        Self::Fairness,
        Self::ControlTraps,
    ];

    /// Whether its variants are loads in rising order, over which figures are drawn.
    pub(crate) const fn is_over_loads(self) -> bool {
        matches!(self, Self::Goodput | Self::HighValue)
    }

    /// Whether a page shows a variant over time without being asked to.
    pub(crate) fn opens(self, variant: &str) -> bool {
        match self {
            Self::Goodput => variant == "5x",
            Self::DetectAndRecover | Self::FeatureRamp | Self::FeatureLevels | Self::Deferral => true,
            _ => false,
        }
    }
}
