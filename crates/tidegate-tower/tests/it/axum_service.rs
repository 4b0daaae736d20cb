//! The axum example, with real requests over real connections.

use core::time::Duration;
use std::net::SocketAddr;

use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::world::text;

#[path = "../../examples/axum.rs"]
#[expect(dead_code, unreachable_pub, reason = "an example is a program of its own")]
mod example;

async fn serve(app: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

async fn get(address: SocketAddr, path: &str) -> Response<hyper::body::Incoming> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost").header("x-user", "ada");
    sender.send_request(request.body(Empty::<bytes::Bytes>::new()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn the_axum_example_admits_charges_and_refuses() {
    let address = serve(example::app().unwrap()).await;
    let hello = get(address, "/hello").await;
    assert_eq!(hello.status(), 200);
    assert_eq!(hello.headers()["ratelimit-policy"], r#""per-user";q=3;w=60"#);
    assert_eq!(hello.headers()["ratelimit"], r#""per-user";r=2;t=20"#);
    assert_eq!(text(hello).await, "hello\n");
    let report = get(address, "/report").await;
    assert!(report.headers()["ratelimit-policy"].to_str().unwrap().contains("concurrent-requests"));
    assert_eq!(text(report).await, "a report costs two\n");
    // One and two are three, and the fourth comes in twenty seconds, which is more than it may
    // wait.
    let refused = get(address, "/hello").await;
    assert_eq!(refused.status(), 429);
    let seconds: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((10..=20).contains(&seconds), "{seconds}");
    assert!(text(refused).await.contains("\"reason\":\"rate_exceeded\""));
}

#[tokio::test]
async fn the_axum_example_has_at_most_forty_five_lines() {
    assert!(include_str!("../../examples/axum.rs").lines().count() <= 45);
}

#[tokio::test]
async fn a_client_that_closes_its_connection_gives_back_its_place() {
    use axum::body::Body;
    use axum::routing::get as route;
    use tidegate_tower::ConcurrencyLayer;

    // One place, an answer that never ends, and a caller that waits for the place.
    let never = async || Body::new(http_body_util::combinators::UnsyncBoxBody::new(Forever));
    let layer = ConcurrencyLayer::new(1).unwrap().wait(Duration::from_mins(1));
    let app = axum::Router::new().route("/", route(never)).layer(layer.clone());
    let address = serve(app).await;
    let mut first = get(address, "/").await;
    assert_eq!(first.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "x");
    let second = tokio::spawn(async move { get(address, "/").await.status() });
    while layer.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(first);
    assert_eq!(second.await.unwrap(), 200);
}

/// Data without end, as fast as they are taken.
struct Forever;

impl http_body::Body for Forever {
    type Data = bytes::Bytes;
    type Error = core::convert::Infallible;

    fn poll_frame(
        self: core::pin::Pin<&mut Self>,
        _cx: &mut core::task::Context<'_>,
    ) -> core::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        core::task::Poll::Ready(Some(Ok(http_body::Frame::data(bytes::Bytes::from_static(b"x")))))
    }
}
