//! The control loops of all tables: what they observe, and the plans that come of it.
//!
//! [`Control::tick`] is called about once a second, with any pause in between. It boosts by itself,
//! since a boost is undone as easily, and proposes everything else as [`Plan`]s. A caller carries
//! out those that it wants with [`Control::carry_out`], a move with the help of a
//! [`PlacementDriver`].
//!
//! A tick that comes late judges the time since the last one as one period. After a step back of
//! the clock, or more than two windows without a tick, everything is observed anew.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_core::{AccessOperation, Timestamp};

use crate::boost::{self, BoostLoad, boosted_rates};
use crate::capacity::Capacity;
use crate::error::CapacityError;
use crate::growth::{EvenCut, GrownTable};
use crate::key_range::KeyRange;
use crate::levels::Share;
use crate::load_history::{LoadHistory, RangeLoad};
use crate::merge::{CoolPair, CoolReplicas, JoiningMove, MergeLoad, cool_neighbours, joining_move};
use crate::partition_id::PartitionId;
use crate::placement::{MoveOrder, MoveProgress, PlacementDriver};
use crate::plan::{Plan, PlanReason, PlannedChange};
use crate::relocation::{COOLDOWN, NodeUse, ReplicaMove, ReplicaUse, unburdening_moves};
use crate::reshape::SplitShares;
use crate::sketch::{KeySample, WINDOW};
use crate::split::{Cut, SplitLoad, SplitVerdict, WINDOWS_MAX, split_verdict};
use crate::status::{DirectionStatus, PartitionStatus};
use crate::table_config::TableMode;
use crate::units::Units;

/// The youngest partition that is cut again.
const SPLIT_AGE_MIN: Duration = Duration::from_secs(30);

const OPERATIONS: [AccessOperation; 2] = [AccessOperation::Read, AccessOperation::Write];

/// The control loops of a store.
#[derive(Debug)]
pub struct Control {
    seed: u64,
    partitions: BTreeMap<(String, String, PartitionId), [Observed; 2]>,
    /// The partitions that were moved lately, and when.
    moved: BTreeMap<(String, String, PartitionId), Timestamp>,
    /// Moves that a driver carries out.
    running: Vec<MoveOrder>,
    boosted_at: Timestamp,
    judged_at: Timestamp,
    /// For merges.
    loads: LoadHistory,
}

/// One direction of a partition over the last windows.
#[derive(Clone, Debug, Default)]
struct Observed {
    before: Option<Totals>,
    /// Units a second of first attempts, and admitted ones, since the last judgement.
    offered: Units,
    admitted: Units,
    is_throttled: bool,
    boost_before: Option<Totals>,
    samples: VecDeque<KeySample>,
    is_sampled: bool,
    verdict: Option<SplitVerdict>,
}

#[derive(Clone, Copy, Debug)]
struct Totals {
    offered: Units,
    admitted: Units,
    throttled: Units,
}

impl Totals {
    fn of(status: &DirectionStatus) -> Self {
        Self { offered: status.offered, admitted: status.admitted, throttled: status.throttled }
    }

    /// Units a second of first attempts and of admitted ones since `before`, and whether any were
    /// refused. Totals that fell are those of a partition that gave units back.
    fn since(self, before: Self, elapsed: Duration) -> (Units, Units, bool) {
        let rate = |now: Units, before: Units| {
            let units = i128::from((now - before).as_thousandths().max(0));
            let millis = i128::try_from(elapsed.as_millis()).unwrap_or(i128::MAX).max(1);
            // At most the units, as a period is at least a second.
            Units::from_thousandths((units * 1000 / millis) as i64)
        };
        (
            rate(self.offered, before.offered),
            rate(self.admitted, before.admitted),
            self.throttled > before.throttled,
        )
    }
}

impl Control {
    /// Loops that begin at `now`. The seed decides which keys are sampled.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        Self {
            seed,
            partitions: BTreeMap::new(),
            moved: BTreeMap::new(),
            running: Vec::new(),
            boosted_at: now,
            judged_at: now,
            loads: LoadHistory::default(),
        }
    }

    /// Observes the store, boosts, and proposes the changes of which the time has come.
    pub fn tick(&mut self, capacity: &Capacity, now: Timestamp) -> Vec<Plan> {
        if now < self.judged_at || now.saturating_since(self.judged_at) >= 3 * WINDOW {
            *self = Self {
                moved: core::mem::take(&mut self.moved),
                running: core::mem::take(&mut self.running),
                loads: core::mem::take(&mut self.loads).forget_loads(),
                ..Self::new(self.seed, now)
            };
        }
        if now.saturating_since(self.boosted_at) >= boost::PERIOD {
            self.boost(capacity, now);
        }
        let mut plans = Vec::new();
        if now.saturating_since(self.judged_at) >= WINDOW {
            self.observe(capacity, now);
            self.loads.observe(capacity, now);
            self.propose_splits(capacity, now, &mut plans);
            self.propose_moves(capacity, now, &mut plans);
            self.propose_merges(capacity, now, &mut plans);
            self.judged_at = now;
        }
        for grown in capacity.follow_demand(now) {
            self.propose_growth(capacity, &grown, now, &mut plans);
        }
        plans
    }

    /// The verdict on one direction of a partition at the last judgement; `None` while it is not
    /// warm.
    pub fn verdict(
        &self,
        (namespace, table): (&str, &str),
        partition: PartitionId,
        operation: AccessOperation,
    ) -> Option<&SplitVerdict> {
        let key = (namespace.to_owned(), table.to_owned(), partition);
        let index = usize::from(operation == AccessOperation::Write);
        self.partitions.get(&key).and_then(|both| both[index].verdict.as_ref())
    }

    fn observed(&mut self, table: (&str, &str), partition: PartitionId) -> &mut [Observed; 2] {
        self.partitions.entry((table.0.to_owned(), table.1.to_owned(), partition)).or_default()
    }

    /// Boosts the tables of the adaptive mode. A node that cannot bear a boost keeps the rate; its
    /// load moves replicas away from it.
    fn boost(&mut self, capacity: &Capacity, now: Timestamp) {
        let elapsed = now.saturating_since(self.boosted_at);
        for (namespace, table) in capacity.tables() {
            if capacity.mode(namespace, table) != Some(TableMode::Adaptive) {
                continue;
            }
            let statuses = statuses(capacity, namespace, table, now);
            for (index, operation) in OPERATIONS.into_iter().enumerate() {
                let mut consumed = Units::ZERO;
                let loads: Vec<BoostLoad> = statuses
                    .iter()
                    .map(|status| {
                        let direction = direction(status, operation);
                        let totals = Totals::of(direction);
                        let observed = &mut self.observed((namespace, table), status.id)[index];
                        let before = observed.boost_before.replace(totals).unwrap_or(totals);
                        let (offered, admitted, is_throttled) = totals.since(before, elapsed);
                        consumed = consumed + admitted;
                        let DirectionStatus { base, rate, ceiling, .. } = *direction;
                        BoostLoad { base, rate, ceiling, offered, is_throttled }
                    })
                    .collect();
                let provisioned = loads.iter().fold(Units::ZERO, |sum, load| sum + load.base);
                let rates = boosted_rates(&loads, consumed, provisioned, elapsed);
                for ((status, load), rate) in statuses.iter().zip(&loads).zip(rates) {
                    if rate != load.rate {
                        let _ = capacity.allocate(namespace, table, status.id, operation, rate, now);
                    }
                }
            }
        }
        self.boosted_at = now;
    }

    /// Reads the totals and samples of all partitions, and turns sketches on and off.
    fn observe(&mut self, capacity: &Capacity, now: Timestamp) {
        let elapsed = now.saturating_since(self.judged_at);
        let seed = self.seed;
        let mut before = core::mem::take(&mut self.partitions);
        for (namespace, table) in capacity.tables() {
            for status in statuses(capacity, namespace, table, now) {
                let key = (namespace.to_owned(), table.to_owned(), status.id);
                let mut both = before.remove(&key).unwrap_or_default();
                for (observed, operation) in both.iter_mut().zip(OPERATIONS) {
                    let direction = direction(&status, operation);
                    let totals = Totals::of(direction);
                    let earlier = observed.before.replace(totals);
                    let Some(earlier) = earlier else { continue };
                    (observed.offered, observed.admitted, observed.is_throttled) =
                        totals.since(earlier, elapsed);
                    let is_warm = observed.offered.as_thousandths() * 2 > direction.ceiling.as_thousandths();
                    let place = (namespace, table);
                    if observed.is_sampled
                        && let Ok(Some(sample)) = capacity.take_key_sample(place, status.id, operation, now)
                    {
                        push_bounded(&mut observed.samples, sample, WINDOWS_MAX);
                    }
                    if is_warm != observed.is_sampled {
                        let seed = is_warm.then_some(seed ^ u64::from(status.id.0));
                        let _ = capacity.sample_keys(place, status.id, operation, seed, now);
                        observed.is_sampled = is_warm;
                        if !is_warm {
                            (observed.samples, observed.verdict) = (VecDeque::new(), None);
                        }
                    }
                }
                self.partitions.insert(key, both);
            }
        }
    }

    fn propose_splits(&mut self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        for (namespace, table) in capacity.tables() {
            for status in statuses(capacity, namespace, table, now) {
                let both = self.observed((namespace, table), status.id);
                for (observed, operation) in both.iter_mut().zip(OPERATIONS) {
                    // Only a cause that a cut removes: the partition's own buckets refused.
                    if !observed.is_throttled || observed.samples.is_empty() {
                        continue;
                    }
                    let load = SplitLoad {
                        range: status.range,
                        ceiling: direction(&status, operation).ceiling,
                        windows: observed.samples.make_contiguous(),
                        spanning: 0,
                        requests: 0,
                    };
                    let verdict = split_verdict(&load);
                    let is_young =
                        status.made_at.is_some_and(|made_at| now.saturating_since(made_at) < SPLIT_AGE_MIN);
                    let chosen = match &verdict {
                        SplitVerdict::Split(cut) if !is_young => {
                            Some((*cut, PlanReason::AboveCeiling(operation)))
                        }
                        // A cut at a time: the other one is of a partition that does not exist yet.
                        SplitVerdict::HotKey { cuts, .. } => {
                            cuts.first().map(|cut| (*cut, PlanReason::HotKey(operation)))
                        }
                        _ => None,
                    };
                    observed.verdict = Some(verdict);
                    if let Some((Cut { at, left, benefit }, reason)) = chosen {
                        let shares = SplitShares { read: left, write: left };
                        let change = PlannedChange::Split { partition: status.id, at, shares };
                        plans.push(Plan { benefit, ..Plan::new((namespace, table), change, reason, now) });
                        // One plan for a partition, whatever the other direction says.
                        break;
                    }
                }
            }
        }
    }

    fn propose_merges(&self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        let names: Vec<&str> = capacity.nodes(now).map(|node| node.name).collect();
        let positions: BTreeMap<&str, usize> = names.iter().copied().zip(0..).collect();
        let mut nodes: Vec<NodeUse> = capacity
            .nodes(now)
            .map(|node| NodeUse {
                units: node.rate,
                promisable: node.promisable,
                promised: node.promised,
                offered: Units::ZERO,
            })
            .collect();
        let mut apart = Vec::new();
        for (namespace, table) in capacity.tables() {
            let statuses = statuses(capacity, namespace, table, now);
            let loads = self.merge_loads(capacity, (namespace, table), &statuses, &positions, plans);
            let histories = self.loads.of_table(namespace, table);
            for (load, history) in loads.iter().zip(histories) {
                let [reads, writes] = history.latest();
                for (member, node) in load.nodes.iter().enumerate() {
                    // Those of nodes that are gone, and of members that there are not, have none.
                    let Some(node) = nodes.get_mut(*node) else { continue };
                    let of_member = if member == 0 { reads + writes } else { writes };
                    node.offered = node.offered + of_member;
                }
            }
            let most = self.loads.merges_left(namespace, table, statuses.len(), now);
            for CoolPair { left, is_together, .. } in cool_neighbours(&loads, most, now) {
                if is_together {
                    let change = PlannedChange::Merge { left };
                    plans.push(Plan::new((namespace, table), change, PlanReason::Cool, now));
                } else if let Some(index) = loads.iter().position(|load| load.id == left) {
                    let pair = [(statuses[index], loads[index]), (statuses[index + 1], loads[index + 1])];
                    apart.push(((namespace, table), pair));
                }
            }
        }
        // Once it is known what all nodes are asked for.
        for (place, pair) in apart {
            let is_rested = |status: &PartitionStatus<'_>| {
                let moved = self.moved.get(&(place.0.to_owned(), place.1.to_owned(), status.id));
                moved.is_none_or(|moved| now.saturating_since(*moved) >= COOLDOWN)
            };
            if !pair.iter().all(|(status, _)| is_rested(status)) {
                continue;
            }
            let replicas = pair.map(|(status, load)| CoolReplicas {
                nodes: load.nodes,
                promised: [status.read_rate + status.write_rate, status.write_rate],
            });
            if let Some(JoiningMove { is_right, from, to, promised }) = joining_move(replicas, &nodes) {
                nodes[to].promised = nodes[to].promised + promised;
                let (status, _) = pair[usize::from(is_right)];
                let order = MoveOrder::new(place, (status.id, status.range), names[from], names[to]);
                plans.push(Plan::new(place, PlannedChange::Move(order), PlanReason::Cool, now));
            }
        }
    }

    /// The partitions of a table as candidates for merges.
    fn merge_loads(
        &self,
        capacity: &Capacity,
        (namespace, table): (&str, &str),
        statuses: &[PartitionStatus<'_>],
        nodes: &BTreeMap<&str, usize>,
        plans: &[Plan],
    ) -> Vec<MergeLoad> {
        let is_here = |(of_namespace, of_table): (&str, &str)| of_namespace == namespace && of_table == table;
        let planned = plans.iter().filter_map(|plan| match &plan.change {
            _ if !is_here((&plan.namespace, &plan.table)) => None,
            PlannedChange::Split { partition, .. } => Some(*partition),
            PlannedChange::Merge { left } => Some(*left),
            PlannedChange::Move(order) => Some(order.partition),
        });
        let running = self.running.iter().filter(|order| is_here((&order.namespace, &order.table)));
        let busy: BTreeSet<PartitionId> = planned.chain(running.map(|order| order.partition)).collect();
        let bounds = capacity.configured_bounds(namespace, table).unwrap_or_default();
        let histories = self.loads.of_table(namespace, table);
        let load = |(status, history): (&PartitionStatus<'_>, Option<&RangeLoad>)| {
            let key = (namespace.to_owned(), table.to_owned(), status.id);
            let is_hot = |one: &Observed| matches!(one.verdict, Some(SplitVerdict::HotKey { .. }));
            let members = [Some(status.node), status.followers[0], status.followers[1]];
            // A partition that is to change is not joined in the same tick.
            let history = history.filter(|history| history.id() == status.id && !busy.contains(&status.id));
            MergeLoad {
                id: status.id,
                made_at: status.made_at,
                rejoined_at: history.and_then(RangeLoad::rejoined_at),
                peaks: history.and_then(RangeLoad::peaks),
                bases: [status.read.base, status.write.base],
                ceilings: [status.read.ceiling, status.write.ceiling],
                has_hot_key: self.partitions.get(&key).is_some_and(|both| both.iter().any(is_hot)),
                begins_configured: bounds.binary_search(&status.range.first).is_ok(),
                width: status.range.width(),
                nodes: members
                    .map(|node| node.and_then(|node| nodes.get(node).copied()).unwrap_or(usize::MAX)),
            }
        };
        // Observed just before, in the order of the ranges.
        let histories = histories.iter().map(Some).chain(core::iter::repeat(None));
        statuses.iter().zip(histories).map(load).collect()
    }

    fn propose_moves(&mut self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        let names: Vec<&str> = capacity.nodes(now).map(|node| node.name).collect();
        let mut nodes: Vec<NodeUse> = capacity
            .nodes(now)
            .map(|node| NodeUse {
                units: node.rate,
                promisable: node.promisable,
                promised: node.promised,
                offered: Units::ZERO,
            })
            .collect();
        let tables: Vec<(&str, &str)> = capacity.tables().collect();
        let mut replicas = Vec::new();
        let mut ranges = BTreeMap::new();
        for (index, (namespace, table)) in tables.iter().enumerate() {
            for status in statuses(capacity, namespace, table, now) {
                let key = ((*namespace).to_owned(), (*table).to_owned(), status.id);
                let Some(node) = names.iter().position(|name| *name == status.node) else { continue };
                let offered =
                    self.partitions.get(&key).map_or(Units::ZERO, |both| both[0].offered + both[1].offered);
                nodes[node].offered = nodes[node].offered + offered;
                ranges.insert((index, status.id), status.range);
                replicas.push(ReplicaUse {
                    table: index,
                    partition: status.id,
                    node,
                    promised: status.read_rate + status.write_rate,
                    offered,
                    bytes: 0,
                    moved_at: self.moved.get(&key).copied(),
                });
            }
        }
        let position = |name: &str| names.iter().position(|known| *known == name);
        let running: Vec<ReplicaMove> = self
            .running
            .iter()
            .filter_map(|order| {
                let is_it = |(namespace, table): &(&str, &str)| {
                    *namespace == order.namespace && *table == order.table
                };
                let table = tables.iter().position(is_it)?;
                Some(ReplicaMove {
                    table,
                    partition: order.partition,
                    from: position(&order.from)?,
                    to: position(&order.to)?,
                })
            })
            .collect();
        for chosen in unburdening_moves(&nodes, &replicas, &running, now) {
            let (namespace, table) = tables[chosen.table];
            let range = ranges[&(chosen.table, chosen.partition)];
            let order = MoveOrder::new(
                (namespace, table),
                (chosen.partition, range),
                names[chosen.from],
                names[chosen.to],
            );
            let change = PlannedChange::Move(order);
            plans.push(Plan::new((namespace, table), change, PlanReason::NodeBusy, now));
        }
    }

    /// Cuts partitions of a table for what it can reach at once. The cuts of one partition follow
    /// one another from the middle, so each finds the piece of the one before by its position. A
    /// partition that moves is cut when it has arrived.
    fn propose_growth(&self, capacity: &Capacity, grown: &GrownTable, now: Timestamp, plans: &mut Vec<Plan>) {
        let place = (grown.namespace.as_str(), grown.table.as_str());
        let planned = plans.iter().filter_map(|plan| match &plan.change {
            PlannedChange::Move(order) => Some(order),
            PlannedChange::Split { .. } | PlannedChange::Merge { .. } => None,
        });
        let moving: BTreeSet<PartitionId> = planned
            .chain(&self.running)
            .filter(|order| (order.namespace.as_str(), order.table.as_str()) == place)
            .map(|order| order.partition)
            .collect();
        let ranges: BTreeMap<PartitionId, KeyRange> = statuses(capacity, place.0, place.1, now)
            .iter()
            .map(|status| (status.id, status.range))
            .collect();
        for EvenCut { partition, pieces } in grown.cuts.iter().filter(|cut| !moving.contains(&cut.partition))
        {
            let Some(range) = ranges.get(partition) else { continue };
            let cuts = range.even_cuts(*pieces);
            let mut parts = vec![&cuts[..]];
            while let Some(part) = parts.pop() {
                let Some(at) = part.get(part.len() / 2) else { continue };
                let (left, right) = (&part[..part.len() / 2], &part[part.len() / 2 + 1..]);
                let share = Share::of_parts(left.len() as u64 + 1, right.len() as u64 + 1);
                let shares = SplitShares { read: share, write: share };
                let change = PlannedChange::Split { partition: *partition, at: *at, shares };
                plans.push(Plan::new(place, change, PlanReason::Growth, now));
                parts.extend([right, left]);
            }
        }
    }

    /// Carries a plan out. A split and a merge are done at once; a move is started at the driver,
    /// and [`Control::follow_moves`] ends it.
    ///
    /// A plan for a partition that has changed since is an error, and nothing is changed.
    pub fn carry_out<D: PlacementDriver>(
        &mut self,
        capacity: &Capacity,
        plan: &Plan,
        driver: &mut D,
        now: Timestamp,
    ) -> Result<(), ControlError<D::Error>> {
        let (namespace, table) = (plan.namespace.as_str(), plan.table.as_str());
        match &plan.change {
            PlannedChange::Split { partition, at, shares } => {
                let mut partition = *partition;
                if plan.reason == PlanReason::Growth {
                    // The cuts of growth follow one another.
                    let (holder, first) = capacity.partition_at(namespace, table, *at)?;
                    if first == *at {
                        return Ok(());
                    }
                    partition = holder;
                }
                capacity.split(namespace, table, partition, *at, *shares, now)?;
            }
            PlannedChange::Merge { left } => {
                let partitions = capacity.partitions(namespace, table, now)?.len();
                let joined = capacity.merge(namespace, table, *left, now)?;
                self.loads.note_merge((namespace, table), partitions, [*left, joined], now);
            }
            PlannedChange::Move(order) => {
                let is_there = statuses(capacity, namespace, table, now)
                    .iter()
                    .any(|status| status.id == order.partition && status.range == order.range);
                if !is_there {
                    return Err(ControlError::Changed(order.partition));
                }
                driver.start(order, now).map_err(ControlError::Driver)?;
                self.running.push(order.clone());
            }
        }
        Ok(())
    }

    /// Asks the driver about the moves that run. A report of the driver that a move is done is not
    /// enough: the plane follows when the store itself shows the keys at the destination. Returns
    /// the moves that ended, each with whether the replica lies at its destination.
    pub fn follow_moves<D: PlacementDriver>(
        &mut self,
        capacity: &Capacity,
        driver: &mut D,
        now: Timestamp,
    ) -> Vec<EndedMove<D::Error>> {
        let mut ended = Vec::new();
        for order in core::mem::take(&mut self.running) {
            let (namespace, table) = (order.namespace.as_str(), order.table.as_str());
            match driver.progress(&order, now) {
                Ok(MoveProgress::Running { gated_until }) => {
                    if let Some(until) = gated_until {
                        let _ = capacity.gate(namespace, table, order.partition, until);
                    }
                    self.running.push(order);
                }
                Ok(MoveProgress::Failed) => ended.push(EndedMove { order, outcome: Ok(false) }),
                Ok(MoveProgress::Done) => {
                    let is_there = driver.lies_on(&order, &order.to, now).map_err(ControlError::Driver);
                    let outcome = is_there.and_then(|is_there| {
                        if is_there {
                            let (from, to) = (order.from.as_str(), order.to.as_str());
                            capacity.move_replica(namespace, table, order.partition, from, to, now)?;
                            capacity.gate(namespace, table, order.partition, now)?;
                        }
                        Ok(is_there)
                    });
                    if matches!(outcome, Ok(true)) {
                        let key = (order.namespace.clone(), order.table.clone(), order.partition);
                        self.moved.insert(key, now);
                    }
                    ended.push(EndedMove { order, outcome });
                }
                // It is asked again: the move may have ended or not.
                Err(_) => self.running.push(order),
            }
        }
        ended
    }
}

/// A move that ended.
#[derive(Debug)]
pub struct EndedMove<E: core::fmt::Debug + core::fmt::Display> {
    /// The move.
    pub order: MoveOrder,
    /// Whether the replica lies at its destination; or why the plane does not know, or cannot
    /// follow.
    pub outcome: Result<bool, ControlError<E>>,
}

/// The reason for which a plan was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError<E: core::fmt::Debug + core::fmt::Display> {
    /// The plane cannot make the change.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    /// The partition was split or merged since the plan was proposed.
    #[error("partition {0} was split or merged since the plan was made; wait for the next plan")]
    Changed(PartitionId),
    /// The driver cannot make it.
    #[error("the placement driver failed: {0}")]
    Driver(E),
}

fn statuses<'a>(
    capacity: &'a Capacity,
    namespace: &str,
    table: &str,
    now: Timestamp,
) -> Vec<PartitionStatus<'a>> {
    capacity.partitions(namespace, table, now).map(Iterator::collect).unwrap_or_default()
}

const fn direction<'a>(status: &'a PartitionStatus<'_>, operation: AccessOperation) -> &'a DirectionStatus {
    match operation {
        AccessOperation::Read => &status.read,
        AccessOperation::Write => &status.write,
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, value: T, max: usize) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(value);
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
