//! Looking at what limits would say, of one request or of several, changing nothing.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::gate::ExactLimit;
use tidegate_core::{Attributes, Cost, Gate, Refusal, Timestamp};
use tidegate_overload::Shed;
use tidegate_store::{Batch, Kind, Operation, Outcome, StoreError};

use super::Engine;
use super::exact_limit::{exact_name, refuses, reports};
use super::refusal::{denied_by_store, past_deadline, shed_by, store_failed, throttled_by};
use super::store_silence::{decided_here, denied_alone, refusing_without};
use crate::access_report::AccessCharge;
use crate::continuation::ExactName;
use crate::error::RequestError;
use crate::limit_report::LimitReport;
use crate::progress::Progress;
use crate::request::{OwnedPairs, Request};

/// The decision that a request would get.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeekReport {
    /// The refusal it would get, if any: the first in the order of the planes. A request that may
    /// wait would wait for some of these instead.
    pub refusal: Option<Refusal>,
    /// The state of its limits: the local ones in the order of the policy, then the exact ones.
    pub limits: Vec<LimitReport>,
    /// The units that its access would be charged, and those that are left; `None` without one.
    pub access: Option<AccessCharge>,
}

impl Engine {
    /// The answer that the planes would give; changes nothing.
    pub fn peek(&self, request: &Request<'_>, now: Timestamp) -> Result<Progress<PeekReport>, RequestError> {
        let (gate, exact) = self.looked_at(request, now)?;
        if exact.is_empty() {
            let beside = self.look_beside(gate, request, now)?;
            return Ok(Progress::Done(beside.around(look(gate, request.attributes, request.cost, now))));
        }
        let looks = vec![self.look_of(gate, request, &exact, now)?];
        let first = |mut reports: Vec<PeekReport>| reports.swap_remove(0);
        Ok(self.look_on(looks, Vec::with_capacity(1), Box::new(first), now))
    }

    /// The answers that each of several requests would get if it came alone; changes nothing:
    /// the same as [`Engine::peek`] of each, with as few batches as there may be.
    pub fn peek_all(
        &self,
        requests: &[Request<'_>],
        now: Timestamp,
    ) -> Result<Progress<Vec<PeekReport>>, RequestError> {
        let mut looks = Vec::with_capacity(requests.len());
        for request in requests {
            let (gate, exact) = self.looked_at(request, now)?;
            looks.push(self.look_of(gate, request, &exact, now)?);
        }
        Ok(self.look_on(looks, Vec::with_capacity(requests.len()), Box::new(|reports| reports), now))
    }

    fn looked_at<'a>(
        &'a self,
        request: &Request<'a>,
        now: Timestamp,
    ) -> Result<(&'a Arc<Gate>, Vec<ExactLimit<'a>>), RequestError> {
        let gate = self.gate(request.namespace)?;
        self.check_table(request)?;
        Ok((gate, gate.remote_limits(request.attributes, now)))
    }

    fn look_of(
        &self,
        gate: &Arc<Gate>,
        request: &Request<'_>,
        exact: &[ExactLimit<'_>],
        now: Timestamp,
    ) -> Result<Look, RequestError> {
        Ok(Look {
            beside: self.look_beside(gate, request, now)?,
            gate: Arc::clone(gate),
            operations: self.operations_of(gate, exact, |_| Some(Kind::Peek { cost: request.cost }))?,
            exact: exact.iter().map(exact_name).collect(),
            attributes: OwnedPairs::of(request.attributes),
            cost: request.cost,
        })
    }

    /// The refusals of the planes before and after the local limits, as they are now.
    pub(super) fn look_beside(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Beside, RequestError> {
        let mut beside = Beside::default();
        if request.deadline.is_some_and(|deadline| deadline <= now) {
            beside.before = Some(past_deadline(request));
        }
        if let (Some(capacity), Some(access)) = (&self.planes.capacity, &request.access) {
            let statuses = self.peek_access(&capacity.locate(request.namespace, access)?, now);
            let of_table = statuses.first();
            beside.access =
                of_table.map(|status| AccessCharge { units: status.units, left: status.direction.left });
            let throttled = statuses.into_iter().find_map(|status| status.throttled);
            beside.after = throttled.map(|throttled| throttled_by(gate.namespace(), &throttled, now));
        }
        if let (Some(overload), Some(target)) = (self.overload(), self.target_of(gate, request, now)) {
            let (resource, level) = (target.resource(), target.level());
            let by = |shed: Shed| shed_by(gate.namespace(), &shed, request);
            let shed = || overload.would_shed(resource, level).map(by);
            beside.before = beside.before.or_else(shed);
            if request.end_known {
                beside.after = beside.after.or_else(|| overload.would_lack_place(resource, level).map(by));
            }
        }
        Ok(beside)
    }

    /// Looks, from where there are `reports` already: as far as no store needs to be asked, then in
    /// one batch.
    fn look_on<T: 'static>(
        &self,
        mut looks: Vec<Look>,
        mut reports: Vec<PeekReport>,
        end: Box<dyn FnOnce(Vec<PeekReport>) -> T + Send>,
        now: Timestamp,
    ) -> Progress<T> {
        let mut operations: Vec<Operation> = Vec::new();
        let mut until = reports.len();
        while let Some(next) = looks.get_mut(until) {
            if !operations.is_empty() && operations.len() + next.operations.len() > Batch::OPERATIONS_MAX {
                break;
            }
            operations.append(&mut next.operations);
            until += 1;
        }
        if operations.is_empty() {
            reports.extend(looks[reports.len()..].iter().map(|one| one.here(now)));
            return Progress::Done(end(reports));
        }
        Progress::ask(Batch::each(self.next_batch_id(), operations), move |step, _| {
            let (mut answered, failed) = match step.answer {
                Ok(answer) => (answer.outcomes, None),
                Err(error) => (SmallVec::new(), Some(error)),
            };
            let mut outcomes = &mut answered[..];
            for one in &looks[reports.len()..until] {
                let (mine, rest) = outcomes.split_at_mut(one.exact.len().min(outcomes.len()));
                outcomes = rest;
                let mut report = one.here(step.now);
                step.engine.with_leases(&one.exact, mine, Some(one.cost), step.now);
                one.add_exact(step.engine, &mut report, failed.as_ref().map_or(Ok(&*mine), Err), step.now);
                reports.push(report);
            }
            Ok(step.engine.look_on(looks, reports, end, step.now))
        })
    }
}

/// The refusals of a request by the planes beside the limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// The refusal before the limits: by the deadline, or by the admission cursor.
    pub(super) before: Option<Refusal>,
    /// The refusal after the local limits: by the capacity plane, or for want of a place.
    pub(super) after: Option<Refusal>,
    /// The units that the access would be charged.
    pub(super) access: Option<AccessCharge>,
}

impl Beside {
    /// The report of the local limits, with the refusal that comes first and the access.
    fn around(self, report: PeekReport) -> PeekReport {
        let refusal = self.before.or(report.refusal).or(self.after);
        PeekReport { refusal, access: self.access, ..report }
    }
}

/// A look at the limits of a request, some of which a store decides.
struct Look {
    beside: Beside,
    gate: Arc<Gate>,
    attributes: OwnedPairs,
    cost: Cost,
    exact: Vec<ExactName>,
    /// One for each exact limit; none any more once they are in a batch.
    operations: Vec<Operation>,
}

impl Look {
    /// The report of the limits that are decided here.
    fn here(&self, now: Timestamp) -> PeekReport {
        let limits = self.attributes.with(|attributes| look(&self.gate, attributes, self.cost, now));
        self.beside.clone().around(limits)
    }

    /// Adds the exact limits, by the answer of the store or without one.
    fn add_exact(
        &self,
        engine: &Engine,
        report: &mut PeekReport,
        answer: Result<&[Outcome], &StoreError>,
        now: Timestamp,
    ) {
        if self.exact.is_empty() {
            return;
        }
        let (refusal, limits) = match answer {
            Ok(outcomes) => {
                let is_refused = self.exact.iter().zip(outcomes).any(|(one, outcome)| refuses(one, outcome));
                let refusal = is_refused.then(|| denied_by_store(&self.gate, &self.exact, outcomes, now));
                (refusal, reports(&self.exact, outcomes))
            }
            Err(error) => {
                let refusing = refusing_without(&self.exact, error);
                let (local, places) = decided_here(engine, &self.gate, &self.exact);
                let located = self.gate.peek_located(&places, self.cost, now);
                let refusal = match (refusing.is_empty(), located.violated.is_empty()) {
                    (false, _) => Some(store_failed(&self.gate, &refusing, error, now)),
                    (true, false) => {
                        Some(denied_alone(&self.gate, located.violated, &local, error, self.cost, now))
                    }
                    (true, true) => None,
                };
                (refusal, located.limits.into_iter().map(LimitReport::from).collect())
            }
        };
        report.refusal = report.refusal.take().or(refusal);
        report.limits.extend(limits);
    }
}

/// The report of the limits that are decided here.
fn look(gate: &Gate, attributes: Attributes<'_>, cost: Cost, now: Timestamp) -> PeekReport {
    let peek = gate.peek(attributes, cost, now);
    let limits = peek.limits.into_iter().map(LimitReport::from).collect();
    PeekReport { refusal: peek.refusal, limits, access: None }
}
