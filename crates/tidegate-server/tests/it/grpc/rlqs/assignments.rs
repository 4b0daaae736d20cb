//! The actions that an Envoy is sent: parts of limits, at once and with each report.

use std::time::Duration;

use serde_json::json;
use tidegate_core::limit::Consistency;
use tidegate_engine::NamespaceConfig;
use tidegate_test_support::TemporaryFolder;
use tidegate_wire::envoy::rlqs::{BucketAction, BucketId};

use super::{EnvoyStream, config, first, grpc_address, metric, metric_becomes, report, usage, world, worlds};
use crate::authorization::Guarded;
use crate::world::{World, bucket, fixed};

/// The bucket of an action, in the order of the names.
fn bucket_of(action: &BucketAction) -> Vec<(&str, &str)> {
    let id: Option<&BucketId> = action.bucket_id.as_ref();
    id.iter().flat_map(|id| &id.bucket).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Facts of Envoy 1.40: whole seconds only, and an absent time to live has ended.
fn assert_whole_seconds(action: &BucketAction) {
    let text = format!("{action:?}");
    assert!(text.contains("assignment_time_to_live: Some(Duration { seconds: 10, nanos: 0 })"), "{text}");
    assert!(!text.contains("seconds: 0"), "{text}");
}

#[tokio::test]
async fn a_first_report_is_answered_at_once_with_a_part_for_ten_seconds() {
    for world in worlds().await {
        let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
        let actions = stream.next().await.expect("an answer");
        let [action] = &actions[..] else { panic!("{actions:?}") };
        assert_eq!(bucket_of(action), [("user", "ada")]);
        assert_whole_seconds(action);
        assert_eq!(metric(&world.handle, "tidegate_rlqs_actions_total{action=\"tokens\"}").await, 1);
        assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets{state=\"assigned\"}").await, 1);
    }
}

#[tokio::test]
async fn each_report_brings_the_assignment_anew() {
    for world in worlds().await {
        let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
        assert!(stream.next().await.is_some());
        for _ in 0..3 {
            world.clock.advance(Duration::from_secs(5));
            stream.send(report("api", [usage(&[("user", "ada")], 10, 0)])).await;
            let actions = stream.next().await.expect("an answer");
            let [action] = &actions[..] else { panic!("{actions:?}") };
            assert_whole_seconds(action);
        }
    }
}

#[tokio::test]
async fn a_bucket_without_a_request_for_three_reports_is_abandoned() {
    for world in worlds().await {
        let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
        assert!(stream.next().await.is_some());
        let abandon = "tidegate_rlqs_actions_total{action=\"abandon\"}";
        for _ in 0..3 {
            world.clock.advance(Duration::from_secs(5));
            assert_eq!(metric(&world.handle, abandon).await, 0);
            stream.send(report("api", [usage(&[("user", "ada")], 0, 0)])).await;
            assert!(stream.next().await.is_some());
        }
        assert_eq!(metric(&world.handle, abandon).await, 1);
        assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets{state=\"assigned\"}").await, 0);
    }
}

#[tokio::test]
async fn a_block_reaches_an_envoy_at_once() {
    for world in worlds().await {
        let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
        assert!(stream.next().await.is_some());
        let body = r#"{"namespace":"api","attributes":{"user":"ada"},"limit":"per-user","for_ms":60000}"#;
        assert_eq!(world.post("/v1/block", body).await.status, 200);
        let actions = stream.next().await.expect("an answer");
        assert!(format!("{actions:?}").contains("BlanketRule(DenyAll)"), "{actions:?}");
        assert_eq!(metric(&world.handle, "tidegate_rlqs_actions_total{action=\"deny\"}").await, 1);
    }
}

#[tokio::test]
async fn two_streams_of_one_name_share_the_limit_as_two_holders() {
    for world in worlds().await {
        let address = grpc_address(&world.handle);
        let mut burst = 0;
        for _ in 0..2 {
            let mut stream = EnvoyStream::open(address, &[("x-tidegate-envoy", "edge-1")]).await.unwrap();
            stream.send(first()).await;
            let actions = stream.next().await.expect("an answer");
            let text = format!("{actions:?}");
            let tokens = text.split("max_tokens: ").nth(1).and_then(|rest| rest.split(',').next());
            burst += tokens.map_or(0, |tokens| tokens.parse::<u64>().unwrap());
            std::mem::forget(stream);
        }
        assert!((1..=20).contains(&burst), "{burst} tokens of a burst of 20");
        assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 2);
    }
}

#[tokio::test]
async fn the_list_of_leases_shows_each_envoy_with_what_it_holds() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let mut stream = EnvoyStream::open(address, &[("x-tidegate-envoy", "edge-1")]).await.unwrap();
    stream.send(first()).await;
    assert!(stream.next().await.is_some());
    let leases = world.client().await.get("/v1/leases").await.json();
    let member = &leases["members"][0];
    assert_eq!(leases["is_alone"], json!(true), "{leases}");
    let envoy = &member["envoys"][0];
    assert_eq!(
        (&envoy["namespace"], &envoy["envoy"], &envoy["bucket"]),
        (&json!("api"), &json!("edge-1"), &json!({"user": "ada"}))
    );
    let rate = envoy["rate_per_s"].as_f64().unwrap();
    assert!((0.1..=20.0).contains(&rate), "{envoy}");
    let ends_in = envoy["ends_in_ms"].as_u64().unwrap();
    assert!(
        (10_000..=15_000).contains(&ends_in),
        "the time to live, and what its delivery may take: {envoy}"
    );
}

#[tokio::test]
async fn a_bucket_whose_limit_no_envoy_can_hold_gets_no_assignment_and_the_others_do() {
    let daily = fixed("daily", 1000, Duration::from_hours(24)).key(["account"]);
    let per_user = bucket("per-user", 20, 20).key(["user"]).consistency(Consistency::Leased);
    let world = World::leasing([NamespaceConfig::new("api", [per_user, daily])], config()).await;
    let both = [usage(&[("account", "shop")], 1, 0), usage(&[("user", "ada")], 1, 0)];
    let mut stream = EnvoyStream::begun(grpc_address(&world.handle), report("api", both)).await;
    let actions = stream.next().await.expect("an answer");
    let [action] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(bucket_of(action), [("user", "ada")]);
    assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets{state=\"not_held\"}").await, 1);
    assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets{state=\"assigned\"}").await, 1);
}

#[tokio::test]
async fn a_reload_brings_other_bounds() {
    let limits = "namespaces: { api: { limits: [{ name: per-user, key: [user], rate: 20/s }] } }\n";
    let policy = |buckets: u32| {
        format!(
            "listen: {{ grpc: \"127.0.0.1:0\" }}\nstore: {{ kind: memory }}\nrlqs: {{ buckets: {buckets}, ttl: 20s }}\n{limits}"
        )
    };
    let daemon = Guarded::start(TemporaryFolder::new(), "listen: { grpc: \"127.0.0.1:0\" }\n").await;
    daemon.replace(&policy(1));
    metric_becomes(&daemon.handle, "tidegate_policy_version", 2).await;
    let two = || report("api", ["ada", "bob"].map(|user| usage(&[("user", user)], 1, 0)));
    let mut stream = EnvoyStream::begun(grpc_address(&daemon.handle), two()).await;
    let actions = stream.next().await.expect("an answer");
    assert_eq!(actions.len(), 1, "{actions:?}");
    assert!(format!("{actions:?}").contains("assignment_time_to_live: Some(Duration { seconds: 20"));
    assert_eq!(metric(&daemon.handle, "tidegate_rlqs_buckets_ignored_total").await, 1);
    daemon.replace(&policy(2));
    // The first stream has made the namespace one that is lent, which counts as a change.
    metric_becomes(&daemon.handle, "tidegate_policy_reloads_total", 2).await;
    stream.send(two()).await;
    let mut told: Vec<String> = Vec::new();
    while !told.iter().any(|bucket| bucket == "bob") {
        let actions = stream.next().await.expect("an answer");
        told.extend(actions.iter().flat_map(bucket_of).map(|(_, value)| value.to_owned()));
    }
}
