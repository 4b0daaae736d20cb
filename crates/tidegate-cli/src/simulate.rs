//! `tidegate simulate`.

mod progress;
mod seeds;

use std::fs;
use std::io;
use std::path::Path;

use tidegate_sim::{Numbers, Report, Scenario, ScenarioError, Simulation};

use crate::arguments::simulation::{Chaos, Consistency, Fleet, Load, Simulate, Simulated};
use crate::exit::{Exit, answer, chain, complain};
use progress::Progress;

pub(crate) fn run(arguments: &Simulate) -> Exit {
    match &arguments.what {
        Simulated::Fleet(fleet) => match fleet.seeds {
            Some(count) => seeds::run(fleet, count),
            None => one(fleet),
        },
    }
}

fn one(fleet: &Fleet) -> Exit {
    let scenario = scenario(fleet, Scenario::new(fleet.seed));
    let progress = Progress::new(scenario.seconds.into(), "simulated seconds");
    let report = match simulate(&scenario, &progress) {
        Ok(report) => report,
        Err(error) => return untaken(&error),
    };
    drop(progress);
    if let Some(folder) = &fleet.plots
        && let Err(error) = draw(&report, folder)
    {
        complain(format_args!("cannot write to {}: {error}", folder.display()));
        return Exit::Unreadable;
    }
    let text = if fleet.json { json(&report) } else { report.to_string() };
    let exit = if report.violations_total == 0 { Exit::Done } else { Exit::Problems };
    answer(&text, exit)
}

fn simulate(scenario: &Scenario, progress: &Progress) -> Result<Report, ScenarioError> {
    let mut simulation = Simulation::new(scenario)?;
    while simulation.next_second()? {
        progress.at(simulation.seconds().into());
    }
    Ok(simulation.into_report())
}

/// The scenario of a command line: what it does not say is as in `otherwise`.
fn scenario(fleet: &Fleet, otherwise: Scenario) -> Scenario {
    let mut scenario = otherwise;
    let set = |field: &mut u32, value: Option<u32>| *field = value.unwrap_or(*field);
    set(&mut scenario.members, fleet.members);
    set(&mut scenario.keys, fleet.keys);
    set(&mut scenario.seconds, fleet.seconds);
    set(&mut scenario.cost_max, fleet.cost_max);
    set(&mut scenario.retries, fleet.retries);
    set(&mut scenario.deadline_ms, fleet.deadline_ms);
    set(&mut scenario.holders_max, fleet.holders_max);
    if let Some(units) = fleet.rate {
        scenario.limit = Numbers::Bucket { units, seconds: fleet.per, burst: fleet.burst.unwrap_or(units) };
    }
    if let Some(units) = fleet.quota {
        scenario.limit = Numbers::Window { units, seconds: fleet.window };
    }
    if fleet.rate.is_some() || fleet.quota.is_some() {
        #[expect(clippy::cast_sign_loss, reason = "a rate is never below zero")]
        let offered = (scenario.limit.rate() * 3.0).ceil() as u32;
        scenario.requests_per_second = offered.max(1);
    }
    set(&mut scenario.requests_per_second, fleet.requests_per_second);
    if let Some(load) = fleet.load {
        scenario.load = match load {
            Load::Steady => tidegate_sim::Load::Steady,
            Load::Bursty => tidegate_sim::Load::Bursty,
            Load::Skewed => tidegate_sim::Load::Skewed,
            Load::Moving => tidegate_sim::Load::Moving,
            Load::Zipf => tidegate_sim::Load::Zipf,
            Load::Callers => tidegate_sim::Load::Callers,
        };
    }
    if let Some(consistency) = fleet.consistency {
        scenario.consistency = match consistency {
            Consistency::Local => tidegate_sim::Where::Local,
            Consistency::Exact => tidegate_sim::Where::Exact,
            Consistency::Leased => tidegate_sim::Where::Leased,
        };
    }
    if let Some(chaos) = fleet.chaos {
        scenario.chaos = match chaos {
            Chaos::None => tidegate_sim::Chaos::None,
            Chaos::Some => tidegate_sim::Chaos::Some,
        };
    }
    scenario
}

fn draw(report: &Report, folder: &Path) -> io::Result<()> {
    let plots = tidegate_sim::plots(report).map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    plots.into_iter().try_for_each(|plot| fs::write(folder.join(plot.name).with_extension("svg"), plot.svg))
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("text and numbers always serialise") + "\n"
}

fn untaken(error: &ScenarioError) -> Exit {
    complain(chain(error));
    Exit::Untaken
}
