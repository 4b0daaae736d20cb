//! I12: no partition is joined within 10 minutes of its cut, and no range is cut and joined twice
//! within 20 minutes.

use tidegate_capacity::view::PartitionView;
use tidegate_capacity::{KeyRange, PartitionId};

const SECOND: u64 = 1_000_000_000;
/// The time after a cut in which its parts are not joined.
const COOL: u64 = 10 * 60 * SECOND;
/// The time in which a range is cut and joined at most once.
const CYCLE: u64 = 20 * 60 * SECOND;

/// The cuts and joins of one table.
#[derive(Debug, Default)]
pub(super) struct ReshapePace {
    /// Parts of cuts, with the instant of the cut.
    parts: Vec<(PartitionId, u64)>,
    /// Ranges that were cut and joined again, with the instant of the join.
    cycles: Vec<(KeyRange, u64)>,
}

impl ReshapePace {
    /// Notes that partitions replace others with the same keys.
    pub(super) fn replace(
        &mut self,
        before: &[(PartitionId, KeyRange)],
        after: &[PartitionView],
        at: u64,
    ) -> Option<String> {
        let mut found = None;
        for view in after {
            let parents: Vec<_> = before.iter().filter(|(_, range)| range.overlaps(view.range)).collect();
            if parents.len() < 2 {
                continue;
            }
            let cut_at =
                |id: PartitionId| self.parts.iter().find(|(part, _)| *part == id).map(|(_, cut_at)| *cut_at);
            let youngest = parents.iter().filter_map(|(id, _)| Some((cut_at(*id)?, *id))).max();
            let Some((cut_at, id)) = youngest else { continue };
            let seconds = at.saturating_sub(cut_at) / SECOND;
            if at < cut_at.saturating_add(COOL) {
                found = Some(format!("partition {id} was joined {seconds} s after it was cut"));
            }
            // The range was one partition then, so that a bound within it was cut since. Joins of
            // further neighbours to it undo other cuts.
            let is_again = |(range, joined_at): &&(KeyRange, u64)| {
                let is_within = |parent: &&(PartitionId, KeyRange)| {
                    parent.1.first > range.first && range.contains(parent.1.first)
                };
                at < joined_at.saturating_add(CYCLE)
                    && parents[1..].iter().copied().any(|one| is_within(&one))
            };
            if let Some((range, joined_at)) = self.cycles.iter().find(is_again) {
                let seconds = at.saturating_sub(*joined_at) / SECOND;
                found = Some(format!("{range} was joined again {seconds} s after the last time"));
            }
            self.cycles.retain(|(_, joined_at)| at < joined_at.saturating_add(CYCLE));
            self.cycles.push((view.range, at));
        }
        self.parts.retain(|(id, _)| !before.iter().any(|(of, _)| of == id));
        for (_, range) in before {
            let parts = after.iter().filter(|view| range.overlaps(view.range));
            if parts.clone().count() > 1 {
                self.parts.extend(parts.map(|view| (view.id, at)));
            }
        }
        found
    }
}
