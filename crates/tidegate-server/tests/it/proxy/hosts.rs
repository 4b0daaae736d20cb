//! Hosts: one canonical spelling is matched, counted and sent on; everything else is answered 400.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_core::Matcher;
use tidegate_policy::policy::proxy::{Proxy, Route};
use tokio::net::TcpStream;

use super::hostile::{answered_with, literal};
use super::upstream::well;
use super::{route, to, world};
use crate::world::World;

/// Three requests for `limited.example`, or for `::1`; any number for other hosts.
fn by_host(server: SocketAddr) -> Proxy {
    let mut limited = route("api");
    limited.host = Some(Matcher::one_of(["limited.example", "[2001:db8::1]"]));
    let one = ("user".to_owned(), "\"one\"".parse().unwrap());
    limited.attributes = vec![one];
    let mut config = to(&[server], limited);
    config.routes.push(Route::new("others", "app"));
    config
}

/// The statuses of a request for `host`, named in `Host` and in the target.
async fn both_ways(world: &World, host: &[u8]) -> [u16; 2] {
    let by_header = [b"GET / HTTP/1.1\r\nhost: ", host, b"\r\n\r\n"].concat();
    let by_target = [b"GET http://", host, b"/ HTTP/1.1\r\nhost: limited.example\r\n\r\n"].concat();
    let mut statuses = [0; 2];
    for (status, request) in statuses.iter_mut().zip([by_header, by_target]) {
        let mut client = world.proxied().await;
        client.send(request).await;
        *status = client.answer().await.unwrap().status;
    }
    statuses
}

async fn http2(world: &World) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(world.proxy()).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// The status of an HTTP/2 request for `authority`, with `host` beside it.
async fn over_http2(world: &World, authority: &str, host: Option<&str>) -> u16 {
    let mut request = Request::get(format!("http://{authority}/"));
    if let Some(host) = host {
        request = request.header("host", host);
    }
    let request = request.body(Full::default()).unwrap();
    http2(world).await.send_request(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn every_spelling_of_a_limited_host_is_counted_as_that_host() {
    let (server, seen) = well().await;
    let world = world(by_host(server)).await;
    for _ in 0..3 {
        assert_eq!(over_http2(&world, "limited.example", None).await, 200);
    }
    for host in [
        "limited.example",
        "LIMITED.Example",
        "limited.example.",
        "limited.example:80",
        "Limited.example.:8080",
        "limited.example:",
        "[2001:db8::1]",
        "[2001:DB8:0:0::1]:8080",
        "[2001:0db8:0000:0000:0000:0000:0000:0001]",
    ] {
        assert_eq!(both_ways(&world, host.as_bytes()).await, [429; 2], "{host}");
        if !host.ends_with(':') {
            assert_eq!(over_http2(&world, host, None).await, 429, "{host}");
            assert_eq!(over_http2(&world, host, Some(host)).await, 429, "{host}");
        }
    }
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_host_that_can_be_read_in_two_ways_is_answered_400() {
    let (server, seen) = well().await;
    let world = world(by_host(server)).await;
    for host in [
        &b"[limited.example]"[..],
        b"limited.example..",
        b".limited.example",
        b"limited..example",
        b".",
        b"user@limited.example",
        b"@limited.example",
        b"limited%2eexample",
        b"%6cimited.example",
        b"limited.example:x",
        b"limited.example:99999",
        b"limited.example:80:80",
        b"limited.example, other.example",
        b"limited.example\\x",
        b"limited.ex\xc3\xa4mple",
        b"limited.ex\xefmple",
        b"[::1",
        b"::1",
        b"[::1%25lo]",
        b"[::1]x",
        b"[v1.x]",
        b"127.1",
        b"2130706433",
        b"0x7f000001",
        b"0177.0.0.1",
        b"1.2.3.4.5",
        b"limited.example.0x1",
    ] {
        let shown = String::from_utf8_lossy(host);
        assert_eq!(both_ways(&world, host).await, [400; 2], "{shown}");
        let block = [&[0x82, 0x86, 0x84][..], &literal(":authority", host)].concat();
        answered_with(world.proxy(), &block).await;
        let block = [&[0x82, 0x86, 0x84][..], &literal("host", host)].concat();
        answered_with(world.proxy(), &block).await;
        assert_eq!(seen.lock().unwrap().len(), 0, "{shown}");
    }
    // A host with a path is another target, whose host is good.
    assert_eq!(both_ways(&world, b"limited.example/x").await[0], 400);
}

#[tokio::test]
async fn a_request_without_a_host_is_answered_400_unless_its_version_has_none() {
    let (server, seen) = well().await;
    let world = world(by_host(server)).await;
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost:\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: other.example\r\nhost: other.example\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\nhost: a b\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\n\r\n", 200),
    ] {
        let mut client = world.proxied().await;
        client.send(request).await;
        assert_eq!(client.answer().await.unwrap().status, status, "{request}");
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
    answered_with(world.proxy(), &[0x82, 0x86, 0x84]).await;
    assert_eq!(seen.lock().unwrap().len(), 1, "nor does HTTP/2 without :authority and host pass");
}

#[tokio::test]
async fn authority_and_host_of_http_2_name_one_host() {
    let (server, seen) = well().await;
    let world = world(by_host(server)).await;
    assert_eq!(over_http2(&world, "other.example", Some("limited.example")).await, 400);
    assert_eq!(over_http2(&world, "limited.example", Some("other.example")).await, 400);
    assert_eq!(seen.lock().unwrap().len(), 0);
    assert_eq!(over_http2(&world, "other.example", Some("Other.example.")).await, 200);
    let seen = seen.lock().unwrap().join("");
    assert!(seen.contains("\r\nhost: other.example\r\n"), "{seen}");
}

#[tokio::test]
async fn a_server_is_told_the_host_that_was_matched() {
    let (server, seen) = well().await;
    let world = world(by_host(server)).await;
    for (host, told) in [
        ("Other.Example.:8080", "other.example:8080"),
        ("other.example:", "other.example"),
        ("[2001:DB8::0:2]:080", "[2001:db8::2]:80"),
        ("192.0.2.7", "192.0.2.7"),
        ("my_app", "my_app"),
        ("xn--mnchen-3ya.example", "xn--mnchen-3ya.example"),
    ] {
        assert_eq!(both_ways(&world, host.as_bytes()).await, [200; 2], "{host}");
        for request in seen.lock().unwrap().drain(..) {
            assert!(request.contains(&format!("\r\nhost: {told}\r\n")), "{host}: {request}");
            assert!(request.contains(&format!("\r\nx-forwarded-host: {told}\r\n")), "{host}: {request}");
        }
    }
}
