//! Admission: the walk of the planes that every request makes, and the way back.
//!
//! 1. Read only: the deadline, the ticket, the level of the feature, the admission cursor.
//! 2. Local limits, then leases; charged.
//! 3. Capacity units, charged.
//! 4. A place in flight. Where none is free at step 1, steps 2 and 3 are looked at only.
//! 5. One batch to the store for all exact limits; the place is held meanwhile.
//!
//! Each plane is one module with one function `step`, which [`Engine::walk`] calls and nobody else.

pub(crate) mod answer;
pub(crate) mod batch;
mod capacity;
mod carried;
mod cursor;
mod deadline;
pub(crate) mod deferral;
#[cfg(test)]
mod even_cost;
pub(crate) mod exact_limit;
mod feature;
pub(crate) mod leases;
mod limits;
pub(crate) mod located;
pub(crate) mod metered;
mod permit_store;
mod place;
pub(crate) mod queue;
pub(crate) mod refusal;
pub(crate) mod rehearsal;
mod settlement;
pub(crate) mod store;
pub(crate) mod store_silence;
mod table_tokens;
pub(crate) mod ticket;
pub(crate) mod waited;

use core::mem::ManuallyDrop;
use std::sync::Arc;

use smallvec::smallvec;
use tidegate_core::{Gate, RequestOutcome, Timestamp};
use tidegate_overload::{OfferOutcome, Overload, RequestRecord};

use self::answer::{Answer, Mode, Stop, WalkStep};
use self::located::Located;
use self::store::ask;
use self::waited::Waited;
use crate::continuation::{BatchAdmission, LimitQuestion, Origin, Pending, WaitableRequest};
use crate::decision::{Decision, Refused, Step};
use crate::demand::{Demand, end, outcome_of};
use crate::engine::Engine;
use crate::error::RequestError;
use crate::fault::Fault;
use crate::meter::MeterAccount;
use crate::meter_rows::Offered;
use crate::permit::{BesideLimits, Holds, IssuingGate, Permit};
use crate::request::Request;

/// Why a request that has passed holds something.
pub(crate) const PASSED: &str = "the local limits give every request that passes its holds";

impl Engine {
    /// Asks the planes, in their order. A request that has passed holds what they have charged;
    /// after a stop it holds nothing.
    ///
    /// Ending what its resource has counted is up to the caller.
    #[expect(clippy::inline_always, reason = "one copy for each mode, of which each has less to do")]
    #[inline(always)]
    pub(crate) fn walk<'a>(
        &'a self,
        located: &mut Located<'_, 'a>,
        mode: Mode,
        holds: &mut Option<Holds>,
        now: Timestamp,
    ) -> Answer {
        let stop = 'planes: {
            if let Err(stop) = deadline::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Deadline, stop, mode, located)
            {
                break 'planes stop;
            }
            if let Err(stop) = ticket::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Ticket, stop, mode, located)
            {
                break 'planes stop;
            }
            if let Err(stop) = feature::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Feature, stop, mode, located)
            {
                break 'planes stop;
            }
            if let Err(stop) = cursor::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Cursor, stop, mode, located)
            {
                break 'planes stop;
            }
            #[cfg(test)]
            if let Err(stop) = even_cost::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Cursor, stop, mode, located)
            {
                break 'planes stop;
            }
            let mode = place::mode_by_place(self, located, mode);
            if let Err(stop) = limits::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Limits, stop, mode, located)
            {
                break 'planes stop;
            }
            if mode == Mode::LookAtLimits {
                return Ok(());
            }
            if let Err(stop) = leases::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Leases, stop, mode, located)
            {
                break 'planes stop;
            }
            if let Err(stop) = capacity::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Capacity, stop, mode, located)
            {
                break 'planes stop;
            }
            if let Err(stop) = place::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Place, stop, mode, located)
            {
                break 'planes stop;
            }
            if let Err(stop) = store::step(self, located, mode, holds, now)
                && let Err(stop) = heard(WalkStep::Store, stop, mode, located)
            {
                break 'planes stop;
            }
            return Ok(());
        };
        if let Some(holds) = holds.take() {
            self.return_holds(holds, now);
        }
        Err(stop)
    }

    /// Decides a request, or says what to ask the store first.
    ///
    /// An error means that it could not be decided, and that nothing was charged.
    #[expect(clippy::inline_always, reason = "as `Gate::check`")]
    #[inline(always)]
    pub fn admit<'a>(&'a self, request: &Request<'a>, now: Timestamp) -> Result<Step<'a>, RequestError> {
        if request.may_wait_until.is_some() {
            return self.admit_patient(request, Waited::default(), None, None, None, now);
        }
        let found = self.gate_called(request.namespace)?;
        if request.brings_only_limits() && self.only_limits_decide && !found.0.has_store_limits() {
            return self.admit_by_limits(request, found, now);
        }
        self.admit_by_walk(request, found, now)
    }

    /// Apart, so that requests of which only limits have something to say need none of its room.
    #[inline(never)]
    fn admit_by_walk<'a>(
        &'a self,
        request: &Request<'a>,
        found: (&'a Arc<Gate>, IssuingGate),
        now: Timestamp,
    ) -> Result<Step<'a>, RequestError> {
        self.check_table(request)?;
        let waited = Waited::default();
        let mut located = self.locate(request, found, &waited, now);
        let mut holds = None;
        let answer = self.walk(&mut located, Mode::Charge, &mut holds, now);
        match answer {
            Ok(()) => {
                let Some(question) = located.question.take() else {
                    self.count_admitted(&located, &mut holds, None, now);
                    return Ok(Step::Decided(Decision::Admit(Permit::of_one(holds.expect(PASSED)))));
                };
                let origin = self.origin(&located, found.0, None, None, now);
                Ok(ask_about_one(question, holds.expect(PASSED), origin, now))
            }
            Err(Stop::Refuse(Some(refusal))) => {
                let is_deferrable = deferral::is_deferrable(refusal.reason());
                let refusal = if is_deferrable { self.deferred(refusal, request, now) } else { refusal };
                self.decided(None, &located, outcome_of(&refusal), now);
                Ok(Step::Decided(Decision::Refuse(Refused::from(refusal))))
            }
            Err(Stop::Refuse(None)) => {
                let refused = located.refused(None);
                // Only the limits leave a refusal unread.
                let outcome = refused.offer_outcome();
                self.decided(None, &located, outcome, now);
                Ok(Step::Decided(Decision::Refuse(refused)))
            }
            Err(Stop::Wait(flights)) => {
                let demand = self.demand(None, &located, now);
                Ok(Step::Ask(Pending(self.park_one(request, flights, waited.rounds, demand, None))))
            }
            Err(Stop::Fail(error)) => {
                self.decided(None, &located, OfferOutcome::Failed, now);
                Err(*error)
            }
        }
    }

    /// The walk where only the limits have something to say: one step. The answer is built where it
    /// is returned, since it is large to move.
    #[expect(clippy::inline_always, reason = "as it is returned, it is not moved")]
    #[inline(always)]
    fn admit_by_limits<'a>(
        &'a self,
        request: &Request<'a>,
        (gate, issuer): (&'a Arc<Gate>, IssuingGate),
        now: Timestamp,
    ) -> Result<Step<'a>, RequestError> {
        gate.check_then(
            request.attributes,
            request.cost,
            now,
            #[inline(always)]
            |decision| match decision {
                tidegate_core::Decision::Admit(limits) if limits.must_be_settled() => {
                    let mut first = Holds::new(issuer, limits);
                    self.lend(gate, &mut first);
                    if let Some(metering) = self.metering() {
                        let outcome = RequestOutcome::Admitted;
                        let account = metering.decided_by_limits(request, issuer.namespace, outcome, now);
                        first.set_account(account);
                    }
                    Ok(Step::Decided(Decision::Admit(Permit::of_one(first))))
                }
                tidegate_core::Decision::Admit(limits) => {
                    let Some(metering) = self.metering() else {
                        return Ok(Step::Decided(Decision::Admit(Permit::of_one(Holds::new(
                            issuer, limits,
                        )))));
                    };
                    // Counting does not panic: what is held needs no room to be dropped from.
                    let limits = ManuallyDrop::new(limits);
                    let namespace = issuer.namespace;
                    if request.has_no_names() {
                        let key = metering.admitted_without_names(request, namespace);
                        let (limits, beside) = (ManuallyDrop::into_inner(limits), BesideLimits::Key(key));
                        let holds = Holds { issuer, limits, beside };
                        return Ok(Step::Decided(Decision::Admit(Permit::of_one(holds))));
                    }
                    let link = metering.admitted_with_names(request, namespace, now);
                    let (limits, beside) = (ManuallyDrop::into_inner(limits), BesideLimits::Link(link));
                    let holds = Holds { issuer, limits, beside };
                    Ok(Step::Decided(Decision::Admit(Permit::of_one(holds))))
                }
                tidegate_core::Decision::Refuse(unread) => {
                    let Some(metering) = self.metering() else {
                        return Ok(Step::Decided(Decision::Refuse(Refused::from(unread))));
                    };
                    let unread = ManuallyDrop::new(unread);
                    metering.refused_by_limits(request, issuer.namespace, unread.outcome(), now);
                    let unread = ManuallyDrop::into_inner(unread);
                    Ok(Step::Decided(Decision::Refuse(Refused::from(unread))))
                }
            },
        )
    }

    /// Counts a request as admitted that has passed, and about which the store is not asked.
    #[expect(clippy::inline_always, reason = "as `Engine::walk`")]
    #[inline(always)]
    pub(crate) fn count_admitted(
        &self,
        located: &Located<'_, '_>,
        holds: &mut Option<Holds>,
        demand: Option<Demand>,
        now: Timestamp,
    ) {
        if let Some(account) = self.decided(demand, located, OfferOutcome::Admitted, now)
            && let Some(holds) = holds
        {
            holds.set_account(account);
        }
    }

    /// The request that a question for the store is about. `waitable` is how it waits if the store
    /// refuses it.
    pub(crate) fn origin(
        &self,
        located: &Located<'_, '_>,
        gate: &Arc<Gate>,
        demand: Option<Demand>,
        waitable: Option<Box<WaitableRequest>>,
        now: Timestamp,
    ) -> Origin {
        let demand = self.demand(demand, located, now);
        Origin { gate: Arc::clone(gate), cost: located.request.cost, demand, waitable }
    }

    /// Returns what a request holds that has not passed.
    #[cold]
    fn return_holds(&self, holds: Holds, now: Timestamp) {
        let Some(holds) = Some(holds).filter(|_| !Fault::RefusalKeepsHolds.is_planted()) else { return };
        let batch = self.take_back(holds, now);
        debug_assert!(batch.is_none(), "the store was not asked");
    }

    #[inline]
    pub(crate) fn overload(&self) -> Option<&Overload> {
        self.planes.overload.as_ref().map(|plane| &plane.overload)
    }

    /// The demand of a request that is not decided yet: what was counted of it before, with what
    /// its resource has counted just now. With a meter every such request has one.
    pub(crate) fn demand(
        &self,
        before: Option<Demand>,
        located: &Located<'_, '_>,
        now: Timestamp,
    ) -> Option<Demand> {
        self.demand_of(before, &located.offered(now), located.record)
    }

    /// [`Engine::demand`] of a request whose resource has counted this.
    pub(crate) fn demand_of(
        &self,
        before: Option<Demand>,
        of: &Offered<'_, '_>,
        counted: Option<RequestRecord>,
    ) -> Option<Demand> {
        let plane = self.planes.overload.as_ref();
        let counted = plane.zip(counted.filter(RequestRecord::is_counted));
        match (before, counted) {
            (Some(before), Some((plane, record))) => Some(before.counted_as(plane, record)),
            (Some(before), None) => Some(before),
            (None, counted) => {
                let counted = counted.map(|(plane, record)| (Arc::clone(plane), record));
                Demand::new(counted, self.meter_offered(of), of.now)
            }
        }
    }

    /// Records the final decision on a request, once: on what was counted of it before, if the
    /// request has waited, and on what its resource has counted just now. Returns the account of
    /// the meter.
    #[expect(clippy::inline_always, reason = "as `Engine::walk`, most of whose requests do not wait")]
    #[inline(always)]
    pub(crate) fn decided(
        &self,
        demand: Option<Demand>,
        located: &Located<'_, '_>,
        outcome: OfferOutcome,
        now: Timestamp,
    ) -> Option<MeterAccount> {
        match demand {
            None => self.decided_at_once(located, outcome, now),
            before => self.decided_later(before, located, outcome, now),
        }
    }

    /// [`Engine::decided`] of a request that has not waited.
    #[expect(clippy::inline_always, reason = "as `Engine::decided`")]
    #[inline(always)]
    fn decided_at_once(
        &self,
        located: &Located<'_, '_>,
        outcome: OfferOutcome,
        now: Timestamp,
    ) -> Option<MeterAccount> {
        if let (Some(overload), Some(record)) = (self.overload(), located.record) {
            end(overload, record, outcome);
        }
        // Nothing is put together without a meter.
        self.metering()?;
        self.meter_decided(&located.offered(now), outcome.of_request())
    }

    /// [`Engine::decided`] of a request that has waited, for a place or for the store.
    #[inline(never)]
    fn decided_later(
        &self,
        before: Option<Demand>,
        located: &Located<'_, '_>,
        outcome: OfferOutcome,
        now: Timestamp,
    ) -> Option<MeterAccount> {
        let demand = self.demand(before, located, now)?;
        if outcome == OfferOutcome::Admitted {
            return demand.admit(located.request.cost.units(), now);
        }
        demand.end(outcome, now);
        None
    }
}

/// Asks the store about a single request: like about a batch of one.
pub(crate) fn ask_about_one(
    question: LimitQuestion,
    holds: Holds,
    origin: Origin,
    now: Timestamp,
) -> Step<'static> {
    let (holds, origins, questions) = (smallvec![holds], smallvec![origin], smallvec![question]);
    ask(BatchAdmission { holds, origins, questions, asked: 0..0 }, now)
}

/// Takes in why a plane stops a request: on a walk that explains, a refusal is kept and does not
/// end it.
#[expect(clippy::inline_always, reason = "a refusal is large, and is built where it is returned only so")]
#[inline(always)]
fn heard(from: WalkStep, stop: Stop, mode: Mode, located: &mut Located<'_, '_>) -> Answer {
    match (stop, mode, &mut located.said) {
        (Stop::Refuse(Some(refusal)), Mode::Explain, Some(said)) => {
            said.refusals.push((from, refusal));
            Ok(())
        }
        (stop, ..) => Err(stop),
    }
}
