//! Answers as callers read them: refusals, admitted answers, and requests that cannot be described.

use core::future::ready;

use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidegate_core::Limit;
use tidegate_engine::{Engine, EngineConfig, NamespaceConfig};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_tower::{AdmitBody, AdmitLayer, extract, timeout};
use tidegate_wire::headers::OlderHeaders;
use tower::{Layer, ServiceExt, service_fn};

use crate::world::{
    Answered, Frames, SECOND, Then, World, bucket, builder, hanging, left, prompt, request, request_of, text,
    usual,
};

async fn ask(world: &World, request: Request<()>) -> Response<AdmitBody<Frames>> {
    world.layer.layer(service_fn(prompt)).oneshot(request).await.unwrap()
}

fn shown<'a>(headers: &'a HeaderMap, names: &[&str]) -> Vec<Option<&'a str>> {
    names.iter().map(|name| headers.get(*name).map(|value| value.to_str().unwrap())).collect()
}

fn grpc() -> Request<()> {
    let mut request = request();
    request.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    request
}

#[tokio::test]
async fn an_admitted_answer_carries_what_the_limits_have_left() {
    let world = World::new(usual());
    let response = ask(&world, request()).await;
    assert_eq!(response.status(), 200);
    assert_eq!(
        shown(response.headers(), &["ratelimit-policy", "ratelimit", "retry-after", "x-tidegate-reason"]),
        [
            Some(r#""rate";q=2;w=1, "parallel";q=1;qu="concurrent-requests""#),
            Some(r#""rate";r=1;t=1, "parallel";r=0"#),
            None,
            None
        ]
    );
    assert_eq!(text(response).await, "done");
}

#[tokio::test]
async fn a_refusal_is_a_problem_that_says_which_limit_why_and_when_to_come_back() {
    let world = World::new(usual());
    for _ in 0..2 {
        text(ask(&world, request()).await).await;
    }
    let response = ask(&world, request()).await;
    assert_eq!(response.status(), 429);
    assert_eq!(
        shown(
            response.headers(),
            &[
                "content-type",
                "retry-after",
                "ratelimit",
                "ratelimit-policy",
                "x-tidegate-reason",
                "x-tidegate-limit"
            ]
        ),
        [
            Some("application/problem+json"),
            Some("1"),
            Some(r#""rate";r=0;t=1"#),
            Some(r#""rate";q=2;w=1"#),
            Some("rate_exceeded"),
            Some("rate")
        ]
    );
    let body: Value = serde_json::from_str(&text(response).await).unwrap();
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota Exceeded",
        "status": 429,
        "detail": "limit \"rate\" is used up for user=ada: 0 of 2 units left; come back in 500 ms",
        "violated-policies": ["rate"],
        "decision": "refuse",
        "reason": "rate_exceeded",
        "plane": "limits",
        "namespace": "api",
        "limit": "rate",
        "scope": {"user": "ada"},
        "remaining": 0,
        "retry": "at",
        "retry_after_ms": 500,
        "violated": [
            {"name": "rate", "reason": "rate_exceeded", "limit": 2, "remaining": 0, "retry_after_ms": 500}
        ],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn each_kind_of_refusal_is_that_of_the_daemon() {
    let day = 24 * 60 * 60 * SECOND;
    for (name, limit, reason, status, retry_ms) in [
        ("rate", bucket(2, 60 * SECOND, 2), "rate_exceeded", 429, Some(30_000)),
        ("quota", bucket(2, day, 2), "quota_exceeded", 429, Some(43_200_000)),
        ("required", bucket(2, 60 * SECOND, 2), "attribute_missing", 400, None),
    ] {
        let key = if name == "required" { "account" } else { "user" };
        let limit = Limit::new(name, limit).key([key]).missing(tidegate_core::limit::Missing::Refuse);
        let world = World::new(builder([limit]));
        if status == 429 {
            for _ in 0..2 {
                assert_eq!(ask(&world, request()).await.status(), 200, "{name}");
            }
        }
        let response = ask(&world, request()).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-tidegate-reason"]),
            (status, &reason.parse().unwrap())
        );
        let seconds = retry_ms.map(|ms: u64| (ms / 1000).to_string());
        let told = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        assert_eq!(told, seconds, "{name}");
        let body: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(
            (&body["reason"], &body["limit"], &body["remaining"]),
            (&json!(reason), &json!(name), &json!(0))
        );
        assert_eq!(body["retry_after_ms"].as_u64(), retry_ms, "{name}");
    }
}

#[tokio::test]
async fn a_refusal_over_grpc_is_a_status_without_messages() {
    let world = World::new(usual());
    let held = ask(&world, request()).await;
    let response = ask(&world, grpc()).await;
    assert_eq!(response.status(), 200);
    let names =
        ["content-type", "grpc-status", "x-tidegate-reason", "ratelimit", "retry-after", "grpc-message"];
    assert_eq!(
        shown(response.headers(), &names),
        [
            Some("application/grpc"),
            Some("8"),
            Some("concurrency_exceeded"),
            Some(r#""parallel";r=0;t=1"#),
            Some("1"),
            Some(
                "the only permit of limit \"parallel\" is held for user=ada; retry with exponential backoff, the first \
                 time after 10 ms"
            )
        ]
    );
    assert_eq!(text(response).await, "");
    drop(held);
}

#[tokio::test]
async fn each_plane_has_its_own_grpc_status() {
    // DEADLINE_EXCEEDED, before anything is charged.
    let world = World::new(usual()).with(|layer| layer.deadline(timeout::grpc));
    let mut late = grpc();
    late.headers_mut().insert("grpc-timeout", "0S".parse().unwrap());
    let response = ask(&world, late).await;
    let names = ["grpc-status", "x-tidegate-reason", "retry-after", "ratelimit", "ratelimit-policy"];
    let late = [Some("4"), Some("deadline_unmeetable"), None, None, None];
    assert_eq!(shown(response.headers(), &names), late, "a deadline is no limit");
    assert_eq!(world.left(), left(2, 1));
    // UNAVAILABLE.
    let overload = Overload::new(ResourceConfig::new(1), 5).unwrap();
    let world = World::new(builder([]).overload(overload));
    let held = world.layer.layer(service_fn(hanging)).oneshot(request()).await.unwrap();
    let response = ask(&world, grpc()).await;
    // The hint of 1 s is scattered by less than half, and rounded up.
    let shed = [Some("14"), Some("overload_shed"), Some("2"), None, None];
    assert_eq!(shown(response.headers(), &names), shed, "the places are not the caller's limit");
    drop(held);
}

#[tokio::test]
async fn a_message_over_grpc_is_encoded() {
    let limit = Limit::new("100% gr\u{fc}n", bucket(1, SECOND, 1)).key(["user"]);
    let world = World::new(builder([limit]));
    text(ask(&world, request()).await).await;
    let response = ask(&world, grpc()).await;
    let message = response.headers()["grpc-message"].to_str().unwrap();
    assert!(message.starts_with("limit \"100%25 gr%C3%BCn\" is used up"), "{message}");
}

#[tokio::test]
async fn a_request_that_cannot_be_described_is_rejected_and_charged_nothing() {
    let world = World::new(usual());
    let twice = Request::builder().header("x-user", "a").header("x-user", "b").body(()).unwrap();
    let long = Request::builder().header("x-user", "a".repeat(1025)).body(()).unwrap();
    for (request, hint) in
        [(twice, "duplicate"), (long, "send at most 1024"), (request_of("urgent"), "does not exist")]
    {
        let response = ask(&world, request).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (400, &"application/problem+json".parse().unwrap())
        );
        let body = text(response).await;
        assert!(body.contains(hint) && body.contains("malformed_query"), "{body}");
    }
    let mut rejected = grpc();
    rejected.headers_mut().insert("x-class", "urgent".parse().unwrap());
    assert_eq!(ask(&world, rejected).await.headers()["grpc-status"], "3");
    assert_eq!(world.left(), left(2, 1));
}

#[test]
fn a_namespace_that_the_engine_lacks_is_found_when_the_layer_is_made() {
    let error = AdmitLayer::new(usual().build().unwrap(), "apo").unwrap_err();
    assert_eq!(error.to_string(), "namespace \"apo\" does not exist; use \"api\"");
}

#[test]
fn a_typing_error_in_an_attribute_can_be_an_error() {
    let world = World::new(usual());
    world.layer.clone().check_attributes().unwrap();
    let error = world.layer.attribute("usr", extract::method()).check_attributes().unwrap_err();
    assert_eq!(
        error.to_string(),
        "no limit of namespace \"api\" looks at attribute \"usr\"; use \"user\", or remove it"
    );
}

#[tokio::test]
async fn a_namespace_that_is_gone_after_a_reload_is_the_services_mistake() {
    let world = World::new(usual());
    let other = NamespaceConfig::new("apo", []);
    world.engine.replace(Engine::builder(EngineConfig::default()).namespace(other).build().unwrap());
    let response = ask(&world, request()).await;
    assert_eq!(response.status(), 500);
    assert!(text(response).await.contains("api"));
    assert_eq!(ask(&world, grpc()).await.headers()["grpc-status"], "13");
}

#[tokio::test]
async fn the_service_may_answer_refusals_in_its_own_words() {
    let world = World::new(usual()).with(|layer| {
        layer.on_refusal(|refusal, standard| {
            let (mut head, _) = standard.into_parts();
            head.status = StatusCode::FORBIDDEN;
            Response::from_parts(head, format!("no: {}", refusal.reason()).into())
        })
    });
    let held = ask(&world, request()).await;
    let response = ask(&world, request()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (403, &"1".parse().unwrap())
    );
    assert_eq!(text(response).await, "no: concurrency_exceeded");
    drop(held);
}

#[tokio::test]
async fn older_headers_are_sent_where_asked_for() {
    let older = OlderHeaders { x_ratelimit: true, ..OlderHeaders::default() };
    let world = World::new(usual()).with(|layer| layer.older_headers(older));
    let response = ask(&world, request()).await;
    let names = ["x-ratelimit-limit", "x-ratelimit-remaining", "ratelimit-limit"];
    assert_eq!(shown(response.headers(), &names), [Some("1"), Some("0"), None]);
}

#[tokio::test]
async fn a_shadow_limit_is_charged_and_not_shown() {
    let shadow = Limit::new("rate", bucket(1, SECOND, 1)).key(["user"]).shadow();
    let shown = Limit::new("parallel", bucket(5, SECOND, 5)).key(["user"]);
    let world = World::new(builder([shadow, shown]));
    for remaining in [4, 3] {
        let response = ask(&world, request()).await;
        assert_eq!(response.headers()["ratelimit"], format!("\"parallel\";r={remaining};t=1"));
    }
    assert_eq!(world.left(), left(0, 3));
}

#[tokio::test]
async fn the_body_and_trailers_of_the_service_pass_unchanged() {
    let world = World::new(usual());
    let answer = |_: Request<()>| {
        let frames = Frames::new(["one", "two"], Then::End).trailers(&[("x-sum", "7")]);
        ready(Answered::Ok(Response::builder().status(203).header("x-own", "1").body(frames).unwrap()))
    };
    let response = world.layer.layer(service_fn(answer)).oneshot(request()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["x-own"].as_bytes()), (203, &b"1"[..]));
    let body = response.into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
    assert_eq!(body.to_bytes(), "onetwo");
}

#[tokio::test]
async fn a_shed_request_is_answered_with_the_state_of_its_resource() {
    let world = World::new(usual()).with(|layer| layer.tenant(extract::header("x-user")));
    let user = |name| Request::builder().header("x-user", name).body(()).unwrap();
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        let service = world.layer.layer(service_fn(hanging));
        held.push(service.oneshot(user(name)).await.unwrap());
    }
    let response = ask(&world, user("d")).await;
    assert_eq!(response.status(), 503);
    let names = ["x-tidegate-reason", "x-tidegate-limit", "ratelimit", "ratelimit-policy"];
    let expected = [Some("overload_shed"), Some("in_flight"), None, None];
    assert_eq!(shown(response.headers(), &names), expected);
    let body: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(body["limit"], "in_flight");
    assert_eq!(body["overload"], json!({ "cursor": 0, "binding_signal": "in_flight" }));
    assert_eq!(body["scope"], json!({ "class": "sheddable_plus", "tenant": "d" }));
    // A refusal by a limit has no such member.
    let denied = ask(&world, user("a")).await;
    let body: Value = serde_json::from_str(&text(denied).await).unwrap();
    assert_eq!((&body["limit"], body.get("overload")), (&json!("parallel"), None));
}
