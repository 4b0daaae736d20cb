//! Several requests that are admitted together or not at all, and going on after a wait.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tidegate_core::{RequestOutcome, Timestamp};
use tidegate_overload::OfferOutcome;
use tidegate_store::StoreError;

use super::answer::{Mode, Stop};
use super::refusal::undecidable;
use super::store::{Refusals, ask};
use super::waited::Waited;
use crate::BATCH_REQUESTS_MAX;
use crate::continuation::{Answered, BatchAdmission, LimitQuestion, Origin, Parked, Pending, Waiting};
use crate::decision::{BatchError, Decision, Refused, Step};
use crate::demand::{Demand, outcome_of, outcome_of_error};
use crate::engine::Engine;
use crate::fault::Fault;
use crate::leases::Flights;
use crate::permit::Holds;
use crate::request::{OwnedRequest, Request};
use crate::waiting_room::Seat;

/// The demand of each request of a batch, if it was offered.
type Demands = SmallVec<[Option<Demand>; 1]>;

impl Engine {
    /// Decides several requests together: all go ahead, or none does and nothing stays charged.
    /// Without any, all go ahead.
    ///
    /// Each goes through the planes as it would alone, one after the other, so that two requests on
    /// one counter are both counted. The first that is refused here ends it. The store is then
    /// asked about all of them in one batch, or in as few as possible if they need more than
    /// [`Batch::OPERATIONS_MAX`](tidegate_store::Batch::OPERATIONS_MAX) operations; there each
    /// request with a violated limit gets its refusal.
    ///
    /// An error names the request that could not be decided, and means that nothing was charged.
    /// More than [`BATCH_REQUESTS_MAX`] requests are an error.
    pub fn admit_all(&self, requests: &[Request<'_>], now: Timestamp) -> Result<Step<'static>, BatchError> {
        self.admit_after(requests, Waited::default(), Demands::new(), now)
    }

    /// [`Engine::admit_all`] for requests that have waited for leases. `demands` are what they were
    /// offered as then.
    fn admit_after(
        &self,
        requests: &[Request<'_>],
        waited: Waited<'_>,
        mut demands: Demands,
        now: Timestamp,
    ) -> Result<Step<'static>, BatchError> {
        if requests.len() > BATCH_REQUESTS_MAX {
            return Err(BatchError::TooMany { given: requests.len() });
        }
        demands.resize_with(requests.len(), || None);
        let mut passed: SmallVec<[Holds; 1]> = SmallVec::with_capacity(requests.len());
        let mut origins: SmallVec<[Origin; 1]> = SmallVec::with_capacity(requests.len());
        let mut questions: SmallVec<[LimitQuestion; 1]> = SmallVec::new();
        for (at, request) in requests.iter().enumerate() {
            // Those that were offered have their demand; the others have not come that far before.
            let is_offered = demands[at].as_ref().is_some_and(Demand::is_counted);
            let waited = Waited { is_offered, ..waited };
            let mut by_limits = None;
            let stop = match self.gate_of(request) {
                Ok((gate, issuer)) => {
                    let mut located = self.locate(request, (gate, issuer), &waited, now);
                    located.at = at;
                    let mut holds = None;
                    let answer = self.walk(&mut located, Mode::Charge, &mut holds, now);
                    demands[at] = self.demand(demands[at].take(), &located, now);
                    match answer {
                        Ok(()) => {
                            let (demand, gate) = (demands[at].take(), Arc::clone(gate));
                            origins.push(Origin { gate, cost: request.cost, demand, waitable: None });
                            questions.extend(located.question);
                            passed.extend(holds);
                            continue;
                        }
                        Err(stop) => {
                            by_limits = located.refused.take();
                            stop
                        }
                    }
                }
                Err(error) => error.into(),
            };
            // Those before it have passed, and return everything.
            let passed = if Fault::BatchKept.is_planted() { SmallVec::new() } else { passed };
            let batches = self.take_back_all(passed, now);
            debug_assert!(batches.is_empty(), "the store was not asked");
            for (demand, origin) in demands.iter_mut().zip(origins) {
                *demand = origin.demand.map(Demand::unserved);
            }
            // Those that follow were not asked, and end with it. After a wait the request itself
            // may not have been asked either: its caller is answered a refusal, and no error.
            let is_answered = waited.rounds > 0 && matches!(stop, Stop::Fail(_));
            let first_unasked = if is_answered { at } else { at + 1 };
            let end = |demands: Demands, own: OfferOutcome, outcome: RequestOutcome| {
                for ((place, demand), request) in demands.into_iter().enumerate().zip(requests) {
                    match demand {
                        Some(demand) => demand.end_with(own, outcome, now),
                        None if place >= first_unasked => {
                            drop(self.meter_decided(&self.offered_by(request, now), outcome));
                        }
                        None => {}
                    }
                }
            };
            return match stop {
                Stop::Fail(source) => {
                    let outcome = outcome_of_error(waited.rounds > 0);
                    end(demands, outcome, outcome.of_request());
                    Err(BatchError::Request { at, source: *source })
                }
                Stop::Wait(mut flights) => {
                    // Those that follow ask at the same time.
                    for after in &requests[at + 1..] {
                        flights.extend(self.ask_ahead(after, waited, now));
                    }
                    let owned = requests.iter().map(|request| self.own(request)).collect();
                    let rounds = waited.rounds;
                    let parked = Parked { requests: owned, flights, rounds, demands, seat: None };
                    Ok(Step::Ask(Pending(Waiting::Lease(Box::new(parked)))))
                }
                Stop::Refuse(by_plane) => {
                    let refusal = Refused::by(by_plane, by_limits).into_refusal();
                    let refusal = self.deferred(refusal, &requests[at], now);
                    let outcome = outcome_of(&refusal);
                    if let Some(demand) = demands[at].take() {
                        demand.end(outcome, now);
                    }
                    end(demands, OfferOutcome::Denied, outcome.of_request());
                    Ok(refuse(vec![(at, refusal)]))
                }
            };
        }
        Ok(ask(BatchAdmission { holds: passed, origins, questions, asked: 0..0 }, now))
    }

    /// Goes on with requests after what they waited for has come, or failed to.
    pub fn resume(&self, pending: Pending, answered: impl Into<Answered>, now: Timestamp) -> Step<'static> {
        match (pending.0, answered.into()) {
            (Waiting::Store(asked), Answered::Store(answer)) => self.resume_store(*asked, answer, now),
            // The driver has not asked the store: nothing is known.
            (Waiting::Store(asked), Answered::Lease | Answered::Turn) => {
                self.resume_store(*asked, Err(StoreError::NotAsked), now)
            }
            (Waiting::Lease(parked), _) => self.begin_anew(*parked, now),
            (Waiting::Turn(queued), _) => self.resume_turn(*queued, now),
        }
    }

    /// Lets one request wait for leases.
    pub(crate) fn park_one(
        &self,
        request: &Request<'_>,
        flights: Flights,
        rounds: u8,
        demand: Option<Demand>,
        seat: Option<Seat>,
    ) -> Waiting {
        let requests = smallvec![self.own(request)];
        Waiting::Lease(Box::new(Parked { requests, flights, rounds, demands: smallvec![demand], seat }))
    }

    /// The request as it outlives its caller's borrow.
    fn own(&self, request: &Request<'_>) -> OwnedRequest {
        let gate = self.gate(request.namespace);
        let namespace = gate.map_or_else(|_| request.namespace.into(), |gate| gate.shared_namespace());
        OwnedRequest::new(request, namespace)
    }

    /// Begins anew with requests whose leases have been asked for.
    fn begin_anew(&self, parked: Parked, now: Timestamp) -> Step<'static> {
        let Parked { requests: owned, flights, rounds, mut demands, seat } = parked;
        let lists: SmallVec<[_; 1]> = owned.iter().map(OwnedRequest::lists).collect();
        let requests: SmallVec<[Request<'_>; 1]> =
            owned.iter().zip(&lists).map(|(one, lists)| one.with(lists)).collect();
        let waited = Waited { rounds: rounds + 1, landed: &flights, is_offered: false, ..Waited::default() };
        let step = match &requests[..] {
            [request] => {
                let demand = demands.pop().flatten();
                let waited = Waited { is_offered: true, ..waited };
                // A request without `may_wait_until` is refused at the point where others wait.
                let step = self.admit_patient(request, waited, demand, seat, None, now);
                step.map_err(|source| BatchError::Request { at: 0, source })
            }
            requests => self.admit_after(requests, waited, demands, now),
        };
        // A reload may have removed a namespace or an attribute that they use.
        step.unwrap_or_else(|error| {
            let (at, why) = match error {
                BatchError::Request { at, source } => (at, source.to_string()),
                other @ BatchError::TooMany { .. } => (0, other.to_string()),
            };
            let namespace = requests.get(at).map_or("", |request| request.namespace);
            refuse(vec![(at, undecidable(namespace, why))])
        })
    }
}

fn refuse(refusals: Refusals) -> Step<'static> {
    let refused = Refused::from_batch(refusals).expect("only called with a refusal");
    Step::Decided(Decision::Refuse(refused))
}
