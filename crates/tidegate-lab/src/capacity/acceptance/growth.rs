//! E-ETL and E-OD: tables that follow their demand.

use super::figures::{Figure, at_most, between, designs, least, line, none, worst};
use crate::capacity::scenario_parts::{names, phase, table};
use crate::capacity::world::{ScriptedStep, StepKind, script_of};
use tidegate_sim::capacity::{
    CapacityRun, CapacityScenario, Demand, Design, DesignResult, GrowthSeries, GrowthSpec, NodeSpec, Pattern,
    TableExtras,
};
use tidegate_sim::kit::GateLine;

pub(super) const TWENTY_TIMES: &str = "A table that is asked for 100 units a second is asked for 2 000 for ten \
    minutes, and for 100 again. Under GP it is on demand: its limit follows what it admits, its partitions the limit. \
    Under S its owner provisions twenty times the throughput in twenty times the partitions, and takes the throughput \
    back; the partitions stay, and each has a twentieth of what it had, although the table has what it had.";

pub(super) const THOUSAND_TIMES: &str = "A table on demand begins with a limit of 4 units a second and is asked for \
    4 000 for 15 minutes, for 4 for 20 minutes, and then for more and more, for 4 000 again after a minute. The limit \
    may double once a minute. In the second climb nothing may be refused, although partitions were joined meanwhile.";

/// When E-ETL goes up, comes back and ends, in seconds.
const UP: u32 = 300;
const BACK: u32 = 900;
const ETL_SECONDS: u32 = BACK + 1800;
const TIMES: u32 = 20;

/// When E-OD goes up, comes back and goes up again, and its growth period, in seconds.
const OD_UP: u32 = 60;
const OD_BACK: u32 = OD_UP + 900;
const OD_AGAIN: u32 = OD_BACK + 1200;
const OD_SECONDS: u32 = OD_AGAIN + 120;
/// Seconds of the second climb.
const CLIMB: u32 = 60;
const GROWTH: u32 = 60;
const OD_FACTOR: f64 = 1000.0;

fn following() -> TableExtras {
    let growth = Some(GrowthSpec { growth_seconds: u64::from(GROWTH) });
    TableExtras { growth, ..TableExtras::default() }
}

/// The scenario of E-ETL.
pub(super) fn twenty_times(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(4, 10_000, 10);
    let names = names(&nodes);
    // A fifth of the usual load is for one key, which no partition need refuse.
    let usual = Pattern::OneKey { percent: 20 };
    let phases = vec![
        phase(0.0, 100.0, usual),
        phase(f64::from(UP), 2000.0, Pattern::Uniform),
        phase(f64::from(BACK), 100.0, usual),
    ];
    let mut etl = table("etl", 200, 4, &names, Demand { keys: 20_000, units: 1, phases });
    etl.ceiling = 50;
    let designs = vec![Design::Static, Design::Split];
    let mut scenario = CapacityScenario::from_tables(seed, ETL_SECONDS, designs, nodes, vec![etl]);
    scenario.extras.insert(0, following());
    let provision = |at, throughput, partitions| ScriptedStep {
        at: f64::from(at),
        table: 0,
        kind: StepKind::Provision { throughput, partitions },
    };
    scenario.script = Some(script_of(vec![provision(UP, TIMES, TIMES), provision(BACK, 1, TIMES)]));
    scenario.onset = UP;
    scenario
}

fn growth_of(result: &DesignResult) -> &GrowthSeries {
    &result.tables[0].growth
}

/// The values of a series at the end of a second.
fn at<T: Copy>(series: &[T], second: u32) -> T {
    series[(second as usize).clamp(1, series.len()) - 1]
}

/// The lines of E-ETL.
pub(super) fn judge_twenty_times(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let lines = designs(runs).flat_map(|design| {
        let count = |second| {
            worst(runs, design, move |_, result| f64::from(at(&growth_of(result).partitions, second)))
        };
        let (before, most, after) = (count(UP), count(BACK), count(ETL_SECONDS));
        let bound = least(runs, design, |_, result| {
            let bounds = &growth_of(result).key_bounds;
            let first = at(bounds, UP) as f64;
            let smallest = bounds.iter().copied().min().unwrap_or(0).min(at(bounds, ETL_SECONDS));
            smallest as f64 / first
        });
        let counts = format!("{before}, then {most}, then {after}");
        let bound_figure = format!("{bound:.3} of the first");
        if design == Design::Static {
            let is_twentieth = (bound * f64::from(TIMES) - 1.0).abs() < 0.01;
            let what = "what a key may use after the return: the complaint of users of static shares";
            return vec![line(design, what, bound_figure, "0.05 of the first", is_twentieth)];
        }
        let at_end = worst(runs, design, |_, result| result.tables[0].share_at_end);
        vec![
            line(
                design,
                "partitions before, at the peak, and 30 minutes after the return",
                counts,
                "at last at most 1.2 times the first",
                after <= before * 1.2 && most > before * 5.0,
            ),
            line(
                design,
                "smallest bound of a key at any time",
                bound_figure,
                "1: the ceiling is constant",
                (bound - 1.0).abs() < 1e-9,
            ),
            line(
                design,
                "throttled in the last minute",
                format!("{:.2} %", at_end * 100.0),
                "0",
                at_end <= 0.0,
            ),
        ]
    });
    lines.collect()
}

/// The scenario of E-OD.
pub(super) fn thousand_times(seed: u64) -> CapacityScenario {
    let nodes = NodeSpec::numbered(4, 10_000, 10);
    let names = names(&nodes);
    let usual = 4.0;
    let climb = (1..=CLIMB).map(|step| {
        let part = f64::from(step) / f64::from(CLIMB);
        (OD_AGAIN + step - 1, OD_FACTOR * part)
    });
    let phases = [(0, 1.0), (OD_UP, OD_FACTOR), (OD_BACK, 1.0)].into_iter().chain(climb);
    let phases: Vec<_> =
        phases.map(|(from, times)| phase(f64::from(from), usual * times, Pattern::Uniform)).collect();
    let mut table = table("growing", 4, 1, &names, Demand { keys: 20_000, units: 4, phases });
    table.ceiling = 200;
    let mut scenario =
        CapacityScenario::from_tables(seed, OD_SECONDS, vec![Design::Split], nodes, vec![table]);
    scenario.extras.insert(0, following());
    scenario.onset = OD_UP;
    scenario
}

/// The largest factor by which a limit grows within one growth period.
fn largest_growth(limits: &[i64]) -> f64 {
    // A second less than the period: a limit that doubles after a minute, and again after the next
    // one, has doubled twice within 60 s and one.
    let period = GROWTH as usize - 1;
    let factors =
        limits.iter().zip(limits.iter().skip(period)).map(|(first, last)| *last as f64 / *first as f64);
    factors.fold(1.0, f64::max)
}

/// Seconds from the first climb until the limit covers the demand.
fn seconds_to_grow(growth: &GrowthSeries) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "a small rate")]
    let wanted = (4.0 * OD_FACTOR * 1000.0) as i64;
    let reached = growth.limits.iter().skip(OD_UP as usize).position(|limit| *limit >= wanted);
    reached.map_or(f64::INFINITY, |seconds| seconds as f64)
}

/// The lines of E-OD.
pub(super) fn judge_thousand_times(runs: &[&CapacityRun]) -> Vec<GateLine> {
    let design = Design::Split;
    let factor = worst(runs, design, |_, result| largest_growth(&growth_of(result).limits));
    let seconds = worst(runs, design, |_, result| seconds_to_grow(growth_of(result)));
    // Ten doublings, the first of which has begun, and the average of the last minute.
    let most_seconds = f64::from(11 * GROWTH);
    let refused =
        worst(runs, design, |_, result| between(&result.tables[0].seconds, OD_AGAIN, OD_SECONDS).1 as f64);
    let count =
        |second| worst(runs, design, move |_, result| f64::from(at(&growth_of(result).partitions, second)));
    vec![
        at_most(
            design,
            "largest growth of the limit within one growth period",
            Figure::new(factor, 2, " times"),
            2.0,
        ),
        line(
            design,
            "time until the limit has grown a thousandfold",
            format!("{seconds} s"),
            "at most 11 growth periods",
            seconds <= most_seconds,
        ),
        line(
            design,
            "partitions at the first peak, before the second climb, and at the end",
            format!("{}, {}, {}", count(OD_BACK), count(OD_AGAIN), count(OD_SECONDS)),
            "fewer before the second climb than at the first peak",
            count(OD_AGAIN) < count(OD_BACK),
        ),
        none(design, "requests refused in the second climb to the old peak", refused),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_doubles_twice_within_a_period_is_found() {
        let doubling =
            |every: usize| -> Vec<i64> { (0..300).map(|second| 1000 << (second / every)).collect() };
        assert!((largest_growth(&doubling(60)) - 2.0).abs() < 1e-9);
        assert!((largest_growth(&doubling(40)) - 4.0).abs() < 1e-9);
    }
}
