//! Experiments: worlds beside the ten workloads, each made for one claim about the plane.

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

    /// Those that take no more than seconds, in order.
    pub fn cheap() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|one| *one != Self::LargeFleet)
    }
}
