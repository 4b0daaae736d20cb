//! Clients that ask and then take nothing of the answer, or take it slowly.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_policy::policy::proxy::Route;
use tidegate_test_support::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::hostile::{PREFACE, frame, head};
use super::upstream::serve;
use super::{get, namespaces, route, to};
use tidegate_server::{ListenerRole, ProxyConfig};

use crate::paused_clock::at_this_instant;
use crate::world::{World, loopback};

const LENGTH: usize = 16 << 20;

/// A server that answers every request with much, and sends it as fast as it is taken.
pub(super) async fn generous() -> SocketAddr {
    serve(|mut connection| async move {
        while connection.request().await.is_some() {
            connection.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {LENGTH}\r\n\r\n")).await;
            let piece = vec![b'x'; 64 << 10];
            for _ in 0..LENGTH / piece.len() {
                if !connection.send(&piece).await {
                    return;
                }
            }
        }
    })
    .await
}

/// Connections are looked at every 10 ms.
async fn attentive(route: Route) -> World {
    let mut config = loopback();
    config.bounds.header_timeout = Duration::from_millis(40);
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    config.proxying = ProxyConfig::open(to(&[generous().await], route)).unwrap();
    World::with(namespaces(), config).await
}

/// A client of HTTP/2 that lets each stream send `window` bytes.
pub(super) async fn http2(world: &World, window: u32) -> TcpStream {
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
    stream.write_all(&frame(4, 0, 0, &setting)).await.unwrap();
    stream
}

/// The next frame: its kind, its stream and its payload.
async fn next_frame(stream: &mut TcpStream) -> (u8, u32, Vec<u8>) {
    let mut start = [0; 9];
    stream.read_exact(&mut start).await.unwrap();
    let [a, b, c, kind, _, id @ ..] = start;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    stream.read_exact(&mut payload).await.unwrap();
    (kind, u32::from_be_bytes(id), payload)
}

/// Reads until a frame of this kind comes on this stream.
pub(super) async fn until_frame(stream: &mut TcpStream, kind: u8, id: u32) -> Vec<u8> {
    loop {
        let (got, on, payload) = next_frame(stream).await;
        if (got, on) == (kind, id) {
            return payload;
        }
        assert!(got != 3 && got != 7, "stream {on} or the connection ended: {payload:?}");
    }
}

fn impatient(idle: Duration) -> Route {
    let mut impatient = route("parallel");
    impatient.timeouts.idle = idle;
    impatient
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_window_never_opens_is_reset_and_the_others_of_its_connection_go_on() {
    let world = attentive(impatient(Duration::from_millis(60))).await;
    let mut stream = http2(&world, 0).await;
    stream.write_all(&head(1)).await.unwrap();
    let is_free = async {
        until_frame(&mut stream, 1, 1).await;
        world.is_free("a").await
    };
    let is_free = at_this_instant("the answer begins", is_free).await;
    assert!(!is_free, "the answer is on its way");
    assert_eq!(until_frame(&mut stream, 3, 1).await, 8u32.to_be_bytes(), "CANCEL");
    world.settled().await;
    assert!(world.is_free("a").await);
    // The connection is as good as before.
    stream.write_all(&[head(3), frame(8, 0, 3, &9u32.to_be_bytes())].concat()).await.unwrap();
    let data = at_this_instant("the answer begins", until_frame(&mut stream, 0, 3)).await;
    assert_eq!(data, b"xxxxxxxxx");
    assert_eq!(until_frame(&mut stream, 3, 3).await, 8u32.to_be_bytes());
    world.settled().await;
    let page = world.client().await.get("/metrics").await.body;
    assert!(page.contains("tidegate_proxy_endings_total{route=\"all\",ending=\"late\"} 2"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_taken_slowly_is_not_reset() {
    let world = attentive(impatient(Duration::from_millis(60))).await;
    let mut stream = http2(&world, 0).await;
    stream.write_all(&head(1)).await.unwrap();
    let mut taken = 0;
    // Five times as long as it may take nothing.
    for step in 1..=15 {
        let more = 17_000u32.to_be_bytes();
        stream.write_all(&[frame(8, 0, 1, &more), frame(8, 0, 0, &more)].concat()).await.unwrap();
        let piece = async {
            while taken < step * 17_000 {
                taken += until_frame(&mut stream, 0, 1).await.len();
            }
        };
        at_this_instant("the answer goes on", piece).await;
        // Sleeps: on tokio's paused clock, since the client takes the answer slowly.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.handle.proxy_in_flight(), 1);
}

#[tokio::test(start_paused = true)]
async fn all_the_time_of_an_answer_ends_also_when_nobody_asks_for_more_of_it() {
    let mut bounded = route("parallel");
    bounded.timeouts.total = Some(Duration::from_millis(60));
    let world = attentive(bounded).await;
    let mut stream = http2(&world, 0).await;
    stream.write_all(&head(1)).await.unwrap();
    at_this_instant("the answer begins", until_frame(&mut stream, 1, 1)).await;
    until_frame(&mut stream, 3, 1).await;
    world.settled().await;
    assert!(world.is_free("a").await);
}

#[tokio::test]
async fn a_client_of_http_1_that_reads_nothing_is_cut_off_after_as_long_as_its_route_says() {
    // Far longer than the upstream takes for its next piece, which has the same bound.
    let world = attentive(impatient(Duration::from_millis(600))).await;
    let mut client = world.proxied().await;
    client.send(get("/", "x-user: a\r\n")).await;
    eventually("it is cut off", async || {
        let page = world.client().await.get("/metrics").await.body;
        page.contains("tidegate_proxy_endings_total{route=\"all\",ending=\"late\"} 1")
    })
    .await;
    world.settled().await;
    assert!(world.is_free("a").await);
    assert_eq!(client.answer().await, None, "what was sent is not all of it");
    let page = world.client().await.get("/metrics").await.body;
    assert!(page.contains("tidegate_proxy_endings_total{route=\"all\",ending=\"late\"} 1"), "{page}");
    assert!(page.contains("tidegate_connections_timed_out_total 1"), "{page}");
}
