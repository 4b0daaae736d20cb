//! The designs that are compared: one table under different modes and control loops.

use serde::{Serialize, Serializer};
use tidegate_capacity::TableMode;
use tidegate_capacity::plan::{Plan, PlanReason, PlannedChange};

/// A way to share a table's throughput between its partitions. Each adds one thing to the one
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Design {
    /// Equal shares.
    Static,
    /// And burst credit that partitions left unused.
    Burst,
    /// And boosts of throttled partitions.
    Adaptive,
    /// Tokens of the whole table, bounded by partition ceilings and nodes.
    Global,
    /// And moves away from busy nodes.
    Balanced,
    /// And splits and merges.
    Split,
}

impl Design {
    /// All of them, in order.
    pub const ALL: [Self; 6] =
        [Self::Static, Self::Burst, Self::Adaptive, Self::Global, Self::Balanced, Self::Split];

    /// The design of a table with global admission under the control loops, as the daemon has it.
    pub const SHIPPED: Self = Self::Split;

    /// One or two letters, as in tables.
    pub const fn letters(self) -> &'static str {
        match self {
            Self::Static => "S",
            Self::Burst => "B",
            Self::Adaptive => "A",
            Self::Global => "G",
            Self::Balanced => "GB",
            Self::Split => "GP",
        }
    }

    /// A few words for titles.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Static => "static shares",
            Self::Burst => "burst credit",
            Self::Adaptive => "adaptive boosts",
            Self::Global => "global admission",
            Self::Balanced => "global admission and balancing",
            Self::Split => "global admission, balancing, split and merge",
        }
    }

    /// A sentence that describes it.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Static => {
                "Each partition may spend an equal share of the table's throughput, and no more, however idle the \
                 others are."
            }
            Self::Burst => {
                "As S; a partition may also spend what it left unused in the last five minutes, while its node has \
                 room."
            }
            Self::Adaptive => {
                "As B; a partition that is throttled gets a larger share while the table as a whole is below its \
                 throughput."
            }
            Self::Global => {
                "Requests are admitted from tokens of the whole table. A partition is bounded by its ceiling and, \
                 beyond its share, by the room of its node."
            }
            Self::Balanced => "As G; partitions move away from nodes that are nearly full.",
            Self::Split => {
                "As GB; a partition whose ceiling throttles it is cut in two, and cool neighbours are joined."
            }
        }
    }

    /// The mode of the table.
    pub(crate) const fn mode(self) -> TableMode {
        match self {
            Self::Static => TableMode::Static,
            Self::Burst => TableMode::Burst,
            Self::Adaptive => TableMode::Adaptive,
            Self::Global | Self::Balanced | Self::Split => TableMode::Global,
        }
    }

    /// Whether control loops work beside the table.
    pub(crate) const fn is_controlled(self) -> bool {
        matches!(self, Self::Adaptive | Self::Balanced | Self::Split)
    }

    /// Whether the design carries out a plan of the control loops.
    pub(crate) const fn carries_out(self, plan: &Plan) -> bool {
        match (self, &plan.change) {
            (Self::Split, _) => true,
            (Self::Balanced, PlannedChange::Move(_)) => matches!(plan.reason, PlanReason::NodeBusy),
            _ => false,
        }
    }
}

impl Serialize for Design {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.letters())
    }
}
