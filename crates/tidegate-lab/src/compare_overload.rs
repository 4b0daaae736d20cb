//! `tidegate-lab overload`.

use clap::ValueEnum as _;
use tidegate_sim::overload::{OverloadDesign, OverloadScenario, ServiceFile, UnknownServiceError, simulate};

use crate::arguments::{OverloadComparison, OverloadDesignName};
use crate::exit::{Exit, WrittenReport, complain};
use crate::overload::{DESIGNS, FEATURE_DESIGNS, OverloadExperiment, RETURN_DESIGNS, report};
use crate::{scenario_file, worlds};

/// Carries out a command line.
pub fn run(arguments: &OverloadComparison) -> Exit {
    let scenarios = match scenarios(arguments) {
        Ok(scenarios) => scenarios,
        Err(exit) => return exit,
    };
    let runs = match worlds::run_all(scenarios.len(), |place| simulate(&scenarios[place])) {
        Ok(runs) => runs,
        Err(error) => return Exit::not_simulated(&error),
    };
    let report = report(runs);
    let page = arguments.html.as_deref().map(|path| (path, report.to_html()));
    let (json, passes) = (arguments.json, report.passes());
    WrittenReport { report: &report, page, json, passes }.write()
}

/// The scenarios of a command line: of each experiment those of all seeds in order.
fn scenarios(arguments: &OverloadComparison) -> Result<Vec<OverloadScenario>, Exit> {
    let seeds = (0..arguments.seeds).map(|place| arguments.seed.wrapping_add(place));
    let mut scenarios: Vec<OverloadScenario> = if let Some(path) = &arguments.scenario {
        let file = scenario_file::read(path, "the scenario has", ServiceFile::parse)?;
        let scenario = |seed| {
            let scenario = file.scenario(seed, arguments.seconds)?;
            let mut designs = DESIGNS.to_vec();
            if !scenario.features.is_empty() {
                designs.extend(rules(&FEATURE_DESIGNS));
            }
            if scenario.services.iter().any(|service| service.defer.is_some()) {
                designs.extend(rules(&RETURN_DESIGNS));
            }
            Ok(OverloadScenario { designs, ..scenario })
        };
        seeds.map(scenario).collect::<Result<_, UnknownServiceError>>().map_err(|error| {
            complain(error);
            Exit::Untaken
        })?
    } else {
        let asked_for = &arguments.experiment;
        let is_asked_for = |one: &OverloadExperiment| asked_for.is_empty() || asked_for.contains(one);
        let experiments = OverloadExperiment::ALL.into_iter().filter(is_asked_for);
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

fn designs(names: &[OverloadDesignName]) -> Vec<OverloadDesign> {
    let is_named = |one: &OverloadDesign| {
        let is_it = |name: &OverloadDesignName| {
            name.to_possible_value().is_some_and(|value| value.get_name() == one.name)
        };
        names.is_empty() || names.iter().any(is_it)
    };
    all_designs().filter(is_named).collect()
}

/// All designs: those that decide about requests, and the rules for features and for returns.
fn all_designs() -> impl Iterator<Item = OverloadDesign> {
    DESIGNS.into_iter().chain(rules(&FEATURE_DESIGNS)).chain(rules(&RETURN_DESIGNS))
}

/// The designs that are rules in front of the product.
fn rules(designs: &[OverloadDesign]) -> impl Iterator<Item = OverloadDesign> {
    designs.iter().copied().filter(|design| *design != OverloadDesign::TIDEGATE)
}
