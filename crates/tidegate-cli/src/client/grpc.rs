//! Envoy's rate limit service, as Envoy would ask it: the domain is the namespace, the attributes
//! are one descriptor.

use core::error::Error as _;
use core::num::NonZeroU64;

use http::uri::{PathAndQuery, Uri};
use http::{HeaderName, Request, StatusCode};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_wire::answer::AccessUnits;
use tidegate_wire::envoy::{
    self, Code, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, rate_limit_descriptor::Entry,
};
use tidegate_wire::headers::{UNITS, UNITS_LEFT};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::answer::{CheckAnswer, LimitLeft};
use super::connection::{ANSWER_BYTES_MAX, connect};
use super::error::ClientError;
use crate::arguments::request::{CheckOptions, Daemon, Question};

pub(super) async fn check(
    daemon: &Daemon,
    question: &Question,
    options: &CheckOptions,
    token: Option<&str>,
) -> Result<CheckAnswer, ClientError> {
    let message = message(daemon, question, options)?;
    let stream = TokioIo::new(connect(daemon).await?);
    let silent = |error: hyper::Error| ClientError::silent(&error);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.map_err(silent)?;
    // The connection task ends when the sender is dropped.
    tokio::spawn(connection);
    let scheme = if daemon.at.is_tls { "https" } else { "http" };
    let origin: Uri = format!("{scheme}://{}", daemon.at.authority())
        .parse()
        .map_err(|_| ClientError::Untaken(format!("{} is no address", daemon.at)))?;
    sender.ready().await.map_err(silent)?;
    let service = service_fn(move |request: Request<Body>| sender.send_request(request));
    let mut grpc = Grpc::with_origin(service, origin).max_decoding_message_size(ANSWER_BYTES_MAX);
    let mut request = tonic::Request::new(message);
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse();
        let value =
            value.map_err(|_| ClientError::Untaken("the token fits into no header field".to_owned()))?;
        request.metadata_mut().insert("authorization", value);
    }
    let path = PathAndQuery::from_static(envoy::SHOULD_RATE_LIMIT);
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    match grpc.unary(request, path, codec).await {
        Ok(answer) => said(answer.into_inner()),
        Err(status) => Err(failed(&status)),
    }
}

fn message(
    daemon: &Daemon,
    question: &Question,
    options: &CheckOptions,
) -> Result<RateLimitRequest, ClientError> {
    let untaken =
        |why: &str| Err(ClientError::Untaken(format!("over {} {why}, or ask over http://", daemon.at)));
    if question.attributes.is_empty() {
        return untaken("a request has at least one attribute; give one");
    }
    // 0 leaves the cost to the daemon.
    let Ok(hits_addend) = u32::try_from(question.cost.map_or(0, NonZeroU64::get)) else {
        return untaken("a cost has 32 bits; give a smaller one");
    };
    if options.peek && hits_addend > 1 {
        return untaken("a look is of cost 1; leave out --cost");
    }
    let entry = |(key, value): &(String, String)| Entry { key: key.clone(), value: value.clone() };
    let descriptor = RateLimitDescriptor {
        entries: question.attributes.iter().map(entry).collect(),
        hits_addend: options.peek.then_some(0),
        ..RateLimitDescriptor::default()
    };
    Ok(RateLimitRequest { domain: question.namespace.clone(), descriptors: vec![descriptor], hits_addend })
}

/// Reads the answer. The body for Envoy's client is the refusal as HTTP callers get it.
fn said(answer: RateLimitResponse) -> Result<CheckAnswer, ClientError> {
    let status = answer.statuses.into_iter().next().unwrap_or_default();
    if answer.overall_code == i32::from(Code::OverLimit) {
        if !answer.raw_body.is_empty() {
            return CheckAnswer::read(StatusCode::TOO_MANY_REQUESTS, &answer.raw_body);
        }
        let retry = status.duration_until_reset.and_then(|wait| u64::try_from(wait.seconds).ok());
        return Ok(CheckAnswer {
            decision: "refuse".to_owned(),
            limit: status.current_limit.map(|limit| limit.name),
            remaining: Some(status.limit_remaining.into()),
            retry_after_ms: retry.map(|seconds| seconds.saturating_mul(1000)),
            ..CheckAnswer::default()
        });
    }
    let header = |name: &HeaderName| {
        let headers = answer.response_headers_to_add.iter();
        headers.filter(|one| one.key == name.as_str()).find_map(|one| one.value.parse().ok())
    };
    let access = header(&UNITS).zip(header(&UNITS_LEFT)).map(|(units, left)| AccessUnits { units, left });
    let metadata = answer.dynamic_metadata.as_ref().map(envoy::metadata::json).unwrap_or_default();
    let member = |name: &str| metadata[name].as_str().map(str::to_owned);
    let reset = status.duration_until_reset.and_then(|wait| u64::try_from(wait.seconds).ok());
    let left = status.current_limit.map(|limit| LimitLeft {
        name: limit.name,
        limit: limit.requests_per_unit.into(),
        remaining: status.limit_remaining.into(),
        reset_ms: reset.map(|seconds| seconds.saturating_mul(1000)),
        window_end: None,
    });
    Ok(CheckAnswer {
        decision: "admit".to_owned(),
        remaining: left.as_ref().map(|left| left.remaining),
        limits: left.into_iter().collect(),
        access,
        feature: member("feature"),
        feature_level: member("feature_level"),
        ..CheckAnswer::default()
    })
}

const OTHER: &str = "what answers there does not speak Envoy's rate limit service";

fn failed(status: &tonic::Status) -> ClientError {
    let why = format!("{} ({})", status.message(), status.code());
    match status.code() {
        tonic::Code::InvalidArgument
        | tonic::Code::Unauthenticated
        | tonic::Code::PermissionDenied
        | tonic::Code::NotFound => ClientError::Untaken(status.message().to_owned()),
        tonic::Code::Unimplemented => ClientError::OtherProtocol(OTHER.to_owned()),
        // A server of HTTP answers what is no message; the words for that are of its bytes.
        _ if status.message().starts_with("protocol error") => ClientError::OtherProtocol(OTHER.to_owned()),
        // One of HTTP/1 or of RESP ends the connection.
        _ if status.source().is_some() => {
            ClientError::OtherProtocol(format!("{OTHER} ({})", status.message()))
        }
        _ => ClientError::Silent(why),
    }
}
