//! The errors of the capacity plane.

use core::fmt;

use tidegate_core::AccessOperation;
use tidegate_core::display::shortened;

use crate::fault::Fault;
use crate::node::{NodeConfig, NodeLoad, promisable};
use crate::table_config::TableConfig;
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
    /// An access larger than its table allows, see [`TableConfig::read_bytes_max`].
    #[error(
        "a {operation} of {bytes} bytes is larger than table \"{table}\" allows; send at most {bytes_max} bytes at a \
         time, or raise `max_access: {{ {operation}: .. }}` of the table",
        operation = operation.as_str()
    )]
    TooLarge {
        /// The table.
        table: String,
        /// Read or write.
        operation: AccessOperation,
        /// Its size.
        bytes: u64,
        /// The largest size.
        bytes_max: u64,
    },
    /// An access heavier than [`Units::LARGEST_REQUEST`], whatever its table allows.
    #[error(
        "a {operation} of {bytes} bytes weighs more than {most} units; send at most {bytes_max} bytes at a time",
        operation = operation.as_str(), most = Units::LARGEST_REQUEST
    )]
    TooHeavy {
        /// Read or write.
        operation: AccessOperation,
        /// Its size.
        bytes: u64,
        /// The largest size.
        bytes_max: u64,
    },
    /// A bound on the size of accesses that admits none, or that no access could use.
    #[error(
        "table \"{table}\" allows a {operation} of {bytes} bytes; use 1 to {bytes_max}",
        operation = operation.as_str()
    )]
    AccessBytes {
        /// The table.
        table: String,
        /// Read or write.
        operation: AccessOperation,
        /// The bound.
        bytes: u64,
        /// The highest bound.
        bytes_max: u64,
    },
    /// A key longer than [`crate::Access::KEY_BYTES_MAX`].
    #[error("a key of {bytes} bytes is longer than one may be; use at most {max} bytes", max = crate::Access::KEY_BYTES_MAX)]
    KeyTooLong {
        /// Its size.
        bytes: usize,
    },
    /// A true weight that no access has.
    #[error(
        "an access cannot weigh {units} units; use 0 to {max}",
        max = Units::LARGEST_REQUEST
    )]
    TrueUnits {
        /// The weight.
        units: Units,
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
    /// Shares below a thousandth of a unit, with which a partition would never admit anything.
    #[error(
        "table \"{table}\": {units} units a second are too few for {partitions} partitions; use at most {max} \
         partitions, or mode global"
    )]
    ThinShares {
        /// The table.
        table: String,
        /// The units a second of the direction that has fewer.
        units: u64,
        /// The partitions.
        partitions: u32,
        /// As many as each get a thousandth.
        max: u64,
    },
    /// Warm throughput of a table whose partitions have shares of their own.
    #[error(
        "table \"{table}\" has warm throughput, whose partitions would divide its shares; use mode global, or remove it"
    )]
    WarmShares {
        /// The table.
        table: String,
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
    /// A partition that the table does not have, or no longer has.
    #[error(
        "table \"{table}\" has no partition {partition}: it may have been split or merged; use the number of one of \
         its {count} partitions"
    )]
    UnknownPartition {
        /// The table.
        table: String,
        /// The number of the partition.
        partition: u32,
        /// The number of its partitions.
        count: usize,
    },
    /// Bounds of partitions that do not ascend, or are no positions of the table.
    #[error(
        "the bounds of table \"{table}\" do not tile its keys; use ascending positions, one fewer than partitions"
    )]
    Bounds {
        /// The table.
        table: String,
    },
    /// Burst credit of more than [`TableConfig::BURST_MAX`].
    #[error(
        "table \"{table}\" keeps unused throughput for {seconds} s; use at most {max} s",
        max = TableConfig::BURST_MAX.as_secs()
    )]
    Burst {
        /// The table.
        table: String,
        /// How long.
        seconds: u64,
    },
    /// No member, too many, or more than there are nodes for.
    #[error(
        "table \"{table}\" has groups of {replicas} on {nodes} {node}; use 1 to {max}, and at most one for each node",
        node = if *nodes == 1 { "node" } else { "nodes" },
        max = TableConfig::REPLICAS_MAX
    )]
    Replicas {
        /// The table.
        table: String,
        /// The members of each group.
        replicas: u8,
        /// Its different nodes.
        nodes: usize,
    },
    /// A ceiling that keeps partitions from their share.
    #[error(
        "table \"{table}\": a partition's share of {what} units is more than its ceiling of {ceiling} a second; use \
         more partitions or a higher ceiling"
    )]
    CeilingBelowShare {
        /// The table.
        table: String,
        /// Read or write.
        what: &'static str,
        /// The ceiling.
        ceiling: u64,
    },
    /// A reserve above [`NodeConfig::RESERVE_PERCENT_MAX`].
    #[error(
        "node \"{node}\" reserves {percent} % of its units; use at most {max} %",
        max = NodeConfig::RESERVE_PERCENT_MAX
    )]
    Reserve {
        /// The node.
        node: String,
        /// How much.
        percent: u8,
    },
    /// A table of an account that does not exist.
    #[error(
        "table \"{table}\" is of account \"{account}\", which does not exist; add it or correct the name"
    )]
    UnknownAccount {
        /// The table.
        table: String,
        /// The account, cut if its name is long.
        account: String,
    },
    /// An index of a table that does not exist.
    #[error("index \"{index}\" is of table \"{table}\", which does not exist; add it or correct the name")]
    UnknownBaseTable {
        /// The index.
        index: String,
        /// The table, cut if its name is long.
        table: String,
    },
    /// A move of a replica that the node does not hold.
    #[error(
        "node \"{node}\" holds no replica of partition {partition} of table \"{table}\"; name one that does"
    )]
    NoReplica {
        /// The table.
        table: String,
        /// The number of the partition.
        partition: u32,
        /// The node.
        node: String,
    },
    /// A move of a replica to a node that holds another one.
    #[error(
        "node \"{node}\" holds a replica of partition {partition} of table \"{table}\" already; name another node"
    )]
    SecondReplica {
        /// The table.
        table: String,
        /// The number of the partition.
        partition: u32,
        /// The node.
        node: String,
    },
    /// A cut outside a partition or before its first position.
    #[error(
        "partition {partition} of table \"{table}\" holds {range}, which cannot be cut there; use a position within, \
         behind its first"
    )]
    SplitOutside {
        /// The table.
        table: String,
        /// The number of the partition.
        partition: u32,
        /// Its range.
        range: String,
    },
    /// A partition that cannot be joined with the one behind it.
    #[error("partition {partition} of table \"{table}\" cannot be merged: {why}")]
    MergeImpossible {
        /// The table.
        table: String,
        /// The number of the partition.
        partition: u32,
        /// Why not.
        why: &'static str,
    },
    /// A node whose partitions are promised more than it can do, or more than its reserve leaves.
    #[error(
        "node \"{node}\" can do {units} units a second{reserved}, but its partitions are promised {promised}; raise it \
         or place partitions elsewhere",
        reserved = Reserved(*reserve_percent)
    )]
    NodeOvercommitted {
        /// The node.
        node: String,
        /// The units a second that it can do.
        units: u64,
        /// The hundredths of them that are promised to no partition.
        reserve_percent: u8,
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
        Self::UnknownTable { namespace: shown(namespace), table: shown(name) }
    }
}

/// At most so many bytes of a name from outside are shown in a message.
const SHOWN_BYTES_MAX: usize = 60;

/// A name from outside in a message.
pub(crate) fn shown(name: &str) -> String {
    shortened(name, SHOWN_BYTES_MAX).into_owned()
}

/// A reserve in a message; nothing for none.
struct Reserved(u8);

impl fmt::Display for Reserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            percent => write!(f, " and reserves {percent} %"),
        }
    }
}

/// Fails when a node of `units` a second cannot bear `load`.
pub(crate) fn check_load(
    node: &str,
    units: u64,
    reserve_percent: u8,
    load: NodeLoad,
) -> Result<(), CapacityError> {
    if load.promised > promisable(units, reserve_percent) && !Fault::PromiseUnchecked.is_planted() {
        let promised = Units::from_rate(load.promised);
        return Err(CapacityError::NodeOvercommitted {
            node: node.to_owned(),
            units,
            reserve_percent,
            promised,
        });
    }
    Ok(())
}
