//! The bounds of a listener: what happens at each, and that others are unaffected.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use tidegate_server::ListenerRole;

use crate::client::{Client, post};
use crate::paused_clock::at_this_instant;
use crate::world::{World, api, loopback};

const CHECK: &str = r#"{"namespace":"api","attributes":{"user":"ada"}}"#;

#[tokio::test]
async fn a_body_of_a_hundred_megabytes_is_refused_and_the_connection_can_go_on() {
    let world = World::api().await;
    let mut client = world.client().await;
    // Announced: refused before any of it is read.
    client
        .send(
            "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 104857600\r\nexpect: 100-continue\r\n\r\n",
        )
        .await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status, answer.json()["error"].as_str()), (413, Some("body_too_large")));
    // Sent all the same, by a client that reads nothing before it has written everything.
    let mut client = world.client().await;
    client.send("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 104857600\r\n\r\n").await;
    let megabyte = vec![b' '; 1 << 20];
    for _ in 0..100 {
        client.send(&megabyte).await;
    }
    assert_eq!(client.answer().await.unwrap().status, 413);
    assert_eq!(client.post("/v1/check", CHECK).await.status, 200);
}

#[tokio::test]
async fn an_endless_body_in_pieces_is_refused_at_the_bound() {
    let world = World::api().await;
    let mut client = world.client().await;
    client.send("POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let piece = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    for _ in 0..17 {
        client.send(&piece).await;
    }
    assert_eq!(client.answer().await.unwrap().status, 413);
}

#[tokio::test]
async fn a_body_in_single_bytes_is_put_together() {
    let world = World::api().await;
    let mut client = world.client().await;
    client.send("POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let pieces = CHECK.chars().map(|byte| format!("1\r\n{byte}\r\n")).collect::<Vec<_>>().concat();
    client.send(pieces).await;
    client.send("0\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().json()["remaining"], 2);
}

fn headers(count: usize) -> String {
    (0..count).map(|index| format!("x-h{index}: v\r\n")).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn ten_thousand_headers_are_refused_and_others_are_unaffected() {
    let world = World::api().await;
    let mut other = world.client().await;
    let mut client = world.client().await;
    let headers = headers(10_000);
    let _ = client.try_send(format!("GET /healthz HTTP/1.1\r\nhost: t\r\n{headers}\r\n")).await;
    assert_eq!(client.answer().await.unwrap().status, 431);
    assert_eq!(other.post("/v1/check", CHECK).await.status, 200);
}

#[tokio::test]
async fn one_header_too_many_is_refused_and_the_last_that_fits_is_not() {
    let mut config = loopback();
    config.bounds.headers = 10;
    let world = World::with([api()], config).await;
    for (count, status) in [(10, 200), (11, 431)] {
        let mut client = world.client().await;
        let headers = headers(count - 1);
        client.send(format!("GET /healthz HTTP/1.1\r\nhost: t\r\n{headers}\r\n")).await;
        assert_eq!(client.answer().await.unwrap().status, status, "{count} headers");
    }
}

#[tokio::test]
async fn a_target_longer_than_the_bound_is_refused() {
    let world = World::api().await;
    let mut client = world.client().await;
    let answer = client.get(&format!("/v1/authorize?namespace=api&user={}", "u".repeat(9000))).await;
    assert_eq!((answer.status, answer.json()["error"].as_str()), (414, Some("uri_too_long")));
    assert_eq!(client.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_client_that_never_ends_its_headers_is_closed_and_others_are_not() {
    let mut config = loopback();
    // The heads of the other client arrive whole, so that no bound of time concerns them.
    config.bounds.header_timeout = Duration::from_millis(100);
    let world = World::with([api()], config).await;
    let mut slow = world.client().await;
    slow.send("POST /v1/check HTTP/1.1\r\nhost: t\r\nx-slow: ").await;
    let mut good = world.client().await;
    let trickle = async {
        while slow.try_send("a").await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    let work = async {
        loop {
            assert_eq!(good.get("/healthz").await.status, 200);
        }
    };
    tokio::select! {
        () = trickle => {}
        () = work => {}
    }
    assert_eq!(good.get("/healthz").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered_with_408_and_charges_nothing() {
    let world = World::api().await;
    let mut slow = world.client().await;
    slow.send("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 47\r\n\r\n{\"namespace\"").await;
    let answer = slow.answer().await.unwrap();
    assert_eq!((answer.status, answer.json()["error"].as_str()), (408, Some("body_timeout")));
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(slow.is_ended().await);
    let answer = at_this_instant("an answer", world.check(r#"{"user":"ada"}"#)).await;
    assert_eq!(answer.json()["remaining"], 2);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed() {
    let world = World::api().await;
    let mut fresh = world.client().await;
    assert!(fresh.is_ended().await, "one that never asked anything");
    let asked = async {
        let mut used = world.client().await;
        assert_eq!(used.get("/healthz").await.status, 200);
        used
    };
    let mut used = at_this_instant("an answer", asked).await;
    assert!(used.is_ended().await, "one that asked before");
    let page = async { world.client().await.get("/metrics").await.body };
    let page = at_this_instant("the page", page).await;
    assert!(page.contains("tidegate_connections_timed_out_total 2"), "{page}");
}

#[tokio::test]
async fn one_connection_too_many_waits_until_another_closes() {
    let mut config = loopback();
    config.bounds.connections = 2;
    config.listen(ListenerRole::Admin, "127.0.0.1:0".parse().unwrap());
    let world = World::with([api()], config).await;
    let (mut one, mut two) = (world.client().await, world.client().await);
    // Both are in the middle of a request: an idle connection would make room.
    let begun = format!("expect: 100-continue\r\ncontent-length: {}\r\n\r\n", CHECK.len());
    for client in [&mut one, &mut two] {
        client.send(format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{begun}")).await;
        assert_eq!(client.answer().await.unwrap().status, 100);
    }
    let mut three = world.client().await;
    three.send("GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n").await;
    // The operators' listener is not full.
    let mut admin = Client::connect(world.handle.admin().unwrap().tcp().unwrap()).await;
    let page = admin.get("/metrics").await.body;
    assert!(page.contains("tidegate_connections 3\n"), "two callers and this one: {page}");
    drop(one);
    assert_eq!(three.answer().await.unwrap().status, 200);
    two.send(CHECK).await;
    assert_eq!(two.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = World::api().await;
    let mut client = world.client().await;
    for _ in 0..20 {
        let health = "GET /healthz HTTP/1.1\r\nhost: t\r\n\r\n";
        client.send(format!("{health}{}{health}", post("/v1/check", CHECK))).await;
        assert_eq!(client.answer().await.unwrap().json()["status"], "ok");
        assert!(client.answer().await.unwrap().json()["decision"].is_string());
        assert_eq!(client.answer().await.unwrap().json()["status"], "ok");
    }
}

#[tokio::test]
async fn an_answer_does_not_wait_for_the_rest_of_the_next_request() {
    let world = World::api().await;
    let mut client = world.client().await;
    client.send(format!("{}POST /v1/check HTTP/1.1\r\nhost:", post("/v1/check", CHECK))).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    client.send(format!(" t\r\ncontent-length: {}\r\n\r\n{CHECK}", CHECK.len())).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
}

#[tokio::test]
async fn http_2_without_tls_is_spoken_on_the_same_port() {
    let world = World::api().await;
    let stream = TcpStream::connect(world.address()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    for left in [2, 1, 0] {
        let request =
            http::Request::post("http://t/v1/check").body(Full::<bytes::Bytes>::from(CHECK)).unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(json["remaining"], left);
    }
    let mut many = http::Request::get("http://t/healthz");
    for index in 0..500 {
        many = many.header(format!("x-h{index}"), "v");
    }
    let answer = sender.send_request(many.body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(answer.status().as_u16(), 431);
    drop(sender);
    connection.await.unwrap().unwrap();
}
