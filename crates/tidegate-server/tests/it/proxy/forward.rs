//! Requests as the upstream gets them, and answers as the client gets them.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_policy::policy::proxy::{Health, Proxy};
use tidegate_test_support::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::upstream::{answering, nobody, serve, well};
use super::{get, route, to, world};
use crate::client::post;

#[tokio::test]
async fn a_request_goes_on_as_it_is_with_who_sent_it() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let answer = world
        .through("/v1/a%20b?x=1&y=%2F", "x-user: ada\r\naccept: */*\r\nx-forwarded-for: 6.6.6.6\r\n")
        .await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    assert_eq!(answer.header("via"), Some("1.1 tidegate"));
    assert_eq!(answer.header("ratelimit"), Some("\"per-user\";r=2;t=1"));
    let seen = seen.lock().unwrap().join("");
    let mut lines: Vec<&str> = seen.trim_end().split("\r\n").collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "GET /v1/a%20b?x=1&y=%2F HTTP/1.1",
            "accept: */*",
            "host: shop.example",
            "via: 1.1 tidegate",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-host: shop.example",
            "x-forwarded-proto: http",
            "x-user: ada",
        ]
    );
}

#[tokio::test]
async fn a_trusted_proxy_in_front_is_believed_about_the_client() {
    let (server, seen) = well().await;
    let mut config = to(&[server], route("api"));
    config.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let world = world(config).await;
    world.through("/", "x-user: a\r\nx-forwarded-for: 6.6.6.6\r\nx-forwarded-proto: https\r\n").await;
    let seen = seen.lock().unwrap().join("");
    assert!(seen.contains("x-forwarded-for: 6.6.6.6, 127.0.0.1\r\n"), "{seen}");
    assert!(seen.contains("x-forwarded-proto: https\r\n"), "{seen}");
}

#[tokio::test]
async fn bodies_of_known_length_and_chunked_ones_arrive_whole() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let mut client = world.proxied().await;
    assert_eq!(client.post("/a", "hello").await.status, 200);
    client
        .send("POST /b HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    let seen = seen.lock().unwrap();
    assert!(seen[0].contains("content-length: 5\r\n") && seen[0].ends_with("\r\n\r\nhello"), "{}", seen[0]);
    assert!(seen[1].contains("transfer-encoding: chunked\r\n"), "{}", seen[1]);
    assert!(seen[1].ends_with("0\r\n\r\n"), "{}", seen[1]);
}

#[tokio::test]
async fn an_answer_streams_with_its_trailers() {
    let server = serve(|mut connection| async move {
        let request = connection.request().await.unwrap();
        assert!(request.contains("te: trailers\r\n"), "{request}");
        connection
            .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n3\r\nabc\r\n")
            .await;
        // Sent on before the rest is there.
        connection.until(b"never").await;
    })
    .await;
    let world = world(to(&[server], route("api"))).await;
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    stream.write_all(get("/", "x-user: a\r\nte: trailers\r\n").as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).contains("abc") {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0);
    }
    drop(stream);
    world.settled().await;

    let (server, _) = answering(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n",
    )
    .await;
    let world = super::world(to(&[server], route("api"))).await;
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    stream.write_all(get("/", "x-user: a\r\nte: trailers\r\n").as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !String::from_utf8_lossy(&got).ends_with("x-sum: 7\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
    }
}

#[tokio::test]
async fn answers_without_a_body_keep_the_length_they_speak_of() {
    let (server, _) = answering("HTTP/1.1 304 Not Modified\r\netag: \"x\"\r\n\r\n").await;
    let world = world(to(&[server], route("api"))).await;
    let answer = world.through("/", "x-user: a\r\n").await;
    assert_eq!((answer.status, answer.header("etag")), (304, Some("\"x\"")));

    let (server, _) = answering("HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n").await;
    let world = super::world(to(&[server], route("api"))).await;
    let mut client = world.proxied().await;
    let answer = client.head("/").await;
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("1234")));
    assert_eq!(client.head("/").await.status, 200, "the connection goes on");
}

#[tokio::test]
async fn a_body_is_asked_for_only_when_its_request_is_admitted() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let expecting =
        "POST / HTTP/1.1\r\nhost: t\r\nx-user: eve\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";
    for _ in 0..3 {
        let mut client = world.proxied().await;
        client.send(expecting).await;
        assert_eq!(client.answer().await.unwrap().status, 100);
        client.send("hello").await;
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    let mut client = world.proxied().await;
    client.send(expecting).await;
    assert_eq!(client.answer().await.unwrap().status, 429, "the first thing that is said");
    assert_eq!(seen.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_body_that_was_not_asked_for_is_never_read_as_the_next_request() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    for _ in 0..3 {
        world.through("/", "x-user: eve\r\n").await;
    }
    // It looks like a request that would be admitted.
    let hidden = get("/hidden", "x-user: mallory\r\n");
    let length = hidden.len();
    let chunked = format!("{length:x}\r\n{hidden}\r\n0\r\n\r\n");
    for (framing, body) in [
        (format!("content-length: {length}"), hidden.clone()),
        ("transfer-encoding: chunked".to_owned(), chunked),
    ] {
        let head =
            format!("POST / HTTP/1.1\r\nhost: t\r\nx-user: eve\r\n{framing}\r\nexpect: 100-continue\r\n\r\n");
        for is_at_once in [true, false] {
            let mut client = world.proxied().await;
            if is_at_once {
                client.send(format!("{head}{body}{}", get("/next", "x-user: mallory\r\n"))).await;
            } else {
                client.send(&head).await;
            }
            let refused = client.answer().await.unwrap();
            assert_eq!(refused.status, 429, "{framing}");
            if !is_at_once {
                // The server may have closed by now.
                let next = format!("{body}{}", get("/next", "x-user: mallory\r\n"));
                let _ = client.try_send(next).await;
            }
            let next = client.answer().await.map(|answer| answer.status);
            // Either what came of the body was passed over to its end, or the connection is closed.
            assert!(matches!(next, None | Some(200)), "{framing}, at once: {is_at_once}, {next:?}");
        }
    }
    let seen = seen.lock().unwrap();
    assert!(!seen.iter().any(|request| request.contains("hidden")), "{seen:?}");
}

#[tokio::test]
async fn connections_to_servers_are_used_again() {
    let (server, _) = well().await;
    let opened = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&opened);
    let counting = serve(move |mut connection| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move {
            while connection.request().await.is_some() {
                connection.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    })
    .await;
    let _ = server;
    let mut free = route("api");
    free.namespace = None;
    let world = world(to(&[counting], free)).await;
    let mut client = world.proxied().await;
    for _ in 0..20 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert!(opened.load(std::sync::atomic::Ordering::Relaxed) <= 2, "{opened:?}");
}

#[tokio::test]
async fn a_changed_protocol_is_passed_on_both_ways_and_holds_its_permit_until_it_ends() {
    let server = serve(|mut connection| async move {
        let request = connection.request().await.unwrap();
        assert!(request.contains("upgrade: websocket\r\n"), "{request}");
        connection
            .send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nhi")
            .await;
        let ping = connection.until(b"ping").await.unwrap();
        assert_eq!(ping, "ping");
        connection.send("pong").await;
        connection.until(b"never").await;
    })
    .await;
    let world = world(to(&[server], route("parallel"))).await;
    let mut stream = TcpStream::connect(world.proxy()).await.unwrap();
    let asked = get("/ws", "x-user: ada\r\nconnection: Upgrade\r\nupgrade: websocket\r\n");
    stream.write_all(asked.as_bytes()).await.unwrap();
    let mut got = Vec::new();
    while !got.ends_with(b"\r\n\r\nhi") {
        assert_ne!(stream.read_buf(&mut got).await.unwrap(), 0, "{}", String::from_utf8_lossy(&got));
    }
    let head = String::from_utf8(got).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 ") && head.contains("upgrade: websocket\r\n"), "{head}");
    stream.write_all(b"ping").await.unwrap();
    let mut pong = [0; 4];
    stream.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"pong");
    assert!(!world.is_free("ada").await, "the tunnel is work under way");
    drop(stream);
    world.settled().await;
    assert!(world.is_free("ada").await);
}

#[tokio::test]
async fn another_server_is_tried_when_one_cannot_be_reached() {
    let (server, seen) = well().await;
    let mut free = route("api");
    free.namespace = None;
    let world = world(to(&[nobody().await, server], free)).await;
    let mut client = world.proxied().await;
    for _ in 0..10 {
        assert_eq!(client.post("/", "body").await.status, 200, "nothing was sent yet, so a POST may go too");
    }
    assert_eq!(seen.lock().unwrap().len(), 10);
}

#[tokio::test]
async fn a_request_that_may_have_been_seen_is_repeated_only_if_that_is_safe() {
    let broken = serve(|mut connection| async move {
        let _ = connection.request().await;
    })
    .await;
    let (server, _) = well().await;
    let mut free = route("api");
    free.namespace = None;
    let mut config = to(&[broken, server], free);
    config.upstreams[0].failures = 0;
    let world = world(config).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(world.through("/", "").await.status);
    }
    assert_eq!(statuses, [200; 4]);
    statuses.clear();
    for _ in 0..4 {
        let mut client = world.proxied().await;
        client.send(post("/", "once")).await;
        statuses.push(client.answer().await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 502, 502], "a POST that was sent is not sent again");
}

#[tokio::test]
async fn a_server_that_says_it_is_unwell_gets_no_requests() {
    let (unwell, unwell_seen) = answering("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n").await;
    let (server, _) = well().await;
    let mut free = route("api");
    free.namespace = None;
    let mut config: Proxy = to(&[unwell, server], free);
    let mut health = Health::new("/healthz");
    health.interval = Duration::from_millis(5);
    config.upstreams[0].health = Some(health);
    let world = world(config).await;
    eventually("it was asked twice", async || unwell_seen.lock().unwrap().len() >= 2).await;
    for _ in 0..6 {
        assert_eq!(world.through("/", "").await.status, 200);
    }
}

#[tokio::test]
async fn a_request_costs_what_the_server_says_in_the_end() {
    let (server, _) = answering("HTTP/1.1 200 OK\r\nx-cost: 3\r\ncontent-length: 2\r\n\r\nok").await;
    let mut costly = route("api");
    costly.cost.from_response = vec!["header.x-cost".parse().unwrap()];
    let world = world(to(&[server], costly)).await;
    let answer = world.through("/", "x-user: ada\r\n").await;
    assert_eq!((answer.status, answer.header("x-cost")), (200, None));
    world.settled().await;
    assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 429, "all three are gone");
}

#[tokio::test]
async fn a_body_weighs_what_it_is_long() {
    let (server, _) = well().await;
    let mut heavy = route("api");
    heavy.cost.body_bytes = std::num::NonZeroU64::new(4);
    let world = world(to(&[server], heavy)).await;
    let mut client = world.proxied().await;
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: a\r\ncontent-length: 8\r\n\r\n12345678").await;
    let answer = client.answer().await.unwrap();
    assert_eq!(
        answer.header("ratelimit"),
        Some("\"per-user\";r=0;t=3"),
        "one for the request, two for its body"
    );
    // A length that is only known in the end is charged then.
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: b\r\ntransfer-encoding: chunked\r\n\r\n8\r\n12345678\r\n0\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().header("ratelimit"), Some("\"per-user\";r=2;t=1"));
    world.settled().await;
    assert_eq!(world.through("/", "x-user: b\r\n").await.status, 429);
}

#[tokio::test]
async fn the_host_of_an_absolute_address_counts() {
    let (server, seen): (SocketAddr, _) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let mut client = world.proxied().await;
    client.send("GET http://a.example/x HTTP/1.1\r\nhost: b.example\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    let seen = seen.lock().unwrap().join("");
    assert!(seen.starts_with("GET /x HTTP/1.1\r\n") && seen.contains("host: a.example\r\n"), "{seen}");
}
