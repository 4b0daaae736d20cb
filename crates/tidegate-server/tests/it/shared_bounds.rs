//! Bounds that all connections share, and what one peer or listener can take of them from the
//! others.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tidegate_server::{ListenerRole, ServerConfig};
use tidegate_test_support::{PATIENCE, TemporaryFolder, eventually, eventually_some};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::authorization::{CHECKOUT, Guarded};
use crate::client::Client;
use crate::grpc::hostile::{exchange, framed};
use crate::world::{World, api, loopback};

const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"ada"}}"#;

/// A listener of each kind.
fn config() -> ServerConfig {
    let mut config = loopback();
    let any: tidegate_server::Address = "127.0.0.1:0".parse().unwrap();
    config.listen(ListenerRole::Admin, any.clone());
    config.listen(ListenerRole::Grpc, any.clone());
    config.listen(ListenerRole::Resp, any);
    config
}

/// A connection from another address of loopback.
async fn connect_from(last: u8, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).unwrap();
    socket.connect(to).await.unwrap()
}

/// The value of a metric.
fn value(page: &str, series: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().unwrap()
}

async fn page(world: &World) -> String {
    Client::connect(world.handle.admin().unwrap().tcp().unwrap()).await.get("/metrics").await.body
}

#[tokio::test]
async fn a_flood_of_busy_connections_at_one_listener_leaves_the_others_theirs() {
    let mut config = config();
    config.bounds.connections = 48;
    config.bounds.body_timeout = Duration::from_mins(5);
    let world = World::with([api()], config).await;
    // A quarter of 48 among three listeners is 4 for each: one can have 40.
    let mut busy = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(world.address()).await.unwrap();
        let begun =
            format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n{{", CHECK.len());
        stream.write_all(begun.as_bytes()).await.unwrap();
        busy.push(stream);
    }
    eventually("40 connections are accepted", async || {
        value(&page(&world).await, "tidegate_listener_connections{listener=\"http\"}") >= 40
    })
    .await;
    for _ in 0..4 {
        let mut resp = TcpStream::connect(world.handle.resp().unwrap().tcp().unwrap()).await.unwrap();
        resp.write_all(b"PING\r\n").await.unwrap();
        let mut pong = [0; 7];
        resp.read_exact(&mut pong).await.unwrap();
        assert_eq!(&pong, b"+PONG\r\n");
        busy.push(resp);
    }
    let grpc = TcpStream::connect(world.handle.grpc().unwrap().tcp().unwrap()).await.unwrap();
    assert_eq!(exchange(grpc, "/grpc.health.v1.Health/Check", None, framed(b"")).await.0, "0");
    let page = page(&world).await;
    assert_eq!(value(&page, "tidegate_listener_connections{listener=\"http\"}"), 40);
    assert_eq!(value(&page, "tidegate_connections_evicted_total"), 0, "a busy connection is never closed");
}

#[tokio::test]
async fn silent_connections_of_one_peer_make_room_for_another_peer_whose_own_stay() {
    let mut config = config();
    config.bounds.connections = 48;
    let world = World::with([api()], config).await;
    let mut honest = Client::over(connect_from(2, world.address()).await);
    assert_eq!(honest.get("/healthz").await.status, 200);
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(connect_from(3, world.address()).await);
    }
    for _ in 0..20 {
        let mut another = Client::over(connect_from(4, world.address()).await);
        assert_eq!(another.post("/v1/check", r#"{"namespace":"api"}"#).await.status, 200);
    }
    assert_eq!(honest.get("/healthz").await.status, 200, "its idle connection was kept");
    assert!(value(&page(&world).await, "tidegate_connections_evicted_total") >= 160);
}

#[tokio::test]
async fn idle_connections_stay_open_while_the_listener_is_full_and_nobody_waits() {
    let mut config = config();
    config.bounds.connections = 48;
    let world = World::with([api()], config).await;
    let mut idle = Vec::new();
    for _ in 0..40 {
        idle.push(world.client().await);
    }
    for client in &mut idle {
        assert_eq!(client.get("/healthz").await.status, 200);
    }
    assert_eq!(value(&page(&world).await, "tidegate_connections_evicted_total"), 0);
}

/// The bytes that are held for slow peers, and how often one was refused room for more.
async fn buffered(world: &World) -> (u64, u64) {
    let page = page(world).await;
    (value(&page, "tidegate_buffered_bytes"), value(&page, "tidegate_buffer_refusals_total"))
}

/// Begins requests to `/json` whose bodies are all but the last byte of what one may have; how many
/// were refused for it.
async fn unfinished_bodies(world: &World, last: u8, count: usize) -> (Vec<TcpStream>, usize) {
    let body = vec![b' '; (256 << 10) - 1];
    let request = format!("POST /json HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", body.len() + 1);
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..count {
        let (held, refusals) = buffered(world).await;
        let mut stream = connect_from(last, world.address()).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        let is_refused = eventually_some("all of the body is held, or it is refused", async || {
            let (held_now, refusals_now) = buffered(world).await;
            let is_refused = refusals_now > refusals;
            (is_refused || held_now >= held + body.len() as u64).then_some(is_refused)
        })
        .await;
        if is_refused {
            let mut said = [0; 12];
            stream.read_exact(&mut said).await.unwrap();
            assert_eq!(&said, b"HTTP/1.1 503");
            refused += 1;
        }
        open.push(stream);
    }
    (open, refused)
}

#[tokio::test]
async fn unfinished_bodies_of_one_peer_are_bounded_together_and_others_are_served() {
    let mut config = config();
    config.bounds.body_timeout = Duration::from_mins(5);
    // The rest of a body that was refused is read for as long.
    config.bounds.linger = Duration::from_mins(5);
    let world = World::with([api()], config).await;
    // A third of 64 MiB is what one peer gets: 80 bodies of 256 KiB, with 16 KiB each for what
    // waits for them.
    let (open, refused) = unfinished_bodies(&world, 3, 110).await;
    let held = value(&page(&world).await, "tidegate_buffered_bytes");
    assert!(refused >= 20, "{refused} of 110 were refused");
    assert!((16 << 20..=22 << 20).contains(&held), "{held} bytes are held");
    // The same peer is still served when its bodies arrive at once, another one also when they do
    // not.
    assert_eq!(world.post("/v1/check", CHECK).await.status, 200);
    let mut slow = Client::over(connect_from(4, world.address()).await);
    let length = CHECK.len();
    let request = "POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\n";
    slow.send(format!("{request}content-length: {length}\r\n\r\n")).await;
    assert_eq!(slow.answer().await.unwrap().status, 100, "the server waits for the body");
    let (begin, end) = CHECK.split_at(length - 5);
    slow.send(begin).await;
    slow.send(end).await;
    assert_eq!(slow.answer().await.unwrap().status, 200);
    drop(open);
    eventually("nothing is held any more", async || {
        value(&page(&world).await, "tidegate_buffered_bytes") == 0
    })
    .await;
}

#[tokio::test]
async fn half_commands_of_one_peer_are_bounded_together_and_others_are_served() {
    let world = World::with([api()], config()).await;
    let address = world.handle.resp().unwrap().tcp().unwrap();
    let argument = [b"$65536\r\n".as_slice(), &vec![b'x'; 65_536], b"\r\n"].concat();
    let half = [b"*15\r\n".as_slice(), &argument.repeat(14)].concat();
    let mut open = Vec::new();
    for _ in 0..60 {
        let mut stream = connect_from(3, address).await;
        // It may be closed before all of it is written.
        let _ = stream.write_all(&half).await;
        open.push(stream);
    }
    let page = page(&world).await;
    let held = value(&page, "tidegate_buffered_bytes");
    assert!(held <= 23 << 20, "{held} bytes are held");
    assert!(value(&page, "tidegate_buffer_refusals_total") > 0);
    let mut other = connect_from(4, address).await;
    other.write_all(b"PING\r\n*2\r\n$4\r\nECHO\r\n$16384\r\n").await.unwrap();
    // The server has read the half command, which came with the one that it answers.
    let mut pong = [0; 7];
    other.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"+PONG\r\n");
    other.write_all(&[vec![b'y'; 16_384], b"\r\n".to_vec()].concat()).await.unwrap();
    let mut reply = vec![0; 8 + 16_384 + 2];
    other.read_exact(&mut reply).await.unwrap();
    assert!(reply.starts_with(b"$16384\r\nyyy"));
}

/// Writes commands until the RESP listener has closed the connection, or holds as many replies as
/// it may and takes nothing more in five turns.
async fn write_until_full(world: &World, stream: &TcpStream, commands: &[u8]) {
    /// The charge of a connection with 1 MiB of replies, of which 8 KiB are free.
    const FULL: u64 = (1 << 20) - (8 << 10);
    let (since, (held, _)) = (Instant::now(), buffered(world).await);
    let (mut sent, mut turns_in_vain) = (0, 0);
    while turns_in_vain < 5 {
        match stream.try_write(&commands[sent % commands.len()..]) {
            Ok(written) => (sent, turns_in_vain) = (sent + written, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // The page comes after the turn of the server.
                let is_full = buffered(world).await.0 >= held + FULL;
                turns_in_vain = if is_full { turns_in_vain + 1 } else { 0 };
            }
            Err(_) => return,
        }
        assert!(since.elapsed() < PATIENCE, "the server neither takes more nor holds all that it may");
    }
}

#[tokio::test]
async fn replies_that_a_peer_does_not_read_are_bounded_together() {
    let mut config = config();
    // None of them is closed for being stuck.
    config.bounds.idle_timeout = Duration::from_mins(5);
    let world = World::with([api()], config).await;
    let address = world.handle.resp().unwrap().tcp().unwrap();
    let echo = [b"*2\r\n$4\r\nECHO\r\n$65536\r\n".as_slice(), &vec![b'x'; 65_536], b"\r\n"].concat();
    let mut open = Vec::new();
    for _ in 0..60 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let stream = socket.connect(address).await.unwrap();
        write_until_full(&world, &stream, &echo).await;
        open.push(stream);
    }
    let page = page(&world).await;
    let held = value(&page, "tidegate_buffered_bytes");
    assert!(held <= 23 << 20, "{held} bytes are held");
    assert!(value(&page, "tidegate_buffer_refusals_total") > 0, "{held} bytes are held");
}

/// A daemon that asks for a token on its gRPC and RESP listeners.
async fn guarded() -> Guarded {
    let rest = format!(
        "listen: {{ grpc: 127.0.0.1:0, resp: 127.0.0.1:0 }}
authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: [api, resp] }}
"
    );
    Guarded::start(TemporaryFolder::new(), &rest).await
}

/// Begins a call whose message never comes, and returns its status.
async fn call_without_message(
    address: SocketAddr,
    path: &str,
    headers: impl IntoIterator<Item = (String, String)>,
) -> String {
    use bytes::Bytes;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    let stream = TcpStream::connect(address).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let (_pieces, body) = tokio::sync::mpsc::channel::<Result<http_body::Frame<Bytes>, std::io::Error>>(1);
    let body =
        http_body_util::StreamBody::new(tonic::codegen::tokio_stream::wrappers::ReceiverStream::new(body));
    let mut request =
        http::Request::post(format!("http://t{path}")).header("content-type", "application/grpc");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let answer = sender.send_request(request.body(body).unwrap()).await.unwrap();
    let status = answer.headers().get("grpc-status").map_or("", |status| status.to_str().unwrap()).to_owned();
    connection.abort();
    status
}

const ASK: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

#[tokio::test]
async fn a_call_without_a_token_is_answered_before_its_message_is_read() {
    let daemon = guarded().await;
    let address = daemon.handle.grpc().unwrap().tcp().unwrap();
    for path in [ASK, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"] {
        let status = call_without_message(address, path, []).await;
        assert_eq!(status, "16", "{path}");
    }
}

#[tokio::test]
async fn a_call_has_as_many_metadata_entries_as_a_request_has_headers() {
    let world = World::with([api()], config()).await;
    let address = world.handle.grpc().unwrap().tcp().unwrap();
    let entries = (0..200).map(|number| (format!("x-h{number}"), "v".to_owned()));
    assert_eq!(call_without_message(address, ASK, entries).await, "8");
    let cross_site = [("origin".to_owned(), "https://evil.example".to_owned())];
    assert_eq!(call_without_message(address, ASK, cross_site).await, "7");
}

#[tokio::test]
async fn a_request_of_http_ends_a_resp_connection_also_before_it_has_shown_a_token() {
    let daemon = guarded().await;
    let address = daemon.handle.resp().unwrap().tcp().unwrap();
    for begun in ["POST / HTTP/1.1\r\nHost: t\r\n\r\n", "Host: t\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let commands = format!("{begun}AUTH {CHECKOUT}\r\nDEL k\r\n");
        stream.write_all(commands.as_bytes()).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with("-ERR this listener speaks RESP, not HTTP"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[tokio::test]
async fn a_flood_of_keys_over_grpc_takes_no_more_memory_than_the_table_has() {
    use crate::grpc::{Envoy, descriptor, request};

    let world = World::with([api()], config()).await;
    let mut envoy = Envoy::at(world.handle.grpc().unwrap().tcp().unwrap()).await;
    let before = value(&page(&world).await, "tidegate_table_bytes");
    let mut number = 0;
    for _ in 0..100 {
        let keys: Vec<String> = (0..128).map(|index| format!("key-{}", number + index)).collect();
        number += keys.len();
        let descriptors: Vec<_> = keys.iter().map(|key| descriptor(&[("user", key)])).collect();
        // A namespace of buckets of a second: what was charged has drained when it is due.
        let answer = envoy.call(request("api", &descriptors)).await.unwrap();
        assert_eq!(answer.statuses.len(), 128);
    }
    let page = page(&world).await;
    assert_eq!(value(&page, "tidegate_table_bytes"), before);
    assert!(value(&page, "tidegate_table_keys") <= value(&page, "tidegate_table_slots"));
    assert_eq!(world.post("/v1/check", CHECK).await.status, 200, "another key is still served");
}
