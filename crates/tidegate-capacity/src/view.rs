//! The shape of a store and the levels of its buckets, for those who check it.
//!
//! A simulator or a test compares a view with what it knows by other means. Tables, nodes and
//! accounts are named by their positions in the store, so that a view costs no allocation.

use tidegate_core::Timestamp;

use crate::admission::tokens::{TokenTerms, Tokens};
use crate::capacity::Capacity;
use crate::layout::key_range::KeyRange;
use crate::layout::members::Members;
use crate::layout::partition_id::PartitionId;
use crate::table_config::{TableMode, WriteCheck, WriteQuorum};
use crate::throughput::{MEMBERS_MAX, Throughput};
use crate::units::Units;

/// A table as routers know it at some instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableView {
    /// When.
    pub at: Timestamp,
    /// The position of the table.
    pub table: usize,
    /// How its throughput moves between partitions.
    pub mode: TableMode,
    /// The provisioned units a second of reads and of writes.
    pub provisioned: [Units; 2],
    /// The tokens of reads and of writes; spent under global admission.
    pub tokens: [TokensView; 2],
    /// The position of the account that the table belongs to.
    pub account: Option<usize>,
    /// Whether all writes need the room of nodes, also those within the allocation.
    pub is_every_write_checked: bool,
    /// Whether a write requires a majority of its members, and not all of them.
    pub is_majority_enough: bool,
    /// Whether it has indexes or is one: an access that an index refuses is not seen by the others.
    pub is_indexed: bool,
    /// The partitions in the order of their ranges.
    pub partitions: Vec<PartitionView>,
}

/// A partition as routers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// Its number.
    pub id: PartitionId,
    /// Its keys.
    pub range: KeyRange,
    /// The nodes of its group.
    pub members: MemberPositions,
    /// Its reads and its writes.
    pub directions: [DirectionView; 2],
}

/// The positions of the nodes of a group, the leader first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberPositions {
    nodes: [u32; MEMBERS_MAX],
    count: u8,
}

/// One direction of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectionView {
    /// Its share of the table's throughput, a second.
    pub base: Units,
    /// Its allocation, a second.
    pub rate: Units,
    /// The bound of everything that one member admits, a second.
    pub ceiling: Units,
    /// The burst credit when it is full.
    pub burst_max: Units,
    /// Units left of the allocation; negative in debt.
    pub allocation: Units,
    /// Units left of the burst credit.
    pub burst: Units,
    /// Units that came back, or no longer had room after a change, and were not kept.
    pub overflow: Units,
    /// Units admitted and not given back.
    pub admitted: Units,
    /// Units of first attempts.
    pub offered: Units,
}

/// Tokens at some instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokensView {
    /// Units a second.
    pub rate: Units,
    /// The most that are kept.
    pub depth: Units,
    /// Those left; negative in debt.
    pub left: Units,
}

/// The nodes and accounts at some instant, by their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesView {
    /// When.
    pub at: Timestamp,
    /// The nodes.
    pub nodes: Vec<NodeView>,
    /// The tokens of reads and of writes of each account.
    pub accounts: Vec<[TokensView; 2]>,
}

/// A node at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Units a second that it can do.
    pub rate: Units,
    /// Units a second that may be promised.
    pub promisable: Units,
    /// The most units that its bucket holds.
    pub depth: Units,
    /// The units that bursts leave there.
    pub reserve: Units,
    /// The units there; negative when its partitions have used more.
    pub left: Units,
}

impl MemberPositions {
    /// The most members of a group.
    pub const MAX: usize = MEMBERS_MAX;

    /// The first three of `nodes`.
    pub fn new(nodes: impl IntoIterator<Item = usize>) -> Self {
        let mut members = Self { nodes: [u32::MAX; MEMBERS_MAX], count: 0 };
        for (place, node) in members.nodes.iter_mut().zip(nodes) {
            // At most CapacityBuilder::NODES_MAX.
            *place = node as u32;
            members.count += 1;
        }
        members
    }

    /// The number of members.
    #[inline]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// The node of the member at `member`; the leader's node if the group is smaller.
    #[inline]
    pub fn node(&self, member: usize) -> usize {
        let member = if member < self.count() { member } else { 0 };
        self.nodes[member] as usize
    }

    /// The nodes, the leader's first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + use<> {
        self.nodes.into_iter().take(self.count()).map(|node| node as usize)
    }
}

impl TableView {
    /// The view that [`Capacity::view_table`] fills first.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Capacity {
    /// Shows the table at position `table` in `view`, whose memory is used again. The table is one
    /// of the store.
    pub fn view_table(&self, table: usize, now: Timestamp, view: &mut TableView) {
        let entry = &self.tables[table];
        let layout = &entry.table.layout;
        let plan = layout.plan();
        let numbers = plan.numbers;
        view.at = now;
        view.table = table;
        view.mode = numbers.mode;
        view.provisioned = [true, false].map(|is_read| Units::whole(numbers.units_per_second(is_read)));
        view.tokens = [true, false].map(|is_read| entry.table.tokens(is_read).view(now));
        view.account = entry.account.map(|account| account as usize);
        view.is_every_write_checked = numbers.write_check == WriteCheck::Always;
        view.is_majority_enough = numbers.write_quorum == WriteQuorum::Majority;
        view.is_indexed = !entry.indexes.is_empty() || entry.table.table_and_index().1.is_some();
        view.partitions.clear();
        view.partitions.extend((0..plan.len()).map(|index| {
            let state = layout.lock(&plan, index);
            PartitionView {
                id: state.id,
                range: state.range,
                members: self.positions(state.members),
                directions: [true, false].map(|is_read| direction_view(state.directions.of(is_read), now)),
            }
        }));
    }

    /// Shows the nodes and accounts.
    pub fn view_nodes(&self, now: Timestamp) -> NodesView {
        let nodes = self.nodes.iter().map(|node| NodeView {
            rate: Units::from_rate(node.rate()),
            promisable: Units::from_rate(node.promisable()),
            depth: Units::from_rate(node.depth()),
            reserve: Units::from_rate(node.burst_floor()),
            left: node.level(now),
        });
        let accounts = self.accounts.iter().map(|account| {
            let tokens = |is_read| account.tokens(is_read);
            [tokens(true).view(now), tokens(false).view(now)]
        });
        NodesView { at: now, nodes: nodes.collect(), accounts: accounts.collect() }
    }

    /// The position of a table; `None` if there is no such table.
    pub fn table_position(&self, namespace: &str, table: &str) -> Option<usize> {
        Some(self.entry(namespace, table).ok()?.0 as usize)
    }

    fn positions(&self, members: Members) -> MemberPositions {
        MemberPositions::new(members.as_slice().iter().filter_map(|number| self.node_position(*number)))
    }
}

impl Tokens {
    fn view(&self, now: Timestamp) -> TokensView {
        let TokenTerms { rate, depth } = self.terms();
        TokensView { rate, depth, left: self.left(now) }
    }
}

fn direction_view(throughput: &Throughput, now: Timestamp) -> DirectionView {
    let levels = throughput.now(now);
    let rates = throughput.rates;
    DirectionView {
        base: Units::from_rate(rates.base),
        rate: Units::from_rate(rates.allocated),
        ceiling: Units::from_rate(rates.ceiling),
        burst_max: Units::from_rate(rates.base * u64::from(rates.burst_seconds)),
        allocation: Units::from_thousandths(levels.allocation()),
        burst: Units::from_thousandths(levels.burst()),
        overflow: Units::from_rate(throughput.meter.overflow),
        admitted: Units::from_thousandths(throughput.meter.admitted),
        offered: Units::from_rate(throughput.meter.offered),
    }
}
