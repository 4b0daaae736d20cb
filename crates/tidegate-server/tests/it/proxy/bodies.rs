//! Bodies and cookies that arrive in a shape of their own version of HTTP.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Request};
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::upstream::{serve, well};
use super::{route, to, world};
use crate::world::World;

/// A body that does not say how long it is.
type Pieces = StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

fn pieces(texts: &[&'static str]) -> Pieces {
    let frames: Vec<_> =
        texts.iter().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))).collect();
    StreamBody::new(futures_util::stream::iter(frames))
}

/// The status of one HTTP/2 request.
async fn over_http2(world: &World, request: Request<Pieces>) -> u16 {
    let stream = TcpStream::connect(world.proxy()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap().status().as_u16()
}

const METHODS: [Method; 6] =
    [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS, Method::PUT, Method::PATCH];

#[tokio::test]
async fn a_body_of_unknown_length_goes_on_whatever_the_method() {
    let (server, seen) = well().await;
    let mut free = route("api");
    free.namespace = None;
    let world = world(to(&[server], free)).await;
    for method in METHODS {
        let mut client = world.proxied().await;
        let head = format!("{method} / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(format!("{head}3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")).await;
        if method != Method::HEAD {
            assert_eq!(client.answer().await.unwrap().status, 200, "{method}");
        }
        let request =
            Request::builder().method(&method).uri("http://t/").body(pieces(&["abc", "de"])).unwrap();
        if method != Method::HEAD {
            assert_eq!(over_http2(&world, request).await, 200, "{method}");
        }
        while seen.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        for request in seen.lock().unwrap().drain(..) {
            assert!(request.contains("transfer-encoding: chunked\r\n"), "{request}");
            let sent: String = request.split("\r\n\r\n").skip(1).collect();
            let whole = sent.replace("\r\n", "");
            assert!(whole == "3abc2de0" || whole == "5abcde0", "{request}");
        }
    }
}

#[tokio::test]
async fn a_body_that_ends_without_a_byte_is_passed_on_as_empty() {
    let (server, seen) = well().await;
    let mut free = route("api");
    free.namespace = None;
    let world = world(to(&[server], free)).await;
    for method in [Method::GET, Method::POST] {
        let request = Request::builder().method(&method).uri("http://t/").body(pieces(&[])).unwrap();
        assert_eq!(over_http2(&world, request).await, 200, "{method}");
        let seen = seen.lock().unwrap().pop().unwrap();
        assert!(seen.ends_with("\r\n\r\n0\r\n\r\n") || !seen.contains("chunked"), "{seen}");
    }
    let mut client = world.proxied().await;
    assert_eq!(client.get("/").await.status, 200);
    let seen = seen.lock().unwrap().pop().unwrap();
    assert!(!seen.contains("transfer-encoding") && !seen.contains("content-length"), "{seen}");
}

#[tokio::test]
async fn cookies_in_several_lines_are_counted_and_sent_on_as_one_line() {
    let (server, seen) = well().await;
    let mut by_cookie = route("api");
    let user = ("user".to_owned(), "cookie.sid".parse().unwrap());
    by_cookie.attributes = vec![user];
    let world = world(to(&[server], by_cookie)).await;
    for _ in 0..2 {
        let request = Request::get("http://t/").header("cookie", "a=1").header("cookie", "sid=ada");
        let request = request.header("cookie", "b=2; c=3").body(pieces(&[])).unwrap();
        assert_eq!(over_http2(&world, request).await, 200);
    }
    let crumbs = "cookie: a=1\r\ncookie: sid=ada\r\ncookie: b=2; c=3\r\n";
    assert_eq!(world.through("/", crumbs).await.status, 200);
    assert_eq!(world.through("/", "cookie: sid=ada\r\n").await.status, 429, "one counter for all of them");
    assert_eq!(world.through("/", "cookie: sid=ada\r\ncookie: sid=eve\r\n").await.status, 400);
    for request in seen.lock().unwrap().drain(..) {
        assert!(request.contains("\r\ncookie: a=1; sid=ada; b=2; c=3\r\n"), "{request}");
        assert_eq!(request.matches("cookie:").count(), 1, "{request}");
    }
}

#[tokio::test]
async fn trailers_of_a_request_cannot_say_what_its_head_may_not() {
    let (give, mut take) = tokio::sync::mpsc::unbounded_channel();
    let server = serve(move |mut connection| {
        let give = give.clone();
        async move {
            let request = connection.until(b"x-sum: 7\r\n\r\n").await.unwrap();
            let _ = give.send(request);
            connection.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    })
    .await;
    let world = world(to(&[server], route("api"))).await;
    let mut client = world.proxied().await;
    let trailers =
        "x-user: eve\r\nx_user: eve\r\nx-forwarded-for: 6.6.6.6\r\nx-real-ip: 6.6.6.6\r\nx-sum: 7\r\n";
    let head = "POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ntransfer-encoding: chunked\r\n\
                trailer: x-sum, x-user, x_user, x-forwarded-for, x-real-ip\r\n\r\n";
    client.send(format!("{head}3\r\nabc\r\n0\r\n{trailers}\r\n")).await;
    assert_eq!(client.answer().await.unwrap().status, 200);
    let request = take.recv().await.unwrap();
    assert!(request.ends_with("3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n"), "{request}");
    assert!(!request.contains("eve") && !request.contains("6.6.6.6"), "{request}");
}
