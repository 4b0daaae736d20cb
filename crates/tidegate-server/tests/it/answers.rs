//! Whole answers, literally: status, headers, body.

use tidegate_server::OlderHeaders;

use crate::world::{World, api, loopback};

#[tokio::test]
async fn an_admitted_request_is_answered_with_what_is_left() {
    let world = World::api().await;
    let answer = world.check(r#"{"user":"ada","app":"shop"}"#).await;
    assert_eq!(
        answer.shown(),
        concat!(
            "200\n",
            "content-type: application/json\n",
            "ratelimit-policy: \"per-user\";q=3;w=3, \"per-app\";q=5;w=60\n",
            "ratelimit: \"per-user\";r=2;t=1, \"per-app\";r=4;t=60\n",
            "content-length: 165\n",
            "\n",
            r#"{"decision":"admit","remaining":2,"limits":["#,
            r#"{"name":"per-user","limit":3,"remaining":2,"reset_ms":1000},"#,
            r#"{"name":"per-app","limit":5,"remaining":4,"reset_ms":60000}]}"#,
        )
    );
}

#[tokio::test]
async fn a_refused_request_is_answered_with_a_problem_that_explains_itself() {
    let world = World::api().await;
    for _ in 0..3 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    let answer = world.check(r#"{"user":"ada"}"#).await;
    assert_eq!(
        answer.shown(),
        concat!(
            "429\n",
            "content-type: application/problem+json\n",
            "retry-after: 1\n",
            "ratelimit-policy: \"per-user\";q=3;w=3\n",
            "ratelimit: \"per-user\";r=0;t=1\n",
            "x-tidegate-reason: rate_exceeded\n",
            "x-tidegate-limit: per-user\n",
            "content-length: 510\n",
            "\n",
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
            r#""title":"Quota Exceeded","status":429,"#,
            r#""detail":"limit \"per-user\" is used up for user=ada: 0 of 3 units left; come back in 1 s","#,
            r#""violated-policies":["per-user"],"decision":"refuse","reason":"rate_exceeded","plane":"limits","#,
            r#""namespace":"api","limit":"per-user","scope":{"user":"ada"},"remaining":0,"retry":"at","#,
            r#""retry_after_ms":1000,"violated":[{"name":"per-user","reason":"rate_exceeded","limit":3,"#,
            r#""remaining":0,"retry_after_ms":1000}]}"#,
        )
    );
}

#[tokio::test]
async fn a_quota_names_the_end_of_the_civil_day_in_its_zone() {
    let world = World::api().await;
    for _ in 0..10 {
        assert_eq!(world.check(r#"{"account":"7"}"#).await.status, 200);
    }
    let other = world.check(r#"{"account":"8","app":"shop"}"#).await.json();
    let end_of = |name: &str| {
        let limits = other["limits"].as_array().unwrap();
        limits.iter().find(|limit| limit["name"] == name).unwrap()["window_end"].as_str().map(str::to_owned)
    };
    assert_eq!(end_of("daily").as_deref(), Some("2026-11-21 00:00 America/Los_Angeles"));
    assert_eq!(end_of("per-app"), None, "its windows are no civil ones");
    let answer = world.check(r#"{"account":"7"}"#).await;
    // 23:00 in Greenwich is 15:00 in Los Angeles; the day has nine hours left.
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("32400")));
    assert_eq!(answer.json()["reason"], "quota_exceeded");
    let detail = answer.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(" until 2026-11-21 00:00 America/Los_Angeles: "), "{detail}");
    assert!(detail.ends_with("; come back in 9 h"), "{detail}");
}

#[tokio::test]
async fn older_headers_are_sent_where_configured() {
    let mut config = loopback();
    config.older_headers = OlderHeaders { ratelimit: true, x_ratelimit: true };
    let world = World::with([api()], config).await;
    let answer = world.check(r#"{"user":"ada","app":"shop"}"#).await;
    for (name, value) in [
        ("ratelimit-limit", "3"),
        ("ratelimit-remaining", "2"),
        ("ratelimit-reset", "1"),
        ("x-ratelimit-limit", "3"),
        ("x-ratelimit-remaining", "2"),
        ("x-ratelimit-reset", "1"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn a_status_of_its_own_replaces_the_reasons() {
    let mut config = loopback();
    config.statuses.set("api", "per-user", 403);
    let world = World::with([api()], config).await;
    for _ in 0..3 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    let answer = world.check(r#"{"user":"ada"}"#).await;
    assert_eq!((answer.status, answer.json()["status"].as_u64()), (403, Some(403)));
}

#[tokio::test]
async fn a_message_that_cannot_be_taken_is_answered_with_what_to_do() {
    let world = World::api().await;
    let answer = world.post("/v1/check", r#"{"namespace":"api","atributes":{}}"#).await;
    assert_eq!(
        answer.shown(),
        concat!(
            "400\n",
            "content-type: application/problem+json\n",
            "content-length: 319\n",
            "\n",
            r#"{"type":"about:blank","title":"Bad Request","status":400,"error":"malformed_body","#,
            r#""detail":"unknown field `atributes`, expected one of `namespace`, `attributes`, `cost`, `class`, `feature`, "#,
            r#"`resource`, `ticket`, `access`, `peek`, `wait_ms`","fix":"did you mean \"attributes\"?","field":"atributes","#,
            r#""line":1,"column":30}"#,
        )
    );
}
