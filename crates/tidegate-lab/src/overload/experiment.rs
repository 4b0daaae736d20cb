//! The experiments, each made for one claim about the plane.

use std::sync::LazyLock;

use tidegate_sim::kit::report::ExperimentNote;

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

/// The notes of all experiments, in order.
static NOTES: LazyLock<[ExperimentNote; OverloadExperiment::ALL.len()]> =
    LazyLock::new(|| OverloadExperiment::ALL.map(note_of));

fn note_of(experiment: OverloadExperiment) -> ExperimentNote {
    ExperimentNote {
        id: experiment.name(),
        name: experiment.name(),
        title: experiment.title(),
        description: experiment.description(),
    }
}

impl OverloadExperiment {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Goodput, Self::HighValue, Self::DetectAndRecover, Self::Fairness, Self::ControlTraps];

    /// The note of it in reports.
    pub fn note(self) -> &'static ExperimentNote {
        &NOTES[self as usize]
    }

    /// Whether its variants are loads in rising order, over which figures are drawn.
    pub(crate) const fn is_over_loads(self) -> bool {
        matches!(self, Self::Goodput | Self::HighValue)
    }

    /// Whether a page shows a variant over time without being asked to.
    pub(crate) fn opens(self, variant: &str) -> bool {
        match self {
            Self::Goodput => variant == "5x",
            Self::DetectAndRecover => true,
            _ => false,
        }
    }

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
