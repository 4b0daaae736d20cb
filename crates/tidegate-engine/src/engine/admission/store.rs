//! Step 5: one batch to the store for all exact limits, and what its answer leads to.
//!
//! A single request is decided like a batch of one. The store is asked about all requests in one
//! all-or-nothing batch as long as that has room, and its answer is split up again.

use core::mem;
use smallvec::{SmallVec, smallvec};
use tidegate_core::gate::LocatedRequest;
use tidegate_core::{Gate, Refusal, Timestamp};
use tidegate_overload::OfferOutcome;
use tidegate_store::{Batch, HolderId, Kind, Operation, StoreError};

use super::answer::{Answer, Mode};
use super::exact_limit::{block_exceeded, exact_name, hold_of, is_charged, key_of, refuses, report_of};
use super::located::Located;
use super::refusal::denied_by_store;
use super::store_silence::charge_instead;
use crate::continuation::{
    AfterStore, BatchAdmission, Denial, LimitQuestion, Origin, Pending, StoreQuestion, WaitableRequest,
    Waiting,
};
use crate::decision::{Decision, Refused, Step};
use crate::demand::outcome_of;
use crate::engine::Engine;
use crate::error::RequestError;
use crate::permit::{Holds, Permit, StoreCharge};
use crate::request::Request;

/// Refusals, each with the position of its request.
pub(crate) type Refusals = Vec<(usize, Refusal)>;

/// Of a request that is charged so far the question for the store. On a walk that explains, the
/// limits that the store is to be asked about.
#[expect(clippy::inline_always, reason = "most requests have nothing to ask here")]
#[inline(always)]
pub(crate) fn step(
    engine: &Engine,
    located: &mut Located<'_, '_>,
    mode: Mode,
    holds: &mut Option<Holds>,
    now: Timestamp,
) -> Answer {
    match (mode, holds) {
        (Mode::Charge, Some(holds)) => {
            let Located { request, gate: Some(gate), at, stored, question, .. } = located else {
                return Ok(());
            };
            if let Some(stored) = stored {
                *question = engine.question(*at, gate, request, stored, now)?;
            }
            if holds.limits.must_be_settled() {
                engine.lend(gate, holds);
            }
        }
        (Mode::Explain, _) => {
            let Located { request, gate: Some(gate), said: Some(said), .. } = located else {
                return Ok(());
            };
            let exact = gate.store_limits_of(request.attributes, now);
            said.looks =
                engine.operations_of(gate, &exact, now, |_| Some(Kind::Peek { cost: request.cost }))?;
            said.exact_at = exact.iter().map(|one| one.index).collect();
            said.exact = exact.iter().map(exact_name).collect();
        }
        (Mode::Charge | Mode::Look | Mode::LookAtLimits, _) => {}
    }
    Ok(())
}

impl Engine {
    /// The question of a request for the store; `None` if it has no exact limits.
    #[inline]
    pub(crate) fn question<'g>(
        &self,
        at: usize,
        gate: &'g Gate,
        request: &Request<'_>,
        located: &LocatedRequest<'g>,
        now: Timestamp,
    ) -> Result<Option<LimitQuestion>, RequestError> {
        let exact = gate.exact_limits(located, now);
        if exact.is_empty() {
            return Ok(None);
        }
        let id = self.next_batch_id();
        let mut operations = Vec::with_capacity(exact.len());
        for limit in &exact {
            let key = key_of(gate, limit).map_err(RequestError::KeyTooLong)?;
            let operation = Operation::admit(key, limit.algorithm.clone(), request.cost, HolderId(id.0));
            operations.push(if limit.is_shadow { operation.shadow() } else { operation });
        }
        Ok(Some(LimitQuestion { at, id, exact: exact.iter().map(exact_name).collect(), operations }))
    }

    /// Goes on after the store has answered, or failed to.
    pub(crate) fn resume_store(
        &self,
        asked: StoreQuestion,
        answer: Result<tidegate_store::Answer, StoreError>,
        now: Timestamp,
    ) -> Step<'static> {
        let StoreQuestion { batch, then } = asked;
        let mut admission = match then {
            AfterStore::Admit(admission) => admission,
            AfterStore::Conclude { step, more } => {
                self.send_return_again(batch, &answer);
                return conclude(*step, more);
            }
        };
        let mut blocks = Vec::new();
        let refused = match answer {
            Ok(answer) if answer.refused => {
                admission.forget_alone(self, now);
                admission.denied(&batch, answer, &mut blocks)
            }
            Ok(answer) => {
                admission.forget_alone(self, now);
                admission.charged(self, batch, &answer);
                Vec::new()
            }
            Err(error) => {
                let refused = admission.charge_instead(self, &error, now);
                self.undo_late(&batch, &error, !refused.is_empty());
                refused
            }
        };
        if refused.is_empty() {
            return ask(admission, now);
        }
        let BatchAdmission { holds, mut origins, .. } = admission;
        let returns = self.shared.room.returns();
        let mut batches = self.take_back_all(holds, now);
        // A request is not called for what it returns itself. A return of another request between
        // the two reads is missed: this request then asks again at its next instant.
        let own_returns = self.shared.room.returns().wrapping_sub(returns);
        if let Some(waitable) = origins.iter_mut().find_map(|origin| origin.waitable.as_mut()) {
            waitable.returns = waitable.returns.wrapping_add(own_returns);
        }
        if !blocks.is_empty() {
            batches.push(Batch::each(self.next_batch_id(), blocks));
        }
        let step = self.refuse_stored(&mut origins, refused, now);
        conclude(step, batches.into_iter())
    }

    /// Has the store undo a batch that it may have carried out although its answer did not come in
    /// time. Where its requests are admitted all the same, the charges of the store are right, but
    /// its permits are not: the requests return the permits that were lent here instead.
    fn undo_late(&self, batch: &Batch, error: &StoreError, is_refused: bool) {
        if error.is_outcome_unknown() {
            let mut wrong = batch.clone();
            if !is_refused {
                wrong.operations.retain(|one| matches!(one.kind, Kind::Acquire { .. }));
            }
            if !wrong.operations.is_empty() {
                self.post_undo(Batch::undo_of(&wrong, self.next_batch_id()));
            }
        }
    }

    /// Has a batch that gives something back sent again in the background, if the store failed to
    /// take it and may take it later: [`Engine::take_lease_asks`]. Without this a slot of a
    /// `concurrency` limit would stay taken for all of its `hold`.
    pub(crate) fn send_return_again(
        &self,
        batch: Batch,
        answer: &Result<tidegate_store::Answer, StoreError>,
    ) {
        if answer.as_ref().is_err_and(StoreError::is_transient) {
            self.post_undo(batch);
        }
    }

    /// Refuses requests that the store has refused; a single one that may wait does so.
    fn refuse_stored(&self, origins: &mut [Origin], mut refused: Refusals, now: Timestamp) -> Step<'static> {
        if let ([origin], [_]) = (&mut *origins, &refused[..])
            && let Some(waitable) = origin.waitable.take()
            && let Some((_, refusal)) = refused.pop()
        {
            let WaitableRequest { request, seat, returns, .. } = *waitable;
            let lists = request.lists();
            let denial =
                Denial { refusal, demand: origin.demand.take(), seat, returns, counters: None, ticket: None };
            return self.wait_or_refuse(&request.with(&lists), denial, now);
        }
        let first = refused.first().map_or(OfferOutcome::Denied, |(_, refusal)| outcome_of(refusal));
        for (at, origin) in origins.iter_mut().enumerate() {
            let own = refused.iter().find(|(of, _)| *of == at).map(|(_, refusal)| outcome_of(refusal));
            match (origin.demand.take(), own) {
                (Some(demand), Some(own)) => demand.end(own, now),
                (Some(demand), None) => demand.end_with(OfferOutcome::Denied, first.of_request(), now),
                (None, _) => {}
            }
        }
        let refused = Refused::from_batch(refused).expect("only called with a refusal");
        Step::Decided(Decision::Refuse(refused))
    }
}

/// Asks the store about as many of the questions as one batch takes; admits the requests when
/// every question has been asked.
///
/// The operations of one request stay in one batch, so that its refusal is complete.
pub(crate) fn ask(mut admission: BatchAdmission, now: Timestamp) -> Step<'static> {
    let first = admission.asked.end;
    let mut until = first;
    let mut operations: Vec<Operation> = Vec::new();
    while let Some(question) = admission.questions.get_mut(until) {
        if until > first && operations.len() + question.operations.len() > Batch::OPERATIONS_MAX {
            break;
        }
        if until == first {
            operations = mem::take(&mut question.operations);
        } else {
            operations.append(&mut question.operations);
        }
        until += 1;
    }
    let Some(question) = admission.questions.get(first) else {
        for (origin, holds) in admission.origins.iter_mut().zip(&mut admission.holds) {
            let units = holds.limits.cost().units();
            if let Some(account) = origin.demand.take().and_then(|demand| demand.admit(units, now)) {
                holds.set_account(account);
            }
            if let Some(waitable) = origin.waitable.take() {
                waitable.serve(holds, now);
            }
        }
        return Step::Decided(Decision::Admit(Permit::from_batch(admission.holds, now)));
    };
    let batch = Batch::all_or_nothing(question.id, operations);
    admission.asked = first..until;
    let asked = StoreQuestion { batch, then: AfterStore::Admit(admission) };
    Step::Ask(Pending(Waiting::Store(Box::new(asked))))
}

impl BatchAdmission {
    /// The refusal of each request in the batch, after the store has refused.
    fn denied(
        &self,
        batch: &Batch,
        mut answer: tidegate_store::Answer,
        blocks: &mut Vec<Operation>,
    ) -> Refusals {
        let mut refused = Vec::new();
        let (mut operations, mut outcomes) = (&batch.operations[..], &mut answer.outcomes[..]);
        for question in &self.questions[self.asked.clone()] {
            let count = question.exact.len();
            let (mine, rest) = operations.split_at(count.min(operations.len()));
            operations = rest;
            let (answered, rest) = outcomes.split_at_mut(count.min(outcomes.len()));
            outcomes = rest;
            blocks.extend(block_exceeded(mine, &question.exact, answered, answer.store_now));
            if question.exact.iter().zip(&*answered).any(|(limit, outcome)| refuses(limit, outcome)) {
                let gate = &self.origins[question.at].gate;
                refused
                    .push((question.at, denied_by_store(gate, &question.exact, answered, answer.store_now)));
            }
        }
        if let (true, Some(first)) = (refused.is_empty(), self.questions.get(self.asked.start)) {
            // A store that refuses must say why; one that does not is taken at its word all the
            // same.
            refused
                .push((first.at, denied_by_store(&self.origins[first.at].gate, &[], &[], answer.store_now)));
        }
        refused
    }

    /// Forgets what this member has decided alone of the limits that the store was asked about.
    fn forget_alone(&self, engine: &Engine, now: Timestamp) {
        for question in &self.questions[self.asked.clone()] {
            engine.forget_alone(&question.exact, now);
        }
    }

    /// Gives each of those that were asked its part of what the store has charged.
    fn charged(&mut self, engine: &Engine, batch: Batch, answer: &tidegate_store::Answer) {
        let Batch { id, mode, operations, .. } = batch;
        let is_shared = shared_keys(&operations, &answer.outcomes, self.asked.len());
        let mut asked = operations.into_iter().zip(is_shared);
        let mut outcomes = &answer.outcomes[..];
        for question in &self.questions[self.asked.clone()] {
            let count = question.exact.len();
            let (answered, rest) = outcomes.split_at(count.min(outcomes.len()));
            outcomes = rest;
            let mut mine = Batch { id, mode, operations: SmallVec::new(), notes: Vec::new() };
            let mut shared = 0;
            let mut lent: SmallVec<[u64; 2]> = SmallVec::new();
            let mut refund_on = SmallVec::new();
            for ((operation, is_shared), place) in asked.by_ref().take(count).zip(0..) {
                if answered.get(place).is_some_and(is_charged) {
                    if matches!(operation.kind, Kind::Acquire { .. }) {
                        lent.push(question.exact[place].place.key());
                    }
                    // Where requests share a batch it has at most 64 operations.
                    shared |= u64::from(is_shared).checked_shl(mine.operations.len() as u32).unwrap_or(0);
                    mine.operations.push(operation);
                    refund_on.push(question.exact[place].refund_on);
                }
            }
            let reports = question.exact.iter().zip(answered);
            let reports = reports.map(|(name, outcome)| report_of(name, outcome)).collect();
            let holds = self.holds[question.at].other_mut();
            if !lent.is_empty() {
                let loan = holds.rare_mut().loan.get_or_insert_with(|| engine.loan(SmallVec::new()));
                loan.keys.extend(lent);
                let held = mine.operations.iter().filter_map(hold_of);
                loan.longest_hold = held.chain(loan.longest_hold).max();
            }
            let (batch, fallback) = (Some(mine), None);
            holds.stored = Some(Box::new(StoreCharge { batch, refund_on, shared, fallback, reports }));
        }
    }

    /// Charges those that were asked here, as their limits say for while the store is away; the
    /// refusals of those whose limits say that they refuse, or have no room.
    fn charge_instead(&mut self, engine: &Engine, error: &StoreError, now: Timestamp) -> Refusals {
        let mut refused = Vec::new();
        for question in &self.questions[self.asked.clone()] {
            let about = &self.origins[question.at];
            match charge_instead(engine, &about.gate, &question.exact, error, about.cost, now) {
                Ok(stored) => self.holds[question.at].other_mut().stored = Some(Box::new(stored)),
                Err(refusal) => refused.push((question.at, refusal)),
            }
        }
        refused
    }
}

/// For each operation of a batch that `requests` have together, whether another of them has charged
/// its key as well.
fn shared_keys(
    operations: &[Operation],
    outcomes: &[tidegate_store::Outcome],
    requests: usize,
) -> SmallVec<[bool; 4]> {
    let mut shared: SmallVec<[bool; 4]> = smallvec![false; operations.len()];
    if requests < 2 {
        return shared;
    }
    // A batch has at most 64 operations. The limits of one request have different keys.
    let charged: Vec<_> =
        operations.iter().zip(outcomes).enumerate().filter(|(_, (_, one))| is_charged(one)).collect();
    for (nth, (at, (operation, _))) in charged.iter().enumerate() {
        for (other, (beside, _)) in &charged[nth + 1..] {
            if operation.key == beside.key {
                shared[*at] = true;
                shared[*other] = true;
            }
        }
    }
    shared
}

/// The step, once the store has been told what to take back.
fn conclude(step: Step<'static>, mut more: std::vec::IntoIter<Batch>) -> Step<'static> {
    match more.next() {
        None => step,
        Some(batch) => {
            let asked = StoreQuestion { batch, then: AfterStore::Conclude { step: Box::new(step), more } };
            Step::Ask(Pending(Waiting::Store(Box::new(asked))))
        }
    }
}
