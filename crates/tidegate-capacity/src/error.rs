//! The errors of the capacity plane.

use crate::node::NodeLoad;
use crate::table::TableConfig;
use crate::units::Units;

/// The reason for which a store cannot be built, or an access cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// An access to a table that does not exist.
    #[error("table \"{table}\" does not exist in namespace \"{namespace}\"; name one that it has")]
    UnknownTable {
        /// The namespace, cut if it is long.
        namespace: String,
        /// Its name, cut if it is long.
        table: String,
    },
    /// An access larger than one may be.
    #[error("a {what} of {bytes} bytes is larger than one may be; send at most {bytes_max} bytes at a time")]
    TooLarge {
        /// Read or write.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The largest size.
        bytes_max: u64,
    },
    /// A name that is empty or longer than [`TableConfig::NAME_BYTES_MAX`].
    #[error(
        "{kind} \"{name}\" has a name that is empty or too long; use 1 to {max} bytes",
        max = TableConfig::NAME_BYTES_MAX
    )]
    Name {
        /// Node or table.
        kind: &'static str,
        /// Its name, cut if it is long.
        name: String,
    },
    /// Two nodes or two tables of one name.
    #[error("{kind} \"{name}\" is given twice; rename one of them")]
    DuplicateName {
        /// Node or table.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A rate of zero.
    #[error("{kind} \"{name}\": 0 {what} a second admit nothing; use at least 1")]
    ZeroRate {
        /// Node or table.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Which units.
        what: &'static str,
    },
    /// A rate above [`TableConfig::UNITS_PER_SECOND_MAX`].
    #[error(
        "{kind} \"{name}\": {units} {what} a second are above what is counted exactly; use at most {max}",
        max = TableConfig::UNITS_PER_SECOND_MAX
    )]
    RateTooHigh {
        /// Node or table.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Which units.
        what: &'static str,
        /// How many.
        units: u64,
    },
    /// No partition, or more than [`TableConfig::PARTITIONS_MAX`].
    #[error("table \"{table}\" has {partitions} partitions; use 1 to {max}", max = TableConfig::PARTITIONS_MAX)]
    Partitions {
        /// The table.
        table: String,
        /// How many.
        partitions: u32,
    },
    /// A table without nodes.
    #[error("table \"{table}\" lies on no node; name at least one under its nodes")]
    Unplaced {
        /// The table.
        table: String,
    },
    /// A table on a node that does not exist.
    #[error(
        "table \"{table}\" lies on node \"{node}\", which does not exist; add the node or correct the name"
    )]
    UnknownNode {
        /// The table.
        table: String,
        /// The node, cut if its name is long.
        node: String,
    },
    /// A partition that the table does not have.
    #[error("table \"{table}\" has no partition {partition}; use 0 to {last}")]
    UnknownPartition {
        /// The table.
        table: String,
        /// The partition, counted from 0.
        partition: u32,
        /// Its last partition.
        last: u32,
    },
    /// A node whose partitions are promised more than it can do.
    #[error(
        "node \"{node}\" can do {units} units a second, but its partitions are promised {promised}; raise it or place \
         partitions elsewhere"
    )]
    NodeOvercommitted {
        /// The node.
        node: String,
        /// The units a second that it can do.
        units: u64,
        /// The units a second that its partitions are promised.
        promised: Units,
    },
    /// More nodes, tables or partitions than there may be.
    #[error("{count} {what} are too many; use at most {max}")]
    TooMany {
        /// Nodes, tables or partitions.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most.
        max: usize,
    },
}

impl CapacityError {
    pub(crate) fn unknown_table(namespace: &str, name: &str) -> Self {
        Self::UnknownTable { namespace: shortened(namespace), table: shortened(name) }
    }
}

/// At most so many characters of a name from outside are shown in a message.
const SHOWN_CHARS_MAX: usize = 64;

pub(crate) fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// Fails when a node of `units` a second cannot bear `load`.
pub(crate) fn check_load(node: &str, units: u64, load: NodeLoad) -> Result<(), CapacityError> {
    if load.promised > units * 1000 {
        let promised = Units::from_thousandths(load.promised.cast_signed());
        return Err(CapacityError::NodeOvercommitted { node: node.to_owned(), units, promised });
    }
    Ok(())
}
