//! Explaining what the limits of a namespace are to a request, those that a store decides among
//! them.

use tidegate_capacity::CapacityStatus;
use tidegate_capacity::table_config::full_name;
use tidegate_core::gate::{Explanation, Level, Outlook, Standing};
use tidegate_core::limit::OnStoreFailure;
use tidegate_core::{Gate, Refusal, Timestamp};
use tidegate_overload::{ArrivalShed, Obstacle, PlaceRefusal};
use tidegate_store::{Answer, Batch, Outcome, StoreError};

use crate::access_report::AccessReport;
use crate::continuation::ExactName;
use crate::engine::Engine;
use crate::engine::admission::answer::WalkStep;
use crate::engine::admission::located::Said;
use crate::engine::admission::queue::until;
use crate::engine::admission::refusal::{denial, failure, shed_by};
use crate::engine::admission::store_silence::is_away;
use crate::error::RequestError;
use crate::load_report::{LoadReport, PlaceWait};
use crate::place::lacks_in_flight_place;
use crate::progress::Progress;
use crate::request::{OwnedPairs, Request};

/// The effect of the limits of a namespace on a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// Every limit of the namespace, in the order of the policy.
    pub limits: Vec<Explanation>,
    /// The refusals that the request would get now from the planes beside the limits, in the order
    /// of the planes: its deadline, its feature or the admission cursor, then its table or a
    /// missing place. A request that may wait for a place has no refusal for want of it.
    pub planes: Vec<Refusal>,
    /// The refusals that the request would get from its resource in shadow mode if that enforced.
    /// They refuse nobody.
    pub rehearsed: Vec<Refusal>,
    /// The resource that serves the request, with the level of the request there; `None` without
    /// one.
    pub load: Option<LoadReport>,
    /// The partitions that the request accesses: that of its table, then those of the indexes that
    /// a write changes. Empty for a request without an access.
    pub access: Vec<AccessReport>,
    /// Why the store did not say what the limits hold that it decides; `None` if it did, or was not
    /// needed. Their levels then follow from [`OnStoreFailure`].
    pub store_failure: Option<String>,
}

impl Explained {
    /// Whether the request would be admitted now, without waiting.
    pub fn is_admitted(&self) -> bool {
        !self.is_refused() && self.wait().is_none()
    }

    /// Whether the request would be refused now, without waiting for a place.
    pub fn is_refused(&self) -> bool {
        !self.planes.is_empty() || self.limits.iter().any(Explanation::refuses)
    }

    /// How the request would wait for a place, if nothing else refuses it.
    pub fn wait(&self) -> Option<PlaceWait> {
        let load = self.load.as_ref().filter(|load| !load.is_shadow)?;
        load.wait.filter(|_| !self.is_refused())
    }
}

impl Engine {
    /// The resource that serves a request, with the level of the request there.
    fn load_report(&self, gate: &Gate, request: &Request<'_>, now: Timestamp) -> Option<LoadReport> {
        let (overload, target) = self.overload().zip(self.target_of(gate, request, now))?;
        let (resource, level) = (target.resource(), target.level());
        Some(LoadReport {
            resource: request.resource.map(Into::into),
            is_shadow: false,
            class: level.class(),
            level: level.number(),
            cursor: overload.resource(resource).namespace_cursor(level.namespace()),
            is_below_cursor: overload.is_below_cursor(resource, level),
            in_flight: overload.in_flight(resource),
            in_flight_max: overload.in_flight_max(resource, level.class()),
            feature: self.feature_report(request, &target, now),
            wait: None,
        })
    }

    /// How a request waits that lacks a place, or its refusal instead: without a wait of its own
    /// the one that it has.
    fn foreseen_wait(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        refusal: Refusal,
        now: Timestamp,
    ) -> Result<PlaceWait, Refusal> {
        let (until, target) = (until(request), self.target_of(gate, request, now));
        let resource = self.resource_of(request).filter(|_| lacks_in_flight_place(&refusal) && until > now);
        let (Some(resource), Some(target)) = (resource, target) else { return Err(refusal) };
        let entrant = self.new_entrant(gate, request, Obstacle::Place(resource), Some(target), 0);
        match self.shared.room.foresee(&entrant, now) {
            Ok(estimated) => Ok(PlaceWait { longest: until.saturating_since(now), estimated }),
            Err(ArrivalShed::Hopeless) => Err(self.would_be_hopeless(request, until, target)),
            Err(ArrivalShed::Marginal) => {
                let shed = self
                    .overload()
                    .map(|overload| overload.would_refuse(resource, target.level(), PlaceRefusal::Delayed));
                Err(shed.map_or(refusal, |shed| shed_by(request.namespace, &shed, request)))
            }
        }
    }

    /// A partition that a request accesses, as it is now.
    pub(crate) fn access_report(&self, namespace: &str, status: &CapacityStatus<'_>) -> AccessReport {
        let name = full_name(status.table, status.index);
        let control = &self.shared.capacity_control;
        AccessReport::new(status, control.verdict((namespace, &name), status.partition, status.operation))
    }

    /// The effect of each limit of the request's namespace on it, and why; changes nothing.
    ///
    /// The other planes say only what they would refuse the request with. Limits that a store
    /// decides are looked at there, by the same operation as [`Engine::peek`] uses.
    pub fn explain(
        &self,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Progress<Explained>, RequestError> {
        let Said { refusals: said, access, exact, exact_at, looks, .. } = self.said(request, now)?;
        let gate = self.gate(request.namespace)?;
        let mut load = self.load_report(gate, request, now);
        let mut before = said.iter().filter(|(step, _)| *step < WalkStep::Limits);
        let after = said.iter().find(|(step, _)| *step > WalkStep::Limits);
        let mut refusals: Vec<Refusal> =
            before.next().map(|(_, refusal)| refusal.clone()).into_iter().collect();
        if let Some((_, refusal)) = after {
            match self.foreseen_wait(gate, request, refusal.clone(), now) {
                Ok(wait) => load.iter_mut().for_each(|load| load.wait = Some(wait)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let mut rehearsed = Vec::new();
        if let Some(stand_in) = self.explain_stand_in(request, now) {
            rehearsed = stand_in.planes;
            load = stand_in.load.map(|load| {
                let wait = load.wait.filter(|_| rehearsed.is_empty());
                LoadReport { is_shadow: true, wait, ..load }
            });
        }
        if exact.is_empty() {
            let limits = gate.explain(request.attributes, request.cost, now);
            let store_failure = None;
            return Ok(Progress::Done(Explained {
                limits,
                planes: refusals,
                rehearsed,
                load,
                access,
                store_failure,
            }));
        }
        let batch = Batch::each(self.next_batch_id(), looks);
        let (attributes, cost) = (OwnedPairs::from_attributes(request.attributes), request.cost);
        let gate = gate.clone();
        self.ask(batch, now, move |step, _| {
            let mut limits = attributes.with(|attributes| gate.explain(attributes, cost, step.now));
            let (levels, store_failure) = match step.answer {
                Ok(mut answer) => {
                    step.engine.with_leases(&exact, &mut answer.outcomes, Some(cost), step.now);
                    (levels_of(&exact, &answer), None)
                }
                Err(error) => {
                    let places = exact.iter().map(|one| step.engine.alone_place(&gate, one));
                    let here = gate.levels_located(&places.collect::<Vec<_>>(), cost, step.now);
                    let levels = exact.iter().zip(here);
                    let levels = levels.map(|(one, here)| instead(one, here, &error, step.now));
                    (levels.collect(), Some(error.to_string()))
                }
            };
            for (index, level) in exact_at.iter().zip(levels) {
                if let Some(Standing::Counts(counting)) =
                    limits.get_mut(*index).map(|limit| &mut limit.standing)
                {
                    counting.level = level;
                }
            }
            Ok(Progress::Done(Explained { limits, planes: refusals, rehearsed, load, access, store_failure }))
        })
    }
}

fn levels_of(exact: &[ExactName], answer: &Answer) -> Vec<Option<Level>> {
    let answered = exact.iter().zip(&answer.outcomes);
    answered
        .map(|(one, outcome)| {
            let Outcome { limit, used, .. } = *outcome;
            Some(Level::new(limit, used, outcome.left(), outcome.free_at(), outlook(one, outcome)))
        })
        .collect()
}

fn outlook(one: &ExactName, outcome: &Outcome) -> Outlook {
    match denial(one, outcome) {
        None => Outlook::Admit,
        Some((reason, retry)) => Outlook::Refuse { reason, retry },
    }
}

/// The level of an exact limit while the store does not answer; `None` if it admits everything.
fn instead(one: &ExactName, here: Level, error: &StoreError, now: Timestamp) -> Option<Level> {
    let is_refused = !is_away(error) || one.on_store_failure == OnStoreFailure::Refuse;
    if is_refused {
        let (reason, retry) = failure(error, now);
        return Some(Level::new(one.limit, 0, 0, now, Outlook::Refuse { reason, retry }));
    }
    (one.on_store_failure == OnStoreFailure::Local).then_some(here)
}
