//! One request from its head to the head of its answer: its route, its attributes, its admission,
//! and its upstream or refusal.

use core::time::Duration;
use std::borrow::Cow;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, EXPECT, VARY};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use smallvec::SmallVec;
use tidegate_core::{Attributes, Cost, Refusal};
use tidegate_engine::{Engine, GrantedFeature, WaitingConnection};
use tidegate_net::connections::{ConnectionActivity, SharedConnectionBytes, WaitingBytes};
use tidegate_net::reply::{self, Reply};
use tidegate_net::{Peer, check_head};
use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::claims::{AccessParts, AccessSources};
use tidegate_policy::policy::proxy::RouteHold;
use tidegate_wire::claim::parse_attempt;
use tidegate_wire::headers::{FEATURE, ShownFeature};
use tidegate_wire::text::shortened;
use tidegate_wire::ticket;
use tidegate_wire::{Fault, FaultCode};
use tokio::time::Instant;
use tracing::Instrument;

use crate::attributes::RequestValues;
use crate::body::AnswerBody;
use crate::class;
use crate::deadline::Wait;
use crate::decision_point::{DecisionPoint, NotedDecision};
use crate::forward::{Origin, Unanswered, UnansweredCause, UpstreamRequest, forward};
use crate::headers::{self, is_refused_method};
use crate::host::{CanonicalHost, host_of};
use crate::page;
use crate::path::{PathRules, PlainPath};
use crate::request_body::RequestBody;
use crate::request_context::{AccessLogRecord, ActiveRequest, Held, RequestCancellation, RequestContext};
use crate::response_end::ResponseEnd;
use crate::reverse_proxy::{ReverseProxy, RoutedPolicy};
use crate::routes::Route;
use crate::unforwarded::{Unforwarded, reply_to, whole};

/// The next step for a request that was read without error.
enum ProxyStep<'r> {
    /// It goes to the upstream of a route.
    Forward(&'r Route, Box<UpstreamRequest>),
    /// It is refused with this answer.
    Refused(Reply),
}

/// The same before its body is set up.
enum RouteAdmission<'r> {
    Admitted(&'r Route, Origin),
    Refused(Reply),
}

/// Answers one request of the connection `line` that came from `peer`.
pub async fn answer<D: DecisionPoint>(
    proxy: &ReverseProxy<D>,
    line: &Arc<ConnectionActivity>,
    peer: Peer,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let is_http1 = request.version() < http::Version::HTTP_2;
    let in_force = proxy.state.in_force();
    let routes = &in_force.routes;
    let record = AccessLogRecord {
        started: Instant::now(),
        method: request.method().clone(),
        path: routes.config.settings.access_log.then(|| request.uri().path().into()),
        client: None,
        status: 0,
        decision: "none",
        waited: Duration::ZERO,
        upstream: None,
        until: None,
        is_wanted: routes.config.settings.access_log,
    };
    let mut context =
        RequestContext::new(ActiveRequest::new(Arc::clone(line)), Arc::clone(&routes.other), record);
    // Costs nothing unless spans are collected.
    let span = tracing::debug_span!(
        target: "tidegate::proxy",
        "proxied",
        route = tracing::field::Empty,
        decision = tracing::field::Empty,
        upstream_ms = tracing::field::Empty,
        status = tracing::field::Empty,
    );
    let begun = begin(proxy, &in_force, peer, request, &mut context).instrument(span.clone()).await;
    span.record("route", context.counts.route());
    span.record("decision", context.record.decision);
    let mut answer = match begun {
        Ok(ProxyStep::Forward(route, request)) => {
            let forwarded = forward(&proxy.context, context, *request, &span).instrument(span.clone()).await;
            forwarded.unwrap_or_else(|unanswered| {
                let Unanswered { context, cause, closes } = *unanswered;
                let reply = match cause {
                    UnansweredCause::Fault(fault) => reply_to(&*proxy.decisions, fault.into()),
                    UnansweredCause::Cancelled(cancelled) => {
                        cancelled_reply(proxy, &in_force.policy, route, &cancelled)
                    }
                };
                let mut answer = answered(context, reply);
                if closes {
                    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                answer
            })
        }
        Ok(ProxyStep::Refused(reply)) => answered(context, reply),
        Err(unforwarded) => answered(context, reply_to(&*proxy.decisions, unforwarded)),
    };
    span.record("status", answer.status().as_u16());
    // A caller that misses it gets it with its next answer, or when the grace is over.
    if is_http1 && !proxy.decisions.is_ready() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Counts a request that is given up because of `fault`; its answer.
pub fn answer_to_fault<D: DecisionPoint>(proxy: &ReverseProxy<D>, fault: &Fault) -> Response<AnswerBody> {
    whole(reply_to(&*proxy.decisions, fault.clone().into()))
}

/// Ends a request with an answer of the daemon's own.
fn answered(mut context: RequestContext, reply: Reply) -> Response<AnswerBody> {
    context.record.status = reply.status().as_u16();
    context.end(ResponseEnd::Whole);
    whole(reply)
}

/// Everything before the request is sent on.
async fn begin<'r, D: DecisionPoint>(
    proxy: &ReverseProxy<D>,
    in_force: &'r RoutedPolicy<D::Policy>,
    peer: Peer,
    request: Request<Incoming>,
    context: &mut RequestContext,
) -> Result<ProxyStep<'r>, Unforwarded> {
    let (mut head, incoming) = request.into_parts();
    // A caller that expects 100-continue has sent no body yet, and reading one would ask for it.
    let sends_anyway = !head.headers.contains_key(EXPECT);
    let upload = RequestBody::new(incoming);
    let discard = |upload: RequestBody| {
        if sends_anyway {
            upload.discard(proxy.context.bounds.linger);
        }
    };
    match admit(proxy, in_force, peer, &mut head, &upload, context).await {
        Ok(RouteAdmission::Admitted(route, origin)) => {
            let rules = &in_force.routes.headers;
            let mut upstream = UpstreamRequest::new(&proxy.context, route, head, origin, upload, rules);
            upstream.tell_feature(context.allowances.get(FEATURE));
            Ok(ProxyStep::Forward(route, Box::new(upstream)))
        }
        Ok(RouteAdmission::Refused(reply)) => {
            discard(upload);
            Ok(ProxyStep::Refused(reply))
        }
        Err(unforwarded) => {
            discard(upload);
            Err(unforwarded)
        }
    }
}

/// Finds the route of a request and has it admitted; the permit is held by `context`. The head is
/// brought into the form in which its address goes on.
async fn admit<'r, D: DecisionPoint>(
    proxy: &ReverseProxy<D>,
    in_force: &'r RoutedPolicy<D::Policy>,
    peer: Peer,
    head: &mut Parts,
    upload: &RequestBody,
    context: &mut RequestContext,
) -> Result<RouteAdmission<'r>, Unforwarded> {
    let config = &in_force.routes.config;
    let is_trusted = peer.is_named && config.client_address.is_trusted_peer(peer.address);
    let client = if is_trusted {
        config.client_address.of_peer(&head.headers, peer.address)
    } else {
        peer.address.map(|address| address.to_canonical())
    };
    context.record.client = client;
    check_head(head, &proxy.context.bounds)?;
    if is_refused_method(&head.method) {
        let detail = format!("the proxy does not take {}", shortened(head.method.as_str(), 32));
        return Err(Fault::new(FaultCode::MethodNotAllowed, detail).fix("use another method").into());
    }
    in_force.routes.headers.check_connection(&head.headers)?;
    headers::join_cookies(&mut head.headers);
    let host = host_of(head)?;
    let host = host.as_ref().map(CanonicalHost::name);
    let sent: Box<str> = head.uri.path().into();
    let path = PlainPath::read(&sent, PathRules::new(config.settings.unusual_paths))?;
    let Some(route) = in_force.routes.find(head, path.matched(), host)? else {
        let path = shortened(path.matched(), 128);
        let fault = Fault::new(FaultCode::UnknownRoute, format_args!("no route of the proxy takes {path}"));
        return Err(fault.fix("see proxy.routes of the configuration").into());
    };
    context.counts = Arc::clone(&route.counts);
    upload.prepare(route.config.timeouts.idle, &in_force.routes.headers);
    if let Some(namespace) = &route.config.namespace {
        let claims = match &config.tokens {
            Some(tokens) if route.needs_claims => tokens.read(&head.headers, proxy.context.driver.now())?,
            _ => None,
        };
        let values = RequestValues {
            parts: head,
            client,
            host,
            path: &path,
            claims: claims.as_ref(),
            bytes_max: config.value_bytes_max,
        };
        let request = RoutedRequest { route, namespace, values, is_trusted, upload };
        if let Some(reply) = decide(proxy, in_force, &request, context).await? {
            return Ok(RouteAdmission::Refused(reply));
        }
        context.upload = context.measured.map(|_| upload.share());
    }
    if path.is_rewritten() {
        readdress(head, path.forwarded())?;
    }
    Ok(RouteAdmission::Admitted(route, Origin { peer, is_trusted }))
}

/// Puts another path in the place of the one that was sent; the query stays.
fn readdress(head: &mut Parts, path: &str) -> Result<(), Fault> {
    let target = match head.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let mut parts = core::mem::take(&mut head.uri).into_parts();
    parts.path_and_query = Some(target.parse().map_err(|_| malformed("the path cannot be sent on"))?);
    head.uri = http::Uri::from_parts(parts).map_err(|_| malformed("the path cannot be sent on"))?;
    Ok(())
}

fn malformed(detail: &str) -> Fault {
    Fault::new(FaultCode::MalformedQuery, detail)
}

/// A request whose route is known.
struct RoutedRequest<'a> {
    route: &'a Route,
    namespace: &'a str,
    values: RequestValues<'a>,
    /// Whether it comes from a trusted peer, whose claims are not bounded.
    is_trusted: bool,
    upload: &'a RequestBody,
}

/// Decides a request by the engine. An admission goes into `context`; a refusal has an answer.
async fn decide<D: DecisionPoint>(
    proxy: &ReverseProxy<D>,
    in_force: &RoutedPolicy<D::Policy>,
    routed: &RoutedRequest<'_>,
    context: &mut RequestContext,
) -> Result<Option<Reply>, Unforwarded> {
    let (config, values) = (&routed.route.config, &routed.values);
    let head = values.parts;
    let extracted = values.attributes(&config.attributes)?;
    let pairs: SmallVec<[(&str, &str); 8]> =
        extracted.iter().map(|(name, value)| (*name, &**value)).collect();
    let read_at = proxy.context.driver.now();
    let attributes = Attributes::new(&pairs);
    let (cost, measured) = cost_of(routed, attributes, (*in_force.policy).as_ref())?;
    let mut request = tidegate_engine::Request::new(routed.namespace, attributes).cost(cost);
    let tenant = config.tenant.as_deref();
    request.tenant =
        tenant.and_then(|tenant| pairs.iter().find(|(name, _)| *name == tenant).map(|(_, value)| *value));
    let feature = config.feature.as_ref().map(|source| values.value_of_any_length(source)).transpose()?;
    let feature = feature.flatten();
    request.feature = feature.as_deref();
    let operation = config.operation.as_ref().map(|source| values.value_of_any_length(source)).transpose()?;
    let operation = operation.flatten();
    request.operation = operation.as_deref();
    request.ticket = ticket::in_headers(&head.headers);
    let claimed = class::claimed(&config.class, values, routed.is_trusted)?;
    let (decisions, policy, driver) = (&*proxy.decisions, &*in_force.policy, &proxy.context.driver);
    request.attempt = attempt(routed)?;
    let wait = Wait::read(config.deadline.as_ref(), values);
    if let Some(ignored) = &wait.ignored {
        tracing::debug!(source = %ignored, "a wait that cannot be read was ignored");
    }
    request.deadline = wait.within.map(|within| read_at.saturating_add(within));
    let until = wait.within.map(|within| context.record.started + within.min(FAR));
    request.resource = Some(&config.upstream);
    request.is_stream = config.hold == RouteHold::FirstByte;
    let access = config.access.as_ref().map(|sources| AccessValues::read(sources, values)).transpose()?;
    let parts = access.as_ref().map(AccessValues::parts);
    let (mut request, wait) =
        decisions.complete(policy, request, claimed, config.class.default, parts, config.wait)?;
    // A caller with a ticket in its time waits for its place, also on a route without `wait`.
    let (decision, waited) = if wait.is_zero() && request.ticket.is_none() {
        (driver.decide(policy.as_ref(), &request).await, Duration::ZERO)
    } else {
        request.may_wait_until = Some(read_at.saturating_add(wait));
        let line = context.active.line();
        let head_bytes_max = proxy.context.bounds.header_bytes;
        let WaitingBytes { own, connection } = match routed.upload {
            RequestBody::Empty => line.waiting_bytes(head_bytes_max),
            RequestBody::Upload(_) => line.waiting_bytes_with_body(head_bytes_max),
        };
        request.waiting_bytes = own + head_bytes(head);
        request.waiting_connection =
            connection.map(|SharedConnectionBytes { id, bytes }| WaitingConnection { id, bytes });
        let _held = line.hold();
        (driver.decide(policy.as_ref(), &request).await, context.record.started.elapsed())
    };
    let decision = decision.map_err(|error| decisions.engine_fault(&error))?;
    context.record.until = until;
    context.record.waited = waited;
    // From here on every exit gives the permit back.
    match decisions.note(policy, &request, decision, read_at) {
        NotedDecision::Admitted(permit, limits) => {
            let at = permit.admitted_at();
            decisions.write_allowances(policy, &request, &limits, at, &mut context.allowances);
            if let Some(GrantedFeature { name, level }) = (*policy).as_ref().granted_feature(&permit) {
                ShownFeature::new(name, level).write(&mut context.allowances);
            }
            if let Some((work, ended)) = driver.cancellation(&permit) {
                let wants_page = page::is_wanted(&head.headers);
                context.cancellation = Some(RequestCancellation { work, ended, wants_page });
            }
            context.held = Some(Held::new(Arc::clone(&proxy.context), permit));
            context.measured = measured;
            context.record.decision = "admit";
            Ok(None)
        }
        NotedDecision::Refused(refusal) => {
            let wants_page = page::is_wanted(&head.headers);
            let mut reply = refused(proxy, policy, routed.route, wants_page, &refusal);
            decisions.write_load(policy, &request, reply.headers_mut());
            context.record.decision = "refuse";
            Ok(Some(reply))
        }
    }
}

/// How many attempts there were before a request. A peer that is not trusted could hide its demand
/// behind a number of its own, so only a claim of a token counts there.
fn attempt(routed: &RoutedRequest<'_>) -> Result<u32, Unforwarded> {
    let source = &routed.route.config.attempt;
    if source.is_of_client() && !routed.is_trusted {
        return Ok(0);
    }
    let attempt = routed.values.value(source)?.map(|text| parse_attempt(text.as_bytes()));
    if attempt == Some(None) {
        tracing::debug!(%source, "a number of attempts that cannot be read was ignored");
    }
    Ok(attempt.flatten().unwrap_or(0))
}

/// The parts of the access that a request makes, as they were found in it.
struct AccessValues<'a> {
    table: Option<Cow<'a, str>>,
    key: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    size: Option<Cow<'a, str>>,
}

impl<'a> AccessValues<'a> {
    fn read(sources: &'a AccessSources, values: &RequestValues<'a>) -> Result<Self, Unforwarded> {
        let value = |source: Option<&'a ValueSource>| match source {
            Some(source) => values.value(source),
            None => Ok(None),
        };
        Ok(Self {
            table: value(Some(&sources.table))?,
            key: value(Some(&sources.key))?,
            kind: value(sources.kind.as_ref())?,
            size: value(sources.size.as_ref())?,
        })
    }

    fn parts(&self) -> AccessParts<'_> {
        AccessParts {
            table: self.table.as_deref(),
            key: self.key.as_deref(),
            kind: self.kind.as_deref(),
            size: self.size.as_deref(),
        }
    }
}

/// Long enough to be no bound, and short enough to be added to an instant.
const FAR: Duration = Duration::from_hours(24 * 365);

/// The cost of a request as far as it is known, and how the rest is to be measured.
fn cost_of(
    routed: &RoutedRequest<'_>,
    attributes: Attributes<'_>,
    engine: &Engine,
) -> Result<(Cost, Option<(u64, u64)>), Unforwarded> {
    let cost = &routed.route.config.cost;
    let said = match &cost.from {
        Some(source) => said_cost(source, &routed.values)?,
        None => None,
    };
    // A namespace that does not exist is reported where the request is decided.
    let by_table = || engine.cost_of(routed.namespace, attributes).unwrap_or_default();
    let units = said.or(cost.units).unwrap_or_else(by_table);
    let Some(unit) = cost.body_bytes else { return Ok((units, None)) };
    if let Some(length) = routed.upload.length() {
        let all = units.units().saturating_add(length.div_ceil(unit.get()));
        return Ok((Cost::new(all).unwrap_or(units), None));
    }
    Ok((units, Some((unit.get(), units.units()))))
}

/// The cost that a request says itself.
fn said_cost(source: &ValueSource, values: &RequestValues<'_>) -> Result<Option<Cost>, Unforwarded> {
    let Some(text) = values.value(source)? else { return Ok(None) };
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let cost = text.parse().ok().filter(|_| is_digits).and_then(Cost::new);
    cost.map(Some).ok_or_else(|| {
        let text = shortened(&text, 32);
        let detail = format!("{source} \"{text}\" is not a whole number from 1 to {}", u64::MAX);
        Fault::new(FaultCode::MalformedQuery, detail).fix("send digits only, or leave it out").into()
    })
}

/// The bytes of a field of a head beside its name and its value: its entry in the map, and what the
/// allocator adds to a name and a value of their own.
const FIELD_BYTES: usize = 192;

fn head_bytes(head: &Parts) -> usize {
    let headers = head.headers.iter().map(|(name, value)| FIELD_BYTES + name.as_str().len() + value.len());
    headers.sum::<usize>() + head.uri.path().len() + head.uri.query().map_or(0, str::len)
}

/// The answer to a refused request: a page for people, a problem for programs, or what the route
/// says.
fn refused<D: DecisionPoint>(
    proxy: &ReverseProxy<D>,
    policy: &D::Policy,
    route: &Route,
    wants_page: bool,
    refusal: &Refusal,
) -> Reply {
    let (status, older) = proxy.decisions.refusal_form(policy, refusal);
    let now = proxy.context.driver.now();
    let own = route.config.refusal.as_ref();
    let mut reply = if let Some(own) = own {
        let mut reply = Response::new(own.body.clone().into_bytes().into());
        *reply.status_mut() = reply::status(status);
        reply.headers_mut().insert(CONTENT_TYPE, own.content_type.clone());
        reply
    } else if wants_page {
        let body = page::write(refusal, status, now).into_bytes();
        let mut reply =
            reply::with_body(reply::status(status), HeaderValue::from_static(page::MEDIA_TYPE), body);
        let policy = HeaderValue::from_static(page::SECURITY_POLICY);
        reply.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
        reply
    } else {
        return with_vary(reply::refusal(refusal, status, now, older));
    };
    reply::refusal_headers(reply.headers_mut(), refusal, now, older);
    with_vary(reply)
}

/// The answer to a request whose feature was switched off while its upstream worked on it.
fn cancelled_reply<D: DecisionPoint>(
    proxy: &ReverseProxy<D>,
    policy: &D::Policy,
    route: &Route,
    cancelled: &RequestCancellation,
) -> Reply {
    let driver = &proxy.context.driver;
    let namespace = route.config.namespace.as_deref().unwrap_or_default();
    match driver.engine().cancelled_work(&cancelled.work, namespace, driver.now()) {
        Some(refusal) => refused(proxy, policy, route, cancelled.wants_page, &refusal),
        // A reload has removed the feature.
        None => reply::empty(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// The body depends on the caller, so caches must not reuse it.
fn with_vary(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    reply.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
