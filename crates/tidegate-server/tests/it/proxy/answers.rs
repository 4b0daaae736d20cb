//! Answers that the proxy makes itself.

use std::time::Duration;

use super::upstream::{answering, nobody, serve, well};
use super::{get, route, to, world};
use crate::client::post;
use crate::paused_clock::at_this_instant;

#[tokio::test]
async fn a_refusal_is_that_of_every_door_and_no_server_hears_of_it() {
    let (server, seen) = well().await;
    let world = world(to(&[server], route("api"))).await;
    for _ in 0..3 {
        assert_eq!(world.through("/", "x-user: ada\r\n").await.status, 200);
    }
    let refused = world.through("/", "x-user: ada\r\n").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    let same = world.check(r#"{"user":"ada"}"#).await;
    assert_eq!(refused.body, same.body);
    assert_eq!(seen.lock().unwrap().len(), 3);
    assert_eq!(world.through("/", "x-user: bob\r\n").await.status, 200, "others go on");
}

#[tokio::test]
async fn people_see_a_page_that_counts_down() {
    let (server, _) = well().await;
    let world = world(to(&[server], route("api"))).await;
    let headers = "x-user: ada\r\naccept: text/html,*/*;q=0.8\r\n";
    for _ in 0..3 {
        assert_eq!(world.through("/", headers).await.body, "ok");
    }
    let refused = world.through("/", headers).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!((refused.header("retry-after"), refused.header("vary")), (Some("1"), Some("accept")));
    assert!(refused.body.starts_with("<!doctype html>") && refused.body.contains("in <b id=\"s\">1 s</b>."));
}

#[tokio::test]
async fn a_route_may_say_no_in_words_of_its_own() {
    let (server, _) = well().await;
    let mut own = route("api");
    own.refusal = Some(tidegate_policy::policy::proxy::RefusalPage {
        content_type: http::HeaderValue::from_static("text/plain"),
        body: "slow down".into(),
    });
    let world = world(to(&[server], own)).await;
    for _ in 0..3 {
        world.through("/", "x-user: ada\r\n").await;
    }
    let refused = world.through("/", "x-user: ada\r\n").await;
    assert_eq!((refused.status, refused.body.as_str()), (429, "slow down"));
    assert_eq!(refused.header("x-tidegate-reason"), Some("rate_exceeded"));
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_costs_nothing() {
    let world = world(to(&[nobody().await], route("api"))).await;
    for _ in 0..10 {
        let answer = world.through("/", "x-user: ada\r\n").await;
        assert_eq!(answer.status, 502, "and never 429");
        assert_eq!(answer.json()["error"], "upstream_unreachable");
    }
    world.settled().await;
}

#[tokio::test]
async fn servers_that_answer_badly_are_told_apart_from_those_that_do_not() {
    for (answer, status, error) in [
        ("", 502, "upstream_broken"),
        ("garbage\r\n\r\n", 502, "upstream_broken"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab", 502, "upstream_broken"),
        ("HTTP/1.1 200 OK\r\nbad header\r\n\r\n", 502, "upstream_broken"),
        ("HTTP/1.1 200 O", 502, "upstream_broken"),
    ] {
        let server = serve(move |mut connection| async move {
            let _ = connection.request().await;
            connection.send(answer).await;
        })
        .await;
        let world = world(to(&[server], route("parallel"))).await;
        let got = world.through("/", "x-user: ada\r\n").await;
        assert_eq!((got.status, got.json()["error"].as_str()), (status, Some(error)), "{answer:?}");
        world.settled().await;
        assert!(world.is_free("ada").await);
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let server = serve(|mut connection| async move {
        let _ = connection.request().await;
        connection.until(b"never").await;
    })
    .await;
    let mut impatient = route("parallel");
    impatient.timeouts.first_byte = Duration::from_millis(30);
    let world = world(to(&[server], impatient)).await;
    let got = world.through("/", "x-user: ada\r\n").await;
    assert_eq!((got.status, got.json()["error"].as_str()), (504, Some("upstream_timeout")));
    world.settled().await;
    assert!(world.is_free("ada").await);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_stops_or_never_ends_is_broken_off() {
    // Stops in the middle; closes early; sends for ever.
    for case in 0..3 {
        let server = serve(move |mut connection| async move {
            let _ = connection.request().await;
            connection.send("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\nsome").await;
            match case {
                0 => {
                    connection.until(b"never").await;
                }
                1 => {}
                _ => {
                    while connection.send("more").await {
                        // Sleeps: on tokio's paused clock, until the time of the route is over.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        })
        .await;
        let mut impatient = route("parallel");
        impatient.timeouts.idle = Duration::from_millis(30);
        impatient.timeouts.total = Some(Duration::from_millis(100));
        let world = world(to(&[server], impatient)).await;
        let mut client = world.proxied().await;
        client.send(get("/", "x-user: ada\r\n")).await;
        let answer = if case == 1 {
            at_this_instant("the connection ends", client.answer()).await
        } else {
            // The times of the route are over only after the answer has begun.
            at_this_instant("the answer begins", client.has_received("some")).await;
            client.answer().await
        };
        assert_eq!(answer, None, "its body never comes whole: case {case}");
        world.settled().await;
        assert!(world.is_free("ada").await, "case {case}");
    }
}

#[tokio::test]
async fn a_body_that_stops_is_told_so_and_its_permit_comes_back() {
    let server = serve(|mut connection| async move {
        connection.until(b"never").await;
    })
    .await;
    let mut impatient = route("parallel");
    impatient.timeouts.idle = Duration::from_millis(30);
    let world = world(to(&[server], impatient)).await;
    let mut client = world.proxied().await;
    client.send("POST / HTTP/1.1\r\nhost: t\r\nx-user: ada\r\ncontent-length: 9\r\n\r\nsome").await;
    let got = client.answer().await.unwrap();
    assert_eq!((got.status, got.json()["error"].as_str()), (408, Some("body_timeout")));
    assert_eq!(got.header("connection"), Some("close"));
    world.settled().await;
    assert!(world.is_free("ada").await);
}

#[tokio::test]
async fn a_path_that_no_route_takes_is_told_so() {
    let (server, seen) = well().await;
    let mut only = route("api");
    only.path = Some(tidegate_policy::grammar::PathPattern::parse("/v1/*").unwrap());
    let world = world(to(&[server], only)).await;
    assert_eq!(world.through("/v1/x", "").await.status, 200);
    assert_eq!(world.through("/v2/x", "").await.json()["error"], "unknown_route");
    for dodge in ["/v2/../v1/x", "/v1/%2e%2e/v2", "/v1/..%2fv2", "/v1//x", "/v1\\..\\v2", "/v1/%00"] {
        let answer = world.through(dodge, "").await;
        assert_eq!(
            (answer.status, answer.json()["error"].as_str()),
            (400, Some("ambiguous_path")),
            "{dodge}"
        );
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_counted_is_on_the_page() {
    let (server, _) = answering("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").await;
    let world = world(to(&[server], route("api"))).await;
    let mut client = world.proxied().await;
    client.send(post("/", "x")).await;
    assert_eq!(client.answer().await.unwrap().status, 201);
    world.settled().await;
    drop(client);
    let page = world.client().await.get("/metrics").await.body;
    for line in [
        "tidegate_proxy_requests_total{route=\"all\",status=\"201\"} 1",
        "tidegate_proxy_in_flight 0",
        "tidegate_proxy_upstream_duration_seconds_count 1",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}
