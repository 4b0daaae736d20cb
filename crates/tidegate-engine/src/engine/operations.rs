//! Everything a caller may do besides asking: look, report, refund, keep and settle, reset, block.

use tidegate::{Refusal, Timestamp};

use super::{Engine, EngineError, LimitReport};
use crate::decision::{Outcome, Permit, Settled};
use crate::kept::PermitId;
use crate::refunds::{RefundKeysFull, Refunded};
use crate::request::Request;

/// What a request would meet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeekReport {
    /// The refusal by its local limits, if any.
    pub refusal: Option<Refusal<'static>>,
    /// What its local limits have left.
    pub limits: Vec<LimitReport>,
}

impl Engine {
    /// What the local limits would answer, changing nothing. Limits decided in a store are not looked at.
    pub fn peek(&self, request: &Request<'_>, now: Timestamp) -> Result<PeekReport, EngineError> {
        let gate = &self.gates[self.find(request.namespace)?];
        let peek = gate.peek(request.attributes, request.cost, now);
        Ok(PeekReport {
            refusal: peek.refusal.map(Refusal::into_owned),
            limits: peek.limits.into_iter().map(LimitReport::from).collect(),
        })
    }

    /// What the limits that a permit was charged to had left when it was given.
    pub fn statuses(&self, permit: &Permit) -> Vec<LimitReport> {
        let gate = &self.gates[permit.namespace];
        let mut reports: Vec<LimitReport> = gate.statuses(&permit.limits).map(LimitReport::from).collect();
        reports.extend(permit.remote.iter().flat_map(|remote| remote.reports.iter().cloned()));
        reports
    }

    /// Charges the local limits whether or not there is room, as for work already done; what they have left then.
    pub fn report(&self, request: &Request<'_>, now: Timestamp) -> Result<Vec<LimitReport>, EngineError> {
        let gate = &self.gates[self.find(request.namespace)?];
        let limits = gate.report(request.attributes, request.cost, now)?;
        Ok(limits.into_iter().map(LimitReport::from).collect())
    }

    /// Gives the cost of a request back to the local limits, once for each `key`.
    ///
    /// [`crate::REFUND_KEYS_MAX`] keys are remembered, each for [`crate::REFUND_KEY_KEPT`].
    pub fn refund(&self, request: &Request<'_>, key: &str, now: Timestamp) -> Result<Refunded, EngineError> {
        let gate = &self.gates[self.find(request.namespace)?];
        match self.refunds.remember(request.namespace, key, now) {
            Ok(true) => {
                gate.refund(request.attributes, request.cost, now);
                Ok(Refunded::Applied)
            }
            Ok(false) => Ok(Refunded::AlreadyApplied),
            Err(RefundKeysFull(until)) => Err(EngineError::RefundKeysFull { until }),
        }
    }

    /// Keeps a permit under a name until `expires`, for a caller that settles later; then it is dropped.
    ///
    /// When there are too many, the permit is settled as cancelled, so that nothing stays charged.
    pub fn keep(
        &self,
        permit: Permit,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<PermitId, (EngineError, Settled)> {
        self.kept.keep(permit, expires).map_err(|permit| {
            let settled = self.settle(*permit, Outcome::Cancelled, now);
            (EngineError::TooManyPermits(self.kept.max()), settled)
        })
    }

    /// Settles a kept permit: once. A second time, or after it expired, the permit is unknown.
    pub fn settle_kept(
        &self,
        id: PermitId,
        outcome: Outcome,
        now: Timestamp,
    ) -> Result<Settled, EngineError> {
        // One that has expired but was not yet collected is as unknown as one that was.
        drop(self.kept.expire(now));
        let permit = self.kept.take(id).ok_or(EngineError::UnknownPermit(id))?;
        Ok(self.settle(permit, outcome, now))
    }

    /// Forgets what is used by the counters of a request, of one local limit or of all; how many were in use.
    pub fn reset(
        &self,
        request: &Request<'_>,
        limit: Option<&str>,
        now: Timestamp,
    ) -> Result<usize, EngineError> {
        let gate = &self.gates[self.find(request.namespace)?];
        if let Some(name) = limit
            && !gate.limits().any(|known| known.name == name)
        {
            return Err(unknown_limit(request, name));
        }
        Ok(gate.reset(request.attributes, limit, now))
    }

    /// Refuses the key of a request under one local limit until an instant; one that has passed lifts the block.
    pub fn block(
        &self,
        request: &Request<'_>,
        limit: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), EngineError> {
        let gate = &self.gates[self.find(request.namespace)?];
        if gate.block(request.attributes, limit, until, now)? {
            Ok(())
        } else {
            Err(unknown_limit(request, limit))
        }
    }
}

fn unknown_limit(request: &Request<'_>, limit: &str) -> EngineError {
    EngineError::UnknownLimit {
        namespace: request.namespace.to_owned(),
        limit: limit.chars().take(128).collect(),
    }
}
