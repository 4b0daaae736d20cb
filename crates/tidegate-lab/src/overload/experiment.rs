//! The experiments, each made for one claim about the plane.

use std::sync::LazyLock;

use tidegate_sim::overload::{OpenedVariants, OverloadExperimentNote};

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
static NOTES: LazyLock<[OverloadExperimentNote; OverloadExperiment::ALL.len()]> =
    LazyLock::new(|| OverloadExperiment::ALL.map(note_of));

fn note_of(experiment: OverloadExperiment) -> OverloadExperimentNote {
    OverloadExperimentNote {
        name: experiment.name(),
        title: experiment.title(),
        description: experiment.description(),
        is_over_loads: matches!(experiment, OverloadExperiment::Goodput | OverloadExperiment::HighValue),
        opened: match experiment {
            OverloadExperiment::Goodput => OpenedVariants::One("5x"),
            OverloadExperiment::DetectAndRecover => OpenedVariants::All,
            _ => OpenedVariants::None,
        },
    }
}

impl OverloadExperiment {
    /// All of them, in order.
    pub const ALL: [Self; 5] =
        [Self::Goodput, Self::HighValue, Self::DetectAndRecover, Self::Fairness, Self::ControlTraps];

    /// The note of it in reports.
    pub fn note(self) -> &'static OverloadExperimentNote {
        &NOTES[self as usize]
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
