//! E2: an important tenant beside an unimportant flood, and a second service that notices nothing.

use super::figures::{FigureUnit, at_least, at_most, same_seed, values};
use super::scenario_parts::variant;
use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{
    ClientResult, ClientSpec, OverloadResult, OverloadRun, OverloadScenario, ServiceSpec,
};

pub(super) const DESCRIPTION: &str = "The tenant gold asks for 20 % of the capacity, all of it critical. Bronze, which is sheddable, asks for one to ten \
     times the capacity: a thousand tenants alike, or a single one. Gold should not notice, and bronze should get what \
     is left. A second service of the same engine is asked for half of its own capacity meanwhile, and should not notice \
     either.";

const ALONE: &str = "alone";
/// Name, load of bronze, and its tenants.
const FLOODS: [(&str, f64, u32); 6] = [
    (ALONE, 0.0, 1),
    ("1x", 1.0, 1000),
    ("2x", 2.0, 1000),
    ("5x", 5.0, 1000),
    ("10x", 10.0, 1000),
    ("5x one", 5.0, 1),
];

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let scenario = |(name, load, tenants): &(&str, f64, u32)| {
        let side = ClientSpec { name: "side".to_owned(), service: 1, ..ClientSpec::bronze(500.0) };
        let bronze = ClientSpec { tenants: *tenants, ..ClientSpec::bronze(1000.0 * load) };
        let clients = vec![ClientSpec::gold(200.0), bronze, side];
        let mut scenario = variant(name, seed, 20, ServiceSpec::reference("main"), clients);
        scenario.services.push(ServiceSpec::reference("neighbour"));
        scenario
    };
    FLOODS.iter().map(scenario).collect()
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    for (variant, _, _) in &FLOODS[1..] {
        let success = values(runs, variant, |_, result| client(result, "gold", ClientResult::success));
        lines.push(at_least(format!("{variant}: success of gold"), &success, 0.999, FigureUnit::Share));
        let slower = |name: &'static str| {
            values(runs, variant, |run, result| {
                let alone =
                    same_seed(runs, run, ALONE).map_or(0.0, |alone| client(alone, name, |one| one.p99_ms));
                client(result, name, |one| one.p99_ms) / alone.max(0.001)
            })
        };
        let what = format!("{variant}: p99 of gold, in terms of gold alone");
        lines.push(at_most(what, &slower("gold"), 1.25, FigureUnit::Times));
        let leftover = values(runs, variant, share_of_leftover);
        let what = format!("{variant}: part of what gold and rejections leave that bronze gets");
        lines.push(at_least(what, &leftover, 0.95, FigureUnit::Share));
        let what = format!(
            "{variant}: p99 of the second service, in terms of its own while gold is alone at the first"
        );
        lines.push(at_most(what, &slower("side"), 1.1, FigureUnit::Times));
    }
    lines
}

fn client(result: &OverloadResult, name: &str, value: impl Fn(&ClientResult) -> f64) -> f64 {
    result.client(name).map_or(0.0, value)
}

/// The goodput of bronze, as a part of the capacity that gold and the work of rejecting leave; at
/// most 1 if it asks for less.
fn share_of_leftover(run: &OverloadRun, result: &OverloadResult) -> f64 {
    let scenario = &run.scenario;
    let service = &scenario.services[0];
    let (from, until) = (scenario.counts_from(), f64::from(scenario.seconds));
    let refused: u32 = result.services[0].steps_in(from, until).iter().map(|step| step.refused).sum();
    let seconds_lost = f64::from(refused) * f64::from(service.rejection_us) / 1e6 / (until - from);
    let left = service.capacity() * (1.0 - seconds_lost / f64::from(service.workers))
        - client(result, "gold", |gold| gold.good_units_per_second);
    let asked = scenario.client("bronze").map_or(0.0, |bronze| scenario.clients[bronze].rate);
    client(result, "bronze", |bronze| bronze.good_units_per_second) / left.min(asked).max(1.0)
}
