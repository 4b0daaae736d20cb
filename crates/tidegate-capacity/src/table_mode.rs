//! The modes of a table.

/// How the throughput of a table moves between its partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableMode {
    /// Not at all: each partition has its share. The default.
    #[default]
    Static,
    /// A partition may also spend what it left unused earlier, while its nodes have room.
    Burst,
    /// As `Burst`, and partitions that are throttled are given more than their share while the
    /// table as a whole is below its throughput.
    Adaptive,
    /// Accesses are admitted from the tokens of the whole table; a partition is bounded by its
    /// ceiling and, beyond its share, by the room of its nodes.
    Global,
}

impl TableMode {
    /// Whether partitions spend burst credit. Under global admission the tokens of the table decide
    /// instead.
    pub const fn spends_burst(self) -> bool {
        matches!(self, Self::Burst | Self::Adaptive)
    }

    /// Its word in policies: `static`, `burst`, `adaptive` or `global`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Burst => "burst",
            Self::Adaptive => "adaptive",
            Self::Global => "global",
        }
    }
}
