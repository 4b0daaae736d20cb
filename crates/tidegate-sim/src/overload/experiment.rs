//! The experiments, each made for one claim about the plane.

use serde::{Serialize, Serializer};

/// An experiment. Its rates and its length are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OverloadExperiment {
    /// Work done in time at one to ten times the capacity.
    Goodput,
    /// An important tenant beside an unimportant flood.
    HighValue,
    /// Load that rises in a step and eases again.
    DetectAndRecover,
    /// Shares of classes and tenants.
    Fairness,
    /// Faults that mislead control loops.
    ControlTraps,
}

impl OverloadExperiment {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Goodput, Self::HighValue, Self::DetectAndRecover, Self::Fairness, Self::ControlTraps];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "E1",
            Self::HighValue => "E2",
            Self::DetectAndRecover => "E3",
            Self::Fairness => "E10",
            Self::ControlTraps => "E11",
        }
    }

    /// A few words for titles.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Goodput => "work done in time at one to ten times the capacity",
            Self::HighValue => "an important tenant beside an unimportant flood",
            Self::DetectAndRecover => "load that rises in a step and eases again",
            Self::Fairness => "shares of classes and tenants",
            Self::ControlTraps => "faults that mislead control loops",
        }
    }
}

impl Serialize for OverloadExperiment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
