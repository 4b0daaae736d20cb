//! Limits that arrive with the request, decided here or in the store.
//!
//! Quotas, of an hour or longer, are decided by the store where there is one, so that they outlive
//! this process; rates are decided here, unless several members share the store. The store is asked
//! first only after the limits that are decided here were found to admit, and these are charged
//! when it has answered.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tidegate_capacity::Capacity;
use tidegate_core::algorithm::Verdict;
use tidegate_core::{
    Algorithm, Carried, CarriedFeature, CarriedLimit, CarriedStatus, Charging, Cost, Refusal, RequestOutcome,
    Retry, Timestamp,
};
use tidegate_overload::{OfferOutcome, RequestRecord};
use tidegate_store::{Answer, Batch, Key, Kind, Operation, Outcome, StoreError};

use super::answer::{Mode, Stop};
use super::metered::OfferedRequest;
use super::waited::Waited;
use crate::demand::{Demand, outcome_of};
use crate::engine::{Engine, Shared};
use crate::error::RequestError;
use crate::meter::OpenMeterAccount;
use crate::permit::Holds;
use crate::progress::{Progress, StoreStep};
use crate::request::Request;

/// Carried limits that outlive their caller's borrow.
struct Owned {
    namespace: String,
    limits: Vec<OwnedLimit>,
}

struct OwnedLimit {
    key: Vec<Vec<u8>>,
    algorithm: Algorithm,
    cost: u64,
    is_remote: bool,
}

impl Owned {
    /// The result of `act` on the limits that are decided here.
    fn with_local<R>(&self, act: impl FnOnce(&[CarriedLimit<'_>]) -> R) -> R {
        let local: Vec<_> = self.limits.iter().filter(|one| !one.is_remote).collect();
        let keys: Vec<Vec<&[u8]>> =
            local.iter().map(|one| one.key.iter().map(Vec::as_slice).collect()).collect();
        let limits = local.iter().zip(&keys).map(|(one, key)| CarriedLimit {
            key: Cow::Borrowed(key.as_slice()),
            algorithm: Cow::Borrowed(&one.algorithm),
            cost: one.cost,
        });
        act(&limits.collect::<Vec<_>>())
    }

    /// The statuses of all limits in their order, of those that are decided here and of the others.
    fn merged(&self, local: Carried, remote: Vec<CarriedStatus>) -> Carried {
        let (mut here, mut there) = (local.limits.into_iter(), remote.into_iter());
        let statuses: SmallVec<[CarriedStatus; 1]> = self
            .limits
            .iter()
            .filter_map(|one| if one.is_remote { there.next() } else { here.next() })
            .collect();
        Carried {
            is_admitted: statuses.iter().all(|one| one.verdict == Verdict::Admit),
            limits: statuses,
            ..Carried::default()
        }
    }
}

impl Engine {
    /// Charges limits that arrived with a request, as `charging` says, after the other planes have
    /// admitted the request: the admission cursor of its resource, and the capacity of its table.
    /// Nothing reports the end of its work, so it takes no place in flight. The namespace need not
    /// be one of the policy's, and of one that is, the limits are not looked at.
    ///
    /// [`Charging::Always`] is for work that is done already, and a cost of 0 only looks: neither
    /// asks the other planes. An error means that nothing was charged, except one of the store,
    /// whose outcome may be unknown.
    ///
    /// The meter counts limits that are charged each by itself as a request each, others as one
    /// request, and those that are charged always as reported units.
    pub fn carry(
        &self,
        request: &Request<'_>,
        limits: &[CarriedLimit<'_>],
        charging: Charging,
        now: Timestamp,
    ) -> Result<Progress<Carried>, RequestError> {
        if self.metering().is_none() {
            return self.carry_offered(request, limits, charging, now);
        }
        let open = self.open_carried(request, limits, charging, now);
        let begun = self.carry_offered(request, limits, charging, now);
        Progress::finally(begun, now, move |carried, now| {
            open.decide(&carried, now);
            carried
        })
    }

    /// [`Engine::carry`] for a request that its caller has [offered](Engine::offer) to the meter,
    /// which counts nothing else of it.
    pub fn carry_offered(
        &self,
        request: &Request<'_>,
        limits: &[CarriedLimit<'_>],
        charging: Charging,
        now: Timestamp,
    ) -> Result<Progress<Carried>, RequestError> {
        self.check_table(request)?;
        let asks_planes =
            self.planes.overload.is_some() || request.access.is_some() || request.deadline.is_some();
        if !asks_planes || charging == Charging::Always || limits.iter().all(|limit| limit.cost == 0) {
            return self.carry_limits(request.namespace, limits, charging, now);
        }
        let cost = limits.iter().fold(0_u64, |sum, limit| sum.saturating_add(limit.cost));
        let request = request.cost(Cost::new(cost).unwrap_or(Cost::ONE)).end_unknown();
        let (waited, mut holds) = (Waited::default(), None);
        let mut located = self.locate_beside_limits(&request, &waited, now);
        let answer = self.walk(&mut located, Mode::Charge, &mut holds, now);
        let (capacity, shared) = (self.planes.capacity.clone(), Arc::clone(&self.shared));
        let demand = self.planes.overload.as_ref().zip(located.record.filter(RequestRecord::is_counted));
        let demand = demand.and_then(|(plane, record)| {
            // The meter counts each limit as a request.
            Demand::new(Some((Arc::clone(plane), record)), OpenMeterAccount::NOTHING, now)
        });
        let feature = holds.as_ref().and_then(|holds| self.granted(holds));
        let feature = feature.map(|one| CarriedFeature { name: one.name.into(), level: one.level.into() });
        let hold = CarriedHold { capacity, shared, demand, holds, taken_at: now };
        let refusal = match answer {
            Ok(()) => None,
            Err(Stop::Refuse(by_plane)) => {
                let refusal = located.refused(by_plane).into_refusal();
                Some(self.deferred(refusal, &request, now))
            }
            Err(Stop::Fail(error)) => {
                hold.decide(OfferOutcome::Failed, now);
                return Err(*error);
            }
            Err(Stop::Wait(_)) => unreachable!("leases are asked at once"),
        };
        let Some(refusal) = refusal else {
            let begun = self.carry_limits(request.namespace, limits, charging, now);
            return Progress::finally(begun, now, move |mut carried, now| {
                match &mut carried {
                    Ok(carried) if is_charged(carried, charging) => {
                        carried.feature = feature;
                        hold.admit(now);
                    }
                    Ok(_) => hold.decide(OfferOutcome::Denied, now),
                    Err(_) => hold.decide(OfferOutcome::Failed, now),
                }
                carried
            });
        };
        let looks: Vec<_> = limits.iter().map(|limit| CarriedLimit { cost: 0, ..limit.clone() }).collect();
        let looked = self.carry_limits(request.namespace, &looks, Charging::AllOrNone, now);
        Progress::finally(looked, now, move |looked, now| {
            hold.decide(looked.as_ref().map_or(OfferOutcome::Failed, |_| outcome_of(&refusal)), now);
            looked.map(|looked| refused_by_plane(looked, refusal, now))
        })
    }

    /// [`Engine::carry`] without the other planes.
    fn carry_limits(
        &self,
        namespace: &str,
        limits: &[CarriedLimit<'_>],
        charging: Charging,
        now: Timestamp,
    ) -> Result<Progress<Carried>, RequestError> {
        if !limits.iter().any(|limit| self.is_remote(limit)) {
            return Ok(Progress::Done(self.shared.table.carry(namespace, limits, charging, now)?));
        }
        let mut operations = Vec::new();
        for limit in limits.iter().filter(|limit| self.is_remote(limit)) {
            let kind = match (Cost::new(limit.cost), charging) {
                (None, _) => Kind::Peek { cost: Cost::ONE },
                (Some(cost), Charging::Always) => Kind::Report { cost },
                (Some(cost), _) => Kind::Check { cost },
            };
            operations.push(operation(namespace, limit, kind)?);
        }
        let owned = self.owned(namespace, limits);
        let id = self.next_batch_id();
        if charging != Charging::AllOrNone {
            return Ok(Progress::ask(Batch::each(id, operations), move |step, batch| {
                let remote = statuses(&owned, &batch, &step.answer.map_err(RequestError::Store)?);
                let table = &step.engine.shared.table;
                let local =
                    owned.with_local(|limits| table.carry(&owned.namespace, limits, charging, step.now))?;
                Ok(Progress::Done(owned.merged(local, remote)))
            }));
        }
        let local = owned.with_local(|limits| self.shared.table.peek_carried(namespace, limits, now))?;
        if !local.is_admitted {
            // The answer of the store no longer matters, except as information for the caller.
            let peeks = operations.into_iter().map(|one| Operation {
                kind: match one.kind {
                    Kind::Check { cost } => Kind::Peek { cost },
                    other => other,
                },
                ..one
            });
            return Ok(Progress::ask(Batch::each(id, peeks), move |step, batch| {
                let remote = statuses(&owned, &batch, &step.answer.map_err(RequestError::Store)?);
                Ok(Progress::Done(owned.merged(local, remote)))
            }));
        }
        Ok(Progress::ask(Batch::all_or_nothing(id, operations), move |step, batch| {
            carry_all(&owned, step, &batch, local)
        }))
    }

    /// Gives the cost of a limit that arrives with the request back, never more than is used; what
    /// it says then.
    pub fn refund_carried(
        &self,
        namespace: &str,
        limit: &CarriedLimit<'_>,
        now: Timestamp,
    ) -> Result<Progress<CarriedStatus>, RequestError> {
        let cost = Cost::new(limit.cost);
        if !self.is_remote(limit) {
            let status = self.shared.table.refund_carried(namespace, limit, now)?;
            self.meter_refund_carried(namespace, cost, now);
            return Ok(Progress::Done(status));
        }
        let kind = cost.map_or(Kind::Peek { cost: Cost::ONE }, |cost| Kind::Refund { cost });
        let operation = operation(namespace, limit, kind)?;
        let owned = self.owned(namespace, core::slice::from_ref(limit));
        Ok(Progress::ask(Batch::each(self.next_batch_id(), [operation]), move |step, batch| {
            let answer = step.answer.map_err(RequestError::Store)?;
            step.engine.meter_refund_carried(&owned.namespace, cost, step.now);
            let status = statuses(&owned, &batch, &answer).pop();
            status.map(Progress::Done).ok_or_else(|| RequestError::Store(no_outcome()))
        }))
    }

    /// Forgets what is used of a limit that arrives with the request, here and in the store,
    /// whatever its numbers; whether anything was.
    pub fn reset_carried(
        &self,
        namespace: &str,
        limit: &CarriedLimit<'_>,
        now: Timestamp,
    ) -> Result<Progress<bool>, RequestError> {
        if !self.shared.config.asks_store {
            return Ok(Progress::Done(self.shared.table.reset_carried(namespace, limit, now)));
        }
        let mut operations = Vec::new();
        for identity in limit.identities() {
            for kind in [Kind::Peek { cost: Cost::ONE }, Kind::Reset] {
                operations.push(operation_on(key_of(namespace, &identity, limit)?, limit, kind));
            }
        }
        let batch = Batch::each(self.next_batch_id(), operations);
        let owned = Owned { limits: vec![owned_limit(limit, false)], namespace: namespace.to_owned() };
        Ok(Progress::ask(batch, move |step, _| {
            let answer = step.answer.map_err(RequestError::Store)?;
            let was_stored = answer.outcomes.iter().any(|one| one.used > 0);
            let table = &step.engine.shared.table;
            let was_here = owned.with_local(|limits| {
                limits.iter().any(|limit| table.reset_carried(&owned.namespace, limit, step.now))
            });
            Ok(Progress::Done(was_stored || was_here))
        }))
    }

    fn is_remote(&self, limit: &CarriedLimit<'_>) -> bool {
        // Where members share the store, what a caller brings is promised by all of them together.
        self.shared.config.asks_store && (limit.algorithm.is_quota() || self.shared.has_shared_store())
    }

    fn owned(&self, namespace: &str, limits: &[CarriedLimit<'_>]) -> Owned {
        let limits = limits.iter().map(|limit| owned_limit(limit, self.is_remote(limit))).collect();
        Owned { namespace: namespace.to_owned(), limits }
    }
}

/// Requests with carried limits, as the meter counts them until they are decided. Dropped before,
/// they are cancelled.
///
/// Limits that are charged each by itself are a request each.
struct OpenCarried {
    /// Empty for a look.
    requests: SmallVec<[OfferedRequest; 1]>,
    is_each: bool,
}

impl OpenCarried {
    fn decide(self, carried: &Result<Carried, RequestError>, now: Timestamp) {
        for (at, request) in self.requests.into_iter().enumerate() {
            let outcome = match carried {
                Err(RequestError::Store(_)) => RequestOutcome::Unavailable,
                Err(_) => RequestOutcome::Failed,
                Ok(carried) => outcome_of_carried(carried, self.is_each.then_some(at)),
            };
            request.decide(outcome, now);
        }
    }
}

/// The outcome of a request with carried limits: for all limits, or for the one at a position.
fn outcome_of_carried(carried: &Carried, at: Option<usize>) -> RequestOutcome {
    let of_limit = |status: &CarriedStatus| match status.verdict {
        Verdict::Admit => RequestOutcome::Admitted,
        _ if status.is_table_full => RequestOutcome::Unavailable,
        Verdict::Wait { .. } | Verdict::Never { .. } => RequestOutcome::Denied,
    };
    match (&carried.refusal, at.and_then(|at| carried.limits.get(at))) {
        (Some(by_plane), _) => RequestOutcome::of_refusal(by_plane.reason()),
        (None, Some(status)) => of_limit(status),
        (None, None) if carried.is_admitted => RequestOutcome::Admitted,
        (None, None) => {
            let mut all = carried.limits.iter().map(of_limit);
            all.find(|one| *one == RequestOutcome::Unavailable).unwrap_or(RequestOutcome::Denied)
        }
    }
}

impl Engine {
    /// Counts units that a limit which arrived with a request has got back.
    fn meter_refund_carried(&self, namespace: &str, cost: Option<Cost>, now: Timestamp) {
        if let Some(cost) = cost {
            self.meter_refund(&Request::new(namespace, ()).cost(cost), now);
        }
    }

    /// Offers requests with carried limits to the meter; work that is reported counts at once.
    fn open_carried(
        &self,
        request: &Request<'_>,
        limits: &[CarriedLimit<'_>],
        charging: Charging,
        now: Timestamp,
    ) -> OpenCarried {
        let is_each = charging == Charging::Each;
        let all = limits.iter().map(|limit| limit.cost).fold(0_u64, u64::saturating_add);
        let offer = |units| self.offer(request, now).with_units(units);
        let requests = match (charging, Cost::new(all)) {
            (_, None) => SmallVec::new(),
            (Charging::Always, Some(cost)) => {
                self.meter_report(&request.cost(cost), now);
                SmallVec::new()
            }
            (Charging::AllOrNone, Some(_)) => smallvec![offer(all)],
            (Charging::Each, Some(_)) => limits.iter().map(|limit| offer(limit.cost)).collect(),
        };
        OpenCarried { requests, is_each }
    }
}

/// The holds of a request with carried limits in the other planes until it is decided. Dropped
/// before, everything is returned.
struct CarriedHold {
    capacity: Option<Arc<Capacity>>,
    shared: Arc<Shared>,
    demand: Option<Demand>,
    holds: Option<Holds>,
    taken_at: Timestamp,
}

impl CarriedHold {
    /// The request was admitted: its units stay charged.
    fn admit(mut self, now: Timestamp) {
        self.holds = None;
        self.decide(OfferOutcome::Admitted, now);
    }

    /// Records the outcome; units that are still held are returned.
    fn decide(mut self, outcome: OfferOutcome, now: Timestamp) {
        if let Some(demand) = self.demand.take() {
            demand.end(outcome, now);
        }
    }
}

impl Drop for CarriedHold {
    fn drop(&mut self) {
        let mut holds = self.holds.take();
        let Some(other) = holds.as_mut().and_then(Holds::known_other_mut) else { return };
        if let (Some(units), Some(capacity)) = (other.units.take(), &self.capacity) {
            capacity.give_back(units, self.taken_at);
        }
        if let Some(ticket) = other.rare.as_mut().and_then(|rare| rare.ticket.take()) {
            ticket.give_back();
        }
        if let Some(leases) = self.shared.leases() {
            other.leased.iter().rev().for_each(|charge| leases.undo(charge, self.taken_at));
            other.leased.iter().for_each(|charge| leases.return_idle(charge, self.taken_at));
        }
    }
}

/// Whether anything was charged.
fn is_charged(carried: &Carried, charging: Charging) -> bool {
    match charging {
        Charging::Each => carried.limits.iter().any(|status| status.verdict == Verdict::Admit),
        Charging::AllOrNone | Charging::Always => carried.is_admitted,
    }
}

/// The answer of limits that were only looked at because another plane refuses.
fn refused_by_plane(mut carried: Carried, refusal: Refusal, now: Timestamp) -> Carried {
    let until = match refusal.retry() {
        Retry::At(at) => at,
        _ => now.saturating_add(refusal.retry_hint.unwrap_or(Duration::from_secs(1))),
    };
    for status in &mut carried.limits {
        status.verdict = Verdict::Wait { until };
    }
    Carried { is_admitted: false, refusal: Some(refusal), ..carried }
}

fn owned_limit(limit: &CarriedLimit<'_>, is_remote: bool) -> OwnedLimit {
    OwnedLimit {
        key: limit.key.iter().map(|part| part.to_vec()).collect(),
        algorithm: limit.algorithm.clone().into_owned(),
        cost: limit.cost,
        is_remote,
    }
}

/// Goes on after the store has charged its limits, or refused: charges those that are decided here,
/// and if they refuse by now, has the store take back what it charged.
fn carry_all(
    owned: &Owned,
    step: StoreStep<'_>,
    batch: &Batch,
    looked: Carried,
) -> Result<Progress<Carried>, RequestError> {
    let answer = step.answer.map_err(RequestError::Store)?;
    let remote = statuses(owned, batch, &answer);
    if answer.refused {
        return Ok(Progress::Done(owned.merged(looked, remote)));
    }
    let table = &step.engine.shared.table;
    let charge =
        |limits: &[CarriedLimit<'_>]| table.carry(&owned.namespace, limits, Charging::AllOrNone, step.now);
    let local = owned.with_local(charge)?;
    let is_admitted = local.is_admitted;
    let carried = owned.merged(local, remote);
    let undo = Batch::undo_of(batch, step.engine.next_batch_id());
    if is_admitted || undo.operations.is_empty() {
        return Ok(Progress::Done(carried));
    }
    // A charge that could not be taken back stays: less is admitted, never more.
    Ok(Progress::ask(undo, move |_, _| Ok(Progress::Done(carried))))
}

fn key_of(namespace: &str, identity: &[u8], limit: &CarriedLimit<'_>) -> Result<Key, RequestError> {
    Key::new(namespace, identity, &limit.key_bytes()).map_err(RequestError::KeyTooLong)
}

/// The question to the store about the counter of a limit.
fn operation(namespace: &str, limit: &CarriedLimit<'_>, kind: Kind) -> Result<Operation, RequestError> {
    Ok(operation_on(key_of(namespace, &limit.identity(), limit)?, limit, kind))
}

fn operation_on(key: Key, limit: &CarriedLimit<'_>, kind: Kind) -> Operation {
    Operation::new(key, limit.algorithm.clone().into_owned(), kind).keeping_instant()
}

/// The status of each limit that the store was asked about.
fn statuses(owned: &Owned, batch: &Batch, answer: &Answer) -> Vec<CarriedStatus> {
    let remote = owned.limits.iter().filter(|one| one.is_remote);
    let asked = remote.zip(&batch.operations).zip(&answer.outcomes);
    asked
        .map(|((limit, operation), outcome)| status(limit, operation.kind, outcome, answer.store_now))
        .collect()
}

fn status(limit: &OwnedLimit, kind: Kind, outcome: &Outcome, now: Timestamp) -> CarriedStatus {
    let is_over = outcome.used > outcome.limit;
    let verdict = match kind {
        Kind::Check { .. } => outcome.verdict,
        // A look at what is used, not at whether there is room for one more.
        Kind::Peek { .. } if limit.cost > 0 => outcome.verdict,
        _ if !is_over => Verdict::Admit,
        _ if limit.cost > outcome.limit => Verdict::Never { largest: outcome.limit },
        _ => Verdict::Wait { until: limit.algorithm.room_at(limit.cost, outcome.reset_at).max(now) },
    };
    CarriedStatus {
        verdict,
        is_table_full: false,
        limit: outcome.limit,
        used: outcome.used,
        remaining: outcome.left(),
        reset_at: outcome.free_at(),
        window: limit.algorithm.window(),
    }
}

/// A store that leaves operations unanswered keeps no contract.
fn no_outcome() -> StoreError {
    StoreError::Unsupported { what: "an outcome for each operation".to_owned() }
}
