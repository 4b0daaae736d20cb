//! One table under a load that is told second by second. Each plan of the control loops is carried
//! out, and the invariants of splits and merges are checked by their bounds alone.

use std::collections::BTreeMap;

use tidegate_capacity::control::Control;
use tidegate_capacity::on_demand::{OnDemand, OnDemandTerms};
use tidegate_capacity::placement::{MoveOrder, MoveProgress, PlacementDriver};
use tidegate_capacity::plan::{Plan, PlannedChange};
use tidegate_capacity::{
    Access, AccessOperation, Admission, Bound, Capacity, CapacityBuilder, NodeConfig, PartitionBy,
    PartitionId, Position, TableConfig, Units,
};
use tidegate_core::Timestamp;

pub(crate) const SHOP: &str = "shop";
pub(crate) const ORDERS: &str = "orders";
/// A neighbour.
pub(crate) const CALM: &str = "calm";
pub(crate) const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// Four nodes with the default reserve.
pub(crate) fn nodes(units: u64) -> CapacityBuilder {
    NODES.iter().fold(Capacity::builder(), |builder, name| builder.node_config(NodeConfig::new(*name, units)))
}

/// A table by ranges with these initial writes, and three times as many reads.
pub(crate) fn on_demand(writes: u64) -> TableConfig {
    let terms = OnDemandTerms {
        read: OnDemand::new(Units::whole(writes * 3)),
        write: OnDemand::new(Units::whole(writes)),
    };
    let table = TableConfig::new(SHOP, ORDERS, 1, 1).on_demand(terms).nodes(NODES);
    table.partition_by(PartitionBy::Range)
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_795_210_800_000 + millis)
}

/// A driver that does at once what it is told.
#[derive(Default)]
struct PromptDriver {
    placed: BTreeMap<PartitionId, String>,
}

impl PlacementDriver for PromptDriver {
    type Error = &'static str;

    fn start(&mut self, order: &MoveOrder, _: Timestamp) -> Result<MoveProgress, Self::Error> {
        self.placed.insert(order.partition, order.to.clone());
        Ok(MoveProgress::Running { gated_until: None })
    }

    fn progress(&mut self, _: &MoveOrder, _: Timestamp) -> Result<MoveProgress, Self::Error> {
        Ok(MoveProgress::Done)
    }

    fn lies_on(&mut self, order: &MoveOrder, node: &str, _: Timestamp) -> Result<bool, Self::Error> {
        Ok(self.placed.get(&order.partition).is_some_and(|placed| placed == node))
    }

    fn abort(&mut self, _: &MoveOrder, _: Timestamp) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A merge: when, when the keys had been cut there, and the range of the new partition.
#[derive(Clone, Copy, Debug)]
struct Join {
    millis: u64,
    cut_millis: Option<u64>,
    first: Position,
    end: Option<Position>,
}

pub(crate) struct Story {
    pub(crate) capacity: Capacity,
    pub(crate) control: Control,
    driver: PromptDriver,
    pub(crate) millis: u64,
    access: u64,
    /// The hundredth of the second of the last look.
    looked_at: u64,
    /// Refusals since they were last taken.
    refused: BTreeMap<String, u64>,
    pub(crate) merges: usize,
    pub(crate) splits: usize,
    /// The bounds of partitions and when they were cut; `None` for those of the beginning.
    bounds: BTreeMap<Position, Option<u64>>,
    joins: Vec<Join>,
    /// The merges of the last minute: when, and of how many partitions.
    paced: Vec<(u64, usize)>,
    /// Of reads and writes of every partition, for ever.
    ceilings: [Units; 2],
}

impl Story {
    pub(crate) fn new(builder: CapacityBuilder, table: TableConfig) -> Self {
        let capacity = builder.table(table).build_at(at(0)).unwrap();
        let mut story = Self {
            control: Control::new(7, at(0)),
            driver: PromptDriver::default(),
            millis: 0,
            access: 0,
            looked_at: 0,
            refused: BTreeMap::new(),
            merges: 0,
            splits: 0,
            bounds: BTreeMap::new(),
            joins: Vec::new(),
            paced: Vec::new(),
            ceilings: [Units::ZERO; 2],
            capacity,
        };
        story.bounds = story.ranges().iter().map(|(first, _)| (*first, None)).collect();
        let status = story.capacity.partitions(SHOP, ORDERS, at(0)).unwrap().next().unwrap();
        story.ceilings = [status.read.ceiling, status.write.ceiling];
        story
    }

    pub(crate) fn now(&self) -> Timestamp {
        at(self.millis)
    }

    pub(crate) fn partitions(&self) -> usize {
        self.capacity.partitions(SHOP, ORDERS, self.now()).unwrap().len()
    }

    pub(crate) fn write_limit(&self) -> Units {
        self.capacity.token_rate(SHOP, ORDERS, AccessOperation::Write).unwrap()
    }

    /// The refusals since the last call, by the bucket that refused.
    pub(crate) fn take_refused(&mut self) -> BTreeMap<String, u64> {
        core::mem::take(&mut self.refused)
    }

    fn ranges(&self) -> Vec<(Position, Option<Position>)> {
        let statuses = self.capacity.partitions(SHOP, ORDERS, self.now()).unwrap();
        statuses.map(|status| (status.range.first, status.range.end)).collect()
    }

    /// Writes that cost `units` in a second, `cost` each, and a tick at the end of the second.
    /// Their keys are `place` of the number of the access, a number from 0 to 2^64.
    pub(crate) fn second(&mut self, units: u64, cost: u64, place: impl Fn(u64) -> u64) {
        let accesses = units / cost;
        for access in 0..accesses {
            let key = place(self.access);
            self.access += 1;
            if let Some(bound) = self.write(ORDERS, key, cost, at(self.millis + access * 1000 / accesses)) {
                *self.refused.entry(format!("{bound:?}")).or_default() += cost;
            }
            self.grow(access * 1000 / accesses);
        }
        self.end_second();
    }

    /// Cuts what must not wait for the next tick, at the end of each ten milliseconds.
    fn grow(&mut self, millis: u64) {
        if millis / 10 == self.looked_at {
            return;
        }
        self.looked_at = millis / 10;
        let begin = self.millis;
        self.millis += millis;
        for plan in self.control.grow(&self.capacity, self.now()) {
            self.carry_out(&plan);
        }
        self.millis = begin;
    }

    /// One write; the bucket that refused it.
    pub(crate) fn write(&self, table: &str, key: u64, cost: u64, now: Timestamp) -> Option<Bound> {
        let key = key.to_be_bytes();
        match self.capacity.admit(SHOP, &Access::write(table, &key, cost << 10), now).unwrap() {
            Admission::Admit(_) => None,
            Admission::Throttle(throttled) => Some(throttled.bound),
        }
    }

    /// The end of a second, with a tick.
    pub(crate) fn end_second(&mut self) {
        self.millis += 1000;
        self.tick();
    }

    /// Goes on with another configuration.
    pub(crate) fn reload(&mut self, builder: CapacityBuilder) {
        self.capacity = builder.build_over(&self.capacity, self.now()).unwrap();
    }

    /// A tick of the loops, all of whose plans are carried out.
    pub(crate) fn tick(&mut self) {
        let now = self.now();
        for plan in self.control.tick(&self.capacity, now) {
            self.carry_out(&plan);
        }
        self.control.follow_moves(&self.capacity, &mut self.driver, now);
        self.check_nodes();
    }

    fn carry_out(&mut self, plan: &Plan) {
        let now = self.now();
        self.control.carry_out(&self.capacity, plan, &mut self.driver, now).unwrap();
        match plan.change {
            PlannedChange::Split { .. } => self.splits += 1,
            PlannedChange::Isolate { .. } => self.splits += 2,
            PlannedChange::Merge { .. } => {
                self.merges += 1;
                self.check_pace();
            }
            PlannedChange::Move(_) => return,
        }
        self.check_change();
    }

    /// At most fifteen hundredths of the partitions in any minute, rounded up.
    fn check_pace(&mut self) {
        let now = self.millis;
        self.paced.retain(|(millis, _)| now < millis + 60_000);
        self.paced.push((now, self.partitions() + 1));
        let most = (self.paced[0].1 * 15).max(100).div_ceil(100);
        assert!(self.paced.len() <= most, "{} merges of {} in a minute", self.paced.len(), self.paced[0].1);
    }

    /// I11 and I12 by the bounds of the partitions before and after.
    fn check_change(&mut self) {
        let now = self.millis;
        let statuses: Vec<_> = self.capacity.partitions(SHOP, ORDERS, self.now()).unwrap().collect();
        let ceilings = self.ceilings;
        assert!(statuses.iter().all(|one| [one.read.ceiling, one.write.ceiling] == ceilings), "I11");
        assert!(statuses.iter().all(|one| one.write.base <= one.write.ceiling), "a share above the ceiling");
        let ranges: Vec<_> = statuses.iter().map(|one| (one.range.first, one.range.end)).collect();
        let is_there = |bound: &Position| ranges.binary_search_by_key(bound, |(first, _)| *first).is_ok();
        let gone: Vec<_> = self.bounds.keys().filter(|bound| !is_there(bound)).copied().collect();
        for bound in gone {
            let cut_millis = self.bounds.remove(&bound).unwrap();
            if let Some(cut) = cut_millis {
                assert!(now >= cut + 600_000, "I12: merged {} s after the cut", (now - cut) / 1000);
            }
            let (first, end) = *ranges.iter().rev().find(|(first, _)| *first < bound).unwrap();
            // The same keys were joined before they were cut here.
            let was_joined = |join: &&Join| join.first < bound && join.end.is_none_or(|end| bound < end);
            for join in self.joins.iter().filter(was_joined) {
                if cut_millis.is_some_and(|cut| cut >= join.millis) {
                    let between = (now - join.millis) / 1000;
                    assert!(between >= 1200, "I12: two cycles in {between} s, {join:?}");
                }
            }
            self.joins.push(Join { millis: now, cut_millis, first, end });
        }
        for (first, _) in ranges {
            self.bounds.entry(first).or_insert(Some(now));
        }
    }

    /// The cycles of a split and a merge that were closed.
    pub(crate) fn cycles(&self) -> usize {
        self.joins.iter().filter(|join| join.cut_millis.is_some()).count()
    }

    /// I6.
    fn check_nodes(&self) {
        for node in self.capacity.nodes(self.now()) {
            assert!(node.promised <= node.promisable, "I6: {node:?}");
        }
    }
}

/// A number from 0 to 2^64 that fills them evenly, from any start.
pub(crate) fn evenly(access: u64) -> u64 {
    access.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
