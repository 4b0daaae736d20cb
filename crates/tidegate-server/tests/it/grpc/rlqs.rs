//! Envoy's rate limit quota service as an Envoy sees it, and what a bad client gets.

mod assignments;
mod credentials;
mod log_lines;
mod metered;
mod raw_client;
mod reports;
mod slow_readers;
mod stream_ends;

use std::net::SocketAddr;

use tidegate_wire::envoy::rlqs::{
    BucketAction, BucketId, BucketQuotaUsage, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
    STREAM_RATE_LIMIT_QUOTAS,
};
use tokio::sync::mpsc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue};
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::config;
use crate::authorization::{OPS, bearer, request};
use crate::client::Client;
use crate::world::{World, bucket};
use tidegate_core::limit::Consistency;
use tidegate_engine::NamespaceConfig;

/// The namespace `api` with a limit that an Envoy can hold: 20 a second for each user, lent by the
/// daemon itself from the first stream on.
pub(super) fn api() -> NamespaceConfig {
    NamespaceConfig::new("api", [bucket("per-user", 20, 20).key(["user"]).lendable()])
}

pub(super) async fn world() -> World {
    World::with([api()], config()).await
}

/// The same limit, lent by the daemon itself and by a store.
pub(super) async fn worlds() -> [World; 2] {
    let leased = bucket("per-user", 20, 20).key(["user"]).consistency(Consistency::Leased);
    [world().await, World::leasing([NamespaceConfig::new("api", [leased])], config()).await]
}

/// One stream as an Envoy has it.
pub(crate) struct EnvoyStream {
    /// Dropping it ends the side of the client.
    reports: Option<mpsc::Sender<RateLimitQuotaUsageReports>>,
    answers: Streaming<RateLimitQuotaResponse>,
}

impl EnvoyStream {
    pub(super) async fn open(address: SocketAddr, metadata: &[(&str, &str)]) -> Result<Self, Status> {
        let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.unwrap();
        let (reports, sent) = mpsc::channel(4096);
        let mut request = tonic::Request::new(ReceiverStream::new(sent));
        for (name, value) in metadata {
            let name = AsciiMetadataKey::from_bytes(name.as_bytes()).unwrap();
            request.metadata_mut().insert(name, AsciiMetadataValue::try_from(*value).unwrap());
        }
        let codec = ProstCodec::<RateLimitQuotaUsageReports, RateLimitQuotaResponse>::default();
        let path = PathAndQuery::from_static(STREAM_RATE_LIMIT_QUOTAS);
        let answers = grpc.streaming(request, path, codec).await?.into_inner();
        Ok(Self { reports: Some(reports), answers })
    }

    /// A stream whose first report is on its way.
    pub(crate) async fn begun(address: SocketAddr, first: RateLimitQuotaUsageReports) -> Self {
        let stream = Self::open(address, &[]).await.unwrap();
        stream.send(first).await;
        stream
    }

    pub(super) async fn send(&self, report: RateLimitQuotaUsageReports) {
        // An error: the stream has ended, which its status tells.
        let _ = self.reports.as_ref().unwrap().send(report).await;
    }

    /// Ends the side of the client.
    pub(super) fn close(&mut self) {
        self.reports = None;
    }

    /// The actions of the next answer; `None` where the stream has ended.
    pub(super) async fn next(&mut self) -> Option<Vec<BucketAction>> {
        self.answers.message().await.ok().flatten().map(|answer| answer.bucket_action)
    }

    /// The status with which the stream ends, whatever is answered before.
    pub(super) async fn end(&mut self) -> Status {
        loop {
            match self.answers.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok(""),
                Err(status) => return status,
            }
        }
    }
}

/// One bucket of a report, as 1.40 sends it after 5 s.
pub(super) fn usage(pairs: &[(&str, &str)], allowed: u64, denied: u64) -> BucketQuotaUsage {
    let bucket = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket }),
        time_elapsed: Some(prost_types::Duration { seconds: 5, nanos: 0 }),
        num_requests_allowed: allowed,
        num_requests_denied: denied,
    }
}

pub(super) fn report(
    domain: &str,
    usages: impl IntoIterator<Item = BucketQuotaUsage>,
) -> RateLimitQuotaUsageReports {
    let usages = usages.into_iter().collect();
    RateLimitQuotaUsageReports { domain: domain.to_owned(), bucket_quota_usages: usages }
}

/// The first report of a bucket of `ada`, as Envoy sends it with her first request.
pub(crate) fn first() -> RateLimitQuotaUsageReports {
    report("api", [usage(&[("user", "ada")], 1, 0)])
}

pub(super) fn grpc_address(handle: &tidegate_server::Handle) -> SocketAddr {
    handle.grpc().unwrap().tcp().unwrap()
}

/// The value of a series on the page of metrics.
pub(crate) async fn metric(handle: &tidegate_server::Handle, series: &str) -> u64 {
    let mut client = Client::connect(handle.http().unwrap().tcp().unwrap()).await;
    // A daemon without authorization does not look at it.
    let page = request(&mut client, "GET /metrics", &bearer(OPS), "").await.body;
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is missing: {page}")).parse().unwrap()
}

/// Waits until a series has this value.
pub(crate) async fn metric_becomes(handle: &tidegate_server::Handle, series: &str, value: u64) {
    tidegate_test_support::eventually(&format!("{series} {value}"), async || {
        metric(handle, series).await == value
    })
    .await;
}

/// The series of streams that have ended for this cause.
pub(super) fn ended(cause: &str) -> String {
    format!("tidegate_rlqs_streams_ended_total{{cause=\"{cause}\"}}")
}
