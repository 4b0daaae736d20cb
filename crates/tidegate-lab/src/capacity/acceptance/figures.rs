//! Figures of experiments over all seeds, and the lines of the gate that are made of them.

use tidegate_sim::capacity::{CapacityRun, Design, DesignResult, SecondCount, StreamResult};
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

/// A figure in the unit in which it is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    value: f64,
    digits: Option<usize>,
    unit: &'static str,
}

impl Figure {
    /// A figure with so many digits after the point.
    pub(super) const fn new(value: f64, digits: usize, unit: &'static str) -> Self {
        Self { value, digits: Some(digits), unit }
    }

    pub(super) const fn count(value: f64) -> Self {
        Self { value, digits: None, unit: "" }
    }

    pub(super) fn percent(share: f64, digits: usize) -> Self {
        Self::new(share * 100.0, digits, " %")
    }

    fn line(self, design: Design, what: &str, bound: &str, is_within: bool) -> GateLine {
        let Self { value, digits, unit } = self;
        let value = digits.map_or_else(|| value.to_string(), |digits| format!("{value:.digits$}"));
        line(design, what, format!("{value}{unit}"), bound, is_within)
    }
}

/// A line of something that must not be.
pub(super) fn none(design: Design, what: &str, count: f64) -> GateLine {
    Figure::count(count).line(design, what, "0", count <= 0.0)
}

/// A line of a figure with an upper bound, in its unit.
pub(super) fn at_most(design: Design, what: &str, figure: Figure, most: f64) -> GateLine {
    figure.line(design, what, &format!("at most {most}{}", figure.unit), figure.value <= most)
}

/// A line of a figure with a lower bound, in its unit.
pub(super) fn at_least(design: Design, what: &str, figure: Figure, least: f64) -> GateLine {
    figure.line(design, what, &format!("at least {least}{}", figure.unit), figure.value >= least)
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
