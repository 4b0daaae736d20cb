//! The metrics page: what it counts, and that strangers cannot make it grow.

use std::time::Duration;

use tidegate_engine::NamespaceConfig;

use crate::client::post;
use crate::world::{World, bucket, fixed, loopback};

/// The value of one series.
fn value(page: &str, series: &str) -> Option<f64> {
    let line =
        page.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.starts_with('#')).count()
}

#[tokio::test]
async fn decisions_are_counted_by_limit_and_reason() {
    let world = World::api().await;
    for _ in 0..5 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    world.check(r#"{"user":"bob"}"#).await;
    world.post("/v1/check", r#"{"namespace":"nope"}"#).await;
    world.post("/v1/check", "{").await;
    let page = world.client().await.get("/metrics").await;
    assert_eq!(
        page.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let page = page.body;
    for (series, expected) in [
        (
            r#"tidegate_decisions_total{namespace="api",limit="per-user",decision="admit",reason="",protocol="http"}"#,
            4.0,
        ),
        (
            r#"tidegate_decisions_total{namespace="api",limit="per-user",decision="refuse",reason="rate_exceeded",protocol="http"}"#,
            2.0,
        ),
        (r#"tidegate_near_limit_total{namespace="api",limit="per-user"}"#, 1.0),
        (r#"tidegate_http_requests_total{route="/v1/check",status="200"}"#, 4.0),
        (r#"tidegate_http_requests_total{route="/v1/check",status="429"}"#, 2.0),
        (r#"tidegate_faults_total{error="unknown_namespace"}"#, 1.0),
        (r#"tidegate_faults_total{error="malformed_body"}"#, 1.0),
        ("tidegate_decision_duration_seconds_count", 6.0),
        (r#"tidegate_decision_duration_seconds_bucket{le="+Inf"}"#, 6.0),
        ("tidegate_connections", 1.0),
        ("tidegate_connections_accepted_total", 9.0),
        ("tidegate_permits_kept", 0.0),
    ] {
        assert_eq!(value(&page, series), Some(expected), "{series}\n{page}");
    }
    assert!(page.contains(concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")));
    assert!(page.ends_with("# EOF\n"));
}

#[tokio::test]
async fn permits_and_shadow_refusals_are_counted() {
    let namespace = NamespaceConfig::new("api", [bucket("trial", 1, 1).key(["user"]).shadow()]);
    let world = World::with([namespace], loopback()).await;
    for _ in 0..3 {
        world.check(r#"{"user":"ada"}"#).await;
    }
    world.post("/v1/reserve", r#"{"namespace":"api","expires_ms":1000}"#).await;
    let mut client = world.client().await;
    let page = client.get("/metrics").await.body;
    assert_eq!(value(&page, r#"tidegate_shadow_refusals_total{namespace="api",limit="trial"}"#), Some(2.0));
    assert_eq!(value(&page, "tidegate_permits_kept"), Some(1.0));
    world.clock.advance(Duration::from_secs(1));
    let page = loop {
        let page = client.get("/metrics").await.body;
        if value(&page, "tidegate_permits_kept") == Some(0.0) {
            break page;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(value(&page, "tidegate_permits_expired_total"), Some(1.0));
}

/// `TIDEGATE_METRIC_KEYS=100000` brings more keys, as an acceptance suite does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_and_namespaces_leave_the_number_of_series_as_it_was() {
    let keys: usize = std::env::var("TIDEGATE_METRIC_KEYS").map_or(20_000, |count| count.parse().unwrap());
    let namespace = NamespaceConfig::new("api", [fixed("per-user", 1, Duration::from_mins(1)).key(["user"])]);
    let world = World::with([namespace], loopback()).await;
    let ask = async |from: usize, count: usize| {
        let mut client = world.client().await;
        for start in (from..from + count).step_by(500) {
            let mut requests = String::new();
            for index in start..start + 500 {
                let user = format!(r#"{{"namespace":"api","attributes":{{"user":"user-{index}"}}}}"#);
                requests += &post("/v1/check", &user);
                requests += &post("/v1/check", &user);
                requests += &post("/v1/check", &format!(r#"{{"namespace":"stranger-{index}"}}"#));
            }
            let (mut refused, mut unknown) = (0, 0);
            client.send(requests).await;
            for _ in 0..1500 {
                let status = client.answer().await.unwrap().status;
                refused += usize::from(status == 429);
                unknown += usize::from(status == 404);
            }
            assert_eq!((refused, unknown), (500, 500));
        }
    };
    ask(0, 500).await;
    // The page counts itself, once it has been read.
    world.client().await.get("/metrics").await;
    let before = world.client().await.get("/metrics").await.body;
    ask(500, keys).await;
    let after = world.client().await.get("/metrics").await.body;
    assert_eq!(series(&after), series(&before), "{after}");
    assert!(after.len() < before.len() + 200, "only digits may grow");
    let top = world.client().await.get("/v1/keys/top?n=1000").await.json();
    // Everything happened at one instant, so that there is one slot.
    let shown = top["keys"].as_array().unwrap().len();
    assert_eq!((shown, &top["refusals"]), (tidegate_server::REFUSED_KEYS_MAX, &(keys + 500).into()));
}
