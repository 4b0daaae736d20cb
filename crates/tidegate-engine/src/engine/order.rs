//! The order in which the planes are asked, and the way back.

use core::time::Duration;
use std::borrow::Cow;

use std::sync::Arc;

use smallvec::smallvec;
use tidegate::algorithm::Verdict;
use tidegate::gate::{CounterPlace, ExactLimit};
use tidegate::limit::OnStoreFailure;
use tidegate::refusal::ScopeValues;
use tidegate::{Algorithm, Cost, Gate, Reason, Refusal, Retry, Timestamp, Violated};
use tidegate_capacity::Admission;
use tidegate_overload::Shed;
use tidegate_store::{Answer, Batch, HolderId, Key, Kind, Operation, StoreError};

use super::{Engine, EngineError, LimitReport};
use crate::decision::{
    AfterStore, Decision, ExactName, Home, InFlight, Outcome, Pending, Permit, Remote, Settled, Step, Then,
};
use crate::request::Request;

/// How long a caller is told to stay away when the store does not answer.
const STORE_RETRY: Duration = Duration::from_secs(1);

impl Engine {
    /// Decides a request, or says what to ask the store first.
    ///
    /// An error means that it could not be decided, and that nothing was charged.
    pub fn admit(&self, request: &Request<'_>, now: Timestamp) -> Result<Step, EngineError> {
        let namespace = self.find(request.namespace)?;
        let gate = &self.gates[namespace];
        let home = Home { namespace: namespace as u32, generation: self.generation };
        // (1) Read only.
        if let Some(refusal) = self.refuse_unseen(gate, request, now) {
            return Ok(Step::Decided(Decision::Refuse(refusal)));
        }
        // (2) Local limits.
        let limits = match gate.check(request.attributes, request.cost, now) {
            tidegate::Decision::Admit(permit) => permit,
            tidegate::Decision::Refuse(refusal) => {
                self.withdraw(request.class, request.tenant, request.cost, now);
                return Ok(Step::Decided(Decision::Refuse(refusal.into_owned())));
            }
        };
        let mut holds = Permit {
            home,
            longest_hold: longest_hold(gate, &limits),
            limits,
            units: None,
            remote: None,
            in_flight: None,
        };
        // (3) Capacity units.
        if let (Some(capacity), Some(access)) = (&self.shared.capacity, &request.access) {
            match capacity.admit(access, now) {
                Ok(Admission::Admit(units)) => holds.units = Some(units),
                Ok(Admission::Throttle(throttled)) => {
                    self.withdraw(request.class, request.tenant, request.cost, now);
                    let refusal = throttled_by(gate, &throttled);
                    return Ok(self.refuse(gate, holds, refusal, now));
                }
                Err(error) => {
                    // Nothing of the store is held yet, so there is nothing to ask.
                    let _ = self.take_back(holds, now);
                    return Err(error.into());
                }
            }
        }
        // (4) One batch for all exact limits.
        let exact = gate.exact_limits(request.attributes, now);
        let after = AfterStore {
            class: request.class,
            tenant: if exact.is_empty() { None } else { request.tenant.map(Into::into) },
            cost: request.cost,
            offered_at: now,
        };
        if exact.is_empty() {
            return Ok(self.finish(gate, holds, request.class, now));
        }
        match self.admit_batch(gate, request, &exact) {
            Ok(batch) => {
                let exact = exact.iter().map(exact_name).collect();
                let gate = Arc::clone(gate);
                Ok(Step::Ask(Box::new(Pending { gate, batch, holds, then: Then::Admit(after), exact })))
            }
            Err(error) => {
                let _ = self.take_back(holds, now);
                Err(EngineError::KeyTooLong(error))
            }
        }
    }

    /// Goes on with a request after the store has answered, or failed to.
    pub fn resume(&self, pending: Pending, answer: Result<Answer, StoreError>, now: Timestamp) -> Step {
        let Pending { gate, batch, holds, then, exact } = pending;
        let after = match then {
            Then::Admit(after) => after,
            // What could not be taken back stays charged: less is admitted, never more.
            Then::Refuse(refusal) => return Step::Decided(Decision::Refuse(*refusal)),
        };
        let mut blocks = Vec::new();
        let remote = match answer {
            Ok(mut answer) if answer.refused => {
                blocks = block_exceeded(&batch, &exact, &mut answer);
                Err(Box::new(denied_by_store(&gate, &exact, &answer)))
            }
            Ok(answer) => Ok(charged_by_store(batch, &exact, &answer)),
            // An unknown outcome counts as charged, so the store is not asked to take anything back.
            Err(error) => charge_instead(&gate, &exact, &error, after.cost, now),
        };
        match remote {
            Ok(remote) => {
                let held = remote.batch.iter().flat_map(|batch| &batch.operations).filter_map(hold_of);
                let holds = Permit {
                    longest_hold: held.chain(holds.longest_hold).max(),
                    remote: Some(Box::new(remote)),
                    ..holds
                };
                self.finish(&gate, holds, after.class, now)
            }
            Err(refusal) => {
                self.withdraw(after.class, after.tenant.as_deref(), after.cost, after.offered_at);
                self.refuse_and(&gate, holds, *refusal, blocks, now)
            }
        }
    }

    /// Step 5, the last.
    fn finish(&self, gate: &Arc<Gate>, mut holds: Permit, class: tidegate::Class, now: Timestamp) -> Step {
        if let Some(overload) = &self.shared.overload {
            match overload.acquire(now) {
                Ok(permit) => holds.in_flight = Some(InFlight::new(overload, permit)),
                Err(shed) => {
                    let refusal = shed_by(gate, &shed, class);
                    return self.refuse(gate, holds, refusal, now);
                }
            }
        }
        Step::Decided(Decision::Admit(holds))
    }

    /// A denial is metered but is no demand on the system: it must not take up what the cursor lets through.
    fn withdraw(
        &self,
        class: tidegate::Class,
        tenant: Option<&str>,
        cost: tidegate::Cost,
        offered_at: Timestamp,
    ) {
        if let Some(overload) = &self.shared.overload {
            overload.withdraw(class, tenant, cost, offered_at);
        }
    }

    /// Gives everything back, and refuses.
    fn refuse(&self, gate: &Arc<Gate>, holds: Permit, refusal: Refusal<'static>, now: Timestamp) -> Step {
        self.refuse_and(gate, holds, refusal, Vec::new(), now)
    }

    /// Gives everything back, has the store do some more, and refuses.
    fn refuse_and(
        &self,
        gate: &Arc<Gate>,
        holds: Permit,
        refusal: Refusal<'static>,
        more: Vec<Operation>,
        now: Timestamp,
    ) -> Step {
        let home = holds.home;
        let mut batch = self.take_back(holds, now);
        if !more.is_empty() {
            batch.get_or_insert_with(|| Batch::each(self.next_batch_id(), [])).operations.extend(more);
        }
        match batch {
            None => Step::Decided(Decision::Refuse(refusal)),
            Some(batch) => Step::Ask(Box::new(Pending {
                batch,
                holds: Permit {
                    home,
                    limits: gate.empty_permit(now),
                    units: None,
                    remote: None,
                    in_flight: None,
                    longest_hold: None,
                },
                gate: Arc::clone(gate),
                then: Then::Refuse(Box::new(refusal)),
                exact: Vec::new(),
            })),
        }
    }

    /// Gives back what a request holds, the last first; what the store holds is left as a batch to be sent.
    fn take_back(&self, holds: Permit, now: Timestamp) -> Option<Batch> {
        let Permit { limits, units, remote, in_flight, .. } = holds;
        drop(in_flight);
        let mut batch = None;
        if let Some(remote) = remote {
            batch = remote.batch.map(|batch| Batch::undo_of(&batch, self.next_batch_id()));
            if let Some(fallback) = remote.fallback {
                fallback.take_back(&self.shared.table, now);
            }
        }
        if let (Some(units), Some(capacity)) = (units, &self.shared.capacity) {
            capacity.give_back(units, now);
        }
        limits.take_back(&self.shared.table, now);
        batch.filter(|batch| !batch.operations.is_empty())
    }

    /// Settles a permit: gives back what is lent, and what the outcome says. The limits it was charged to may have changed
    /// or be gone since.
    pub fn settle(&self, permit: Permit, outcome: Outcome, now: Timestamp) -> Settled {
        if outcome == Outcome::Cancelled {
            return Settled { batch: self.take_back(permit, now).map(Box::new) };
        }
        let Permit { limits, remote, .. } = permit;
        let charged = limits.cost();
        let bring = |limits: tidegate::Permit| match outcome {
            Outcome::Cost(units) => limits.settle(&self.shared.table, units, now),
            _ => {
                limits.release(now);
            }
        };
        bring(limits);
        let mut operations = Vec::new();
        if let Some(remote) = remote {
            remote.fallback.map(bring);
            operations =
                remote.batch.map_or(operations, |batch| settling(&batch.operations, charged, outcome));
        }
        let batch = (!operations.is_empty()).then(|| Box::new(Batch::each(self.next_batch_id(), operations)));
        Settled { batch }
    }

    /// The batch that charges the exact limits of a request.
    fn admit_batch(
        &self,
        gate: &Gate,
        request: &Request<'_>,
        exact: &[ExactLimit<'_>],
    ) -> Result<Batch, StoreError> {
        let id = self.next_batch_id();
        let mut operations = Vec::with_capacity(exact.len());
        for limit in exact {
            let key = key_of(gate, limit)?;
            let operation = Operation::admit(key, limit.algorithm.clone(), request.cost, HolderId(id.0));
            operations.push(if limit.is_shadow { operation.shadow() } else { operation });
        }
        Ok(Batch::all_or_nothing(id, operations))
    }

    /// What is refused before anything is charged: a request past its deadline, or one that the cursor sheds.
    fn refuse_unseen(&self, gate: &Gate, request: &Request<'_>, now: Timestamp) -> Option<Refusal<'static>> {
        if request.deadline.is_some_and(|deadline| deadline <= now) {
            let violated = Violated {
                name: Cow::Borrowed("deadline"),
                reason: Reason::DeadlineUnmeetable,
                retry: Retry::Never,
                limit: 0,
                remaining: 0,
                window: None,
            };
            return Some(Refusal::new(request.namespace.to_owned(), ScopeValues::new(), violated));
        }
        let overload = self.shared.overload.as_ref()?;
        let shed = overload.admit_read_only(request.class, request.tenant, request.cost, now)?;
        Some(shed_by(gate, &shed, request.class))
    }
}

/// The key of a request under an exact limit, as stores have it.
pub(super) fn key_of(gate: &Gate, limit: &ExactLimit<'_>) -> Result<Key, StoreError> {
    Key::new(gate.namespace(), &limit.identity, &limit.key)
}

/// What brings charges in a store, each of `cost`, to what the request truly cost.
pub(super) fn settling(charged: &[Operation], cost: Cost, outcome: Outcome) -> Vec<Operation> {
    let units = match outcome {
        Outcome::Cost(true_units) => {
            let surplus =
                Cost::new(cost.units().saturating_sub(true_units)).map(|cost| Kind::Refund { cost });
            let rest =
                || Cost::new(true_units.saturating_sub(cost.units())).map(|cost| Kind::Report { cost });
            surplus.or_else(rest)
        }
        Outcome::Cancelled => Some(Kind::Refund { cost }),
        Outcome::Succeeded | Outcome::Failed => None,
    };
    let kind = |operation: &Operation| match operation.kind {
        Kind::Acquire { holder } => Some(Kind::Release { holder }),
        Kind::Check { .. } => units,
        _ => None,
    };
    charged.iter().filter_map(|one| Some(Operation { kind: kind(one)?, ..one.clone() })).collect()
}

/// How long an operation holds a permit, if it does.
fn hold_of(operation: &Operation) -> Option<Duration> {
    match (&operation.kind, &operation.algorithm) {
        (Kind::Acquire { .. }, Algorithm::Concurrency(concurrency)) => Some(concurrency.hold()),
        _ => None,
    }
}

/// The longest time that a permit of the gate's concurrency limits is held, if this permit holds one.
fn longest_hold(gate: &Gate, permit: &tidegate::Permit) -> Option<Duration> {
    if !permit.must_be_settled() {
        return None;
    }
    let holds = gate.limits().filter_map(|limit| match &limit.algorithm {
        Algorithm::Concurrency(concurrency) => Some(concurrency.hold()),
        _ => None,
    });
    holds.max()
}

/// What an admitted request holds in the store: the operations that charged something, of a shadow limit only where there
/// was room.
fn charged_by_store(mut batch: Batch, exact: &[ExactName], answer: &Answer) -> Remote {
    let reports =
        exact.iter().zip(&answer.outcomes).map(|(name, outcome)| report_of(name, outcome)).collect();
    let mut outcomes = answer.outcomes.iter();
    batch.operations.retain(|_| {
        outcomes.next().is_some_and(|outcome| outcome.verdict == Verdict::Admit && outcome.counted)
    });
    Remote { batch: Some(batch), fallback: None, reports }
}

/// What blocks the keys that exceeded a limit which blocks for that; the answer then says that they are blocked.
fn block_exceeded(batch: &Batch, exact: &[ExactName], answer: &mut Answer) -> Vec<Operation> {
    let mut blocks = Vec::new();
    let now = answer.store_now;
    for ((operation, limit), outcome) in batch.operations.iter().zip(exact).zip(&mut answer.outcomes) {
        if let (Some(span), Verdict::Wait { .. }, None, false) =
            (limit.block_on_exceed, outcome.verdict, outcome.blocked_until, limit.is_shadow)
        {
            let until = now.saturating_add(span);
            outcome.blocked_until = Some(until);
            blocks.push(Operation { kind: Kind::Block { until }, ..operation.clone() });
        }
    }
    blocks
}

/// What an exact limit has left.
pub(super) fn report_of(limit: &ExactName, outcome: &tidegate_store::Outcome) -> LimitReport {
    LimitReport {
        name: limit.name.clone(),
        limit: limit.limit,
        remaining: outcome.remaining,
        reset_at: outcome.reset_at,
        window: limit.window,
        shadow_refused: limit.is_shadow && outcome.verdict != Verdict::Admit,
    }
}

/// Whether an error says that the store is away, so that limits may go on without it.
pub(super) fn is_away(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Unavailable { .. }
            | StoreError::Timeout { .. }
            | StoreError::Conflict { .. }
            | StoreError::DataLost { .. }
    )
}

/// What exact limits do while the store is away, each as its policy says; a refusal if one of them refuses.
fn charge_instead(
    gate: &Gate,
    exact: &[ExactName],
    error: &StoreError,
    cost: Cost,
    now: Timestamp,
) -> Result<Remote, Box<Refusal<'static>>> {
    let refuses = |one: &&ExactName| {
        !one.is_shadow && (!is_away(error) || one.on_store_failure == OnStoreFailure::Refuse)
    };
    let refusing: Vec<&ExactName> = exact.iter().filter(refuses).collect();
    if !refusing.is_empty() {
        return Err(Box::new(store_failed(gate, &refusing, error, now)));
    }
    let local: Vec<&ExactName> =
        exact.iter().filter(|one| one.on_store_failure == OnStoreFailure::Local).collect();
    let places: Vec<CounterPlace> = local.iter().map(|one| one.place).collect();
    match gate.check_located(&places, cost, now) {
        Ok(permit) => {
            let reports = gate.statuses(&permit).map(LimitReport::from).collect();
            Ok(Remote { batch: None, fallback: Some(permit), reports })
        }
        Err(violated) => {
            let violated = violated.into_iter().map(|(at, one)| (into_owned(one), local[at])).collect();
            Err(Box::new(refusal_by(gate, violated)))
        }
    }
}

pub(super) fn into_owned(violated: Violated<'_>) -> Violated<'static> {
    Violated { name: Cow::Owned(violated.name.into_owned()), ..violated }
}

fn shed_by(gate: &Gate, shed: &Shed, class: tidegate::Class) -> Refusal<'static> {
    let violated = Violated {
        name: Cow::Borrowed(shed.name()),
        reason: Reason::OverloadShed,
        retry: Retry::Backoff,
        limit: shed.limit(),
        remaining: 0,
        window: None,
    };
    let scope: ScopeValues<'static> = smallvec![(Cow::Borrowed("class"), Cow::Borrowed(class.as_str()))];
    let mut refusal = Refusal::new(gate.namespace().to_owned(), scope, violated);
    refusal.retry_hint = Some(shed.retry_after_hint());
    refusal
}

fn throttled_by(gate: &Gate, throttled: &tidegate_capacity::Throttled<'_>) -> Refusal<'static> {
    let violated = Violated {
        name: Cow::Owned(throttled.table.to_owned()),
        reason: throttled.reason,
        retry: Retry::At(throttled.retry),
        limit: throttled.limit.whole_left(),
        remaining: throttled.remaining.whole_left(),
        window: None,
    };
    let partition = Cow::Owned(throttled.partition.to_string());
    let scope: ScopeValues<'static> = smallvec![(Cow::Borrowed("partition"), partition)];
    Refusal::new(gate.namespace().to_owned(), scope, violated)
}

pub(super) fn denied_by_store(gate: &Gate, exact: &[ExactName], answer: &Answer) -> Refusal<'static> {
    let mut violated: Vec<(Violated<'static>, &ExactName)> = Vec::new();
    for (position, outcome) in answer.violated() {
        let Some(name) = exact.get(position).filter(|name| !name.is_shadow) else { continue };
        let Some((reason, retry)) = denial(name, outcome) else { continue };
        let violation = Violated {
            name: Cow::Owned(name.name.clone()),
            reason,
            retry,
            limit: name.limit,
            remaining: outcome.remaining,
            window: name.window,
        };
        violated.push((violation, name));
    }
    refusal_by(gate, violated)
}

/// Why an exact limit denies, and until when, if it does.
pub(super) fn denial(limit: &ExactName, outcome: &tidegate_store::Outcome) -> Option<(Reason, Retry)> {
    match (outcome.verdict, outcome.blocked_until) {
        (_, Some(until)) => Some((Reason::Blocked, Retry::At(until))),
        (Verdict::Never { .. }, None) => Some((Reason::CostExceedsLimit, Retry::Never)),
        (Verdict::Wait { until }, None) => Some((limit.reason, Retry::At(until))),
        (Verdict::Admit, None) => None,
    }
}

/// The reason for which exact limits refuse where the store does not answer, and when to come back.
pub(super) fn failure(error: &StoreError, now: Timestamp) -> (Reason, Retry) {
    match error {
        StoreError::Full { until } => (Reason::TableFull, Retry::At(*until)),
        _ => (Reason::StoreUnavailable, Retry::At(now.saturating_add(STORE_RETRY))),
    }
}

pub(super) fn store_failed(
    gate: &Gate,
    exact: &[&ExactName],
    error: &StoreError,
    now: Timestamp,
) -> Refusal<'static> {
    let (reason, retry) = failure(error, now);
    let violated = exact.iter().map(|name| {
        let violation = Violated {
            name: Cow::Owned(name.name.clone()),
            reason,
            retry,
            limit: name.limit,
            remaining: 0,
            window: name.window,
        };
        (violation, *name)
    });
    let mut refusal = refusal_by(gate, violated.collect());
    refusal.detail = Some(Cow::Borrowed("the store that decides this limit did not answer"));
    refusal
}

/// The refusal by these limits, the one that binds longest first.
pub(super) fn refusal_by(
    gate: &Gate,
    mut violated: Vec<(Violated<'static>, &ExactName)>,
) -> Refusal<'static> {
    if violated.is_empty() {
        // A store that refuses must say why; one that does not is taken at its word all the same.
        let unknown = Violated {
            name: Cow::Borrowed("store"),
            reason: Reason::StoreUnavailable,
            retry: Retry::Backoff,
            limit: 0,
            remaining: 0,
            window: None,
        };
        return Refusal::new(gate.namespace().to_owned(), ScopeValues::new(), unknown);
    }
    violated.sort_by(|(one, _), (other, _)| Retry::longest_first(one.retry, other.retry));
    let scope = violated[0].1.scope.iter();
    let scope = scope.map(|(name, value)| (Cow::Owned(name.clone()), Cow::Owned(value.clone()))).collect();
    let namespace = gate.namespace().to_owned();
    let mut all = violated.into_iter().map(|(violation, _)| violation);
    let first = all.next().expect("checked above");
    let mut refusal = Refusal::new(namespace, scope, first);
    refusal.violated.extend(all);
    refusal
}

pub(super) fn exact_name(limit: &ExactLimit<'_>) -> ExactName {
    ExactName {
        name: limit.name.to_owned(),
        limit: limit.algorithm.limit(),
        window: limit.algorithm.window(),
        reason: limit.reason,
        is_shadow: limit.is_shadow,
        on_store_failure: limit.on_store_failure,
        block_on_exceed: limit.block_on_exceed,
        place: limit.place,
        scope: limit.scope.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    }
}
