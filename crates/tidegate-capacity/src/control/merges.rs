//! Proposals of merges: neighbours that have been cool for long.

use tidegate_core::Timestamp;

use super::Control;
use super::load::{Observed, PEAKS, statuses};
use crate::capacity::Capacity;
use crate::merge::{CoolPair, MergeLoad, cool_neighbours};
use crate::placement::MoveOrder;
use crate::plan::{Plan, PlanReason, PlannedChange};
use crate::split::SplitVerdict;

impl Control {
    pub(super) fn propose_merges(&mut self, capacity: &Capacity, now: Timestamp, plans: &mut Vec<Plan>) {
        let elapsed = now.saturating_since(self.merged_at);
        let unknown = [Observed::default(), Observed::default()];
        let names: Vec<&str> = capacity.nodes(now).map(|node| node.name).collect();
        for (namespace, table) in capacity.tables() {
            let statuses = statuses(capacity, namespace, table, now);
            let bounds = capacity.configured_bounds(namespace, table).unwrap_or_default();
            let loads: Vec<MergeLoad> = statuses
                .iter()
                .map(|status| {
                    let both = self.observed((namespace, table), status.id).unwrap_or(&unknown);
                    let is_known = both.iter().all(|one| one.peaks.len() == PEAKS);
                    let peak = |one: &Observed| one.peaks.iter().copied().max().unwrap_or_default();
                    let has_hot_key =
                        both.iter().any(|one| matches!(one.verdict, Some(SplitVerdict::HotKey { .. })));
                    MergeLoad {
                        id: status.id,
                        made_at: status.made_at,
                        peaks: is_known.then(|| [peak(&both[0]), peak(&both[1])]),
                        ceilings: [status.read.ceiling, status.write.ceiling],
                        has_hot_key,
                        begins_configured: bounds.binary_search(&status.range.first).is_ok(),
                        node: names.iter().position(|name| *name == status.node).unwrap_or(usize::MAX),
                    }
                })
                .collect();
            for CoolPair { left, right, is_together } in cool_neighbours(&loads, elapsed, now) {
                let place = |id| statuses.iter().find(|status| status.id == id).expect("one of the pair");
                let (at, beside) = (place(left), place(right));
                let change = if is_together {
                    PlannedChange::Merge { left }
                } else {
                    let order =
                        MoveOrder::new((namespace, table), (right, beside.range), beside.node, at.node);
                    PlannedChange::Move(order)
                };
                plans.push(Plan::new((namespace, table), change, PlanReason::Cool, now));
            }
        }
    }
}
