//! Deciding a request: the one place where the engine is asked and the store is talked to.

use std::sync::atomic::Ordering;
use std::time::Instant;
use tidegate::Timestamp;
use tidegate_engine::{Decision, EngineError, Request, Settled, Step};
use tidegate_store::{Answer, Batch, Store, StoreError};
use tidegate_wire::{Fault, FaultCode, retry_after};

use crate::daemon::Daemon;

impl Daemon {
    /// Decides a request, talking to the store as far as the engine asks for it; counts, samples and logs the outcome.
    pub(crate) async fn decide(
        &self,
        request: &Request<'_>,
        now: Timestamp,
    ) -> Result<Decision, EngineError> {
        let started = Instant::now();
        let mut step = self.engine.admit(request, now)?;
        let decision = loop {
            match step {
                Step::Decided(decision) => break decision,
                Step::Ask(pending) => {
                    let answer = self.ask(pending.batch()).await;
                    step = self.engine.resume(*pending, answer, self.clock.now());
                }
                Step::Queued(place) => match place {},
            }
        };
        self.metrics.shared().decision_duration.observe(started.elapsed());
        if let Decision::Refuse(refusal) = &decision {
            self.note_refusal(refusal, now);
        }
        Ok(decision)
    }

    /// Counts a refusal, remembers its key among the most refused, and may write a line.
    pub(crate) fn note_refusal(&self, refusal: &tidegate::Refusal<'_>, now: Timestamp) {
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
            let _ = self.ask(&batch).await;
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
        EngineError::TableFull(_) => (FaultCode::TooManyKept, "repeat it then; nothing was charged twice"),
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
