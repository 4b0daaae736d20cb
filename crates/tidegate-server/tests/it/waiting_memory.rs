//! The memory that requests hold while they wait, as the waiting room counts it.

use tidegate_engine::RoomUse;
use tidegate_server::{ListenerRole, ServerConfig};
use tidegate_test_support::eventually;

use crate::departures::http2::{call, preface, reset};
use crate::departures::{Caller, JOB};
use crate::grpc::{Envoy, descriptor, request};
use crate::world::{World, loopback};

const CONNECTION: usize = 40 << 10;
const STREAM: usize = 16 << 10;

fn config() -> ServerConfig {
    let mut config = loopback();
    config.listen(ListenerRole::Grpc, "127.0.0.1:0".parse().unwrap());
    config
}

impl World {
    /// Waits until so many requests wait; the memory that they hold.
    async fn bytes_of_waiting(&self, requests: usize) -> usize {
        let what = format!("{requests} wait");
        eventually(&what, async || self.engine.waiting_use().requests == requests).await;
        self.engine.waiting_use().bytes
    }
}

#[tokio::test]
async fn issue_39_a_connection_of_http_2_counts_as_long_as_any_of_its_streams_waits() {
    let world = World::queued(1, loopback()).await;
    let held = world.hold("jobs").unwrap();
    let mut caller = Caller::connect(world.address());
    caller.send(&preface(65_535));
    let mut bytes = Vec::new();
    for (count, stream) in [(1, 1), (2, 3), (3, 5)] {
        caller.send(&call(stream, "/v1/check", &[], JOB.as_bytes()));
        bytes.push(world.bytes_of_waiting(count).await);
    }
    let copy = bytes[0] - CONNECTION - STREAM;
    assert!(copy < 4096, "{bytes:?}");
    assert_eq!(bytes[1..], [2, 3].map(|count| CONNECTION + count * (STREAM + copy)));
    // The first stream, which the connection was charged to, is reset; then the one after it.
    caller.send(&reset(1));
    assert_eq!(world.bytes_of_waiting(2).await, CONNECTION + 2 * (STREAM + copy));
    caller.send(&reset(3));
    assert_eq!(world.bytes_of_waiting(1).await, CONNECTION + STREAM + copy);
    caller.send(&call(7, "/v1/check", &[], JOB.as_bytes()));
    assert_eq!(world.bytes_of_waiting(2).await, CONNECTION + 2 * (STREAM + copy));
    drop(caller);
    world.bytes_of_waiting(0).await;
    assert_eq!(world.engine.waiting_use(), RoomUse::default());
    drop(held);
}

#[tokio::test]
async fn issue_39_a_waiting_call_over_grpc_counts_its_whole_message() {
    let world = World::queued(1, config()).await;
    world.engine.set_waiting_bytes(3 << 19);
    let value = "x".repeat(60_000);
    let used_up = descriptor(&[("app", "a")]);
    let mut envoy = Envoy::at(world.handle.grpc().unwrap().tcp().unwrap()).await;
    let mut all = request("api", &[used_up]);
    all.hits_addend = 5;
    assert_eq!(envoy.call(all).await.unwrap().overall_code, 1);
    // One small descriptor waits, and large ones beside it are only looked at. The message counts
    // twice, as its buffers stay with the allocator.
    let look = || {
        let mut look = descriptor(&[("unknown", &value)]);
        look.hits_addend = Some(0);
        look
    };
    let asked = descriptor(&[("app", "a"), ("tidegate-wait-ms", "60000")]);
    let message = request("api", &[asked, look(), look(), look(), look()]);
    let mut calls = Vec::new();
    let mut ask = || {
        let (mut envoy, message) = (envoy.clone(), message.clone());
        calls.push(tokio::spawn(async move { envoy.call(message).await }));
    };
    ask();
    let one = world.bytes_of_waiting(1).await;
    assert!(one >= 480_000 + CONNECTION + STREAM, "{one}");
    // The namespace may hold 1152 of the 1536 KiB: two such calls, and not a third.
    ask();
    assert!(world.bytes_of_waiting(2).await >= 2 * 480_000 + CONNECTION);
    let refused = envoy.call(message.clone()).await.unwrap();
    assert_eq!(refused.overall_code, 2, "{refused:?}");
    assert_eq!(world.engine.waiting_use().requests, 2);
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.bytes_of_waiting(0).await;
}
