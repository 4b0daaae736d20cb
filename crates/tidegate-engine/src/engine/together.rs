//! Requests from their questions to the store onwards, and several of them that go ahead together
//! or not at all.
//!
//! One request is decided as several are: what follows here knows no other case. The store is asked
//! about all of them in one batch of all or nothing, as long as that has room, and what it answers
//! is split up again.

use core::mem;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tidegate::{Class, Refusal, Timestamp};
use tidegate_store::{Answer, Batch, Operation, StoreError};

use super::Engine;
use super::leasing::{Leased, Waited};
use super::order::{
    block_exceeded, charge_instead, denied_by_store, hold_of, is_charged, refuses, report_of, undecidable,
};
use crate::decision::{AfterStore, Answered, Decision, Outcome, Pending, Permit, Remote, Step};
use crate::leases::Flights;
use crate::request::{OwnedRequest, Request};
use crate::together::{
    AdmitAllError, Asked, DecisionAll, Parked, Party, PendingAll, Permits, Question, SettledAll, StepAll,
    Then, Waiting,
};

/// Refusals, each with the place of its request.
type Refused = Vec<(usize, Refusal<'static>)>;

/// How far one of several requests has come that is decided here.
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it is made")]
enum Begun {
    /// It holds what it needs, and perhaps the store is to be asked something.
    Holds(Option<Question>),
    /// It waits for leases.
    Waits(Flights),
    Refused(Refusal<'static>),
}

impl Engine {
    /// The most requests that are decided together. More are an error, and nothing is charged.
    pub const TOGETHER_MAX: usize = 128;

    /// Decides several requests together: all go ahead, or none does and nothing stays charged.
    /// None at all go ahead.
    ///
    /// Each goes through the order as it would alone, one after the other, so that two that meet on
    /// one counter are counted both. The first that is refused here ends it. The store is then
    /// asked about all of them in one batch, or in as few as there may be if they need more than
    /// [`Batch::OPERATIONS_MAX`] operations; there each request that has a violated limit has its
    /// refusal.
    ///
    /// An error names the request that could not be decided, and means that nothing was charged.
    pub fn admit_all(&self, requests: &[Request<'_>], now: Timestamp) -> Result<StepAll, AdmitAllError> {
        self.admit_after(requests, Waited::default(), now)
    }

    /// [`Engine::admit_all`] for requests that have waited for leases.
    fn admit_after(
        &self,
        requests: &[Request<'_>],
        waited: Waited<'_>,
        now: Timestamp,
    ) -> Result<StepAll, AdmitAllError> {
        if requests.len() > Self::TOGETHER_MAX {
            return Err(AdmitAllError::TooMany { given: requests.len() });
        }
        let mut permits: SmallVec<[Permit; 1]> = SmallVec::with_capacity(requests.len());
        let mut questions: SmallVec<[Question; 1]> = SmallVec::new();
        for (at, request) in requests.iter().enumerate() {
            let begun = self.hold(request, waited, now, Begun::Refused, Begun::Waits, |gate, holds| {
                permits.push(holds);
                self.question(at, gate, request, now).map(Begun::Holds)
            });
            match begun {
                Ok(Begun::Holds(question)) => questions.extend(question),
                Ok(Begun::Waits(mut flights)) => {
                    self.withdraw_all(&requests[..at], now);
                    let batches = self.take_back_all(permits, now);
                    debug_assert!(batches.is_empty(), "the store was not asked");
                    // Those that follow ask at the same time.
                    for after in &requests[at + 1..] {
                        flights.extend(self.ask_ahead(after, waited, now));
                    }
                    return Ok(StepAll::Ask(PendingAll(self.park(requests, flights, waited.rounds))));
                }
                Ok(Begun::Refused(refusal)) => {
                    self.withdraw_all(&requests[..at], now);
                    return Ok(self.refuse_all(
                        permits,
                        requests.len(),
                        vec![(at, refusal)],
                        Vec::new(),
                        now,
                    ));
                }
                Err(source) => {
                    let batches = self.take_back_all(permits, now);
                    debug_assert!(batches.is_empty(), "the store was not asked");
                    return Err(AdmitAllError::Request { at, source });
                }
            }
        }
        if questions.is_empty() {
            let about = |at: usize| (requests[at].namespace, requests[at].class);
            return Ok(self.place_all(permits, about, now));
        }
        let after = requests.iter().zip(&permits).map(|(request, permit)| self.after(permit, request, now));
        let after = after.collect();
        Ok(self.ask(Party { permits, after, questions, asked: 0..0 }, now))
    }

    /// Goes on with requests after what they waited for has come, or failed to.
    pub fn resume_all(&self, pending: PendingAll, answered: impl Into<Answered>, now: Timestamp) -> StepAll {
        self.go_on(pending.0, answered.into(), now)
    }

    /// Settles permits that were given together, all with the same outcome: as [`Engine::settle`]
    /// does each, but with as few batches as there may be, and a cancellation undoes every charge.
    pub fn settle_all(&self, permits: Permits, outcome: Outcome, now: Timestamp) -> SettledAll {
        if outcome == Outcome::Cancelled {
            return SettledAll { batches: self.take_back_all(permits.0, now) };
        }
        let mut operations: Vec<Operation> = Vec::new();
        for permit in permits {
            operations.extend(self.bring(permit, outcome, now));
        }
        let batches = operations.chunks(Batch::OPERATIONS_MAX);
        let batch = |operations: &[Operation]| Batch::each(self.next_batch_id(), operations.iter().cloned());
        SettledAll { batches: batches.map(batch).collect() }
    }

    /// Goes on with a request after what it waited for has come, or failed to.
    pub fn resume(&self, pending: Pending, answered: impl Into<Answered>, now: Timestamp) -> Step {
        match pending.0 {
            Waiting::Lease(parked) => self.begin_one_anew(&parked, now),
            waiting @ Waiting::Store(_) => one(self.go_on(waiting, answered.into(), now)),
        }
    }

    /// Lets a request ask for its leases that another makes wait; what it then waits for as well.
    fn ask_ahead(&self, request: &Request<'_>, waited: Waited<'_>, now: Timestamp) -> Flights {
        let Ok(gate) = self.gate(request.namespace) else { return Flights::new() };
        let Some(leases) = self.leases_of(gate) else { return Flights::new() };
        match self.lease(leases, gate, request, waited, now) {
            Ok(Leased::Waits(flights)) => flights,
            Ok(Leased::Held(held, alone)) => {
                if let Some(alone) = alone {
                    alone.take_back(&self.shared.table, now);
                }
                self.put_back(&held, now);
                Flights::new()
            }
            Ok(Leased::Refused(_)) | Err(_) => Flights::new(),
        }
    }

    /// Lets requests wait for leases.
    pub(super) fn park(&self, requests: &[Request<'_>], flights: Flights, rounds: u8) -> Waiting {
        let owned = |request: &Request<'_>| {
            let gate = self.gate(request.namespace);
            let namespace = gate.map_or_else(|_| request.namespace.into(), |gate| gate.shared_namespace());
            OwnedRequest::new(request, namespace)
        };
        Waiting::Lease(Box::new(Parked { requests: requests.iter().map(owned).collect(), flights, rounds }))
    }

    /// Begins anew with one request whose lease has been asked for.
    fn begin_one_anew(&self, parked: &Parked, now: Timestamp) -> Step {
        let owned = parked.requests.first().expect("one request waits");
        let attributes = owned.attributes();
        let request = owned.with(&attributes);
        // A reload may have removed its namespace or an attribute that it uses.
        self.admit_one(&request, waited(parked), now).unwrap_or_else(|error| {
            Step::Decided(Decision::Refuse(undecidable(request.namespace, error.to_string())))
        })
    }

    /// Begins anew with several.
    fn begin_anew(&self, parked: &Parked, now: Timestamp) -> StepAll {
        let attributes: SmallVec<[_; 1]> = parked.requests.iter().map(OwnedRequest::attributes).collect();
        let requests: SmallVec<[Request<'_>; 1]> =
            parked.requests.iter().zip(&attributes).map(|(one, attributes)| one.with(attributes)).collect();
        match self.admit_after(&requests, waited(parked), now) {
            Ok(step) => step,
            // A reload has removed a namespace or an attribute that they use.
            Err(error) => {
                let (at, source) = match error {
                    AdmitAllError::Request { at, source } => (at, source.to_string()),
                    other @ AdmitAllError::TooMany { .. } => (0, other.to_string()),
                };
                let mut refusals = Vec::new();
                refusals.resize_with(requests.len(), || None);
                if let Some(request) = requests.get(at) {
                    refusals[at] = Some(undecidable(request.namespace, source));
                }
                StepAll::Decided(DecisionAll::Refuse(refusals))
            }
        }
    }

    /// Asks the store about one request.
    pub(super) fn ask_one(
        &self,
        holds: Permit,
        request: &Request<'_>,
        question: Question,
        now: Timestamp,
    ) -> Step {
        let after = smallvec![self.after(&holds, request, now)];
        let party = Party { permits: smallvec![holds], after, questions: smallvec![question], asked: 0..0 };
        one(self.ask(party, now))
    }

    fn after(&self, permit: &Permit, request: &Request<'_>, now: Timestamp) -> AfterStore {
        AfterStore {
            gate: Arc::clone(&self.gates[permit.home.namespace as usize]),
            class: request.class,
            tenant: request.tenant.map(Into::into),
            cost: request.cost,
            offered_at: now,
        }
    }

    /// Step 4: one batch for all exact limits, or the next of several; step 5 if everything has
    /// been asked.
    ///
    /// What one request asks stays together, so that its refusal is whole.
    fn ask(&self, mut party: Party, now: Timestamp) -> StepAll {
        let first = party.asked.end;
        let mut until = first;
        let mut operations: Vec<Operation> = Vec::new();
        while let Some(question) = party.questions.get_mut(until) {
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
        let Some(question) = party.questions.get(first) else {
            let Party { permits, after, .. } = party;
            return self.place_all(permits, |at| (after[at].gate.namespace(), after[at].class), now);
        };
        let batch = Batch::all_or_nothing(question.id, operations);
        party.asked = first..until;
        StepAll::Ask(PendingAll(Waiting::Store(Box::new(Asked { batch, then: Then::Admit(party) }))))
    }

    fn go_on(&self, waiting: Waiting, answered: Answered, now: Timestamp) -> StepAll {
        let Asked { batch, then } = match waiting {
            Waiting::Store(asked) => *asked,
            Waiting::Lease(parked) => return self.begin_anew(&parked, now),
        };
        let answer = match answered {
            Answered::Store(answer) => answer,
            // Whoever drives the engine has not asked the store: nothing is known.
            Answered::Lease => Err(StoreError::Unavailable {
                at: "the store, which was not asked".to_owned(),
                sent: false,
                source: None,
            }),
        };
        let mut party = match then {
            Then::Admit(party) => party,
            // What could not be taken back stays charged: less is admitted, never more.
            Then::Refuse { refusals, more } => return refuse(refusals, more),
        };
        let mut blocks = Vec::new();
        let refused = match answer {
            Ok(answer) if answer.refused => {
                party.forget_alone(self, now);
                party.denied(&batch, answer, &mut blocks)
            }
            Ok(answer) => {
                party.forget_alone(self, now);
                party.charged(batch, &answer);
                Vec::new()
            }
            Err(error) => {
                let refused = party.charge_instead(self, &error, now);
                self.undo_late(&batch, &error, !refused.is_empty());
                refused
            }
        };
        if refused.is_empty() {
            return self.ask(party, now);
        }
        for one in &party.after {
            self.withdraw(one.class, one.tenant.as_deref(), one.cost, one.offered_at);
        }
        self.refuse_all(party.permits, party.after.len(), refused, blocks, now)
    }

    /// Has the store undo a batch that it may have carried out although its answer did not come in
    /// time, if its requests are refused for that. Where they are admitted all the same, what the
    /// store has charged is right.
    fn undo_late(&self, batch: &Batch, error: &StoreError, is_refused: bool) {
        if let (true, true, Some(leases)) = (error.is_outcome_unknown(), is_refused, &self.shared.leases) {
            leases.post_undo(Batch::undo_of(batch, self.next_batch_id()));
        }
    }

    fn withdraw_all(&self, requests: &[Request<'_>], now: Timestamp) {
        for one in requests {
            self.withdraw(one.class, one.tenant, one.cost, now);
        }
    }

    /// Step 5, the last, for all: `about` says the namespace and the class of the request at a
    /// place.
    fn place_all<'a>(
        &self,
        mut permits: SmallVec<[Permit; 1]>,
        about: impl Fn(usize) -> (&'a str, Class),
        now: Timestamp,
    ) -> StepAll {
        for at in 0..permits.len() {
            let (namespace, class) = about(at);
            if let Some(refusal) = self.place(&mut permits[at], namespace, class, now) {
                let count = permits.len();
                return self.refuse_all(permits, count, vec![(at, refusal)], Vec::new(), now);
            }
        }
        StepAll::Decided(DecisionAll::Admit(Permits(permits)))
    }

    /// Gives everything back, has the store do some more, and refuses.
    fn refuse_all(
        &self,
        permits: SmallVec<[Permit; 1]>,
        count: usize,
        refused: Refused,
        more: Vec<Operation>,
        now: Timestamp,
    ) -> StepAll {
        let mut batches = self.take_back_all(permits, now);
        if !more.is_empty() {
            batches.push(Batch::each(self.next_batch_id(), more));
        }
        let mut refusals = Vec::new();
        refusals.resize_with(count, || None);
        for (at, refusal) in refused {
            refusals[at] = Some(refusal);
        }
        refuse(refusals, batches.into_iter())
    }

    /// Gives back what requests hold, the last first; what the store holds is left as batches to be
    /// sent. All the requests of a batch are among them, so that the batch can be undone whole.
    fn take_back_all(&self, mut permits: SmallVec<[Permit; 1]>, now: Timestamp) -> Vec<Batch> {
        let mut charged: Vec<Batch> = Vec::new();
        for remote in permits.iter_mut().filter_map(|permit| permit.remote.as_mut()) {
            let Some(batch) = remote.batch.take() else { continue };
            match charged.last_mut() {
                Some(last) if last.id == batch.id => last.operations.extend(batch.operations),
                _ => charged.push(batch),
            }
        }
        while let Some(permit) = permits.pop() {
            let batch = self.take_back(permit, now);
            debug_assert!(batch.is_none(), "its batch is taken out");
        }
        let undo = charged.iter().rev().map(|batch| Batch::undo_of(batch, self.next_batch_id()));
        undo.filter(|undo| !undo.operations.is_empty()).collect()
    }
}

impl Party {
    /// What each of those that were asked is refused with, after the store has refused.
    fn denied(&self, batch: &Batch, mut answer: Answer, blocks: &mut Vec<Operation>) -> Refused {
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
                let gate = &self.after[question.at].gate;
                refused
                    .push((question.at, denied_by_store(gate, &question.exact, answered, answer.store_now)));
            }
        }
        if let (true, Some(first)) = (refused.is_empty(), self.questions.get(self.asked.start)) {
            // A store that refuses must say why; one that does not is taken at its word all the
            // same.
            refused.push((first.at, denied_by_store(&self.after[first.at].gate, &[], &[], answer.store_now)));
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
    fn charged(&mut self, batch: Batch, answer: &Answer) {
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
            for ((operation, is_shared), place) in asked.by_ref().take(count).zip(0..) {
                if answered.get(place).is_some_and(is_charged) {
                    // Where requests share a batch it has at most 64 operations.
                    shared |= u64::from(is_shared).checked_shl(mine.operations.len() as u32).unwrap_or(0);
                    mine.operations.push(operation);
                }
            }
            let reports = question.exact.iter().zip(answered);
            let reports = reports.map(|(name, outcome)| report_of(name, outcome)).collect();
            let permit = &mut self.permits[question.at];
            let held = mine.operations.iter().filter_map(hold_of);
            permit.longest_hold = held.chain(permit.longest_hold).max();
            permit.remote = Some(Box::new(Remote { batch: Some(mine), shared, fallback: None, reports }));
        }
    }

    /// Charges those that were asked here, as their limits say for while the store is away; the
    /// refusals of those whose limits say that they refuse, or have no room.
    fn charge_instead(&mut self, engine: &Engine, error: &StoreError, now: Timestamp) -> Refused {
        let mut refused = Vec::new();
        for question in &self.questions[self.asked.clone()] {
            let about = &self.after[question.at];
            match charge_instead(engine, &about.gate, &question.exact, error, about.cost, now) {
                Ok(remote) => self.permits[question.at].remote = Some(Box::new(remote)),
                Err(refusal) => refused.push((question.at, *refusal)),
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

/// Refuses, once the store has been told what to take back.
fn refuse(refusals: Vec<Option<Refusal<'static>>>, mut more: std::vec::IntoIter<Batch>) -> StepAll {
    match more.next() {
        None => StepAll::Decided(DecisionAll::Refuse(refusals)),
        Some(batch) => {
            let asked = Asked { batch, then: Then::Refuse { refusals, more } };
            StepAll::Ask(PendingAll(Waiting::Store(Box::new(asked))))
        }
    }
}

/// The asks that requests have waited for, as they continue.
fn waited(parked: &Parked) -> Waited<'_> {
    Waited { rounds: parked.rounds + 1, landed: &parked.flights }
}

/// The step of one request.
fn one(step: StepAll) -> Step {
    const ONE: &str = "one request has one answer";
    match step {
        StepAll::Ask(pending) => Step::Ask(Pending(pending.0)),
        StepAll::Decided(DecisionAll::Admit(Permits(permits))) => {
            Step::Decided(Decision::Admit(permits.into_iter().next().expect(ONE)))
        }
        StepAll::Decided(DecisionAll::Refuse(refusals)) => {
            Step::Decided(Decision::Refuse(refusals.into_iter().flatten().next().expect(ONE)))
        }
    }
}
