//! Summaries of runs over seeds: median and worst, by workload and design.

use serde::Serialize;

use crate::capacity::design::Design;
use crate::capacity::fluid::FluidShares;
use crate::capacity::report::workload_note::WorkloadNote;
use crate::capacity::run::{CapacityRun, ShapeChanges, TableResult};
use crate::kit::report::lower_median;

/// One table that is compared, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct TableSummary {
    /// `W1` to `W10`, or the name of the table.
    pub id: String,
    /// The workload; `None` for tables of one's own.
    pub workload: Option<&'static WorkloadNote>,
    /// Seconds of each run.
    pub seconds: u32,
    /// The values of the fluid model, the median over the seeds of each.
    pub fluid: FluidShares,
    /// Each design.
    pub designs: Vec<DesignSummary>,
}

/// One design on one table, over all seeds. Medians are the lower ones.
#[derive(Clone, Debug, Serialize)]
pub struct DesignSummary {
    /// The design.
    pub design: Design,
    /// The throttled share while no more was asked for than the table has.
    pub median: f64,
    /// The largest of all seeds.
    pub worst: f64,
    /// The share of the last minute, the largest of all seeds.
    pub worst_at_end: f64,
    /// The throttled share while more was asked for; `None` if there was no such time.
    pub median_beyond: Option<f64>,
    /// The longest recovery of all seeds; `None` if one did not recover.
    pub worst_recovery_seconds: Option<u32>,
    /// The most changes of partitions of all seeds.
    pub most_changes: ShapeChanges,
    /// The largest excess over the floor of the fluid model of the same seed.
    pub worst_excess: f64,
    /// The latest second of the first verdict `SEQUENTIAL` of all seeds; `None` if one had none.
    pub worst_sequential_second: Option<u32>,
}

impl TableSummary {
    /// The summary of the table at position `table` in runs that differ in their seed alone; at
    /// least one.
    pub(crate) fn from_runs(runs: &[&CapacityRun], table: usize) -> Self {
        let scenario = &runs[0].scenario;
        let place = runs[0].compared().position(|compared| compared == table).unwrap_or(0);
        let fluid =
            |value: fn(&FluidShares) -> f64| lower_median(runs.iter().map(|run| value(&run.fluid[place])));
        let designs = (0..scenario.designs.len()).map(|design| {
            let results: Vec<(&TableResult, f64)> =
                runs.iter().map(|run| (&run.designs[design].tables[table], run.fluid[place].floor)).collect();
            let worst = |value: &dyn Fn(&TableResult) -> f64| {
                results.iter().map(|(result, _)| value(result)).fold(0.0, f64::max)
            };
            let beyond: Vec<f64> = results.iter().filter_map(|(result, _)| result.share_beyond).collect();
            let most = |count: fn(&ShapeChanges) -> u32| {
                results.iter().map(|(result, _)| count(&result.changes)).max().unwrap_or(0)
            };
            DesignSummary {
                design: scenario.designs[design],
                median: lower_median(results.iter().map(|(result, _)| result.share_within)),
                worst: worst(&|result| result.share_within),
                worst_at_end: worst(&|result| result.share_at_end),
                median_beyond: (!beyond.is_empty()).then(|| lower_median(beyond.into_iter())),
                worst_recovery_seconds: latest(results.iter().map(|(result, _)| result.recovery_seconds)),
                most_changes: ShapeChanges {
                    splits: most(|changes| changes.splits),
                    merges: most(|changes| changes.merges),
                    moves: most(|changes| changes.moves),
                    useless_splits: most(|changes| changes.useless_splits),
                },
                worst_sequential_second: latest(results.iter().map(|(result, _)| {
                    let verdict = result.verdicts.iter().find(|one| one.verdict == "SEQUENTIAL");
                    verdict.map(|one| one.second)
                })),
                worst_excess: results
                    .iter()
                    .map(|(result, floor)| result.share_within - floor)
                    .fold(f64::MIN, f64::max),
            }
        });
        Self {
            id: scenario
                .workload
                .map_or_else(|| scenario.tables[table].name.clone(), |one| one.id.to_owned()),
            workload: scenario.workload,
            seconds: scenario.seconds,
            fluid: FluidShares {
                static_shares: fluid(|shares| shares.static_shares),
                burst: fluid(|shares| shares.burst),
                global: fluid(|shares| shares.global),
                floor: fluid(|shares| shares.floor),
            },
            designs: designs.collect(),
        }
    }

    /// The summary of a design.
    pub fn of_design(&self, design: Design) -> Option<&DesignSummary> {
        self.designs.iter().find(|summary| summary.design == design)
    }
}

/// The last of these seconds; `None` if one of them is missing.
fn latest(mut seconds: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    seconds.try_fold(0, |latest, second| Some(second?.max(latest)))
}
