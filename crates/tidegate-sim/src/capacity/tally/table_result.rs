//! The results of a run, from the counts of its tables and streams.

use crate::capacity::demand::stream_source::StreamSource;
use crate::capacity::plane::operator::ForcedChanges;
use crate::capacity::run::{NodeUnits, ShapeChanges, StreamResult, TableResult, Victim};
use crate::capacity::scenario::CapacityScenario;
use crate::capacity::tally::stream_tally::StreamTally;
use crate::capacity::tally::table_shape::TableShape;
use crate::capacity::tally::{SecondCount, TableTally};
use crate::kit::MS;

/// The most partitions that a result names as victims.
const VICTIMS_MAX: usize = 12;

/// The result of the table at a position.
pub(crate) fn table_result(
    scenario: &CapacityScenario,
    table: usize,
    tally: TableTally,
    shape: TableShape,
    forced: ForcedChanges,
) -> TableResult {
    let spec = &scenario.tables[table];
    let within: Vec<bool> = (0..scenario.seconds)
        .map(|second| {
            let second = f64::from(second);
            scenario.is_within(table, second) && scenario.is_within(table, second + 0.999)
        })
        .collect();
    let is_within = |second: usize| within[second];
    let part = |of: &dyn Fn(usize) -> bool| {
        let seconds = tally.seconds.iter().enumerate().filter(|(second, _)| of(*second));
        share_of(seconds.map(|(_, count)| count))
    };
    let last_minute = tally.seconds.len().saturating_sub(60);
    let mut victims: Vec<Victim> = tally
        .by_partition
        .iter()
        .map(|((partition, bound), count)| Victim {
            partition: partition.0,
            range: count.range.to_string(),
            node: count.node.clone(),
            bound,
            limit: count.limit,
            requests: count.requests,
            seconds: count.seconds,
            first_second: count.first_second,
            last_second: count.last_second,
            example: count.example.clone(),
        })
        .collect();
    // Refusals by the tokens of the table are no partition's.
    let is_of_table = |victim: &Victim| victim.bound == "table tokens";
    victims
        .sort_by_key(|victim| (is_of_table(victim), core::cmp::Reverse(victim.requests), victim.partition));
    victims.truncate(VICTIMS_MAX);
    TableResult {
        table: spec.name.clone(),
        offered: tally.seconds.iter().map(|count| u64::from(count.offered)).sum(),
        throttled: tally.seconds.iter().map(|count| u64::from(count.throttled)).sum(),
        share_within: part(&is_within).unwrap_or(0.0),
        share_at_end: part(&|second| second >= last_minute && is_within(second)).unwrap_or(0.0),
        share_beyond: part(&|second| !is_within(second)),
        by_bound: tally.by_bound,
        recovery_seconds: recovery_of(&tally.seconds, scenario.onset),
        changes: ShapeChanges { useless_splits: shape.cuts.useless(), ..shape.changes },
        forced_cuts: forced.cuts,
        forced_moves: forced.moves,
        plans: shape.plans.clone(),
        verdicts: shape.verdicts.clone(),
        reshapes: shape.reshapes.clone(),
        growth: shape.growth.clone(),
        victims,
        seconds: tally.seconds,
        heat: tally.throttled,
        spans: shape.into_spans(f64::from(scenario.seconds)),
    }
}

/// The result of a stream of requests.
pub(crate) fn stream_result(
    scenario: &CapacityScenario,
    source: &StreamSource,
    tally: StreamTally,
    at_nodes: Vec<NodeUnits>,
) -> StreamResult {
    StreamResult {
        table: scenario.tables[source.table].name.clone(),
        kind: source.kind,
        request_units: source.units,
        offered: tally.seconds.iter().map(|count| u64::from(count.offered)).sum(),
        throttled: tally.seconds.iter().map(|count| u64::from(count.throttled)).sum(),
        by_bound: tally.by_bound,
        units_admitted: tally.admitted as f64 / 1000.0,
        longest_refused_ms: tally.refused_spans.longest() / MS,
        at_nodes,
        seconds: tally.seconds,
    }
}

/// The part of the requests that was refused; `None` if there were none.
pub(crate) fn share_of<'a>(counts: impl Iterator<Item = &'a SecondCount>) -> Option<f64> {
    let (offered, throttled) = counts.fold((0_u64, 0_u64), |(offered, throttled), count| {
        (offered + u64::from(count.offered), throttled + u64::from(count.throttled))
    });
    let share = throttled as f64 / offered as f64;
    (offered > 0).then_some(share)
}

/// Seconds from `onset` to the end of the first ten seconds with less than a hundredth throttled.
fn recovery_of(seconds: &[SecondCount], onset: u32) -> Option<u32> {
    const WINDOW: usize = 10;
    let after = seconds.get(onset as usize..)?;
    let calm = after.windows(WINDOW).position(|window| share_of(window.iter()).unwrap_or(0.0) < 0.01)?;
    Some((calm + WINDOW) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_ends_with_the_first_calm_ten_seconds_after_the_onset() {
        let bad = SecondCount { offered: 100, throttled: 50 };
        let good = SecondCount { offered: 100, throttled: 0 };
        let mut seconds = vec![good; 20];
        seconds.extend([bad; 7]);
        seconds.extend([good; 30]);
        assert_eq!(recovery_of(&seconds, 20), Some(17));
        assert_eq!(recovery_of(&seconds, 0), Some(10));
        assert_eq!(recovery_of(&[bad; 40], 3), None);
        assert_eq!(recovery_of(&seconds, 1000), None);
    }
}
