//! The true cost of a request from its answer, charges that come back by the status, and routes by
//! header.

use serde_json::json;

use super::get;
use super::upstream::{Connection, Seen, serve};
use crate::client::{Answer, Client};
use crate::restartable_daemon::{Kept, RestartableDaemon};
use crate::world::START;

/// The answer of the server by the path of a request. `closes` ends the connection behind it.
struct Canned {
    path: &'static str,
    answer: &'static str,
    closes: bool,
}

const fn canned(path: &'static str, answer: &'static str) -> Canned {
    Canned { path, answer, closes: false }
}

const fn broken(path: &'static str, answer: &'static str) -> Canned {
    Canned { path, answer, closes: true }
}

const ANSWERS: [Canned; 17] = [
    canned("/header", "HTTP/1.1 200 OK\r\nx-tokens: 42\r\ncontent-length: 2\r\n\r\nok"),
    canned("/header/no-number", "HTTP/1.1 200 OK\r\nx-tokens: 4.2\r\ncontent-length: 2\r\n\r\nok"),
    canned(
        "/json",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 71\r\n\r\n\
         {\"text\":\"{\\\"usage\\\":{\\\"input\\\":999}}\",\"usage\":{\"input\":30,\"output\":12}}",
    ),
    canned(
        "/json/chunked",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
         b\r\n{\"usage\":{\"\r\n9\r\ninput\":3\r\np0\r\n",
    ),
    canned("/json/without", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
    canned("/json/no-json", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n\"usage\":{["),
    canned(
        "/json/compressed",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 24\r\n\r\n{\"usage\":{\"input\":42}}  ",
    ),
    canned(
        "/sse",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n\
         data: {\"delta\":\"a\"}\n\nevent: usage\ndata: {\"usage\":{\"input\":1,\"output\":1}}\n\n\
         data: {\"usage\":{\"input\":30,\ndata: \"output\":12}}\n\ndata: [DONE]\n\n",
    ),
    broken(
        "/sse/broken",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
         2f\r\ndata: {\"usage\":{\"input\":30,\"output\":12}}\n\ndata:\r\n",
    ),
    broken("/json/broken", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"usage\":{\"input\":4"),
    canned("/none", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
    canned("/500", "HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\noh"),
    canned("/529", "HTTP/1.1 529 Full\r\nx-tokens: 42\r\ncontent-length: 2\r\n\r\noh"),
    canned("/404", "HTTP/1.1 404 No\r\ncontent-length: 2\r\n\r\nno"),
    canned("/401", "HTTP/1.1 401 Who\r\ncontent-length: 2\r\n\r\nno"),
    broken("/gone", ""),
    canned("/huge", "HTTP/1.1 200 OK\r\nx-tokens: 99999999999999999999999\r\ncontent-length: 2\r\n\r\nok"),
];

async fn server() -> (std::net::SocketAddr, Seen) {
    let seen = Seen::default();
    let notes = Seen::clone(&seen);
    let address = serve(move |mut connection: Connection| {
        let notes = Seen::clone(&notes);
        async move {
            while let Some(request) = connection.request().await {
                let path = request.split(' ').nth(1).unwrap().to_owned();
                notes.lock().unwrap().push(request);
                let found = ANSWERS.iter().find(|canned| canned.path == path);
                let Canned { answer, closes, .. } = found.unwrap_or_else(|| panic!("no answer for {path}"));
                let is_sent = connection.send(answer).await;
                if !is_sent || *closes || answer.contains("connection: close") {
                    return;
                }
            }
        }
    })
    .await;
    (address, seen)
}

/// A daemon whose proxy charges `tokens` of a user by these settings of `cost`, and its server's
/// record of requests.
async fn charging(cost: &str, limit: &str) -> (RestartableDaemon, Seen) {
    let (server, seen) = server().await;
    let policy = format!(
        "  api: {{ limits: [{{ name: tokens, key: [user], fixed: {{ limit: 1000, window: 1h }}{limit} }}] }}
listen: {{ proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [http://{server}] }}
  routes:
    - {{ name: llm, upstream: app, namespace: api, retry: off, attributes: {{ user: header.x-user }}, cost: {cost} }}
"
    );
    (RestartableDaemon::start(Kept::Memory, &policy, START).await, seen)
}

async fn ask(daemon: &RestartableDaemon, path: &str, headers: &str) -> Option<Answer> {
    let mut client = Client::connect(daemon.proxy()).await;
    client.send(get(path, headers)).await;
    client.answer().await
}

/// The units that are charged to a user, once they no longer change.
async fn charged(daemon: &RestartableDaemon, user: &str) -> u64 {
    let body = json!({"namespace": "api", "attributes": {"user": user}}).to_string();
    let mut last = None;
    loop {
        daemon.settled().await;
        let explained = daemon.post("/v1/explain", &body).await.json();
        let now = explained["limits"][0]["counter"]["level"]["used"].as_u64();
        if let Some(units) = now
            && last == now
        {
            return units;
        }
        last = now;
    }
}

const PLACES: &str =
    "[header.x-tokens, sse.usage.input + sse.usage.output, json.usage.input + json.usage.output]";

#[tokio::test]
async fn the_true_cost_is_taken_from_the_first_place_that_the_answer_has() {
    let (daemon, seen) = charging(&format!("{{ units: 100, from_response: {PLACES} }}"), "").await;
    for (path, expected) in [
        ("/header", 42),
        ("/json", 42),
        ("/json/chunked", 3),
        ("/sse", 42),
        // Said before the server broke off.
        ("/sse/broken", 42),
        // Nothing that can be taken for the cost: the estimate stays.
        ("/header/no-number", 100),
        ("/huge", 100),
        ("/json/without", 100),
        ("/json/no-json", 100),
        ("/json/compressed", 100),
        ("/json/broken", 100),
        ("/none", 100),
        ("/404", 100),
        ("/500", 100),
    ] {
        let answer = ask(&daemon, path, &format!("x-user: {path}\r\naccept-encoding: gzip\r\n")).await;
        if let Some(answer) = answer {
            assert_eq!(answer.header("x-tokens"), None, "{path}: the header is for the proxy");
        }
        assert_eq!(charged(&daemon, path).await, expected, "{path}");
    }
    for request in seen.lock().unwrap().iter() {
        assert!(request.contains("accept-encoding: identity"), "bodies that can be read: {request}");
    }
    let metrics = daemon.get("/metrics").await.body;
    for (result, count) in [("read", 5), ("absent", 9)] {
        let line = format!("tidegate_proxy_true_costs_total{{route=\"llm\",result=\"{result}\"}} {count}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn bodies_pass_unchanged_while_they_are_read() {
    let (daemon, _) = charging(&format!("{{ units: 100, from_response: {PLACES} }}"), "").await;
    for path in ["/json", "/json/without", "/json/no-json", "/sse"] {
        let canned = ANSWERS.iter().find(|canned| canned.path == path).unwrap();
        let (_, body) = canned.answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(ask(&daemon, path, "x-user: ada\r\n").await.unwrap().body, body, "{path}");
    }
}

#[tokio::test]
async fn the_units_of_a_request_are_taken_from_its_header() {
    let (daemon, _) = charging("{ units: 5, from: header.x-max-tokens }", "").await;
    for (header, status, expected) in [
        ("x-max-tokens: 7\r\n", 200, 7),
        ("", 200, 5),
        ("x-max-tokens: 1000\r\n", 200, 1000),
        ("x-max-tokens: 1001\r\n", 429, 0),
        ("x-max-tokens: 0\r\n", 400, 0),
        ("x-max-tokens: -1\r\n", 400, 0),
        ("x-max-tokens: many\r\n", 400, 0),
        ("x-max-tokens: 1\r\nx-max-tokens: 2\r\n", 400, 0),
    ] {
        let user = header.replace("\r\n", "_").replace([':', ' '], "");
        let answer = ask(&daemon, "/none", &format!("x-user: u{user}\r\n{header}")).await.unwrap();
        assert_eq!(answer.status, status, "{header:?}: {answer:?}");
        assert_eq!(charged(&daemon, &format!("u{user}")).await, expected, "{header:?}");
    }
}

#[tokio::test]
async fn an_estimate_from_the_request_is_settled_by_the_answer() {
    let cost = format!("{{ from: header.x-max-tokens, from_response: {PLACES} }}");
    let (daemon, _) = charging(&cost, "").await;
    for (user, path, expected) in [("a", "/header", 42), ("b", "/none", 7)] {
        ask(&daemon, path, &format!("x-user: {user}\r\nx-max-tokens: 7\r\n")).await.unwrap();
        assert_eq!(charged(&daemon, user).await, expected, "{path}");
    }
}

#[tokio::test]
async fn nothing_is_charged_on_the_statuses_that_the_limit_names() {
    for kept in ["", ", consistency: exact"] {
        let limit = format!(", refund_on: [5xx, 404]{kept}");
        let (daemon, _) = charging(&format!("{{ units: 100, from_response: {PLACES} }}"), &limit).await;
        for (path, status, expected) in [
            ("/500", 500, 0),
            ("/529", 529, 0),
            ("/404", 404, 0),
            ("/401", 401, 100),
            ("/header", 200, 42),
            // The proxy's own answer for a server that is gone.
            ("/gone", 502, 0),
        ] {
            let answer = ask(&daemon, path, &format!("x-user: {path}\r\n")).await.unwrap();
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(charged(&daemon, path).await, expected, "{path}");
        }
    }
}

#[tokio::test]
async fn the_proxys_own_504_counts_by_its_status() {
    for (refund_on, expected) in [("[5xx]", 0), ("[failed]", 0), ("[502]", 100)] {
        let server =
            serve(|mut connection: Connection| async move { while connection.request().await.is_some() {} })
                .await;
        let policy = format!(
            "  api: {{ limits: [{{ name: tokens, key: [user], fixed: {{ limit: 1000, window: 1h }},
               refund_on: {refund_on} }}] }}
listen: {{ proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [http://{server}] }}
  routes:
    - {{ upstream: app, namespace: api, attributes: {{ user: header.x-user }}, timeouts: {{ first_byte: 50ms }},
        cost: {{ units: 100, from_response: json.n }} }}
"
        );
        let daemon = RestartableDaemon::start(Kept::Memory, &policy, START).await;
        assert_eq!(ask(&daemon, "/", "x-user: ada\r\n").await.unwrap().status, 504);
        assert_eq!(charged(&daemon, "ada").await, expected, "{refund_on}");
    }
}

#[tokio::test]
async fn failures_alone_come_back_where_the_limit_names_the_outcome() {
    let (daemon, _) = charging("{ units: 100 }", ", refund_on: [failed]").await;
    for (path, expected) in [("/500", 0), ("/401", 100), ("/none", 100), ("/json/broken", 0)] {
        ask(&daemon, path, &format!("x-user: {path}\r\n")).await;
        assert_eq!(charged(&daemon, path).await, expected, "{path}");
    }
}

/// A server that sends the head of an answer and then nothing.
async fn stalling(status: &'static str) -> std::net::SocketAddr {
    serve(move |mut connection: Connection| async move {
        if connection.request().await.is_some() {
            connection.send(format!("HTTP/1.1 {status}\r\ncontent-length: 100\r\n\r\nbegin")).await;
            connection.request().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_caller_that_hangs_up_gets_nothing_back_but_by_the_status() {
    for (status, expected) in [("200 OK", 100), ("503 Full", 0)] {
        let server = stalling(status).await;
        let policy = format!(
            "  api: {{ limits: [{{ name: tokens, key: [user], fixed: {{ limit: 1000, window: 1h }},
               refund_on: [failed, 5xx] }}] }}
listen: {{ proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [http://{server}] }}
  routes: [{{ upstream: app, namespace: api, attributes: {{ user: header.x-user }}, cost: {{ units: 100 }} }}]
"
        );
        let daemon = RestartableDaemon::start(Kept::Memory, &policy, START).await;
        let mut client = Client::connect(daemon.proxy()).await;
        client.send(get("/", "x-user: ada\r\n")).await;
        client.has_received("begin").await;
        drop(client);
        assert_eq!(charged(&daemon, "ada").await, expected, "{status}");
    }
}

#[tokio::test]
async fn a_route_is_chosen_by_headers_and_a_repeated_one_is_a_bad_request() {
    let (server, _) = server().await;
    let policy = format!(
        "  old: {{ limits: [{{ name: old, fixed: {{ limit: 1000, window: 1h }} }}] }}
  new: {{ limits: [{{ name: new, fixed: {{ limit: 1000, window: 1h }} }}] }}
listen: {{ proxy: 127.0.0.1:0 }}
proxy:
  upstreams: {{ app: [http://{server}] }}
  routes:
    - {{ match: {{ path: /none, headers: {{ x-version: [\"2\", \"3\"], x-beta: {{ not: \"no\" }} }} }}, upstream: app, namespace: new }}
    - {{ match: {{ path: /none }}, upstream: app, namespace: old }}
"
    );
    let daemon = RestartableDaemon::start(Kept::Memory, &policy, START).await;
    for (headers, expected) in [
        ("x-version: 2\r\nx-beta: yes\r\n", "new"),
        ("X-Version: 3\r\nx-beta: yes\r\n", "new"),
        ("x-version: 4\r\nx-beta: yes\r\n", "old"),
        ("x-version: 2\r\nx-beta: no\r\n", "old"),
        ("", "old"),
        ("x-version: 2\r\nx-version: 2\r\n", "400"),
        ("x-beta: yes\r\nx-version: 1\r\nx-version: 2\r\n", "400"),
        ("x-other: 1\r\nx-other: 2\r\n", "old"),
    ] {
        let answer = ask(&daemon, "/none", headers).await.unwrap();
        let policy = answer.header("ratelimit-policy").unwrap_or("400").to_owned();
        assert!(policy.contains(expected), "{headers:?}: {answer:?}");
        assert_eq!(answer.status, if expected == "400" { 400 } else { 200 }, "{headers:?}");
    }
}
