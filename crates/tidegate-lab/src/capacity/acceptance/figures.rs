//! Figures of experiments over all seeds, and the lines of the gate that are made of them.

use tidegate_sim::capacity::design::Design;
use tidegate_sim::capacity::run::{CapacityRun, DesignResult, StreamResult};
use tidegate_sim::capacity::tally::SecondCount;
use tidegate_sim::kit::GateLine;

/// The designs that were simulated, in order.
pub(super) fn designs<'a>(runs: &'a [&CapacityRun]) -> impl Iterator<Item = Design> + use<'a> {
    runs[0].scenario.designs.iter().copied()
}

/// The largest value of a design over all seeds.
pub(super) fn worst(
    runs: &[&CapacityRun],
    design: Design,
    value: impl Fn(&CapacityRun, &DesignResult) -> f64,
) -> f64 {
    let values = runs.iter().filter_map(|run| Some(value(run, run.of(design)?)));
    values.fold(f64::MIN, f64::max)
}

/// The smallest value of a design over all seeds.
pub(super) fn least(
    runs: &[&CapacityRun],
    design: Design,
    value: impl Fn(&CapacityRun, &DesignResult) -> f64,
) -> f64 {
    let values = runs.iter().filter_map(|run| Some(value(run, run.of(design)?)));
    values.fold(f64::MAX, f64::min)
}

/// A line about a design.
pub(super) fn line(design: Design, what: &str, figure: String, bound: &str, is_within: bool) -> GateLine {
    GateLine::judged(format!("{}: {what}", design.letters()), figure, bound, is_within)
}

/// The refused requests of a stream by one of these buckets.
pub(super) fn refused_by(stream: &StreamResult, bounds: &[&str]) -> u64 {
    bounds.iter().filter_map(|bound| stream.by_bound.get(bound)).sum()
}

/// The requests from a second on until another one, and those of them that were refused.
pub(super) fn between(seconds: &[SecondCount], from: u32, until: u32) -> (u64, u64) {
    let counts = seconds.iter().take(until as usize).skip(from as usize);
    counts.fold((0, 0), |(offered, throttled), count| {
        (offered + u64::from(count.offered), throttled + u64::from(count.throttled))
    })
}

pub(super) fn share_of(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
