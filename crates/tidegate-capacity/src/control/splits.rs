//! Verdicts on partitions at the end of each window of sampled keys, and proposals of splits.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::Control;
use super::census::EndedWindow;
use super::load::{OPERATIONS, TableLoad};
use crate::control::plan::{Plan, PlanReason, PlannedChange};
use crate::control::reshape::SplitShares;
use crate::control::sketch::WINDOW;
use crate::control::split::{Cut, SplitLoad, SplitVerdict, share_before, split_verdict};
use crate::layout::position::Position;
use crate::units::Units;

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
    windows.samples.push_back(sample);
    let verdict = if was_refused {
        let load = SplitLoad::new(range, ceiling, windows.samples.make_contiguous());
        // Neighbours that were not worth a cut once are so when they are clearly more.
        let was_left =
            matches!(&observed.verdict, Some(SplitVerdict::HotKey { cuts, .. }) if cuts.is_empty());
        let twice = load.neighbours_min + load.neighbours_min;
        let neighbours_min = if was_left || partition.is_isolated { twice } else { load.neighbours_min };
        split_verdict(&SplitLoad { neighbours_min, ..load })
    } else {
        // Other buckets refuse, which no cut changes, or none does.
        SplitVerdict::Wait
    };
    windows.forget_judged();
    let is_young = made_at.is_some_and(|made_at| now.saturating_since(made_at) < SPLIT_AGE_MIN);
    let operation = OPERATIONS[direction];
    let (cuts, reason) = match &verdict {
        SplitVerdict::Split(cut) if !is_young => (vec![*cut], PlanReason::AboveCeiling(operation)),
        SplitVerdict::HotKey { cuts, .. } => (cuts.clone(), PlanReason::HotKey(operation)),
        _ => (Vec::new(), PlanReason::AboveCeiling(operation)),
    };
    if is_crowded && cuts.is_empty() && verdict != SplitVerdict::Wait && !is_young {
        observed.rests_until = Some(now.saturating_add(REST));
    }
    observed.verdict = Some(verdict);
    // Each direction by its own keys where they are known.
    let shares = |first: Position, cut: &Cut| {
        let share = |one: usize| {
            let windows = partition.directions[one].windows.as_ref().filter(|_| one != direction);
            let sample = windows.and_then(|windows| windows.samples.back());
            sample.map_or(cut.left, |sample| share_before(sample, first, cut.at))
        };
        SplitShares { read: share(0), write: share(1) }
    };
    let change = match &cuts[..] {
        [] => return None,
        [cut] => PlannedChange::Split { partition: id, at: cut.at, shares: shares(range.first, cut) },
        [before, behind, ..] => PlannedChange::Isolate {
            partition: id,
            key: before.at,
            behind: behind.at,
            shares: [shares(range.first, before), shares(before.at, behind)],
        },
    };
    let benefit = cuts.iter().fold(Units::ZERO, |sum, cut| sum + cut.benefit);
    let name = (&*load.table.namespace, &*load.table.name);
    Some(Plan { benefit, ..Plan::new(name, change, reason, now) })
}
