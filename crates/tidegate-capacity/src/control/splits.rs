//! Verdicts on partitions at the end of each window of sampled keys, and proposals of splits.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::Control;
use super::census::EndedWindow;
use super::load::{OPERATIONS, TableLoad};
use crate::plan::{Plan, PlanReason, PlannedChange};
use crate::reshape::SplitShares;
use crate::sketch::WINDOW;
use crate::split::{Cut, SplitLoad, SplitVerdict, WINDOWS_MAX, share_before, split_verdict};

/// The youngest partition that is cut again.
const SPLIT_AGE_MIN: Duration = Duration::from_secs(30);

/// The time for which the keys of a partition that no cut helps are not sampled, while others wait
/// for its sketch.
const REST: Duration = Duration::from_mins(1);

impl Control {
    /// Judges the partitions whose windows have ended, and proposes the cuts that help.
    pub(super) fn propose_splits(&mut self, ended: Vec<EndedWindow>, now: Timestamp, plans: &mut Vec<Plan>) {
        // One plan for a partition, whatever its other direction says.
        let mut last = None;
        for window in ended {
            let place = (window.table, window.partition);
            let load = &mut self.tables[window.table];
            if let Some(plan) = judge(load, window, self.is_crowded, now)
                && last != Some(place)
                && !self.running.iter().any(|order| {
                    load.is_named((&order.namespace, &order.table)) && plan.is_of(order.partition)
                })
            {
                plans.push(plan);
                last = Some(place);
            }
        }
    }
}

/// The verdict on a partition after one more window, and the plan that comes of it.
fn judge(load: &mut TableLoad, ended: EndedWindow, is_crowded: bool, now: Timestamp) -> Option<Plan> {
    let EndedWindow { partition, direction, window, range, made_at, ceiling, was_refused, .. } = ended;
    let partition = &mut load.partitions[partition];
    let id = partition.id;
    let observed = &mut partition.directions[direction];
    let windows = observed.windows.get_or_insert_default();
    let sample = window.into_sample();
    // Only windows in a row are compared.
    if windows.samples.back().is_some_and(|last| last.since.saturating_add(WINDOW) != sample.since) {
        windows.samples.clear();
    }
    if windows.samples.len() == WINDOWS_MAX {
        windows.samples.pop_front();
    }
    windows.samples.push_back(sample);
    let verdict = if was_refused {
        split_verdict(&SplitLoad { range, ceiling, windows: windows.samples.make_contiguous() })
    } else {
        // Other buckets refuse, which no cut changes, or none does.
        SplitVerdict::Wait
    };
    let is_young = made_at.is_some_and(|made_at| now.saturating_since(made_at) < SPLIT_AGE_MIN);
    let operation = OPERATIONS[direction];
    let chosen = match &verdict {
        SplitVerdict::Split(cut) if !is_young => Some((*cut, PlanReason::AboveCeiling(operation))),
        // A cut at a time: the other one is of a partition that does not exist yet.
        SplitVerdict::HotKey { cuts, .. } => cuts.first().map(|cut| (*cut, PlanReason::HotKey(operation))),
        _ => None,
    };
    if is_crowded && chosen.is_none() && verdict != SplitVerdict::Wait && !is_young {
        observed.rests_until = Some(now.saturating_add(REST));
    }
    observed.verdict = Some(verdict);
    let (Cut { at, left, benefit }, reason) = chosen?;
    // Each direction by its own keys where they are known.
    let share = |one: usize| {
        let windows = partition.directions[one].windows.as_ref().filter(|_| one != direction);
        windows.and_then(|windows| windows.samples.back()).map_or(left, |sample| share_before(sample, at))
    };
    let shares = SplitShares { read: share(0), write: share(1) };
    let change = PlannedChange::Split { partition: id, at, shares };
    let name = (&*load.table.namespace, &*load.table.name);
    Some(Plan { benefit, ..Plan::new(name, change, reason, now) })
}
