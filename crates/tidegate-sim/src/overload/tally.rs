//! Counts and latencies of one group of clients, and the state of one service over time.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_overload::ConcurrencyAdvice;

use super::control::RefusalCause;
use crate::kit::{MS, rounded, seconds};

/// The length of a step of a timeline.
pub(crate) const STEP: u64 = 100 * MS;

/// The operations of one group of clients under one design. Totals are of operations that began
/// after the warm-up.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientResult {
    /// The group.
    pub client: String,
    /// Operations.
    pub operations: u64,
    /// Those all of whose calls were answered in time.
    pub succeeded: u64,
    /// Those that were answered too late, or failed at the service.
    pub late: u64,
    /// Those that were refused for good.
    pub refused: u64,
    /// Those that were refused, or cut short, because their feature was off.
    pub disabled: u64,
    /// Those whose clients hung up.
    pub cancelled: u64,
    /// Operations that did not begin because the client stops asking while its feature is off.
    pub unasked: u64,
    /// The utility of calls that were answered in time: each that of its feature at its level.
    pub utility: f64,
    /// Refused attempts by cause.
    pub causes: BTreeMap<RefusalCause, u64>,
    /// Attempts, retries included.
    pub attempts: u64,
    /// The median of the latency of operations that succeeded, in milliseconds.
    pub p50_ms: f64,
    /// The latency that one of a hundred exceeded.
    pub p99_ms: f64,
    /// The same of the operations that began while a feature of the service was below its best
    /// level; 0 without any.
    pub p99_degraded_ms: f64,
    /// The same of all others; 0 without any.
    pub p99_normal_ms: f64,
    /// Units of cost a second of calls that were answered in time, by the instant of the answer.
    pub good_units_per_second: f64,
    /// Over time, in steps of 100 ms.
    #[serde(skip)]
    pub steps: Vec<ClientStep>,
    /// Each tenant, where the group keeps them.
    #[serde(skip)]
    pub tenants: Vec<TenantResult>,
    /// The operations that were refused at their first attempt, in the order of their ends, where
    /// the group keeps them.
    #[serde(skip)]
    pub returns: Vec<OperationReturn>,
}

/// One step of a group of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStep {
    /// Operations that began in it.
    pub began: u32,
    /// Those of them that succeeded.
    pub succeeded: u32,
    /// Attempts after the first that arrived in it.
    pub returned: u32,
    /// Attempts that were refused in it.
    pub refused: u32,
    /// Those of them whose feature was off.
    pub disabled: u32,
    /// Units of cost that were answered in time in it.
    pub good_units: u32,
    /// Units of cost on which work began in it.
    pub started_units: u32,
}

/// An operation that was refused at its first attempt. Instants are nanoseconds since the world
/// began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationReturn {
    /// When the first attempt was refused.
    pub refused_at: u64,
    /// The attempts after the first.
    pub returns: u32,
    /// When the work began that was answered in time, and when it ended; `None` if the operation
    /// did not succeed.
    pub served: Option<(u64, u64)>,
}

/// One tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TenantResult {
    /// Operations.
    pub operations: u64,
    /// Those that succeeded.
    pub succeeded: u64,
    /// The latency that one of a hundred exceeded, with failed operations as infinitely slow.
    pub p99_ms: f64,
    /// Units of cost that were answered in time.
    pub good_units: u64,
}

/// One step of a service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServiceStep {
    /// Requests that wait at the end of the step, in the design and behind it.
    pub queued: u32,
    /// The fewest that waited at any instant of it.
    pub queued_min: u32,
    /// Requests that are being worked on.
    pub busy: u32,
    /// The limit of the design.
    pub limit: f64,
    /// The part of the range of the cursor that is shed; `None` without a cursor.
    pub cursor: Option<f64>,
    /// The load level; `None` without levels.
    pub level: Option<u8>,
    /// The smoothed pressure that the levels follow; `None` without one.
    pub pressure: Option<f64>,
    /// The advice of the design to change its limit; `None` without any.
    pub advice: Option<ConcurrencyAdvice>,
    /// Attempts that were refused in it.
    pub refused: u32,
    /// The second of the first of them.
    pub first_refusal: Option<f64>,
}

/// The counts of a group while its world runs.
#[derive(Debug)]
pub(crate) struct ClientTally {
    result: ClientResult,
    /// In microseconds: of operations that began while all features had their best level, and of
    /// the others.
    latencies: [Vec<u64>; 2],
    tenants: Vec<TenantTally>,
    good_units: u64,
    counts_from: u64,
    counts_until: u64,
}

#[derive(Clone, Debug, Default)]
struct TenantTally {
    operations: u64,
    latencies: Vec<u64>,
    good_units: u64,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedOperation {
    pub(crate) tenant: u32,
    pub(crate) began: u64,
    /// Whether a feature of the service was below its best level when it began.
    pub(crate) is_degraded: bool,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationEnd {
    Succeeded,
    Late,
    Refused,
    Disabled,
    Cancelled,
}

impl ClientTally {
    pub(crate) fn new(client: &str, tenants: usize, counts_from: u64, counts_until: u64) -> Self {
        let result = ClientResult { client: client.to_owned(), ..ClientResult::default() };
        let tenants = vec![TenantTally::default(); tenants];
        Self { result, latencies: Default::default(), tenants, good_units: 0, counts_from, counts_until }
    }

    fn step(&mut self, at: u64) -> &mut ClientStep {
        let place = (at / STEP) as usize;
        if self.result.steps.len() <= place {
            self.result.steps.resize(place + 1, ClientStep::default());
        }
        &mut self.result.steps[place]
    }

    fn counts(&self, at: u64) -> bool {
        (self.counts_from..self.counts_until).contains(&at)
    }

    pub(crate) fn began(&mut self, at: u64) {
        self.step(at).began += 1;
    }

    /// An attempt arrives; `attempt` is 0 for the first.
    pub(crate) fn attempted(&mut self, attempt: u32, began: u64, now: u64) {
        self.result.attempts += u64::from(self.counts(began));
        if attempt > 0 {
            self.step(now).returned += 1;
        }
    }

    /// An operation has ended that was refused at its first attempt.
    pub(crate) fn returned(&mut self, operation: OperationReturn) {
        self.result.returns.push(operation);
    }

    pub(crate) fn refused(&mut self, cause: RefusalCause, began: u64, now: u64) {
        let step = self.step(now);
        step.refused += 1;
        step.disabled += u32::from(cause == RefusalCause::FeatureDisabled);
        if self.counts(began) {
            *self.result.causes.entry(cause).or_default() += 1;
        }
    }

    pub(crate) fn started(&mut self, cost: u32, now: u64) {
        self.step(now).started_units += cost;
    }

    /// An operation did not begin, because its feature is off.
    pub(crate) fn unasked(&mut self, at: u64) {
        self.result.unasked += u64::from(self.counts(at));
    }

    /// A call was answered in time, with the utility of its feature.
    pub(crate) fn answered(&mut self, tenant: u32, cost: u32, utility: f64, now: u64) {
        self.step(now).good_units += cost;
        if self.counts(now) {
            self.good_units += u64::from(cost);
            self.result.utility += utility * f64::from(cost);
            if let Some(tenant) = self.tenants.get_mut(tenant as usize) {
                tenant.good_units += u64::from(cost);
            }
        }
    }

    pub(crate) fn ended(&mut self, end: OperationEnd, operation: EndedOperation, now: u64) {
        let EndedOperation { tenant, began, is_degraded } = operation;
        let is_success = end == OperationEnd::Succeeded;
        self.step(began).succeeded += u32::from(is_success);
        if !self.counts(began) {
            return;
        }
        let result = &mut self.result;
        result.operations += 1;
        *match end {
            OperationEnd::Succeeded => &mut result.succeeded,
            OperationEnd::Late => &mut result.late,
            OperationEnd::Refused => &mut result.refused,
            OperationEnd::Disabled => &mut result.disabled,
            OperationEnd::Cancelled => &mut result.cancelled,
        } += 1;
        let micros = (now - began) / 1000;
        if let Some(tenant) = self.tenants.get_mut(tenant as usize) {
            tenant.operations += 1;
            tenant.latencies.extend(is_success.then_some(micros));
        }
        self.latencies[usize::from(is_degraded)].extend(is_success.then_some(micros));
    }

    pub(crate) fn into_result(mut self) -> ClientResult {
        let mut result = self.result;
        self.latencies.iter_mut().for_each(|latencies| latencies.sort_unstable());
        let p99 = |latencies: &[u64]| quantile_ms(latencies, latencies.len(), 990);
        let [normal, degraded] = &self.latencies;
        (result.p99_normal_ms, result.p99_degraded_ms) = (p99(normal), p99(degraded));
        let [mut latencies, degraded] = self.latencies;
        if !degraded.is_empty() {
            latencies.extend(degraded);
            latencies.sort_unstable();
        }
        result.p50_ms = quantile_ms(&latencies, latencies.len(), 500);
        result.p99_ms = quantile_ms(&latencies, latencies.len(), 990);
        let counted = seconds(self.counts_until - self.counts_from);
        result.utility = rounded(result.utility);
        result.good_units_per_second = rounded(self.good_units as f64 / counted);
        result.tenants = self
            .tenants
            .into_iter()
            .map(|mut tenant| {
                tenant.latencies.sort_unstable();
                TenantResult {
                    operations: tenant.operations,
                    succeeded: tenant.latencies.len() as u64,
                    p99_ms: quantile_ms(&tenant.latencies, tenant.operations as usize, 990),
                    good_units: tenant.good_units,
                }
            })
            .collect();
        result
    }
}

impl ClientResult {
    /// The part of the operations that succeeded; 1 without any.
    pub fn success(&self) -> f64 {
        if self.operations == 0 { 1.0 } else { self.succeeded as f64 / self.operations as f64 }
    }

    /// The steps of a span of seconds.
    pub fn steps_in(&self, from: f64, until: f64) -> &[ClientStep] {
        let place = |second: f64| step_at(second).min(self.steps.len());
        &self.steps[place(from)..place(until).max(place(from))]
    }
}

/// The position of the step that begins at a second.
pub(crate) fn step_at(second: f64) -> usize {
    libm::round(second * 10.0) as usize
}

/// The value that so many in a thousand of `count` values did not exceed, of which `sorted` are
/// known and the others are infinite: the nearest rank, exact. 0 without values.
fn quantile_ms(sorted: &[u64], count: usize, in_a_thousand: usize) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let rank = (count * in_a_thousand).div_ceil(1000).max(1);
    sorted.get(rank - 1).map_or(f64::INFINITY, |micros| *micros as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact_and_a_failed_operation_is_infinitely_slow() {
        let values: Vec<u64> = (1..=99).map(|ms| ms * 1000).collect();
        assert!((quantile_ms(&values, 99, 500) - 50.0).abs() < 1e-9);
        assert!((quantile_ms(&values, 100, 990) - 99.0).abs() < 1e-9);
        assert!(quantile_ms(&values, 101, 990).is_infinite());
        assert!(quantile_ms(&[], 0, 990).abs() < 1e-9);
    }
}
