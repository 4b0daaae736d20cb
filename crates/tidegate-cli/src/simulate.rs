//! `tidegate simulate`.

mod capacity;
mod overload;
mod progress;
mod scenario;
mod scenario_file;
mod seeds;
mod worlds;

use std::fs;
use std::io;
use std::path::Path;

use tidegate_sim::fleet::{Report, Scenario, ScenarioError, Simulation};

use crate::arguments::simulation::{Fleet, Simulate, Simulated};
use crate::exit::{Exit, answer, complain};
use progress::Progress;
use scenario::{json, scenario, untaken};

pub(crate) fn run(arguments: &Simulate) -> Exit {
    match &arguments.what {
        Simulated::Fleet(fleet) => match fleet.seeds {
            Some(count) => seeds::run(fleet, count),
            None => one(fleet),
        },
        Simulated::Capacity(arguments) => capacity::run(arguments),
        Simulated::Overload(arguments) => overload::run(arguments),
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

fn draw(report: &Report, folder: &Path) -> io::Result<()> {
    let plots = tidegate_sim::fleet::plots(report).map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    plots.into_iter().try_for_each(|plot| fs::write(folder.join(plot.name).with_extension("svg"), plot.svg))
}
