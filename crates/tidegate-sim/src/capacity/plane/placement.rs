//! The simulated store that partitions lie on: a move copies for a while, and refuses the keys for
//! a moment at its end.

use core::convert::Infallible;
use std::collections::BTreeMap;

use tidegate_capacity::PartitionId;
use tidegate_capacity::placement::{MoveOrder, MoveProgress, PlacementDriver};
use tidegate_core::Timestamp;

use crate::kit::{MS, SECOND};

/// The time that a move takes, in nanoseconds.
const MOVE: u64 = 5 * SECOND;
/// The time at its end in which the keys are not served.
const GATED: u64 = 50 * MS;

/// Moves under way, and where they have ended.
#[derive(Debug, Default)]
pub(crate) struct MovableStore {
    /// When each move ends.
    running: BTreeMap<MoveName, u64>,
    /// The nodes of partitions that were moved.
    placed: BTreeMap<(String, PartitionId), String>,
}

type MoveName = (String, PartitionId, String);

impl PlacementDriver for MovableStore {
    type Error = Infallible;

    fn start(&mut self, order: &MoveOrder, now: Timestamp) -> Result<MoveProgress, Infallible> {
        self.running.entry(name_of(order)).or_insert(now.as_nanos() + MOVE);
        Ok(MoveProgress::Running { gated_until: None })
    }

    fn progress(&mut self, order: &MoveOrder, now: Timestamp) -> Result<MoveProgress, Infallible> {
        let Some(end) = self.running.get(&name_of(order)).copied() else { return Ok(MoveProgress::Failed) };
        if now.as_nanos() >= end {
            self.running.remove(&name_of(order));
            self.placed.insert((order.table.clone(), order.partition), order.to.clone());
            return Ok(MoveProgress::Done);
        }
        // Asked a tenth of a second apart: the last time before the end closes the gate.
        let is_ending = now.as_nanos() + 2 * GATED >= end;
        let gated_until = is_ending.then(|| Timestamp::from_nanos(now.as_nanos() + GATED));
        Ok(MoveProgress::Running { gated_until })
    }

    fn lies_on(&mut self, order: &MoveOrder, node: &str, _now: Timestamp) -> Result<bool, Infallible> {
        let placed = self.placed.get(&(order.table.clone(), order.partition));
        Ok(placed.is_some_and(|at| at == node))
    }

    fn abort(&mut self, order: &MoveOrder, _now: Timestamp) -> Result<bool, Infallible> {
        Ok(self.running.remove(&name_of(order)).is_some())
    }
}

fn name_of(order: &MoveOrder) -> MoveName {
    (order.table.clone(), order.partition, order.to.clone())
}
