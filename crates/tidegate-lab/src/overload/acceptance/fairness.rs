//! E10: shares of classes and tenants of the queue.

use tidegate_core::Class;

use super::figures::{FigureUnit, at_least, at_most, same_seed, values};
use super::scenario_parts::variant;
use crate::overload::Rival;
use tidegate_sim::kit::{Chance, GateLine, fairness_of};
use tidegate_sim::overload::{
    ClientSpec, LoadPhase, OverloadDesign, OverloadResult, OverloadRun, OverloadScenario, ServiceSpec,
    ServiceTime,
};

pub(super) const DESCRIPTION: &str = "Where several classes or tenants compete, the admission cursor is pinned open, so that the queue alone decides; \
     the comparisons of classes are made again with the cursor free. \
     Classes of the weights 1, 2 and 4 each ask for all of the capacity; a background class asks for it beside critical \
     requests, with and without a least share; ten equal tenants ask for twice the capacity; two tenants ask for as much \
     in requests of cost 1 and of cost 50; a tenant comes back after a minute of silence. At last one tenant asks for a \
     hundred times as much as each of a hundred others, with the cursor free, over many draws of their names: each of \
     the others is compared with itself without that tenant, for the same requests.";

/// The baselines beside the product: one that does not know classes, and one that knows nothing
/// else.
const DESIGNS: [OverloadDesign; 3] =
    [Rival::CoDel.design(), Rival::StrictPriority.design(), OverloadDesign::TIDEGATE];
/// Draws of names of each seed.
const DRAWS: u64 = 40;
const MICE: u32 = 100;
/// For how long each is simulated: a mouse asks 860 times in it after the warm-up, so that its p99
/// is not a matter of one or two requests.
const MICE_SECONDS: u32 = 120;
/// When the silent tenant comes back.
const RETURN: f64 = 70.0;

/// A variant whose cursor is pinned open.
fn scenario(
    name: &str,
    seed: u64,
    seconds: u32,
    service: ServiceSpec,
    clients: Vec<ClientSpec>,
) -> OverloadScenario {
    let scenario = variant(name, seed, seconds, service, clients);
    OverloadScenario { pins_cursor_open: true, designs: DESIGNS.to_vec(), ..scenario }
}

fn tenant(name: &str, class: Class, rate: f64) -> ClientSpec {
    ClientSpec { name: name.to_owned(), class, ..ClientSpec::gold(rate) }
}

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let main = || ServiceSpec::reference("main");
    let sheddable = |name, rate| tenant(name, Class::Sheddable, rate);
    let by_weight = vec![
        sheddable("one", 1000.0),
        tenant("two", Class::SheddablePlus, 1000.0),
        tenant("four", Class::Critical, 1000.0),
    ];
    let weighted = ServiceSpec { weights: Some([1, 2, 4, 16]), ..main() };
    let background = |variant, share| {
        let clients = vec![sheddable("background", 1000.0), tenant("others", Class::Critical, 2000.0)];
        let service = ServiceSpec { min_shares: [Some(share), None, None, None], ..main() };
        scenario(variant, seed, 20, service, clients)
    };
    let equal = ClientSpec { keeps_tenants: true, tenants: 10, ..sheddable("equal", 2000.0) };
    // A rejection costs as much of its work as in the reference. A worker that rejects keeps the
    // place of the request that it begins next.
    let quick =
        ServiceSpec { service_time: ServiceTime::Exponential { mean_ms: 1.0 }, rejection_us: 5, ..main() };
    let costs = vec![sheddable("small", 10_000.0), ClientSpec { cost: 50, ..sheddable("large", 200.0) }];
    let phase = |from, factor| LoadPhase { from, factor };
    let silent =
        ClientSpec { phases: vec![phase(10.0, 0.0), phase(RETURN, 1.0)], ..sheddable("silent", 2000.0) };
    let mut all = vec![
        scenario("weights", seed, 20, weighted, by_weight),
        background("background 0", 0.0),
        background("background 0.05", 0.05),
        scenario("equal", seed, 20, main(), vec![equal]),
        // Long, so that the times of some thousands of large requests are no matter of chance.
        scenario("costs", seed, 120, quick, costs),
        scenario("return", seed, 75, main(), vec![sheddable("busy", 2000.0), silent]),
    ];
    let classes: Vec<_> = all[..3].iter().map(with_cursor).collect();
    all.extend(classes);
    all.extend(
        (0..DRAWS).flat_map(|draw| [with_elephant(seed, draw, true), with_elephant(seed, draw, false)]),
    );
    all
}

/// The same with the admission cursor free, for the product alone.
fn with_cursor(scenario: &OverloadScenario) -> OverloadScenario {
    OverloadScenario {
        variant: format!("{}, cursor free", scenario.variant),
        pins_cursor_open: false,
        designs: vec![OverloadDesign::TIDEGATE],
        ..scenario.clone()
    }
}

fn draw_name(draw: u64, has_elephant: bool) -> String {
    format!("{} {}", if has_elephant { "elephant" } else { "mice" }, draw + 1)
}

/// A hundred tenants, with or without one that asks for a hundred times as much as each.
fn with_elephant(seed: u64, draw: u64, has_elephant: bool) -> OverloadScenario {
    let name_salt = Chance::new(seed, 70 + draw).bits();
    let each = 8.0;
    let mice = ClientSpec {
        tenants: MICE,
        keeps_tenants: true,
        name_salt,
        ..tenant("mouse", Class::Sheddable, each * f64::from(MICE))
    };
    let elephant = ClientSpec { name_salt, ..tenant("elephant", Class::Sheddable, 100.0 * each) };
    let clients = if has_elephant { vec![mice, elephant] } else { vec![mice] };
    let variant = draw_name(draw, has_elephant);
    let scenario = scenario(&variant, seed, MICE_SECONDS, ServiceSpec::reference("main"), clients);
    let designs = if draw == 0 { DESIGNS.to_vec() } else { vec![OverloadDesign::TIDEGATE] };
    OverloadScenario { pins_cursor_open: false, warm_up: 0.1, designs, ..scenario }
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = Vec::new();
    let served = |result: &OverloadResult, name: &str| {
        let all: f64 = result.clients.iter().map(|client| client.good_units_per_second).sum();
        result.client(name).map_or(0.0, |client| client.good_units_per_second) / all.max(1.0)
    };
    for (cursor, bound) in [("", 0.02), (", cursor free", 0.1)] {
        for (name, part) in [("one", 1.0 / 7.0), ("two", 2.0 / 7.0), ("four", 4.0 / 7.0)] {
            let variant = format!("weights{cursor}");
            let off = values(runs, &variant, |_, result| (served(result, name) / part - 1.0).abs());
            let what = format!("{variant}: distance of the share of class \"{name}\" from its weight");
            lines.push(at_most(what, &off, bound, FigureUnit::Share));
        }
        let variant = format!("background 0{cursor}");
        let starved = values(runs, &variant, |_, result| served(result, "background"));
        let what = format!("{variant}: share of a background class without a least share");
        lines.push(at_most(what, &starved, 0.005, FigureUnit::Share));
        let variant = format!("background 0.05{cursor}");
        let off = values(runs, &variant, |_, result| (served(result, "background") - 0.05).abs());
        let what =
            format!("{variant}: distance of the share of a background class from its least share, 0.05");
        lines.push(at_most(what, &off, 0.005, FigureUnit::Share));
    }
    let jain = values(runs, "equal", |_, result| {
        let units: Vec<f64> =
            result.clients[0].tenants.iter().map(|tenant| tenant.good_units as f64).collect();
        fairness_of(&units).unwrap_or(0.0)
    });
    lines.push(at_least(
        "equal: Jain's index of ten equal tenants".to_owned(),
        &jain,
        0.99,
        FigureUnit::Share,
    ));
    let off = values(runs, "costs", |_, result| (served(result, "large") / 0.5 - 1.0).abs());
    let what = "costs: distance of the share of requests of cost 50 from one half".to_owned();
    lines.push(at_most(what, &off, 0.02, FigureUnit::Share));
    let taken = values(runs, "return", |_, result| {
        let units_of = |name: &str| -> f64 {
            let steps = result.client(name).map_or(&[][..], |client| client.steps_in(RETURN, RETURN + 1.0));
            steps.iter().map(|step| f64::from(step.started_units)).sum()
        };
        units_of("silent") / (units_of("silent") + units_of("busy")).max(1.0)
    });
    let what = "return: share of a tenant in the first second after a minute of silence".to_owned();
    lines.push(at_most(what, &taken, 0.52, FigureUnit::Share));
    lines.push(mice(runs));
    lines
}

/// Each mouse with the elephant is compared with itself without.
fn mice(runs: &[&OverloadRun]) -> GateLine {
    let worst_of = |draw: u64| {
        values(runs, &draw_name(draw, true), |run, result| {
            let alone = same_seed(runs, run, &draw_name(draw, false));
            let alone = alone.map_or(&[][..], |alone| &alone.clients[0].tenants);
            let pairs = result.clients[0].tenants.iter().zip(alone);
            pairs.map(|(with, alone)| with.p99_ms / alone.p99_ms.max(0.001)).fold(0.0, f64::max)
        })
    };
    let all: Vec<f64> = (0..DRAWS).flat_map(worst_of).collect();
    let what = format!(
        "elephant: p99 of the slowest of {MICE} mice beside an elephant, in terms of the same mouse without, over {} \
         draws of names",
        all.len()
    );
    at_most(what, &all, 2.0, FigureUnit::Times)
}
