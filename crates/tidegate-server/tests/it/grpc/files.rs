//! Files of envoyproxy/ratelimit behind the same listener. The tests of their reader check their
//! meaning; these tests check that the listener decides by them, and by new ones when they change.

use std::os::unix::fs::symlink;
use std::time::Duration;

use tidegate_policy::envoy::{Semantics, Settings};
use tidegate_policy::policy::envoy::EnvoyRatelimit;
use tidegate_server::{EnvoyFiles, ListenerRole};
use tidegate_test_support::{TemporaryFolder, eventually};
use tidegate_wire::envoy::{Code, RateLimitDescriptor, RateLimitUnit};

use super::{Envoy, app, back, config, header, lefts, request, under, user, weighing};
use crate::world::{World, api};

pub(super) const SHOP: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { name: per-user, unit: hour, requests_per_unit: 3 }
  - key: app
    rate_limit: { unlimited: true }
";

pub(super) async fn world(folder: &TemporaryFolder, settings: Settings) -> World {
    let path = folder.path().display().to_string();
    let mut config = config();
    config.listen(ListenerRole::Resp, "127.0.0.1:0".parse().unwrap());
    config.envoy_ratelimit = Some(EnvoyFiles::open(&EnvoyRatelimit { path, settings }).unwrap());
    World::with([api()], config).await
}

pub(super) fn folder() -> TemporaryFolder {
    let folder = TemporaryFolder::new();
    std::fs::write(folder.path().join("shop.yaml"), SHOP).unwrap();
    folder
}

async fn left(envoy: &mut Envoy, descriptors: &[RateLimitDescriptor]) -> Vec<(bool, u32)> {
    lefts(&envoy.call(request("shop", descriptors)).await.unwrap())
}

#[tokio::test]
async fn a_domain_of_the_files_is_decided_by_them_and_a_namespace_by_the_policy() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let mut envoy = Envoy::of(&world).await;
    let answer = envoy.call(request("shop", &[user("ada"), app("x")])).await.unwrap();
    assert_eq!(lefts(&answer), [(false, 2), (false, u32::MAX)]);
    let status = &answer.statuses[0];
    let limit = status.current_limit.clone().unwrap();
    assert_eq!(
        (limit.name.as_str(), limit.requests_per_unit, limit.unit().as_str_name()),
        ("per-user", 3, "HOUR")
    );
    assert_eq!(status.duration_until_reset.unwrap().seconds, 3600);
    assert!(answer.response_headers_to_add.is_empty(), "unless they are asked for");
    assert_eq!(
        envoy.left(&[user("ada")]).await,
        [(false, 2)],
        "of the namespace, which has its own counters"
    );
    let unknown =
        envoy.call(request("elsewhere", &[under(0, RateLimitUnit::Hour, user("ada"))])).await.unwrap();
    assert_eq!(unknown.overall_code(), Code::Ok);
}

#[tokio::test]
async fn refused_hits_count_as_the_peer_counts_them_unless_told_otherwise() {
    let folder = folder();
    let strict = world(&folder, Settings::default()).await;
    let mut envoy = Envoy::of(&strict).await;
    assert_eq!(left(&mut envoy, &[weighing(5, user("ada"))]).await, [(true, 0)]);
    assert_eq!(left(&mut envoy, &[user("ada")]).await, [(true, 0)]);
    assert_eq!(left(&mut envoy, &[back(weighing(4, user("ada")))]).await, [(false, 1)]);
    assert_eq!(left(&mut envoy, &[weighing(0, user("ada"))]).await, [(false, 1)]);
    let mut settings = Settings::default();
    settings.semantics = Semantics::Tidegate;
    settings.headers.enabled = true;
    let ours = world(&folder, settings).await;
    let mut envoy = Envoy::of(&ours).await;
    assert_eq!(left(&mut envoy, &[weighing(5, user("ada"))]).await, [(true, 0)]);
    let answer = envoy.call(request("shop", &[user("ada")])).await.unwrap();
    assert_eq!(lefts(&answer), [(false, 2)]);
    assert_eq!(header(&answer, "RateLimit-Remaining"), Some("2"));
}

#[tokio::test]
async fn hits_are_counted_by_rule_and_by_what_became_of_them() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let mut envoy = Envoy::of(&world).await;
    for _ in 0..4 {
        left(&mut envoy, &[user("ada")]).await;
    }
    left(&mut envoy, &[back(user("ada"))]).await;
    envoy.call(request("elsewhere", &[user("ada")])).await.unwrap();
    let page = world.client().await.get("/metrics").await.body;
    for line in [
        r#"tidegate_envoy_hits_total{rule="shop.user",kind="total"} 4"#,
        r#"tidegate_envoy_hits_total{rule="shop.user",kind="over_limit"} 1"#,
        r#"tidegate_envoy_hits_total{rule="shop.user",kind="within_limit"} 3"#,
        r#"tidegate_envoy_hits_total{rule="shop.user",kind="given_back"} 1"#,
        r#"tidegate_envoy_hits_total{rule="",kind="domain_not_found"} 1"#,
        r#"tidegate_grpc_calls_total{service="rate_limit",code="OK"} 6"#,
    ] {
        assert!(page.lines().any(|one| one == line), "{line}: {page}");
    }
}

#[tokio::test]
async fn a_key_of_any_length_is_counted_by_the_files() {
    let folder = folder();
    let world = world(&folder, Settings::default()).await;
    let mut envoy = Envoy::of(&world).await;
    let long = "u".repeat(60 << 10);
    for (is_over, remaining) in [(false, 2), (false, 1), (false, 0), (true, 0)] {
        assert_eq!(left(&mut envoy, &[user(&long)]).await, [(is_over, remaining)]);
    }
    assert_eq!(left(&mut envoy, &[user(&long[1..])]).await, [(false, 2)]);
}

#[tokio::test(start_paused = true)]
async fn files_behind_a_link_that_is_swapped_are_taken_up_and_broken_ones_are_not() {
    let folder = TemporaryFolder::new();
    // As a ConfigMap is mounted: shop.yaml -> ..data/shop.yaml, ..data -> a folder that is swapped.
    let three = SHOP.replace("requests_per_unit: 3", "requests_per_unit: 30");
    for (version, text) in [("..v1", SHOP), ("..v2", "domain: [broken"), ("..v3", &three)] {
        std::fs::create_dir(folder.path().join(version)).unwrap();
        std::fs::write(folder.path().join(version).join("shop.yaml"), text).unwrap();
    }
    let swap = |to: &str| {
        symlink(to, folder.path().join("..new")).unwrap();
        std::fs::rename(folder.path().join("..new"), folder.path().join("..data")).unwrap();
    };
    swap("..v1");
    symlink("..data/shop.yaml", folder.path().join("shop.yaml")).unwrap();
    let world = world(&folder, Settings::default()).await;
    let mut envoy = Envoy::of(&world).await;
    assert_eq!(left(&mut envoy, &[user("ada")]).await, [(false, 2)]);
    swap("..v2");
    // Sleeps: on tokio's paused clock, no real time passes.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(left(&mut envoy, &[user("ada")]).await, [(false, 1)], "the files in force stay");
    swap("..v3");
    // Files are read on a thread of their own, which no paused clock waits for.
    eventually("the new file is taken up", async || {
        // Sleeps: on tokio's paused clock, no real time passes.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let limit =
            envoy.call(request("shop", &[weighing(0, user("ada"))])).await.unwrap().statuses[0].clone();
        let is_new = limit.current_limit.unwrap().requests_per_unit == 30;
        assert!(!is_new || limit.limit_remaining == 28, "what was used stays used");
        is_new
    })
    .await;
}
