//! The operations of the API, one for each route.

use http::{HeaderValue, StatusCode};
use smallvec::SmallVec;
use tidegate_capacity::{Access, IndexWrite};
use tidegate_core::refusal::ScopeValues;
use tidegate_core::{Algorithm, Limit, Refusal, Timestamp};
use tidegate_engine::{
    Completion, LimitReport, Outcome, PeekReport, PermitId, Progress, Refunded, Request, Units,
    numbers_in_words,
};
use tidegate_net::reply::{self, Reply};
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::answer::{
    Admitted, BlockAnswer, LimitAnswer, PreviewedCounter, RefundAnswer, Reported, ResetAnswer, ResetPreview,
    SettleAnswer, window_end,
};
use tidegate_wire::headers::ShownFeature;
use tidegate_wire::operation::{
    AccessBody, Block, Check, OutcomeBody, Refund, Release, Report, Reserve, Reset, Settle, read,
};
use tidegate_wire::pairs::{BorrowedPairs, Pairs};
use tidegate_wire::ratelimit::{Allowance, tightest};
use tidegate_wire::retry_after::{millis_up, seconds_up};
use tidegate_wire::{Fault, FaultCode};

use crate::admin::access_explanation::access_units;
use crate::admitted_charges::AdmittedCharges;
use crate::api::route::{DecisionFuture, RefusalForm, Route, RouteCall};
use crate::api::terms::{Keep, Style, Terms};
use crate::authorization::Caller;
use crate::claims::OwnClaims;
use crate::context::RequestScope;
use crate::decide::{RequestProgress, Waiting, WaitingPeek};
use crate::engine_fault::engine_fault;
use crate::envoy::file_domains::DomainCheck;
use crate::planes::access_kind;
use crate::records::audit::Operation;

/// The routes of the operations.
pub(crate) const ROUTES: &[Route] = &[
    Route::decision("/v1/check", "May this request go ahead?", check)
        .takes("Check")
        .answers("Admitted")
        .refuses(RefusalForm::Problem),
    Route::post("/v1/report", "Charge what was already done", |call| {
        call.with_body(|scope, caller, body| async move { scope.report(caller, &body).await })
    })
    .takes("Report")
    .answers("Reported"),
    Route::post("/v1/refund", "Give back what was charged, once", |call| {
        call.with_body(|scope, caller, body| async move { scope.refund(caller, &body).await })
    })
    .takes("Refund")
    .answers("RefundAnswer"),
    Route::decision("/v1/reserve", "Charge an estimate, settle later", reserve)
        .takes("Reserve")
        .answers("Admitted")
        .refuses(RefusalForm::Problem),
    Route::post("/v1/settle", "Say how the work ended", |call| {
        call.with_body(|scope, caller, body| async move { scope.settle(caller, &body).await })
    })
    .takes("Settle")
    .answers("SettleAnswer"),
    Route::post("/v1/release", "Give back what a permit lent", |call| {
        call.with_body(|scope, caller, body| async move { scope.release(caller, &body).await })
    })
    .takes("Release")
    .answers("SettleAnswer"),
    Route::post("/v1/reset", "Forget what is used", |call| {
        call.with_body(|scope, caller, body| async move { scope.reset(caller, &body).await })
    })
    .takes("Reset")
    .answers("ResetAnswer"),
    Route::post("/v1/block", "Refuse a key for a while", |call| {
        call.with_body(|scope, caller, body| async move { scope.block(caller, &body).await })
    })
    .takes("Block")
    .answers("BlockAnswer"),
];

type OperationResult = Result<Reply, Fault>;

/// Begins a check.
fn check(call: RouteCall<'_>) -> DecisionFuture<'_> {
    Box::pin(async move {
        let RouteCall { scope, caller, head, line, body, .. } = call;
        let body = body.read().await?;
        let check: Check<'_> = read(&body)?;
        let wait = check.wait()?;
        caller.may(Verb::Check, &check.namespace)?;
        let pairs = scope.bounded(&check.attributes)?;
        let own = OwnClaims::from_headers(check.class.map(|class| class.0), &head.headers)?;
        let own = own.feature(check.feature.as_deref()).ticket(check.ticket.as_deref());
        let cost = check.cost.map(|cost| cost.0);
        let mut request = scope.request_of(&check.namespace, &pairs, cost, own, caller)?;
        let access = NamedAccess::from_body(check.access.as_ref())?;
        scope.add_named(&mut request, check.resource.as_deref(), &access, caller)?;
        let now = scope.daemon.clock.now();
        if !wait.is_zero() {
            if scope.files_of(&check.namespace).is_some() {
                return Err(unwaiting_domain(&check.namespace, "wait_ms"));
            }
            let wait = scope.in_force.config.planes.bounded_wait(wait, request.resource, request.class);
            scope.let_wait(&mut request, wait, line, 0, now);
        }
        let terms = Terms { now, keep: Keep::Lent, style: Style::Whole };
        let progress = if check.peek { scope.peek(&request, terms) } else { scope.begin(&request, terms) };
        Ok(scope.route_progress(progress?, (request.resource, &check.namespace), !wait.is_zero()))
    })
}

/// Begins a reservation.
fn reserve(call: RouteCall<'_>) -> DecisionFuture<'_> {
    Box::pin(async move {
        let RouteCall { scope, caller, head, body, .. } = call;
        let body = body.read().await?;
        let reserve: Reserve<'_> = read(&body)?;
        caller.may(Verb::Check, &reserve.namespace)?;
        scope.refuse_domain(&reserve.namespace)?;
        let keep = Keep::Every(reserve.expires_after()?);
        let pairs = scope.bounded(&reserve.attributes)?;
        let own = OwnClaims::from_headers(reserve.class.map(|class| class.0), &head.headers)?;
        let own = own.feature(reserve.feature.as_deref()).ticket(reserve.ticket.as_deref());
        let cost = reserve.cost.map(|cost| cost.0);
        let mut request = scope.request_of(&reserve.namespace, &pairs, cost, own, caller)?;
        let access = NamedAccess::from_body(reserve.access.as_ref())?;
        scope.add_named(&mut request, reserve.resource.as_deref(), &access, caller)?;
        let terms = Terms { now: scope.daemon.clock.now(), keep, style: Style::Whole };
        let progress = scope.begin(&request, terms)?;
        Ok(scope.route_progress(progress, (request.resource, &reserve.namespace), false))
    })
}

impl RequestScope<'_> {
    /// Gives a request the resource and the access that a body names.
    pub(crate) fn add_named<'a>(
        &'a self,
        request: &mut Request<'a>,
        resource: Option<&'a str>,
        access: &'a NamedAccess<'_>,
        caller: &Caller,
    ) -> Result<(), Fault> {
        let planes = &self.in_force.config.planes;
        planes.add_resource(request, resource, caller)?;
        // An access of its own wins over the one that its attributes describe.
        access.access().map_or(Ok(()), |access| planes.add_access(request, access))
    }

    fn peek(&self, request: &Request<'_>, terms: Terms) -> Result<RequestProgress, Fault> {
        if let Some(files) = self.files_of(request.namespace) {
            return Ok(DomainCheck::new(files, request, true, terms)?.into());
        }
        let peek = self.in_force.engine.peek(request, terms.now);
        Ok(match peek.map_err(|error| self.request_fault(&error, terms.now))? {
            Progress::Done(peek) => RequestProgress::Done(self.peeked(request.namespace, &peek, terms)),
            Progress::Ask(asking) => {
                let namespace = request.namespace.to_owned();
                Waiting::Peek(Box::new(WaitingPeek { namespace, asking, terms })).into()
            }
        })
    }

    /// The answer to a peek.
    pub(crate) fn peeked(&self, namespace: &str, peek: &PeekReport, terms: Terms) -> Reply {
        if let Some(refusal) = &peek.refusal {
            return self.refused(refusal, terms);
        }
        let report = peek.feature.as_ref();
        let feature = report.map(|report| ShownFeature::new(&*report.name, &*report.level));
        let charged = AdmittedCharges {
            limits: &peek.limits,
            access: peek.access.map(access_units),
            feature: feature.as_ref(),
            is_shadow_feature: report.is_some_and(|report| report.is_shadow),
        };
        self.admitted(namespace, None, charged, terms)
    }

    /// The answer to a refused request.
    pub(crate) fn refused(&self, refusal: &Refusal, terms: Terms) -> Reply {
        let status = self.in_force.config.status_of(refusal);
        let older = self.in_force.config.older_headers;
        match terms.style {
            Style::Whole => reply::refusal(refusal, status, terms.now, older),
            Style::Headers(instead) => {
                let mut reply = reply::empty(reply::status(instead.unwrap_or(status)));
                reply::refusal_headers(reply.headers_mut(), refusal, terms.now, older);
                reply
            }
        }
    }

    /// The answer to an admitted request.
    pub(crate) fn admitted(
        &self,
        namespace: &str,
        permit: Option<PermitId>,
        charged: AdmittedCharges<'_>,
        terms: Terms,
    ) -> Reply {
        let AdmittedCharges { limits, access, feature, is_shadow_feature } = charged;
        let now = terms.now;
        let enforced = self.enforced(namespace, limits);
        let mut reply = match terms.style {
            Style::Whole => {
                let shadow: SmallVec<[&str; 2]> =
                    limits.iter().filter(|one| one.shadow_refused).map(|one| one.name.as_str()).collect();
                let body = Admitted {
                    decision: "admit",
                    permit: permit.map(|id| id.to_string().into()),
                    remaining: tightest_remaining(&enforced, now),
                    limits: &answers(&enforced, now),
                    access,
                    feature: feature.map(|one| &*one.name),
                    feature_level: feature.map(|one| &*one.level),
                    feature_shadow: is_shadow_feature,
                    shadow: &shadow,
                };
                reply::json(StatusCode::OK, &body)
            }
            Style::Headers(_) => reply::empty(StatusCode::OK),
        };
        let headers = reply.headers_mut();
        reply::limit_headers(headers, allowances(&enforced, now), self.in_force.config.older_headers);
        if let Some(access) = access {
            access.write(headers);
        }
        if let Some(feature) = feature.filter(|_| !is_shadow_feature) {
            feature.write(headers);
        }
        if let (Style::Headers(_), Some(id)) = (terms.style, permit) {
            let value = HeaderValue::from_str(&id.to_string());
            headers.insert(reply::PERMIT, value.expect("hexadecimal digits"));
        }
        reply
    }

    /// The attributes of a request, if they are within the bounds.
    pub(crate) fn bounded<'a>(&self, attributes: &'a Pairs<'_>) -> Result<BorrowedPairs<'a>, Fault> {
        let bounds = &self.daemon.config.bounds;
        match attributes.within(bounds.attributes, bounds.attribute_bytes) {
            Ok(()) => Ok(attributes.borrowed()),
            Err(error) => Err(Fault::new(FaultCode::MalformedBody, error).field("attributes")),
        }
    }

    /// The limits that enforce, which callers should heed.
    pub(crate) fn enforced<'a>(&self, namespace: &str, limits: &'a [LimitReport]) -> Enforced<'a> {
        let shadow = self.in_force.shadow_limits(namespace);
        let enforces =
            |one: &&LimitReport| !one.shadow_refused && !shadow.iter().any(|name| **name == *one.name);
        limits.iter().filter(enforces).collect()
    }

    pub(crate) async fn report(&self, caller: &Caller, body: &[u8]) -> OperationResult {
        let report: Report<'_> = read(body)?;
        caller.may(Verb::Report, &report.namespace)?;
        self.refuse_domain(&report.namespace)?;
        let pairs = self.bounded(&report.attributes)?;
        let own = OwnClaims::default();
        let request =
            self.request_of(&report.namespace, &pairs, report.cost.map(|cost| cost.0), own, caller)?;
        let now = self.daemon.clock.now();
        let limits = self.complete(self.in_force.engine.report(&request, now)).await?;
        let enforced = self.enforced(request.namespace, &limits);
        let body =
            Reported { remaining: tightest_remaining(&enforced, now), limits: &answers(&enforced, now) };
        let mut reply = reply::json(StatusCode::OK, &body);
        let older = self.in_force.config.older_headers;
        reply::limit_headers(reply.headers_mut(), allowances(&enforced, now), older);
        Ok(reply)
    }

    pub(crate) async fn refund(&self, caller: &Caller, body: &[u8]) -> OperationResult {
        let refund: Refund<'_> = read(body)?;
        caller.may(Verb::Refund, &refund.namespace)?;
        self.refuse_domain(&refund.namespace)?;
        if let Some(fault) = refund.fault() {
            return Err(fault);
        }
        let pairs = self.bounded(&refund.attributes)?;
        let cost = refund.cost.map(|cost| cost.0);
        let request = self.refunded_request(&refund.namespace, &pairs, cost, caller);
        let now = self.daemon.clock.now();
        let refunded = self.in_force.engine.refund(&request, &refund.refund_key, now);
        let refund = match self.complete(refunded).await? {
            Refunded::Applied => "applied",
            Refunded::AlreadyApplied => "already_applied",
        };
        Ok(reply::json(StatusCode::OK, &RefundAnswer { refund }))
    }

    pub(crate) async fn settle(&self, caller: &Caller, body: &[u8]) -> OperationResult {
        // Only the caller that was given a permit knows its name, so a caller that may check
        // anywhere may settle it.
        caller.may_somewhere(Verb::Check)?;
        let settle: Settle<'_> = read(body)?;
        if let Some(fault) = settle.fault() {
            return Err(fault);
        }
        let mut completion = Completion::from(match settle.outcome {
            None | Some(OutcomeBody::Succeeded) => Outcome::Succeeded,
            Some(OutcomeBody::Failed) => Outcome::Failed,
            Some(OutcomeBody::Abandoned) => Outcome::Abandoned,
            Some(OutcomeBody::Cancelled) => Outcome::Cancelled,
        });
        completion.true_cost = settle.cost;
        completion.status = settle.status;
        completion.true_units =
            settle.units.map(|units| Units::from_thousandths(units.as_thousandths().into()));
        self.settle_permit(&settle.permit, completion).await
    }

    pub(crate) async fn release(&self, caller: &Caller, body: &[u8]) -> OperationResult {
        // Only the caller that was given a permit knows its name, so a caller that may check
        // anywhere may settle it.
        caller.may_somewhere(Verb::Check)?;
        let release: Release<'_> = read(body)?;
        self.settle_permit(&release.permit, Outcome::Succeeded.into()).await
    }

    async fn settle_permit(&self, permit: &str, completion: Completion) -> OperationResult {
        let id: PermitId =
            permit.parse().map_err(|error| Fault::new(FaultCode::MalformedBody, error).field("permit"))?;
        let now = self.daemon.clock.now();
        let settled = self
            .in_force
            .engine
            .settle_kept(id, completion, now)
            .map_err(|error| engine_fault(&error, now))?;
        let place = settled.has_lost_place.then_some("expired");
        self.finish(settled).await?;
        Ok(reply::json(StatusCode::OK, &SettleAnswer { permit: "settled", place }))
    }

    pub(crate) async fn reset(&self, caller: &Caller, body: &[u8]) -> OperationResult {
        let reset: Reset<'_> = read(body)?;
        caller.may(Verb::Reset, &reset.namespace)?;
        let pairs = self.bounded(&reset.attributes)?;
        let request = Request::new(&reset.namespace, &pairs[..]);
        let (limit, now) = (reset.limit.as_deref(), self.daemon.clock.now());
        if reset.preview {
            return self.preview_reset(&request, limit, now).await;
        }
        let counters = match self.files_of(&reset.namespace) {
            Some(files) => Box::pin(self.reset_domain(&files, &request, limit, now)).await?,
            None => self.complete(self.in_force.engine.reset(&request, limit, now)).await?,
        };
        let operation = Operation {
            verb: Verb::Reset,
            namespace: &reset.namespace,
            limit: reset.limit.as_deref(),
            attributes: &pairs,
            outcome: "the counters of a key were reset",
        };
        self.daemon.audit.operation(caller, &operation, now);
        Ok(reply::json(StatusCode::OK, &ResetAnswer { counters }))
    }

    /// The counters that a reset would forget.
    async fn preview_reset(
        &self,
        request: &Request<'_>,
        limit: Option<&str>,
        now: Timestamp,
    ) -> OperationResult {
        let would_reset = if let Some(files) = self.files_of(request.namespace) {
            Box::pin(self.counters_of_domain(&files, request, limit, now)).await?
        } else {
            let fault = |error| self.request_fault(&error, now);
            let counters = self.in_force.engine.counters_of(request, limit, now).map_err(fault)?;
            let previewed = |(limit, scope, in_force): (&Limit, ScopeValues, &Algorithm)| PreviewedCounter {
                limit: limit.name.clone(),
                key: scope.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
                numbers: numbers_in_words(in_force),
                counts_over_ms: in_force.counts_over().map(millis_up),
            };
            counters.into_iter().map(previewed).collect()
        };
        Ok(reply::json(StatusCode::OK, &ResetPreview { would_reset }))
    }

    pub(crate) async fn block(&self, caller: &Caller, body: &[u8]) -> OperationResult {
        let block: Block<'_> = read(body)?;
        caller.may(Verb::Block, &block.namespace)?;
        self.refuse_domain(&block.namespace)?;
        let span = block.span()?;
        let pairs = self.bounded(&block.attributes)?;
        let request = Request::new(&block.namespace, &pairs[..]);
        let now = self.daemon.clock.now();
        // An instant that has passed lifts the block.
        let until = if span.is_zero() { Timestamp::MIN } else { now.saturating_add(span) };
        self.complete(self.in_force.engine.block(&request, &block.limit, until, now)).await?;
        let operation = Operation {
            verb: Verb::Block,
            namespace: &block.namespace,
            limit: Some(&block.limit),
            attributes: &pairs,
            outcome: if span.is_zero() { "the block of a key was lifted" } else { "a key was blocked" },
        };
        self.daemon.audit.operation(caller, &operation, now);
        let blocked_until = (!span.is_zero()).then(|| until.to_whole_millis().to_string());
        Ok(reply::json(StatusCode::OK, &BlockAnswer { blocked_until }))
    }
}

/// The fault of a request to a domain of files that says in `field` how long it waits.
pub(crate) fn unwaiting_domain(domain: &str, field: &'static str) -> Fault {
    let what = format!("\"{domain}\" is a domain of `envoy_ratelimit` files, whose requests do not wait");
    Fault::new(FaultCode::NotAvailable, what)
        .field(field)
        .fix("leave it out, and come back after Retry-After")
}

/// The access that a body names, with the entries of indexes as the capacity plane takes them.
pub(crate) struct NamedAccess<'a> {
    body: Option<&'a AccessBody<'a>>,
    index_writes: Option<SmallVec<[IndexWrite<'a>; 2]>>,
}

impl<'a> NamedAccess<'a> {
    /// Fails when the body has entries of indexes that it may not have.
    pub(crate) fn from_body(body: Option<&'a AccessBody<'a>>) -> Result<Self, Fault> {
        if let Some(fault) = body.and_then(AccessBody::fault) {
            return Err(fault);
        }
        let writes = body.and_then(|body| body.index_writes.as_deref());
        let index_writes = writes.map(|writes| {
            let entries = writes.iter().map(|write| IndexWrite {
                index: &write.index,
                key: write.key.as_bytes(),
                size: write.size,
            });
            entries.collect()
        });
        Ok(Self { body, index_writes })
    }

    fn access(&self) -> Option<Access<'_>> {
        let body = self.body?;
        let access = Access::new(&body.table, body.key.as_bytes(), access_kind(body.kind), body.size);
        Some(Access { index_writes: self.index_writes.as_deref(), ..access })
    }
}

/// The limits that enforce, of those that matched.
pub(crate) type Enforced<'a> = SmallVec<[&'a LimitReport; 4]>;

/// The allowances of limits, for the headers.
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
        window_end: window_end(report.civil_zone.as_deref(), report.reset_at, now),
    };
    limits.iter().map(answer).collect()
}

fn tightest_remaining(limits: &[&LimitReport], now: Timestamp) -> Option<u64> {
    tightest(allowances(limits, now)).map(|one| one.remaining)
}
