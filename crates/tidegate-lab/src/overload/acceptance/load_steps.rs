//! E3: load that rises in a step and eases again.

use super::figures::{FigureUnit, at_least, at_most, missing, values};
use super::scenario_parts::{success_in, variant};
use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{
    ClientSpec, LoadPhase, OverloadResult, OverloadRun, OverloadScenario, ServiceSpec,
};

pub(super) const DESCRIPTION: &str = "After ten seconds at 0.8 of the capacity the load rises in one step, and ten seconds later it eases. Shedding \
     should begin at once and end at once: gold, which asks for 200 requests a second throughout, loses nothing, and \
     soon after the load has eased nobody is refused, nothing queues, and the load level is normal.";

/// Name, load of the step, load afterwards.
const STEPS: [(&str, f64, f64); 3] =
    [("2x to 0.8x", 2.0, 0.8), ("2x to 0.5x", 2.0, 0.5), ("1.4x to 0.5x", 1.4, 0.5)];
/// When the load rises, when it eases, and when the run ends.
pub(crate) const RISE: f64 = 10.0;
pub(crate) const EASE: f64 = 20.0;
const SECONDS: u32 = 35;
/// The longest time from easing to the load level normal: a settle time of 5 s, and one more.
const NORMAL_AFTER: f64 = 6.0;

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let scenario = |(name, step, eased): &(&str, f64, f64)| {
        let phase = |from, load: f64| LoadPhase { from, factor: load - 0.2 };
        let phases = vec![phase(0.0, 0.8), phase(RISE, *step), phase(EASE, *eased)];
        let bronze = ClientSpec { phases, ..ClientSpec::bronze(1000.0) };
        let clients = vec![ClientSpec::gold(200.0), bronze];
        let service = ServiceSpec::reference("main");
        OverloadScenario { warm_up: 0.0, ..variant(name, seed, SECONDS, service, clients) }
    };
    STEPS.iter().map(scenario).collect()
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    for (variant, _, eased) in &STEPS {
        let first = values(runs, variant, |_, result| first_shed_ms(result));
        let what = format!("{variant}: from the step to the first shed request");
        lines.push(at_most(what, &first, 200.0, FigureUnit::Ms));
        let failed = values(runs, variant, |_, result| {
            let steps = result.client("gold").map_or(&[][..], |gold| gold.steps_in(RISE, RISE + 2.0));
            steps.iter().map(|step| f64::from(step.began - step.succeeded)).sum()
        });
        let what = format!("{variant}: failures of gold in the first 2 s of the step");
        lines.push(at_most(what, &failed, 0.0, FigureUnit::Count));
        if *eased > 0.5 {
            continue;
        }
        let success = values(runs, variant, |_, result| success_in(result, EASE + 0.5, f64::from(SECONDS)));
        let what = format!("{variant}: success of what begins 0.5 s after the load has eased, or later");
        lines.push(at_least(what, &success, 0.99, FigureUnit::Share));
        let steps = |result: &OverloadResult,
                     after: f64,
                     is_bad: fn(&tidegate_sim::overload::ServiceStep) -> f64|
         -> f64 {
            result.services[0].steps_in(EASE + after, f64::from(SECONDS)).iter().map(is_bad).sum()
        };
        let refused = values(runs, variant, |_, result| steps(result, 1.0, |step| f64::from(step.refused)));
        let what = format!("{variant}: requests refused 1 s after the load has eased, or later");
        lines.push(at_most(what, &refused, 0.0, FigureUnit::Count));
        let queued = values(runs, variant, |_, result| {
            steps(result, 1.0, |step| if step.queued_min > 0 { 1.0 } else { 0.0 })
        });
        let what = format!(
            "{variant}: tenths of a second with a standing queue 1 s after the load has eased, or later"
        );
        lines.push(at_most(what, &queued, 0.0, FigureUnit::Count));
        let what = format!("{variant}: from easing to the load level normal");
        let levels = values(runs, variant, |_, result| normal_after_ms(result));
        lines.push(if levels.iter().any(|ms| ms.is_nan()) {
            missing(what, &format!("at most {NORMAL_AFTER:.0} s"), "the plane has no load levels")
        } else {
            at_most(what, &levels, NORMAL_AFTER * 1000.0, FigureUnit::Ms)
        });
    }
    lines
}

/// Milliseconds from the step to the first refusal after it; infinite without one.
fn first_shed_ms(result: &OverloadResult) -> f64 {
    let mut steps = result.services[0].steps_in(RISE, EASE).iter();
    let first = steps.find_map(|step| step.first_refusal);
    first.map_or(f64::INFINITY, |second| (second - RISE) * 1000.0)
}

/// Milliseconds from easing to the end of the last step above the level normal; not a number
/// without levels.
fn normal_after_ms(result: &OverloadResult) -> f64 {
    let steps = result.services[0].steps_in(EASE, f64::from(SECONDS));
    if steps.iter().all(|step| step.level.is_none()) {
        return f64::NAN;
    }
    let last = steps.iter().rposition(|step| step.level.is_some_and(|level| level > 0));
    last.map_or(0.0, |place| (place + 1) as f64 * 100.0)
}
