//! All tables and nodes of a store.
//!
//! **Admission** (`admission.rs`). An access passes the tokens of its account and, under global
//! admission, of its table; then its partition, whose ceiling bounds everything and whose
//! allocation admits whatever it has anything left for; beyond the allocation, the burst credit and
//! the room of the nodes. A refused access leaves everything as it was.
//!
//! **Isolation.** The allocated path reads no level but those of the partition, so a partition
//! within its own rate is never refused because of a neighbour. It still debits the nodes, whatever
//! is left there: that debit closes the burst path of the neighbours until the node is back in
//! credit. A placement whose rates exceed what a node may promise is an error.
//!
//! **Settlement** (`settlement.rs`). A hold is given back or settled to the partition that owns its
//! position then. Units are conserved over splits, merges, moves, boosts and reloads; units that no
//! longer have room are counted as overflow.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::Timestamp;

use crate::access::AccessKind;
use crate::account::Account;
use crate::admission::hold::UnitsHold;
use crate::admission::throttled::Throttled;
use crate::error::CapacityError;
use crate::layout::key_hash::key_hash;
use crate::layout::position::Position;
use crate::node::{Node, NodeLoad};
use crate::status::{NodeStatus, OperationStatus, PartitionStatus, TableStatus};
use crate::sync::Ordering;
use crate::table::{Table, least_firsts};
use crate::table_config::{AccessBytes, TableMode};
use crate::units::Units;

/// Tables with provisioned throughput on nodes.
///
/// All methods take `&self` and may be called from any number of threads. An access locks its
/// partition and nothing else. Allocations are full at first.
///
/// ```
/// # use tidegate_capacity::{Access, Admission, Capacity, TableConfig};
/// # use tidegate_core::{Reason, Timestamp};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let orders = TableConfig::new("shop", "orders", 400, 100).nodes(["node-a"]);
/// let capacity = Capacity::builder().node("node-a", 10_000).table(orders).build()?;
/// let write = Access::write("orders", b"order-7", 100 << 10); // weighs 100 units
/// assert!(matches!(capacity.admit("shop", &write, now)?, Admission::Admit(_)));
/// let Admission::Throttle(throttled) = capacity.admit("shop", &write, now)? else { panic!() };
/// assert_eq!(throttled.reason, Reason::TableThroughputExceeded);
/// // Reads have throughput of their own.
/// let read = Access::read("orders", b"order-7", 4_096);
/// assert!(matches!(capacity.admit("shop", &read, now)?, Admission::Admit(_)));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
// A request that holds units counts itself in an `Arc` of this. Aligned, so that the count shares
// no cache line with what every other request reads.
#[repr(align(64))]
pub struct Capacity {
    pub(crate) tables: Box<[TableEntry]>,
    /// The hash of each table's namespace and name and its position, in order of the hashes.
    by_name: Box<[(u64, u32)]>,
    pub(crate) nodes: Box<[Arc<Node>]>,
    /// The number of each node and its position, in order of the numbers.
    by_number: Box<[(u32, u16)]>,
    pub(crate) accounts: Box<[Arc<Account>]>,
    pub(crate) next_ids: NextIds,
    /// The replicas on each node. Locked by changes of partitions only, which come one at a time.
    loads: Mutex<Vec<NodeLoad>>,
}

/// A table in force and what it is charged with.
#[derive(Debug)]
pub(crate) struct TableEntry {
    pub(crate) table: Arc<Table>,
    /// The positions of its indexes.
    pub(crate) indexes: Box<[u32]>,
    /// The position of its account.
    pub(crate) account: Option<u32>,
    pub(crate) bytes_max: AccessBytes,
}

impl TableEntry {
    /// The weight of so many bytes. Fails when the table does not allow as many.
    #[inline]
    pub(crate) fn units(&self, kind: AccessKind, bytes: u64) -> Result<Units, CapacityError> {
        let bytes_max = if kind.is_read() { self.bytes_max.read } else { self.bytes_max.write };
        if bytes > bytes_max {
            let (table, operation) = (self.table.name.to_string(), kind.operation());
            return Err(CapacityError::TooLarge { table, operation, bytes, bytes_max });
        }
        kind.units(bytes)
    }
}

/// The numbers of the next table, node and account, so that none is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextIds {
    pub(crate) table: u32,
    pub(crate) node: u32,
    pub(crate) account: u32,
}

/// The checked parts of a store.
pub(crate) struct Parts {
    pub(crate) tables: Vec<TableEntry>,
    /// The hash of each table's namespace and name and its position, in order of the hashes.
    pub(crate) by_name: Vec<(u64, u32)>,
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) accounts: Vec<Arc<Account>>,
    pub(crate) loads: Vec<NodeLoad>,
    pub(crate) next_ids: NextIds,
}

impl Capacity {
    pub(crate) fn from_parts(parts: Parts) -> Self {
        let numbers = parts.nodes.iter().map(|node| node.id.number);
        // At most CapacityBuilder::NODES_MAX.
        let mut by_number: Vec<(u32, u16)> = numbers.zip(0..).collect();
        by_number.sort_unstable();
        Self {
            by_number: by_number.into(),
            tables: parts.tables.into(),
            by_name: parts.by_name.into(),
            nodes: parts.nodes.into(),
            accounts: parts.accounts.into(),
            next_ids: parts.next_ids,
            loads: Mutex::new(parts.loads),
        }
    }

    /// The position of a table and the table; or an error that shows the name.
    #[inline]
    pub(crate) fn entry(&self, namespace: &str, name: &str) -> Result<(u32, &TableEntry), CapacityError> {
        let hash = name_hash(namespace, name);
        let first = self.by_name.partition_point(|(known, _)| *known < hash);
        self.by_name[first..]
            .iter()
            .take_while(|(known, _)| *known == hash)
            .map(|(_, index)| (*index, &self.tables[*index as usize]))
            .find(|(_, entry)| *entry.table.name == *name && *entry.table.namespace == *namespace)
            .ok_or_else(|| CapacityError::unknown_table(namespace, name))
    }

    pub(crate) fn table(&self, namespace: &str, name: &str) -> Result<&Arc<Table>, CapacityError> {
        Ok(&self.entry(namespace, name)?.1.table)
    }

    /// The node with this number; `None` if it is gone, or is one of a later store.
    #[inline]
    pub(crate) fn node(&self, number: u32) -> Option<&Node> {
        self.node_position(number).map(|position| &*self.nodes[position])
    }

    /// The position of the node with this number.
    #[inline]
    pub(crate) fn node_position(&self, number: u32) -> Option<usize> {
        // Where it is as long as no node was taken out.
        if self.nodes.get(number as usize).is_some_and(|node| node.id.number == number) {
            return Some(number as usize);
        }
        let found = self.by_number.binary_search_by_key(&number, |(known, _)| *known).ok()?;
        Some(usize::from(self.by_number[found].1))
    }

    /// The name of the node with this number; empty if it is gone.
    pub(crate) fn node_name(&self, number: u32) -> &str {
        self.node(number).map_or("", |node| &node.name)
    }

    pub(crate) fn loads(&self) -> MutexGuard<'_, Vec<NodeLoad>> {
        // A panic elsewhere leaves the loads valid: they change where nothing can fail.
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The partitions of `table` as they are at `now`, in the order of their ranges.
    ///
    /// Fails when there is no such table.
    pub fn partitions(
        &self,
        namespace: &str,
        table: &str,
        now: Timestamp,
    ) -> Result<impl ExactSizeIterator<Item = PartitionStatus<'_>> + use<'_>, CapacityError> {
        let layout = &self.table(namespace, table)?.layout;
        let statuses = layout.map(&layout.plan(), |state| {
            let [read, write] = [true, false].map(|is_read| state.directions.of(is_read));
            PartitionStatus {
                id: state.id,
                made_at: state.made_at,
                range: state.range,
                node: self.node_name(state.members.leader()),
                followers: [1, 2]
                    .map(|member| state.members.as_slice().get(member).map(|number| self.node_name(*number))),
                read_rate: Units::from_rate(read.rates.allocated),
                write_rate: Units::from_rate(write.rates.allocated),
                read_left: Units::from_thousandths(read.now(now).allocation()),
                write_left: Units::from_thousandths(write.now(now).allocation()),
                read: read.status(now),
                write: write.status(now),
            }
        });
        Ok(statuses.into_iter())
    }

    /// The tables from index `first` on, as they are at `now`, in the order they were given.
    pub fn table_statuses(
        &self,
        first: usize,
        now: Timestamp,
    ) -> impl ExactSizeIterator<Item = TableStatus<'_>> {
        self.tables.iter().skip(first).map(move |entry| {
            let table = &entry.table;
            let layout = &table.layout;
            let plan = layout.plan();
            let operation = |is_read| {
                let left = layout.map(&plan, |state| state.directions.of(is_read).now(now).allocation());
                OperationStatus {
                    rate: Units::whole(plan.numbers.units_per_second(is_read)),
                    left: Units::from_thousandths(left.into_iter().sum()),
                    throttled: table.throttled_count(is_read),
                }
            };
            TableStatus {
                namespace: &table.namespace,
                name: &table.name,
                mode: plan.numbers.mode,
                splits: table.reshaped.splits.load(Ordering::Relaxed),
                merges: table.reshaped.merges.load(Ordering::Relaxed),
                // At most TableConfig::PARTITIONS_MAX.
                partitions: plan.len() as u32,
                read: operation(true),
                write: operation(false),
            }
        })
    }

    /// The mode of a table; `None` if there is no such table.
    pub fn mode(&self, namespace: &str, table: &str) -> Option<TableMode> {
        Some(self.table(namespace, table).ok()?.layout.plan().numbers.mode)
    }

    /// The first positions of the partitions that a table always has, in their order: those of the
    /// configuration, on demand cut for the initial limits. `None` if there is no such table.
    pub fn configured_bounds(&self, namespace: &str, table: &str) -> Option<Vec<Position>> {
        let layout = &self.table(namespace, table).ok()?.layout;
        let plan = layout.plan();
        Some(least_firsts(&plan.config, &layout.keyspace))
    }

    /// The nodes as they are at `now`, in the order they were given.
    pub fn nodes(&self, now: Timestamp) -> impl ExactSizeIterator<Item = NodeStatus<'_>> {
        let promised = self.loads().clone();
        self.nodes.iter().zip(promised).map(move |(node, load)| NodeStatus {
            name: &node.name,
            rate: Units::from_rate(node.rate()),
            left: node.level(now),
            overflow: node.overflow(),
            promised: Units::from_rate(load.promised),
            promisable: Units::from_rate(node.promisable()),
        })
    }

    /// The namespace and the name of each table, in the order they were given.
    pub fn tables(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.tables.iter().map(|entry| (&*entry.table.namespace, &*entry.table.name))
    }

    /// The whole mutable state, to be compared with itself at another time.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut words = Vec::new();
        for TableEntry { table, .. } in &self.tables {
            let layout = &table.layout;
            let of_partitions = layout.map(&layout.plan(), |state| {
                let mut words = vec![u64::from(state.id.0)];
                words.extend(state.range.first.words());
                words.extend(state.members.as_slice().iter().map(|node| u64::from(*node)));
                words.extend(state.gated_until.map(Timestamp::as_nanos));
                words.extend(state.directions.read.words().chain(state.directions.write.words()));
                words
            });
            words.extend(of_partitions.into_iter().flatten());
            words.extend(table.tokens(true).words().chain(table.tokens(false).words()));
        }
        words.extend(self.accounts.iter().flat_map(|account| account.words()));
        words.extend(self.nodes.iter().map(|node| node.word()));
        Fingerprint(words.into())
    }
}

/// The hash by which a table is found.
#[inline]
pub(crate) fn name_hash(namespace: &str, name: &str) -> u64 {
    key_hash(namespace.as_bytes()).rotate_left(29) ^ key_hash(name.as_bytes())
}

impl fmt::Debug for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capacity")
            .field("tables", &self.tables().collect::<Vec<_>>())
            .field("nodes", &self.nodes.iter().map(|node| &node.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The answer to an access.
#[derive(Debug)]
#[must_use = "units stay charged until the hold is given back"]
pub enum Admission<'a> {
    /// The access may go ahead; its units are charged.
    Admit(UnitsHold),
    /// The access may not go ahead; nothing is charged.
    Throttle(Throttled<'a>),
}

/// The whole mutable state of a [`Capacity`]. Equal states admit the same from then on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Box<[u64]>);

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
