//! Deciding a request: the one place where the engine is asked and the store is talked to.
//!
//! Nearly every request is decided without waiting for anything, so that part is a plain function.
//! Only what must wait for the store goes on as a future of its own, on the heap.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate::{GateError, Refusal, Timestamp};
use tidegate_capacity::CapacityError;
use tidegate_engine::{
    Decision, DecisionAll, EngineError, LimitReport, Outcome, PeekReport, Pending, PendingAll, Permit,
    PermitId, Progress, Request, Settled, SettledAll, Step, StepAll,
};
use tidegate_store::{Answer, Batch, Store, StoreError};
use tidegate_wire::{Fault, FaultCode, retry_after};

use crate::daemon::{Daemon, Desk};
use crate::decisions::Asked;
use crate::file_domains::DomainCheck;
use crate::in_force::InForce;
use crate::metrics::NamespaceTable;
use crate::protocol::Protocol;
use crate::reply::Reply;

/// How a request that may be decided later is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// When it was asked.
    pub(crate) now: Timestamp,
    pub(crate) keep: Keep,
    pub(crate) style: Style,
}

/// Which permits are kept for the caller to settle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Those that lend something.
    Lent,
    /// Every one, for so long.
    Every(Duration),
}

/// How much of an answer a caller takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Headers and a body.
    Whole,
    /// Headers only; refusals with this status, or the one they have.
    Headers(Option<u16>),
}

impl Style {
    /// The protocol of those that take such an answer.
    pub(crate) const fn protocol(self) -> Protocol {
        match self {
            Self::Whole => Protocol::Http,
            Self::Headers(_) => Protocol::Authorize,
        }
    }
}

/// A request that is not answered yet.
pub(crate) enum Unanswered {
    /// It cannot be taken.
    Fault(Fault),
    /// The store must be asked first.
    Asking(Box<Asking>),
    /// The store must remember its permit first.
    Keeping(Box<Keeping>),
    /// The store must be looked at first.
    Peeking(Box<Peeking>),
    /// Files of envoyproxy/ratelimit decide it.
    Domain(Box<DomainCheck>),
}

impl From<DomainCheck> for Unanswered {
    fn from(check: DomainCheck) -> Self {
        Self::Domain(Box::new(check))
    }
}

impl From<Fault> for Unanswered {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(crate) struct Asking {
    asked: Asked<'static>,
    pending: Pending,
    terms: Terms,
}

pub(crate) struct Keeping {
    namespace: String,
    asking: Box<tidegate_engine::Asking<PermitId>>,
    limits: Vec<LimitReport>,
    terms: Terms,
}

pub(crate) struct Peeking {
    pub(crate) namespace: String,
    pub(crate) asking: Box<tidegate_engine::Asking<PeekReport>>,
    pub(crate) terms: Terms,
}

impl Desk<'_> {
    /// Decides and answers a request, as far as that needs no waiting.
    pub(crate) fn begin(&self, request: &Request<'_>, terms: Terms) -> Result<Reply, Unanswered> {
        let now = terms.now;
        if let Some(files) = self.files_of(request.namespace) {
            return Err(DomainCheck::new(files, request, false, terms)?.into());
        }
        match self.in_force.engine.admit(request, now).map_err(|error| engine_fault(&error, now))? {
            Step::Decided(decision) => {
                self.conclude(&Asked::borrowed(request, terms.style.protocol()), decision, terms)
            }
            Step::Ask(pending) => {
                let keeps_attributes = self.daemon.decisions.is_some();
                let asked = Asked::owned(request, terms.style.protocol(), keeps_attributes);
                Err(Unanswered::Asking(Box::new(Asking { asked, pending, terms })))
            }
        }
    }

    /// Does what waits for the store, and answers.
    pub(crate) async fn end(&self, begun: Result<Reply, Unanswered>) -> Result<Reply, Fault> {
        match begun {
            Ok(reply) => Ok(reply),
            Err(Unanswered::Fault(fault)) => Err(fault),
            Err(waiting) => Box::pin(self.wait(waiting)).await,
        }
    }

    async fn wait(&self, mut waiting: Unanswered) -> Result<Reply, Fault> {
        loop {
            waiting = match waiting {
                Unanswered::Fault(fault) => return Err(fault),
                Unanswered::Asking(asking) => {
                    let Asking { asked, pending, terms } = *asking;
                    let decision = self.carry(pending).await;
                    match self.conclude(&asked, decision, terms) {
                        Ok(reply) => return Ok(reply),
                        Err(waiting) => waiting,
                    }
                }
                Unanswered::Keeping(keeping) => {
                    let Keeping { namespace, asking, limits, terms } = *keeping;
                    let id = self.drive(Ok(Progress::Ask(asking))).await?;
                    return Ok(self.admitted(&namespace, Some(id), &limits, terms));
                }
                Unanswered::Domain(check) => return self.check_domain(*check).await,
                Unanswered::Peeking(peeking) => {
                    let Peeking { namespace, asking, terms } = *peeking;
                    let peek = self.drive(Ok(Progress::Ask(asking))).await?;
                    return Ok(self.peeked(&namespace, &peek, terms));
                }
            };
        }
    }

    /// Talks to the store until the request is decided.
    pub(crate) async fn carry(&self, mut pending: Pending) -> Decision {
        loop {
            let answered = pending.wants().bring(|batch| self.daemon.ask(batch)).await;
            match self.in_force.engine.resume(pending, answered, self.daemon.clock.now()) {
                Step::Decided(decision) => return decision,
                Step::Ask(next) => pending = next,
            }
        }
    }

    /// Talks to the store until requests that go ahead together are decided.
    pub(crate) async fn carry_all(&self, mut pending: PendingAll) -> DecisionAll {
        loop {
            let answered = pending.wants().bring(|batch| self.daemon.ask(batch)).await;
            match self.in_force.engine.resume_all(pending, answered, self.daemon.clock.now()) {
                StepAll::Decided(decision) => return decision,
                StepAll::Ask(next) => pending = next,
            }
        }
    }

    /// Talks to the store until an operation is done.
    pub(crate) async fn drive<T>(&self, begun: Result<Progress<T>, EngineError>) -> Result<T, Fault> {
        let fault = |error: EngineError| engine_fault(&error, self.daemon.clock.now());
        let mut progress = begun.map_err(fault)?;
        loop {
            match progress {
                Progress::Done(value) => return Ok(value),
                Progress::Ask(asking) => {
                    let answer = self.daemon.ask(asking.batch()).await;
                    let now = self.daemon.clock.now();
                    progress = asking.resume(&self.in_force.engine, answer, now).map_err(fault)?;
                }
            }
        }
    }

    /// Counts a decision, keeps its permit if somebody is to settle it, and makes the answer.
    fn conclude(&self, asked: &Asked<'_>, decision: Decision, terms: Terms) -> Result<Reply, Unanswered> {
        let now = terms.now;
        let (permit, limits) = match self.note(asked, decision, now) {
            Noted::Admitted(permit, limits) => (permit, limits),
            Noted::Refused(refusal) => return Ok(self.refused(&refusal, terms)),
        };
        let expires = match terms.keep {
            Keep::Every(span) => Some(now.saturating_add(span)),
            Keep::Lent => permit.must_be_settled().then(|| self.permit_expiry(&permit, now)),
        };
        let Some(expires) = expires else { return Ok(self.admitted(&asked.namespace, None, &limits, terms)) };
        let kept = self.in_force.engine.keep(permit, expires, now);
        match kept.map_err(|error| engine_fault(&error, now))? {
            Progress::Done(id) => Ok(self.admitted(&asked.namespace, Some(id), &limits, terms)),
            Progress::Ask(asking) => {
                let namespace = asked.namespace.clone().into_owned();
                Err(Unanswered::Keeping(Box::new(Keeping { namespace, asking, limits, terms })))
            }
        }
    }

    /// Counts a decision about what was asked at `now`, and writes it down where that is wanted.
    pub(crate) fn note(&self, asked: &Asked<'_>, decision: Decision, now: Timestamp) -> Noted {
        match decision {
            Decision::Admit(permit) => {
                let limits = self.note_admitted(asked, &permit, now);
                Noted::Admitted(permit, limits)
            }
            Decision::Refuse(refusal) => {
                self.note_refusal(&self.in_force.metrics, asked, &refusal, now);
                Noted::Refused(refusal)
            }
        }
    }

    /// Counts an admission, and writes it down where that is wanted; what its limits have left.
    pub(crate) fn note_admitted(
        &self,
        asked: &Asked<'_>,
        permit: &Permit,
        now: Timestamp,
    ) -> Vec<LimitReport> {
        let limits = self.in_force.engine.statuses(permit);
        self.note_reports(&self.in_force.metrics, asked, &limits, now);
        limits
    }

    /// Counts a refusal in one of these series, and writes it down where that is wanted.
    pub(crate) fn note_refusal(
        &self,
        series: &NamespaceTable,
        asked: &Asked<'_>,
        refusal: &Refusal<'_>,
        now: Timestamp,
    ) {
        let took = self.took(now);
        series.refused(refusal, asked.protocol);
        self.note_refused_key(refusal, asked.protocol, now);
        if let Some(decisions) = &self.daemon.decisions {
            decisions.refused(asked, refusal, now, took);
        }
    }

    /// Counts an admission in one of these series, and writes it down where that is wanted.
    pub(crate) fn note_reports(
        &self,
        series: &NamespaceTable,
        asked: &Asked<'_>,
        limits: &[LimitReport],
        now: Timestamp,
    ) {
        let took = self.took(now);
        series.admitted(&asked.namespace, limits, asked.protocol);
        if let Some(decisions) = &self.daemon.decisions {
            decisions.admitted(asked, limits, now, took);
        }
    }

    /// How long a decision took about what was asked at `now`.
    fn took(&self, now: Timestamp) -> Duration {
        // The decisions' own clock: it is read anyway, and stands still where tests make it.
        let took = self.daemon.clock.now().saturating_since(now);
        self.daemon.metrics.shared().decision_duration.observe(took);
        took
    }

    /// Until when a permit is kept: as long as what it lends is held, or the bound if that never
    /// ends by itself.
    pub(crate) fn permit_expiry(&self, permit: &Permit, now: Timestamp) -> Timestamp {
        permit.expires_at().unwrap_or_else(|| now.saturating_add(self.daemon.config.bounds.permit_expiry))
    }

    /// Remembers the key of a refusal among the most refused, and may write a line.
    pub(crate) fn note_refused_key(&self, refusal: &Refusal<'_>, protocol: Protocol, now: Timestamp) {
        self.in_force.engine.note_blocked(refusal, now);
        self.daemon.refused_keys.count(refusal, now);
        if !self.in_force.refusal_log.write(refusal, protocol, now) {
            self.daemon.metrics.shared().lines_suppressed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells the store what a settled permit gives back. An error leaves it charged: less is
    /// admitted, never more.
    pub(crate) async fn finish(&self, settled: Settled) -> Result<(), Fault> {
        let Some(batch) = settled.batch else { return Ok(()) };
        match Box::pin(async move { self.daemon.ask(&batch).await }).await {
            Ok(_) => Ok(()),
            Err(error) => Err(engine_fault(&EngineError::Store(error), self.daemon.clock.now())),
        }
    }

    /// Tells the store what permits give back that were settled together. What it does not hear of
    /// stays charged: less is admitted, never more.
    pub(crate) async fn finish_all(&self, settled: SettledAll) {
        for batch in settled.batches {
            // Whether it was heard is counted where the store is asked.
            let _ = self.daemon.ask(&batch).await;
        }
    }
}

/// A decision that has been counted.
pub(crate) enum Noted {
    /// The permit is the caller's to settle.
    Admitted(Permit, Vec<LimitReport>),
    Refused(Refusal<'static>),
}

/// Decides a request for somebody who settles the permit, and who may lose interest while the store
/// is asked: what the store then admits is given back at once. Nothing is counted; see
/// [`Desk::note`].
pub(crate) async fn decide_apart(
    daemon: &Arc<Daemon>,
    in_force: &Arc<InForce>,
    request: &Request<'_>,
) -> Result<Decision, Fault> {
    let now = daemon.clock.now();
    let pending = match in_force.engine.admit(request, now).map_err(|error| engine_fault(&error, now))? {
        Step::Decided(decision) => return Ok(decision),
        Step::Ask(pending) => pending,
    };
    let (daemon, in_force) = (Arc::clone(daemon), Arc::clone(in_force));
    let (tell, told) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let decision = Desk { daemon: &daemon, in_force: &in_force }.carry(pending).await;
        // Nobody may be there to be told, now or when it is looked for: either way it is dropped.
        let _ = tell.send(Unclaimed { daemon, in_force, decision: Some(decision) });
    });
    let undecided = || Fault::new(FaultCode::Internal, "the request could not be decided");
    let unclaimed = told.await;
    unclaimed.ok().and_then(|mut unclaimed| unclaimed.decision.take()).ok_or_else(undecided)
}

/// A decision on its way to whoever asked; what it admits is given back if it does not arrive.
struct Unclaimed {
    daemon: Arc<Daemon>,
    in_force: Arc<InForce>,
    decision: Option<Decision>,
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let Some(Decision::Admit(permit)) = self.decision.take() else { return };
        let settled = self.in_force.engine.settle(permit, Outcome::Cancelled, self.daemon.clock.now());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (daemon, in_force) = (Arc::clone(&self.daemon), Arc::clone(&self.in_force));
        runtime.spawn(async move {
            // An error leaves it charged: less is admitted, never more.
            let _ = Desk { daemon: &daemon, in_force: &in_force }.finish(settled).await;
        });
    }
}

impl Daemon {
    /// Carries a batch to the store. A store that is late is as good as one that is gone.
    pub(crate) async fn ask(&self, batch: &Batch) -> Result<Answer, StoreError> {
        let telling = self.telling(batch);
        let batch = telling.as_ref().unwrap_or(batch);
        let after = self.config.bounds.store_timeout;
        let answer = match tokio::time::timeout(after, self.store.run(batch)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Timeout { after }),
        };
        if let Err(error) = &answer {
            self.metrics.shared().store_failures.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(target: "tidegate::store", %error, "the store did not answer");
        }
        answer
    }
}

/// What the sender is told when the engine could not decide.
pub(crate) fn engine_fault(error: &EngineError, now: Timestamp) -> Fault {
    let (code, fix) = match error {
        EngineError::UnknownNamespace(_) => {
            (FaultCode::UnknownNamespace, "see GET /v1/limits for the namespaces there are")
        }
        EngineError::UnknownLimit { .. } => {
            (FaultCode::UnknownLimit, "see GET /v1/limits for the limits there are and what they count by")
        }
        EngineError::UnknownPermit(_) => (FaultCode::UnknownPermit, "settle or release each permit once"),
        EngineError::TooManyPermits(_) => {
            (FaultCode::TooManyKept, "settle or release permits when work is done")
        }
        EngineError::RefundKeysFull { .. } => {
            (FaultCode::TooManyKept, "repeat it then, with the same refund_key")
        }
        EngineError::UnknownTable { .. } => (FaultCode::UnknownTable, "leave `access` out"),
        EngineError::Access(CapacityError::UnknownTable { .. }) => {
            (FaultCode::UnknownTable, "name a table of the policy")
        }
        EngineError::Access(_) => (FaultCode::MalformedBody, "name a table of the policy"),
        EngineError::TableFull(_) => (FaultCode::TooManyKept, "repeat it then"),
        EngineError::Store(_) => (FaultCode::StoreUnavailable, "repeat it when the store answers"),
        EngineError::TooManyOverrides | EngineError::TooManyOverridesHere { .. } => {
            (FaultCode::TooManyKept, "delete overrides that are not needed")
        }
        EngineError::UnknownOverride { .. } => (FaultCode::UnknownLimit, "see GET /v1/overrides"),
        EngineError::Limits { source: GateError::TooManySpecs { .. }, .. } => {
            (FaultCode::TooManyKept, "repeat it in a few seconds")
        }
        EngineError::Override { .. } | EngineError::Limits { .. } => {
            (FaultCode::MalformedBody, "see GET /v1/limits for what the limit counts by")
        }
        _ => (FaultCode::Internal, "see the log of the daemon"),
    };
    let fault = Fault::new(code, error).fix(fix);
    match error {
        // A place comes back with the next permit that is settled, which may be at any time.
        EngineError::TooManyPermits(_)
        | EngineError::Store(_)
        | EngineError::Limits { source: GateError::TooManySpecs { .. }, .. } => fault.retry_after(1),
        EngineError::RefundKeysFull { until } => fault.retry_after(wait_seconds(*until, now)),
        EngineError::TableFull(full) => fault.retry_after(wait_seconds(full.until, now)),
        _ => fault,
    }
}

fn wait_seconds(until: Timestamp, now: Timestamp) -> u64 {
    retry_after::seconds_up(until.saturating_since(now)).max(1)
}
