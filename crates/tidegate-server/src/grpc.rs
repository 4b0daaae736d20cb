//! The gRPC listener: it dispatches calls to services, and applies the bounds that all calls share.
//!
//! Calls come over the same connections as HTTP requests, with their bounds, their sweep and their
//! drain; only the services behind are tonic's. The caller is authenticated by the head, before any
//! part of the message is kept. A message is read whole and within bounds before its service sees
//! it, so that no service waits for a caller. Two read as they go: reflection, which answers from
//! what is in memory, and that of rate limit quotas, whose streams are tasks of their own.

mod call_faults;
mod counts;
mod files;
mod health;
pub(crate) mod json;
mod rlqs;
mod rls;
mod server;
mod services;

use core::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tidegate_net::connections::{AnswerDelivery, Buffered, ConnectionActivity, DeliveredBody};
use tidegate_net::{Bounds, check_head};
use tidegate_wire::envoy::{self, RateLimitRequest, RateLimitResponse};
use tidegate_wire::{Fault, FaultCode, grpc_timeout};
use tonic::body::Body;
use tonic::codec::{BufferSettings, Codec};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::{ProstDecoder, ProstEncoder};

use crate::api::body::BodyReader;
use crate::api::browser_guard::check_site;
use crate::authorization::Caller;
use crate::context::{DaemonContext, RequestScope};
use crate::in_force::InForce;
use crate::protocol::Protocol;
use call_faults::{hold_stream, status_of};
use counts::CalledService;
use health::never_fails;
use rlqs::RefusedStream;
use rls::AnswerHold;
pub(crate) use server::{GrpcServer, GrpcState};

/// Answers one call, which came over `line`.
pub(crate) async fn answer(
    server: &GrpcServer,
    line: &Arc<ConnectionActivity>,
    names: &Arc<[String]>,
    request: Request<Incoming>,
) -> Response<DeliveredBody<Body>> {
    if request.version() < Version::HTTP_2 {
        return handing_nothing_over(rejected(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "this listener speaks gRPC, which needs HTTP/2; see listen.http for the HTTP API\n",
        ));
    }
    if !is_grpc(request.headers()) {
        return handing_nothing_over(rejected(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "this listener speaks gRPC; send `content-type: application/grpc`\n",
        ));
    }
    let (called, response) = dispatch(server, line, names, request).await;
    // A call that was answered with messages has its status behind them, and it is good. A stream
    // of the quota service is counted when it ends.
    let status = Status::from_header_map(response.headers()).unwrap_or_else(|| Status::ok(""));
    if (called, status.code()) != (CalledService::RateLimitQuota, Code::Ok) {
        server.state.metrics.answered(called, status.code());
    }
    if called == CalledService::RateLimitQuota && status.code() != Code::Ok {
        let peer = line.peer_address();
        let stream = RefusedStream { cause: "refused", envoy: None, namespace: None, peer, status: &status };
        server.state.refusal_lines.write(&stream, server.daemon.clock.now());
    }
    response
}

/// Counts a call whose handler panicked; its answer.
pub(crate) fn panicked(server: &GrpcServer, fault: &Fault) -> Response<DeliveredBody<Body>> {
    let status = status_of(&server.daemon, fault);
    server.state.metrics.answered(CalledService::Other, status.code());
    handing_nothing_over(status.into_http())
}

async fn dispatch(
    server: &GrpcServer,
    line: &Arc<ConnectionActivity>,
    names: &Arc<[String]>,
    request: Request<Incoming>,
) -> (CalledService, Response<DeliveredBody<Body>>) {
    let (head, incoming) = request.into_parts();
    let path = head.uri.path();
    let mut reflections = server.state.services.reflection.iter();
    let called = match path {
        envoy::SHOULD_RATE_LIMIT => CalledService::RateLimit,
        envoy::rlqs::STREAM_RATE_LIMIT_QUOTAS => CalledService::RateLimitQuota,
        path if path.starts_with(health::PATHS) => CalledService::Health,
        _ if reflections.any(|(paths, _)| path.starts_with(paths)) => CalledService::Reflection,
        _ => CalledService::Other,
    };
    let response = match answer_to(server, line, names, called, head, incoming).await {
        Ok(response) => response,
        Err(fault) => handing_nothing_over(refuse(&server.daemon, &fault)),
    };
    (called, response)
}

fn handing_nothing_over(response: Response<Body>) -> Response<DeliveredBody<Body>> {
    response.map(|body| DeliveredBody::new(body, None))
}

/// Answers a call of a known kind. Everything that the head decides is decided before any of the
/// body is kept.
async fn answer_to(
    server: &GrpcServer,
    line: &Arc<ConnectionActivity>,
    names: &Arc<[String]>,
    method: CalledService,
    parts: Parts,
    incoming: Incoming,
) -> Result<Response<DeliveredBody<Body>>, Fault> {
    let daemon = &*server.daemon;
    let bounds = &daemon.config.bounds;
    check_head(&parts, bounds)?;
    let in_force = daemon.in_force.load_full();
    if in_force.config.authorization.is_none() {
        check_site(&parts.headers)?;
    }
    match method {
        CalledService::RateLimit => {
            let caller = authenticate(daemon, &in_force, line, names, &parts.headers)?;
            let request = read(parts, incoming, bounds, line).await?;
            Ok(should_rate_limit(daemon, &in_force, &caller, line, request).await)
        }
        CalledService::RateLimitQuota => {
            authenticate(daemon, &in_force, line, names, &parts.headers)?;
            rlqs::begin(server, line, names, &parts, incoming)
        }
        CalledService::Health => {
            let request = read(parts, incoming, bounds, line).await?;
            let held = hold_stream(line)?;
            let response = kept_open(server.state.services.health.answer(request).await, held);
            Ok(handing_nothing_over(response))
        }
        CalledService::Reflection => {
            authenticate(daemon, &in_force, line, names, &parts.headers)?;
            let held = hold_stream(line)?;
            let reflections = &server.state.services.reflection;
            let found = reflections.iter().find(|(paths, _)| parts.uri.path().starts_with(paths));
            let (_, reflection) = found.ok_or_else(|| unknown_method(parts.uri.path()))?;
            let request = Request::from_parts(parts, incoming);
            Ok(handing_nothing_over(kept_open(never_fails(reflection(request).await), held)))
        }
        CalledService::Other => Err(unknown_method(parts.uri.path())),
    }
}

/// The caller of a call, which writes an audit line if its token or certificate is not one of the
/// policy's.
fn authenticate(
    daemon: &DaemonContext,
    in_force: &InForce,
    line: &ConnectionActivity,
    names: &[String],
    headers: &HeaderMap,
) -> Result<Caller, Fault> {
    Caller::from_headers(in_force.config.authorization.as_ref(), names, headers).inspect_err(|_| {
        let now = daemon.clock.now();
        daemon.audit.failed_request(Protocol::Rls, line.peer_address(), names, headers, now);
    })
}

fn unknown_method(path: &str) -> Fault {
    let detail = format!("there is no method {}", tidegate_wire::text::shortened(path, 128));
    Fault::new(FaultCode::UnknownRoute, detail).fix("list the methods by reflection")
}

/// The response, which holds the room of its stream until its last message.
fn kept_open(response: Response<Body>, held: Buffered) -> Response<Body> {
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            let _held = &held;
            frame
        }))
    })
}

/// Whether a call is one of gRPC by its media type, as `application/grpc+proto`.
fn is_grpc(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    media_type.is_some_and(|media_type| {
        media_type.len() >= GRPC.len() && media_type[..GRPC.len()].eq_ignore_ascii_case(GRPC)
    })
}

/// How the media type of every call begins.
const GRPC: &[u8] = b"application/grpc";

/// The answer to a request that is no call, whose sender would not see the status of one.
fn rejected(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::HTTP_VERSION_NOT_SUPPORTED {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Reads the message of a call.
async fn read(
    head: Parts,
    incoming: Incoming,
    bounds: &Bounds,
    line: &Arc<ConnectionActivity>,
) -> Result<Request<Full<Bytes>>, Fault> {
    let body = BodyReader::new(&head, incoming, bounds, line);
    let message = body.read_at_most(bounds.grpc_message_bytes).await?;
    Ok(Request::from_parts(head, Full::new(message)))
}

async fn should_rate_limit(
    daemon: &DaemonContext,
    in_force: &InForce,
    caller: &Caller,
    line: &Arc<ConnectionActivity>,
    request: Request<Full<Bytes>>,
) -> Response<DeliveredBody<Body>> {
    let scope = RequestScope { daemon, in_force };
    // A timeout that cannot be read is ignored: the policy's own bound remains.
    let timeout = request.headers().get("grpc-timeout").and_then(|text| grpc_timeout::parse(text.as_bytes()));
    let delivery = Mutex::new(None::<AnswerDelivery>);
    let delivery = &delivery;
    let mut is_read = false;
    let decide = |request: tonic::Request<RateLimitRequest>| {
        is_read = true;
        async move {
            // The metadata of the call is not kept while it waits.
            let message = &request.into_inner();
            let hold = AnswerHold { line, timeout, delivery, message };
            match scope.should_rate_limit(caller, message, Some(hold)).await {
                Ok(answer) => Ok(tonic::Response::new(answer)),
                Err(fault) => Err(status_of(daemon, &fault)),
            }
        }
    };
    let mut grpc =
        Grpc::new(RateLimitCodec).max_decoding_message_size(daemon.config.bounds.grpc_message_bytes);
    let response = grpc.unary(Unary(decide), request).await;
    match Status::from_header_map(response.headers()) {
        // The library calls a message that it cannot read a defect of the server.
        Some(status) if !is_read && matches!(status.code(), Code::Internal | Code::OutOfRange) => {
            let detail = format!("the message cannot be read: {}", status.message());
            let fix = "send an envoy.service.ratelimit.v3.RateLimitRequest, with UTF-8 in its strings";
            handing_nothing_over(refuse(daemon, &Fault::new(FaultCode::MalformedBody, detail).fix(fix)))
        }
        _ => {
            let delivery = delivery.lock().unwrap_or_else(PoisonError::into_inner).take();
            response.map(|body| DeliveredBody::new(body, delivery))
        }
    }
}

/// The bytes that are set aside for one message; a longer one takes more as it needs them.
const MESSAGE_BYTES: usize = 512;

/// The codec of `ShouldRateLimit`, whose messages are short: the library sets aside 8 KiB for each.
struct RateLimitCodec;

impl Codec for RateLimitCodec {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = ProstEncoder<RateLimitResponse>;
    type Decoder = ProstDecoder<RateLimitRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(BufferSettings::new(MESSAGE_BYTES, MESSAGE_BYTES))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(MESSAGE_BYTES, MESSAGE_BYTES))
    }
}

/// A function as a service of one method.
struct Unary<F>(F);

impl<F, A> UnaryService<RateLimitRequest> for Unary<F>
where
    F: FnMut(tonic::Request<RateLimitRequest>) -> A,
    A: Future<Output = Result<tonic::Response<RateLimitResponse>, Status>>,
{
    type Response = RateLimitResponse;
    type Future = A;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> A {
        (self.0)(request)
    }
}

fn refuse(daemon: &DaemonContext, fault: &Fault) -> Response<Body> {
    status_of(daemon, fault).into_http()
}
