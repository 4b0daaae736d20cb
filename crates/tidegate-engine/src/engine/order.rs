//! The order in which the planes are asked, and the way back.

use core::time::Duration;
use std::borrow::Cow;

use smallvec::smallvec;
use tidegate::gate::ExactLimit;
use tidegate::refusal::ScopeValues;
use tidegate::{Algorithm, Reason, Refusal, Retry, Timestamp, Violated};
use tidegate_capacity::Admission;
use tidegate_overload::Shed;
use tidegate_store::{Answer, Batch, HolderId, Key, Operation, StoreError};

use super::{Engine, EngineError, LimitReport};
use crate::decision::{
    AfterStore, Decision, ExactName, InFlight, Outcome, Pending, Permit, Remote, Settled, Step, Then,
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
        // (1) Read only.
        if let Some(refusal) = self.refuse_unseen(request, now) {
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
            namespace,
            longest_hold: self.longest_hold(namespace, &limits),
            limits,
            units: None,
            remote: None,
            in_flight: None,
        };
        // (3) Capacity units.
        if let (Some(capacity), Some(access)) = (&self.capacity, &request.access) {
            match capacity.admit(access, now) {
                Ok(Admission::Admit(units)) => holds.units = Some(units),
                Ok(Admission::Throttle(throttled)) => {
                    self.withdraw(request.class, request.tenant, request.cost, now);
                    let refusal = self.throttled(namespace, &throttled);
                    return Ok(self.refuse(holds, refusal, now));
                }
                Err(error) => {
                    // Nothing of the store is held yet, so there is nothing to ask.
                    let _ = self.take_back(holds, now);
                    return Err(error.into());
                }
            }
        }
        // (4) One batch for all exact limits.
        let exact = gate.exact_limits(request.attributes);
        let after = AfterStore {
            class: request.class,
            tenant: if exact.is_empty() { None } else { request.tenant.map(Into::into) },
            cost: request.cost,
            offered_at: now,
        };
        if exact.is_empty() {
            return Ok(self.finish(holds, request.class, now));
        }
        match self.batch(namespace, request, &exact) {
            Ok(batch) => {
                let exact = exact.iter().map(exact_name).collect();
                Ok(Step::Ask(Box::new(Pending { batch, holds, then: Then::Admit(after), exact })))
            }
            Err(error) => {
                let _ = self.take_back(holds, now);
                Err(EngineError::KeyTooLong(error))
            }
        }
    }

    /// Goes on with a request after the store has answered, or failed to.
    pub fn resume(&self, pending: Pending, answer: Result<Answer, StoreError>, now: Timestamp) -> Step {
        let Pending { batch, mut holds, then, exact } = pending;
        let after = match then {
            Then::Admit(after) => after,
            // What could not be taken back stays charged: less is admitted, never more.
            Then::Refuse(refusal) => return Step::Decided(Decision::Refuse(*refusal)),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.withdraw(after.class, after.tenant.as_deref(), after.cost, after.offered_at);
                let refusal = self.store_failed(holds.namespace, &exact, &error, now);
                // An unknown outcome counts as charged, so the store is not asked to take anything back.
                return self.refuse(holds, refusal, now);
            }
        };
        if answer.refused {
            self.withdraw(after.class, after.tenant.as_deref(), after.cost, after.offered_at);
            let refusal = self.denied_by_store(holds.namespace, &exact, &answer);
            return self.refuse(holds, refusal, now);
        }
        let reports = exact.iter().zip(&answer.outcomes).map(|(name, outcome)| LimitReport {
            name: name.name.clone(),
            limit: name.limit,
            remaining: outcome.remaining,
            reset_at: outcome.reset_at,
            window: name.window,
            shadow_refused: name.is_shadow && outcome.verdict != tidegate::algorithm::Verdict::Admit,
        });
        holds.remote = Some(Box::new(Remote { reports: reports.collect(), batch }));
        self.finish(holds, after.class, now)
    }

    /// Step 5, the last.
    fn finish(&self, mut holds: Permit, class: tidegate::Class, now: Timestamp) -> Step {
        if let Some(overload) = &self.overload {
            match overload.acquire(now) {
                Ok(permit) => holds.in_flight = Some(InFlight::new(overload, permit)),
                Err(shed) => {
                    let refusal = self.shed(holds.namespace, &shed, class);
                    return self.refuse(holds, refusal, now);
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
        if let Some(overload) = &self.overload {
            overload.withdraw(class, tenant, cost, offered_at);
        }
    }

    /// Gives everything back, and refuses.
    fn refuse(&self, holds: Permit, refusal: Refusal<'static>, now: Timestamp) -> Step {
        let namespace = holds.namespace;
        match self.take_back(holds, now) {
            None => Step::Decided(Decision::Refuse(refusal)),
            Some(batch) => Step::Ask(Box::new(Pending {
                batch,
                holds: self.nothing_held(namespace, now),
                then: Then::Refuse(Box::new(refusal)),
                exact: Vec::new(),
            })),
        }
    }

    /// Gives back what a request holds, the last first; what the store holds is left as a batch to be sent.
    fn take_back(&self, holds: Permit, now: Timestamp) -> Option<Batch> {
        let Permit { namespace, limits, units, remote, in_flight, .. } = holds;
        drop(in_flight);
        let batch = remote.map(|remote| Batch::undo_of(&remote.batch, self.next_batch_id()));
        if let (Some(units), Some(capacity)) = (units, &self.capacity) {
            capacity.give_back(units, now);
        }
        self.gates[namespace].take_back(limits, now);
        batch
    }

    /// Settles a permit: gives back what is lent, and what the outcome says.
    pub fn settle(&self, permit: Permit, outcome: Outcome, now: Timestamp) -> Settled {
        match outcome {
            Outcome::Cancelled => Settled { batch: self.take_back(permit, now).map(Box::new) },
            Outcome::Succeeded | Outcome::Failed => {
                permit.limits.release(now);
                Settled::default()
            }
            Outcome::Cost(units) => {
                let Permit { namespace, limits, remote, .. } = permit;
                let charged = limits.cost();
                self.gates[namespace].settle(limits, units, now);
                let batch = remote.and_then(|remote| self.settle_remote(&remote.batch, charged, units));
                Settled { batch: batch.map(Box::new) }
            }
        }
    }

    /// The batch that brings the exact limits of an admitted one to its true cost.
    fn settle_remote(&self, charged: &Batch, cost: tidegate::Cost, true_units: u64) -> Option<Batch> {
        use tidegate::Cost;
        use tidegate_store::Kind;
        let surplus = Cost::new(cost.units().saturating_sub(true_units)).map(|cost| Kind::Refund { cost });
        let rest = Cost::new(true_units.saturating_sub(cost.units())).map(|cost| Kind::Report { cost });
        let kind = surplus.or(rest)?;
        let counted = charged.operations.iter().filter(|one| matches!(one.kind, Kind::Check { .. }));
        let operations: Vec<_> = counted.map(|one| Operation { kind, ..one.clone() }).collect();
        (!operations.is_empty()).then(|| Batch::each(self.next_batch_id(), operations))
    }

    fn nothing_held(&self, namespace: usize, now: Timestamp) -> Permit {
        let limits = self.gates[namespace].empty_permit(now);
        Permit { namespace, limits, units: None, remote: None, in_flight: None, longest_hold: None }
    }

    fn longest_hold(&self, namespace: usize, permit: &tidegate::Permit) -> Option<Duration> {
        if !permit.must_be_settled() {
            return None;
        }
        let holds = self.gates[namespace].limits().filter_map(|limit| match &limit.algorithm {
            Algorithm::Concurrency(concurrency) => Some(concurrency.hold()),
            _ => None,
        });
        holds.max()
    }

    fn batch(
        &self,
        namespace: usize,
        request: &Request<'_>,
        exact: &[ExactLimit<'_>],
    ) -> Result<Batch, StoreError> {
        let id = self.next_batch_id();
        let mut operations = Vec::with_capacity(exact.len());
        for limit in exact {
            let key = Key::new(self.gates[namespace].namespace(), &limit.identity, &limit.key)?;
            let operation = Operation::admit(key, limit.algorithm.clone(), request.cost, HolderId(id.0));
            operations.push(if limit.is_shadow { operation.shadow() } else { operation });
        }
        Ok(Batch::all_or_nothing(id, operations))
    }

    /// What is refused before anything is charged: a request past its deadline, or one that the cursor sheds.
    fn refuse_unseen(&self, request: &Request<'_>, now: Timestamp) -> Option<Refusal<'static>> {
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
        let overload = self.overload.as_ref()?;
        let namespace = self.find(request.namespace).ok()?;
        let shed = overload.admit_read_only(request.class, request.tenant, request.cost, now)?;
        Some(self.shed(namespace, &shed, request.class))
    }

    fn shed(&self, namespace: usize, shed: &Shed, class: tidegate::Class) -> Refusal<'static> {
        let violated = Violated {
            name: Cow::Borrowed(shed.name()),
            reason: Reason::OverloadShed,
            retry: Retry::Backoff,
            limit: shed.limit(),
            remaining: 0,
            window: None,
        };
        let scope: ScopeValues<'static> = smallvec![(Cow::Borrowed("class"), Cow::Borrowed(class.as_str()))];
        let mut refusal = Refusal::new(self.gates[namespace].namespace().to_owned(), scope, violated);
        refusal.retry_hint = Some(shed.retry_after_hint());
        refusal
    }

    fn throttled(&self, namespace: usize, throttled: &tidegate_capacity::Throttled<'_>) -> Refusal<'static> {
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
        Refusal::new(self.gates[namespace].namespace().to_owned(), scope, violated)
    }

    fn denied_by_store(&self, namespace: usize, exact: &[ExactName], answer: &Answer) -> Refusal<'static> {
        use tidegate::algorithm::Verdict;
        let mut violated: Vec<(Violated<'static>, &ExactName)> = Vec::new();
        for (position, outcome) in answer.violated() {
            let Some(name) = exact.get(position).filter(|name| !name.is_shadow) else { continue };
            let (reason, retry) = match (outcome.verdict, outcome.blocked_until) {
                (_, Some(until)) => (Reason::Blocked, Retry::At(until)),
                (Verdict::Never { .. }, None) => (Reason::CostExceedsLimit, Retry::Never),
                (Verdict::Wait { until }, None) => (name.reason, Retry::At(until)),
                (Verdict::Admit, None) => continue,
            };
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
        self.refusal_by(namespace, violated)
    }

    fn store_failed(
        &self,
        namespace: usize,
        exact: &[ExactName],
        error: &StoreError,
        now: Timestamp,
    ) -> Refusal<'static> {
        let retry = Retry::At(match error {
            StoreError::Full { until } => *until,
            _ => now.saturating_add(STORE_RETRY),
        });
        let reason = if matches!(error, StoreError::Full { .. }) {
            Reason::TableFull
        } else {
            Reason::StoreUnavailable
        };
        let violated = exact.iter().filter(|name| !name.is_shadow).map(|name| {
            let violation = Violated {
                name: Cow::Owned(name.name.clone()),
                reason,
                retry,
                limit: name.limit,
                remaining: 0,
                window: name.window,
            };
            (violation, name)
        });
        let mut refusal = self.refusal_by(namespace, violated.collect());
        refusal.detail = Some(Cow::Borrowed("the store that decides this limit did not answer"));
        refusal
    }

    /// The refusal by these limits, the one that binds longest first.
    fn refusal_by(
        &self,
        namespace: usize,
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
            return Refusal::new(self.gates[namespace].namespace().to_owned(), ScopeValues::new(), unknown);
        }
        violated.sort_by(|(one, _), (other, _)| Retry::longest_first(one.retry, other.retry));
        let scope = violated[0].1.scope.iter();
        let scope =
            scope.map(|(name, value)| (Cow::Owned(name.clone()), Cow::Owned(value.clone()))).collect();
        let namespace = self.gates[namespace].namespace().to_owned();
        let mut all = violated.into_iter().map(|(violation, _)| violation);
        let first = all.next().expect("checked above");
        let mut refusal = Refusal::new(namespace, scope, first);
        refusal.violated.extend(all);
        refusal
    }
}

fn exact_name(limit: &ExactLimit<'_>) -> ExactName {
    ExactName {
        name: limit.name.to_owned(),
        limit: limit.algorithm.limit(),
        window: limit.algorithm.window(),
        reason: limit.reason,
        is_shadow: limit.is_shadow,
        scope: limit.scope.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
    }
}
