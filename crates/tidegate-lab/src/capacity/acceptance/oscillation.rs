//! E-FLAP: load that rises and falls around the ceiling must not cut and join in turn.

use super::figures::{line, none, worst};
use crate::capacity::scenario_parts::{names, phase, table};
use tidegate_sim::capacity::{CapacityRun, CapacityScenario, Demand, Design, NodeSpec, Pattern, Reshape};
use tidegate_sim::kit::GateLine;

pub(super) const DESCRIPTION: &str = "One partition of each of four tables is asked for 0.3 and 1.1 times its ceiling \
    in turn: every 30 seconds, two, five and twenty minutes. A range may be cut and joined again at most once in 20 \
    minutes, and nothing is joined within ten minutes of its cut.";

const SECONDS: u32 = 3600;
/// The periods of the tables, in seconds.
const PERIODS: [u32; 4] = [30, 120, 300, 1200];
const CEILING: f64 = 100.0;
/// A range is cut and joined at most once in so many seconds.
const CYCLE: f64 = 1200.0;
/// Nothing is joined within so many seconds of its cut.
const COOL: f64 = 600.0;

/// The scenario.
pub(super) fn scenario(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(4, 1000, 10);
    let names = names(&nodes);
    let tables = PERIODS.map(|period| {
        let half = f64::from(period) / 2.0;
        let phases = (0..2 * SECONDS / period).map(|turn| {
            let load = if turn % 2 == 0 { 0.3 } else { 1.1 };
            let pattern = Pattern::HotPartition { percent: 100, every: SECONDS };
            phase(f64::from(turn) * half, load * CEILING, pattern)
        });
        let demand = Demand { keys: 4000, units: 1, phases: phases.collect() };
        let mut one = table(&format!("every-{period}-s"), 200, 4, &names, demand);
        one.ceiling = 100;
        one
    });
    CapacityScenario::from_tables(seed, SECONDS, vec![Design::Split], nodes, tables.to_vec())
}

fn overlaps(one: &Reshape, other: &Reshape) -> bool {
    let starts_before = |a: &Reshape, b: &Reshape| b.range.end.is_none_or(|end| a.range.first < end);
    starts_before(one, other) && starts_before(other, one)
}

/// Joins of ranges that were cut less than ten minutes before; and pairs of cycles, each a cut and
/// a later join of the same keys, that lie within 20 minutes.
fn flaps(reshapes: &[Reshape]) -> (u32, u32) {
    let mut cycles: Vec<(f64, &Reshape)> = Vec::new();
    let (mut young, mut close) = (0, 0);
    for (index, join) in reshapes.iter().enumerate().filter(|(_, one)| !one.is_split) {
        let mut cuts = reshapes[..index].iter().filter(|cut| cut.is_split && overlaps(cut, join));
        let Some(cut) = cuts.next_back() else { continue };
        young += u32::from(join.second - cut.second < COOL);
        let is_close = |(began, other): &&(f64, &Reshape)| {
            overlaps(other, join) && join.second - began < CYCLE && cut.second > other.second
        };
        close += cycles.iter().filter(is_close).count() as u32;
        cycles.push((cut.second, join));
    }
    (young, close)
}

/// The lines of the gate.
pub(super) fn judge(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let design = Design::Split;
    let sum = |value: &dyn Fn(&tidegate_sim::capacity::TableResult) -> u32| {
        worst(runs, design, |_, result| result.tables.iter().map(|table| f64::from(value(table))).sum())
    };
    let young = sum(&|table| flaps(&table.reshapes).0);
    let close = sum(&|table| flaps(&table.reshapes).1);
    let (splits, merges) = (sum(&|table| table.changes.splits), sum(&|table| table.changes.merges));
    vec![
        line(
            design,
            "joins of ranges that were cut less than ten minutes before",
            format!("{young} of {merges}"),
            "0",
            young <= 0.0,
        ),
        none(
            design,
            &format!("second cycles of cut and join of the same keys within 20 minutes, of {splits} cuts"),
            close,
        ),
        line(design, "cuts", format!("{splits}"), "at least 1: load above the ceiling is cut", splits >= 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use tidegate_capacity::KeyRange;

    use super::*;

    #[test]
    fn a_join_soon_after_its_cut_and_a_second_cycle_are_found_and_those_of_other_keys_are_not() {
        let reshape = |second, part, is_split| Reshape {
            second,
            range: KeyRange::from_partition(part, 4).unwrap(),
            is_split,
        };
        let of = |seconds: [f64; 4], parts: [u32; 4]| {
            let made = [0, 1, 2, 3].map(|index| reshape(seconds[index], parts[index], index % 2 == 0));
            flaps(&made)
        };
        assert_eq!(of([0.0, 599.0, 1300.0, 2000.0], [1; 4]), (1, 0));
        assert_eq!(of([0.0, 600.0, 601.0, 1201.0], [1; 4]), (0, 0));
        assert_eq!(of([10.0, 610.0, 611.0, 1209.0], [1; 4]), (1, 1));
        assert_eq!(of([10.0, 610.0, 611.0, 1209.0], [1, 1, 2, 2]), (1, 0));
    }
}
