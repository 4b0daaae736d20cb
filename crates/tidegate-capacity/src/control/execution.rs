//! Plans that are carried out, and moves that run.

use tidegate_core::Timestamp;

use super::census::SKETCHES_MAX;
use super::load::{MovedPartition, NewPartition, TableLoad};
use super::{Control, NEW_MAX};
use crate::capacity::Capacity;
use crate::control::load_history::RangeLoad;
use crate::control::placement::{MoveOrder, MoveProgress, PlacementDriver};
use crate::control::plan::{Plan, PlanReason, PlannedChange};
use crate::control::reshape::SplitShares;
use crate::error::CapacityError;
use crate::layout::partition_id::PartitionId;
use crate::units::Units;

impl Control {
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
        let PlannedChange::Move(order) = &plan.change else {
            return Ok(self.reshape(capacity, plan, now).map(|_| ())?);
        };
        let (holder, _) = capacity.partition_at(&plan.namespace, &plan.table, order.range.first)?;
        if holder != order.partition {
            return Err(ControlError::Changed(order.partition));
        }
        driver.start(order, now).map_err(ControlError::Driver)?;
        // The same order may come again.
        if !self.running.contains(order) {
            self.running.push(order.clone());
        }
        Ok(())
    }

    /// Makes a split or a merge, which need no driver. Returns whether the plan is one: a move
    /// changes nothing here.
    ///
    /// A plan for a partition that has changed since is an error, and nothing is changed.
    pub fn reshape(
        &mut self,
        capacity: &Capacity,
        plan: &Plan,
        now: Timestamp,
    ) -> Result<bool, CapacityError> {
        let (namespace, table) = (plan.namespace.as_str(), plan.table.as_str());
        match &plan.change {
            PlannedChange::Split { partition, at, shares } => {
                let mut partition = *partition;
                if plan.reason == PlanReason::Growth {
                    // The cuts of growth follow one another.
                    let (holder, first) = capacity.partition_at(namespace, table, *at)?;
                    if first == *at {
                        return Ok(true);
                    }
                    partition = holder;
                    // The pieces of one cut are no partitions that bore a load.
                    let id = capacity.table(namespace, table)?.id;
                    let known = self.loads.of_table(id);
                    if let Some(range) = known.iter().find(|one| one.id() == partition).map(RangeLoad::range)
                    {
                        self.grown.note(id, range);
                    }
                }
                let parts = capacity.split(namespace, table, partition, *at, *shares, now)?;
                self.sample_parts(capacity, plan, &parts, now);
                self.predict_parts(plan, partition, &parts, &[*shares]);
            }
            PlannedChange::Isolate { partition, key, behind, shares } => {
                let cuts = [*key, *behind];
                let parts = capacity.isolate(namespace, table, *partition, cuts, *shares, now)?;
                self.sample_parts(capacity, plan, &parts, now);
                self.predict_parts(plan, *partition, &parts, shares);
            }
            PlannedChange::Merge { left } => {
                let of_table = capacity.table(namespace, table)?;
                let partitions = of_table.layout.plan().len();
                let joined = capacity.merge(namespace, table, *left, now)?;
                self.loads.note_merge(of_table.id, partitions, [*left, joined], now);
            }
            PlannedChange::Move(_) => return Ok(false),
        }
        Ok(true)
    }

    /// Samples the keys of new partitions at once: the load of the one that they were cut from is
    /// theirs. The next look turns the sketch of a cool one off.
    fn sample_parts(&self, capacity: &Capacity, plan: &Plan, parts: &[PartitionId], now: Timestamp) {
        let Some(operation) = plan.reason.operation() else { return };
        let sketches: usize = self.tables.iter().map(|load| load.sketches).sum();
        for id in parts.iter().take(SKETCHES_MAX.saturating_sub(sketches)) {
            // A partition that is already gone has none.
            let table = (plan.namespace.as_str(), plan.table.as_str());
            let _ = capacity.sample_keys(table, *id, operation, Some(self.seed_of(*id)), now);
        }
    }

    /// Notes the loads of new partitions as the load of the one that they were cut from predicts.
    fn predict_parts(
        &mut self,
        plan: &Plan,
        whole: PartitionId,
        parts: &[PartitionId],
        shares: &[SplitShares],
    ) {
        let Some(load) = TableLoad::find(&self.tables, (&plan.namespace, &plan.table)) else { return };
        let Some(observed) = load.partition(whole) else { return };
        let is_isolated = matches!(plan.reason, PlanReason::HotKey(_));
        let mut rest = observed.directions.each_ref().map(|one| one.offered);
        for (place, id) in parts.iter().enumerate().take(NEW_MAX.saturating_sub(self.new.len())) {
            // The last part has what the cuts leave.
            let offered = shares.get(place).map_or(rest, |shares| {
                let [reads, writes] = rest.map(|units| units.as_thousandths().max(0).cast_unsigned());
                [shares.read.of(reads), shares.write.of(writes)].map(Units::from_rate)
            });
            rest = [rest[0] - offered[0], rest[1] - offered[1]];
            self.new.push(NewPartition { table: load.table.id, id: *id, offered, is_isolated });
        }
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
                        let table = capacity.table(namespace, table).map(|table| table.id);
                        let partition = order.partition;
                        self.moved.extend(table.map(|table| MovedPartition {
                            table,
                            partition,
                            moved_at: now,
                        }));
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
