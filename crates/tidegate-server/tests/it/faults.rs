//! A handler that panics: its caller gets an error, nothing stays held, and others are served on.

use tidegate_core::planted_fault::PlantedFault;
use tidegate_server::{ListenerRole, PlantedPanic, ProxyConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use crate::client::Client;
use crate::grpc::{Envoy, request, user};
use crate::proxy::{get, route, to};
use crate::resp;
use crate::world::{World, loopback};

const JOB: &str = r#"{"namespace":"jobs"}"#;

const TOLD: &str = "the daemon met a defect of its own and gave up this request";

/// Every protocol, one request in flight, and one permit of `jobs`.
async fn world() -> World {
    let mut config = loopback();
    let free = || "127.0.0.1:0".parse().unwrap();
    for role in [ListenerRole::Proxy, ListenerRole::Grpc, ListenerRole::Resp] {
        config.listen(role, free());
    }
    // No server listens at this address, so a request that is passed on fails with another status.
    config.proxying = ProxyConfig::open(to(&["127.0.0.1:1".parse().unwrap()], route("jobs"))).unwrap();
    World::queued(1, config).await
}

/// Every handler of this thread panics once its request is admitted, as long as it lives.
fn planted() -> PlantedFault {
    PlantedFault::plant(PlantedPanic)
}

async fn metric(world: &World, name: &str) -> u64 {
    let page = world.client().await.get("/metrics").await.body;
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {page}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// So many handlers have panicked, and none of them left anything behind.
async fn nothing_is_held(world: &World, panics: u64) {
    assert_eq!(metric(world, "tidegate_panics_total").await, panics);
    assert_eq!(metric(world, "tidegate_faults_total{error=\"internal\"}").await, panics);
    assert_eq!(metric(world, "tidegate_permits_kept ").await, 0);
    // The only place and the only permit are free.
    let admitted = world.post("/v1/check", JOB).await;
    assert_eq!(admitted.status, 200, "{admitted:?}");
    let permit = format!(r#"{{"permit":{}}}"#, admitted.json()["permit"]);
    assert_eq!(world.post("/v1/release", &permit).await.status, 200);
}

#[tokio::test]
async fn a_panic_over_http_is_a_500_and_the_connection_goes_on() {
    let world = world().await;
    let mut client = world.client().await;
    for panics in 1..=3 {
        let fault = planted();
        let answer = client.post("/v1/check", JOB).await;
        drop(fault);
        assert_eq!(answer.status, 500, "{answer:?}");
        assert_eq!((&answer.json()["error"], &answer.json()["detail"]), (&"internal".into(), &TOLD.into()));
        nothing_is_held(&world, panics).await;
    }
    let page = world.client().await.get("/metrics").await.body;
    assert!(page.contains("tidegate_http_requests_total{route=\"other\",status=\"500\"} 3\n"), "{page}");
    assert_eq!(client.post("/v1/check", JOB).await.status, 200);
}

#[tokio::test]
async fn a_panic_over_grpc_is_internal_and_the_connection_goes_on() {
    let world = world().await;
    let mut envoy = Envoy::at(world.handle.grpc().unwrap().tcp().unwrap()).await;
    let fault = planted();
    let status = envoy.call(request("jobs", &[user("ada")])).await.unwrap_err();
    drop(fault);
    assert_eq!(status.code(), Code::Internal, "{status}");
    assert!(status.message().starts_with(TOLD), "{status}");
    nothing_is_held(&world, 1).await;
    envoy.call(request("jobs", &[user("ada")])).await.unwrap();
}

#[tokio::test]
async fn a_panic_over_resp_is_an_error_behind_the_replies_before_it_and_the_end() {
    let world = world().await;
    let address = world.handle.resp().unwrap().tcp().unwrap();
    for (panics, (commands, before)) in (1..).zip([
        ("TG.CHECK jobs\r\nPING\r\n", ""),
        ("PING\r\nTG.CHECK jobs\r\nPING\r\n", "+PONG\r\n"),
        ("MULTI\r\nPING\r\nTG.CHECK jobs\r\nEXEC\r\nPING\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n"),
    ]) {
        let fault = planted();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(commands.as_bytes()).await.unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).await.unwrap();
        drop(fault);
        let error = replies.strip_prefix(before).unwrap_or_else(|| panic!("{commands}: {replies}"));
        assert!(error.starts_with(&format!("-ERR {TOLD}")), "{commands}: {replies}");
        assert_eq!(error.lines().count(), 1, "{commands}: {replies}");
        nothing_is_held(&world, panics).await;
    }
    let reply = resp::Client::connect(address).await.ask("TG.CHECK jobs").await;
    assert!(!reply.contains("ERR"), "{reply}");
}

#[tokio::test]
async fn a_panic_in_the_proxy_is_a_500_and_the_connection_goes_on() {
    let world = world().await;
    let mut client = Client::connect(world.handle.proxy().unwrap().tcp().unwrap()).await;
    let fault = planted();
    client.send(get("/", "")).await;
    let answer = client.answer().await.unwrap();
    drop(fault);
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(answer.json()["error"], "internal");
    nothing_is_held(&world, 1).await;
    client.send(get("/", "")).await;
    assert_eq!(client.answer().await.unwrap().status, 502, "it is passed on to nobody");
}
