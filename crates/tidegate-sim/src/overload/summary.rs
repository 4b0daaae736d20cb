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
    /// The features, in order; none in most scenarios.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<VariantFeature>,
    /// The utility of all answered calls of features; `None` without features.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utility: Option<f64>,
}

/// One feature, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantFeature {
    /// Its name.
    pub feature: String,
    /// The changes of its level.
    pub transitions: f64,
    /// The most of all seeds.
    pub transitions_worst: f64,
    /// The milliseconds from the slowest switch-off to the end of its work; `None` where it was
    /// never switched off, or its work did not end before it was back.
    pub released_after_ms: Option<f64>,
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
                    p99_ms_worst: most(&p99),
                }
            });
            let features = (0..first.scenario.features.len()).map(|feature| {
                let transitions = values(&|_, result| result.features[feature].transitions.len() as f64);
                let released =
                    runs.iter().flat_map(|run| &run.designs[place].features[feature].released_after_ms);
                VariantFeature {
                    feature: first.scenario.features[feature].config.name.clone(),
                    transitions: median(&transitions),
                    transitions_worst: most(&transitions),
                    released_after_ms: released.copied().reduce(f64::max),
                }
            });
            let utility = values(&|_, result| result.utility());
            VariantDesign {
                features: features.collect(),
                utility: (!first.scenario.features.is_empty()).then(|| median(&utility)),
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

fn most(values: &[f64]) -> f64 {
    rounded(values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// The lower median.
pub fn median(values: &[f64]) -> f64 {
    rounded(lower_median(values.iter().copied()))
}
