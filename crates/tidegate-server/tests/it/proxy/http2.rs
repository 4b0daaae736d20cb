//! HTTP/2 on both sides.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};

use super::{route, to, world};

/// A server that speaks HTTP/2 only, and answers with what it was sent, what it heard, and a trailer.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|request: Request<Incoming>| async move {
                let heard = request.headers().get("te").cloned();
                let sent = request.into_body().collect().await.unwrap();
                let trailer = sent.trailers().and_then(|trailers| trailers.get("x-sum")).cloned();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                trailers.extend(trailer.map(|sum| (http::HeaderName::from_static("x-sum"), sum)));
                let body = Full::new(sent.to_bytes()).with_trailers(std::future::ready(Some(Ok(trailers))));
                let mut response = Response::new(body);
                response.headers_mut().extend(heard.map(|te| (http::HeaderName::from_static("x-te"), te)));
                Ok::<_, Infallible>(response)
            });
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn trailers_pass_both_ways_between_clients_and_servers_of_http_2() {
    let mut config = to(&[echo().await], route("parallel"));
    config.upstreams[0].http2 = true;
    let world = world(config).await;
    let stream = TcpStream::connect(world.proxy()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("7"));
        let body =
            Full::new(Bytes::from_static(b"hello")).with_trailers(std::future::ready(Some(Ok(trailers))));
        let request = Request::post("http://shop.example/pkg.Service/Call")
            .header("x-user", "ada")
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(body)
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), response.headers()["x-te"].to_str().unwrap()),
            (200, "trailers")
        );
        let whole = response.into_body().collect().await.unwrap();
        let trailers = whole.trailers().unwrap();
        assert_eq!(
            (&trailers["grpc-status"], &trailers["x-sum"]),
            (&"0".parse().unwrap(), &"7".parse().unwrap())
        );
        assert_eq!(whole.to_bytes(), "hello");
        world.settled().await;
    }
}

#[tokio::test]
async fn a_server_of_http_2_that_is_gone_is_told_as_unreachable() {
    let mut config = to(&[super::upstream::nobody().await], route("parallel"));
    config.upstreams[0].http2 = true;
    let world = world(config).await;
    assert_eq!(world.through("/", "x-user: a\r\n").await.json()["error"], "upstream_unreachable");
    world.settled().await;
}
