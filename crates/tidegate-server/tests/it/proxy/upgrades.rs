//! Protocol changes: a connection becomes a tunnel only for a protocol that the route allows.

use std::net::SocketAddr;

use super::hostile::{answered_with, literal};
use super::upstream::{Seen, serve, well};
use super::{get, route, to, world};
use crate::world::World;

/// A server that agrees to the first protocol it is offered, as a stock Hypercorn does for `h2c`,
/// and answers everything else with 200. It notes the heads it gets.
async fn obliging() -> (SocketAddr, Seen) {
    let seen = Seen::default();
    let notes = Seen::clone(&seen);
    let address = serve(move |mut connection| {
        let notes = Seen::clone(&notes);
        async move {
            while let Some(request) = connection.request().await {
                notes.lock().unwrap().push(request.clone());
                let Some(protocol) = offered(&request).first().cloned() else {
                    connection.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                    continue;
                };
                let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade";
                connection.send(format!("{head}\r\nupgrade: {protocol}\r\n\r\nhi")).await;
                connection.until(b"never").await;
            }
        }
    })
    .await;
    (address, seen)
}

/// The protocols that a request offers.
fn offered(request: &str) -> Vec<String> {
    let lines = request.lines().filter_map(|line| line.strip_prefix("upgrade: "));
    lines.flat_map(|line| line.split(',')).map(|protocol| protocol.trim().to_owned()).collect()
}

/// The status of one request with these headers.
async fn asked(world: &World, headers: &str) -> u16 {
    world.through("/", &format!("x-user: ada\r\n{headers}")).await.status
}

#[tokio::test]
async fn an_upgrade_to_h2c_is_served_as_a_plain_request() {
    for upgrade in [
        "connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n",
        "connection: upgrade\r\nupgrade: H2C\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n",
        "connection: upgrade\r\nupgrade: h2c, h2c-14\r\n",
        "connection: upgrade\r\nupgrade: h2c\r\nupgrade: h2\r\n",
        "connection: upgrade\r\nupgrade: HTTP/2.0\r\n",
        "connection: upgrade\r\nupgrade: TLS/1.0\r\n",
        "connection: upgrade\r\nupgrade: chat\r\n",
        // Never asked for in `Connection`.
        "upgrade: websocket\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n",
    ] {
        let (server, seen) = obliging().await;
        let world = world(to(&[server], route("api"))).await;
        assert_eq!(asked(&world, upgrade).await, 200, "{upgrade}");
        let seen = seen.lock().unwrap().join("");
        assert!(!seen.contains("upgrade") && !seen.contains("http2-settings"), "{upgrade}: {seen}");
    }
}

#[tokio::test]
async fn of_several_protocols_only_websocket_is_offered_to_the_server() {
    for upgrade in [
        "connection: upgrade\r\nupgrade: websocket, h2c\r\n",
        "connection: upgrade\r\nupgrade: h2c, WebSocket\r\n",
        "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nupgrade: websocket\r\nhttp2-settings: AA\r\n",
    ] {
        let (server, seen) = obliging().await;
        let world = world(to(&[server], route("api"))).await;
        assert_eq!(asked(&world, upgrade).await, 101, "{upgrade}");
        let seen = seen.lock().unwrap().join("");
        assert_eq!(offered(&seen.to_ascii_lowercase()), ["websocket"], "{upgrade}: {seen}");
        assert!(!seen.contains("http2-settings"), "{seen}");
    }
}

#[tokio::test]
async fn a_route_says_which_protocols_a_connection_may_change_to() {
    for (allowed, offer, status, told) in [
        (&["websocket", "chat/1"][..], "Chat/1", 101, &["chat/1"][..]),
        (&["chat/1"], "websocket", 200, &[]),
        (&["chat/1"], "chat", 200, &[]),
        (&[], "websocket", 200, &[]),
    ] {
        let (server, seen) = obliging().await;
        let mut allowing = route("api");
        allowing.upgrades = allowed.iter().map(|&protocol| protocol.to_owned()).collect();
        let world = world(to(&[server], allowing)).await;
        let upgrade = format!("connection: upgrade\r\nupgrade: {offer}\r\n");
        assert_eq!(asked(&world, &upgrade).await, status, "{allowed:?} {offer}");
        assert_eq!(offered(&seen.lock().unwrap().join("")), told, "{allowed:?} {offer}");
    }
}

#[tokio::test]
async fn a_server_that_changes_to_another_protocol_than_it_was_asked_for_gets_no_tunnel() {
    for upgrade in
        ["upgrade: h2c\r\n", "upgrade: websocket, h2c\r\n", "upgrade: websocket\r\nupgrade: h2c\r\n", ""]
    {
        let answer = format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{upgrade}\r\n");
        let server = serve(move |mut connection| {
            let answer = answer.clone();
            async move {
                if connection.request().await.is_some() {
                    connection.send(answer).await;
                    connection.until(b"never").await;
                }
            }
        })
        .await;
        let world = world(to(&[server], route("parallel"))).await;
        let status = asked(&world, "connection: upgrade\r\nupgrade: websocket\r\n").await;
        assert_eq!(status, 502, "{upgrade:?}");
        world.settled().await;
        assert!(world.is_free("ada").await, "{upgrade:?}");
    }
}

#[tokio::test]
async fn neither_connect_nor_extended_connect_over_http_2_reaches_a_server() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let connect = [literal(":method", b"CONNECT"), literal(":authority", b"t:80")].concat();
    let extended = [
        literal(":method", b"CONNECT"),
        literal(":protocol", b"websocket"),
        literal(":scheme", b"http"),
        literal(":path", b"/"),
        literal(":authority", b"t"),
    ]
    .concat();
    for block in [connect, extended] {
        answered_with(world.proxy(), &block).await;
    }
    // Fields of one connection make an HTTP/2 request malformed.
    for field in ["connection", "upgrade", "http2-settings", "keep-alive", "transfer-encoding"] {
        let block =
            [&[0x82, 0x86, 0x84][..], &literal(":authority", b"t"), &literal(field, b"close")].concat();
        let kind = answered_with(world.proxy(), &block).await;
        assert!(kind != 1 || field == "http2-settings", "{field}: {kind}");
    }
    let seen = seen.lock().unwrap().join("");
    assert!(!seen.contains("CONNECT") && !seen.contains("http2-settings"), "{seen}");
}

#[tokio::test]
async fn trace_and_track_are_answered_405_and_reach_no_server() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    for method in ["TRACE", "TRACK", "CONNECT"] {
        let mut client = world.proxied().await;
        let target = if method == "CONNECT" { "shop.example:80" } else { "/" };
        client.send(get("/", "x-user: ada\r\n").replacen("GET /", &format!("{method} {target}"), 1)).await;
        let answer = client.answer().await.unwrap();
        assert_eq!((answer.status, answer.json()["error"].as_str()), (405, Some("method_not_allowed")));
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
}
