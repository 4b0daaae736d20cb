//! The gRPC door: which service a call is for, and what all calls have in common.
//!
//! Calls come over the same connections as HTTP requests, with their bounds, their sweep and their drain; only the services
//! behind are tonic's. A message is read whole and within bounds before its service sees it, so that no service waits for
//! a caller. Only reflection reads as it goes: it answers from what is in memory.

mod counts;
mod files;
mod health;
mod json;
mod key;
mod rls;

use core::convert::Infallible;
use core::future::Future;
use core::net::IpAddr;
use core::pin::Pin;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use tidegate_wire::envoy::{self, RateLimitRequest, RateLimitResponse};
use tidegate_wire::{Fault, FaultCode};
use tonic::body::Body;
use tonic::codec::{BufferSettings, Codec};
use tonic::codegen::Service;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::{ProstDecoder, ProstEncoder};

use crate::authorization::Caller;
use crate::body;
use crate::daemon::{Daemon, Desk};
use crate::protocol::Protocol;
use counts::Called;
pub(crate) use counts::GrpcMetrics;
pub(crate) use health::Health;
pub(crate) use key::Hashes;

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;
type Reflection = Box<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

/// The services that are not Tidegate's own.
pub(crate) struct Services {
    pub(crate) health: Health,
    /// Each version with the beginning of its paths.
    reflection: [(&'static str, Reflection); 2],
}

impl Services {
    pub(crate) fn new() -> Self {
        Self {
            health: Health::new(),
            reflection: [
                ("/grpc.reflection.v1.ServerReflection/", boxed(reflection_v1())),
                ("/grpc.reflection.v1alpha.ServerReflection/", boxed(reflection_v1alpha())),
            ],
        }
    }
}

fn described() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(envoy::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

const DESCRIBED: &str = "the committed descriptions of the messages can be read";

fn reflection_v1()
-> tonic_reflection::server::v1::ServerReflectionServer<impl tonic_reflection::server::v1::ServerReflection> {
    described().build_v1().expect(DESCRIBED)
}

fn reflection_v1alpha() -> tonic_reflection::server::v1alpha::ServerReflectionServer<
    impl tonic_reflection::server::v1alpha::ServerReflection,
> {
    described().build_v1alpha().expect(DESCRIBED)
}

fn boxed<S>(service: S) -> Reflection
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = Answering>
        + Clone
        + Send
        + Sync
        + 'static,
{
    Box::new(move |request| service.clone().call(request))
}

/// Answers one call.
pub(crate) async fn answer(
    daemon: &Daemon,
    peer: Option<IpAddr>,
    names: &[String],
    request: Request<Incoming>,
) -> Response<Body> {
    if request.version() < Version::HTTP_2 {
        return older_version();
    }
    let (called, response) = dispatch(daemon, peer, names, request).await;
    // A call that was answered with messages has its status behind them, and it is good.
    let code = Status::from_header_map(response.headers()).map_or(Code::Ok, |status| status.code());
    daemon.metrics.grpc.answered(called, code);
    response
}

async fn dispatch(
    daemon: &Daemon,
    peer: Option<IpAddr>,
    names: &[String],
    request: Request<Incoming>,
) -> (Called, Response<Body>) {
    let path = request.uri().path();
    if path == envoy::SHOULD_RATE_LIMIT {
        let response = match read(daemon, request).await {
            Ok(request) => should_rate_limit(daemon, peer, names, request).await,
            Err(fault) => refuse(daemon, &fault),
        };
        return (Called::RateLimit, response);
    }
    if path.starts_with(health::PATHS) {
        let response = match read(daemon, request).await {
            Ok(request) => daemon.services.health.answer(request).await,
            Err(fault) => refuse(daemon, &fault),
        };
        return (Called::Health, response);
    }
    let mut reflections = daemon.services.reflection.iter();
    if let Some((_, reflection)) = reflections.find(|(paths, _)| path.starts_with(paths)) {
        return (Called::Reflection, never_fails(reflection(request).await));
    }
    let detail = format!("there is no method {}", tidegate_wire::text::shortened(path, 128));
    let fault = Fault::new(FaultCode::UnknownRoute, detail).fix("ask reflection for those that there are");
    body::discard(request.into_body(), daemon.config.bounds.linger);
    (Called::Other, refuse(daemon, &fault))
}

/// Whoever speaks HTTP/1 here is at the wrong door, and would not see the status of a call.
fn older_version() -> Response<Body> {
    const TEXT: &str = "this listener speaks gRPC, which needs HTTP/2; see listen.http for the HTTP API\n";
    let mut response = Response::new(Body::new(Full::from(TEXT)));
    *response.status_mut() = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn never_fails<T>(answer: Result<T, Infallible>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}

/// Reads the message of a call.
async fn read(daemon: &Daemon, request: Request<Incoming>) -> Result<Request<Full<Bytes>>, Fault> {
    let bounds = &daemon.config.bounds;
    let (head, incoming) = request.into_parts();
    let message = body::read_at_most(incoming, bounds.grpc_message_bytes, bounds).await?;
    Ok(Request::from_parts(head, Full::new(message)))
}

async fn should_rate_limit(
    daemon: &Daemon,
    peer: Option<IpAddr>,
    names: &[String],
    request: Request<Full<Bytes>>,
) -> Response<Body> {
    let in_force = daemon.in_force.load_full();
    let desk = Desk { daemon, in_force: &in_force };
    let caller = match Caller::of(&in_force.config, names, request.headers()) {
        Ok(caller) => caller,
        Err(fault) => {
            let now = daemon.clock.now();
            daemon.audit.failed_request(Protocol::Rls, peer, names, request.headers(), now);
            return refuse(daemon, &fault);
        }
    };
    let caller = &caller;
    let mut is_read = false;
    let decide = |request: tonic::Request<RateLimitRequest>| {
        is_read = true;
        async move {
            match desk.should_rate_limit(caller, request.get_ref()).await {
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
            refuse(daemon, &Fault::new(FaultCode::MalformedBody, detail).fix(fix))
        }
        _ => response,
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

fn refuse(daemon: &Daemon, fault: &Fault) -> Response<Body> {
    status_of(daemon, fault).into_http()
}

/// What the sender of a call is told that cannot be answered.
fn status_of(daemon: &Daemon, fault: &Fault) -> Status {
    daemon.metrics.fault(fault.code);
    let code = match fault.code {
        FaultCode::UnknownRoute | FaultCode::NotAvailable | FaultCode::MethodNotAllowed => {
            Code::Unimplemented
        }
        FaultCode::UnknownNamespace | FaultCode::UnknownLimit | FaultCode::UnknownPermit => Code::NotFound,
        FaultCode::Unauthenticated => Code::Unauthenticated,
        FaultCode::Forbidden => Code::PermissionDenied,
        FaultCode::BodyTimeout => Code::DeadlineExceeded,
        FaultCode::StoreUnavailable => Code::Unavailable,
        FaultCode::TooManyKept => Code::ResourceExhausted,
        FaultCode::Internal => Code::Internal,
        _ => Code::InvalidArgument,
    };
    let message = match &fault.fix {
        Some(fix) => format!("{}; {fix}", fault.detail),
        None => fault.detail.clone(),
    };
    Status::new(code, message)
}
