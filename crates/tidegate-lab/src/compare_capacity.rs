//! `tidegate-lab capacity`.

use tidegate_sim::capacity::{CapacityScenario, Design, TableFile, simulate};

use crate::arguments::{CapacityComparison, DesignName, ExperimentName, WorkloadName};
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
    let workloads = if is_all { Workload::ALL.to_vec() } else { workloads(&arguments.workload) };
    let of_workloads = workloads.into_iter().flat_map(|workload| {
        seeds.clone().map(move |seed| workload.scenario(seed, seconds, arguments.scale))
    });
    let experiments: Vec<Experiment> =
        if is_all { Experiment::cheap().collect() } else { experiments(&arguments.experiment) };
    let of_experiments = experiments
        .into_iter()
        .flat_map(|experiment| seeds.clone().map(move |seed| experiment.scenario(seed)));
    Ok(of_workloads.map(with).chain(of_experiments).collect())
}

fn designs(names: &[DesignName]) -> Vec<Design> {
    let of = |name: &DesignName| match name {
        DesignName::S => Design::Static,
        DesignName::B => Design::Burst,
        DesignName::A => Design::Adaptive,
        DesignName::G => Design::Global,
        DesignName::Gb => Design::Balanced,
        DesignName::Gp => Design::Split,
    };
    // In their order, each once.
    let mut designs: Vec<Design> = names.iter().map(of).collect();
    designs.sort_unstable();
    designs.dedup();
    if designs.is_empty() { Design::ALL.to_vec() } else { designs }
}

fn workloads(names: &[WorkloadName]) -> Vec<Workload> {
    let mut workloads: Vec<Workload> = names.iter().map(|name| Workload::ALL[*name as usize]).collect();
    workloads.sort_unstable();
    workloads.dedup();
    workloads
}

fn experiments(names: &[ExperimentName]) -> Vec<Experiment> {
    let is_named = |one: &Experiment| names.iter().any(|name| name.name() == one.name());
    Experiment::ALL.into_iter().filter(is_named).collect()
}
