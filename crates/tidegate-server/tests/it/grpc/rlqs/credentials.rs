//! The callers that may have a stream, and for how long.

use tidegate_test_support::TemporaryFolder;
use tonic::Code;

use super::{EnvoyStream, ended, first, grpc_address, metric, metric_becomes, report, usage, world};
use crate::authorization::{CHECKOUT, Guarded, OPS};

const LISTEN: &str = "listen: { grpc: \"127.0.0.1:0\" }\n";

fn grants(checkout: &str) -> String {
    format!(
        "{LISTEN}authorization:
  - {{ name: checkout, {checkout}, namespaces: [api], verbs: [check] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect, change, reset] }}
"
    )
}

async fn guarded() -> Guarded {
    let folder = TemporaryFolder::new();
    std::fs::write(folder.path().join("checkout"), CHECKOUT).unwrap();
    Guarded::start(folder, &grants("token_file: FOLDER/checkout")).await
}

#[tokio::test]
async fn a_caller_needs_the_verb_check_in_the_namespace_of_the_domain() {
    let daemon = guarded().await;
    let address = grpc_address(&daemon.handle);
    for metadata in [&[][..], &[("authorization", "Bearer checkout-token-012345678")]] {
        let Err(refused) = EnvoyStream::open(address, metadata).await else { panic!("{metadata:?}") };
        assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    }
    let checkout = format!("Bearer {CHECKOUT}");
    let mut other = EnvoyStream::open(address, &[("authorization", &checkout)]).await.unwrap();
    other.send(report("web", [usage(&[("user", "ada")], 1, 0)])).await;
    let end = other.end().await;
    assert_eq!(
        (end.code(), end.message()),
        (
            Code::PermissionDenied,
            "checkout may not check in namespace \"web\"; see `authorization` of the policy"
        )
    );
    let mut operator = EnvoyStream::open(address, &[("tidegate-token", OPS)]).await.unwrap();
    operator.send(first()).await;
    assert_eq!(operator.end().await.code(), Code::PermissionDenied);
    // Others may not learn which namespaces there are.
    let mut unknown = EnvoyStream::open(address, &[("tidegate-token", CHECKOUT)]).await.unwrap();
    unknown.send(report("nowhere", [])).await;
    assert_eq!(unknown.end().await.code(), Code::PermissionDenied);
    let good = EnvoyStream::open(address, &[("tidegate-token", CHECKOUT)]).await.unwrap();
    good.send(first()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_streams", 1).await;
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_the_stream_at_once_and_says_what_becomes_of_assignments() {
    let daemon = guarded().await;
    let address = grpc_address(&daemon.handle);
    let mut stream = EnvoyStream::open(address, &[("tidegate-token", CHECKOUT)]).await.unwrap();
    stream.send(first()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", 1).await;
    // A reload that leaves the grant as it is.
    daemon.reload(&format!("{}log: {{ refusals: off }}\n", grants("token_file: FOLDER/checkout")));
    metric_becomes(&daemon.handle, "tidegate_policy_version", 2).await;
    stream.send(first()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", 2).await;
    daemon.reload(&grants("token: another-token-0123456789"));
    let end = stream.end().await;
    assert_eq!(end.code(), Code::Unauthenticated, "{end}");
    let said = "the token is not one of the policy's; the assignments of this stream end by themselves; ";
    assert!(end.message().starts_with(said), "{end}");
    assert_eq!(metric(&daemon.handle, &ended("refused")).await, 1);
}

#[tokio::test]
async fn a_token_that_is_taken_out_of_its_file_is_seen_with_the_next_report() {
    let folder = TemporaryFolder::new();
    let path = folder.path().join("checkout");
    std::fs::write(&path, CHECKOUT).unwrap();
    let daemon = Guarded::start(folder, &grants("token_file: FOLDER/checkout")).await;
    let address = grpc_address(&daemon.handle);
    let mut stream = EnvoyStream::open(address, &[("tidegate-token", CHECKOUT)]).await.unwrap();
    stream.send(first()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", 1).await;
    std::fs::write(&path, "another-token-0123456789").unwrap();
    daemon.handle.look_at_files();
    stream.send(first()).await;
    assert_eq!(stream.end().await.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_namespace_that_a_reload_takes_away_ends_its_streams() {
    let daemon = Guarded::start(TemporaryFolder::new(), LISTEN).await;
    let mut stream = EnvoyStream::begun(grpc_address(&daemon.handle), first()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", 1).await;
    daemon.replace(&format!("{LISTEN}namespaces: {{ web: {{ limits: [{{ name: all, rate: 1/s }}] }} }}\n"));
    let end = stream.end().await;
    assert_eq!(end.code(), Code::NotFound, "{end}");
    assert!(end.message().contains("namespace \"api\" does not exist"), "{end}");
}

#[tokio::test]
async fn an_envoy_names_itself_in_visible_characters() {
    let world = world().await;
    let address = grpc_address(&world.handle);
    let long = "x".repeat(129);
    for name in ["", "two words", &long] {
        let Err(refused) = EnvoyStream::open(address, &[("x-tidegate-envoy", name)]).await else {
            panic!("{name:?}")
        };
        assert_eq!(refused.code(), Code::InvalidArgument, "{name:?}");
        assert!(refused.message().contains("x-tidegate-envoy is no name; send 1 to 128"), "{refused}");
    }
    // Two streams of one name are two Envoys.
    for count in 1..=2 {
        let stream = EnvoyStream::open(address, &[("x-tidegate-envoy", "edge-1")]).await.unwrap();
        stream.send(first()).await;
        metric_becomes(&world.handle, "tidegate_rlqs_reports_total", count).await;
        std::mem::forget(stream);
    }
    assert_eq!(metric(&world.handle, "tidegate_rlqs_streams").await, 2);
}

/// Issue 48: an Envoy chooses its name, so a name is no owner of buckets.
#[tokio::test]
async fn a_grant_under_many_names_leaves_another_grant_its_part_of_the_buckets() {
    const MODEST: &str = "modest-token-0123456789";
    let grants = format!(
        "{LISTEN}authorization:
  - {{ name: greedy, token: {CHECKOUT}, namespaces: [api], verbs: [check] }}
  - {{ name: modest, token: {MODEST}, namespaces: [api], verbs: [check] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect] }}
"
    );
    let daemon = Guarded::start(TemporaryFolder::new(), &grants).await;
    let address = grpc_address(&daemon.handle);
    let users: Vec<String> = (0..1000).map(|user| user.to_string()).collect();
    let buckets = || report("api", users.iter().map(|user| usage(&[("user", user)], 1, 0)));
    let ignored = "tidegate_rlqs_buckets_ignored_total";
    let mut streams = Vec::new();
    for edge in 0..12 {
        let name = format!("edge-{edge}");
        let metadata = [("tidegate-token", CHECKOUT), ("x-tidegate-envoy", name.as_str())];
        let stream = EnvoyStream::open(address, &metadata).await.unwrap();
        stream.send(buckets()).await;
        metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", edge + 1).await;
        streams.push(stream);
    }
    let greedy = 12_000 - metric(&daemon.handle, ignored).await;
    assert!((7_400..=7_500).contains(&greedy), "{greedy}");
    let modest = EnvoyStream::open(address, &[("tidegate-token", MODEST)]).await.unwrap();
    modest.send(buckets()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", 13).await;
    assert_eq!(12_000 - metric(&daemon.handle, ignored).await, greedy, "all of its buckets are taken");
}
