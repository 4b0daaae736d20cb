//! E1: work done in time at one to ten times the capacity, and a cursor that stands still under
//! steady load.

use super::figures::{FigureUnit, at_least, at_most, values};
use super::scenario_parts::variant;
use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{ClientSpec, OverloadResult, OverloadRun, OverloadScenario, ServiceSpec};

pub(super) const DESCRIPTION: &str = "A service of ten workers, with exponential service times of 10 ms, can do 1000 requests a second. It is asked for \
     one, two, five and ten times as many for 20 s: 200 a second of the class critical, the rest sheddable. Answers \
     after 500 ms are of no use, and each rejection takes a worker 50 us. Goodput is the part of the capacity that is \
     answered in time; it should not fall as the load grows. The load is steady, so after two seconds the admission \
     cursor should stand nearly still.";

/// Name, load, and the least goodput.
const LOADS: [(&str, f64, f64); 4] =
    [("1x", 1.0, 0.95), ("2x", 2.0, 0.95), ("5x", 5.0, 0.94), ("10x", 10.0, 0.90)];
const SECONDS: u32 = 20;

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let scenario = |(name, load, _): &(&str, f64, f64)| {
        let clients = vec![ClientSpec::gold(200.0), ClientSpec::bronze(1000.0 * load - 200.0)];
        variant(name, seed, SECONDS, ServiceSpec::reference("main"), clients)
    };
    LOADS.iter().map(scenario).collect()
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let goodput = LOADS.iter().map(|(variant, _, bound)| {
        let all = values(runs, variant, |run, result| result.goodput(&run.scenario, 0));
        at_least(format!("{variant}: goodput as a part of the capacity"), &all, *bound, FigureUnit::Share)
    });
    let steadiness = LOADS[1..].iter().map(|(variant, _, _)| {
        let all = values(runs, variant, |_, result| cursor_travel(result));
        let what = format!(
            "{variant}: farthest move of the cursor within any second after the first two, of its span"
        );
        at_most(what, &all, 0.10, FigureUnit::Share)
    });
    goodput.chain(steadiness).collect()
}

/// The part of its span by which the cursor moves within any second after the first two.
fn cursor_travel(result: &OverloadResult) -> f64 {
    let steps = result.services[0].steps_in(2.0, f64::from(SECONDS));
    let cursors: Vec<f64> = steps.iter().filter_map(|step| step.cursor).collect();
    let travel = |second: &[f64]| {
        let (low, high) =
            second.iter().fold((1.0, 0.0), |(low, high), at| (f64::min(low, *at), f64::max(high, *at)));
        high - low
    };
    cursors.windows(11).map(travel).fold(0.0, f64::max)
}
