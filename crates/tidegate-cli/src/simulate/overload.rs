//! `tidegate simulate overload`.

use tidegate_core::error_chain;
use tidegate_sim::overload::{
    OverloadReport, OverloadRun, OverloadScenario, OverloadScenarioError, OverloadWorld, ServiceFile,
};

use super::scenario::{json, write_page};
use super::{scenario_file, worlds};
use crate::arguments::overload_simulation::OverloadSimulation;
use crate::exit::{Exit, answer, complain};

pub(crate) fn run(arguments: &OverloadSimulation) -> Exit {
    let scenarios = match scenarios(arguments) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let report = match simulate(&scenarios) {
        Ok(runs) => OverloadReport::new(runs),
        Err(error) => {
            complain(error_chain(&error));
            return Exit::Untaken;
        }
    };
    if let Some(path) = &arguments.html
        && let Err(exit) = write_page(path, &report.to_html())
    {
        return exit;
    }
    let text = if arguments.json { json(&report) } else { report.to_string() };
    answer(&text, if report.passes() { Exit::Done } else { Exit::Problems })
}

/// The scenarios of all seeds in order.
fn scenarios(arguments: &OverloadSimulation) -> Result<Vec<OverloadScenario>, Exit> {
    let file = scenario_file::read(&arguments.scenario, "the scenario has", ServiceFile::parse)?;
    let seeds = (0..arguments.seeds).map(|place| arguments.seed.wrapping_add(place));
    let scenarios: Result<_, _> = seeds.map(|seed| file.scenario(seed, arguments.seconds)).collect();
    scenarios.map_err(|error| {
        complain(error);
        Exit::Untaken
    })
}

/// Runs scenarios on all cores; the results come in the order of the scenarios.
fn simulate(scenarios: &[OverloadScenario]) -> Result<Vec<OverloadRun>, OverloadScenarioError> {
    let seconds = scenarios.iter().map(|scenario| u64::from(scenario.seconds)).sum();
    worlds::run_all(scenarios.len(), seconds, |place, second_is_over| {
        OverloadWorld::new(&scenarios[place]).map(|mut world| {
            while world.next_second() {
                second_is_over();
            }
            world.into_run()
        })
    })
}
