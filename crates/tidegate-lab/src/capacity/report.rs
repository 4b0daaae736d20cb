//! The report of a comparison: that of its runs, with a section for each experiment.

mod experiment_section;

use core::fmt;
use core::ops::Deref;

use experiment_section::{experiment_section, fmt_experiment};
use serde::Serialize;
use tidegate_sim::capacity::CapacityReport;
use tidegate_sim::capacity::report::table_sections;

use crate::experiment_list::list_experiments;

const ABOUT_EXPERIMENTS: &str =
    "<p>Each is a world of its own, made for one claim, with rates and a length of its own.</p>\n";

/// The report of a comparison. The same runs give the same report, byte for byte.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct CapacityComparisonReport(CapacityReport);

impl CapacityComparisonReport {
    /// The report of runs that are judged already.
    pub(crate) const fn new(report: CapacityReport) -> Self {
        Self(report)
    }

    /// The report as one HTML file with pictures.
    pub fn to_html(&self) -> String {
        let mut html = self.open_page();
        let experiments: Vec<_> = self.shown().iter().filter_map(|run| run.scenario.experiment).collect();
        list_experiments(&mut html, ABOUT_EXPERIMENTS, &experiments, &self.gate);
        for run in self.shown() {
            match run.scenario.experiment {
                Some(experiment) => experiment_section(&mut html, self, run, experiment),
                None => table_sections(&mut html, run),
            }
        }
        self.close_page(&mut html);
        html
    }
}

impl Deref for CapacityComparisonReport {
    type Target = CapacityReport;

    fn deref(&self) -> &CapacityReport {
        &self.0
    }
}

impl fmt::Display for CapacityComparisonReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return self.0.fmt(f);
        }
        self.fmt_head(f)?;
        for run in self.shown() {
            fmt_experiment(f, run)?;
        }
        self.fmt_gate(f)
    }
}
