//! Tables and indexes as they are configured.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_core::Timestamp;

use crate::bucket::BucketSpec;
use crate::control::on_demand::{OnDemand, OnDemandTerms, Ratchet};
use crate::control::warm_throughput::WarmThroughput;
use crate::layout::members::Members;
use crate::layout::position::{PartitionBy, Position};
pub use crate::table_mode::TableMode;
use crate::throughput::{MEMBERS_MAX, Rates};
use crate::units::{READ_BYTES_MAX, READ_UNIT_BYTES, Units, WRITE_BYTES_MAX, WRITE_UNIT_BYTES};

/// The members of a group that may serve a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadMembers {
    /// Any of them for a read that need not be consistent; the leader for the others. The default.
    #[default]
    Any,
    /// The leader alone.
    Local,
}

/// The writes that need room at the nodes of all required members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteCheck {
    /// Those beyond the allocation. The default.
    #[default]
    BurstOnly,
    /// All of them.
    Always,
}

/// The members whose nodes a write needs room at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WriteQuorum {
    /// All members. The default.
    #[default]
    All,
    /// The leader and as many others as make a majority.
    Majority,
}

/// A table or index with provisioned throughput, as it is configured.
///
/// A new one has one partition and no node; it must be given at least one.
///
/// ```
/// # use tidegate_capacity::{Capacity, TableConfig, Units};
/// # use tidegate_core::Timestamp;
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let nodes = ["node-a", "node-b"];
/// let orders = TableConfig::new("shop", "orders", 400, 100).partitions(4).nodes(nodes);
/// let builder = Capacity::builder().node("node-a", 10_000).node("node-b", 10_000);
/// let capacity = builder.table(orders).build()?;
/// // Each partition has an equal part, and the partitions lie on the nodes in turn.
/// let partitions: Vec<_> = capacity.partitions("shop", "orders", now)?.collect();
/// assert!(partitions.iter().all(|one| one.write_rate == Units::whole(25)));
/// assert!(partitions.iter().map(|one| one.node).eq(["node-a", "node-b", "node-a", "node-b"]));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableConfig {
    /// The namespace that it belongs to: requests of others cannot be charged to it.
    pub namespace: String,
    /// Its name, unique in its namespace; 1 to [`TableConfig::NAME_BYTES_MAX`] bytes. An index is
    /// named by its table and its own name, `orders/by-user`.
    pub name: String,
    /// The table whose writes are charged to this index as well; `None` for a table.
    pub index_of: Option<String>,
    /// Units of reading a second, over all partitions; 1 to [`TableConfig::UNITS_PER_SECOND_MAX`].
    pub read_units_per_second: u64,
    /// Units of writing a second, over all partitions; 1 to [`TableConfig::UNITS_PER_SECOND_MAX`].
    pub write_units_per_second: u64,
    /// The number of partitions that its keys are cut into; 1 to [`TableConfig::PARTITIONS_MAX`].
    pub partitions: u32,
    /// The first positions of all partitions but the first one, ascending; empty for partitions as
    /// equal as they can be. One fewer than partitions.
    pub bounds: Vec<Position>,
    /// The nodes its partitions lie on, in turn; at least one. A node named twice gets twice as
    /// many. The other members of a partition's group lie on the nodes that follow.
    pub nodes: Vec<String>,
    /// How its throughput moves between partitions.
    pub mode: TableMode,
    /// The order of its keys.
    pub partition_by: PartitionBy,
    /// The bytes that all keys begin with, for a table by ranges: the 32 bytes that count begin
    /// behind them. Default empty.
    pub key_prefix: Vec<u8>,
    /// The time for which unused throughput is kept, in whole seconds, at most
    /// [`TableConfig::BURST_MAX`]; default 300 s.
    pub burst: Duration,
    /// The most bytes that one read may return, 1 to [`TableConfig::READ_BYTES_HIGHEST`]; default
    /// [`READ_BYTES_MAX`]. Whatever the table allows, an access weighs at most
    /// [`Units::LARGEST_REQUEST`].
    pub read_bytes_max: u64,
    /// The most bytes that one write may carry, 1 to [`TableConfig::WRITE_BYTES_HIGHEST`]; default
    /// [`WRITE_BYTES_MAX`].
    pub write_bytes_max: u64,
    /// Units of reading a second that one member of a partition serves at most; `None`: 3000, or
    /// the partition's share if that is more.
    pub read_ceiling: Option<u64>,
    /// Units of writing a second that a partition takes at most; `None`: 1000, or the partition's
    /// share if that is more.
    pub write_ceiling: Option<u64>,
    /// The members of each partition's group, 1 to [`TableConfig::REPLICAS_MAX`], on different
    /// nodes; default 1.
    pub replicas: u8,
    /// The members that may serve a read.
    pub reads: ReadMembers,
    /// The writes that need room at the nodes of all required members.
    pub write_check: WriteCheck,
    /// The members that a write requires.
    pub write_quorum: WriteQuorum,
    /// The terms of a table on demand, whose tokens follow the units that it admits; `None` for a
    /// provisioned table.
    pub on_demand: Option<OnDemandTerms>,
    /// The throughput for which its partitions are cut at the beginning, and may be cut again at
    /// once; for mode global. `None`: that which it has had.
    pub warm: Option<WarmThroughput>,
    /// The account whose throughput bounds this table and others together; `None`: no account.
    pub account: Option<String>,
    /// Whether control loops propose splits of its partitions, those for growth included; default
    /// true. Without them partitions are still given verdicts.
    pub splits: bool,
    /// Whether control loops propose to join its cool partitions; default true.
    pub merges: bool,
}

impl TableConfig {
    /// The longest name of a table or node in bytes, as in `DynamoDB`.
    pub const NAME_BYTES_MAX: usize = 255;
    /// The most units a second of a table or node.
    pub const UNITS_PER_SECOND_MAX: u64 = BucketSpec::UNITS_PER_SECOND_MAX;
    /// The most partitions of a table: as many as a Redis Cluster has slots.
    pub const PARTITIONS_MAX: u32 = 16_384;
    /// The most members of a partition's group.
    pub const REPLICAS_MAX: u8 = MEMBERS_MAX as u8;
    /// The longest time for which unused throughput is kept: an hour.
    pub const BURST_MAX: Duration = Duration::from_hours(1);
    /// The highest bound on the bytes of one read: those of an eventually consistent one, half a
    /// unit for each block, that weighs [`Units::LARGEST_REQUEST`].
    pub const READ_BYTES_HIGHEST: u64 = Units::LARGEST_REQUEST.whole_left() * 2 * READ_UNIT_BYTES;
    /// The highest bound on the bytes of one write: those that weigh [`Units::LARGEST_REQUEST`].
    pub const WRITE_BYTES_HIGHEST: u64 = Units::LARGEST_REQUEST.whole_left() * WRITE_UNIT_BYTES;
    /// Units of reading a second that one member of a partition serves at most, unless configured.
    pub const READ_CEILING: u64 = 3000;
    /// Units of writing a second that a partition takes at most, unless configured.
    pub const WRITE_CEILING: u64 = 1000;

    /// A table with one partition and no node.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        read_units_per_second: u64,
        write_units_per_second: u64,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            index_of: None,
            read_units_per_second,
            write_units_per_second,
            partitions: 1,
            bounds: Vec::new(),
            nodes: Vec::new(),
            mode: TableMode::default(),
            partition_by: PartitionBy::default(),
            key_prefix: Vec::new(),
            burst: Duration::from_mins(5),
            read_bytes_max: READ_BYTES_MAX,
            write_bytes_max: WRITE_BYTES_MAX,
            read_ceiling: None,
            write_ceiling: None,
            replicas: 1,
            reads: ReadMembers::default(),
            write_check: WriteCheck::default(),
            write_quorum: WriteQuorum::default(),
            on_demand: None,
            warm: None,
            account: None,
            splits: true,
            merges: true,
        }
    }

    /// Makes it an index of `table`, with the name `table/name`.
    #[must_use]
    pub fn index_of(mut self, table: &str) -> Self {
        self.name = full_name(table, Some(&self.name)).into_owned();
        self.index_of = Some(table.to_owned());
        self
    }

    /// Cuts its keys into so many partitions, as equal as they can be.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Cuts its keys before each of these positions, which ascend.
    #[must_use]
    pub fn cut_at(mut self, bounds: impl IntoIterator<Item = Position>) -> Self {
        self.bounds = bounds.into_iter().collect();
        self.partitions = u32::try_from(self.bounds.len()).unwrap_or(u32::MAX).saturating_add(1);
        self
    }

    /// Lays its partitions on these nodes in turn.
    #[must_use]
    pub fn nodes<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.nodes = nodes.into_iter().map(Into::into).collect();
        self
    }

    /// Lets its throughput move between partitions in this way.
    #[must_use]
    pub fn mode(mut self, mode: TableMode) -> Self {
        self.mode = mode;
        self
    }

    /// Orders its keys in this way.
    #[must_use]
    pub fn partition_by(mut self, by: PartitionBy) -> Self {
        self.partition_by = by;
        self
    }

    /// Bounds each member of a partition at so many units of reading and writing a second.
    #[must_use]
    pub fn ceilings(mut self, ceilings: Ceilings) -> Self {
        (self.read_ceiling, self.write_ceiling) = (Some(ceilings.read), Some(ceilings.write));
        self
    }

    /// Allows a read of so many bytes, and a write of so many.
    #[must_use]
    pub fn access_bytes_max(mut self, max: AccessBytes) -> Self {
        (self.read_bytes_max, self.write_bytes_max) = (max.read, max.write);
        self
    }

    /// Gives each partition so many members on different nodes.
    #[must_use]
    pub fn replicas(mut self, replicas: u8) -> Self {
        self.replicas = replicas;
        self
    }

    /// Lets these members serve reads.
    #[must_use]
    pub fn reads(mut self, reads: ReadMembers) -> Self {
        self.reads = reads;
        self
    }

    /// Lets these writes need room at the nodes of all required members.
    #[must_use]
    pub fn write_check(mut self, check: WriteCheck) -> Self {
        self.write_check = check;
        self
    }

    /// Lets a write require these members.
    #[must_use]
    pub fn write_quorum(mut self, quorum: WriteQuorum) -> Self {
        self.write_quorum = quorum;
        self
    }

    /// Makes it a table on demand, with global admission.
    ///
    /// Its partitions share the initial limits, which their nodes promise; everything beyond comes
    /// of the room that the nodes have to spare. It begins with as many partitions as the initial
    /// limits need.
    #[must_use]
    pub fn on_demand(mut self, terms: OnDemandTerms) -> Self {
        self.read_units_per_second = terms.read.initial.whole_left().max(1);
        self.write_units_per_second = terms.write.initial.whole_left().max(1);
        self.mode = TableMode::Global;
        self.on_demand = Some(terms);
        self
    }

    /// Lets control loops propose splits of its partitions, or not.
    #[must_use]
    pub fn splits(mut self, splits: bool) -> Self {
        self.splits = splits;
        self
    }

    /// Lets control loops propose to join its cool partitions, or not.
    #[must_use]
    pub fn merges(mut self, merges: bool) -> Self {
        self.merges = merges;
        self
    }

    /// Cuts its partitions for this throughput at the beginning, and whenever it is needed again.
    #[must_use]
    pub fn warm(mut self, warm: WarmThroughput) -> Self {
        self.warm = Some(warm);
        self
    }

    /// The terms of one direction of a table on demand, whose limit is at least the warm
    /// throughput.
    pub(crate) fn on_demand_of(&self, is_read: bool) -> Option<OnDemand> {
        let terms = self.on_demand?;
        let terms = if is_read { terms.read } else { terms.write };
        Some(OnDemand { initial: terms.initial.max(self.warm_of(is_read)), ..terms })
    }

    /// The warm throughput of one direction; zero without.
    pub(crate) fn warm_of(&self, is_read: bool) -> Units {
        let warm = self.warm.map_or(0, |warm| if is_read { warm.read } else { warm.write });
        Units::whole(warm)
    }

    /// The pieces of each configured partition with which the table begins: enough for its initial
    /// limits on demand and its warm throughput.
    pub(crate) fn initial_pieces(&self) -> u32 {
        let units = [true, false].map(|is_read| match self.on_demand_of(is_read) {
            Some(terms) => Ratchet::new(&terms, Timestamp::from_nanos(0)).limit(&terms),
            None => self.warm_of(is_read),
        });
        self.least_pieces() * self.pieces_of(self.least_pieces(), units)
    }

    /// The pieces of each configured partition that the table always has: enough for its initial
    /// limits on demand, which are promised.
    pub(crate) fn least_pieces(&self) -> u32 {
        let Some(terms) = self.on_demand else { return 1 };
        self.pieces_of(1, [terms.read.initial, terms.write.initial])
    }

    /// The pieces into which each of `pieces` of a configured partition is cut for these units.
    fn pieces_of(&self, pieces: u32, units: [Units; 2]) -> u32 {
        let partitions = self.partitions.max(1).saturating_mul(pieces);
        let most = Self::PARTITIONS_MAX / partitions;
        TableNumbers::from_config(self).partitions_for(units).div_ceil(partitions).min(most).max(1)
    }

    /// Bounds it together with the other tables of an account.
    #[must_use]
    pub fn account(mut self, account: impl Into<String>) -> Self {
        self.account = Some(account.into());
        self
    }
}

/// Units a second that one member of a partition serves at most, reads and writes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// Units of reading; at least 1.
    pub read: u64,
    /// Units of writing; at least 1.
    pub write: u64,
}

/// Bytes of one read and of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessBytes {
    /// Bytes that a read returns.
    pub read: u64,
    /// Bytes that a write carries.
    pub write: u64,
}

/// The numbers of a table that decide, without its keys and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableNumbers {
    pub(crate) read_units_per_second: u64,
    pub(crate) write_units_per_second: u64,
    pub(crate) mode: TableMode,
    burst_seconds: u32,
    read_ceiling: Option<u64>,
    write_ceiling: Option<u64>,
    pub(crate) reads: ReadMembers,
    pub(crate) write_check: WriteCheck,
    pub(crate) write_quorum: WriteQuorum,
}

impl TableNumbers {
    pub(crate) fn from_config(config: &TableConfig) -> Self {
        Self {
            read_units_per_second: config.read_units_per_second,
            write_units_per_second: config.write_units_per_second,
            mode: config.mode,
            // At most BURST_MAX.
            burst_seconds: config.burst.as_secs() as u32,
            read_ceiling: config.read_ceiling,
            write_ceiling: config.write_ceiling,
            reads: config.reads,
            write_check: config.write_check,
            write_quorum: config.write_quorum,
        }
    }

    pub(crate) const fn units_per_second(&self, is_read: bool) -> u64 {
        if is_read { self.read_units_per_second } else { self.write_units_per_second }
    }

    /// The rates of a partition with this share, in thousandths a second. A ceiling that is not
    /// configured is never below the share.
    pub(crate) fn rates(&self, is_read: bool, base: u64) -> Rates {
        let (configured, default) = if is_read {
            (self.read_ceiling, TableConfig::READ_CEILING)
        } else {
            (self.write_ceiling, TableConfig::WRITE_CEILING)
        };
        let ceiling = configured.map_or((default * 1000).max(base), |units| units * 1000);
        Rates { base, allocated: base, ceiling, burst_seconds: self.burst_seconds }
    }

    /// The partitions that reads and writes of these units a second fill, by the ceilings; at most
    /// [`TableConfig::PARTITIONS_MAX`].
    pub(crate) fn partitions_for(&self, [read, write]: [Units; 2]) -> u32 {
        let [reads, writes] = [true, false].map(|is_read| Units::from_rate(self.rates(is_read, 0).ceiling));
        Ratchet::partitions_for(read, write, reads, writes).min(TableConfig::PARTITIONS_MAX)
    }

    /// The members other than the leader at whose nodes a write needs room.
    pub(crate) fn followers_required(&self, members: Members) -> usize {
        let count = members.as_slice().len();
        match self.write_quorum {
            WriteQuorum::All => count - 1,
            // A majority of 1, 2 and 3 members is 1, 2 and 2.
            WriteQuorum::Majority => count / 2,
        }
    }
}

/// The name of an index among the tables, `table/index`; of a table its own.
pub fn full_name<'a>(table: &'a str, index: Option<&str>) -> Cow<'a, str> {
    index.map_or(Cow::Borrowed(table), |index| Cow::Owned(format!("{table}/{index}")))
}

/// The share of one partition: the total cut evenly, the remainder to the first ones, so that the
/// shares add up.
pub(crate) fn share(units_per_second: u64, index: u32, partitions: u32) -> u64 {
    let total = units_per_second * 1000;
    let (each, remainder) = (total / u64::from(partitions), total % u64::from(partitions));
    each + u64::from(u64::from(index) < remainder)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_add_up_to_the_whole_and_differ_by_at_most_a_thousandth(
            units in 1_u64..=TableConfig::UNITS_PER_SECOND_MAX,
            partitions in 1_u32..=TableConfig::PARTITIONS_MAX,
        ) {
            let shares: Vec<u64> = (0..partitions).map(|index| share(units, index, partitions)).collect();
            prop_assert_eq!(shares.iter().sum::<u64>(), units * 1000);
            prop_assert!(shares[0] - shares[shares.len() - 1] <= 1);
        }
    }
}
