//! HTTP/2 on both sides.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_policy::policy::proxy::Proxy;
use tidegate_test_support::TemporaryFolder;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::tls::trusting;
use super::{route, to, world};
use crate::authority::Authority;

/// A server that speaks HTTP/2 only, and answers with what it was sent, what it heard, and a
/// trailer.
async fn echo(tls: Option<TlsAcceptor>) -> SocketAddr {
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
            let Some(tls) = tls.clone() else {
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
                continue;
            };
            tokio::spawn(async move {
                let stream = tls.accept(stream).await.unwrap();
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                server.serve_connection(TokioIo::new(stream), service).await
            });
        }
    });
    address
}

#[tokio::test]
async fn trailers_pass_both_ways_between_clients_and_servers_of_http_2() {
    let config = to(&[echo(None).await], route("parallel"));
    trailers_pass_both_ways(config).await;
}

#[tokio::test]
async fn trailers_pass_both_ways_over_tls() {
    let (folder, authority) = (TemporaryFolder::new(), Authority::new());
    let tls = authority.issue_as(&["127.0.0.1"], |_| ()).server(None, "h2");
    let mut config = to(&[], route("parallel"));
    let address = echo(Some(TlsAcceptor::from(tls))).await;
    config.upstreams[0].servers.push(format!("https://{address}").parse().unwrap());
    config.upstreams[0].tls = Some(trusting(&authority, &folder));
    trailers_pass_both_ways(config).await;
}

async fn trailers_pass_both_ways(mut config: Proxy) {
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
