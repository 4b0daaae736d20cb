//! From configured nodes, accounts and tables to a checked [`Capacity`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{AccessOperation, Timestamp};

use crate::account::{Account, AccountConfig};
use crate::capacity::{Capacity, NextIds, Parts, TableEntry, name_hash};
use crate::error::{CapacityError, check_load, shown};
use crate::layout::partition::Partition;
use crate::layout::position::{PartitionBy, Position, SLOTS};
use crate::node::{Node, NodeConfig, NodeLoad};
use crate::reload::TableChange;
use crate::table::{Table, TableId, initial_firsts, keyspace_of, members_of};
use crate::table_config::{AccessBytes, TableConfig, TableMode, TableNumbers, share};
use crate::units::Units;

/// The nodes, accounts and tables of a [`Capacity`] to be.
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
    nodes: Vec<NodeConfig>,
    accounts: Vec<AccountConfig>,
    tables: Vec<TableConfig>,
}

impl Capacity {
    /// A store without nodes or tables yet.
    pub fn builder() -> CapacityBuilder {
        CapacityBuilder::default()
    }
}

const _: () = assert!(CapacityBuilder::NODES_MAX <= u16::MAX as usize, "positions of nodes fit");

impl CapacityBuilder {
    /// The most nodes.
    pub const NODES_MAX: usize = 10_000;
    /// The most accounts.
    pub const ACCOUNTS_MAX: usize = 10_000;
    /// The most tables and indexes.
    pub const TABLES_MAX: usize = 10_000;
    /// The most partitions of all tables together; [`CapacityBuilder::PARTITION_BYTES`] each.
    pub const PARTITIONS_MAX: usize = 65_536;
    /// The memory of a partition in bytes, without the sketches that it has while it is warm.
    pub const PARTITION_BYTES: usize = size_of::<Partition>();

    /// A node that can do `units_per_second`, reads and writes together, and may promise all of
    /// them; 1 to [`TableConfig::UNITS_PER_SECOND_MAX`].
    pub fn node(self, name: impl Into<String>, units_per_second: u64) -> Self {
        self.node_config(NodeConfig::new(name, units_per_second).reserve_percent(0))
    }

    /// A node.
    pub fn node_config(mut self, node: NodeConfig) -> Self {
        self.nodes.push(node);
        self
    }

    /// An account, for tables given before or after it.
    pub fn account(mut self, account: AccountConfig) -> Self {
        self.accounts.push(account);
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

    /// Checks everything and makes the store as one that has been idle for long: allocations and
    /// burst credit are full. Fails with the first problem found.
    pub fn build(self) -> Result<Capacity, CapacityError> {
        self.build_at(Timestamp::from_nanos(0))
    }

    /// Checks everything and makes the store as it is at `now`: allocations are full, and there is
    /// no burst credit yet. Fails with the first problem found.
    pub fn build_at(self, now: Timestamp) -> Result<Capacity, CapacityError> {
        Ok(self.check(None)?.apply(now))
    }

    /// Checks everything and goes on from the state of `earlier`, which may still decide until
    /// everybody uses the new one. Fails with the first problem found; then nothing has changed.
    ///
    /// A table of the same name and the same order of keys is shared by both, and so are nodes and
    /// accounts of the same name. Levels are kept, debts included; what no longer fits overflows.
    /// Units that are held are given back to the new store as to the earlier one. When the number
    /// of partitions or their bounds are configured anew, the partitions are cut and joined
    /// accordingly; otherwise they stay as they were split. If the names of the nodes differ, the
    /// partitions of all tables are laid on the new nodes in turn; otherwise they stay where they
    /// were placed.
    pub fn build_over(self, earlier: &Capacity, now: Timestamp) -> Result<Capacity, CapacityError> {
        Ok(self.check(Some(earlier))?.apply(now))
    }

    /// The faults of single tables, each with the position of its table; empty if nodes or accounts
    /// have faults. [`CapacityBuilder::check`] fails with the first of them; besides, it judges all
    /// tables together.
    pub fn table_faults(&self) -> Vec<(usize, CapacityError)> {
        let (Ok(nodes), Ok(accounts)) = (self.check_nodes(), self.check_accounts()) else {
            return Vec::new();
        };
        let tables = self.tables.iter().enumerate();
        tables
            .filter_map(|(index, table)| Some((index, check_table(table, &nodes, &accounts).err()?)))
            .collect()
    }

    /// Checks everything, for [`CheckedCapacity::apply`]. Fails with the first problem found.
    /// Changes nothing.
    pub fn check(self, earlier: Option<&Capacity>) -> Result<CheckedCapacity<'_>, CapacityError> {
        check_count("nodes", self.nodes.len(), Self::NODES_MAX)?;
        check_count("accounts", self.accounts.len(), Self::ACCOUNTS_MAX)?;
        check_count("tables", self.tables.len(), Self::TABLES_MAX)?;
        let partitions = self.tables.iter().map(|table| {
            let count = table.partitions.saturating_mul(table.initial_pieces());
            count as usize
        });
        check_count("partitions", partitions.fold(0, usize::saturating_add), Self::PARTITIONS_MAX)?;
        let mut next_ids = earlier.map_or_else(NextIds::default, |earlier| earlier.next_ids);
        let node_positions = self.check_nodes()?;
        let account_positions = self.check_accounts()?;
        let mut tables = BTreeMap::new();
        for (index, config) in (0_u32..).zip(&self.tables) {
            check_table(config, &node_positions, &account_positions)?;
            if tables.insert((config.namespace.as_str(), config.name.as_str()), index).is_some() {
                return Err(CapacityError::DuplicateName { kind: "table", name: config.name.clone() });
            }
        }
        let numbers: Vec<u32> = self
            .nodes
            .iter()
            .map(|node| {
                let known =
                    earlier.and_then(|earlier| earlier.nodes.iter().find(|one| *one.name == node.name));
                known.map_or_else(|| next(&mut next_ids.node), |known| known.id.number)
            })
            .collect();
        let has_same_nodes = earlier.is_some_and(|earlier| {
            let names = earlier.nodes.iter().map(|node| &*node.name);
            names.eq(self.nodes.iter().map(|node| node.name.as_str()))
        });
        let positions: BTreeMap<u32, usize> = numbers.iter().copied().zip(0..).collect();
        let mut loads = vec![NodeLoad::default(); self.nodes.len()];
        let mut changes = Vec::with_capacity(self.tables.len());
        for config in &self.tables {
            let nodes =
                config.nodes.iter().map(|name| numbers[node_positions[name.as_str()] as usize]).collect();
            let known = earlier.and_then(|earlier| earlier.table(&config.namespace, &config.name).ok());
            let known = known.filter(|known| known.layout.plan().has_order_of(config)).map(Arc::clone);
            let change = TableChange { known, nodes, is_placed_anew: !has_same_nodes };
            let mut bear = |members: &[u32], promised: [u64; 2]| {
                for (member, number) in members.iter().enumerate() {
                    let Some(&position) = positions.get(number) else { continue };
                    loads[position] = loads[position].with_replica(promised[usize::from(member > 0)]);
                }
            };
            if let Some(promises) = change.promises(config) {
                for (members, promised) in promises {
                    bear(members.as_slice(), promised);
                }
            } else {
                // At most TableConfig::PARTITIONS_MAX.
                let count = initial_firsts(config, &keyspace_of(config)).len() as u32;
                for index in 0..count {
                    let of = |units| share(units, index, count);
                    let (read, write) = (of(config.read_units_per_second), of(config.write_units_per_second));
                    bear(members_of(config, &change.nodes, index).as_slice(), [read + write, write]);
                }
            }
            changes.push(change);
        }
        for (node, load) in self.nodes.iter().zip(&loads) {
            check_load(&node.name, node.units_per_second, node.reserve_percent, *load)?;
        }
        let relations = self.relations(&tables, &account_positions)?;
        let mut by_name: Vec<(u64, u32)> = tables
            .into_iter()
            .map(|((namespace, name), index)| (name_hash(namespace, name), index))
            .collect();
        by_name.sort_unstable();
        Ok(CheckedCapacity { builder: self, earlier, changes, numbers, loads, relations, by_name, next_ids })
    }

    /// The positions of the indexes of each table, and of its account.
    fn relations(
        &self,
        tables: &BTreeMap<(&str, &str), u32>,
        accounts: &BTreeMap<&str, u32>,
    ) -> Result<Vec<Relations>, CapacityError> {
        let mut relations = vec![Relations::default(); self.tables.len()];
        for (index, config) in self.tables.iter().enumerate() {
            relations[index].account = account_of(config, accounts)?;
            if let Some(base) = &config.index_of {
                let position = tables.get(&(config.namespace.as_str(), base.as_str()));
                let unknown =
                    || CapacityError::UnknownBaseTable { index: config.name.clone(), table: shown(base) };
                relations[*position.ok_or_else(unknown)? as usize].indexes.push(index as u32);
            }
        }
        Ok(relations)
    }

    fn check_nodes(&self) -> Result<BTreeMap<&str, u32>, CapacityError> {
        let mut positions = BTreeMap::new();
        for (position, node) in (0_u32..).zip(&self.nodes) {
            check_name("node", &node.name)?;
            check_rate("node", &node.name, "units", node.units_per_second)?;
            if node.reserve_percent > NodeConfig::RESERVE_PERCENT_MAX {
                let (node, percent) = (node.name.clone(), node.reserve_percent);
                return Err(CapacityError::Reserve { node, percent });
            }
            if positions.insert(node.name.as_str(), position).is_some() {
                return Err(CapacityError::DuplicateName { kind: "node", name: node.name.clone() });
            }
        }
        Ok(positions)
    }

    fn check_accounts(&self) -> Result<BTreeMap<&str, u32>, CapacityError> {
        let mut positions = BTreeMap::new();
        for (position, account) in (0_u32..).zip(&self.accounts) {
            check_name("account", &account.name)?;
            check_rate("account", &account.name, "read units", account.read_units_per_second)?;
            check_rate("account", &account.name, "write units", account.write_units_per_second)?;
            if positions.insert(account.name.as_str(), position).is_some() {
                return Err(CapacityError::DuplicateName { kind: "account", name: account.name.clone() });
            }
        }
        Ok(positions)
    }
}

/// The positions of a table's indexes, and of its account.
#[derive(Clone, Debug, Default)]
struct Relations {
    indexes: Vec<u32>,
    account: Option<u32>,
}

/// A checked configuration that has changed nothing yet.
#[derive(Debug)]
#[must_use = "it changes nothing until it is applied"]
pub struct CheckedCapacity<'a> {
    builder: CapacityBuilder,
    earlier: Option<&'a Capacity>,
    changes: Vec<TableChange>,
    /// The number of each node.
    numbers: Vec<u32>,
    loads: Vec<NodeLoad>,
    relations: Vec<Relations>,
    by_name: Vec<(u64, u32)>,
    next_ids: NextIds,
}

impl CheckedCapacity<'_> {
    /// Makes the store. Tables that it shares with the earlier one have their new numbers at once.
    pub fn apply(self, now: Timestamp) -> Capacity {
        let Self { builder, earlier, changes, numbers, loads, relations, by_name, mut next_ids } = self;
        let mut tables = Vec::with_capacity(changes.len());
        for ((config, change), Relations { indexes, account }) in
            builder.tables.iter().zip(changes).zip(relations)
        {
            let table = match &change.known {
                Some(known) => {
                    change.apply(known, config, now);
                    Arc::clone(known)
                }
                None => Arc::new(Table::new(TableId(next(&mut next_ids.table)), config, &change.nodes, now)),
            };
            let bytes_max = AccessBytes { read: config.read_bytes_max, write: config.write_bytes_max };
            tables.push(TableEntry { table, indexes: indexes.into(), account, bytes_max });
        }
        let nodes = builder.nodes.iter().zip(&numbers).zip(&loads).map(|((config, number), load)| {
            let known = earlier.and_then(|earlier| earlier.nodes.iter().find(|one| one.id.number == *number));
            match known {
                Some(known) if known.is_configured_as(config) => {
                    known.bear(*load);
                    Arc::clone(known)
                }
                Some(known) => Arc::new(known.reconfigured(config, *load, now)),
                None => Arc::new(Node::new(*number, config, *load)),
            }
        });
        let nodes = nodes.collect();
        let accounts = builder.accounts.iter().map(|config| {
            let known =
                earlier.and_then(|earlier| earlier.accounts.iter().find(|one| *one.name == config.name));
            known.map_or_else(
                || Arc::new(Account::new(next(&mut next_ids.account), config, now)),
                |known| {
                    known.reconfigure(config, now);
                    Arc::clone(known)
                },
            )
        });
        let accounts = accounts.collect();
        Capacity::from_parts(Parts { tables, by_name, nodes, accounts, loads, next_ids })
    }
}

/// The next number, which wraps after 2^32 of them.
const fn next(number: &mut u32) -> u32 {
    let this = *number;
    *number = number.wrapping_add(1);
    this
}

/// The position of the account of a table, if it has one.
fn account_of(table: &TableConfig, accounts: &BTreeMap<&str, u32>) -> Result<Option<u32>, CapacityError> {
    let Some(account) = &table.account else { return Ok(None) };
    let unknown = || CapacityError::UnknownAccount { table: table.name.clone(), account: shown(account) };
    accounts.get(account.as_str()).copied().map(Some).ok_or_else(unknown)
}

fn check_table(
    table: &TableConfig,
    nodes: &BTreeMap<&str, u32>,
    accounts: &BTreeMap<&str, u32>,
) -> Result<(), CapacityError> {
    check_name("table", &table.name)?;
    check_rate("table", &table.name, "read units", table.read_units_per_second)?;
    check_rate("table", &table.name, "write units", table.write_units_per_second)?;
    for (what, ceiling) in [
        ("units of the read ceiling", table.read_ceiling),
        ("units of the write ceiling", table.write_ceiling),
    ] {
        check_rate("table", &table.name, what, ceiling.unwrap_or(1))?;
    }
    let name = || table.name.clone();
    if !(1..=TableConfig::PARTITIONS_MAX).contains(&table.partitions) {
        return Err(CapacityError::Partitions { table: name(), partitions: table.partitions });
    }
    let units = table.read_units_per_second.min(table.write_units_per_second);
    if table.mode != TableMode::Global && u64::from(table.partitions) > units * 1000 {
        let (table, partitions, max) = (name(), table.partitions, units * 1000);
        return Err(CapacityError::ThinShares { table, units, partitions, max });
    }
    check_demand(table)?;
    let keyspace = keyspace_of(table);
    let is_ascending = table.bounds.is_sorted_by(|a, b| a < b)
        && table.bounds.first().is_none_or(|first| *first > Position::FIRST)
        && table.bounds.iter().all(|bound| keyspace.has(*bound));
    if !is_ascending || !table.bounds.is_empty() && table.bounds.len() + 1 != table.partitions as usize {
        return Err(CapacityError::Bounds { table: name() });
    }
    let slots = u32::from(SLOTS);
    if table.partition_by == PartitionBy::Slot && table.partitions > slots {
        return Err(CapacityError::Partitions { table: name(), partitions: table.partitions });
    }
    if table.burst > TableConfig::BURST_MAX {
        return Err(CapacityError::Burst { table: name(), seconds: table.burst.as_secs() });
    }
    if table.nodes.is_empty() {
        return Err(CapacityError::Unplaced { table: name() });
    }
    for node in &table.nodes {
        if !nodes.contains_key(node.as_str()) {
            return Err(CapacityError::UnknownNode { table: name(), node: shown(node) });
        }
    }
    let mut distinct: Vec<&String> = table.nodes.iter().collect();
    distinct.sort_unstable();
    distinct.dedup();
    let (replicas, nodes) = (table.replicas, distinct.len());
    if replicas == 0 || replicas > TableConfig::REPLICAS_MAX || usize::from(replicas) > nodes {
        return Err(CapacityError::Replicas { table: name(), replicas, nodes });
    }
    check_ceilings(table)?;
    check_access_bytes(table)?;
    account_of(table, accounts).map(|_| ())
}

/// Fails when a limit on demand or a warm throughput is zero or too high, and when warm throughput
/// would divide the shares of partitions.
fn check_demand(table: &TableConfig) -> Result<(), CapacityError> {
    let check = |what, units| check_rate("table", &table.name, what, units);
    if let Some(terms) = table.on_demand {
        for (what, terms) in [("read units on demand", terms.read), ("write units on demand", terms.write)] {
            check(what, terms.initial.whole_left())?;
            check(what, terms.max.map_or(1, Units::whole_left))?;
        }
    }
    let Some(warm) = table.warm else { return Ok(()) };
    check("read units of its warm throughput", warm.read)?;
    check("write units of its warm throughput", warm.write)?;
    if table.mode != TableMode::Global {
        return Err(CapacityError::WarmShares { table: table.name.clone() });
    }
    Ok(())
}

/// Fails when a configured ceiling is below the share of a partition, which could never be reached.
fn check_ceilings(table: &TableConfig) -> Result<(), CapacityError> {
    let numbers = TableNumbers::from_config(table);
    for is_read in [true, false] {
        // At most TableConfig::PARTITIONS_MAX.
        let partitions = initial_firsts(table, &keyspace_of(table)).len() as u32;
        let base = share(numbers.units_per_second(is_read), 0, partitions);
        let ceiling = numbers.rates(is_read, base).ceiling;
        if ceiling < base {
            let what = if is_read { "read" } else { "write" };
            let ceiling = ceiling / 1000;
            return Err(CapacityError::CeilingBelowShare { table: table.name.clone(), what, ceiling });
        }
    }
    Ok(())
}

/// Fails when a bound on the size of accesses is zero, or higher than any access may be.
fn check_access_bytes(table: &TableConfig) -> Result<(), CapacityError> {
    for (operation, bytes, bytes_max) in [
        (AccessOperation::Read, table.read_bytes_max, TableConfig::READ_BYTES_HIGHEST),
        (AccessOperation::Write, table.write_bytes_max, TableConfig::WRITE_BYTES_HIGHEST),
    ] {
        if !(1..=bytes_max).contains(&bytes) {
            return Err(CapacityError::AccessBytes {
                table: table.name.clone(),
                operation,
                bytes,
                bytes_max,
            });
        }
    }
    Ok(())
}

fn check_count(what: &'static str, count: usize, max: usize) -> Result<(), CapacityError> {
    if count > max { Err(CapacityError::TooMany { what, count, max }) } else { Ok(()) }
}

fn check_name(kind: &'static str, name: &str) -> Result<(), CapacityError> {
    if name.is_empty() || name.len() > TableConfig::NAME_BYTES_MAX {
        return Err(CapacityError::Name { kind, name: shown(name) });
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
