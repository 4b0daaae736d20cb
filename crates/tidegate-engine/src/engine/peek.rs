//! Looking at what limits would say, of one request or of several, changing nothing.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_core::gate::ExactLimit;
use tidegate_core::{Attributes, Cost, Gate, Refusal, Timestamp};
use tidegate_overload::{PlaceRefusal, Shed};
use tidegate_store::{Batch, Kind, Operation, Outcome, StoreError};

use super::Engine;
use super::admission::is_claimed;
use super::exact_limit::{exact_name, refuses, reports};
use super::lease_plane::Waited;
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
        if let (Some(plane), Some(target)) = (&self.planes.overload, self.target_of(gate, request, now)) {
            let (overload, resource, level) = (&plane.overload, target.resource(), target.level());
            let by = |shed: Shed| shed_by(gate.namespace(), &shed, request);
            beside.before = beside.before.or_else(|| overload.would_shed(resource, level).map(by));
            let place = || {
                if !request.end_known {
                    overload.would_exceed_pace(resource, level, now)
                } else if is_claimed(plane, resource, request, Waited::default()) {
                    Some(overload.would_refuse(resource, level, PlaceRefusal::Claimed))
                } else {
                    overload.would_lack_place(resource, level)
                }
            };
            beside.after = beside.after.or_else(|| place().map(by));
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
            reports.extend(looks[reports.len()..].iter().map(|one| one.report(self, Ok(&[]), now)));
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
                step.engine.with_leases(&one.exact, mine, Some(one.cost), step.now);
                let answer = failed.as_ref().map_or(Ok(&*mine), Err);
                reports.push(one.report(step.engine, answer, step.now));
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
    /// The refusal after the local limits and the leases: by the capacity plane, for want of a
    /// place, or by the pace.
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
    /// The report with the limits that a store decides, by its answer or without one: leases refuse
    /// before the planes after the limits, exact limits behind them.
    fn report(&self, engine: &Engine, answer: Result<&[Outcome], &StoreError>, now: Timestamp) -> PeekReport {
        let mut report = self.attributes.with(|attributes| look(&self.gate, attributes, self.cost, now));
        let mut stored = [None, None];
        for (refusal, is_lease) in stored.iter_mut().zip([true, false]) {
            let here = |one: &&ExactName| one.lease.is_some() == is_lease;
            let exact: Vec<ExactName> = self.exact.iter().filter(here).cloned().collect();
            *refusal = match answer {
                Ok(outcomes) => {
                    let of = self.exact.iter().zip(outcomes).filter(|(one, _)| here(one));
                    let outcomes: Vec<Outcome> = of.map(|(_, outcome)| *outcome).collect();
                    let is_refused = exact.iter().zip(&outcomes).any(|(one, outcome)| refuses(one, outcome));
                    is_refused.then(|| denied_by_store(&self.gate, &exact, &outcomes, now))
                }
                Err(error) => self.refusal_without(engine, &exact, error, now),
            };
        }
        report.limits.extend(if let Ok(outcomes) = answer {
            reports(&self.exact, outcomes)
        } else {
            let (_, places) = decided_here(engine, &self.gate, &self.exact);
            let located = self.gate.peek_located(&places, self.cost, now);
            located.limits.into_iter().map(LimitReport::from).collect()
        });
        let [leased, exact] = stored;
        report.refusal = report.refusal.or(leased);
        let report = self.beside.clone().around(report);
        PeekReport { refusal: report.refusal.or(exact), ..report }
    }

    /// The refusal by some of its limits while the store does not answer.
    fn refusal_without(
        &self,
        engine: &Engine,
        exact: &[ExactName],
        error: &StoreError,
        now: Timestamp,
    ) -> Option<Refusal> {
        let refusing = refusing_without(exact, error);
        if !refusing.is_empty() {
            return Some(store_failed(&self.gate, &refusing, error, now));
        }
        let (local, places) = decided_here(engine, &self.gate, exact);
        let violated = self.gate.peek_located(&places, self.cost, now).violated;
        (!violated.is_empty()).then(|| denied_alone(&self.gate, violated, &local, error, self.cost, now))
    }
}

/// The report of the limits that are decided here.
fn look(gate: &Gate, attributes: Attributes<'_>, cost: Cost, now: Timestamp) -> PeekReport {
    let peek = gate.peek(attributes, cost, now);
    let limits = peek.limits.into_iter().map(LimitReport::from).collect();
    PeekReport { refusal: peek.refusal, limits, access: None }
}
