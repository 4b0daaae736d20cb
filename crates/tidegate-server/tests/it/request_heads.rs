//! Heads of requests that are answered before anything of their bodies is looked at, at every
//! listener that speaks HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_server::{ListenerRole, ServerConfig};
use tidegate_test_support::{PATIENCE, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::world::{World, api, loopback};

const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"ada"}}"#;

/// With listeners for callers, for operators and for requests to pass on.
fn config() -> ServerConfig {
    let mut config = loopback();
    config.listen(ListenerRole::Admin, "127.0.0.1:0".parse().unwrap());
    config.listen(ListenerRole::Proxy, "127.0.0.1:0".parse().unwrap());
    config
}

fn listeners(world: &World) -> [SocketAddr; 3] {
    let handle = &world.handle;
    [handle.http().unwrap(), handle.admin().unwrap(), handle.proxy().unwrap()].map(|one| one.tcp().unwrap())
}

async fn status(address: SocketAddr, request: &str) -> u16 {
    let mut client = Client::connect(address).await;
    client.send(request).await;
    client.answer().await.unwrap().status
}

#[tokio::test]
async fn a_request_of_http_1_1_names_its_host_once_at_every_listener() {
    let world = World::with([api()], config()).await;
    for address in listeners(&world) {
        for head in ["", "host: a\r\nhost: a\r\n", "host: a b\r\n", "host: ada@a\r\n"] {
            let request = format!("GET /healthz HTTP/1.1\r\n{head}\r\n");
            assert_eq!(status(address, &request).await, 400, "{address}: {head:?}");
        }
        // No route of the proxy takes it.
        let found = status(address, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(found, status(address, "GET /healthz HTTP/1.0\r\n\r\n").await);
        assert_ne!(found, 400);
    }
    let page = Client::connect(listeners(&world)[1]).await.get("/metrics").await.body;
    assert!(page.contains("tidegate_faults_total{error=\"malformed_host\"} 12\n"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_method_called_pri_gets_no_more_time_for_its_headers_than_another() {
    let mut config = config();
    config.bounds.header_timeout = Duration::from_millis(100);
    let world = World::with([api()], config).await;
    let began = tokio::time::Instant::now();
    for address in listeners(&world) {
        for begun in ["PRI /x HTTP/1.1\r\nhost: t\r\nx-slow: ", "PRI * HTTP/2.0\r\n\r\nS", "P"] {
            let mut client = Client::connect(address).await;
            client.send(begun).await;
            assert!(client.is_ended().await, "{begun:?}");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(30), "the time without a request is 75 s");
}

/// Sends the first half of a request in pieces, waits until the server has answered, sends the
/// other half, and reads the answer only afterwards. After each piece the server can close. A
/// connection that was reset fails the sending, as a gateway sees it.
async fn send_in_pieces(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    for (number, piece) in request.chunks(request.len() / 16).enumerate() {
        if number == 8 {
            let answered = tokio::time::timeout(PATIENCE, stream.readable()).await;
            answered.expect("the answer comes before the whole request").unwrap();
        }
        stream.write_all(piece).await.expect("the server still reads");
        // The server runs on the same thread, and has its turn now.
        tokio::task::yield_now().await;
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("the answer is not taken away by a reset");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn an_answer_that_comes_before_the_whole_request_can_be_read_after_all_of_it_was_sent() {
    let world = World::with([api()], config()).await;
    let large = "x".repeat(400 << 10);
    let requests = [
        ("431", format!("GET /v1/authorize HTTP/1.1\r\nhost: t\r\nx-filler: {large}\r\n\r\n")),
        ("414", format!("GET /{large} HTTP/1.1\r\nhost: t\r\n\r\n")),
        ("400", format!("GET / HTTP/1.1\r\nhost: t\r\nbad header: v\r\n\r\n{large}")),
        ("400", format!("POST /v1/check HTTP/1.1\r\ncontent-length: {}\r\n\r\n{large}", large.len())),
    ];
    for address in listeners(&world) {
        for (status, request) in &requests {
            let answer = send_in_pieces(address, request.as_bytes()).await;
            let said = answer.split(' ').nth(1);
            // A target that is too long for the buffer is a head that is too large.
            assert!(said == Some(status) || (*status == "414" && said == Some("431")), "{status}: {answer}");
        }
    }
}

#[tokio::test]
async fn a_connection_that_was_answered_early_is_not_read_for_ever() {
    let mut config = config();
    config.bounds.linger = Duration::from_millis(100);
    let world = World::with([api()], config).await;
    let mut client = world.client().await;
    client.send(format!("GET / HTTP/1.1\r\nhost: t\r\nx-filler: {}", "x".repeat(20 << 10))).await;
    eventually("the connection is closed", async || client.try_send("x").await.is_err()).await;
}

#[tokio::test]
async fn heads_that_are_not_whole_are_bounded_together_and_go_on_when_there_is_room() {
    let mut config = config();
    config.bounds.header_timeout = Duration::from_mins(5);
    let world = World::with([api()], config).await;
    // A head of 15 KB is charged twice its size: one peer gets a third of 64 MiB, which is 716 of
    // them.
    let begun = format!("GET /healthz HTTP/1.1\r\nhost: t\r\nx-filler: {}", "x".repeat(15_000));
    let mut open = Vec::new();
    for _ in 0..900 {
        let mut client = world.client().await;
        client.send(&begun).await;
        open.push(client);
    }
    let admin = listeners(&world)[1];
    let held = async || {
        let page = Client::connect(admin).await.get("/metrics").await.body;
        let line = page.lines().find_map(|line| line.strip_prefix("tidegate_buffered_bytes "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let most = held().await;
    assert!((10 << 20..=22 << 20).contains(&most), "{most} bytes are held");
    // A head that fits into the first buffer is read all the same.
    assert_eq!(status(listeners(&world)[0], "GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await, 200);
    // The others are read once the first ones are answered.
    for mut client in open {
        client.send("\r\n\r\n").await;
        assert_eq!(client.answer().await.unwrap().status, 200);
    }
    eventually("nothing is held any more", async || held().await == 0).await;
}

/// A request to the API with these headers.
async fn ask(world: &World, line: &str, headers: &str) -> (u16, String) {
    let mut client = world.client().await;
    let length = CHECK.len();
    client.send(format!("{line} HTTP/1.1\r\n{headers}content-length: {length}\r\n\r\n{CHECK}")).await;
    let answer = client.answer().await.unwrap();
    (answer.status, answer.body)
}

#[tokio::test]
async fn pages_of_other_sites_change_nothing_where_nobody_is_asked_for_a_token() {
    let world = World::with([api()], loopback()).await;
    let before = world.engine.fingerprint();
    for headers in [
        "host: evil.example\r\n",
        "host: evil.example:8080\r\n",
        "host: localhost\r\norigin: https://evil.example\r\n",
        "host: localhost\r\norigin: null\r\n",
        "host: 127.0.0.1\r\nsec-fetch-site: cross-site\r\n",
    ] {
        for line in
            ["POST /v1/check", "POST /v1/reset", "POST /json", "PUT /v1/overrides/api/per-user?user=a"]
        {
            let (status, body) = ask(&world, line, headers).await;
            assert_eq!(status, 403, "{line} {headers}: {body}");
            assert!(body.contains("127.0.0.1 or localhost"), "{body}");
        }
        let (status, body) = ask(&world, "GET /v1/limits", headers).await;
        assert_eq!(status, 403, "{headers}: {body}");
    }
    assert_eq!(world.engine.fingerprint(), before, "nothing was charged");
    let form = "host: 127.0.0.1:8080\r\ncontent-type: application/x-www-form-urlencoded\r\n";
    for headers in [form, "host: localhost\r\norigin: http://localhost:3000\r\n", "host: tidegate\r\n"] {
        assert_eq!(ask(&world, "POST /v1/check", headers).await.0, 200, "{headers}");
    }
    // A gateway passes on the host and the headers of its own client.
    let passed_on = "host: shop.example\r\norigin: https://shop.example\r\nsec-fetch-site: cross-site\r\n";
    assert_eq!(ask(&world, "GET /v1/authorize?namespace=api&user=bob", passed_on).await.0, 200);
    assert_eq!(ask(&world, "GET /healthz", passed_on).await.0, 200);
}

#[tokio::test]
async fn an_ipv6_listener_serves_and_is_guarded_as_one_of_ipv4() {
    let mut config = loopback();
    config.listen(ListenerRole::Http, "[::1]:0".parse().unwrap());
    config.bounds.connections = 2;
    if tokio::net::TcpListener::bind("[::1]:0").await.is_err() {
        let test = "an_ipv6_listener_serves_and_is_guarded_as_one_of_ipv4";
        println!("skipped: {test}: this machine has no IPv6");
        return;
    }
    let world = World::with([api()], config).await;
    let (status, body) = ask(&world, "POST /v1/check", "host: [::1]:8080\r\n").await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(ask(&world, "POST /v1/check", "host: evil.example\r\n").await.0, 403);
    // The operators' routes are served on loopback, and a full listener makes room.
    let mut idle = vec![world.client().await, world.client().await];
    let page = world.client().await.get("/metrics").await.body;
    assert!(page.contains("tidegate_connections_evicted_total 1\n"), "{page}");
    idle.clear();
}
