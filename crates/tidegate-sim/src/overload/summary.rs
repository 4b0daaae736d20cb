//! Summaries of runs over seeds: median and worst, by variant, design and client.

use serde::Serialize;

use super::design::OverloadDesign;
use super::run::{OverloadResult, OverloadRun};
use crate::kit::report::{ExperimentNote, grouped, lower_median};
use crate::kit::rounded;

/// One variant of an experiment, or a scenario of one's own, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantSummary {
    /// The experiment; `None` for a scenario of one's own.
    pub experiment: Option<&'static ExperimentNote>,
    /// The variant.
    pub variant: String,
    /// The designs, in order.
    pub designs: Vec<VariantDesign>,
}

/// One design on one variant, over all seeds. Medians are the lower ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantDesign {
    /// The design.
    pub design: OverloadDesign,
    /// Work answered in time as a part of the capacity of the first service.
    pub goodput: f64,
    /// The least of all seeds.
    pub goodput_worst: f64,
    /// The clients, in order.
    pub clients: Vec<VariantClient>,
}

/// One group of clients, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantClient {
    /// Its name.
    pub client: String,
    /// The part of its operations that succeeded.
    pub success: f64,
    /// The least of all seeds.
    pub success_worst: f64,
    /// The p99 of the latency of those, in milliseconds.
    pub p99_ms: f64,
    /// The most of all seeds.
    pub p99_ms_worst: f64,
}

impl VariantSummary {
    /// The summaries of runs, in the order in which variants first come.
    pub(crate) fn all_from_runs(runs: &[OverloadRun]) -> Vec<Self> {
        let groups = grouped(runs, |run| (run.scenario.experiment, run.scenario.variant.as_str()));
        groups.iter().map(|group| Self::from_runs(group)).collect()
    }

    fn from_runs(runs: &[&OverloadRun]) -> Self {
        let first = runs[0];
        let design = |place: usize| {
            let values = |value: &dyn Fn(&OverloadRun, &OverloadResult) -> f64| -> Vec<f64> {
                runs.iter().map(|run| value(run, &run.designs[place])).collect()
            };
            let goodput = values(&|run, result| result.goodput(&run.scenario, 0));
            let clients = (0..first.scenario.clients.len()).map(|client| {
                let success = values(&|_, result| result.clients[client].success());
                let p99 = values(&|_, result| result.clients[client].p99_ms);
                VariantClient {
                    client: first.scenario.clients[client].name.clone(),
                    success: median(&success),
                    success_worst: least(&success),
                    p99_ms: median(&p99),
                    p99_ms_worst: -least(&p99.iter().map(|value| -value).collect::<Vec<_>>()),
                }
            });
            VariantDesign {
                design: first.designs[place].design,
                goodput: median(&goodput),
                goodput_worst: least(&goodput),
                clients: clients.collect(),
            }
        };
        Self {
            experiment: first.scenario.experiment,
            variant: first.scenario.variant.clone(),
            designs: (0..first.designs.len()).map(design).collect(),
        }
    }
}

fn least(values: &[f64]) -> f64 {
    rounded(values.iter().copied().fold(f64::INFINITY, f64::min))
}

/// The lower median.
pub fn median(values: &[f64]) -> f64 {
    rounded(lower_median(values.iter().copied()))
}
