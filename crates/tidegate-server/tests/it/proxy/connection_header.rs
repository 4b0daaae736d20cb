//! Headers that `Connection` names: a client cannot take out what it is known by.

use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::proxy::Route;

use super::upstream::well;
use super::{route, to, world};

/// Reads an API key, a cookie, the class and how long a caller waits.
fn reading() -> Route {
    let mut reading = route("api");
    let source = |text: &str| text.parse::<ValueSource>().unwrap();
    let attributes = [("user", "header.x-api-key"), ("app", "cookie.sid")];
    let attributes = attributes.map(|(name, text)| (name.to_owned(), source(text)));
    reading.attributes = attributes.into();
    reading.class.from = Some("header.x-class".parse().unwrap());
    reading.attempt = source("header.x-feature");
    reading
}

const READ: &str = "x-api-key: k\r\ncookie: sid=1\r\nauthorization: Bearer t\r\nx-hop: 1\r\n";

#[tokio::test]
async fn a_header_that_is_read_or_is_for_the_server_cannot_be_named_in_connection() {
    let (server, seen) = well().await;
    let world = world(to(&[server], reading())).await;
    for named in [
        "x-api-key",
        "X-API-Key",
        "X_Api_Key",
        "x-class",
        "x-feature",
        "grpc-timeout",
        "cookie",
        "authorization",
        "x-forwarded-for",
        "x-forwarded-port",
        "forwarded",
        "x-real-ip",
        "host",
        "via",
        "content-length",
        "content-type",
        "user-agent",
        "accept",
        "if-match",
        "sec-websocket-key",
        "origin",
        "traceparent",
    ] {
        for connection in [
            format!("connection: close, {named}\r\n"),
            format!("connection: {named}\r\n"),
            format!("connection: keep-alive\r\nconnection: x-hop,{named} ,close\r\n"),
        ] {
            let answer = world.through("/", &format!("{READ}{connection}")).await;
            assert_eq!(
                (answer.status, answer.json()["error"].as_str()),
                (400, Some("malformed_header")),
                "{connection}"
            );
        }
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn what_belongs_to_one_connection_may_be_named_and_is_taken_out() {
    let (server, seen) = well().await;
    let mut free = reading();
    free.namespace = None;
    let world = world(to(&[server], free)).await;
    for connection in [
        "close",
        "keep-alive",
        "TE, x-hop",
        "upgrade, http2-settings",
        "keep-alive, X-Hop, proxy-connection",
        "",
        ", ,",
    ] {
        let headers = format!("{READ}te: trailers\r\nconnection: {connection}\r\n");
        assert_eq!(world.through("/", &headers).await.status, 200, "{connection}");
        let request = seen.lock().unwrap().pop().unwrap();
        assert!(request.contains("x-api-key: k\r\n") && !request.contains("connection"), "{request}");
        let is_named = connection.to_ascii_lowercase().contains("x-hop");
        assert_eq!(request.contains("x-hop"), !is_named, "{connection}: {request}");
    }
}
