//! The file of `tidegate simulate overload --scenario`: services, clients, and what goes wrong.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_core::Class;
use tidegate_overload::{DeferralConfig, FeatureConfig, LevelThresholds};
use tidegate_policy::{DeferralEntries, DocumentCheck, FeatureEntries, LoadLevelEntries, Problems};

use super::client::{ArrivalPattern, ClientSpec, LoadPhase, RetryPrecision, RetryRule};
use super::concurrency_form::ConcurrencyForm;
use super::feature_spec::FeatureSpec;
use super::scenario::{OverloadFault, OverloadScenario, TimedFault};
use super::service::{ServicePhase, ServiceSpec, ServiceTime};
use crate::scenario_document;

/// The schema of a [`ServiceDocument`].
pub(crate) const SCHEMA: &str = include_str!("service_file.schema.json");

/// Services and clients of one's own, and their features, which are checked as those of a policy.
#[derive(Debug)]
pub struct ServiceFile {
    document: ServiceDocument,
    /// The thresholds of each service.
    levels: Vec<LevelThresholds>,
    /// How each service defers requests.
    deferrals: Vec<Option<DeferralConfig>>,
    features: Vec<FeatureConfig>,
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceDocument {
    /// Simulated seconds. Default: 30.
    #[cfg_attr(test, schemars(range(min = 1, max = 86400)))]
    seconds: Option<u32>,
    /// The hundredths of the run at its beginning that do not count. Default: 40.
    #[cfg_attr(test, schemars(range(min = 0, max = 99)))]
    warm_up_percent: Option<u8>,
    /// The services.
    services: Vec<ServiceForm>,
    /// The features of the services, with the keys of `features:` of a policy. `resource` is the
    /// name of a service. A request takes the service time times the cost of its level.
    features: Option<FeatureEntries>,
    /// The clients.
    clients: Vec<ClientForm>,
    /// Events from outside, in order.
    faults: Option<Vec<FaultForm>>,
}

/// A service.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ServiceForm {
    /// Its name.
    name: String,
    /// The requests that it works on at once. Default: 10.
    #[cfg_attr(test, schemars(range(min = 1, max = 10000)))]
    workers: Option<u32>,
    /// The most requests that are admitted to it at once, `concurrency:` of its resource in a
    /// policy: 1 to 1000000, or `auto`. Requests beyond its workers wait inside of it. Default: as
    /// many as it has workers.
    concurrency: Option<ConcurrencyForm>,
    /// The distribution of its service times. Default: `exponential`.
    distribution: Option<DistributionForm>,
    /// The mean service time in milliseconds. Default: 10.
    #[cfg_attr(test, schemars(range(min = 0.01, max = 60000)))]
    mean_ms: Option<f64>,
    /// The deviation of the logarithm, for `lognormal`. Default: 1.
    #[cfg_attr(test, schemars(range(min = 0, max = 3)))]
    sigma: Option<f64>,
    /// Microseconds of one worker that each rejection takes. Default: 50, and 0 for `sleep`.
    #[cfg_attr(test, schemars(range(min = 0, max = 1_000_000)))]
    rejection_us: Option<u32>,
    /// Spans in which it works at another speed.
    phases: Option<Vec<SpeedForm>>,
    /// The pressures at which its load levels are entered, with the keys of `levels:` of a resource
    /// of a policy.
    levels: Option<LoadLevelEntries>,
    /// Tickets instead of refusals, with the keys that `defer:` has in a policy. `operation` and
    /// `key_file` change nothing in a simulation. Default: no tickets.
    defer: Option<DeferralEntries>,
}

/// A distribution of service times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum DistributionForm {
    /// Exponential.
    Exponential,
    /// Lognormal with `sigma`: a long tail.
    Lognormal,
    /// Always `mean_ms`.
    Constant,
    /// Always `mean_ms`, without using the CPU: rejections take it no time.
    Sleep,
}

/// A span in which a service works at another speed.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct SpeedForm {
    /// The second at which it begins.
    #[cfg_attr(test, schemars(range(min = 0, max = 86400)))]
    from: f64,
    /// The service time is multiplied by this. Default: 1.
    #[cfg_attr(test, schemars(range(min = 0.001, max = 1000)))]
    factor: Option<f64>,
    /// Every request takes so many milliseconds instead, and fails.
    #[cfg_attr(test, schemars(range(min = 1, max = 60000)))]
    failing_ms: Option<f64>,
}

/// A group of clients that behave alike.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct ClientForm {
    /// Its name.
    name: String,
    /// The name of the service that it calls. Default: the first one.
    service: Option<String>,
    /// The name of the feature that its requests are for. Default: none.
    feature: Option<String>,
    /// Whether it stops asking while that feature is off. Default: false.
    stops_while_off: Option<bool>,
    /// How its operations are spread over time. Default: `poisson`.
    arrivals: Option<ArrivalForm>,
    /// Operations a second.
    #[cfg_attr(test, schemars(range(min = 0, max = 1_000_000)))]
    rate: f64,
    /// Factors of the rate over time.
    phases: Option<Vec<LoadForm>>,
    /// The class of its requests. Default: `critical`.
    class: Option<ClassForm>,
    /// The number of its tenants. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 100_000)))]
    tenants: Option<u32>,
    /// The cost of each request, which multiplies its service time. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 1000)))]
    cost: Option<u32>,
    /// Milliseconds after which an answer is of no use. Default: 500.
    #[cfg_attr(test, schemars(range(min = 1, max = 3_600_000)))]
    deadline_ms: Option<u32>,
    /// Milliseconds that a request may wait in a queue. Default: 250.
    #[cfg_attr(test, schemars(range(min = 0, max = 60_000)))]
    wait_ms: Option<u32>,
    /// Milliseconds after which the client of a waiting request hangs up. Default: it stays.
    #[cfg_attr(test, schemars(range(min = 1, max = 3_600_000)))]
    leaves_after_ms: Option<u32>,
    /// Calls of each operation, one after the other. Default: 1.
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    calls: Option<u32>,
    /// The reaction to a refused or late call. Default: the operation has failed.
    retry: Option<RetryForm>,
}

/// How operations are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ArrivalForm {
    /// By chance.
    Poisson,
    /// At equal distances.
    Even,
}

/// A factor of the rate from an instant on.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct LoadForm {
    /// The second at which it begins.
    #[cfg_attr(test, schemars(range(min = 0, max = 86400)))]
    from: f64,
    /// The factor.
    #[cfg_attr(test, schemars(range(min = 0, max = 1000)))]
    factor: f64,
}

/// The importance of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum ClassForm {
    /// Served first.
    CriticalPlus,
    /// A user sees it fail.
    Critical,
    /// Batch work.
    SheddablePlus,
    /// Shed first.
    Sheddable,
}

/// The reaction of a client to a refused or late call.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RetryForm {
    /// Attempts in all.
    #[cfg_attr(test, schemars(range(min = 1, max = 100)))]
    attempts: u32,
    /// Milliseconds before the next attempt: fixed, or the bound of a random time that doubles with
    /// `backoff`. Default: 100.
    #[cfg_attr(test, schemars(range(min = 1, max = 3_600_000)))]
    after_ms: Option<u32>,
    /// Whether the time is random below a bound that doubles. Default: false.
    backoff: Option<bool>,
    /// Whether Retry-After is honoured, with `backoff`. Default: false.
    honours_retry_after: Option<bool>,
    /// Whether the client comes back with its ticket when the refusal says, instead of after a time
    /// of its own: `exact`, or `whole_seconds` as from the header. Default: it ignores tickets.
    tickets: Option<TicketUseForm>,
}

/// How exactly a client with a ticket reads the time of its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum TicketUseForm {
    /// As the body of the answer says it.
    Exact,
    /// In whole seconds, rounded up.
    WholeSeconds,
}

/// An event from outside.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct FaultForm {
    /// The second.
    #[cfg_attr(test, schemars(range(min = 0, max = 86400)))]
    at: f64,
    /// The event.
    what: FaultKindForm,
    /// The pressure in hundredths, for `pressure`. Default: 200.
    #[cfg_attr(test, schemars(range(min = 0, max = 100_000)))]
    percent: Option<u32>,
}

/// A kind of event from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
enum FaultKindForm {
    /// A signal of `percent` for the first service.
    Pressure,
    /// A signal that is not a number.
    UndefinedSignal,
    /// The program in front of the services starts anew.
    Restart,
}

/// A client of a file calls a service that the file does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client \"{client}\" calls service \"{service}\", which does not exist; use {known}")]
pub struct UnknownServiceError {
    client: String,
    service: String,
    known: String,
}

impl ServiceFile {
    /// The simulated seconds of a file that names none.
    pub const SECONDS: u32 = 30;

    /// Reads and checks the text of the file called `name`.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Problems> {
        let check = |document: &ServiceDocument, check: &mut DocumentCheck<'_, '_>| {
            let services = document.services.iter().enumerate();
            let levels: Vec<_> = services
                .map(|(place, form)| check.load_levels(form.levels.as_ref(), "services", place))
                .collect();
            let services = document.services.iter().enumerate();
            let deferrals: Vec<_> = services
                .map(|(place, form)| check.deferral(form.defer.as_ref(), "services", place))
                .collect();
            let names: Vec<&str> = document.services.iter().map(|form| form.name.as_str()).collect();
            (levels, deferrals, check.features(document.features.as_ref(), &names, "services"))
        };
        let (document, checked) = scenario_document::parse_with(name, bytes, SCHEMA, check)?;
        let (levels, deferrals, features) = checked;
        Ok(Self { document, levels, deferrals, features })
    }

    /// The scenario of a seed under the product's engine, with `seconds` instead of the file's.
    pub fn scenario(&self, seed: u64, seconds: Option<u32>) -> Result<OverloadScenario, UnknownServiceError> {
        let document = &self.document;
        let checked = self.levels.iter().zip(&self.deferrals);
        let services = document.services.iter().zip(checked).map(|(form, (levels, defer))| ServiceSpec {
            levels: *levels,
            defer: *defer,
            ..service(form)
        });
        let services = services.collect();
        let clients = document.clients.iter().map(|one| self.client(one)).collect::<Result<_, _>>()?;
        let seconds = seconds.or(document.seconds).unwrap_or(Self::SECONDS);
        let mut scenario = OverloadScenario::new(seed, seconds, services, clients);
        scenario.warm_up = f64::from(document.warm_up_percent.unwrap_or(40)) / 100.0;
        scenario.faults = document.faults.iter().flatten().map(fault).collect();
        scenario.features = self.features.iter().map(|config| self.feature(config)).collect();
        Ok(scenario)
    }

    /// A feature; one without levels belongs to the first service.
    fn feature(&self, config: &FeatureConfig) -> FeatureSpec {
        let mut config = config.clone();
        let first = || self.document.services.first().map(|service| service.name.clone());
        config.resource = config.resource.take().or_else(first);
        FeatureSpec { config }
    }

    fn client(&self, form: &ClientForm) -> Result<ClientSpec, UnknownServiceError> {
        let names = || self.document.services.iter().map(|service| service.name.as_str());
        let place = form.service.as_ref().map_or(Some(0), |name| names().position(|known| known == name));
        let Some(service) = place else {
            return Err(UnknownServiceError {
                client: form.name.clone(),
                service: form.service.clone().unwrap_or_default(),
                known: names().collect::<Vec<_>>().join(", "),
            });
        };
        let mut client = ClientSpec::gold(form.rate);
        client.name.clone_from(&form.name);
        client.service = service;
        client.feature.clone_from(&form.feature);
        client.stops_while_off = form.stops_while_off == Some(true);
        client.arrivals = match form.arrivals {
            None | Some(ArrivalForm::Poisson) => ArrivalPattern::Poisson,
            Some(ArrivalForm::Even) => ArrivalPattern::Even,
        };
        let phase = |phase: &LoadForm| LoadPhase { from: phase.from, factor: phase.factor };
        client.phases = form.phases.iter().flatten().map(phase).collect();
        client.class = match form.class {
            Some(ClassForm::CriticalPlus) => Class::CriticalPlus,
            None | Some(ClassForm::Critical) => Class::Critical,
            Some(ClassForm::SheddablePlus) => Class::SheddablePlus,
            Some(ClassForm::Sheddable) => Class::Sheddable,
        };
        let set = |field: &mut u32, value: Option<u32>| *field = value.unwrap_or(*field);
        set(&mut client.tenants, form.tenants);
        set(&mut client.cost, form.cost);
        set(&mut client.deadline_ms, form.deadline_ms);
        set(&mut client.wait_ms, form.wait_ms);
        set(&mut client.calls, form.calls);
        client.leaves_after_ms = form.leaves_after_ms;
        client.retry = form.retry.as_ref().map_or(RetryRule::None, retry);
        Ok(client)
    }
}

fn service(form: &ServiceForm) -> ServiceSpec {
    let mut service = ServiceSpec::reference(&form.name);
    let mean_ms = form.mean_ms.unwrap_or(10.0);
    let distribution = form.distribution.unwrap_or(DistributionForm::Exponential);
    service.workers = form.workers.unwrap_or(service.workers);
    if let Some(concurrency) = form.concurrency {
        concurrency.apply(&mut service);
    }
    service.service_time = match distribution {
        DistributionForm::Exponential => ServiceTime::Exponential { mean_ms },
        DistributionForm::Lognormal => ServiceTime::Lognormal { mean_ms, sigma: form.sigma.unwrap_or(1.0) },
        DistributionForm::Constant | DistributionForm::Sleep => ServiceTime::Constant { ms: mean_ms },
    };
    let usual = if distribution == DistributionForm::Sleep { 0 } else { service.rejection_us };
    service.rejection_us = form.rejection_us.unwrap_or(usual);
    let phase = |form: &SpeedForm| match form.failing_ms {
        Some(ms) => ServicePhase::failing(form.from, ms),
        None => ServicePhase::slowed(form.from, form.factor.unwrap_or(1.0)),
    };
    service.phases = form.phases.iter().flatten().map(phase).collect();
    service
}

fn retry(form: &RetryForm) -> RetryRule {
    let (attempts, after_ms) = (form.attempts, form.after_ms.unwrap_or(100));
    if let Some(tickets) = form.tickets {
        let precision = match tickets {
            TicketUseForm::Exact => RetryPrecision::Exact,
            TicketUseForm::WholeSeconds => RetryPrecision::WholeSeconds,
        };
        RetryRule::Named { attempts, precision }
    } else if form.backoff == Some(true) {
        let honours_retry_after = form.honours_retry_after == Some(true);
        RetryRule::Backoff { attempts, base_ms: after_ms, honours_retry_after }
    } else {
        RetryRule::Fixed { attempts, after_ms }
    }
}

fn fault(form: &FaultForm) -> TimedFault {
    let fault = match form.what {
        FaultKindForm::Pressure => OverloadFault::Pressure(form.percent.unwrap_or(200)),
        FaultKindForm::UndefinedSignal => OverloadFault::UndefinedSignal,
        FaultKindForm::Restart => OverloadFault::Restart,
    };
    TimedFault { at: form.at, fault }
}
