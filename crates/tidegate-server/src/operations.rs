//! The operations of the API: what each route does with its body.

use http::StatusCode;
use smallvec::SmallVec;
use tidegate::{Cost, Refusal, Timestamp};
use tidegate_capacity::{self as capacity, Access, ReadConsistency};
use tidegate_engine::{Decision, LimitReport, Outcome, Permit, PermitId, Refunded, Request};
use tidegate_wire::answer::{
    Admitted, BlockAnswer, LimitAnswer, RefundAnswer, Reported, ResetAnswer, SettleAnswer,
};
use tidegate_wire::operation::{
    AccessBody, AccessKind, Block, Check, OutcomeBody, Refund, Release, Report, Reserve, Reset, Settle, read,
};
use tidegate_wire::pairs::{BorrowedPairs, Pairs};
use tidegate_wire::ratelimit::{Allowance, tightest};
use tidegate_wire::retry_after::{millis_up, seconds_up};
use tidegate_wire::{Fault, FaultCode};

use crate::daemon::Daemon;
use crate::decide::engine_fault;
use crate::reply::{self, Reply};

/// The attribute that says who pays.
const TENANT: &str = "tenant";

type Answered = Result<Reply, Fault>;

impl Daemon {
    pub(crate) async fn check(&self, body: &[u8]) -> Answered {
        let check: Check<'_> = read(body)?;
        if let Some(fault) = check.unavailable() {
            return Err(fault);
        }
        let pairs = self.bounded(&check.attributes)?;
        let mut request =
            request(&check.namespace, &check.attributes, &pairs, check.cost.0).class(check.class.0);
        if let Some(body) = &check.access {
            request = request.access(access(body));
        }
        let now = self.clock.now();
        if check.peek {
            return self.peek(&request, now);
        }
        match self.decide(&request, now).await.map_err(|error| engine_fault(&error, now))? {
            Decision::Admit(permit) => self.admit(&request, permit, now).await,
            Decision::Refuse(refusal) => Ok(self.refused(&refusal, now)),
        }
    }

    fn peek(&self, request: &Request<'_>, now: Timestamp) -> Answered {
        let peek = self.engine.peek(request, now).map_err(|error| engine_fault(&error, now))?;
        Ok(match peek.refusal {
            Some(refusal) => self.refused(&refusal, now),
            None => self.admitted(request.namespace, None, &peek.limits, now),
        })
    }

    /// Answers an admitted request, and keeps its permit if something must be given back.
    async fn admit(&self, request: &Request<'_>, permit: Permit, now: Timestamp) -> Answered {
        let limits = self.engine.statuses(&permit);
        self.metrics.admitted(request.namespace, &limits);
        let id = if permit.must_be_settled() {
            let expires = self.permit_expiry(&permit, now);
            Some(self.keep(permit, expires, now).await?)
        } else {
            None
        };
        Ok(self.admitted(request.namespace, id, &limits, now))
    }

    /// Until when a permit is kept: as long as what it lends is held, or the bound if that never ends by itself.
    pub(crate) fn permit_expiry(&self, permit: &Permit, now: Timestamp) -> Timestamp {
        permit.expires_at().unwrap_or_else(|| now.saturating_add(self.config.bounds.permit_expiry))
    }

    /// Keeps a permit for a caller that settles later. When there is no room, everything is given back.
    pub(crate) async fn keep(
        &self,
        permit: Permit,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<PermitId, Fault> {
        match self.engine.keep(permit, expires, now) {
            Ok(id) => Ok(id),
            Err((error, settled)) => {
                self.finish(settled).await;
                Err(engine_fault(&error, now))
            }
        }
    }

    fn refused(&self, refusal: &Refusal<'_>, now: Timestamp) -> Reply {
        reply::refusal(refusal, self.config.statuses.of(refusal), now, self.config.older_headers)
    }

    fn admitted(
        &self,
        namespace: &str,
        permit: Option<PermitId>,
        limits: &[LimitReport],
        now: Timestamp,
    ) -> Reply {
        let enforced = self.enforced(namespace, limits);
        let shadow: SmallVec<[&str; 2]> =
            limits.iter().filter(|one| one.shadow_refused).map(|one| one.name.as_str()).collect();
        let body = Admitted {
            decision: "admit",
            permit: permit.map(|id| id.to_string().into()),
            remaining: tightest_remaining(&enforced, now),
            limits: &answers(&enforced, now),
            shadow: &shadow,
        };
        let mut reply = reply::json(StatusCode::OK, &body);
        reply::limit_headers(reply.headers_mut(), allowances(&enforced, now), self.config.older_headers);
        reply
    }

    /// The attributes of a request, if they are within the bounds.
    pub(crate) fn bounded<'a>(&self, attributes: &'a Pairs<'_>) -> Result<BorrowedPairs<'a>, Fault> {
        let bounds = &self.config.bounds;
        match attributes.within(bounds.attributes, bounds.attribute_bytes) {
            Ok(()) => Ok(attributes.borrowed()),
            Err(error) => Err(Fault::new(FaultCode::MalformedBody, error).field("attributes")),
        }
    }

    /// The limits a caller should heed: those that enforce.
    pub(crate) fn enforced<'a>(&self, namespace: &str, limits: &'a [LimitReport]) -> Enforced<'a> {
        let shadow = self.shadow_limits.get(namespace).map_or(&[][..], |names| names);
        limits.iter().filter(|one| !shadow.iter().any(|name| **name == *one.name)).collect()
    }

    pub(crate) fn report(&self, body: &[u8]) -> Answered {
        let report: Report<'_> = read(body)?;
        let pairs = self.bounded(&report.attributes)?;
        let request = request(&report.namespace, &report.attributes, &pairs, report.cost.0);
        let now = self.clock.now();
        let limits = self.engine.report(&request, now).map_err(|error| engine_fault(&error, now))?;
        let enforced = self.enforced(request.namespace, &limits);
        let body =
            Reported { remaining: tightest_remaining(&enforced, now), limits: &answers(&enforced, now) };
        let mut reply = reply::json(StatusCode::OK, &body);
        reply::limit_headers(reply.headers_mut(), allowances(&enforced, now), self.config.older_headers);
        Ok(reply)
    }

    pub(crate) fn refund(&self, body: &[u8]) -> Answered {
        let refund: Refund<'_> = read(body)?;
        if let Some(fault) = refund.fault() {
            return Err(fault);
        }
        let pairs = self.bounded(&refund.attributes)?;
        let request = request(&refund.namespace, &refund.attributes, &pairs, refund.cost.0);
        let now = self.clock.now();
        let refunded = self.engine.refund(&request, &refund.refund_key, now);
        let refund = match refunded.map_err(|error| engine_fault(&error, now))? {
            Refunded::Applied => "applied",
            Refunded::AlreadyApplied => "already_applied",
        };
        Ok(reply::json(StatusCode::OK, &RefundAnswer { refund }))
    }

    pub(crate) async fn reserve(&self, body: &[u8]) -> Answered {
        let reserve: Reserve<'_> = read(body)?;
        let expires_after = reserve.expires_after()?;
        let pairs = self.bounded(&reserve.attributes)?;
        let mut request =
            request(&reserve.namespace, &reserve.attributes, &pairs, reserve.cost.0).class(reserve.class.0);
        if let Some(body) = &reserve.access {
            request = request.access(access(body));
        }
        let now = self.clock.now();
        match self.decide(&request, now).await.map_err(|error| engine_fault(&error, now))? {
            Decision::Admit(permit) => {
                let limits = self.engine.statuses(&permit);
                self.metrics.admitted(request.namespace, &limits);
                let id = self.keep(permit, now.saturating_add(expires_after), now).await?;
                Ok(self.admitted(request.namespace, Some(id), &limits, now))
            }
            Decision::Refuse(refusal) => Ok(self.refused(&refusal, now)),
        }
    }

    pub(crate) async fn settle(&self, body: &[u8]) -> Answered {
        let settle: Settle<'_> = read(body)?;
        if let Some(fault) = settle.fault() {
            return Err(fault);
        }
        let outcome = match (settle.cost, settle.outcome) {
            (Some(units), _) => Outcome::Cost(units),
            (None, None | Some(OutcomeBody::Succeeded)) => Outcome::Succeeded,
            (None, Some(OutcomeBody::Failed)) => Outcome::Failed,
            (None, Some(OutcomeBody::Cancelled)) => Outcome::Cancelled,
        };
        self.settle_permit(&settle.permit, outcome).await
    }

    pub(crate) async fn release(&self, body: &[u8]) -> Answered {
        let release: Release<'_> = read(body)?;
        self.settle_permit(&release.permit, Outcome::Succeeded).await
    }

    async fn settle_permit(&self, permit: &str, outcome: Outcome) -> Answered {
        let id: PermitId =
            permit.parse().map_err(|error| Fault::new(FaultCode::MalformedBody, error).field("permit"))?;
        let now = self.clock.now();
        let settled = self.engine.settle_kept(id, outcome, now).map_err(|error| engine_fault(&error, now))?;
        self.finish(settled).await;
        Ok(reply::json(StatusCode::OK, &SettleAnswer { permit: "settled" }))
    }

    pub(crate) fn reset(&self, body: &[u8]) -> Answered {
        let reset: Reset<'_> = read(body)?;
        let pairs = self.bounded(&reset.attributes)?;
        let request = request(&reset.namespace, &reset.attributes, &pairs, Cost::ONE);
        let now = self.clock.now();
        let limit = reset.limit.as_deref();
        let counters = self.engine.reset(&request, limit, now).map_err(|error| engine_fault(&error, now))?;
        Ok(reply::json(StatusCode::OK, &ResetAnswer { counters }))
    }

    pub(crate) fn block(&self, body: &[u8]) -> Answered {
        let block: Block<'_> = read(body)?;
        let span = block.span()?;
        let pairs = self.bounded(&block.attributes)?;
        let request = request(&block.namespace, &block.attributes, &pairs, Cost::ONE);
        let now = self.clock.now();
        // An instant that has passed lifts the block.
        let until = if span.is_zero() { Timestamp::MIN } else { now.saturating_add(span) };
        self.engine.block(&request, &block.limit, until, now).map_err(|error| engine_fault(&error, now))?;
        let blocked_until = (!span.is_zero()).then(|| until.to_string());
        Ok(reply::json(StatusCode::OK, &BlockAnswer { blocked_until }))
    }
}

/// A request as the engine takes it.
pub(crate) fn request<'a>(
    namespace: &'a str,
    attributes: &'a Pairs<'_>,
    pairs: &'a [(&'a str, &'a str)],
    cost: Cost,
) -> Request<'a> {
    let request = Request::new(namespace, pairs).cost(cost);
    match attributes.get(TENANT) {
        Some(tenant) => request.tenant(tenant),
        None => request,
    }
}

fn access<'a>(body: &'a AccessBody<'_>) -> Access<'a> {
    let read = |consistency| capacity::AccessKind::Read { consistency };
    let kind = match body.kind {
        AccessKind::Read => read(ReadConsistency::Eventual),
        AccessKind::ReadStrong => read(ReadConsistency::Strong),
        AccessKind::ReadTransactional => read(ReadConsistency::Transactional),
        AccessKind::Write => capacity::AccessKind::Write,
        AccessKind::WriteTransactional => capacity::AccessKind::TransactionalWrite,
    };
    Access { table: &body.table, key: body.key.as_bytes(), kind, size: body.size }
}

/// The limits that enforce, of those that matched.
pub(crate) type Enforced<'a> = SmallVec<[&'a LimitReport; 4]>;

/// What limits have left, for the headers.
pub(crate) fn allowances<'a>(
    limits: &'a [&'a LimitReport],
    now: Timestamp,
) -> impl Iterator<Item = Allowance<'a>> + Clone {
    limits.iter().map(move |report| Allowance {
        name: &report.name,
        limit: report.limit,
        remaining: report.remaining,
        wait_seconds: report.window.map(|_| seconds_up(report.reset_at.saturating_since(now))),
        window: report.window,
    })
}

fn answers<'a>(limits: &[&'a LimitReport], now: Timestamp) -> SmallVec<[LimitAnswer<'a>; 4]> {
    let answer = |report: &&'a LimitReport| LimitAnswer {
        name: &report.name,
        limit: report.limit,
        remaining: report.remaining,
        reset_ms: millis_up(report.reset_at.saturating_since(now)),
    };
    limits.iter().map(answer).collect()
}

fn tightest_remaining(limits: &[&LimitReport], now: Timestamp) -> Option<u64> {
    tightest(allowances(limits, now)).map(|one| one.remaining)
}
