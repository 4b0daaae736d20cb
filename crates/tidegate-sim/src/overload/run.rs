//! The results of one scenario: what each design made of the same requests.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::Class;

use super::design::OverloadDesign;
use super::feature_tally::FeatureResult;
use super::ledger::{OverloadRule, OverloadViolation, ServiceLedger};
use super::scenario::OverloadScenario;
use super::tally::{ClientResult, ServiceStep, step_at};

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub struct OverloadRun {
    /// Its scenario.
    pub scenario: OverloadScenario,
    /// The designs, in order.
    pub designs: Vec<OverloadResult>,
}

/// The results of one design.
#[derive(Clone, Debug, Serialize)]
pub struct OverloadResult {
    /// The design.
    pub design: OverloadDesign,
    /// The services, in the order of the scenario.
    pub services: Vec<ServiceResult>,
    /// The features, in the order of the scenario.
    pub features: Vec<FeatureResult>,
    /// The clients, in the order of the scenario.
    pub clients: Vec<ClientResult>,
    /// The first violations of each rule.
    pub violations: Vec<OverloadViolation>,
    /// How often each rule was broken.
    pub violation_counts: BTreeMap<OverloadRule, u64>,
}

/// The results of one service.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceResult {
    /// Its name.
    pub service: String,
    /// The fates of its requests, those of the warm-up included.
    pub ledger: ServiceLedger,
    /// The wait of admitted requests that half of them did not exceed, in milliseconds.
    pub wait_p50_ms: f64,
    /// The wait that one of a hundred exceeded, at most a sixteenth too low.
    pub wait_p99_ms: f64,
    /// Whether the limit of the design follows measurements.
    pub has_adaptive_limit: bool,
    /// The requests that the design refused because of the load, or would have refused in shadow
    /// mode, by class; zero for a design that does not say.
    #[serde(skip)]
    pub refused_by_class: [u64; Class::ALL.len()],
    /// Over time, in steps of 100 ms.
    #[serde(skip)]
    pub steps: Vec<ServiceStep>,
}

impl OverloadRun {
    /// The results of a design.
    pub fn of(&self, design: OverloadDesign) -> Option<&OverloadResult> {
        self.designs.iter().find(|result| result.design == design)
    }
}

impl OverloadResult {
    /// The results of a group of clients.
    pub fn client(&self, name: &str) -> Option<&ClientResult> {
        self.clients.iter().find(|result| result.client == name)
    }

    /// The results of a feature.
    pub fn feature(&self, name: &str) -> Option<&FeatureResult> {
        self.features.iter().find(|result| result.feature == name)
    }

    /// The utility of all answered calls of features.
    pub fn utility(&self) -> f64 {
        self.clients.iter().map(|client| client.utility).sum()
    }

    /// How many violations there were.
    pub fn violations_total(&self) -> u64 {
        self.violation_counts.values().sum()
    }

    /// Good units a second of all clients of a service, as a part of its capacity.
    pub fn goodput(&self, scenario: &OverloadScenario, service: usize) -> f64 {
        let clients = scenario.clients.iter().zip(&self.clients);
        let of_it = clients.filter(|(spec, _)| spec.service == service);
        of_it.map(|(_, result)| result.good_units_per_second).sum::<f64>()
            / scenario.services[service].capacity()
    }
}

impl ServiceResult {
    /// The steps of a span of seconds.
    pub fn steps_in(&self, from: f64, until: f64) -> &[ServiceStep] {
        let place = |second: f64| step_at(second).min(self.steps.len());
        &self.steps[place(from)..place(until).max(place(from))]
    }
}
