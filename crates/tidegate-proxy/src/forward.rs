//! The way of an admitted request to its upstream, and of the answer back.

use std::sync::Arc;

use http::header::Entry;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tidegate_core::display::HumanDuration;
use tidegate_core::error_chain;
use tidegate_engine::{Completion, Outcome};
use tidegate_net::Peer;
use tidegate_policy::grammar::ResponseValue;
use tidegate_policy::policy::proxy::{Retry, Timeouts};
use tidegate_wire::headers::FEATURE;
use tidegate_wire::{Fault, FaultCode};
use tokio::time::Instant;

use crate::body::{AnswerBody, ProxiedBody};
use crate::headers::{self, HeaderRules, Sender};
use crate::proxy_context::ProxyContext;
use crate::request_body::{RequestBody, UploadError};
use crate::request_context::{RequestCancellation, RequestContext};
use crate::response_cost::ResponseCost;
use crate::response_end::ResponseEnd;
use crate::routes::Route;
use crate::tunnel;
use crate::upstream::{ServerIndex, Upstream, UpstreamClient, note_answer, turned_away, was_kept_and_closed};

/// The header of an answer with the capacity units that the access truly took.
const TRUE_UNITS: HeaderName = HeaderName::from_static("tidegate-units");

/// The sender of a request, for the headers that are forwarded.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// The other end of the connection.
    pub(super) peer: Peer,
    /// Whether it is a trusted proxy.
    pub(super) is_trusted: bool,
}

/// A request that is admitted and not sent yet.
pub(super) struct UpstreamRequest {
    head: Parts,
    upload: RequestBody,
    upstream: Arc<Upstream>,
    timeouts: Timeouts,
    retries: Retry,
    /// Where the answer says the true cost.
    cost_places: Arc<[ResponseValue]>,
    /// The protocol that the client wants to change to and the route allows, with the client's side
    /// of the connection.
    upgrade: Option<(String, OnUpgrade)>,
    /// The version that the client speaks.
    version: Version,
}

/// Why there is no answer from the upstream.
enum UpstreamFailure {
    /// No connection could be had, or the server turned us away before it read anything.
    Unreachable(String),
    /// It broke off, or did not answer in HTTP.
    Broken(String),
    /// A kept connection, which had answered before, was closed before it answered this request.
    Closed(String),
    /// It did not answer in time.
    Late,
    /// The body of the request broke off.
    Upload(UploadError),
}

impl UpstreamRequest {
    pub(super) fn new(
        proxy: &ProxyContext,
        route: &Route,
        mut head: Parts,
        origin: Origin,
        upload: RequestBody,
        rules: &HeaderRules,
    ) -> Self {
        let version = head.version;
        let host = head.headers.get(http::header::HOST).cloned();
        let sender = Sender {
            peer: origin.peer.address,
            is_tls: origin.peer.is_tls,
            is_trusted: origin.is_trusted,
            host: host.as_ref(),
            version,
        };
        let protocol = headers::offered_protocol(&head.headers, &route.config.upgrades).map(str::to_owned);
        headers::request(&mut head.headers, sender, rules);
        let upstream = Arc::clone(&route.upstream);
        // A body and a change of protocol do not go together, and HTTP/2 has no such change.
        let may_upgrade = matches!(upload, RequestBody::Empty)
            && version == Version::HTTP_11
            && !upstream.config.http2
            && tunnel::has_room(proxy);
        let upgrade = protocol.filter(|_| may_upgrade).zip(head.extensions.remove::<OnUpgrade>());
        head.extensions.clear();
        if upstream.config.http2 {
            // HTTP/2 has the host in the address, which is that of the server.
            head.headers.remove(http::header::HOST);
            head.version = Version::HTTP_2;
        } else {
            head.version = Version::HTTP_11;
        }
        if head.version == Version::HTTP_11 && upload.length().is_none() {
            // The HTTP client sends no body for GET and HEAD unless the head says that there is
            // one.
            head.headers.insert(http::header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if let Some(protocol) =
            upgrade.as_ref().and_then(|(protocol, _)| HeaderValue::from_str(protocol).ok())
        {
            head.headers.insert(http::header::UPGRADE, protocol);
            head.headers.insert(http::header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        let config = &route.config;
        if config.cost.reads_body() {
            head.headers.insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        Self {
            head,
            upload,
            upstream,
            timeouts: config.timeouts,
            retries: config.retry,
            cost_places: Arc::clone(&route.cost_places),
            upgrade,
            version,
        }
    }

    /// Tells the upstream at which level of its feature the request is to be served.
    pub(super) fn tell_feature(&mut self, level: Option<&HeaderValue>) {
        if let Some(level) = level {
            self.head.headers.insert(FEATURE, level.clone());
        }
    }

    /// Whether a request that was not answered may be sent again without taking effect twice for:
    /// its method is idempotent, and it has no body, of which a part may be gone.
    fn is_repeatable(&self) -> bool {
        let is_idempotent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE]
            .contains(&self.head.method);
        is_idempotent && matches!(self.upload, RequestBody::Empty)
    }

    /// The request for one server. The head is kept only if it may be needed again.
    fn request(&mut self, turn: ServerIndex, is_last: bool) -> Request<RequestBody> {
        let mut head = if is_last {
            core::mem::replace(&mut self.head, Request::new(()).into_parts().0)
        } else {
            self.head.clone()
        };
        head.uri = self.upstream.uri(turn, head.uri.path_and_query());
        Request::from_parts(head, self.upload.share())
    }
}

/// A request that no upstream answered.
pub(super) struct Unanswered {
    pub(super) context: RequestContext,
    pub(super) cause: UnansweredCause,
    /// Whether the connection closes, because the rest of the body would be read as the next
    /// request.
    pub(super) closes: bool,
}

/// Why no upstream answered a request.
pub(super) enum UnansweredCause {
    Fault(Fault),
    /// Its feature was switched off meanwhile.
    Cancelled(RequestCancellation),
}

impl From<Fault> for UnansweredCause {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Sends a request to its upstream and returns the answer.
pub(super) async fn forward(
    proxy: &Arc<ProxyContext>,
    mut context: RequestContext,
    mut outgoing: UpstreamRequest,
    span: &tracing::Span,
) -> Result<Response<AnswerBody>, Box<Unanswered>> {
    let total = outgoing.timeouts.total.map(|total| context.record.started + total);
    let until = [total, context.record.until].into_iter().flatten().min();
    let sent = Instant::now();
    let mut cancellation = context.cancellation.take();
    let outcome = tokio::select! {
        biased;
        outcome = send(proxy, &mut outgoing, until) => outcome,
        () = RequestContext::cancelled(&mut cancellation) => {
            let cancelled = cancellation.expect("without a cancellation the wait never ends");
            context.end(ResponseEnd::Cancelled);
            return Err(Box::new(Unanswered { context, cause: UnansweredCause::Cancelled(cancelled), closes: false }));
        }
    };
    context.cancellation = cancellation;
    match outcome {
        Ok(response) => {
            let took = sent.elapsed();
            proxy.metrics.upstream_duration.observe(took.as_secs_f64());
            context.record.upstream = Some(took);
            if let Some(held) = &mut context.held {
                held.head_arrived(response.status().as_u16());
            }
            span.record("upstream_ms", took.as_secs_f64() * 1e3);
            pass_on(proxy, context, outgoing, response, until)
        }
        Err(failure) => {
            let outcome = match failure {
                UpstreamFailure::Unreachable(_) => Outcome::Cancelled,
                // The client failed, not the upstream.
                UpstreamFailure::Upload(_) => Outcome::Abandoned,
                _ => Outcome::Failed,
            };
            let fault = fault(&failure, &outgoing);
            if let Some(held) = &mut context.held {
                held.settle(Completion::from(outcome).with_status(fault.code.status()));
            }
            let closes = matches!(failure, UpstreamFailure::Upload(_)) && outgoing.version < Version::HTTP_2;
            Err(Box::new(Unanswered { context, cause: fault.into(), closes }))
        }
    }
}

fn fault(failure: &UpstreamFailure, outgoing: &UpstreamRequest) -> Fault {
    let name = &outgoing.upstream.config.name;
    match failure {
        UpstreamFailure::Unreachable(why) => {
            let detail = format_args!("upstream {name} cannot be reached: {why}");
            Fault::new(FaultCode::UpstreamUnreachable, detail)
                .fix("nothing was charged; try again")
                .retry_after(1)
        }
        UpstreamFailure::Broken(why) | UpstreamFailure::Closed(why) => {
            Fault::new(FaultCode::UpstreamBroken, format_args!("upstream {name} gave no answer: {why}"))
        }
        UpstreamFailure::Late => {
            Fault::new(FaultCode::UpstreamTimeout, format_args!("upstream {name} did not answer in time"))
        }
        UpstreamFailure::Upload(UploadError::Slow) => {
            let detail =
                format!("no more of the body arrived within {}", HumanDuration(outgoing.timeouts.idle));
            Fault::new(FaultCode::BodyTimeout, detail)
        }
        UpstreamFailure::Upload(UploadError::Malformed) => {
            Fault::new(FaultCode::MalformedBody, "the body broke off")
        }
    }
}

/// Sends a request to one server, and to one more where that is safe.
///
/// Independent of `retry`, a repeatable request whose kept connection was closed is sent once more
/// to the same server over a new connection: the server has closed an idle connection and has not
/// failed.
async fn send(
    proxy: &ProxyContext,
    outgoing: &mut UpstreamRequest,
    until: Option<Instant>,
) -> Result<Response<Incoming>, UpstreamFailure> {
    let upstream = Arc::clone(&outgoing.upstream);
    let Some(turn) = upstream.take_turn() else {
        return Err(UpstreamFailure::Unreachable("it has no server".to_owned()));
    };
    let other = (outgoing.retries != Retry::Off && outgoing.upgrade.is_none())
        .then(|| upstream.other_than(turn))
        .flatten();
    let is_repeatable = outgoing.is_repeatable();
    let may_reconnect = is_repeatable && !upstream.config.http2;
    let is_late = || until.is_some_and(|until| until <= Instant::now());
    let is_last = other.is_none() && !may_reconnect;
    let first = SendAttempt { turn, over: &upstream.client, until, may_reconnect, is_last };
    let mut outcome = attempt(proxy, outgoing, first).await;
    if may_reconnect && matches!(outcome, Err(UpstreamFailure::Closed(_))) && !is_late() {
        let is_last = other.is_none();
        let again = SendAttempt { over: &upstream.fresh, may_reconnect: false, is_last, ..first };
        outcome = attempt(proxy, outgoing, again).await;
    }
    let failure = match outcome {
        Ok(response) => return Ok(response),
        Err(failure) => failure,
    };
    let is_safe = match &failure {
        // Nothing was sent, unless the body was asked for, of which then a part is gone.
        UpstreamFailure::Unreachable(_) => outgoing.upload.seen().is_none_or(|seen| !seen.is_begun),
        UpstreamFailure::Broken(_) | UpstreamFailure::Closed(_) => {
            outgoing.retries == Retry::Idempotent && is_repeatable
        }
        UpstreamFailure::Late | UpstreamFailure::Upload(_) => false,
    };
    match other {
        Some(turn) if is_safe && !is_late() => {
            proxy.metrics.upstream_failed(&upstream.config.name, "retried");
            let last = SendAttempt { turn, may_reconnect: false, is_last: true, ..first };
            attempt(proxy, outgoing, last).await
        }
        _ => Err(failure),
    }
}

/// How a request is sent to one server.
#[derive(Clone, Copy)]
struct SendAttempt<'a> {
    turn: ServerIndex,
    over: &'a UpstreamClient,
    until: Option<Instant>,
    /// Whether it is sent again if its connection was a kept one that was closed.
    may_reconnect: bool,
    /// Whether it is not sent again whatever happens, so that nothing of it must be kept.
    is_last: bool,
}

async fn attempt(
    proxy: &ProxyContext,
    outgoing: &mut UpstreamRequest,
    attempt: SendAttempt<'_>,
) -> Result<Response<Incoming>, UpstreamFailure> {
    let turn = attempt.turn;
    let request = outgoing.request(turn, attempt.is_last);
    let upstream = &*outgoing.upstream;
    let outcome = exchange(outgoing, attempt.over, request, attempt.until).await;
    let failed = |failure| {
        proxy.metrics.upstream_failed(&upstream.config.name, failure);
        upstream.failed(turn);
    };
    match &outcome {
        Ok(_) => upstream.succeeded(turn),
        Err(UpstreamFailure::Unreachable(_)) => failed("connect"),
        // No fault of the server, which may end a connection that is idle.
        Err(UpstreamFailure::Closed(_)) if attempt.may_reconnect => {}
        Err(UpstreamFailure::Broken(_) | UpstreamFailure::Closed(_)) => failed("broken"),
        Err(UpstreamFailure::Late) => failed("late"),
        // No fault of the server either.
        Err(UpstreamFailure::Upload(_)) => {}
    }
    if let Err(
        UpstreamFailure::Unreachable(why) | UpstreamFailure::Broken(why) | UpstreamFailure::Closed(why),
    ) = &outcome
    {
        tracing::debug!(
            upstream = upstream.config.name,
            server = upstream.server(turn),
            why,
            "a request was not answered"
        );
    }
    outcome
}

async fn exchange(
    outgoing: &UpstreamRequest,
    over: &UpstreamClient,
    request: Request<RequestBody>,
    until: Option<Instant>,
) -> Result<Response<Incoming>, UpstreamFailure> {
    let mut answer = core::pin::pin!(over.request(request));
    let mut quiet_since = Instant::now();
    let error = loop {
        let patience = quiet_since + outgoing.timeouts.first_byte;
        let patience = until.map_or(patience, |until| until.min(patience));
        match tokio::time::timeout_at(patience, &mut answer).await {
            Ok(Ok(answer)) => {
                note_answer(&answer);
                return Ok(answer);
            }
            Ok(Err(error)) => break error,
            Err(_) => {
                if until.is_some_and(|until| until <= Instant::now()) {
                    return Err(UpstreamFailure::Late);
                }
                match outgoing.upload.seen() {
                    // The client is waited for, and has a patience of its own.
                    Some(seen) if seen.is_waited_for => quiet_since = Instant::now(),
                    Some(seen) if seen.last > quiet_since => quiet_since = seen.last,
                    _ => return Err(UpstreamFailure::Late),
                }
            }
        }
    };
    if let Some(broke) = outgoing.upload.seen().and_then(|seen| seen.broke) {
        return Err(UpstreamFailure::Upload(broke));
    }
    let why = error_chain(&error);
    Err(if error.is_connect() || turned_away(&error) {
        UpstreamFailure::Unreachable(why)
    } else if was_kept_and_closed(&error) {
        UpstreamFailure::Closed(why)
    } else {
        UpstreamFailure::Broken(why)
    })
}

/// Makes the answer of an upstream that of the proxy.
fn pass_on(
    proxy: &Arc<ProxyContext>,
    mut context: RequestContext,
    outgoing: UpstreamRequest,
    response: Response<Incoming>,
    until: Option<Instant>,
) -> Result<Response<AnswerBody>, Box<Unanswered>> {
    let (mut head, body) = response.into_parts();
    context.record.status = head.status.as_u16();
    let server_side = head.extensions.remove::<OnUpgrade>();
    head.extensions.clear();
    let asked = outgoing.upgrade.filter(|(protocol, _)| headers::changes_to(&head.headers, protocol));
    headers::response(&mut head.headers, head.version);
    // For the proxy alone. Of several, or of one that is no number of units, nothing is known.
    if let Entry::Occupied(units) = head.headers.entry(TRUE_UNITS) {
        let (_, mut units) = units.remove_entry_mult();
        let only = units.next().filter(|_| units.next().is_none());
        context.true_units = only.and_then(|units| units.to_str().ok()?.trim().parse().ok());
    }
    if !outgoing.cost_places.is_empty() {
        context.reads_cost = true;
        context.response_cost = ResponseCost::from_head(&outgoing.cost_places, &mut head);
    }
    head.headers.extend(core::mem::take(&mut context.allowances));
    // Each connection has a version of its own.
    head.version = Version::HTTP_11;
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        let (Some((protocol, client_side)), Some(server_side)) = (asked, server_side) else {
            let detail = "the upstream changed to a protocol that it was not asked for";
            let fault = Fault::new(FaultCode::UpstreamBroken, detail);
            return Err(Box::new(Unanswered { context, cause: fault.into(), closes: false }));
        };
        if let Ok(protocol) = HeaderValue::from_str(&protocol) {
            head.headers.insert(http::header::UPGRADE, protocol);
        }
        head.headers.insert(http::header::CONNECTION, HeaderValue::from_static("upgrade"));
        tunnel::open(proxy, context, client_side, server_side, outgoing.timeouts.idle);
        return Ok(Response::from_parts(head, AnswerBody::whole(Vec::new().into())));
    }
    let body = ProxiedBody::new(body, context, outgoing.timeouts.idle, until);
    Ok(Response::from_parts(head, AnswerBody::proxied(body)))
}
