//! The HTTP door: it dispatches a request to its endpoint, and turns the result into an answer.

use core::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use hyper::body::Incoming;
use tidegate_policy::policy::authorization::Verb;
use tidegate_wire::{Fault, FaultCode};

use crate::authorization::Caller;
use crate::body::BodyReader;
use crate::browser_guard::{check_rebinding, check_site};
use crate::config::ServerConfig;
use crate::context::{DaemonContext, Desk};
use crate::endpoint::{Audience, Endpoint};
use crate::http_metrics::HttpMetrics;
use crate::listener_role::ListenerRole;
use crate::protocol::Protocol;
use tidegate_net::Bounds;
use tidegate_net::check_head;
use tidegate_net::connections::ConnectionActivity;
use tidegate_net::reply::{self, Reply};

/// The HTTP API over its context.
pub(crate) struct HttpApi {
    pub(crate) daemon: Arc<DaemonContext>,
    pub(crate) metrics: HttpMetrics,
}

/// Answers one request, which came over `line`.
///
/// `names` are those in the client's certificate, if it showed one.
pub(crate) async fn answer(
    api: &HttpApi,
    serves: ListenerRole,
    line: &Arc<ConnectionActivity>,
    names: &[String],
    request: Request<Incoming>,
) -> Reply {
    let daemon = &*api.daemon;
    let is_http1 = request.version() < http::Version::HTTP_2;
    let route = Endpoint::find(request.uri().path()).filter(|route| serves.audience(route.audience()));
    let mut reply = match dispatch(daemon, serves, route, line, names, request).await {
        Ok(reply) => reply,
        Err(EndpointError::Fault(fault)) => {
            daemon.metrics.fault(fault.code);
            reply::fault(&fault)
        }
        Err(EndpointError::Method(reply)) => {
            daemon.metrics.fault(FaultCode::MethodNotAllowed);
            *reply
        }
    };
    api.metrics.answered(route, reply.status().as_u16());
    // Relaxed: a connection that misses the flag is closed after its next answer, or when the grace
    // is over.
    if is_http1 && !daemon.is_ready.load(Ordering::Relaxed) {
        reply.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

enum EndpointError {
    Fault(Fault),
    Method(Box<Reply>),
}

impl From<Fault> for EndpointError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

async fn dispatch(
    daemon: &DaemonContext,
    serves: ListenerRole,
    route: Option<Endpoint>,
    line: &Arc<ConnectionActivity>,
    names: &[String],
    request: Request<Incoming>,
) -> Result<Reply, EndpointError> {
    let (head, incoming) = request.into_parts();
    let bounds = &daemon.config.bounds;
    let body = BodyReader::new(&head, incoming, bounds, line);
    let in_force = daemon.in_force.load_full();
    let desk = Desk { daemon, in_force: &in_force };
    let (route, caller) = match taken(&in_force.config, bounds, serves, route, names, &head) {
        Ok(taken) => taken,
        Err(unanswered) => {
            if matches!(&unanswered, EndpointError::Fault(fault) if fault.code == FaultCode::Unauthenticated)
            {
                let (peer, now) = (line.peer_address(), daemon.clock.now());
                daemon.audit.failed_request(Protocol::Http, peer, names, &head.headers, now);
            }
            body.discard();
            return Err(unanswered);
        }
    };
    let caller = &caller;
    let reply = match route {
        Endpoint::Check => desk.check(caller, &head.headers, &body.read().await?).await?,
        Endpoint::Report => desk.report(caller, &body.read().await?).await?,
        Endpoint::Refund => desk.refund(caller, &body.read().await?).await?,
        Endpoint::Reserve => desk.reserve(caller, &head.headers, &body.read().await?).await?,
        Endpoint::Settle => desk.settle(caller, &body.read().await?).await?,
        Endpoint::Release => desk.release(caller, &body.read().await?).await?,
        Endpoint::Reset => desk.reset(caller, &body.read().await?).await?,
        Endpoint::Block => desk.block(caller, &body.read().await?).await?,
        Endpoint::Placements => desk.place(caller, &body.read().await?)?,
        Endpoint::Authorize => {
            // A gateway may send the body of the request it asks about; it is not looked at.
            body.discard();
            desk.authorize(caller, head.uri.query(), &head.headers).await?
        }
        Endpoint::Json => {
            let body = body.read_at_most(bounds.grpc_message_bytes).await?;
            // In a box, since it is large and every request would have to carry room for it.
            Box::pin(desk.json(caller, &body)).await?
        }
        Endpoint::Overrides => {
            let (path, query) = (head.uri.path(), head.uri.query());
            let address = path.strip_prefix(route.path()).unwrap_or("");
            match head.method {
                Method::PUT => desk.set_override(caller, address, query, &body.read().await?).await?,
                Method::DELETE => desk.remove_override(caller, address, query, &body.read().await?).await?,
                _ => {
                    caller.may_everywhere(Verb::Inspect)?;
                    desk.overrides(query)?
                }
            }
        }
        Endpoint::Limits => desk.limits(head.uri.query())?,
        Endpoint::Explain => desk.explain(&body.read().await?).await?,
        Endpoint::AcknowledgeLoss => {
            caller.may_everywhere(Verb::Change)?;
            body.discard();
            desk.acknowledge_loss(caller).await?
        }
        Endpoint::Leases => desk.leases().await?,
        Endpoint::Blocks => desk.blocks(head.uri.query())?,
        Endpoint::Permits => desk.permits(head.uri.query())?,
        Endpoint::Tables => desk.tables(head.uri.query())?,
        Endpoint::TopKeys => desk.top_keys(head.uri.query())?,
        Endpoint::Rlconfig => desk.rlconfig()?,
        Endpoint::Metrics => desk.metrics_page(),
        Endpoint::Healthz => desk.health(),
        Endpoint::Readyz => desk.readiness(),
        Endpoint::OpenApi => reply::with_body(
            StatusCode::OK,
            HeaderValue::from_static("application/json"),
            crate::openapi::document().as_bytes().to_vec(),
        ),
    };
    Ok(reply)
}

/// The endpoint and the caller of a request, if its head is accepted.
fn taken(
    config: &ServerConfig,
    bounds: &Bounds,
    serves: ListenerRole,
    route: Option<Endpoint>,
    names: &[String],
    head: &Parts,
) -> Result<(Endpoint, Caller), EndpointError> {
    check_head(head, bounds)?;
    let route = route.ok_or_else(|| unknown_route(head.uri.path()))?;
    if let Err(allowed) = route.takes(&head.method) {
        let reply = reply::method_not_allowed(&head.method, route.path(), allowed);
        return Err(EndpointError::Method(Box::new(reply)));
    }
    if config.authorization.is_none() && !route.takes_any_origin() {
        check_site(&head.headers)?;
        if serves.is_plain_loopback {
            check_rebinding(head)?;
        }
    }
    Ok((route, permit(config, route, names, &head.headers)?))
}

/// The caller, if it may use this route at all. The operations check for which namespace.
fn permit(
    config: &ServerConfig,
    route: Endpoint,
    names: &[String],
    headers: &HeaderMap,
) -> Result<Caller, Fault> {
    let audience = route.audience();
    if audience == Audience::Everyone {
        return Ok(Caller::ANYONE);
    }
    let caller = Caller::of(config.authorization.as_ref(), names, headers)?;
    // For overrides the grant is checked once the namespace is known; a change needs a stronger
    // grant than reading.
    if audience == Audience::Operators && !matches!(route, Endpoint::Overrides | Endpoint::AcknowledgeLoss) {
        caller.may_everywhere(Verb::Inspect)?;
    }
    Ok(caller)
}

fn unknown_route(path: &str) -> Fault {
    let shown = tidegate_wire::text::shortened(path, 128);
    let fault = Fault::new(FaultCode::UnknownRoute, format_args!("no route {shown} on this listener"));
    if Endpoint::find(path).is_some() {
        return fault
            .fix("it is served on another listener; see listen.admin and listen.http of the configuration");
    }
    let mut routes = String::from("there are");
    for route in Endpoint::ALL {
        let _ = write!(routes, " {}", route.path());
    }
    fault.fix(routes)
}
