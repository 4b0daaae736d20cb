//! The gRPC listener as Envoy and the tools of gRPC see it.

mod answers;
mod batches;
mod charges;
mod decisions;
mod domains;
mod files;
pub(crate) mod hostile;
mod json;
mod places;
pub(crate) mod rlqs;
mod services;

use std::time::Duration;

use tidegate_server::{ListenerRole, ServerConfig};
use tidegate_wire::envoy::rate_limit_descriptor::{Entry, RateLimitOverride};
use tidegate_wire::envoy::{
    Code, DescriptorStatus, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitUnit,
    SHOULD_RATE_LIMIT,
};
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use crate::world::{World, api, loopback};

/// With a listener for gRPC.
fn config() -> ServerConfig {
    let mut config = loopback();
    config.listen(ListenerRole::Grpc, "127.0.0.1:0".parse().unwrap());
    config
}

async fn world() -> World {
    World::with([api()], config()).await
}

async fn connect(world: &World) -> Channel {
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// A caller of the rate limit service.
#[derive(Clone)]
pub(crate) struct Envoy(tonic::client::Grpc<Channel>);

impl Envoy {
    async fn of(world: &World) -> Self {
        Self(tonic::client::Grpc::new(connect(world).await))
    }

    pub(crate) async fn at(address: std::net::SocketAddr) -> Self {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        Self(tonic::client::Grpc::new(channel))
    }

    pub(crate) async fn call(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.call_with(tonic::Request::new(request)).await
    }

    /// The same with a `grpc-timeout`.
    pub(crate) async fn call_within(
        &mut self,
        request: RateLimitRequest,
        timeout: Duration,
    ) -> Result<RateLimitResponse, Status> {
        let mut request = tonic::Request::new(request);
        request.set_timeout(timeout);
        self.call_with(request).await
    }

    async fn call_with(
        &mut self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<RateLimitResponse, Status> {
        self.0.ready().await.unwrap();
        let path = PathAndQuery::from_static(SHOULD_RATE_LIMIT);
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        Ok(self.0.unary(request, path, codec).await?.into_inner())
    }

    async fn ask(&mut self, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
        self.call(request("api", descriptors)).await.unwrap()
    }

    /// The units left of each descriptor, and whether it is over its limit.
    async fn left(&mut self, descriptors: &[RateLimitDescriptor]) -> Vec<(bool, u32)> {
        lefts(&self.ask(descriptors).await)
    }
}

fn lefts(response: &RateLimitResponse) -> Vec<(bool, u32)> {
    let left = |one: &DescriptorStatus| (one.code() == Code::OverLimit, one.limit_remaining);
    let lefts: Vec<_> = response.statuses.iter().map(left).collect();
    let is_over = lefts.iter().any(|(is_over, _)| *is_over);
    assert_eq!(response.overall_code() == Code::OverLimit, is_over, "{response:?}");
    lefts
}

pub(crate) fn request(domain: &str, descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

pub(crate) fn user(name: &str) -> RateLimitDescriptor {
    descriptor(&[("user", name)])
}

fn app(name: &str) -> RateLimitDescriptor {
    descriptor(&[("app", name)])
}

/// The same, weighing this much by its own word.
fn weighing(hits: u64, descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor }
}

/// The same, to be given back.
pub(crate) fn back(descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..descriptor }
}

/// The same, under a limit of its own.
pub(crate) fn under(
    requests_per_unit: u32,
    unit: RateLimitUnit,
    descriptor: RateLimitDescriptor,
) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit: unit.into() });
    RateLimitDescriptor { limit, ..descriptor }
}

fn header<'a>(response: &'a RateLimitResponse, name: &str) -> Option<&'a str> {
    let found = response.response_headers_to_add.iter().find(|header| header.key == name);
    found.map(|header| header.value.as_str())
}
