//! `tidegate simulate capacity`.

use tidegate_core::error_chain;
use tidegate_sim::capacity::{
    CapacityReport, CapacityRun, CapacityScenario, CapacityScenarioError, CapacityWorld, Design, Experiment,
    Workload,
};

use super::scenario::{json, write_page};
use super::{table_file, worlds};
use crate::arguments::capacity_simulation::{CapacitySimulation, DesignName, ExperimentName, WorkloadName};
use crate::exit::{Exit, answer, complain};

/// The simulated seconds of a run unless others are asked for.
const SECONDS: u32 = 300;

pub(crate) fn run(arguments: &CapacitySimulation) -> Exit {
    let scenarios = match scenarios(arguments) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let runs = match simulate(&scenarios) {
        Ok(runs) => runs,
        Err(error) => {
            complain(error_chain(&error));
            return Exit::Untaken;
        }
    };
    let divisor = arguments.tables.is_none().then_some(arguments.scale);
    let report = CapacityReport::new(runs, divisor);
    if let Some(path) = &arguments.html
        && let Err(exit) = write_page(path, &report.to_html())
    {
        return exit;
    }
    let text = if arguments.json { json(&report) } else { report.to_string() };
    answer(&text, if report.passes() { Exit::Done } else { Exit::Problems })
}

/// The scenarios of a command line: of each workload and experiment those of all seeds in
/// order.
fn scenarios(arguments: &CapacitySimulation) -> Result<Vec<CapacityScenario>, Exit> {
    let designs = designs(&arguments.design);
    let seeds = (0..arguments.seeds).map(|place| arguments.seed.wrapping_add(place));
    let with = |mut scenario: CapacityScenario| {
        scenario.designs.clone_from(&designs);
        scenario
    };
    if let Some(path) = &arguments.tables {
        let tables = table_file::read(path)?;
        let scenario = |seed| with(tables.scenario(seed, arguments.seconds, SECONDS));
        return Ok(seeds.map(scenario).collect());
    }
    let seconds = arguments.seconds.unwrap_or(SECONDS);
    let is_all = arguments.workload.is_empty() && arguments.experiment.is_empty();
    let workloads = if is_all { Workload::ALL.to_vec() } else { workloads(&arguments.workload) };
    let of_workloads = workloads.into_iter().flat_map(|workload| {
        seeds.clone().map(move |seed| CapacityScenario::of_workload(workload, seed, seconds, arguments.scale))
    });
    let experiments: Vec<Experiment> =
        if is_all { Experiment::cheap().collect() } else { experiments(&arguments.experiment) };
    let of_experiments = experiments
        .into_iter()
        .flat_map(|experiment| seeds.clone().map(move |seed| experiment.scenario(seed)));
    Ok(of_workloads.map(with).chain(of_experiments).collect())
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
