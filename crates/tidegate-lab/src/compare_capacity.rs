//! `tidegate-lab capacity`.

use clap::ValueEnum as _;
use tidegate_sim::capacity::{CapacityScenario, Design, TableFile, simulate};

use crate::arguments::{CapacityComparison, DesignName, ExperimentName};
use crate::capacity::{Experiment, Workload, report};
use crate::exit::{Exit, WrittenReport};
use crate::{scenario_file, worlds};

/// The simulated seconds of a run of a workload unless others are asked for.
const SECONDS: u32 = 300;

/// Carries out a command line.
pub fn run(arguments: &CapacityComparison) -> Exit {
    let scenarios = match scenarios(arguments) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let runs = match worlds::run_all(scenarios.len(), |place| simulate(&scenarios[place])) {
        Ok(runs) => runs,
        Err(error) => return Exit::not_simulated(&error),
    };
    let report = report(runs, arguments.tables.is_none().then_some(arguments.scale));
    let page = arguments.html.as_deref().map(|path| (path, report.to_html()));
    let (json, passes) = (arguments.json, report.passes());
    WrittenReport { report: &report, page, json, passes }.write()
}

/// The scenarios of a command line: of each workload and experiment those of all seeds in
/// order.
fn scenarios(arguments: &CapacityComparison) -> Result<Vec<CapacityScenario>, Exit> {
    let designs = designs(&arguments.design);
    let seeds = (0..arguments.seeds).map(|place| arguments.seed.wrapping_add(place));
    let with = |mut scenario: CapacityScenario| {
        scenario.designs.clone_from(&designs);
        scenario
    };
    if let Some(path) = &arguments.tables {
        let tables = scenario_file::read(path, "the tables have", TableFile::parse)?;
        let scenario = |seed| with(tables.scenario(seed, arguments.seconds));
        return Ok(seeds.map(scenario).collect());
    }
    let seconds = arguments.seconds.unwrap_or(SECONDS);
    let is_all = arguments.workload.is_empty() && arguments.experiment.is_empty();
    let is_asked_for = |one: &Workload| is_all || arguments.workload.contains(one);
    let of_workloads = Workload::ALL.into_iter().filter(is_asked_for).flat_map(|workload| {
        seeds.clone().map(move |seed| workload.scenario(seed, seconds, arguments.scale))
    });
    let experiments: Vec<Experiment> =
        if is_all { Experiment::cheap().collect() } else { experiments(&arguments.experiment) };
    let of_experiments = experiments
        .into_iter()
        .flat_map(|experiment| seeds.clone().map(move |seed| experiment.scenario(seed)));
    Ok(of_workloads.map(with).chain(of_experiments).collect())
}

/// The designs in their order, each once.
fn designs(names: &[DesignName]) -> Vec<Design> {
    let is_named = |one: &Design| names.is_empty() || names.iter().any(|name| *name as u8 == *one as u8);
    Design::ALL.into_iter().filter(is_named).collect()
}

fn experiments(names: &[ExperimentName]) -> Vec<Experiment> {
    let values = || names.iter().filter_map(ExperimentName::to_possible_value);
    let is_named = |one: &Experiment| values().any(|value| value.get_name() == one.name());
    Experiment::ALL.into_iter().filter(is_named).collect()
}
