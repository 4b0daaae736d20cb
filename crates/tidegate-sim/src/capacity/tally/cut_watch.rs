//! Whether cuts help: the throttled share of a range before its cut, and in the minute after.

use std::collections::VecDeque;

use tidegate_capacity::{KeyRange, Position};

use crate::capacity::judge::trace::PartitionRecord;

/// Seconds over which a share is taken.
const WINDOW: usize = 10;
/// Seconds after a cut within which it must have helped.
const PATIENCE: u32 = 60;

/// The cuts of one table.
#[derive(Debug, Default)]
pub(crate) struct CutWatch {
    /// The totals of the last seconds, the latest last.
    totals: VecDeque<Vec<RangeTotals>>,
    watched: Vec<WatchedCut>,
    useful: u32,
    useless: u32,
}

/// Units asked of a partition since it was made, and those of them that it refused; thousandths.
#[derive(Clone, Copy, Debug)]
struct RangeTotals {
    range: KeyRange,
    offered: i64,
    throttled: i64,
}

#[derive(Debug)]
struct WatchedCut {
    range: KeyRange,
    /// The share in the seconds before the cut.
    before: f64,
    seconds: u32,
}

impl CutWatch {
    /// A range is cut after the last second that was seen.
    pub(crate) fn cut(&mut self, range: KeyRange) {
        if let Some(before) = self.share_of(range) {
            self.watched.push(WatchedCut { range, before, seconds: 0 });
        }
    }

    /// One more second has passed.
    pub(crate) fn second(&mut self, records: &[PartitionRecord]) {
        let of = |record: &PartitionRecord| {
            let PartitionRecord { range, offered, throttled, .. } = *record;
            RangeTotals { range, offered, throttled }
        };
        self.totals.push_back(records.iter().map(of).collect());
        if self.totals.len() > WINDOW + 1 {
            self.totals.pop_front();
        }
        for mut cut in core::mem::take(&mut self.watched) {
            cut.seconds += 1;
            // A whole window after the cut, that is.
            let share = (cut.seconds as usize >= WINDOW).then(|| self.share_of(cut.range)).flatten();
            // A tenth lower, or nothing left to lower.
            if share.is_some_and(|share| share <= cut.before * 0.9) {
                self.useful += 1;
            } else if cut.seconds >= PATIENCE {
                self.useless += 1;
            } else {
                self.watched.push(cut);
            }
        }
    }

    /// Cuts that have not helped in time. Those that were made less than a minute ago and have not
    /// helped yet are not counted.
    pub(crate) const fn useless(&self) -> u32 {
        self.useless
    }

    /// The throttled share of a range over the last seconds; `None` before there are two.
    fn share_of(&self, range: KeyRange) -> Option<f64> {
        let sum = |totals: &[RangeTotals]| {
            let within =
                totals.iter().filter(|one| range.contains(one.range.first) && ends_within(one.range, range));
            within
                .fold((0, 0), |(offered, throttled), one| (offered + one.offered, throttled + one.throttled))
        };
        let (first, last) = (self.totals.front()?, self.totals.back()?);
        let (before, after) = (sum(first), sum(last));
        let (offered, throttled) = (after.0 - before.0, after.1 - before.1);
        let share = throttled as f64 / offered as f64;
        (offered > 0).then_some(share)
    }
}

fn ends_within(inner: KeyRange, outer: KeyRange) -> bool {
    let end = |range: KeyRange| range.end.map_or((1, Position::FIRST), |end| (0, end));
    end(inner) <= end(outer)
}

#[cfg(test)]
mod tests {
    use tidegate_capacity::PartitionId;

    use super::*;
    use crate::capacity::demand::{Demand, Pattern, Phase};
    use crate::capacity::design::Design;
    use crate::capacity::scenario::{CapacityScenario, NodeSpec, TableRole, TableSpec};
    use crate::capacity::simulate;

    /// Seconds in which a partition is asked for 100 units, of which `refused` are refused.
    fn useless_after(before: i64, after: i64, seconds: u32) -> (u32, u32) {
        let mut watch = CutWatch::default();
        let whole = KeyRange::from_partition(0, 1).unwrap();
        let record = |range, offered, throttled| PartitionRecord {
            id: PartitionId(0),
            range,
            leader: 0,
            rate: 0,
            ceiling: 0,
            offered,
            throttled,
        };
        for second in 1..=20 {
            watch.second(&[record(whole, 100 * second, before * second)]);
        }
        watch.cut(whole);
        let [left, right] = [0, 1].map(|index| KeyRange::from_partition(index, 2).unwrap());
        for second in 1..=i64::from(seconds) {
            let (offered, throttled) = (2000 + 100 * second, 20 * before + after * second);
            // Totals are cut with the partition, and add up.
            let rest = (offered - offered / 3, throttled - throttled / 3);
            watch.second(&[record(left, offered / 3, throttled / 3), record(right, rest.0, rest.1)]);
        }
        (watch.useful, watch.useless())
    }

    #[test]
    fn a_cut_that_lowers_the_share_by_a_tenth_within_a_minute_is_useful_and_any_other_is_not() {
        assert_eq!(useless_after(50, 0, 60), (1, 0));
        assert_eq!(useless_after(50, 44, 60), (1, 0));
        assert_eq!(useless_after(50, 46, 60), (0, 1));
        assert_eq!(useless_after(50, 50, 59), (0, 0));
    }

    #[test]
    fn ten_ceilings_on_one_partition_are_served_after_useful_cuts_alone() {
        let nodes = NodeSpec::numbered(4, 2000, 10);
        let pattern = Pattern::HotPartition { percent: 100, every: 1000 };
        let phases = vec![Phase { from: 0.0, units_per_second: 1000.0, pattern }];
        let table = TableSpec {
            name: "hot".to_owned(),
            units_per_second: 1600,
            ceiling: 100,
            partitions: 16,
            nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            replicas: 1,
            is_ordered: false,
            is_write: false,
            shares_top_keys: false,
            role: TableRole::Compared,
            demand: Demand { keys: 20_000, units: 1, phases },
        };
        let run = simulate(&CapacityScenario::from_tables(1, 200, vec![Design::Split], nodes, vec![table]));
        let run = run.unwrap();
        let result = &run.designs[0];
        let table = &result.tables[0];
        assert_eq!((table.changes.useless_splits, table.share_at_end), (0, 0.0), "{:?}", table.changes);
        assert!((12..=16).contains(&table.changes.splits), "{:?}", table.changes);
        assert!(result.breaches.is_empty(), "{:?}", result.breaches);
    }
}
