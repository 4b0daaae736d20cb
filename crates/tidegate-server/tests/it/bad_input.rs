//! Malformed requests: each gets a clear error, nothing is charged, other callers are unaffected.

use tidegate_core::limit::Missing;

use crate::world::{World, api, loopback, missing};

/// Sends a body and expects this status and error code; the detail and fix must contain `hint`.
async fn expect(world: &World, path: &str, body: &str, status: u16, error: &str, hint: &str) {
    let answer = world.post(path, body).await;
    let json = answer.json();
    assert_eq!((answer.status, json["error"].as_str()), (status, Some(error)), "{body}: {json}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(json.to_string().contains(hint), "{body}: {json}");
}

#[tokio::test]
async fn bodies_that_cannot_be_taken_say_why() {
    let world = World::api().await;
    for (body, hint) in [
        ("", "empty"),
        ("{", "the body ends inside of an object"),
        ("null", "expected an object"),
        (r#"["api",{"user":"ada"}]"#, "invalid type: a list, expected an object"),
        (r#"{"namespace":"api","access":["t","k","read"]}"#, "invalid type: a list, expected an object"),
        (r#"{"namespace":"api","cost":1,"cost":1}"#, "duplicate field `cost`"),
        (r#"{"namespace":"api"}}"#, "the body goes on behind its JSON value"),
        (r#"{"attributes":{}}"#, "missing field `namespace`"),
        (r#"{"namespace":7}"#, "a string"),
        (r#"{"namespace":"api","attributes":[]}"#, "an object of strings"),
        (r#"{"namespace":"api","attributes":{"user":7}}"#, "in quotes"),
        (r#"{"namespace":"api","attributes":{"user":true}}"#, "in quotes"),
        (r#"{"namespace":"api","attributes":{"user":"a","user":"b"}}"#, "duplicate"),
        (r#"{"namespace":"api","attributes":{"":"a"}}"#, "empty name"),
        (r#"{"namespace":"api","cost":0}"#, "\\\"peek\\\": true"),
        (r#"{"namespace":"api","cost":-1}"#, "whole number from 1"),
        (r#"{"namespace":"api","cost":1.5}"#, "whole number from 1"),
        (r#"{"namespace":"api","cost":"1"}"#, "whole number from 1"),
        (r#"{"namespace":"api","cost":18446744073709551616}"#, "whole number from 1"),
        (r#"{"namespace":"api","class":"urgent"}"#, "critical_plus"),
        (r#"{"namespace":"api","peek":"yes"}"#, "boolean"),
        (
            r#"{"namespace":"api","wait_ms":"5"}"#,
            "invalid type: the text \\\"5\\\", expected a whole number from 0",
        ),
        (r#"{"namespace":"api","Cost":1}"#, "did you mean \\\"cost\\\""),
    ] {
        expect(&world, "/v1/check", body, 400, "malformed_body", hint).await;
    }
    expect(&world, "/v1/check", r#"{"namespace":"api","wait_ms":60001}"#, 400, "malformed_body", "60000")
        .await;
    assert_eq!(world.check(r#"{"user":"ada"}"#).await.json()["remaining"], 2, "nothing was charged");
}

#[tokio::test]
async fn invalid_utf_8_is_an_error_with_its_place() {
    let world = World::api().await;
    let mut client = world.client().await;
    let mut request = b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 21\r\n\r\n".to_vec();
    request.extend(b"{\"namespace\":\"a\xff\xfepi\"}");
    client.send(request).await;
    let answer = client.answer().await.unwrap();
    let json = answer.json();
    assert_eq!((answer.status, json["error"].as_str()), (400, Some("malformed_body")), "{json}");
    assert_eq!(json["line"], 1);
    assert!((15..=17).contains(&json["column"].as_u64().unwrap()), "{json}");
    assert_eq!(
        client.post("/v1/check", r#"{"namespace":"api"}"#).await.status,
        200,
        "the connection goes on"
    );
}

#[tokio::test]
async fn what_does_not_exist_is_said_to() {
    let world = World::api().await;
    expect(&world, "/v1/check", r#"{"namespace":"nope"}"#, 404, "unknown_namespace", "nope").await;
    let long = "n".repeat(60_000);
    let body = format!(r#"{{"namespace":"{long}"}}"#);
    let answer = world.post("/v1/check", &body).await;
    assert!(answer.status == 404 && answer.body.len() < 1000, "{}", answer.body.len());
    expect(&world, "/v1/nope", "{}", 404, "unknown_route", "/v1/check").await;
    expect(&world, "/v1/check/", "{}", 404, "unknown_route", "/v1/check").await;
    let permit = r#"{"permit":"00000000000000000000000000000000"}"#;
    expect(&world, "/v1/settle", permit, 404, "unknown_permit", "once").await;
    expect(&world, "/v1/settle", r#"{"permit":"7"}"#, 400, "malformed_body", "32 hexadecimal digits").await;
    let mut client = world.client().await;
    let wrong = client.get("/v1/check").await;
    assert_eq!((wrong.status, wrong.header("allow")), (405, Some("POST")));
    assert_eq!(client.post("/metrics", "").await.header("allow"), Some("GET, HEAD"));
}

#[tokio::test]
async fn attributes_have_their_bounds() {
    let world = World::api().await;
    let many = |count: usize| {
        let all: Vec<_> = (0..count).map(|index| format!(r#""a{index}":"v""#)).collect();
        format!(r#"{{"namespace":"api","attributes":{{{}}}}}"#, all.join(","))
    };
    assert_eq!(world.post("/v1/check", &many(64)).await.status, 200);
    expect(&world, "/v1/check", &many(65), 400, "malformed_body", "more than 64 attributes").await;
    let long =
        |bytes: usize| format!(r#"{{"namespace":"api","attributes":{{"user":"{}"}}}}"#, "v".repeat(bytes));
    assert_eq!(world.post("/v1/check", &long(1024)).await.status, 200);
    expect(&world, "/v1/check", &long(1025), 400, "malformed_body", "longer than 1024 bytes").await;
    expect(&world, "/v1/report", &long(1025), 400, "malformed_body", "longer than 1024 bytes").await;
}

#[tokio::test]
async fn an_access_to_a_table_that_the_namespace_lacks_is_an_error_and_charges_nothing() {
    let world = World::with([missing(Missing::Skip)], loopback()).await;
    let access = r#""access":{"table":"orders","key":"k","kind":"read","size":1}"#;
    let body = format!(r#"{{"namespace":"missing-skip","attributes":{{"user":"ada"}},{access}}}"#);
    let peek = body.replacen('{', r#"{"peek":true,"#, 1);
    for (route, body) in [("/v1/check", &body), ("/v1/check", &peek), ("/v1/reserve", &body)] {
        let answer = world.post(route, body).await;
        let json = answer.json();
        assert_eq!((answer.status, json["error"].as_str()), (400, Some("unknown_table")), "{route} {json}");
        assert!(json["detail"].as_str().unwrap().contains("no table \"orders\""), "{json}");
    }
    let asked = r#"{"namespace":"missing-skip","attributes":{"user":"ada"}}"#;
    assert_eq!(world.post("/v1/check", asked).await.status, 200, "the only unit is still there");
}

#[tokio::test]
async fn a_missing_key_attribute_skips_refuses_or_groups() {
    let world = World::with([Missing::Skip, Missing::Refuse, Missing::Group].map(missing), loopback()).await;
    let ask =
        async |namespace: &str| world.post("/v1/check", &format!(r#"{{"namespace":"{namespace}"}}"#)).await;
    for _ in 0..3 {
        assert_eq!(ask("missing-skip").await.body, r#"{"decision":"admit","limits":[]}"#);
    }
    let refused = ask("missing-refuse").await;
    let json = refused.json();
    assert_eq!((refused.status, json["reason"].as_str()), (400, Some("attribute_missing")), "{json}");
    assert_eq!(json["type"], "about:blank");
    assert_eq!(refused.header("ratelimit"), None, "there is no counter to speak of");
    assert!(json["detail"].as_str().unwrap().contains("lacks the attribute \"user\""), "{json}");
    assert_eq!((json["retry"].as_str(), refused.header("retry-after")), (Some("never"), None));
    assert_eq!(ask("missing-group").await.status, 200);
    assert_eq!(ask("missing-group").await.status, 429, "all who lack it share one counter");
}

#[tokio::test]
async fn bytes_that_are_no_http_end_their_connection_and_no_other() {
    let world = World::with([api()], loopback()).await;
    let mut good = world.client().await;
    assert_eq!(good.get("/healthz").await.status, 200);
    for nonsense in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut bad = world.client().await;
        bad.send(nonsense).await;
        let answer = bad.answer().await;
        assert!(answer.is_none_or(|answer| answer.status == 400), "{nonsense:?}");
        assert!(bad.is_ended().await);
    }
    assert_eq!(good.get("/healthz").await.status, 200);
    let page = good.get("/metrics").await.body;
    assert!(page.contains(r#"tidegate_faults_total{error="malformed_http"} 4"#), "{page}");
}
