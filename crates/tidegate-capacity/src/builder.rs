//! From configured nodes and tables to a checked [`Capacity`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::capacity::{Capacity, name_hash};
use crate::error::{CapacityError, check_load, shortened};
use crate::node::{Node, NodeLoad};
use crate::table::{Table, TableConfig, TableId};

/// The nodes and tables of a [`Capacity`] to be.
///
/// ```
/// # use tidegate_capacity::{Capacity, TableConfig};
/// let orders = TableConfig::new("shop", "orders", 400, 100).nodes(["node-a"]);
/// // The node must bear the reads and the writes of all its partitions.
/// assert!(Capacity::builder().node("node-a", 499).table(orders.clone()).build().is_err());
/// let capacity = Capacity::builder().node("node-a", 500).table(orders).build()?;
/// assert!(capacity.tables().eq([("shop", "orders")]));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
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

const _: () = assert!(CapacityBuilder::NODES_MAX <= u16::MAX as usize, "the node of a hold fits");

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

    /// Whether there is any table.
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Checks everything and fills all buckets. Fails with the first problem found.
    pub fn build(self) -> Result<Capacity, CapacityError> {
        self.build_after(None)
    }

    /// Checks everything and goes on from the state of `earlier`, which may still decide until
    /// everybody uses the new one. Fails with the first problem found; then nothing has changed.
    ///
    /// A table with the same numbers on the same nodes is shared by both: nothing is lost, and its
    /// partitions stay where they were placed. The partitions of one whose throughput or number of
    /// partitions differs lack at first what those before lacked, without their debts; what
    /// `earlier` admits to it afterwards is not seen. If the names of the nodes differ, the
    /// partitions of all tables are laid on the new nodes in turn. Units that are held are given
    /// back to a table that is shared; those of another table stay charged.
    pub fn build_over(self, earlier: &Capacity, now: Timestamp) -> Result<Capacity, CapacityError> {
        self.build_after(Some((earlier, now)))
    }

    fn build_after(self, earlier: Option<(&Capacity, Timestamp)>) -> Result<Capacity, CapacityError> {
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
        let has_same_nodes = earlier.is_some_and(|(earlier, _)| {
            earlier.nodes.iter().map(|node| &*node.name).eq(self.nodes.iter().map(|(name, _)| name.as_str()))
        });
        let mut next_id = earlier.map_or(0, |(earlier, _)| earlier.next_id);
        let mut loads = vec![NodeLoad::default(); self.nodes.len()];
        let mut names = BTreeMap::new();
        let mut tables = Vec::with_capacity(self.tables.len());
        for (index, config) in (0_u32..).zip(&self.tables) {
            let nodes = check_table(config, &positions)?;
            if names.insert((config.namespace.as_str(), config.name.as_str()), index).is_some() {
                return Err(CapacityError::DuplicateName { kind: "table", name: config.name.clone() });
            }
            let known = earlier.and_then(|(earlier, now)| {
                Some((earlier.table(&config.namespace, &config.name).ok()?.1, now))
            });
            let table = match known {
                Some((known, _)) if has_same_nodes && known.is_configured_as(config) => Arc::clone(known),
                known => {
                    let table = Table::new(TableId(next_id), config, &nodes);
                    next_id = next_id.wrapping_add(1);
                    if let Some((known, now)) = known {
                        table.take_over(known, now);
                    }
                    Arc::new(table)
                }
            };
            for partition in &table.partitions {
                let load = &mut loads[partition.node() as usize];
                *load = load.with_partition(partition.promised());
            }
            tables.push(table);
        }
        for ((name, units), load) in self.nodes.iter().zip(&loads) {
            check_load(name, *units, *load)?;
        }
        let mut nodes = Vec::with_capacity(self.nodes.len());
        for ((name, units), load) in self.nodes.iter().zip(&loads) {
            let known = earlier.and_then(|(earlier, now)| {
                Some((earlier.nodes.iter().find(|node| *node.name == **name)?, now))
            });
            nodes.push(match known {
                Some((known, _)) if known.rate() == units * 1000 => {
                    known.bear(*load);
                    Arc::clone(known)
                }
                known => {
                    let node = Node::new(name, *units, *load);
                    if let Some((known, now)) = known {
                        node.take_over(known, now);
                    }
                    Arc::new(node)
                }
            });
        }
        let mut by_name: Vec<(u64, u32)> =
            names.into_iter().map(|((namespace, name), index)| (name_hash(namespace, name), index)).collect();
        by_name.sort_unstable();
        Ok(Capacity::of(tables, by_name, nodes, loads, next_id))
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
