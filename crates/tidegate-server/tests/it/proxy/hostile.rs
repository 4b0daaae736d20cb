//! Clients that mean ill.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::upstream::{serve, well};
use super::{get, namespaces, route, to, world};
use tidegate_server::{ListenerRole, ProxyConfig};

use crate::world::{World, loopback};

#[tokio::test]
async fn requests_whose_end_two_readers_see_differently_do_not_get_through_as_two() {
    for (request, statuses) in [
        // Two lengths, in one line and in two.
        ("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nabcd", &[400][..]),
        ("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 4, 5\r\n\r\nabcd", &[400]),
        ("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: +4\r\n\r\nabcd", &[400]),
        ("POST / HTTP/1.1\r\nhost: t\r\ncontent-length: -1\r\n\r\n", &[400]),
        // Chunked, but not as the last coding.
        ("POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked, x\r\n\r\n0\r\n\r\n", &[400]),
        ("POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: x\r\ncontent-length: 3\r\n\r\nabc", &[400]),
        // White space before the colon, a folded line, no host at all twice.
        ("POST / HTTP/1.1\r\nhost: t\r\ncontent-length : 4\r\n\r\nabcd", &[400]),
        ("GET / HTTP/1.1\r\nhost: t\r\nx-a: b\r\n  c\r\n\r\n", &[400]),
        ("GET / HTTP/1.1\r\nhost: t\r\nhost: u\r\n\r\n", &[400]),
        ("GET / HTTP/1.1\r\nhost: t@u\r\n\r\n", &[400]),
        ("CONNECT t:80 HTTP/1.1\r\nhost: t:80\r\n\r\n", &[405]),
    ] {
        let (server, seen) = well().await;
        let world = world(to(&[server], route("api"))).await;
        let mut client = world.proxied().await;
        client.send(request).await;
        for status in statuses {
            assert_eq!(client.answer().await.expect(request).status, *status, "{request}");
        }
        assert_eq!(seen.lock().unwrap().len(), 0, "{request}");
    }
}

#[tokio::test]
async fn a_length_beside_chunks_is_not_passed_on_and_hides_no_request() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    for both in
        ["content-length: 4\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 4"]
    {
        let mut client = world.proxied().await;
        client
            .send(format!(
                "POST /a HTTP/1.1\r\nhost: t\r\n{both}\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /hidden HTTP/1.1\r\n"
            ))
            .await;
        assert_eq!(client.answer().await.unwrap().status, 200, "{both}");
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    for request in &*seen {
        assert!(!request.contains("content-length") && !request.contains("hidden"), "{request}");
        assert!(request.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{request}");
    }
}

#[tokio::test]
async fn a_bad_chunk_ends_the_request_and_holds_nothing() {
    for chunk in ["zz\r\nabc\r\n", "-1\r\nabc\r\n", "ffffffffffffffffff\r\n", "3\r\nabcd\r\n", "3;\nabc\r\n"]
    {
        let server = serve(|mut connection| async move {
            connection.until(b"never").await;
        })
        .await;
        let world = world(to(&[server], route("parallel"))).await;
        let mut client = world.proxied().await;
        client
            .send(format!(
                "POST / HTTP/1.1\r\nhost: t\r\nx-user: a\r\ntransfer-encoding: chunked\r\n\r\n{chunk}"
            ))
            .await;
        if let Some(answer) = client.answer().await {
            assert_eq!(answer.status, 400, "{chunk:?}");
        }
        world.settled().await;
        assert!(world.is_free("a").await);
    }
}

#[tokio::test]
async fn heads_beyond_their_bounds_are_told_so() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let many = "x-many: 1\r\n".repeat(200);
    assert_eq!(world.through("/", &many).await.status, 431);
    let long = format!("x-long: {}\r\n", "a".repeat(64 << 10));
    let mut client = world.proxied().await;
    let _ = client.try_send(get("/", &long)).await;
    assert_eq!(client.answer().await.unwrap().status, 431);
    assert_eq!(world.through(&format!("/{}", "a".repeat(9000)), "").await.status, 414);
    let value = format!("x-user: {}\r\n", "a".repeat(2000));
    assert_eq!(world.through("/", &value).await.json()["error"], "attribute_too_long");
    assert_eq!(world.through("/", "x-user: a\r\nx-user: b\r\n").await.json()["error"], "ambiguous_attribute");
    assert_eq!(seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn heads_that_trickle_are_cut_off() {
    let (server, _) = well().await;
    let mut config = loopback();
    config.bounds.header_timeout = Duration::from_millis(50);
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    config.proxying = ProxyConfig::open(to(&[server], route("api"))).unwrap();
    let world = World::with(namespaces(), config).await;
    let mut client = world.proxied().await;
    client.send("GET / HTTP/1.1\r\nhost:").await;
    assert!(client.is_ended().await);
}

/// One HTTP/2 frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// `GET http://t/` with `x-user: a`, for HPACK's static table.
pub(super) fn head(stream: u32) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x01, 0x01, b't'];
    block.extend_from_slice(b"\x00\x06x-user\x01a");
    frame(1, 5, stream, &block)
}

/// A literal header field that no table remembers. Lengths below 127 take one byte.
pub(super) fn literal(name: &str, value: &[u8]) -> Vec<u8> {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    [&[0, length(name.as_bytes())], name.as_bytes(), &[length(value)], value].concat()
}

/// Sends one HTTP/2 request with this header block and reads the kind of the first frame that
/// answers it.
pub(super) async fn answered_with(proxy: SocketAddr, block: &[u8]) -> u8 {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    stream.write_all(&frame(1, 5, 1, block)).await.unwrap();
    let mut all = Vec::new();
    loop {
        let mut at = 0;
        while at + 9 <= all.len() {
            let length =
                usize::from(all[at]) << 16 | usize::from(all[at + 1]) << 8 | usize::from(all[at + 2]);
            if matches!(all[at + 3], 1 | 3 | 7) {
                return all[at + 3];
            }
            at += 9 + length;
        }
        if stream.read_buf(&mut all).await.unwrap_or(0) == 0 {
            return 7;
        }
    }
}

async fn http2(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    stream
}

/// Reads until the server says `GOAWAY` or ends the connection.
async fn is_sent_away(mut stream: TcpStream) -> bool {
    let mut all = Vec::new();
    loop {
        let mut at = 0;
        while at + 9 <= all.len() {
            let length =
                usize::from(all[at]) << 16 | usize::from(all[at + 1]) << 8 | usize::from(all[at + 2]);
            if all[at + 3] == 7 {
                return true;
            }
            at += 9 + length;
        }
        match stream.read_buf(&mut all).await {
            Ok(0) | Err(_) => return true,
            Ok(_) => {}
        }
    }
}

#[tokio::test]
async fn streams_that_are_reset_as_fast_as_they_are_opened_end_the_connection_and_hold_nothing() {
    let server = serve(|mut connection| async move {
        connection.until(b"never").await;
    })
    .await;
    let world = world(to(&[server], route("parallel"))).await;
    let mut stream = http2(&world).await;
    for number in 0..5000 {
        let id = 2 * number + 1;
        let mut bytes = head(id);
        bytes.extend(frame(3, 0, id, &8u32.to_be_bytes()));
        if stream.write_all(&bytes).await.is_err() {
            break;
        }
    }
    assert!(is_sent_away(stream).await);
    world.settled().await;
    assert!(world.is_free("a").await);
}

#[tokio::test]
async fn a_stream_that_is_reset_gives_back_what_it_held() {
    let server = serve(|mut connection| async move {
        connection.until(b"never").await;
    })
    .await;
    let world = world(to(&[server], route("parallel"))).await;
    let mut stream = http2(&world).await;
    stream.write_all(&head(1)).await.unwrap();
    world.until_in_flight().await;
    stream.write_all(&frame(3, 0, 1, &8u32.to_be_bytes())).await.unwrap();
    world.settled().await;
    assert!(world.is_free("a").await);
}

#[tokio::test]
async fn pings_without_end_take_no_memory_and_stop_nobody_else() {
    let (server, _) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let stream = http2(&world).await;
    let pings = frame(6, 0, 0, &[7; 8]).repeat(1000);
    let (mut sent, mut turns_in_vain) = (0, 0);
    // The client does not read the answers: the server must stop reading, or give up.
    while sent < 1000 * pings.len() && turns_in_vain < 5 {
        match stream.try_write(&pings[sent % pings.len()..]) {
            Ok(written) => (sent, turns_in_vain) = (sent + written, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // The server has its turn, in which it serves another client too.
                turns_in_vain += 1;
                let user = format!("x-user: {sent}-{turns_in_vain}\r\n");
                assert_eq!(world.through("/", &user).await.status, 200);
            }
            Err(_) => break,
        }
    }
    assert_eq!(world.through("/", "x-user: b\r\n").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_unique_keys_makes_no_series_holds_nothing_and_leaves_others_their_limit() {
    const KEYS: usize = 4000;
    let (server, _) = well().await;
    let world = World::with(namespaces(), {
        let mut config = loopback();
        config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
        config.proxying = ProxyConfig::open(to(&[server], route("api"))).unwrap();
        config
    })
    .await;
    for _ in 0..3 {
        assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200);
    }
    let series = |page: String| page.lines().filter(|line| !line.starts_with('#')).count();
    let before = series(world.client().await.get("/metrics").await.body);
    let flood = (0..4).map(|part| {
        let proxy = world.proxy();
        tokio::spawn(async move {
            let mut client = crate::client::Client::connect(proxy).await;
            for key in 0..KEYS / 4 {
                let unique = format!("{part}-{key}");
                client
                    .send(format!(
                        "GET /{unique}?q={unique} HTTP/1.1\r\nhost: {unique}.example\r\nx-user: {unique}\r\n\r\n"
                    ))
                    .await;
                assert_eq!(client.answer().await.unwrap().status, 200);
            }
        })
    });
    for client in flood.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    world.settled().await;
    let after = series(world.client().await.get("/metrics").await.body);
    assert!(after <= before + 8, "{before} series before {KEYS} keys, {after} after");
    assert_eq!(
        world.through("/", "x-user: ada\r\n").await.status,
        429,
        "what was counted before is not forgotten"
    );
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200, "and what it may do, it may");
}
