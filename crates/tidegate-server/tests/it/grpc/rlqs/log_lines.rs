//! The log lines about streams and limits.

use serde_json::{Value, json};
use tidegate_test_support::TemporaryFolder;

use super::{EnvoyStream, ended, first, grpc_address, metric, metric_becomes, report, usage, world};
use crate::authorization::{CHECKOUT, Guarded, OPS};
use crate::claims::Daemon;
use crate::proxy::log::listen;

fn fields(lines: &[Value], names: [&str; 4]) -> Vec<[Value; 4]> {
    lines.iter().map(|line| names.map(|name| line["fields"][name].clone())).collect()
}

const LINE: [&str; 4] = ["status", "namespace", "envoy", "peer"];

#[tokio::test]
async fn a_stream_that_is_refused_has_a_line_for_each_cause_with_what_to_do() {
    let (log, _guard) = listen("tidegate::rlqs=warn");
    let folder = TemporaryFolder::new();
    let grant = format!(
        "listen: {{ grpc: \"127.0.0.1:0\" }}
authorization:
  - {{ name: checkout, token: {CHECKOUT}, namespaces: ['*'], verbs: [check] }}
  - {{ name: operators, token: {OPS}, namespaces: ['*'], verbs: [inspect] }}
"
    );
    let daemon = Guarded::start(folder, &grant).await;
    let address = grpc_address(&daemon.handle);
    let token = ("tidegate-token", CHECKOUT);
    for _ in 0..3 {
        assert!(EnvoyStream::open(address, &[]).await.is_err());
        assert!(EnvoyStream::open(address, &[token, ("x-tidegate-envoy", "two words")]).await.is_err());
        for domain in ["apj", "apk"] {
            let mut unknown =
                EnvoyStream::open(address, &[token, ("x-tidegate-envoy", "edge-1")]).await.unwrap();
            unknown.send(report(domain, [usage(&[("user", "ada")], 1, 0)])).await;
            assert!(!unknown.end().await.message().is_empty());
        }
        let mut many = EnvoyStream::open(address, &[token]).await.unwrap();
        for _ in 0..1_300 {
            many.send(first()).await;
        }
        assert!(many.end().await.message().starts_with("too many reports"));
    }
    let mut lines = log.lines();
    // The namespace of these tests has no limit that an Envoy can hold, which is a line of its own.
    lines.retain(|line| !line["fields"]["cause"].is_null());
    let peer = json!("127.0.0.1");
    assert_eq!(
        fields(&lines, LINE),
        [
            [json!("Unauthenticated"), Value::Null, Value::Null, peer.clone()],
            [json!("InvalidArgument"), Value::Null, Value::Null, peer.clone()],
            [json!("NotFound"), Value::Null, json!("edge-1"), peer.clone()],
            [json!("ResourceExhausted"), json!("api"), peer.clone(), peer.clone()],
        ],
        "{lines:?}"
    );
    let whys: Vec<&str> = lines.iter().map(|line| line["fields"]["why"].as_str().unwrap()).collect();
    for (why, fix) in
        whys.iter().zip(["Bearer TOKEN", "send 1 to 128", "see GET /v1/limits", "in one message"])
    {
        assert!(why.contains(fix), "{why}");
    }
    assert_eq!(lines[3]["fields"]["cause"], "too_many_reports");
    assert_eq!(metric(&daemon.handle, &ended("too_many_reports")).await, 3);
}

#[tokio::test]
async fn a_stream_that_its_envoy_ends_has_no_line() {
    let (log, _guard) = listen("tidegate::rlqs=warn");
    let world = world().await;
    let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    stream.close();
    stream.end().await;
    let gone = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    metric_becomes(&world.handle, "tidegate_rlqs_reports_total", 2).await;
    drop(gone);
    metric_becomes(&world.handle, "tidegate_rlqs_streams", 0).await;
    assert!(log.lines().is_empty(), "{:?}", log.lines());
}

/// The first report lends the limits of its namespace, and was held against those before.
#[tokio::test]
async fn a_limit_that_the_first_report_lends_is_not_said_to_be_decided_elsewhere() {
    let (log, _guard) = listen("tidegate::rlqs=warn");
    let world = world().await;
    let mut stream = EnvoyStream::begun(grpc_address(&world.handle), first()).await;
    assert!(stream.next().await.is_some());
    assert!(log.lines().is_empty(), "{:?}", log.lines());
    assert_eq!(metric(&world.handle, "tidegate_rlqs_buckets{state=\"not_held\"}").await, 0);
}

#[tokio::test]
async fn the_policy_bounds_how_many_buckets_hold_a_part_of_a_key() {
    let (log, _guard) = listen("tidegate::rlqs=warn");
    let policy = "rlqs: { holders: 1 }
namespaces: { shop: { limits: [{ name: per-user, key: [user], rate: 20/s, burst: 20 }] } }
proxy: { upstreams: { app: [\"http://SERVER\"] }, routes: [{ upstream: app, namespace: shop }] }
";
    let daemon = Daemon::with(|server| policy.replace("SERVER", &server.to_string())).await;
    let ada = || report("shop", [usage(&[("user", "ada")], 1, 0)]);
    let mut one = EnvoyStream::begun(daemon.grpc(), ada()).await;
    assert!(one.next().await.is_some());
    let _two = EnvoyStream::begun(daemon.grpc(), ada()).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_buckets{state=\"not_held\"}", 1).await;
    assert_eq!(metric(&daemon.handle, "tidegate_rlqs_buckets{state=\"assigned\"}").await, 1);
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["fields"]["limit"], "per-user");
    let why = lines[0]["fields"]["why"].as_str().unwrap();
    assert!(why.starts_with("its key has 1 of 1 holders at this daemon; raise `rlqs.holders`"));
}
