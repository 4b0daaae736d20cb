//! The order in which the planes are asked, and the way back.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};
use tidegate::algorithm::Verdict;
use tidegate::gate::{CounterPlace, ExactLimit};
use tidegate::lease::Share;
use tidegate::limit::OnStoreFailure;
use tidegate::permits::retry_hint;
use tidegate::refusal::ScopeValues;
use tidegate::{Algorithm, Cost, Gate, Reason, Refusal, Retry, Timestamp, Violated};
use tidegate_capacity::Admission;
use tidegate_overload::Shed;
use tidegate_store::{Batch, HolderId, Key, Kind, Operation, RequestId, StoreError};

use super::leasing::{Leased, Waited};
use super::{Engine, EngineError, LimitReport};
use crate::decision::{
    Decision, ExactName, Home, InFlight, LeaseName, Outcome, Pending, Permit, Remote, Settled, Step,
};
use crate::leases::{Flights, Silence};
use crate::request::Request;
use crate::together::Question;

/// How long a caller is told to stay away when the store does not answer.
pub(super) const STORE_RETRY: Duration = Duration::from_secs(1);

impl Engine {
    /// Decides a request, or says what to ask the store first.
    ///
    /// An error means that it could not be decided, and that nothing was charged.
    pub fn admit(&self, request: &Request<'_>, now: Timestamp) -> Result<Step, EngineError> {
        self.admit_one(request, Waited::default(), now)
    }

    /// [`Engine::admit`] for a request that may have waited for leases.
    pub(super) fn admit_one(
        &self,
        request: &Request<'_>,
        waited: Waited<'_>,
        now: Timestamp,
    ) -> Result<Step, EngineError> {
        let refused = |refusal| Step::Decided(Decision::Refuse(refusal));
        let waits = |flights| Step::Ask(Pending(self.park(&[*request], flights, waited.rounds)));
        self.hold(request, waited, now, refused, waits, |gate, mut holds| {
            match self.question(0, gate, request, now) {
                Ok(Some(question)) => Ok(self.ask_one(holds, request, question, now)),
                Ok(None) => Ok(match self.place(&mut holds, request.namespace, request.class, now) {
                    None => Step::Decided(Decision::Admit(holds)),
                    Some(refusal) => {
                        self.let_go(holds, now);
                        refused(refusal)
                    }
                }),
                Err(error) => {
                    self.let_go(holds, now);
                    Err(error)
                }
            }
        })
    }

    /// Steps 1 to 3: what is decided without asking the store, and without waiting. Goes on with
    /// what the request then holds and the gate that gave it, or with its refusal, or with the
    /// leases it waits for; then it holds nothing.
    #[expect(clippy::inline_always, reason = "a permit is large, and is built where it is returned only so")]
    #[inline(always)]
    pub(super) fn hold<T>(
        &self,
        request: &Request<'_>,
        waited: Waited<'_>,
        now: Timestamp,
        refused: impl FnOnce(Refusal<'static>) -> T,
        waits: impl FnOnce(Flights) -> T,
        held: impl FnOnce(&Arc<Gate>, Permit) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let namespace = self.find(request.namespace)?;
        let gate = &self.gates[namespace];
        let home = Home { namespace: namespace as u32, generation: self.generation };
        self.check_table(request)?;
        // (1) Read only.
        if let Some(refusal) = self.refuse_unseen(gate, request, now) {
            return Ok(refused(refusal));
        }
        // (2) Local limits and leases.
        let limits = match gate.check(request.attributes, request.cost, now) {
            tidegate::Decision::Admit(permit) => permit,
            tidegate::Decision::Refuse(refusal) => {
                self.withdraw(request.class, request.tenant, request.cost, now);
                return Ok(refused(refusal.into_owned()));
            }
        };
        let mut holds = Permit {
            home,
            longest_hold: longest_hold(gate, &limits),
            limits,
            leased: SmallVec::new(),
            units: None,
            remote: None,
            in_flight: None,
            is_alone: false,
        };
        if let Some(leases) = self.leases_of(gate) {
            match self.lease(leases, gate, request, waited, now) {
                Ok(Leased::Held(leased, alone)) => {
                    holds.leased = leased;
                    if let Some(alone) = alone {
                        holds.limits.absorb(*alone);
                        holds.is_alone = true;
                    }
                }
                Ok(Leased::Refused(refusal)) => {
                    self.withdraw(request.class, request.tenant, request.cost, now);
                    self.let_go(holds, now);
                    return Ok(refused(*refusal));
                }
                Ok(Leased::Waits(flights)) => {
                    self.withdraw(request.class, request.tenant, request.cost, now);
                    self.let_go(holds, now);
                    return Ok(waits(flights));
                }
                Err(error) => {
                    self.let_go(holds, now);
                    return Err(error);
                }
            }
        }
        // (3) Capacity units.
        if let (Some(capacity), Some(access)) = (&self.shared.capacity, &request.access) {
            match capacity.admit(access, now) {
                Ok(Admission::Admit(units)) => holds.units = Some(units),
                Ok(Admission::Throttle(throttled)) => {
                    self.withdraw(request.class, request.tenant, request.cost, now);
                    let refusal = throttled_by(gate, &throttled);
                    self.let_go(holds, now);
                    return Ok(refused(refusal));
                }
                Err(error) => {
                    self.let_go(holds, now);
                    return Err(error.into());
                }
            }
        }
        held(gate, holds)
    }

    /// What step 4 asks the store on behalf of a request; `None` if it has no exact limits.
    #[inline]
    pub(super) fn question(
        &self,
        at: usize,
        gate: &Gate,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Option<Question>, EngineError> {
        let exact = gate.exact_limits(request.attributes, now);
        if exact.is_empty() {
            return Ok(None);
        }
        let id = self.next_batch_id();
        let mut operations = Vec::with_capacity(exact.len());
        for limit in &exact {
            let key = key_of(gate, limit).map_err(EngineError::KeyTooLong)?;
            let operation = Operation::admit(key, limit.algorithm.clone(), request.cost, HolderId(id.0));
            operations.push(if limit.is_shadow { operation.shadow() } else { operation });
        }
        Ok(Some(Question { at, id, exact: exact.iter().map(exact_name).collect(), operations }))
    }

    /// Step 5, the last: the refusal if there is no place.
    #[expect(clippy::inline_always, reason = "as `Engine::hold`")]
    #[inline(always)]
    pub(super) fn place(
        &self,
        holds: &mut Permit,
        namespace: &str,
        class: tidegate::Class,
        now: Timestamp,
    ) -> Option<Refusal<'static>> {
        let overload = self.shared.overload.as_ref()?;
        let resource = overload.find(None)?;
        match overload.acquire(resource, now) {
            Ok(permit) => {
                holds.in_flight = Some(InFlight::new(overload, permit));
                None
            }
            Err(shed) => Some(shed_by(namespace, &shed, class)),
        }
    }

    /// A denial is metered but is no demand on the system: it must not take up what the cursor lets
    /// through.
    pub(super) fn withdraw(
        &self,
        class: tidegate::Class,
        tenant: Option<&str>,
        cost: tidegate::Cost,
        offered_at: Timestamp,
    ) {
        if let Some(overload) = &self.shared.overload {
            if let Some(resource) = overload.find(None) {
                overload.withdraw(resource, class, tenant, cost, offered_at);
            }
        }
    }

    /// Gives back what a request holds for which the store was not asked.
    fn let_go(&self, holds: Permit, now: Timestamp) {
        let batch = self.take_back(holds, now);
        debug_assert!(batch.is_none(), "the store was not asked");
    }

    /// Gives back what a request holds, the last first; what the store holds is left as a batch to
    /// be sent.
    pub(super) fn take_back(&self, holds: Permit, now: Timestamp) -> Option<Batch> {
        let Permit { limits, leased, units, remote, in_flight, .. } = holds;
        drop(in_flight);
        let mut batch = None;
        if let Some(remote) = remote {
            batch = remote.batch.map(|batch| match remote.shared {
                0 => Batch::undo_of(&batch, self.next_batch_id()),
                shared => undo_beside(&batch, shared, self.next_batch_id()),
            });
            if let Some(fallback) = remote.fallback {
                fallback.take_back(&self.shared.table, now);
            }
        }
        if let (Some(units), Some(capacity)) = (units, &self.shared.capacity) {
            capacity.give_back(units, now);
        }
        if !leased.is_empty() {
            self.put_back(&leased, now);
            if let Some(leases) = &self.shared.leases {
                leased.iter().for_each(|charge| leases.return_idle(charge, now));
            }
        }
        limits.take_back(&self.shared.table, now);
        batch.filter(|batch| !batch.operations.is_empty())
    }

    /// Settles a permit: gives back what is lent, and what the outcome says. The limits it was
    /// charged to may have changed or be gone since.
    ///
    /// [`Outcome::Cancelled`] undoes what was charged. One exception: of a permit that was
    /// [admitted together] with others, an exact limit whose key another of them has charged as
    /// well is given its units back like a refund, since an undo in the store would take back what
    /// both have charged. [`Engine::settle_all`] undoes them all.
    ///
    /// [admitted together]: Engine::admit_all
    pub fn settle(&self, permit: Permit, outcome: Outcome, now: Timestamp) -> Settled {
        if outcome == Outcome::Cancelled {
            return Settled { batch: self.take_back(permit, now).map(Box::new) };
        }
        let operations = self.bring(permit, outcome, now);
        let batch = (!operations.is_empty()).then(|| Box::new(Batch::each(self.next_batch_id(), operations)));
        Settled { batch }
    }

    /// Brings what was charged here to an outcome other than [`Outcome::Cancelled`]; what the store
    /// is to do.
    pub(super) fn bring(&self, permit: Permit, outcome: Outcome, now: Timestamp) -> Vec<Operation> {
        let Permit { limits, leased, remote, .. } = permit;
        let charged = limits.cost();
        let bring = |limits: tidegate::Permit| match outcome {
            Outcome::Cost(units) => limits.settle(&self.shared.table, units, now),
            _ => {
                limits.release(now);
            }
        };
        bring(limits);
        let mut operations = match outcome {
            Outcome::Cost(units) if !leased.is_empty() => self.settle_leased(&leased, units, now),
            _ => Vec::new(),
        };
        let Some(remote) = remote else { return operations };
        remote.fallback.map(bring);
        operations
            .extend(remote.batch.iter().flat_map(|batch| settling(&batch.operations, charged, outcome)));
        operations
    }

    /// What is refused before anything is charged: a request past its deadline, or one that the
    /// cursor sheds.
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
        let resource = overload.find(None)?;
        let shed = overload.shed(
            resource,
            request.class,
            request.tenant,
            request.cost,
            request.attempt == 0,
            now,
        )?;
        Some(shed_by(gate.namespace(), &shed, request.class))
    }
}

/// A batch that takes back what one of several requests charged, and leaves the others theirs: on
/// keys that only it has charged by undoing, on those of `shared` by giving back.
fn undo_beside(charged: &Batch, shared: u64, id: RequestId) -> Batch {
    let take_back = |(at, operation): (usize, &Operation)| {
        let kind = match operation.kind {
            kind if shared >> at & 1 == 0 && kind.may_charge() => Kind::Undo { batch: charged.id },
            Kind::Check { cost } => Kind::Refund { cost },
            Kind::Acquire { holder } => Kind::Release { holder },
            _ => return None,
        };
        Some(Operation { kind, ..operation.clone() })
    };
    let operations: Vec<_> = charged.operations.iter().enumerate().filter_map(take_back).collect();
    Batch::each(id, operations.into_iter().rev())
}

/// The key of a request under an exact limit, as stores have it.
pub(super) fn key_of(gate: &Gate, limit: &ExactLimit<'_>) -> Result<Key, StoreError> {
    Key::new(gate.namespace(), limit.identity, &limit.key)
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
pub(super) fn hold_of(operation: &Operation) -> Option<Duration> {
    match (&operation.kind, &operation.algorithm) {
        (Kind::Acquire { .. }, Algorithm::Concurrency(concurrency)) => Some(concurrency.hold()),
        _ => None,
    }
}

/// The longest time that a permit of the gate's concurrency limits is held, if this permit holds
/// one.
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

/// Whether the store has charged something for an operation: for one of a shadow limit only where
/// there was room.
pub(super) fn is_charged(outcome: &tidegate_store::Outcome) -> bool {
    outcome.verdict == Verdict::Admit && outcome.counted
}

/// What blocks the keys that exceeded a limit which blocks for that; the answer then says that they
/// are blocked.
pub(super) fn block_exceeded(
    operations: &[Operation],
    exact: &[ExactName],
    outcomes: &mut [tidegate_store::Outcome],
    store_now: Timestamp,
) -> Vec<Operation> {
    let mut blocks = Vec::new();
    for ((operation, limit), outcome) in operations.iter().zip(exact).zip(outcomes) {
        if let (Some(span), Verdict::Wait { .. }, None, false) =
            (limit.block_on_exceed, outcome.verdict, outcome.blocked_until, limit.is_shadow)
        {
            let until = store_now.saturating_add(span);
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
        remaining: outcome.left(),
        reset_at: outcome.free_at(),
        window: limit.window,
        civil_zone: limit.civil_zone.clone(),
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

/// Those of some exact limits that refuse without an answer of the store.
pub(super) fn refusing_without<'a>(exact: &'a [ExactName], error: &StoreError) -> Vec<&'a ExactName> {
    let refuses = |one: &&ExactName| {
        !one.is_shadow && (!is_away(error) || one.on_store_failure == OnStoreFailure::Refuse)
    };
    exact.iter().filter(refuses).collect()
}

/// Those of some limits that are decided here while the store is away, and where: each by this
/// member's share of it.
pub(super) fn decided_here<'a>(
    engine: &Engine,
    gate: &Gate,
    exact: &'a [ExactName],
) -> (Vec<&'a ExactName>, Vec<CounterPlace>) {
    let here = |one: &&ExactName| one.on_store_failure == OnStoreFailure::Local;
    let local = exact.iter().filter(here);
    local.map(|one| (one, engine.alone_place(gate, one))).unzip()
}

/// Why a member that decides alone refuses, and when to come back: the store is missing until this
/// member alone has admitted the whole limit, and from then on it is exceeded.
pub(super) fn alone_denial(
    violated: &Violated<'_>,
    whole: u64,
    cost: Cost,
    now: Timestamp,
) -> (Reason, Retry) {
    let used = violated.limit.saturating_sub(violated.remaining);
    let is_exceeded = used.saturating_add(cost.units()) > whole;
    if is_exceeded || matches!(violated.reason, Reason::Blocked | Reason::TableFull) {
        return (violated.reason, violated.retry);
    }
    let soon = now.saturating_add(STORE_RETRY);
    let retry = match violated.retry {
        Retry::At(until) => until.min(soon),
        _ => soon,
    };
    (Reason::StoreUnavailable, Retry::At(retry))
}

/// What exact limits do while the store is away, each as its policy says; a refusal if one of them
/// refuses.
pub(super) fn charge_instead(
    engine: &Engine,
    gate: &Gate,
    exact: &[ExactName],
    error: &StoreError,
    cost: Cost,
    now: Timestamp,
) -> Result<Remote, Box<Refusal<'static>>> {
    let refusing = refusing_without(exact, error);
    if !refusing.is_empty() {
        return Err(Box::new(store_failed(gate, &refusing, error, now)));
    }
    let (local, places) = decided_here(engine, gate, exact);
    match gate.check_located(&places, cost, now) {
        Ok(permit) => {
            engine.decided_alone(gate, &permit, now);
            let reports = gate.statuses(&permit).map(LimitReport::from).collect();
            Ok(Remote { batch: None, shared: 0, fallback: Some(permit), reports })
        }
        Err(violated) => Err(Box::new(denied_alone(gate, violated, &local, error, cost, now))),
    }
}

/// The refusal by limits that this member decides alone.
pub(super) fn denied_alone(
    gate: &Gate,
    violated: Vec<(usize, Violated<'_>)>,
    local: &[&ExactName],
    error: &StoreError,
    cost: Cost,
    now: Timestamp,
) -> Refusal<'static> {
    let violated = violated.into_iter().map(|(at, one)| {
        let (reason, retry) = alone_denial(&one, local[at].limit, cost, now);
        (Violated { reason, retry, limit: local[at].limit, ..into_owned(one) }, local[at])
    });
    let mut refusal = refusal_by(gate, violated.collect());
    if refusal.reason() == Reason::StoreUnavailable {
        refusal.detail = Some(Cow::Borrowed(Silence::of(error).detail()));
    }
    refusal
}

impl Engine {
    /// Where this member counts a key while it decides alone.
    pub(super) fn alone_place(&self, gate: &Gate, limit: &ExactName) -> CounterPlace {
        let members = self.shared.members.load(Ordering::Relaxed).max(1);
        let leases = self.shared.leases.as_ref();
        let share = leases.zip(limit.lease.as_ref()).and_then(|(leases, lease)| leases.share(lease.key));
        let share = share.unwrap_or(Share { holders: members, members });
        gate.alone(limit.place, share.holders, share.members)
    }

    /// Remembers until when something counts that this member has decided alone.
    pub(super) fn decided_alone(&self, gate: &Gate, permit: &tidegate::Permit, now: Timestamp) {
        let until = gate.statuses(permit).map(|status| status.reset_at).max().unwrap_or(now);
        // Relaxed: who reads an older one leaves a count where it is, which is as if no answer had
        // come.
        self.shared.alone_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Whether something still counts that this member has decided alone.
    pub(super) fn has_decided_alone(&self, now: Timestamp) -> bool {
        // Relaxed: as where it is written.
        now.as_nanos() < self.shared.alone_until.load(Ordering::Relaxed)
    }

    /// Forgets what this member has decided alone of exact limits that the store has just decided.
    pub(super) fn forget_alone(&self, exact: &[ExactName], now: Timestamp) {
        if !self.has_decided_alone(now) {
            return;
        }
        for one in exact.iter().filter(|one| one.lease.is_none()) {
            self.shared.table.forget_key(one.place.key(), now);
        }
    }
}

pub(super) fn into_owned(violated: Violated<'_>) -> Violated<'static> {
    Violated { name: Cow::Owned(violated.name.into_owned()), ..violated }
}

fn shed_by(namespace: &str, shed: &Shed, class: tidegate::Class) -> Refusal<'static> {
    let violated = Violated {
        name: Cow::Borrowed(shed.name()),
        reason: Reason::OverloadShed,
        retry: Retry::Backoff,
        limit: shed.limit(),
        remaining: 0,
        window: None,
    };
    let scope: ScopeValues<'static> = smallvec![(Cow::Borrowed("class"), Cow::Borrowed(class.as_str()))];
    let mut refusal = Refusal::new(namespace.to_owned(), scope, violated);
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

/// Whether an exact limit that enforces refuses what it was asked.
pub(super) fn refuses(limit: &ExactName, outcome: &tidegate_store::Outcome) -> bool {
    !limit.is_shadow && outcome.verdict != Verdict::Admit
}

pub(super) fn denied_by_store(
    gate: &Gate,
    exact: &[ExactName],
    outcomes: &[tidegate_store::Outcome],
    store_now: Timestamp,
) -> Refusal<'static> {
    let mut violated: Vec<(Violated<'static>, &ExactName)> = Vec::new();
    let mut hint = None;
    for (name, outcome) in exact.iter().zip(outcomes).filter(|(name, outcome)| refuses(name, outcome)) {
        let Some((reason, retry)) = denial(name, outcome) else { continue };
        let violation = Violated {
            name: Cow::Owned(name.name.clone()),
            reason,
            retry,
            limit: name.limit,
            remaining: outcome.left(),
            window: name.window,
        };
        if reason == Reason::ConcurrencyExceeded {
            hint = Some(permit_hint(name, outcome, store_now));
        }
        violated.push((violation, name));
    }
    let mut refusal = refusal_by(gate, violated);
    refusal.retry_hint = hint.filter(|_| refusal.retry() == Retry::Backoff);
    refusal
}

/// How long a caller waits before its first retry of a request that an exact concurrency limit
/// refused: the age of the oldest permit divided by how many are held, which is how often one comes
/// back while all are given back.
fn permit_hint(limit: &ExactName, outcome: &tidegate_store::Outcome, store_now: Timestamp) -> Duration {
    let Verdict::Wait { until } = outcome.verdict else { return retry_hint(Duration::ZERO) };
    let age = limit.hold.unwrap_or_default().saturating_sub(until.saturating_since(store_now));
    let held = u32::try_from(outcome.used).unwrap_or(u32::MAX).max(1);
    retry_hint(age / held)
}

/// Why an exact limit denies, and until when, if it does.
pub(super) fn denial(limit: &ExactName, outcome: &tidegate_store::Outcome) -> Option<(Reason, Retry)> {
    match (outcome.verdict, outcome.blocked_until) {
        (_, Some(until)) => Some((Reason::Blocked, Retry::At(until))),
        (Verdict::Never { .. }, None) => Some((Reason::CostExceedsLimit, Retry::Never)),
        (Verdict::Wait { .. }, None) if limit.hold.is_some() => Some((limit.reason, Retry::Backoff)),
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
    if reason == Reason::StoreUnavailable {
        refusal.detail = Some(Cow::Borrowed(Silence::of(error).detail()));
    }
    refusal
}

/// The refusal of a request that cannot be decided any more after it has waited.
pub(super) fn undecidable(namespace: &str, why: String) -> Refusal<'static> {
    Refusal { detail: Some(Cow::Owned(why)), ..refused_by_store(namespace) }
}

/// The refusal where nobody says what refuses.
fn refused_by_store(namespace: &str) -> Refusal<'static> {
    let unknown = Violated {
        name: Cow::Borrowed("store"),
        reason: Reason::StoreUnavailable,
        retry: Retry::Backoff,
        limit: 0,
        remaining: 0,
        window: None,
    };
    Refusal::new(namespace.to_owned(), ScopeValues::new(), unknown)
}

/// The refusal by these limits, the one that binds longest first.
pub(super) fn refusal_by(
    gate: &Gate,
    mut violated: Vec<(Violated<'static>, &ExactName)>,
) -> Refusal<'static> {
    if violated.is_empty() {
        // A store that refuses must say why; one that does not is taken at its word all the same.
        return refused_by_store(gate.namespace());
    }
    // A permit that is expected back soon binds for less long than anything else.
    let binds = |one: &Violated<'_>| match one.reason {
        Reason::ConcurrencyExceeded => Retry::At(Timestamp::MIN),
        _ => one.retry,
    };
    violated.sort_by(|(one, _), (other, _)| Retry::longest_first(binds(one), binds(other)));
    let scope = violated[0].1.scope.iter();
    let scope = scope.map(|(name, value)| (Cow::Owned(name.clone()), Cow::Owned(value.clone()))).collect();
    let namespace = gate.namespace().to_owned();
    let civil_zone = violated[0].1.civil_zone.clone().map(Cow::Owned);
    let mut all = violated.into_iter().map(|(violation, _)| violation);
    let first = all.next().expect("checked above");
    let mut refusal = Refusal::new(namespace, scope, first);
    refusal.violated.extend(all);
    refusal.civil_zone = civil_zone;
    refusal
}

pub(super) fn exact_name(limit: &ExactLimit<'_>) -> ExactName {
    ExactName {
        name: limit.name.to_owned(),
        limit: limit.algorithm.limit(),
        window: limit.algorithm.window(),
        civil_zone: limit.algorithm.civil_zone().map(str::to_owned),
        reason: limit.reason,
        is_shadow: limit.is_shadow,
        on_store_failure: limit.on_store_failure,
        block_on_exceed: limit.block_on_exceed,
        place: limit.place,
        hold: match limit.algorithm {
            Algorithm::Concurrency(concurrency) => Some(concurrency.hold()),
            _ => None,
        },
        lease: limit.is_leased.then(|| {
            Box::new(LeaseName {
                key: limit.place.key(),
                algorithm: limit.algorithm.clone(),
                blocked_until: limit.blocked_until,
            })
        }),
        scope: limit.scope.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    }
}
