//! The levels of every bucket, kept from the trace alone.

use tidegate_capacity::{KeyRange, PartitionId, TableMode, Units};

use super::level::{RefillingLevel, SpillingLevels, fine};
use crate::capacity::scenario::{CapacityScenario, NodeSpec};
use crate::capacity::trace::{DecisionAnswer, DecisionEvent, PartitionRecord};
use crate::kit::SECOND;

/// A node's bucket holds its rate for one such part of a second.
pub(super) const NODE_DEPTH_PARTS: i64 = 10;

/// The bucket that a request was charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassedBy {
    /// The allocation.
    Allocation,
    /// The burst credit.
    Burst,
    /// Neither: global admission beyond the allocation.
    Spare,
}

/// One partition.
#[derive(Clone, Debug)]
pub(super) struct PartitionBook {
    pub(super) id: PartitionId,
    pub(super) range: KeyRange,
    /// The positions of the nodes of its members, the leader first.
    pub(super) members: Vec<usize>,
    pub(super) base: i64,
    pub(super) levels: SpillingLevels,
    /// The leader's ceiling.
    pub(super) ceiling: RefillingLevel,
    /// Whether its levels were told after a cut or a join, so that its begun thousandth is unknown.
    is_told: bool,
    /// Thousandths that were charged to the allocation or to the burst credit: with the begun
    /// thousandth unknown, the trace does not say to which.
    pub(super) doubt: i64,
}

/// One table.
#[derive(Debug)]
pub(super) struct TableBook {
    pub(super) name: String,
    pub(super) mode: TableMode,
    pub(super) tokens: RefillingLevel,
    /// In the order of their ranges.
    pub(super) partitions: Vec<PartitionBook>,
    /// The place of each partition by its number; `u32::MAX` for one that is gone.
    places: Vec<u32>,
    pub(super) burst_seconds: i64,
    pub(super) cost_max: i64,
}

/// All tables and nodes.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) tables: Vec<TableBook>,
    pub(super) nodes: Vec<RefillingLevel>,
    /// The thousandths that bursts leave at each node.
    pub(super) reserves: Vec<i64>,
}

/// An allocation in debt lets a hundredth of its rate through.
const DEBT_PART: i64 = 100;

/// Unused throughput is kept for five minutes.
const BURST_SECONDS: i64 = 300;

impl Books {
    /// Books of full buckets, for a scenario whose partitions are `partitions` of each table.
    pub(super) fn new(
        scenario: &CapacityScenario,
        mode_of: impl Fn(usize) -> TableMode,
        partitions: &[Vec<PartitionRecord>],
    ) -> Self {
        let nodes: Vec<RefillingLevel> = scenario
            .nodes
            .iter()
            .map(|node| {
                let rate = thousandths(node.units_per_second);
                RefillingLevel::full(rate, rate / NODE_DEPTH_PARTS)
            })
            .collect();
        let tables = scenario.tables.iter().zip(partitions).enumerate().map(|(index, (spec, records))| {
            let rate = thousandths(spec.units_per_second);
            let depth = rate.max(Units::LARGEST_REQUEST.as_thousandths());
            let mut table = TableBook {
                name: spec.name.clone(),
                mode: mode_of(index),
                tokens: RefillingLevel::full(rate, depth),
                partitions: records
                    .iter()
                    .map(|record| {
                        let followers = (1..usize::from(spec.replicas)).map(|step| {
                            // The members of a group lie on the nodes that follow the leader's.
                            let names = &spec.nodes;
                            let leader = &scenario.nodes[record.leader].name;
                            let place = names.iter().position(|name| name == leader).unwrap_or(0);
                            let follower = &names[(place + step) % names.len()];
                            scenario.nodes.iter().position(|node| node.name == *follower).unwrap_or(0)
                        });
                        PartitionBook {
                            id: record.id,
                            range: record.range,
                            members: core::iter::once(record.leader).chain(followers).collect(),
                            base: record.base,
                            levels: SpillingLevels::full(record.rate, record.base * BURST_SECONDS),
                            ceiling: RefillingLevel::full(record.ceiling, record.ceiling),
                            is_told: false,
                            doubt: 0,
                        }
                    })
                    .collect(),
                places: Vec::new(),
                burst_seconds: BURST_SECONDS,
                cost_max: i64::from(spec.demand.units) * 1000,
            };
            table.number();
            table
        });
        let reserve = |node: &NodeSpec| {
            thousandths(node.units_per_second) / NODE_DEPTH_PARTS * i64::from(node.reserve_percent) / 100
        };
        Self { tables: tables.collect(), nodes, reserves: scenario.nodes.iter().map(reserve).collect() }
    }

    /// The bucket that an admitted request of `cost` is charged to, by the level before it.
    #[inline]
    pub(super) fn path(&self, table: usize, place: usize, cost: i64, at: u64) -> PassedBy {
        let table = &self.tables[table];
        let levels = &table.partitions[place].levels;
        let (allocation, _) = levels.at(at);
        // Anything left admits: a whole thousandth. A charge that may have been the allocation's is
        // not held against the nodes.
        let is_turn = levels.gained(at) >= fine(cost * DEBT_PART);
        if allocation >= fine(1) || is_turn || table.partitions[place].is_doubtful(at) {
            return PassedBy::Allocation;
        }
        match table.mode {
            TableMode::Global => PassedBy::Spare,
            TableMode::Burst | TableMode::Adaptive => PassedBy::Burst,
            // Nothing else can have admitted it.
            _ => PassedBy::Allocation,
        }
    }

    /// Books an admitted request.
    #[inline]
    pub(super) fn charge(&mut self, event: &DecisionEvent<'_>, place: usize, path: PassedBy, is_write: bool) {
        let DecisionEvent { at, cost, .. } = *event;
        debug_assert!(matches!(event.answer, DecisionAnswer::Admitted { .. }), "refusals charge nothing");
        let table = &mut self.tables[event.table];
        let partition = &mut table.partitions[place];
        partition.doubt_at(cost, at);
        match path {
            PassedBy::Allocation => partition.levels.charge(cost, 0, at),
            PassedBy::Burst => partition.levels.charge(0, cost, at),
            PassedBy::Spare => partition.levels.charge(0, 0, at),
        }
        partition.ceiling.charge(cost, at);
        if table.mode == TableMode::Global {
            table.tokens.charge(cost, at);
        }
        let members = if is_write { &partition.members[..] } else { &partition.members[..1] };
        for node in members {
            self.nodes[*node].charge(cost, at);
        }
    }
}

impl PartitionBook {
    /// Notes a charge of which the trace does not say to what it was.
    #[inline]
    fn doubt_at(&mut self, cost: i64, at: u64) {
        if self.is_doubtful(at) {
            self.doubt += cost;
        }
    }

    /// Whether the begun thousandth, which is unknown, decides to what a charge is made.
    #[inline]
    pub(super) fn is_doubtful(&self, at: u64) -> bool {
        self.is_told && (self.doubt > 0 || (0..fine(1)).contains(&self.levels.at(at).0))
    }

    /// Resolves a doubt by the levels that are told at `now`.
    pub(super) fn resolve(&mut self, record: &PartitionRecord, now: u64) {
        if self.doubt > 0 {
            let PartitionRecord { allocation, burst, .. } = *record;
            let SpillingLevels { rate, burst_max, .. } = self.levels;
            self.levels = SpillingLevels::told(rate, burst_max, allocation, burst, now);
            self.doubt = 0;
        }
    }
}

impl TableBook {
    /// The place of a partition; `None` if it is not one of the table.
    #[inline]
    pub(super) fn place_of(&self, id: PartitionId) -> Option<usize> {
        let place = *self.places.get(id.0 as usize)?;
        (place != u32::MAX).then_some(place as usize)
    }

    /// Replaces the partitions from place `from` to `to` by those of `records`, whose levels are
    /// told, and which lie on the nodes of the first that they replace unless led elsewhere.
    pub(super) fn replace(&mut self, from: usize, to: usize, records: &[PartitionRecord], now: u64) {
        let before = self.partitions[from].clone();
        // A joined partition has admitted what both have.
        let others = self.partitions[from + 1..to].iter();
        let ceiling = others.fold(before.ceiling, |ceiling, other| ceiling.joined(&other.ceiling, now));
        let made = records.iter().map(|record| {
            let mut members = before.members.clone();
            members[0] = record.leader;
            PartitionBook {
                id: record.id,
                range: record.range,
                members,
                base: record.base,
                levels: SpillingLevels::told(
                    record.rate,
                    record.base * self.burst_seconds,
                    record.allocation,
                    record.burst,
                    now,
                ),
                ceiling,
                is_told: true,
                doubt: 0,
            }
        });
        let made: Vec<PartitionBook> = made.collect();
        self.partitions.splice(from..to, made);
        self.number();
    }

    fn number(&mut self) {
        let most = self.partitions.iter().map(|partition| partition.id.0 as usize + 1).max();
        self.places = vec![u32::MAX; most.unwrap_or(0)];
        for (partition, place) in self.partitions.iter().zip(0..) {
            self.places[partition.id.0 as usize] = place;
        }
    }
}

fn thousandths(units: u64) -> i64 {
    units.cast_signed() * 1000
}

/// The shortest span, in nanoseconds, that separates two looks of the checkers at the shape of a
/// table.
pub(crate) const LOOK_EVERY: u64 = SECOND / 10;
