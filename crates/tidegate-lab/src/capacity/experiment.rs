//! Experiments: worlds beside the ten workloads, each made for one claim about the plane.

use std::sync::LazyLock;

use tidegate_sim::kit::report::ExperimentNote;

/// An experiment. Its rates and its length are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Experiment {
    /// Victims within their shares beside an attacker.
    Isolation,
    /// Writes to groups of which one follower's node is full.
    FullFollower,
    /// Reads from all members of a group.
    GroupReads,
    /// Writes of 400 units.
    LargeItems,
    /// New keys in order beside uniform load.
    MixedSequence,
    /// The same arrivals, the new keys scattered over one partition.
    MixedPermuted,
    /// The arrivals of W10, the new keys scattered over one partition.
    SequencePermuted,
    /// Nodes that are nearly full.
    Saturation,
    /// Load that rises and falls around the ceiling.
    Oscillation,
    /// Twenty times the load for ten minutes, and back.
    TwentyTimes,
    /// A thousand times the load, twice.
    ThousandTimes,
    /// Another mode every minute, under load.
    ModeChanges,
    /// Ten thousand partitions on a thousand nodes.
    LargeFleet,
}

/// The notes of all experiments, in order.
static NOTES: LazyLock<[ExperimentNote; Experiment::ALL.len()]> =
    LazyLock::new(|| Experiment::ALL.map(note_of));

fn note_of(experiment: Experiment) -> ExperimentNote {
    ExperimentNote {
        id: experiment.id(),
        name: experiment.name(),
        title: experiment.title(),
        description: experiment.description(),
    }
}

impl Experiment {
    /// All of them, in order.
    pub const ALL: [Self; 13] = [
        Self::Isolation,
        Self::FullFollower,
        Self::GroupReads,
        Self::LargeItems,
        Self::MixedSequence,
        Self::MixedPermuted,
        Self::SequencePermuted,
        Self::Saturation,
        Self::Oscillation,
        Self::TwentyTimes,
        Self::ThousandTimes,
        Self::ModeChanges,
        Self::LargeFleet,
    ];

    /// The note of it in reports.
    pub fn note(self) -> &'static ExperimentNote {
        &NOTES[self as usize]
    }

    /// Those that take no more than seconds, in order.
    pub fn cheap() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|one| *one != Self::LargeFleet)
    }

    /// The experiment of the specification that it belongs to.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Isolation => "E-ISO-1",
            Self::FullFollower => "E-WRITE",
            Self::GroupReads => "E-READ",
            Self::LargeItems => "E-BIG",
            Self::MixedSequence | Self::MixedPermuted | Self::SequencePermuted => "E-SEQ",
            Self::Saturation => "E-BUSY",
            Self::Oscillation => "E-FLAP",
            Self::TwentyTimes => "E-ETL",
            Self::ThousandTimes => "E-OD",
            Self::ModeChanges => "E-MODE",
            Self::LargeFleet => "E-LARGE",
        }
    }

    /// Its name among all, in links.
    pub const fn id(self) -> &'static str {
        match self {
            Self::MixedSequence => "E-SEQ-mixed",
            Self::MixedPermuted => "E-SEQ-mixed-permuted",
            Self::SequencePermuted => "E-SEQ-W10-permuted",
            other => other.name(),
        }
    }

    /// A few words for titles.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Isolation => "victims within their shares beside an attacker",
            Self::FullFollower => "writes to groups with one full follower",
            Self::GroupReads => "reads from all members of a group",
            Self::LargeItems => "writes of 400 units",
            Self::MixedSequence => "inserts in key order beside uniform load",
            Self::MixedPermuted => "the same arrivals, keys permuted",
            Self::SequencePermuted => "the arrivals of W10, keys permuted",
            Self::Saturation => "nodes that are nearly full",
            Self::Oscillation => "load that rises and falls around the ceiling",
            Self::TwentyTimes => "twenty times the load for ten minutes, and back",
            Self::ThousandTimes => "a thousand times the load, twice",
            Self::ModeChanges => "another mode every minute",
            Self::LargeFleet => "ten thousand partitions on a thousand nodes",
        }
    }
}
