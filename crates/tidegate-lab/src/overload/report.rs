//! The report of a comparison: that of its runs, with a section for each experiment.

mod load_chart;

use core::fmt::{self, Write as _};
use core::ops::Deref;

use load_chart::load_charts;
use serde::Serialize;
use tidegate_sim::kit::report::{ExperimentNote, gate_table};
use tidegate_sim::overload::report::run_story::{figures, run_story};
use tidegate_sim::overload::{OverloadReport, OverloadRun};

use super::experiment::OverloadExperiment;
use crate::experiment_list::list_experiments;

/// The report of a comparison. The same runs give the same report, byte for byte.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct OverloadComparisonReport(OverloadReport);

/// The report of `runs`, which come in the order of their experiments.
pub fn report(runs: Vec<OverloadRun>) -> OverloadComparisonReport {
    let mut gate = Vec::new();
    for experiment in OverloadExperiment::ALL {
        let of_it: Vec<&OverloadRun> =
            runs.iter().filter(|run| run.scenario.experiment == Some(experiment.note())).collect();
        if !of_it.is_empty() {
            gate.extend(experiment.judge(&of_it));
        }
    }
    OverloadComparisonReport(OverloadReport::judged(runs, gate))
}

impl OverloadComparisonReport {
    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        let mut html = self.open_page();
        let experiments: Vec<_> = self.experiments().into_iter().flatten().collect();
        list_experiments(&mut html, "", &experiments, &self.gate);
        for experiment in self.experiments() {
            match experiment {
                Some(experiment) => self.experiment_section(&mut html, experiment),
                None => self.scenario_section(&mut html),
            }
        }
        self.close_page(&mut html);
        html
    }

    fn experiment_section(&self, html: &mut String, experiment: &'static ExperimentNote) {
        let ExperimentNote { id, name, title, description } = *experiment;
        let _ = writeln!(html, "<h2 id=\"{id}\">{name}: {title}</h2>\n<p>{description}</p>");
        gate_table(html, self.gate.iter().filter(|line| line.experiment == name));
        let is_it = |one: &OverloadExperiment| one.note() == experiment;
        let own = OverloadExperiment::ALL.into_iter().find(is_it);
        let variants = self.variants_of(Some(experiment));
        if own.is_some_and(OverloadExperiment::is_over_loads) {
            load_charts(html, &variants);
        }
        figures(html, &variants);
        for run in self.shown(Some(experiment)) {
            run_story(html, run, own.is_some_and(|own| own.opens(&run.scenario.variant)));
        }
    }
}

impl Deref for OverloadComparisonReport {
    type Target = OverloadReport;

    fn deref(&self) -> &OverloadReport {
        &self.0
    }
}

impl fmt::Display for OverloadComparisonReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
