//! `tidegate simulate capacity`.

use tidegate_core::error_chain;
use tidegate_sim::capacity::{
    CapacityReport, CapacityRun, CapacityScenario, CapacityScenarioError, CapacityWorld, TableFile,
};

use super::scenario::{json, write_page};
use super::{scenario_file, worlds};
use crate::arguments::capacity_simulation::CapacitySimulation;
use crate::exit::{Exit, answer, complain};

pub(crate) fn run(arguments: &CapacitySimulation) -> Exit {
    let tables = match scenario_file::read(&arguments.tables, "the tables have", TableFile::parse) {
        Ok(tables) => tables,
        Err(exit) => return exit,
    };
    let seeds = (0..arguments.seeds).map(|place| arguments.seed.wrapping_add(place));
    let scenarios: Vec<_> = seeds.map(|seed| tables.scenario(seed, arguments.seconds)).collect();
    let report = match simulate(&scenarios) {
        Ok(runs) => CapacityReport::new(runs),
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

/// Runs scenarios on all cores; the results come in the order of the scenarios.
fn simulate(scenarios: &[CapacityScenario]) -> Result<Vec<CapacityRun>, CapacityScenarioError> {
    let seconds = scenarios.iter().map(|scenario| u64::from(scenario.seconds)).sum();
    worlds::run_all(scenarios.len(), seconds, |place, second_is_over| {
        CapacityWorld::new(&scenarios[place]).map(|mut world| {
            while world.next_second() {
                second_is_over();
            }
            world.into_run()
        })
    })
}
