//! The HTTP API: it dispatches a request to its route, and turns the result into an answer.

use core::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};
use hyper::body::Incoming;
use tidegate_net::reply::{self, Reply, ReplyBody};
use tidegate_net::{Bounds, check_head};
use tidegate_policy::nearest;
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::{Fault, FaultCode};

use crate::api::body::BodyReader;
use crate::api::browser_guard::{check_rebinding, check_site};
use crate::api::http_metrics::HttpMetrics;
use crate::api::route::{Route, RouteAccess, RouteCall, RouteHandler, RoutesAtPath, Segments};
use crate::api::routes::ROUTES;
use crate::authorization::Caller;
use crate::config::ServerConfig;
use crate::context::{DaemonContext, RequestScope};
use crate::decide::{BegunDecision, RouteProgress};
use crate::listener::http_protocol::{HttpProtocol, RequestFinishGuard};
use crate::listener::request_connection::RequestConnection;
use crate::protocol::Protocol;

/// The HTTP API over its context.
pub(crate) struct HttpApi {
    pub(crate) daemon: Arc<DaemonContext>,
    pub(crate) metrics: HttpMetrics,
}

impl HttpProtocol for HttpApi {
    type Body = ReplyBody;
    const PASSES_ON: bool = false;
    const PROBES_CLIENTS: bool = false;

    async fn answer(&self, on: &RequestConnection, request: Request<Incoming>) -> Reply {
        on.line.request_started();
        let _finished = RequestFinishGuard(&on.line);
        let daemon = &*self.daemon;
        let is_http2 = request.version() == http::Version::HTTP_2;
        let (head, incoming) = request.into_parts();
        let found = ROUTES.at(head.uri.path()).filter(|found| on.serves.callers_of(found.first().access));
        let index = found.as_ref().map(RoutesAtPath::index);
        let in_force = daemon.in_force.load_full();
        let scope = RequestScope { daemon, in_force: &in_force };
        let mut answered = dispatch(scope, on, found, &head, incoming).await;
        // A request may wait for minutes, and nothing of its head is needed meanwhile.
        drop(head);
        if let Ok(RouteProgress::Waits(begun)) = answered {
            let BegunDecision { waiting, namespace, resource, is_in_queue } = *begun;
            let _held = is_in_queue.then(|| on.line.hold());
            let reply = Box::pin(scope.wait(waiting)).await;
            let reply = reply.map(|reply| scope.with_load(reply, resource.as_deref(), &namespace));
            answered = reply.map(RouteProgress::Answered).map_err(Unanswered::Fault);
        }
        let mut reply = match answered {
            Ok(RouteProgress::Answered(reply)) => reply,
            Ok(RouteProgress::Waits(_)) => unreachable!("it has ended above"),
            Err(Unanswered::Fault(fault)) => {
                daemon.metrics.fault(fault.code);
                reply::fault(&fault)
            }
            Err(Unanswered::Method(reply)) => {
                daemon.metrics.fault(FaultCode::MethodNotAllowed);
                *reply
            }
        };
        self.metrics.answered(index, reply.status().as_u16());
        // Relaxed: a connection that misses the flag is closed after its next answer, or when the
        // grace is over.
        if !is_http2 && !daemon.is_ready.load(Ordering::Relaxed) {
            reply.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply.body_mut().go_out(&on.line, is_http2);
        reply
    }

    fn daemon(&self) -> &DaemonContext {
        &self.daemon
    }

    fn panicked(&self, fault: &Fault) -> Reply {
        self.daemon.metrics.fault(fault.code);
        let reply = reply::fault(fault);
        self.metrics.answered(None, reply.status().as_u16());
        reply
    }
}

/// A request that no handler answers.
enum Unanswered {
    Fault(Fault),
    Method(Box<Reply>),
}

impl From<Fault> for Unanswered {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

async fn dispatch(
    scope: RequestScope<'_>,
    on: &RequestConnection,
    found: Option<RoutesAtPath<'_, '_>>,
    head: &Parts,
    incoming: Incoming,
) -> Result<RouteProgress, Unanswered> {
    let RequestScope { daemon, in_force } = scope;
    let bounds = &daemon.config.bounds;
    let body = BodyReader::new(head, incoming, bounds, &on.line);
    let (route, caller) = match accepted(&in_force.config, bounds, on, found.as_ref(), head) {
        Ok(accepted) => accepted,
        Err(unanswered) => {
            if matches!(&unanswered, Unanswered::Fault(fault) if fault.code == FaultCode::Unauthenticated) {
                let (peer, now) = (on.line.peer_address(), daemon.clock.now());
                daemon.audit.failed_request(Protocol::Http, peer, &on.names, &head.headers, now);
            }
            body.discard();
            return Err(unanswered);
        }
    };
    let none = Segments::default();
    let segments = found.as_ref().map_or(&none, |found| &found.segments);
    let call = RouteCall { scope, caller: &caller, head, line: &on.line, body, segments };
    Ok(match route.handler {
        RouteHandler::Answer(handler) => RouteProgress::Answered(handler(call).await?),
        RouteHandler::Decision(handler) => handler(call).await?,
    })
}

/// The route and the caller of a request, if its head is accepted.
fn accepted<'t>(
    config: &ServerConfig,
    bounds: &Bounds,
    on: &RequestConnection,
    found: Option<&RoutesAtPath<'t, '_>>,
    head: &Parts,
) -> Result<(&'t Route, Caller), Unanswered> {
    check_head(head, bounds)?;
    let found = found.ok_or_else(|| unknown_route(head.uri.path()))?;
    let route = found.taking(&head.method).map_err(|allowed| {
        let reply = reply::method_not_allowed(&head.method, found.first().path, &allowed);
        Unanswered::Method(Box::new(reply))
    })?;
    if config.authorization.is_none() && !route.takes_any_origin() {
        check_site(&head.headers)?;
        if on.serves.is_plain_loopback {
            check_rebinding(head)?;
        }
    }
    Ok((route, permit(config, route, &on.names, &head.headers)?))
}

/// The caller, if it may use this route at all. The operations check for which namespace.
fn permit(
    config: &ServerConfig,
    route: &Route,
    names: &[String],
    headers: &HeaderMap,
) -> Result<Caller, Fault> {
    if route.access == RouteAccess::Everyone {
        return Ok(Caller::ANYONE);
    }
    let caller = Caller::from_headers(config.authorization.as_ref(), names, headers)?;
    if route.access == RouteAccess::Inspector {
        caller.may_everywhere(Verb::Inspect)?;
    }
    Ok(caller)
}

fn unknown_route(path: &str) -> Fault {
    let shown = tidegate_wire::text::shortened(path, 128);
    let fault = Fault::new(FaultCode::UnknownRoute, format_args!("no route {shown} on this listener"));
    if ROUTES.at(path).is_some() {
        return fault
            .fix("it is served on another listener; see listen.admin and listen.http of the configuration");
    }
    let described = || ROUTES.all().iter().filter(|route| route.is_described()).map(|route| route.path);
    if let Some(near) = nearest(path, described()) {
        return fault.fix(format!("did you mean {near}?"));
    }
    let mut routes = String::from("there are");
    let mut before = "";
    for route in ROUTES.all().iter().filter(|route| route.is_described()) {
        if route.path != before {
            let _ = write!(routes, " {}", route.path);
        }
        before = route.path;
    }
    fault.fix(routes)
}
