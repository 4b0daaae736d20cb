//! How streams end: by their client, by silence, by a reset, and by the drain.

use std::time::Duration;

use tonic::Code;

use super::raw_client::{GOAWAY, RawClient};
use super::{EnvoyStream, api, config, ended, first, grpc_address, metric, metric_becomes, world};
use crate::client::Client;
use crate::world::World;

#[tokio::test]
async fn a_stream_ends_with_its_client_and_gives_its_memory_back() {
    let world = world().await;
    let held = "tidegate_buffered_bytes";
    let before = metric(&world.handle, held).await;
    let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 1).await;
    // Once the client has read the answer.
    metric_becomes(&world.handle, held, before + (16 << 10)).await;
    stream.close();
    assert_eq!(stream.end().await.code(), Code::Ok);
    metric_becomes(&world.handle, &ended("closed"), 1).await;
    metric_becomes(&world.handle, held, before).await;
    let calls = "tidegate_grpc_calls_total{service=\"rate_limit_quota\",code=\"OK\"}";
    assert_eq!(metric(&world.handle, calls).await, 1);
}

#[tokio::test]
async fn a_stream_that_is_reset_or_whose_connection_ends_is_gone() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let mut client = RawClient::connect(address, 65_535).await;
    client.begin(&first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 1).await;
    client.reset().await;
    metric_becomes(&world.handle, &ended("gone"), 1).await;
    let mut other = RawClient::connect(address, 65_535).await;
    other.begin(&first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 2).await;
    drop(other);
    metric_becomes(&world.handle, &ended("gone"), 2).await;
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 0);
}

#[tokio::test]
async fn a_stream_that_never_reports_is_ended() {
    let mut config = config();
    config.bounds.body_timeout = Duration::from_millis(100);
    config.bounds.idle_timeout = Duration::from_millis(200);
    let world = World::with([api()], config).await;
    let address = grpc_address(&world.handle);
    let mut never = EnvoyStream::open(address, &[]).await.unwrap();
    let end = never.end().await;
    assert_eq!(end.code(), Code::DeadlineExceeded, "{end}");
    assert!(end.message().contains("no report has come in time; report every 5 s"), "{end}");
    let mut once = EnvoyStream::begun(address, first()).await;
    assert_eq!(once.end().await.code(), Code::DeadlineExceeded);
    // Half of a report, which never goes on.
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let path = tidegate_wire::envoy::rlqs::STREAM_RATE_LIMIT_QUOTAS;
    let half = vec![0, 0, 0, 0, 9, 0x0a];
    let (status, _) = crate::grpc::hostile::exchange(stream, path, None, half).await;
    assert_eq!(status, "1", "a stream that ends within a message has broken off");
    assert_eq!(metric(&world.handle, &ended("silent")).await, 2);
}

#[tokio::test]
async fn a_connection_with_a_stream_is_not_idle() {
    let mut config = config();
    config.bounds.idle_timeout = Duration::from_millis(100);
    let world = World::with([api()], config).await;
    let stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    // Each report comes in time, and together they take longer than a connection may be idle.
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        stream.send(first()).await;
        // Sleeps: between two reports of a client that never stops to report.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 1);
}

#[tokio::test]
async fn a_drain_ends_streams_without_an_error_and_does_not_wait_for_them() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let mut stream = EnvoyStream::begun(address, first()).await;
    let mut raw = RawClient::connect(address, 65_535).await;
    raw.begin(&first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 2).await;
    let (drained, kinds) = tokio::join!(world.handle.shutdown(), raw.leave());
    assert_eq!(drained.cut_off, 0);
    assert!(kinds.contains(&GOAWAY), "{kinds:?}");
    assert_eq!(stream.end().await.code(), Code::Ok);
}

#[tokio::test]
async fn a_stream_that_begins_while_the_daemon_drains_ends_at_once() {
    let mut config = config();
    config.bounds.drain_grace = Duration::from_mins(1);
    let world = World::with([api()], config).await;
    let address = grpc_address(&world.handle);
    let first_stream = EnvoyStream::begun(address, first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 1).await;
    let mut client = Client::connect(world.address()).await;
    let shutdown = tokio::spawn(world.handle.shutdown());
    // Until its connection is told to end, a stream goes on.
    tidegate_test_support::eventually("the daemon is not ready", async || {
        client.get("/readyz").await.status == 503
    })
    .await;
    first_stream.send(first()).await;
    drop((client, first_stream));
    assert_eq!(shutdown.await.unwrap().cut_off, 0);
}
