//! The examples, run.

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tidegate::{ManualClock, Timestamp};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tower::{Layer, ServiceExt, service_fn};

/// An example as a module.
macro_rules! example {
    ($name:ident, $file:literal) => {
        #[path = $file]
        #[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
        mod $name;
    };
}

example!(plain, "../../examples/plain.rs");
example!(consumer, "../../examples/consumer.rs");
example!(client, "../../examples/client.rs");
example!(hyper_server, "../../examples/hyper.rs");
example!(policy, "../../examples/policy.rs");

#[test]
fn plain_admits_two_at_a_time_and_three_in_a_burst() {
    let orders = plain::Orders::new().unwrap();
    let held = (orders.order("ada").unwrap(), orders.order("ada").unwrap());
    assert_eq!(orders.order("ada").unwrap_err().name(), "parallel");
    drop(held);
    drop(orders.order("ada").unwrap());
    assert_eq!(orders.order("ada").unwrap_err().name(), "per-user");
    drop(orders.order("bob").unwrap());
}

#[tokio::test]
async fn the_consumer_waits_until_the_bytes_are_there() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_secs(1_800_000_000)));
    let admission = consumer::admission(Arc::clone(&clock) as _).unwrap();
    let (sender, messages) = mpsc::channel(4);
    for size in [600, 400, 0, 500] {
        sender.send(("acme".to_owned(), "x".repeat(size))).await.unwrap();
    }
    drop(sender);
    let consumer = tokio::spawn(async move { consumer::consume(&admission, messages).await.unwrap() });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!consumer.is_finished(), "the third message waits");
    clock.advance(Duration::from_millis(500));
    assert_eq!(consumer.await.unwrap(), 3);
}

#[tokio::test]
async fn the_client_waits_for_its_turn_instead_of_being_refused() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_secs(1_800_000_000)));
    let layer = client::layer().unwrap().clock(Arc::clone(&clock) as _);
    let answer = async |_: Request<()>| {
        Ok::<_, core::convert::Infallible>(http::Response::new(http_body_util::Full::<Bytes>::default()))
    };
    let client = layer.layer(service_fn(answer));
    let call = || client.clone().oneshot(Request::get("/").header("host", "one").body(()).unwrap());
    assert_eq!(call().await.unwrap().status(), 200);
    let waits = tokio::spawn(call());
    while layer.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    clock.advance(Duration::from_millis(100));
    assert_eq!(waits.await.unwrap().unwrap().status(), 200);
}

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost").header("x-user", "ada");
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_hyper_server_counts_by_the_address_of_its_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(hyper_server::serve(listener, hyper_server::layer().unwrap()));
    for _ in 0..3 {
        assert_eq!(get(address, "/").await, (200, "hello\n".to_owned()));
    }
    let (status, body) = get(address, "/").await;
    assert_eq!(status, 429);
    assert!(body.contains("\"scope\":{\"client_ip\":\"127.0.0.1\"}"), "{body}");
}

#[tokio::test]
async fn the_axum_service_keeps_to_the_policy_of_its_file() {
    let app = policy::app(Path::new("examples/policy.yaml")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    for _ in 0..2 {
        assert_eq!(get(address, "/hello").await, (200, "hello\n".to_owned()));
    }
    let (status, body) = get(address, "/hello").await;
    assert_eq!(status, 429);
    assert!(body.contains("\"limit\":\"per-user\""), "{body}");
}
