//! Clients that do not take what they are sent.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::raw_client::{DATA, GOAWAY, PING, RawClient};
use super::{ended, first, grpc_address, metric, world};
use crate::paused_clock::at_this_instant;

/// The kernel takes every byte for a program that has stopped; it answers no ping.
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_found_by_a_ping_within_five_seconds() {
    let world = world().await;
    let mut client = RawClient::connect(grpc_address(&world.handle), 65_535).await;
    let begun = Instant::now();
    client.begin(&first()).await;
    // Reading is no answer to a ping.
    let kinds = client.kinds_to_the_end().await;
    assert!(kinds.contains(&PING), "{kinds:?}");
    let took = begun.elapsed();
    assert!((4..=6).contains(&took.as_secs()), "{took:?}");
    let slow = at_this_instant("metrics", metric(&world.handle, &ended("slow_reader"))).await;
    assert_eq!(slow, 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_answer_comes_when_a_ping_behind_the_last_one_is_answered() {
    let world = world().await;
    let mut client = RawClient::connect(grpc_address(&world.handle), 65_535).await;
    client.begin(&first()).await;
    let (mut kinds, begun) = (Vec::new(), Instant::now());
    let ping = loop {
        let frame = client.next().await.expect("the connection goes on");
        kinds.push(frame.kind);
        if frame.kind == PING && frame.flags == 0 {
            break frame.payload;
        }
    };
    assert!(kinds.contains(&DATA), "the answer comes first: {kinds:?}");
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    let body = r#"{"namespace":"api","attributes":{"user":"ada"},"limit":"per-user","for_ms":60000}"#;
    assert_eq!(at_this_instant("block", world.post("/v1/block", body)).await.status, 200);
    let early = timeout(Duration::from_secs(3), client.next()).await;
    assert!(early.is_err(), "{early:?}");
    client.pong(&ping).await;
    let next = client.next().await.expect("the connection goes on");
    assert_eq!(next.kind, DATA);
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_stream_of_the_service_carries_no_ping() {
    let world = world().await;
    let mut client = RawClient::connect(grpc_address(&world.handle), 65_535).await;
    // Until it has been idle for too long. The ping behind the farewell belongs to it.
    let kinds = client.kinds_to_the_end().await;
    let before = kinds.split(|kind| *kind == GOAWAY).next().unwrap();
    assert!(kinds.contains(&GOAWAY) && !before.contains(&PING), "{kinds:?}");
}

/// Needs an engine that answers a first report.
#[tokio::test(start_paused = true)]
async fn a_client_whose_window_is_shut_loses_its_connection_within_five_seconds() {
    let world = world().await;
    let mut client = RawClient::connect(grpc_address(&world.handle), 0).await;
    let begun = Instant::now();
    client.begin(&first()).await;
    let reports = first();
    let mut frames = Vec::new();
    // It answers pings and reports, and takes no answer.
    while let Some(frame) = client.next().await {
        assert!(begun.elapsed() < Duration::from_secs(10), "the connection goes on: {frames:?}");
        if frame.kind == PING && frame.flags == 0 {
            client.pong(&frame.payload).await;
            client.report(&reports).await;
        }
        frames.push(frame.kind);
    }
    assert!(!frames.contains(&DATA), "{frames:?}");
    assert!(begun.elapsed() <= Duration::from_secs(6), "{:?}", begun.elapsed());
    let slow = at_this_instant("metrics", metric(&world.handle, &ended("slow_reader"))).await;
    assert_eq!(slow, 1);
}
