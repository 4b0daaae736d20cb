//! Scenarios: the services, the clients, the faults, and the length of a run.

use serde::Serialize;

use super::client::ClientSpec;
use super::controlled_services::ControlledServices;
use super::design::OverloadDesign;
use super::feature_spec::FeatureSpec;
use super::scenario_error::OverloadScenarioError;
use super::service::ServiceSpec;
use crate::kit::report::ExperimentNote;

/// A world of services and clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverloadScenario {
    /// The seed of all randomness.
    pub seed: u64,
    /// Simulated seconds in which operations begin, 1 to 86 400. The run goes on until none is
    /// left.
    pub seconds: u32,
    /// The part of the run at its beginning that does not count in totals, 0 to 0.99. Default 0.4.
    pub warm_up: f64,
    /// The experiment that it belongs to; `None` for a scenario of one's own.
    pub experiment: Option<&'static ExperimentNote>,
    /// Its name among the scenarios of its experiment, `5x` for example.
    pub variant: String,
    /// The designs, each in a world of its own.
    pub designs: Vec<OverloadDesign>,
    /// The services, at least one. Under the design `tidegate` they share one engine.
    pub services: Vec<ServiceSpec>,
    /// The features of the services, which clients name.
    pub features: Vec<FeatureSpec>,
    /// The clients, at least one.
    pub clients: Vec<ClientSpec>,
    /// Events from outside, in order.
    pub faults: Vec<TimedFault>,
    /// Whether the admission cursors of the engine are pinned open, so that its queue alone
    /// decides.
    pub pins_cursor_open: bool,
}

/// An event from outside at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimedFault {
    /// The second.
    pub at: f64,
    /// The event.
    pub fault: OverloadFault,
}

/// An event from outside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OverloadFault {
    /// A signal that is not a number, for the first service.
    UndefinedSignal,
    /// A pressure in hundredths for the first service, once.
    Pressure(u32),
    /// The program in front of the service starts anew: whatever waits is refused, and it has
    /// forgotten everything.
    Restart,
}

/// The most requests of one run under one design, without retries.
const REQUESTS_MAX: u64 = 5_000_000;

impl OverloadScenario {
    /// A scenario of one's own, under the engine of the product.
    pub fn new(seed: u64, seconds: u32, services: Vec<ServiceSpec>, clients: Vec<ClientSpec>) -> Self {
        Self {
            seed,
            seconds,
            warm_up: 0.4,
            experiment: None,
            variant: String::new(),
            designs: vec![OverloadDesign::TIDEGATE],
            services,
            features: Vec::new(),
            clients,
            faults: Vec::new(),
            pins_cursor_open: false,
        }
    }

    /// The second from which operations count in totals.
    pub fn counts_from(&self) -> f64 {
        f64::from(self.seconds) * self.warm_up
    }

    /// The clients of a name.
    pub fn client(&self, name: &str) -> Option<usize> {
        self.clients.iter().position(|client| client.name == name)
    }

    /// The feature of a name.
    pub fn feature(&self, name: &str) -> Option<usize> {
        self.features.iter().position(|feature| feature.config.name == name)
    }

    /// The facts from which designs are made.
    pub(crate) fn controlled_services(&self) -> ControlledServices {
        ControlledServices {
            seed: self.seed,
            services: self.services.clone(),
            features: self.features.clone(),
            namespaces: self.clients.iter().map(|client| client.namespace + 1).max().unwrap_or(1),
            pins_cursor_open: self.pins_cursor_open,
        }
    }

    /// Checks the ranges.
    pub(crate) fn check(&self) -> Result<(), OverloadScenarioError> {
        if self.services.is_empty() || self.clients.is_empty() || self.designs.is_empty() {
            return Err(OverloadScenarioError::Empty);
        }
        number("seconds", f64::from(self.seconds), 1.0, 86_400.0, "1 to 86400")?;
        number("warm_up", self.warm_up, 0.0, 0.99, "0 to 0.99")?;
        for service in &self.services {
            let of = |what: &str| format!("{what} of service \"{}\"", service.name);
            number(&of("workers"), f64::from(service.workers), 1.0, 10_000.0, "1 to 10000")?;
            let mean_ms = service.service_time.mean_seconds() * 1000.0;
            number(&of("the mean service time"), mean_ms, 0.01, 60_000.0, "0.01 to 60000 ms")?;
            for phase in &service.phases {
                number(&of("the factor of a phase"), phase.factor, 0.001, 1000.0, "0.001 to 1000")?;
            }
            if let Some(places) = service.places {
                number(&of("places"), f64::from(places), 1.0, 1_000_000.0, "1 to 1000000")?;
            }
        }
        let mut requests = 0.0;
        for client in &self.clients {
            let of = |what: &str| format!("{what} of client \"{}\"", client.name);
            if client.service >= self.services.len() {
                let (service, services) = (client.service, self.services.len());
                return Err(OverloadScenarioError::NoService {
                    client: client.name.clone(),
                    service,
                    services,
                });
            }
            if let Some(name) = &client.feature
                && self.feature(name).is_none()
            {
                let known = self.features.iter().map(|feature| feature.config.name.as_str());
                return Err(OverloadScenarioError::NoFeature {
                    client: client.name.clone(),
                    feature: name.clone(),
                    known: known.collect::<Vec<_>>().join(", "),
                });
            }
            number(&of("rate"), client.rate, 0.0, 1_000_000.0, "0 to 1000000")?;
            number(&of("tenants"), f64::from(client.tenants), 1.0, 100_000.0, "1 to 100000")?;
            number(&of("cost"), f64::from(client.cost), 1.0, 1000.0, "1 to 1000")?;
            number(&of("calls"), f64::from(client.calls), 1.0, 100.0, "1 to 100")?;
            number(&of("deadline_ms"), f64::from(client.deadline_ms), 1.0, 3_600_000.0, "1 to 3600000")?;
            let mut last = 0.0;
            let mut factor = 1.0;
            for phase in &client.phases {
                number(&of("the factor of a phase"), phase.factor, 0.0, 1000.0, "0 to 1000")?;
                number(
                    &of("the beginning of a phase"),
                    phase.from,
                    last,
                    86_400.0,
                    "seconds in rising order",
                )?;
                requests += client.rate * factor * (phase.from - last) * f64::from(client.calls);
                (last, factor) = (phase.from, phase.factor);
            }
            requests +=
                client.rate * factor * (f64::from(self.seconds) - last).max(0.0) * f64::from(client.calls);
        }
        let requests = requests as u64;
        if requests > REQUESTS_MAX {
            return Err(OverloadScenarioError::TooMany { requests, max: REQUESTS_MAX });
        }
        Ok(())
    }
}

fn number(
    what: &str,
    value: f64,
    low: f64,
    high: f64,
    range: &'static str,
) -> Result<(), OverloadScenarioError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(OverloadScenarioError::OutOfRange { what: what.to_owned(), value: value.to_string(), range })
}
