//! `tidegate simulate overload`.

use tidegate_core::error_chain;
use tidegate_sim::overload::{
    OverloadDesign, OverloadExperiment, OverloadReport, OverloadScenario, OverloadWorld,
};

use super::scenario::{json, write_page};
use super::{service_file, worlds};
use crate::arguments::overload_simulation::{OverloadDesignName, OverloadExperimentName, OverloadSimulation};
use crate::exit::{Exit, answer, complain};

/// The simulated seconds of a scenario that does not say.
const SECONDS: u32 = 30;

pub(crate) fn run(arguments: &OverloadSimulation) -> Exit {
    let scenarios = match scenarios(arguments) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let seconds = scenarios.iter().map(|scenario| u64::from(scenario.seconds)).sum();
    let runs = worlds::run_all(scenarios.len(), seconds, |place, second_is_over| {
        OverloadWorld::new(&scenarios[place]).map(|mut world| {
            while world.next_second() {
                second_is_over();
            }
            world.into_run()
        })
    });
    let report = match runs {
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

/// The scenarios of a command line: of each experiment those of all seeds in order.
fn scenarios(arguments: &OverloadSimulation) -> Result<Vec<OverloadScenario>, Exit> {
    let seeds = (0..arguments.seeds).map(|place| arguments.seed.wrapping_add(place));
    let mut scenarios: Vec<OverloadScenario> = if let Some(path) = &arguments.scenario {
        let file = service_file::read(path)?;
        seeds.map(|seed| file.scenario(seed, arguments.seconds, SECONDS)).collect::<Result<_, _>>()?
    } else {
        let experiments = experiments(&arguments.experiment);
        experiments
            .flat_map(|experiment| seeds.clone().flat_map(move |seed| experiment.scenarios(seed)))
            .collect()
    };
    let designs = designs(&arguments.design);
    for scenario in &mut scenarios {
        scenario.designs.retain(|design| designs.contains(design));
    }
    scenarios.retain(|scenario| !scenario.designs.is_empty());
    Ok(scenarios)
}

fn experiments(names: &[OverloadExperimentName]) -> impl Iterator<Item = OverloadExperiment> {
    OverloadExperiment::ALL.into_iter().filter(|one| {
        names.is_empty() || names.iter().any(|name| OverloadExperiment::ALL[*name as usize] == *one)
    })
}

fn designs(names: &[OverloadDesignName]) -> Vec<OverloadDesign> {
    let is_named = |one: &OverloadDesign| {
        names.is_empty() || names.iter().any(|name| OverloadDesign::ALL[*name as usize] == *one)
    };
    OverloadDesign::ALL.into_iter().filter(is_named).collect()
}
