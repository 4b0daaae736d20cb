//! The latency of an upstream, as the proxy reports it to the upstream's resource.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate_clock::{Clock, ManualClock};
use tidegate_overload::LatencyStats;
use tidegate_policy::policy::proxy::RouteHold;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::upstream::{answering, serve};
use super::{get, route, to};
use tidegate_server::{ListenerRole, ProxyConfig};

use crate::world::{World, loopback};

const MS: Duration = Duration::from_millis(1);

impl World {
    /// The latency of the default resource.
    fn latency(&self) -> LatencyStats {
        self.engine.resource_stats(self.clock.now()).next().unwrap().latency
    }
}

async fn world(server: std::net::SocketAddr) -> World {
    held(server, RouteHold::End).await
}

/// A world whose requests keep their places for so long.
async fn held(server: std::net::SocketAddr, hold: RouteHold) -> World {
    let mut config = loopback();
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    let mut route = route("api");
    route.hold = hold;
    config.proxying = ProxyConfig::open(to(&[server], route)).unwrap();
    World::in_flight(10, config).await
}

async fn read_until(stream: &mut TcpStream, end: &[u8]) {
    let mut got = Vec::new();
    while !got.ends_with(end) {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
    }
}

#[tokio::test]
async fn the_first_byte_is_the_head_of_the_answer_and_the_end_is_that_of_its_body() {
    let (world, rest) = slow_world(RouteHold::End).await;
    let mut stream = begun(&world).await;
    world.clock.advance(20 * MS);
    rest.add_permits(1);
    read_until(&mut stream, b"k").await;
    world.settled().await;
    let latency = world.latency();
    assert_eq!((latency.first_byte, latency.end), (Some(30 * MS), Some(50 * MS)));
    assert_eq!((latency.succeeded, latency.failed), (1, 0));

    // A client that goes away within the body cuts the work short.
    drop(begun(&world).await);
    world.settled().await;
    assert_eq!(world.latency(), latency, "no sample");
}

#[tokio::test]
async fn issue_39_the_sample_of_a_stream_ends_at_its_first_byte_however_the_stream_ends() {
    let (world, rest) = slow_world(RouteHold::FirstByte).await;
    let mut stream = begun(&world).await;
    let latency = world.latency();
    assert_eq!((latency.first_byte, latency.end), (Some(30 * MS), Some(30 * MS)));
    assert_eq!((latency.succeeded, latency.failed), (1, 0));
    world.clock.advance(20 * MS);
    rest.add_permits(1);
    read_until(&mut stream, b"k").await;
    world.settled().await;
    assert_eq!(world.latency(), latency, "its end is no further sample");

    drop(begun(&world).await);
    world.settled().await;
    assert_eq!(world.latency().succeeded, 2, "its client left after the first byte");
    assert_eq!(world.latency().end, Some(30 * MS));
}

/// A request whose answer has begun.
async fn begun(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    stream.write_all(get("/", "x-user: ada\r\n").as_bytes()).await.unwrap();
    read_until(&mut stream, b"\r\n\r\no").await;
    stream
}

/// A world whose server answers after 30 ms with half of a body; each permit sends another half.
async fn slow_world(hold: RouteHold) -> (World, Arc<Semaphore>) {
    let clock: Arc<OnceLock<Arc<ManualClock>>> = Arc::default();
    let rest = Arc::new(Semaphore::new(0));
    let (works, allowed) = (Arc::clone(&clock), Arc::clone(&rest));
    let server = serve(move |mut connection| {
        let (works, allowed) = (Arc::clone(&works), Arc::clone(&allowed));
        async move {
            while connection.request().await.is_some() {
                works.get().unwrap().advance(30 * MS);
                connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no").await;
                allowed.acquire().await.unwrap().forget();
                connection.send("k").await;
            }
        }
    })
    .await;
    let world = held(server, hold).await;
    clock.set(Arc::clone(&world.clock)).unwrap();
    (world, rest)
}

#[tokio::test]
async fn an_answer_of_500_is_a_failed_sample_and_a_server_that_is_not_there_is_none() {
    let (server, _) = answering("HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno").await;
    let failing = world(server).await;
    assert_eq!(failing.through("/", "x-user: ada\r\n").await.status, 500);
    failing.settled().await;
    let latency = failing.latency();
    assert_eq!((latency.succeeded, latency.failed, latency.end), (0, 1, None));

    let away = world(super::upstream::nobody().await).await;
    assert_eq!(away.through("/", "x-user: ada\r\n").await.status, 502);
    away.settled().await;
    assert_eq!(away.latency(), LatencyStats::default(), "the work was never started");
}

#[tokio::test]
async fn a_tunnel_is_no_sample_however_it_ends() {
    let server = serve(|mut connection| async move {
        connection.request().await.unwrap();
        let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhi";
        connection.send(head).await;
        connection.until(b"never").await;
    })
    .await;
    let world = world(server).await;
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    let asked = get("/ws", "x-user: ada\r\nconnection: Upgrade\r\nupgrade: websocket\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    read_until(&mut stream, b"\r\n\r\nhi").await;
    drop(stream);
    world.settled().await;
    assert_eq!(world.latency(), LatencyStats::default());
}
