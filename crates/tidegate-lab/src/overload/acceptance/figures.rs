//! Figures of the gate: values of the design `tidegate` over the seeds, with median and worst.

use tidegate_sim::kit::{GateLine, GateOutcome};
use tidegate_sim::overload::summary::median;
use tidegate_sim::overload::{OverloadDesign, OverloadResult, OverloadRun};

/// The runs of a variant, in the order of the seeds.
pub(super) fn of_variant<'a>(runs: &[&'a OverloadRun], variant: &str) -> Vec<&'a OverloadRun> {
    runs.iter().copied().filter(|run| run.scenario.variant == variant).collect()
}

/// The variant `variant` of the same seed as a run.
pub(super) fn same_seed<'a>(
    runs: &[&'a OverloadRun],
    run: &OverloadRun,
    variant: &str,
) -> Option<&'a OverloadResult> {
    let is_same =
        |other: &&&OverloadRun| other.scenario.variant == variant && other.scenario.seed == run.scenario.seed;
    runs.iter().find(is_same)?.of(OverloadDesign::TIDEGATE)
}

/// A value of each run of a variant, under the design that is judged.
pub(super) fn values(
    runs: &[&OverloadRun],
    variant: &str,
    value: impl Fn(&OverloadRun, &OverloadResult) -> f64,
) -> Vec<f64> {
    let runs = of_variant(runs, variant);
    runs.iter().filter_map(|run| Some(value(run, run.of(OverloadDesign::TIDEGATE)?))).collect()
}

/// A value of each run of a variant, under a design that is not judged.
pub(super) fn values_of(
    runs: &[&OverloadRun],
    variant: &str,
    design: OverloadDesign,
    value: impl Fn(&OverloadResult) -> f64,
) -> Vec<f64> {
    of_variant(runs, variant).iter().filter_map(|run| run.of(design)).map(value).collect()
}

/// How a figure is written.
#[derive(Clone, Copy, Debug)]
pub(super) enum FigureUnit {
    /// A share of 1.
    Share,
    /// A ratio.
    Times,
    /// Milliseconds.
    Ms,
    /// A count.
    Count,
}

impl FigureUnit {
    fn text(self, value: f64) -> String {
        match self {
            _ if value.is_infinite() => "infinite".to_owned(),
            Self::Share => format!("{value:.4}"),
            Self::Times => format!("{value:.3} x"),
            Self::Ms => format!("{value:.0} ms"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// A line: the lowest value of all seeds is at least `bound`.
pub(super) fn at_least(what: String, values: &[f64], bound: f64, unit: FigureUnit) -> GateLine {
    let worst = values.iter().copied().fold(f64::INFINITY, f64::min);
    line(what, values, worst, &format!("at least {}", unit.text(bound)), unit, worst >= bound)
}

/// A line: the highest value of all seeds is at most `bound`.
pub(super) fn at_most(what: String, values: &[f64], bound: f64, unit: FigureUnit) -> GateLine {
    let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    line(what, values, worst, &format!("at most {}", unit.text(bound)), unit, worst <= bound)
}

fn line(
    what: String,
    values: &[f64],
    worst: f64,
    bound: &str,
    unit: FigureUnit,
    is_within: bool,
) -> GateLine {
    if values.is_empty() {
        let outcome = GateOutcome::NotJudged;
        return GateLine { outcome, ..GateLine::judged(what, "-".to_owned(), bound, true) };
    }
    let figure = match values {
        [one] => unit.text(*one),
        _ => format!("median {}, worst {}", unit.text(median(values)), unit.text(worst)),
    };
    GateLine::judged(what, figure, bound, is_within)
}

/// A line for comparison: median and highest value of all seeds under a design that is not judged.
pub(super) fn compared(what: String, values: &[f64], unit: FigureUnit) -> GateLine {
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let line = line(what, values, highest, "for comparison", unit, true);
    GateLine { outcome: GateOutcome::NotJudged, ..line }
}

/// A line about something that the plane does not have: it fails, whatever was measured.
pub(super) fn missing(what: String, bound: &str, lacks: &str) -> GateLine {
    GateLine::judged(what, lacks.to_owned(), bound, false)
}
