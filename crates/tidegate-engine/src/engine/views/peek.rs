//! Looking at what limits would say, of one request or of several, changing nothing.

use std::sync::Arc;

use tidegate_core::{Cost, Gate, Refusal, Timestamp};
use tidegate_store::{Batch, Operation, Outcome, StoreError};

use crate::access_report::AccessCharge;
use crate::continuation::ExactName;
use crate::engine::admission::answer::{Mode, Stop, WalkStep};
use crate::engine::admission::exact_limit::{refuses, reports};
use crate::engine::admission::located::Said;
use crate::engine::admission::refusal::{denied_by_store, store_failed};
use crate::engine::admission::store_silence::{decided_here, denied_alone, refusing_without};
use crate::engine::admission::waited::Waited;
use crate::engine::{Engine, FeatureReport};
use crate::error::RequestError;
use crate::limit_report::LimitReport;
use crate::progress::Progress;
use crate::request::Request;

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
    /// The level of its feature; `None` if its resource has no feature that the request names.
    pub feature: Option<FeatureReport>,
}

impl Engine {
    /// The answer that the planes would give; changes nothing.
    pub fn peek(&self, request: &Request<'_>, now: Timestamp) -> Result<Progress<PeekReport>, RequestError> {
        let look = self.look(request, now)?;
        let first = |mut reports: Vec<PeekReport>| reports.swap_remove(0);
        self.look_on(vec![look], Vec::with_capacity(1), Box::new(first), now)
    }

    /// The answers that each of several requests would get if it came alone; changes nothing:
    /// the same as [`Engine::peek`] of each, with as few batches as there may be.
    pub fn peek_all(
        &self,
        requests: &[Request<'_>],
        now: Timestamp,
    ) -> Result<Progress<Vec<PeekReport>>, RequestError> {
        let looks: Result<Vec<_>, _> = requests.iter().map(|request| self.look(request, now)).collect();
        self.look_on(looks?, Vec::with_capacity(requests.len()), Box::new(|reports| reports), now)
    }

    /// The words of each plane about a request, by a walk that explains.
    pub(crate) fn said(&self, request: &Request<'_>, now: Timestamp) -> Result<Said, RequestError> {
        let (mut said, mut holds, waited) = (Said::default(), None, Waited::default());
        let mut located = self.locate(request, self.gate_of(request)?, &waited, now);
        located.said = Some(&mut said);
        let answer = self.walk(&mut located, Mode::Explain, &mut holds, now);
        drop(located);
        match answer {
            Ok(()) => Ok(said),
            Err(Stop::Fail(error)) => Err(*error),
            Err(Stop::Refuse(_) | Stop::Wait(_)) => unreachable!("this walk goes on after a refusal"),
        }
    }

    fn look(&self, request: &Request<'_>, now: Timestamp) -> Result<Look, RequestError> {
        let said = self.said(request, now)?;
        let gate = Arc::clone(self.gate(request.namespace)?);
        let target = request.feature.and_then(|_| self.target_of(&gate, request, now));
        let feature = target.and_then(|target| self.feature_report(request, &target, now));
        Ok(Look { said, gate, cost: request.cost, feature })
    }

    /// Looks, from where there are `reports` already: as far as no store needs to be asked, then in
    /// one batch.
    fn look_on<T: 'static>(
        &self,
        mut looks: Vec<Look>,
        mut reports: Vec<PeekReport>,
        end: Box<dyn FnOnce(Vec<PeekReport>) -> T + Send>,
        now: Timestamp,
    ) -> Result<Progress<T>, RequestError> {
        let mut operations: Vec<Operation> = Vec::new();
        let mut asked = 0;
        while let Some(next) = looks.get_mut(asked) {
            if !operations.is_empty() && operations.len() + next.said.looks.len() > Batch::OPERATIONS_MAX {
                break;
            }
            operations.append(&mut next.said.looks);
            asked += 1;
        }
        if operations.is_empty() {
            reports.extend(looks.into_iter().map(Look::into_report));
            return Ok(Progress::Done(end(reports)));
        }
        self.ask(Batch::each(self.next_batch_id(), operations), now, move |step, _| {
            let rest = looks.split_off(asked);
            let mut answer = step.answer.map(|answer| answer.outcomes);
            for look in looks {
                let mine = answer.as_mut().map(|outcomes| {
                    let mine = look.said.exact.len().min(outcomes.len());
                    outcomes.drain(..mine).collect::<Vec<_>>()
                });
                reports.push(look.answered(step.engine, mine.map_err(|error| &*error), step.now));
            }
            step.engine.look_on(rest, reports, end, step.now)
        })
    }
}

/// A look at the planes of a request, some of whose limits a store decides.
struct Look {
    said: Said,
    gate: Arc<Gate>,
    cost: Cost,
    feature: Option<FeatureReport>,
}

impl Look {
    /// The report, with the refusal that comes first.
    fn into_report(self) -> PeekReport {
        let Said { refusals, limits, access, .. } = self.said;
        let first = refusals.into_iter().min_by_key(|(step, _)| *step);
        let access = access.first().map(|one| AccessCharge { units: one.units, left: one.direction.left });
        let feature = self.feature;
        PeekReport { refusal: first.map(|(_, refusal)| refusal), limits, access, feature }
    }

    /// The report with the limits that a store decides, by its answer or without one.
    fn answered(
        mut self,
        engine: &Engine,
        answer: Result<Vec<Outcome>, &StoreError>,
        now: Timestamp,
    ) -> PeekReport {
        let answer = answer.map(|mut outcomes| {
            engine.with_leases(&self.said.exact, &mut outcomes, Some(self.cost), now);
            outcomes
        });
        for (step, is_lease) in [(WalkStep::Leases, true), (WalkStep::Store, false)] {
            let here = |one: &&ExactName| one.lease.is_some() == is_lease;
            let exact: Vec<ExactName> = self.said.exact.iter().filter(here).cloned().collect();
            let refusal = match &answer {
                Ok(outcomes) => {
                    let of = self.said.exact.iter().zip(outcomes).filter(|(one, _)| here(one));
                    let outcomes: Vec<Outcome> = of.map(|(_, outcome)| *outcome).collect();
                    let is_refused = exact.iter().zip(&outcomes).any(|(one, outcome)| refuses(one, outcome));
                    is_refused.then(|| denied_by_store(&self.gate, &exact, &outcomes, now))
                }
                Err(error) => self.refusal_without(engine, &exact, error, now),
            };
            self.said.refusals.extend(refusal.map(|refusal| (step, refusal)));
        }
        self.said.limits.extend(if let Ok(outcomes) = &answer {
            reports(&self.said.exact, outcomes)
        } else {
            let (_, places) = decided_here(engine, &self.gate, &self.said.exact);
            let located = self.gate.peek_located(&places, self.cost, now);
            located.limits.into_iter().map(LimitReport::from).collect()
        });
        self.into_report()
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
