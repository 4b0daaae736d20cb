//! The control loops of all tables: what they observe, and the plans that come of it.
//!
//! [`Control::tick`] is called about once a second, with any pause in between. It boosts by itself,
//! since a boost is undone as easily, and proposes everything else as [`Plan`]s. A caller carries
//! out those that it wants with [`Control::carry_out`], a move with the help of a
//! [`PlacementDriver`](crate::control::placement::PlacementDriver).
//!
//! A tick costs little where nothing is warm: rates are taken every ten seconds, and in between
//! counters are compared, of a large store only those of tables that refuse. A partition that rises
//! above its ceiling has its keys sampled from the next tick on, and is judged at the end of each
//! window.
//!
//! A tick that comes late judges the time since the last one as one period. After a step back of
//! the clock, or more than two windows without a tick, everything is observed anew.
//!
//! Memory: less than two KiB for each partition, and at most 64 KiB for each direction of a
//! partition whose keys are sampled, of which there are at most 256: a sketch and the samples of
//! four windows. Of a table by ranges the latter is 224 KiB.

pub(crate) mod boost;
pub(crate) mod demand;
pub(crate) mod growth;
pub(crate) mod growth_watch;
pub(crate) mod load_history;
pub(crate) mod merge;
pub(crate) mod observation;
pub(crate) mod on_demand;
pub(crate) mod placement;
pub(crate) mod plan;
pub(crate) mod recent_loads;
pub(crate) mod relocation;
pub(crate) mod reshape;
pub(crate) mod sketch;
pub(crate) mod split;
pub(crate) mod warm_throughput;

mod boosts;
mod census;
mod execution;
mod growth_splits;
mod load;
mod merges;
mod moves;
mod splits;

use tidegate_core::{AccessOperation, Timestamp};

pub use self::execution::{ControlError, EndedMove};
use self::load::{MovedPartition, NewPartition, Observed, TableLoad};
use crate::capacity::Capacity;
use crate::control::growth::GrownTable;
use crate::control::load_history::LoadHistory;
use crate::control::placement::MoveOrder;
use crate::control::plan::{Plan, PlanReason};
use crate::control::sketch::WINDOW;
use crate::control::split::SplitVerdict;
use crate::layout::grown_ranges::GrownRanges;
use crate::layout::partition_id::PartitionId;
use crate::units::Units;

/// The new partitions whose loads are predicted until the next tick.
const NEW_MAX: usize = 1024;

/// The control loops of a store.
#[derive(Debug)]
pub struct Control {
    seed: u64,
    /// The tables as they were observed last, in the order of the store.
    tables: Vec<TableLoad>,
    /// Units a second that each node was asked for over the last beat.
    node_offered: Vec<Units>,
    /// Since when each node has been nearly full.
    full_since: Vec<Option<Timestamp>>,
    /// The partitions that were moved lately.
    moved: Vec<MovedPartition>,
    /// The partitions that plans have made since the last tick, at most [`NEW_MAX`].
    new: Vec<NewPartition>,
    /// Moves that a driver carries out.
    running: Vec<MoveOrder>,
    /// Whether a partition that its ceiling refuses waits for a sketch.
    is_crowded: bool,
    boosted_at: Timestamp,
    judged_at: Timestamp,
    /// For merges.
    loads: LoadHistory,
    grown: GrownRanges,
}

impl Control {
    /// Loops that begin at `now`. The seed decides which keys are sampled.
    pub fn new(seed: u64, now: Timestamp) -> Self {
        Self {
            seed,
            tables: Vec::new(),
            node_offered: Vec::new(),
            full_since: Vec::new(),
            moved: Vec::new(),
            new: Vec::new(),
            running: Vec::new(),
            is_crowded: false,
            boosted_at: now,
            judged_at: now,
            loads: LoadHistory::default(),
            grown: GrownRanges::default(),
        }
    }

    /// Observes the store, boosts, and proposes the changes of which the time has come.
    pub fn tick(&mut self, capacity: &Capacity, now: Timestamp) -> Vec<Plan> {
        if now < self.judged_at || now.saturating_since(self.judged_at) >= 3 * WINDOW {
            *self = Self {
                moved: core::mem::take(&mut self.moved),
                running: core::mem::take(&mut self.running),
                loads: core::mem::take(&mut self.loads).forget_loads(),
                grown: core::mem::take(&mut self.grown),
                ..Self::new(self.seed, now)
            };
        }
        let mut plans = Vec::new();
        let is_beat = now.saturating_since(self.judged_at) >= WINDOW;
        let ended = self.observe(capacity, now);
        self.boost(capacity, now);
        self.propose_splits(ended, now, &mut plans);
        let is_placed = self.place_new(capacity, now, &mut plans);
        self.new.clear();
        if is_beat {
            // One move at a time for each node.
            if !is_placed {
                self.propose_moves(capacity, now, &mut plans);
            }
            self.follow_loads(now);
            for load in &self.tables {
                self.grown.follow(load.table.id, self.loads.of_table(load.table.id));
            }
            self.propose_merges(capacity, now, &mut plans);
            self.judged_at = now;
        }
        self.propose_cuts(capacity, capacity.follow_demand(now), now, &mut plans);
        plans
    }

    /// Proposes the cuts that a table needs before the next tick: as [`Control::tick`] does, but
    /// nothing else. To be called about a hundred times a second while
    /// [`Capacity::may_want_growth`]; costs nothing unless [`Capacity::wants_growth`].
    pub fn grow(&self, capacity: &Capacity, now: Timestamp) -> Vec<Plan> {
        let mut plans = Vec::new();
        if capacity.wants_growth() {
            self.propose_cuts(capacity, capacity.grow_pressed(now), now, &mut plans);
        }
        plans
    }

    /// Adds the cuts of tables that grow, and drops all plans that their tables do not allow.
    fn propose_cuts(
        &self,
        capacity: &Capacity,
        grown: Vec<GrownTable>,
        now: Timestamp,
        plans: &mut Vec<Plan>,
    ) {
        for table in grown {
            self.propose_growth(capacity, &table, now, plans);
        }
        plans.retain(|plan| is_allowed(capacity, plan));
    }

    /// The verdict on one direction of a partition at the end of the last window of its keys;
    /// `None` while they are not sampled.
    pub fn verdict(
        &self,
        table: (&str, &str),
        partition: PartitionId,
        operation: AccessOperation,
    ) -> Option<&SplitVerdict> {
        let index = usize::from(operation == AccessOperation::Write);
        self.observed(table, partition)?[index].verdict.as_ref()
    }

    /// The seed of the sketch of a partition.
    fn seed_of(&self, partition: PartitionId) -> u64 {
        self.seed ^ u64::from(partition.0)
    }

    fn observed(&self, table: (&str, &str), partition: PartitionId) -> Option<&[Observed; 2]> {
        Some(&TableLoad::find(&self.tables, table)?.partition(partition)?.directions)
    }
}

/// Whether the configuration of its table lets a plan be proposed.
fn is_allowed(capacity: &Capacity, plan: &Plan) -> bool {
    let Ok(table) = capacity.table(&plan.namespace, &plan.table) else { return false };
    let layout = table.layout.plan();
    match plan.reason {
        PlanReason::AboveCeiling(_) | PlanReason::HotKey(_) | PlanReason::Growth => layout.config.splits,
        // The move that brings two neighbours together included.
        PlanReason::Cool => layout.config.merges,
        PlanReason::NodeBusy => true,
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
