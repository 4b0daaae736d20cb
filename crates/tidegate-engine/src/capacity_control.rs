//! The control loops of the capacity plane, as the ticks of the engine run them.
//!
//! A tick boosts partitions, splits and merges them, and lets the limits of tables on demand follow
//! their use. Moves of partitions are proposed only: the data of a store lies where its operator
//! put it, and a move is made when the operator reports it as
//! [`Event::Placement`](crate::Event::Placement).
//!
//! The loops outlive a reload: they know tables by name.

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use tidegate_capacity::control::Control;
use tidegate_capacity::placement::MoveOrder;
use tidegate_capacity::plan::{Plan, PlannedChange};
use tidegate_capacity::split::SplitVerdict;
use tidegate_capacity::{AccessOperation, Capacity, PartitionId};
use tidegate_core::Timestamp;

/// The most moves that are proposed at a time; more are left out until some are made.
const MOVES_MAX: usize = 256;

/// The time after which a proposed move is dropped unless it is proposed again.
const PROPOSAL_LIFE: Duration = Duration::from_secs(30);

/// The time between two ticks of all loops. Those in between make cuts that must not wait.
const LOOPS_EACH: Duration = Duration::from_millis(900);

/// The control loops of all tables of an engine and of those that replace it.
#[derive(Debug)]
pub(crate) struct CapacityControl {
    seed: u64,
    // Held for the time of a tick; decisions never take it.
    loops: Mutex<Loops>,
}

#[derive(Debug, Default)]
struct Loops {
    /// `None` until the first tick of an engine with tables.
    control: Option<Control>,
    /// The last tick of all loops.
    ticked_at: Option<Timestamp>,
    /// The moves that are proposed, the oldest first.
    moves: Vec<Plan>,
}

impl CapacityControl {
    /// Loops that begin at their first tick. The seed decides which keys are sampled.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, loops: Mutex::default() }
    }

    /// Lets the loops work at `now`, and returns the plans that were carried out. Does nothing
    /// while another thread ticks.
    pub(crate) fn tick(&self, capacity: &Capacity, now: Timestamp) -> Vec<Plan> {
        let mut loops = match self.loops.try_lock() {
            Ok(loops) => loops,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Vec::new(),
        };
        let Loops { control, ticked_at, moves } = &mut *loops;
        let is_due = |at: Timestamp| now < at || now.saturating_since(at) >= LOOPS_EACH;
        if let Some(control) = control
            && !ticked_at.is_none_or(is_due)
        {
            let mut cuts = control.grow(capacity, now);
            cuts.retain(|plan| control.reshape(capacity, plan, now).is_ok());
            return cuts;
        }
        *ticked_at = Some(now);
        let control = control.get_or_insert_with(|| Control::new(self.seed, now));
        let (proposed, mut plans): (Vec<Plan>, Vec<Plan>) =
            control.tick(capacity, now).into_iter().partition(|plan| order_of(plan).is_some());
        // A partition that was cut or joined by an earlier plan of this tick is left to the next.
        plans.retain(|plan| control.reshape(capacity, plan, now).is_ok());
        let is_superseded = |known: &Plan| {
            now < known.proposed_at
                || now.saturating_since(known.proposed_at) >= PROPOSAL_LIFE
                || proposed.iter().any(|plan| is_of_same_partition(plan, known))
        };
        moves.retain(|known| !is_superseded(known) && is_possible(capacity, known));
        moves.extend(proposed);
        moves.truncate(MOVES_MAX);
        plans
    }

    /// The moves that are proposed to the operator, the oldest first.
    pub(crate) fn proposed_moves(&self) -> Vec<Plan> {
        self.lock().moves.clone()
    }

    /// The verdict on one direction of a partition; `None` while it is not warm.
    pub(crate) fn verdict(
        &self,
        table: (&str, &str),
        partition: PartitionId,
        operation: AccessOperation,
    ) -> Option<SplitVerdict> {
        let loops = self.lock();
        loops.control.as_ref()?.verdict(table, partition, operation).cloned()
    }

    /// Forgets the proposed move of a partition, which has been placed.
    pub(crate) fn placed(&self, (namespace, table): (&str, &str), partition: PartitionId) {
        let is_it = |order: &MoveOrder| {
            order.namespace == namespace && order.table == table && order.partition == partition
        };
        self.lock().moves.retain(|plan| !order_of(plan).is_some_and(is_it));
    }

    fn lock(&self) -> MutexGuard<'_, Loops> {
        // A panic in a tick leaves loops that observe everything anew.
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn order_of(plan: &Plan) -> Option<&MoveOrder> {
    match &plan.change {
        PlannedChange::Move(order) => Some(order),
        _ => None,
    }
}

fn is_of_same_partition(one: &Plan, other: &Plan) -> bool {
    let name = |plan| order_of(plan).map(|order| (&order.namespace, &order.table, order.partition));
    name(one) == name(other)
}

/// Whether the partition of a move is still there.
fn is_possible(capacity: &Capacity, plan: &Plan) -> bool {
    order_of(plan).is_some_and(|order| {
        let holder = capacity.partition_at(&order.namespace, &order.table, order.range.first);
        holder.is_ok_and(|(holder, _)| holder == order.partition)
    })
}
