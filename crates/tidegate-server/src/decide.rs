//! Deciding a request: the one place where the engine is asked and the store is talked to.
//!
//! Nearly every request is decided without waiting for anything, so that part is a plain function. Only what must wait
//! for the store goes on as a future of its own, on the heap.

use core::time::Duration;
use std::sync::atomic::Ordering;

use tidegate::{Refusal, Timestamp};
use tidegate_engine::{Decision, EngineError, Pending, Permit, PermitId, Request, Settled, Step};
use tidegate_store::{Answer, Batch, Store, StoreError};
use tidegate_wire::{Fault, FaultCode, retry_after};

use crate::daemon::Daemon;
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

/// A request that is not answered yet.
pub(crate) enum Unanswered {
    /// It cannot be taken.
    Fault(Fault),
    /// The store must be asked first.
    Asking(Box<Asking>),
    /// Its permit could not be kept; the store must hear of what was given back.
    Unkept(Box<(Fault, Settled)>),
}

impl From<Fault> for Unanswered {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

pub(crate) struct Asking {
    namespace: String,
    pending: Box<Pending>,
    terms: Terms,
}

impl Daemon {
    /// Decides and answers a request, as far as that needs no waiting.
    pub(crate) fn begin(&self, request: &Request<'_>, terms: Terms) -> Result<Reply, Unanswered> {
        let now = terms.now;
        match self.engine.admit(request, now).map_err(|error| engine_fault(&error, now))? {
            Step::Decided(decision) => {
                self.conclude(request.namespace, decision, terms).map_err(Unanswered::Unkept)
            }
            Step::Ask(pending) => {
                let namespace = request.namespace.to_owned();
                Err(Unanswered::Asking(Box::new(Asking { namespace, pending, terms })))
            }
            Step::Queued(place) => match place {},
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

    async fn wait(&self, waiting: Unanswered) -> Result<Reply, Fault> {
        let (fault, settled) = match waiting {
            Unanswered::Fault(fault) => return Err(fault),
            Unanswered::Unkept(unkept) => *unkept,
            Unanswered::Asking(asking) => {
                let Asking { namespace, pending, terms } = *asking;
                let decision = self.carry(pending).await;
                match self.conclude(&namespace, decision, terms) {
                    Ok(reply) => return Ok(reply),
                    Err(unkept) => *unkept,
                }
            }
        };
        self.finish(settled).await;
        Err(fault)
    }

    /// Talks to the store until the request is decided.
    async fn carry(&self, mut pending: Box<Pending>) -> Decision {
        loop {
            let answer = self.ask(pending.batch()).await;
            match self.engine.resume(*pending, answer, self.clock.now()) {
                Step::Decided(decision) => return decision,
                Step::Ask(next) => pending = next,
                Step::Queued(place) => match place {},
            }
        }
    }

    /// Counts a decision, keeps its permit if somebody is to settle it, and makes the answer.
    fn conclude(
        &self,
        namespace: &str,
        decision: Decision,
        terms: Terms,
    ) -> Result<Reply, Box<(Fault, Settled)>> {
        let now = terms.now;
        // The decisions' own clock: it is read anyway, and stands still where tests make it.
        let took = self.clock.now().saturating_since(now);
        self.metrics.shared().decision_duration.observe(took);
        let permit = match decision {
            Decision::Admit(permit) => permit,
            Decision::Refuse(refusal) => {
                self.note_refusal(&refusal, now);
                return Ok(self.refused(&refusal, terms));
            }
        };
        let limits = self.engine.statuses(&permit);
        self.metrics.admitted(namespace, &limits);
        let expires = match terms.keep {
            Keep::Every(span) => Some(now.saturating_add(span)),
            Keep::Lent => permit.must_be_settled().then(|| self.permit_expiry(&permit, now)),
        };
        let id = match expires {
            Some(expires) => Some(self.keep(permit, expires, now)?),
            None => None,
        };
        Ok(self.admitted(namespace, id, &limits, terms))
    }

    /// Until when a permit is kept: as long as what it lends is held, or the bound if that never ends by itself.
    fn permit_expiry(&self, permit: &Permit, now: Timestamp) -> Timestamp {
        permit.expires_at().unwrap_or_else(|| now.saturating_add(self.config.bounds.permit_expiry))
    }

    /// Keeps a permit for a caller that settles later. When there is no room, everything is given back.
    fn keep(
        &self,
        permit: Permit,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<PermitId, Box<(Fault, Settled)>> {
        let kept = self.engine.keep(permit, expires, now);
        kept.map_err(|(error, settled)| Box::new((engine_fault(&error, now), settled)))
    }

    /// Counts a refusal, remembers its key among the most refused, and may write a line.
    fn note_refusal(&self, refusal: &Refusal<'_>, now: Timestamp) {
        self.metrics.refused(refusal);
        self.refused_keys.count(refusal);
        if !self.refusal_log.write(refusal, now) {
            self.metrics.shared().lines_suppressed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Carries a batch to the store. A store that is late is as good as one that is gone.
    async fn ask(&self, batch: &Batch) -> Result<Answer, StoreError> {
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

    /// Tells the store what a settled permit gives back. Nobody waits for more than the deadline of a store call.
    pub(crate) async fn finish(&self, settled: Settled) {
        if let Some(batch) = settled.batch {
            // What could not be given back stays charged: less is admitted, never more.
            let _ = Box::pin(async move { self.ask(&batch).await }).await;
        }
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
        EngineError::Access(_) => (FaultCode::MalformedBody, "name a table of the policy"),
        EngineError::TableFull(_) => (FaultCode::TooManyKept, "repeat it then"),
        _ => (FaultCode::Internal, "see the log of the daemon"),
    };
    let fault = Fault::new(code, error).fix(fix);
    match error {
        EngineError::TooManyPermits(_) => fault.retry_after(1),
        EngineError::RefundKeysFull { until } => fault.retry_after(wait_seconds(*until, now)),
        EngineError::TableFull(full) => fault.retry_after(wait_seconds(full.until, now)),
        _ => fault,
    }
}

fn wait_seconds(until: Timestamp, now: Timestamp) -> u64 {
    retry_after::seconds_up(until.saturating_since(now)).max(1)
}
