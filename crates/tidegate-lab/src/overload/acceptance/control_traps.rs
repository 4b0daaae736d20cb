//! E11: faults that mislead control loops.

use tidegate_core::Class;

use super::figures::{FigureUnit, at_least, at_most, missing, values};
use super::scenario_parts::{self, success_in};
use crate::overload::Rival;
use tidegate_sim::kit::GateLine;
use tidegate_sim::overload::{
    ClientSpec, OverloadDesign, OverloadFault, OverloadResult, OverloadRun, OverloadScenario, ServicePhase,
    ServiceSpec, TimedFault,
};

pub(super) const DESCRIPTION: &str = "Limits that follow latency are misled by timeouts that are all the same, by a service that is slow for long, by \
     eight requests a minute, and by a service that is three times as slow from one instant on. Signals may be undefined \
     or stale. A program may start anew in the middle of an overload. At last each operation is a task of one to four \
     calls at twice the capacity: a task is of use only if all of its calls are answered, so that refusing calls at \
     random wastes most of the work.";

/// The task sizes.
const CALLS: [u32; 4] = [1, 2, 3, 4];
/// Designs with a limit that follows latency.
const WITH_LIMITS: [OverloadDesign; 3] =
    [Rival::Aimd.design(), Rival::Gradient2.design(), OverloadDesign::TIDEGATE];
/// The limit that adaptive ones begin with.
const PLACES: u32 = 20;

fn adaptive(variant: &str, seed: u64, seconds: u32, service: ServiceSpec, rate: f64) -> OverloadScenario {
    let service = ServiceSpec { is_adaptive: true, places: Some(PLACES), ..service };
    let scenario = scenario_parts::variant(variant, seed, seconds, service, vec![ClientSpec::gold(rate)]);
    OverloadScenario { designs: WITH_LIMITS.to_vec(), ..scenario }
}

pub(super) fn scenarios(seed: u64) -> Vec<OverloadScenario> {
    let main = || ServiceSpec::reference("main");
    let with_phases = |phases| ServiceSpec { phases, ..main() };
    let stuck = vec![ServicePhase::failing(60.0, 500.0), ServicePhase::slowed(660.0, 1.0)];
    let wide = ServiceSpec { workers: 1000, phases: stuck, ..main() };
    let slow = vec![ServicePhase::slowed(30.0, 2.0), ServicePhase::slowed(150.0, 1.0)];
    let mut all = vec![
        adaptive("timeouts", seed, 690, wide, 100.0),
        adaptive("slow", seed, 180, with_phases(slow), 800.0),
        adaptive("rare", seed, 1200, main(), 8.0 / 60.0),
        adaptive("baseline x3", seed, 100, with_phases(vec![ServicePhase::slowed(30.0, 3.0)]), 800.0),
    ];
    let faulty = |variant, load: f64, seconds, faults| {
        let clients = vec![ClientSpec::gold(200.0), ClientSpec::bronze(1000.0 * load - 200.0)];
        OverloadScenario { faults, ..scenario_parts::variant(variant, seed, seconds, main(), clients) }
    };
    let undefined = (0..50)
        .map(|tenth| TimedFault { at: 5.0 + f64::from(tenth) / 10.0, fault: OverloadFault::UndefinedSignal });
    all.push(faulty("undefined signal", 0.5, 15, undefined.collect()));
    all.push(faulty(
        "stale signal",
        0.5,
        15,
        vec![TimedFault { at: 5.0, fault: OverloadFault::Pressure(200) }],
    ));
    all.push(faulty("restart", 2.0, 20, vec![TimedFault { at: 10.0, fault: OverloadFault::Restart }]));
    all.extend(CALLS.into_iter().map(|calls| {
        let tasks = ClientSpec {
            name: "tasks".to_owned(),
            class: Class::Sheddable,
            tenants: 1000,
            calls,
            ..ClientSpec::gold(2000.0 / f64::from(calls))
        };
        scenario_parts::variant(&tasks_name(calls), seed, 20, main(), vec![tasks])
    }));
    all
}

fn tasks_name(calls: u32) -> String {
    format!("tasks of {calls}")
}

pub(super) fn judge(runs: &[&OverloadRun]) -> Vec<GateLine> {
    let mut lines = limits(runs);
    let refused = |variant: &str, from: f64, until: f64| {
        values(runs, variant, |_, result| {
            result.services[0].steps_in(from, until).iter().map(|step| f64::from(step.refused)).sum()
        })
    };
    let what = "undefined signal: requests refused at half of the capacity".to_owned();
    lines.push(at_most(what, &refused("undefined signal", 5.0, 15.0), 0.0, FigureUnit::Count));
    // Three intervals of a tick, and the tick that ends the effect.
    let what = "stale signal: requests refused more than 400 ms after the last signal".to_owned();
    lines.push(at_most(what, &refused("stale signal", 5.4, 15.0), 0.0, FigureUnit::Count));
    let after = values(runs, "restart", |_, result| good_rate(result, 11.0, 20.0) / 1000.0);
    let what = "restart: goodput from 1 s after a restart at twice the capacity".to_owned();
    lines.push(at_least(what, &after, 0.95, FigureUnit::Share));
    for calls in CALLS {
        let variant = tasks_name(calls);
        let success = values(runs, &variant, |_, result| result.clients[0].success() / 0.5);
        let what = format!("{variant}: success at twice the capacity, as a part of what is possible");
        lines.push(at_least(what, &success, 0.9, FigureUnit::Share));
    }
    lines
}

/// The lines about limits that follow latency.
fn limits(runs: &[&OverloadRun]) -> Vec<GateLine> {
    type Measure = fn(&OverloadResult) -> f64;
    let at_most_lines: [(&str, &str, Measure, f64); 2] = [
        (
            "timeouts",
            "largest limit in ten minutes of timeouts of 500 ms, in terms of the one before",
            |result| limits_in(result, 60.0, 660.0).1 / limits_in(result, 59.5, 60.0).1.max(0.001),
            1.2,
        ),
        (
            "rare",
            "largest limit at eight requests a minute, in terms of the smallest",
            |result| {
                let (low, high) = limits_in(result, 1.0, 1200.0);
                high / low.max(0.001)
            },
            1.0,
        ),
    ];
    let at_least_lines: [(&str, &str, Measure, f64); 4] = [
        (
            "timeouts",
            "requests answered in time from 10 s after the timeouts, of those asked",
            |r| success_in(r, 670.0, 690.0),
            0.95,
        ),
        (
            "slow",
            "goodput while the service is half as fast, of what it can do",
            |r| good_rate(r, 40.0, 150.0) / 500.0,
            0.9,
        ),
        (
            "slow",
            "requests answered in time from 10 s after the service is as fast as before",
            |r| success_in(r, 160.0, 180.0),
            0.95,
        ),
        (
            "baseline x3",
            "goodput from 10 s after the service takes three times as long, of what it can do",
            |r| good_rate(r, 40.0, 100.0) / (1000.0 / 3.0),
            0.9,
        ),
    ];
    let lacks = |variant: &str| {
        let has =
            values(runs, variant, |_, result| f64::from(u8::from(result.services[0].has_adaptive_limit)));
        has.contains(&0.0)
    };
    let mut lines = Vec::new();
    for (variant, claim, measure, bound) in at_most_lines {
        let what = format!("{variant}: {claim}");
        lines.push(if lacks(variant) {
            missing(what, &format!("at most {bound}"), "the plane has no adaptive limit")
        } else {
            at_most(what, &values(runs, variant, |_, result| measure(result)), bound, FigureUnit::Times)
        });
    }
    for (variant, claim, measure, bound) in at_least_lines {
        let what = format!("{variant}: {claim}");
        lines.push(if lacks(variant) {
            missing(what, &format!("at least {bound}"), "the plane has no adaptive limit")
        } else {
            at_least(what, &values(runs, variant, |_, result| measure(result)), bound, FigureUnit::Share)
        });
    }
    lines
}

/// The smallest and the largest limit of a span.
fn limits_in(result: &OverloadResult, from: f64, until: f64) -> (f64, f64) {
    let steps = result.services[0].steps_in(from, until);
    steps.iter().fold((f64::INFINITY, 0.0), |(low, high), step| (low.min(step.limit), high.max(step.limit)))
}

/// Units a second answered in time in a span.
fn good_rate(result: &OverloadResult, from: f64, until: f64) -> f64 {
    let steps = result.clients.iter().flat_map(|client| client.steps_in(from, until));
    steps.map(|step| f64::from(step.good_units)).sum::<f64>() / (until - from)
}
