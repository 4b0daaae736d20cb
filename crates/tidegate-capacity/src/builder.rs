//! From configured nodes and tables to a checked [`Capacity`].

use std::collections::BTreeMap;

use crate::capacity::Capacity;
use crate::error::{CapacityError, check_load, shortened};
use crate::key_range::key_hash;
use crate::node::{Node, NodeLoad};
use crate::table::{Table, TableConfig};

/// The nodes and tables of a [`Capacity`] to be.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CapacityBuilder {
    nodes: Vec<(String, u64)>,
    tables: Vec<TableConfig>,
}

impl Capacity {
    /// A store without nodes or tables yet.
    pub fn builder() -> CapacityBuilder {
        CapacityBuilder::default()
    }
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
        let mut loads = vec![NodeLoad::default(); self.nodes.len()];
        let mut names = BTreeMap::new();
        let mut tables = Vec::with_capacity(self.tables.len());
        for (index, table) in (0_u32..).zip(&self.tables) {
            let nodes = check_table(table, &positions)?;
            if names.insert(table.name.as_str(), index).is_some() {
                return Err(CapacityError::DuplicateName { kind: "table", name: table.name.clone() });
            }
            let table = Table::new(table, &nodes);
            for partition in &table.partitions {
                let load = &mut loads[partition.node() as usize];
                *load = load.with_partition(partition.promised());
            }
            tables.push(table);
        }
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for ((name, units), load) in self.nodes.iter().zip(&loads) {
            check_load(name, *units, *load)?;
            nodes.push(Node::new(name, *units, *load));
        }
        let mut by_name: Vec<(u64, u32)> =
            names.into_iter().map(|(name, index)| (key_hash(name.as_bytes()), index)).collect();
        by_name.sort_unstable();
        Ok(Capacity::of(tables, by_name, nodes, loads))
    }
}

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
