//! Admission: the row of planes that every request goes through, and the way back.
//!
//! 1. Read only: the deadline, the admission cursor.
//! 2. Local limits, then leases; charged.
//! 3. Capacity units, charged.
//! 4. A place in flight. Where none is free at step 1, steps 2 and 3 are read only.
//! 5. One batch to the store for all exact limits; the place is held meanwhile.
//!
//! Each plane admits, refuses or asks. [`Engine::pass_row`] has one exit for each of these answers
//! and for errors, and all but the first return what the request holds, the last first.

use core::cell::Cell;
use std::sync::Arc;

use tidegate_capacity::Admission;
use tidegate_core::gate::LocatedRequest;
use tidegate_core::shares::Owner;
use tidegate_core::{Gate, Refusal, Timestamp};
use tidegate_overload::{
    Obstacle, OfferOutcome, Overload, PlaceRefusal, RequestRecord, ResourceId, WaitsForPlace,
};

use super::Engine;
use super::lease_plane::{Leased, Waited};
use super::refusal::{past_deadline, shed_by, throttled_by};
use super::store_plane::ask_one;
use super::table_lease_plane::TableAsk;
use crate::continuation::{LimitQuestion, Origin, Patience, Pending};
use crate::decision::{Decision, Refused, Step};
use crate::demand::{Demand, end, fail, outcome_of};
use crate::error::RequestError;
use crate::fault::Fault;
use crate::leases::Flights;
use crate::permit::{Holds, Home, Permit};
use crate::place::{OverloadPlane, Place};
use crate::request::Request;

/// The answer of the planes that decide without asking the store.
enum Passage {
    /// All of them admit.
    Passed,
    /// One of them refuses.
    Refused(Refusal),
    /// A lease has to be asked for first.
    Waits(Flights),
}

impl Engine {
    /// Decides a request, or says what to ask the store first.
    ///
    /// An error means that it could not be decided, and that nothing was charged.
    pub fn admit(&self, request: &Request<'_>, now: Timestamp) -> Result<Step, RequestError> {
        if request.may_wait_until.is_some() {
            return self.admit_patient(request, Waited::default(), None, None, now);
        }
        self.admit_one(request, Waited::default(), None, now)
    }

    /// [`Engine::admit`] for a request that does not wait for its turn, but may have waited for
    /// leases or for its turn before. `demand` is what it was offered as then.
    pub(super) fn admit_one(
        &self,
        request: &Request<'_>,
        waited: Waited<'_>,
        demand: Option<Demand>,
        now: Timestamp,
    ) -> Result<Step, RequestError> {
        let demand = Cell::new(demand);
        self.pass_row(
            request,
            0,
            waited,
            now,
            |refusal, counted| {
                self.decided(demand.take(), counted, outcome_of(&refusal));
                Step::Decided(Decision::Refuse(Refused::one(refusal)))
            },
            |flights, counted| {
                let demand = self.demand(demand.take(), counted);
                Step::Ask(Pending(self.park_one(request, flights, waited.rounds, demand, None)))
            },
            |gate, first, question, counted| {
                let patience = || None;
                self.pass_one(request, gate, first, question, demand.take(), counted, patience, now)
            },
            || fail(demand.take()),
        )
    }

    /// Admits a request that has passed the row, or asks the store first. `patience` says how it
    /// waits if the store refuses it.
    #[expect(clippy::inline_always, reason = "as `Engine::pass_row`")]
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "all that is known of a request that has passed")]
    pub(super) fn pass_one(
        &self,
        request: &Request<'_>,
        gate: &Arc<Gate>,
        first: Holds,
        question: Option<LimitQuestion>,
        demand: Option<Demand>,
        counted: Option<RequestRecord>,
        patience: impl FnOnce() -> Option<Box<Patience>>,
        now: Timestamp,
    ) -> Step {
        let Some(question) = question else {
            self.decided(demand, counted, OfferOutcome::Admitted);
            return Step::Decided(Decision::Admit(Permit { first, rest: Vec::new() }));
        };
        let demand = self.demand(demand, counted);
        let origin = Origin { gate: Arc::clone(gate), cost: request.cost, demand, patience: patience() };
        ask_one(first, origin, question, now)
    }

    /// Steps 1 to 4, and the question of step 5: everything that is decided without asking the
    /// store and without waiting.
    ///
    /// Goes on with what the request then holds, the gate that charged it and the question for the
    /// store, if there is one; or with its refusal, or with the leases it waits for. In these cases
    /// and after an error it holds nothing. Ending what its resource has counted is up to the
    /// caller, except after an error.
    #[expect(clippy::inline_always, reason = "a permit is large, and is built where it is returned only so")]
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "three ways out, each built where it is returned")]
    pub(super) fn pass_row<T>(
        &self,
        request: &Request<'_>,
        at: usize,
        waited: Waited<'_>,
        now: Timestamp,
        refused: impl FnOnce(Refusal, Option<RequestRecord>) -> T,
        waits: impl FnOnce(Flights, Option<RequestRecord>) -> T,
        passed: impl FnOnce(&Arc<Gate>, Holds, Option<LimitQuestion>, Option<RequestRecord>) -> T,
        failed: impl FnOnce(),
    ) -> Result<T, RequestError> {
        let namespace = match self.find(request.namespace) {
            Ok(namespace) => namespace,
            Err(error) => {
                failed();
                return Err(error);
            }
        };
        let gate = &self.gates[namespace];
        let home = Home { namespace: namespace as u32, generation: self.generation };
        if let Err(error) = self.check_table(request) {
            failed();
            return Err(error);
        }
        if request.deadline.is_some_and(|deadline| deadline <= now) {
            return Ok(refused(past_deadline(request), None));
        }
        let mut counted = self.target_of(gate, request, now);
        if let (Some(overload), Some(record)) = (self.overload(), &mut counted) {
            if !waited.is_offered && self.is_new(request, record) {
                overload.offer(record, now);
            }
            if let Some(shed) = overload.shed(record) {
                return Ok(refused(shed_by(gate.namespace(), &shed, request), counted));
            }
        }
        if let (Some(plane), Some(record)) = (&self.planes.overload, &counted)
            && request.end_known
            && !plane.overload.has_place(record.resource(), request.class)
            && !self.may_spend_leases(gate, request)
        {
            return match self.refuse_unplaced(gate, request, record, plane, waited, now) {
                Ok(refusal) => Ok(refused(refusal, counted)),
                Err(error) => {
                    self.decided(None, counted, OfferOutcome::Failed);
                    failed();
                    Err(error)
                }
            };
        }
        // A gate without limits in a store has nothing to locate for later.
        let mut located = LocatedRequest::default();
        let checked = if gate.has_elsewhere() {
            gate.check_and_locate(request.attributes, &mut located, request.cost, now)
        } else {
            gate.check(request.attributes, request.cost, now)
        };
        let limits = match checked {
            tidegate_core::Decision::Admit(permit) => permit,
            tidegate_core::Decision::Refuse(refusal) => {
                return Ok(refused(refusal, counted));
            }
        };
        let mut holds = Holds::new(home, limits);
        let passage = self.pass(gate, request, &mut counted, &located, waited, now, &mut holds);
        let question = match passage {
            Ok(Passage::Passed) if gate.has_elsewhere() => self.question(at, gate, request, &located, now),
            Ok(Passage::Passed) => Ok(None),
            Ok(Passage::Refused(refusal)) => {
                self.return_holds(holds, now);
                return Ok(refused(refusal, counted));
            }
            Ok(Passage::Waits(flights)) => {
                self.return_holds(holds, now);
                return Ok(waits(flights, counted));
            }
            Err(error) => Err(error),
        };
        match question {
            Ok(question) => {
                if holds.limits.must_be_settled() {
                    self.lend(gate, &mut holds);
                }
                Ok(passed(gate, holds, question, counted))
            }
            Err(error) => {
                self.return_holds(holds, now);
                self.decided(None, counted, OfferOutcome::Failed);
                failed();
                Err(error)
            }
        }
    }

    /// The refusal of a request for which there is no place: by the first plane that refuses, as
    /// steps 2 to 4 would, but for what they charge and take back. Only for requests that
    /// [spend no leases](Engine::may_spend_leases): whether a lease refuses is known after it is
    /// spent.
    #[cold]
    fn refuse_unplaced(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        record: &RequestRecord,
        plane: &OverloadPlane,
        waited: Waited<'_>,
        now: Timestamp,
    ) -> Result<Refusal, RequestError> {
        if let Some(refusal) = gate.find_refusal(request.attributes, request.cost, now) {
            return Ok(refusal);
        }
        if let (Some(capacity), Some(access)) = (&self.planes.capacity, &request.access) {
            let access = access.repeated(request.attempt > 0 || waited.is_offered);
            if let Some(throttled) = capacity.locate(request.namespace, &access)?.find_refusal(now) {
                return Ok(throttled_by(gate.namespace(), &throttled, now));
            }
        }
        let (resource, level) = (record.resource(), record.level());
        let is_claimed = is_claimed(plane, resource, request, waited);
        let why = if is_claimed { PlaceRefusal::Claimed } else { PlaceRefusal::NoPlace };
        if waits_for_place(resource, request, waited, now) == WaitsForPlace::No {
            plane.overload.count_unplaced(resource, level);
        }
        let shed = plane.overload.refuse(resource, level, why);
        Ok(shed_by(gate.namespace(), &shed, request))
    }

    /// The planes after the local limits, in their order. Their charges are added to `holds`; the
    /// caller returns it unless the request has passed.
    #[expect(clippy::inline_always, reason = "as `Engine::pass_row`")]
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "what is known of the request by now, by name")]
    fn pass<'g>(
        &self,
        gate: &'g Arc<Gate>,
        request: &Request<'_>,
        counted: &mut Option<RequestRecord>,
        located: &LocatedRequest<'g>,
        waited: Waited<'_>,
        now: Timestamp,
        holds: &mut Holds,
    ) -> Result<Passage, RequestError> {
        let mut flights = Flights::new();
        if let Some(leases) = self.leases_of(gate) {
            match self.lease(leases, gate, request, located, waited, now)? {
                Leased::Held(leased, alone) => {
                    holds.leased = leased;
                    if let Some(alone) = alone {
                        holds.limits.absorb(*alone);
                        holds.is_alone = true;
                    }
                }
                Leased::Refused(refusal) => return Ok(Passage::Refused(refusal)),
                Leased::Waits(waits) => flights = waits,
            }
        }
        if let (Some(capacity), Some(access)) = (&self.planes.capacity, &request.access) {
            let access = access.repeated(request.attempt > 0 || waited.is_offered);
            let located = capacity.locate(request.namespace, &access)?;
            // Asked for even if the request waits for another lease, so that it waits once.
            let tokens = self.lease_tables(&located, TableAsk::new(gate.owner(), request, waited), now);
            holds.is_alone |= tokens.are_alone();
            flights.extend(tokens.flights);
            if !flights.is_empty() {
                self.put_back(&tokens.held, now);
                return Ok(self.wait_for_leases(holds, flights, now));
            }
            let first_of_table = holds.leased.len();
            holds.leased.extend(tokens.held);
            match located.admit(&tokens.sources, now) {
                Admission::Admit(units) => {
                    holds.units = Some(units);
                    self.renew_leases(&holds.leased[first_of_table..], now);
                }
                Admission::Throttle(throttled) => {
                    return Ok(Passage::Refused(throttled_by(gate.namespace(), &throttled, now)));
                }
            }
        }
        if !flights.is_empty() {
            return Ok(self.wait_for_leases(holds, flights, now));
        }
        let Some((plane, record)) = self.planes.overload.as_ref().zip(counted.as_mut()) else {
            return Ok(Passage::Passed);
        };
        let overload = &plane.overload;
        let shed = if !request.end_known {
            // It would keep its place: it is paced instead.
            overload.pace(record, now)
        } else if is_claimed(plane, record.resource(), request, waited) {
            let (resource, level) = (record.resource(), record.level());
            if waits_for_place(resource, request, waited, now) == WaitsForPlace::No {
                overload.count_unplaced(resource, level);
            }
            Some(overload.refuse(resource, level, PlaceRefusal::Claimed))
        } else {
            match overload.take_place(record, waits_for_place(record.resource(), request, waited, now), now) {
                Ok(permit) => {
                    holds.place = Some(Place::new(plane, permit));
                    None
                }
                Err(shed) => Some(shed),
            }
        };
        if let Some(shed) = shed {
            return Ok(Passage::Refused(shed_by(gate.namespace(), &shed, request)));
        }
        Ok(Passage::Passed)
    }

    /// A request holds nothing of its leases while it waits for others.
    #[cold]
    fn wait_for_leases(&self, holds: &mut Holds, flights: Flights, now: Timestamp) -> Passage {
        self.put_back(&core::mem::take(&mut holds.leased), now);
        Passage::Waits(flights)
    }

    /// Returns what a request holds that has not passed.
    #[cold]
    fn return_holds(&self, holds: Holds, now: Timestamp) {
        let Some(holds) = Some(holds).filter(|_| !Fault::RefusalKeepsHolds.is_planted()) else { return };
        let batch = self.take_back(holds, now);
        debug_assert!(batch.is_none(), "the store was not asked");
    }

    #[inline]
    pub(super) fn overload(&self) -> Option<&Overload> {
        self.planes.overload.as_ref().map(|plane| &plane.overload)
    }

    /// The resource of a request; `None` if the overload plane has none for it.
    #[inline]
    pub(super) fn resource_of(&self, request: &Request<'_>) -> Option<ResourceId> {
        self.overload()?.find(request.resource)
    }

    /// A request as its resource will count it; `None` without one, and without an overload plane.
    #[inline]
    pub(super) fn target_of(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Option<RequestRecord> {
        self.target_for(gate.owner(), request, now)
    }

    /// [`Engine::target_of`] for a request whose namespace has this owner.
    #[inline]
    pub(super) fn target_for(
        &self,
        owner: Owner,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Option<RequestRecord> {
        let (overload, resource) = (self.overload()?, self.resource_of(request)?);
        let namespace = u32::from(owner.get());
        let level = overload.request_level(namespace, request.class, request.tenant, now);
        Some(RequestRecord::new(resource, level))
    }

    /// Whether a request is new demand on its resource: a first attempt, or one that repeats no
    /// refusal, whatever its caller says.
    #[inline]
    pub(super) fn is_new(&self, request: &Request<'_>, record: &RequestRecord) -> bool {
        let repeats = |overload: &Overload| overload.takes_refusal(record.resource(), record.level());
        request.attempt == 0 || !self.overload().is_some_and(repeats)
    }

    /// The demand of a request that is not decided yet: what its resource counted before, with what
    /// it has counted just now.
    pub(super) fn demand(&self, before: Option<Demand>, counted: Option<RequestRecord>) -> Option<Demand> {
        let Some(record) = counted.filter(RequestRecord::is_counted) else { return before };
        match before {
            Some(before) => Some(before.served_as(&record)),
            None => Some(Demand::new(self.planes.overload.as_ref()?, record)),
        }
    }

    /// Records the final decision on a request, once: on what its resource counted before, if the
    /// request has waited, and on what it has counted just now.
    #[inline]
    pub(super) fn decided(
        &self,
        demand: Option<Demand>,
        counted: Option<RequestRecord>,
        outcome: OfferOutcome,
    ) {
        if demand.is_some() {
            if let Some(demand) = self.demand(demand, counted) {
                demand.decide(outcome);
            }
        } else if let (Some(overload), Some(record)) = (self.overload(), counted) {
            end(overload, record, outcome);
        }
    }
}

/// Whether a request waits for a place of its resource where none is free.
#[inline]
fn waits_for_place(
    resource: ResourceId,
    request: &Request<'_>,
    waited: Waited<'_>,
    now: Timestamp,
) -> WaitsForPlace {
    if waited.next_of == Some(Obstacle::Place(resource)) {
        WaitsForPlace::Called
    } else if request.may_wait_until.is_some_and(|until| until > now) {
        WaitsForPlace::IfTaken
    } else {
        WaitsForPlace::No
    }
}

/// Whether requests of the same class or a higher one wait for the places of a resource, so that a
/// free one is theirs.
#[inline]
pub(super) fn is_claimed(
    plane: &OverloadPlane,
    resource: ResourceId,
    request: &Request<'_>,
    waited: Waited<'_>,
) -> bool {
    let obstacle = Obstacle::Place(resource);
    plane.room.count() > 0
        && waited.next_of != Some(obstacle)
        && plane.room.waits_from(obstacle, request.class)
}
