//! From configured nodes and tables to a checked [`Capacity`].

use std::collections::BTreeMap;

use super::{Capacity, Node};
use crate::bucket::{Bucket, Flow};
use crate::key_range::key_hash;
use crate::table::{Table, TableConfig, share};
use crate::units::Units;

/// The nodes and tables of a [`Capacity`] to be.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CapacityBuilder {
    nodes: Vec<(String, u64)>,
    tables: Vec<TableConfig>,
}

impl CapacityBuilder {
    /// The most nodes.
    pub const NODES_MAX: usize = 10_000;
    /// The most tables.
    pub const TABLES_MAX: usize = 10_000;
    /// The most partitions of all tables together; each takes 64 bytes.
    pub const PARTITIONS_MAX: usize = 1_000_000;

    /// A node that can do `units_per_second`, reads and writes together; 1 to
    /// [`TableConfig::UNITS_PER_SECOND_MAX`].
    pub fn node(mut self, name: impl Into<String>, units_per_second: u64) -> Self {
        self.nodes.push((name.into(), units_per_second));
        self
    }

    /// A table on nodes given before or after it.
    pub fn table(mut self, table: TableConfig) -> Self {
        self.tables.push(table);
        self
    }

    /// Checks everything and fills all buckets. Fails with the first problem found.
    pub fn build(self) -> Result<Capacity, CapacityError> {
        check_count("nodes", self.nodes.len(), Self::NODES_MAX)?;
        check_count("tables", self.tables.len(), Self::TABLES_MAX)?;
        let partitions = self.tables.iter().map(|table| table.partitions as usize);
        check_count("partitions", partitions.fold(0, usize::saturating_add), Self::PARTITIONS_MAX)?;
        let mut positions = BTreeMap::new();
        for (position, (name, units)) in (0_u32..).zip(&self.nodes) {
            check_name("node", name)?;
            check_rate("node", name, "units", *units)?;
            if positions.insert(name.as_str(), position).is_some() {
                return Err(CapacityError::DuplicateName { kind: "node", name: name.clone() });
            }
        }
        // Thousandths a second that the partitions on each node are promised, and how many buckets
        // they have.
        let mut promised = vec![(0_u64, 0_u64); self.nodes.len()];
        let mut names = BTreeMap::new();
        let mut tables = Vec::with_capacity(self.tables.len());
        for (index, table) in (0_u32..).zip(&self.tables) {
            let nodes = check_table(table, &positions)?;
            if names.insert(table.name.as_str(), index).is_some() {
                return Err(CapacityError::DuplicateName { kind: "table", name: table.name.clone() });
            }
            for (partition, node) in (0..table.partitions).zip(nodes.iter().cycle()) {
                let (rate, buckets) = &mut promised[*node as usize];
                *rate += share(table.read_units_per_second, partition, table.partitions);
                *rate += share(table.write_units_per_second, partition, table.partitions);
                *buckets += 2;
            }
            tables.push(Table::new(table, &nodes));
        }
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for ((name, units), (promised, buckets)) in self.nodes.iter().zip(promised) {
            if promised > units * 1000 {
                let promised = Units::from_thousandths(promised.cast_signed());
                return Err(CapacityError::NodeOvercommitted { node: name.clone(), units: *units, promised });
            }
            nodes.push(node(name, *units, promised, buckets));
        }
        let mut by_name: Vec<(u64, u32)> =
            names.into_iter().map(|(name, index)| (key_hash(name.as_bytes()), index)).collect();
        by_name.sort_unstable();
        Ok(Capacity { tables: tables.into(), by_name: by_name.into(), nodes: nodes.into() })
    }
}

/// A full node. Its bucket holds a tenth of a second, and goes into debt at most by what its
/// partitions can use beyond their rates: everything in their buckets and one large request each.
fn node(name: &str, units: u64, promised: u64, buckets: u64) -> Node {
    let rate = units * 1000;
    let debt_max = promised + buckets * Units::LARGEST_REQUEST.as_thousandths().cast_unsigned();
    Node {
        name: name.into(),
        flow: Flow::new(rate, rate / NODE_DEPTHS_PER_SECOND, debt_max),
        bucket: Bucket::default(),
    }
}

/// A node's bucket holds its rate for one such part of a second.
const NODE_DEPTHS_PER_SECOND: u64 = 10;

fn check_table(table: &TableConfig, nodes: &BTreeMap<&str, u32>) -> Result<Vec<u32>, CapacityError> {
    check_name("table", &table.name)?;
    check_rate("table", &table.name, "read units", table.read_units_per_second)?;
    check_rate("table", &table.name, "write units", table.write_units_per_second)?;
    if !(1..=TableConfig::PARTITIONS_MAX).contains(&table.partitions) {
        return Err(CapacityError::Partitions { table: table.name.clone(), partitions: table.partitions });
    }
    if table.nodes.is_empty() {
        return Err(CapacityError::Unplaced { table: table.name.clone() });
    }
    let position = |node: &String| {
        nodes
            .get(node.as_str())
            .copied()
            .ok_or_else(|| CapacityError::UnknownNode { table: table.name.clone(), node: shortened(node) })
    };
    table.nodes.iter().map(position).collect()
}

fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), CapacityError> {
    if count > max { Err(CapacityError::TooMany { what, count, max }) } else { Ok(()) }
}

fn check_name(kind: &'static str, name: &str) -> Result<(), CapacityError> {
    if name.is_empty() || name.len() > TableConfig::NAME_BYTES_MAX {
        return Err(CapacityError::Name { kind, name: shortened(name) });
    }
    Ok(())
}

fn check_rate(kind: &'static str, name: &str, what: &'static str, units: u64) -> Result<(), CapacityError> {
    if units == 0 {
        return Err(CapacityError::ZeroRate { kind, name: name.to_owned(), what });
    }
    if units > TableConfig::UNITS_PER_SECOND_MAX {
        return Err(CapacityError::RateTooHigh { kind, name: name.to_owned(), what, units });
    }
    Ok(())
}

/// At most so many characters of a name from outside are shown in a message.
const SHOWN_CHARS_MAX: usize = 64;

fn shortened(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// Why a store cannot be built, or an access cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CapacityError {
    /// An access to a table that does not exist.
    #[error("table \"{table}\" does not exist; name one that is configured")]
    UnknownTable {
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
    /// A node whose partitions are promised more than it can do.
    #[error(
        "node \"{node}\" can do {units} units a second, but its partitions are promised {promised}; raise it or place \
         partitions elsewhere"
    )]
    NodeOvercommitted {
        /// The node.
        node: String,
        /// What it can do a second.
        units: u64,
        /// What its partitions may use a second.
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
    pub(super) fn unknown_table(name: &str) -> Self {
        Self::UnknownTable { table: shortened(name) }
    }
}
