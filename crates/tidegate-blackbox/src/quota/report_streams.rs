//! Peers that report as Envoys do, without an Envoy: many streams, each on a connection of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream;
use http::Uri;
use http::uri::PathAndQuery;
use tidegate_wire::envoy::rlqs::{
    BucketId, BucketQuotaUsage, RateLimitQuotaResponse, RateLimitQuotaUsageReports, STREAM_RATE_LIMIT_QUOTAS,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic_prost::ProstCodec;

use crate::grpc::service_of;
use crate::http2::begin;

/// The namespaces of the streams, in turn: one caller may have 7 500 buckets of each.
pub(super) const NAMESPACES: [&str; 2] = ["api", "web"];

/// How often an Envoy reports.
const REPORTS_EVERY: Duration = Duration::from_secs(5);

/// The answers of all streams.
#[derive(Debug, Default)]
struct StreamCounts {
    // Statistics: relaxed, as they order nothing.
    actions: AtomicU64,
    ended: AtomicU64,
}

/// Streams that report until the value is dropped.
#[derive(Debug)]
pub(super) struct ReportStreams {
    runtime: Option<Runtime>,
    counts: Arc<StreamCounts>,
}

impl ReportStreams {
    /// Opens `streams` streams of `buckets` buckets, each with a key of its own and a request a
    /// second. They begin over five seconds, so that reports are spread.
    pub(super) fn open(daemon: SocketAddr, streams: u32, buckets: u32) -> std::io::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let counts = Arc::new(StreamCounts::default());
        for number in 0..streams {
            let counts = Arc::clone(&counts);
            let begins = REPORTS_EVERY * number / streams;
            runtime.spawn(async move {
                sleep(begins).await;
                // An error ends a stream as its peer does.
                let _ = hold(daemon, number, buckets, &counts).await;
                counts.ended.fetch_add(1, Ordering::Relaxed);
            });
        }
        Ok(Self { runtime: Some(runtime), counts })
    }

    /// How many assignments, denials and other actions have come.
    pub(super) fn actions(&self) -> u64 {
        self.counts.actions.load(Ordering::Relaxed)
    }

    /// How many streams have ended.
    pub(super) fn ended(&self) -> u64 {
        self.counts.ended.load(Ordering::Relaxed)
    }
}

impl Drop for ReportStreams {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Opens one stream, reports, and counts what comes until its end.
async fn hold(daemon: SocketAddr, number: u32, buckets: u32, counts: &StreamCounts) -> Result<(), Status> {
    let sender = begin::<Body>(daemon).await?;
    let started = Instant::now();
    let reports = stream::unfold(0, move |sent: u32| async move {
        sleep_until(started + REPORTS_EVERY * sent).await;
        Some((report(number, buckets, sent == 0), sent + 1))
    });
    let mut request = tonic::Request::new(reports);
    let name = MetadataValue::try_from(format!("peer-{number}")).expect("visible ASCII");
    request.metadata_mut().insert("x-tidegate-envoy", name);
    let mut grpc = Grpc::with_origin(service_of(sender), Uri::from_static("http://localhost"));
    let codec = ProstCodec::<RateLimitQuotaUsageReports, RateLimitQuotaResponse>::default();
    let path = PathAndQuery::from_static(STREAM_RATE_LIMIT_QUOTAS);
    let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        counts.actions.fetch_add(answer.bucket_action.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// A report of all buckets.
fn report(number: u32, buckets: u32, is_first: bool) -> RateLimitQuotaUsageReports {
    let seconds = if is_first { 0 } else { REPORTS_EVERY.as_secs() };
    let usage = |bucket: u32| BucketQuotaUsage {
        bucket_id: Some(BucketId {
            bucket: BTreeMap::from([("user".to_owned(), format!("user-{number}-{bucket}"))]),
        }),
        time_elapsed: Some(prost_types::Duration { seconds: seconds.cast_signed(), nanos: 0 }),
        num_requests_allowed: seconds.max(1),
        num_requests_denied: 0,
    };
    RateLimitQuotaUsageReports {
        domain: NAMESPACES[number as usize % NAMESPACES.len()].to_owned(),
        bucket_quota_usages: (0..buckets).map(usage).collect(),
    }
}
