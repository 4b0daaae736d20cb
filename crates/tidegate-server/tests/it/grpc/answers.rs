//! The parts of an answer that Envoy passes on: header fields, a body, metadata for other filters.

use prost_types::value::Kind;
use tidegate_wire::envoy::RateLimitUnit;

use super::{Envoy, app, descriptor, header, under, user, world};

#[tokio::test]
async fn what_is_left_is_shown_in_statuses_and_header_fields() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let answer = envoy.ask(&[app("x"), user("ada")]).await;
    let shown: Vec<_> = answer
        .statuses
        .iter()
        .map(|status| {
            let limit = status.current_limit.clone().unwrap();
            let reset = status.duration_until_reset.unwrap();
            (
                limit.name.clone(),
                limit.requests_per_unit,
                limit.unit().as_str_name(),
                reset.seconds,
                reset.nanos,
            )
        })
        .collect();
    // The bucket holds three and is full after three seconds, which is no unit of Envoy's.
    assert_eq!(
        shown,
        [("per-app".to_owned(), 5, "MINUTE", 60, 0), ("per-user".to_owned(), 3, "UNKNOWN", 1, 0)]
    );
    assert_eq!(header(&answer, "ratelimit-policy"), Some(r#""per-app";q=5;w=60, "per-user";q=3;w=3"#));
    assert_eq!(header(&answer, "ratelimit"), Some(r#""per-app";r=4;t=60, "per-user";r=2;t=1"#));
    assert_eq!(header(&answer, "retry-after"), None);
    assert!(answer.raw_body.is_empty());
    assert_eq!(answer.dynamic_metadata, None);
}

#[tokio::test]
async fn a_refusal_is_the_same_as_over_http() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for _ in 0..3 {
        envoy.ask(&[user("ada")]).await;
    }
    let refused = envoy.ask(&[user("ada")]).await;
    let http = world.check(r#"{"user":"ada"}"#).await;
    assert_eq!(http.status, 429);
    assert_eq!(str::from_utf8(&refused.raw_body).unwrap(), http.body);
    let names = [
        "retry-after",
        "ratelimit-policy",
        "ratelimit",
        "x-tidegate-reason",
        "x-tidegate-limit",
        "content-type",
    ];
    for name in names {
        assert!(header(&refused, name).is_some(), "{name}");
        assert_eq!(header(&refused, name), http.header(name), "{name}");
    }
    assert_eq!(refused.response_headers_to_add.len(), names.len());
}

#[tokio::test]
async fn the_reason_and_the_scope_of_a_refusal_are_metadata_for_other_filters() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    let own = || under(1, RateLimitUnit::Hour, descriptor(&[("path", "/a"), ("user", "ada")]));
    envoy.ask(&[own()]).await;
    let refused = envoy.ask(&[own()]).await;
    let metadata = refused.dynamic_metadata.unwrap().fields;
    let text = |name: &str| match &metadata[name].kind {
        Some(Kind::StringValue(text)) => text.as_str(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(
        [text("namespace"), text("limit"), text("reason"), text("plane")],
        ["api", "override", "quota_exceeded", "limits"]
    );
    assert_eq!(metadata["retry_after_ms"].kind, Some(Kind::NumberValue(3_600_000.0)));
    let Some(Kind::StructValue(scope)) = &metadata["scope"].kind else { panic!("{metadata:?}") };
    let scope: Vec<_> =
        scope.fields.iter().map(|(name, value)| (name.as_str(), value.kind.clone())).collect();
    let is = |text: &str| Some(Kind::StringValue(text.to_owned()));
    assert_eq!(scope, [("path", is("/a")), ("user", is("ada"))]);
}

#[tokio::test]
async fn decisions_are_counted_as_those_of_other_protocols_and_what_was_given_back_is_not() {
    let world = world().await;
    let mut envoy = Envoy::of(&world).await;
    for _ in 0..3 {
        envoy.ask(&[user("ada")]).await;
    }
    envoy.ask(&[app("x"), user("ada")]).await;
    let page = world.client().await.get("/metrics").await.body;
    let mut decisions: Vec<_> =
        page.lines().filter(|line| line.starts_with("tidegate_decisions_total")).collect();
    decisions.sort_unstable();
    assert_eq!(
        decisions,
        [
            r#"tidegate_decisions_total{namespace="api",limit="per-user",decision="admit",reason="",protocol="rls"} 3"#,
            r#"tidegate_decisions_total{namespace="api",limit="per-user",decision="refuse",reason="rate_exceeded",protocol="rls"} 1"#,
        ]
    );
}
