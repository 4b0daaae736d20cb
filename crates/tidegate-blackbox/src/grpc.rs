//! A client for Envoy's rate limit service.

use std::error::Error as _;
use std::io::{Error, Result};
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use prost::Message;
use tidegate_wire::envoy::rate_limit_descriptor::{Entry, RateLimitOverride};
use tidegate_wire::envoy::{
    Code, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitUnit, SHOULD_RATE_LIMIT,
};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;
use tower::{Service, service_fn};

use crate::attack::Failure;
use crate::http1::{READ_TIMEOUT, runtime};
use crate::http2::begin;

/// The path of the service's only call.
pub const PATH: &str = SHOULD_RATE_LIMIT;

/// A connection, which runs on the thread that asks.
#[derive(Debug)]
pub struct GrpcClient {
    sender: SendRequest<Body>,
    runtime: Runtime,
}

impl GrpcClient {
    /// Connects to `address`.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let runtime = runtime()?;
        let sender = runtime.block_on(begin(address))?;
        Ok(Self { sender, runtime })
    }

    /// Asks, with the metadata `entries`. An answer that the server refuses is an `Err` within.
    pub fn ask(
        &self,
        request: RateLimitRequest,
        entries: &[String],
    ) -> Result<std::result::Result<RateLimitResponse, Status>> {
        let mut request = tonic::Request::new(request);
        for name in entries {
            let name = tonic::metadata::MetadataKey::from_bytes(name.as_bytes()).map_err(Error::other)?;
            request.metadata_mut().insert(name, "1".parse().map_err(Error::other)?);
        }
        Ok(self.runtime.block_on(async { timeout(READ_TIMEOUT, self.call(request)).await })?)
    }

    /// Asks, waits for at most `patience`, and ends the connection; `None` if no answer came.
    pub(crate) fn ask_for(
        self,
        request: RateLimitRequest,
        patience: Duration,
    ) -> Option<std::result::Result<RateLimitResponse, Status>> {
        let answer = async { timeout(patience, self.call(tonic::Request::new(request))).await };
        self.runtime.block_on(answer).ok()
    }

    async fn call(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> std::result::Result<RateLimitResponse, Status> {
        call(self.sender.clone(), request).await
    }
}

/// The client of a connection.
pub(crate) fn service_of(
    mut sender: SendRequest<Body>,
) -> impl Service<Request<Body>, Response = Response<Incoming>, Error = hyper::Error, Future: Send> {
    service_fn(move |request: Request<Body>| sender.send_request(request))
}

/// Asks over a connection.
pub(crate) async fn call(
    sender: SendRequest<Body>,
    request: tonic::Request<RateLimitRequest>,
) -> std::result::Result<RateLimitResponse, Status> {
    let mut grpc = Grpc::with_origin(service_of(sender), Uri::from_static("http://localhost"));
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let answer = grpc.unary(request, PathAndQuery::from_static(PATH), codec).await;
    answer.map(tonic::Response::into_inner)
}

/// A request with one descriptor, which is one entry.
pub fn request(domain: &str, key: &str, value: &str) -> RateLimitRequest {
    request_of(domain, [descriptor(&[(key, value)])])
}

/// A request with these descriptors.
pub fn request_of(
    domain: &str,
    descriptors: impl IntoIterator<Item = RateLimitDescriptor>,
) -> RateLimitRequest {
    RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

/// A descriptor of these entries.
pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

/// A descriptor that brings along a limit of one request a year.
pub fn once_a_year(key: &str, value: &str) -> RateLimitDescriptor {
    let limit = RateLimitOverride { requests_per_unit: 1, unit: RateLimitUnit::Year.into() };
    RateLimitDescriptor { limit: Some(limit), ..descriptor(&[(key, value)]) }
}

/// The bytes of a call: the message in its frame.
pub fn framed(request: &impl Message) -> Vec<u8> {
    let message = request.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a message is far below 4 GiB");
    [&[0][..], &length.to_be_bytes(), &message].concat()
}

/// Asks once, on a connection of its own, and returns whether the answer is OK.
pub fn is_admitted(address: SocketAddr, request: RateLimitRequest) -> std::result::Result<bool, Failure> {
    let answer = GrpcClient::open(address)?.ask(request, &[])?;
    let answer = answer.map_err(|status| Failure::GotThrough(format!("gRPC answered {status}")))?;
    Ok(answer.overall_code == i32::from(Code::Ok))
}

/// Sends `count` requests, which `request` makes of their number, over one connection with
/// `at_once` streams at a time. Returns how many calls the server has ended.
pub fn flood(
    address: SocketAddr,
    count: u64,
    at_once: u64,
    request: impl Fn(u64) -> RateLimitRequest,
) -> Result<u64> {
    let client = GrpcClient::open(address)?;
    let mut ended = 0;
    for from in (0..count).step_by(at_once as usize) {
        let calls =
            (from..count.min(from + at_once)).map(|number| client.call(tonic::Request::new(request(number))));
        let answers = client.runtime.block_on(async { timeout(READ_TIMEOUT, join_all(calls)).await })?;
        // An error of the connection has a source, one of the server has none.
        let is_ended = |answer: &&std::result::Result<_, Status>| {
            !answer.as_ref().is_err_and(|status| status.source().is_some())
        };
        ended += answers.iter().filter(is_ended).count() as u64;
    }
    Ok(ended)
}
