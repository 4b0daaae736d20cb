//! The reports of Envoys in the views of usage.

use serde_json::{Value, json};
use tidegate_wire::envoy::rlqs::BucketQuotaUsage;

use super::{EnvoyStream, metric_becomes, report, usage};
use crate::claims::Daemon;

const POLICY: &str = r#"
features: [search]
namespaces:
  shop:
    limits: [{ name: per-account, key: [account], rate: 20/s, burst: 20 }]
    request:
      tenant: entry.account
      feature: entry.part
      class: { from: entry.class }
  web: { limits: [] }
proxy:
  upstreams: { app: ["http://SERVER"] }
  routes: [{ upstream: app, namespace: web }]
"#;

/// The columns of what Envoys decided, and requests that were offered.
fn columns(row: &Value) -> [u64; 3] {
    ["reported_admitted", "reported_denied", "offered"].map(|name| row["total"][name].as_u64().unwrap())
}

fn row<'a>(rows: &'a Value, key: &str, name: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row[key] == name).unwrap()
}

#[tokio::test]
async fn what_an_envoy_decided_is_in_the_rows_of_its_buckets_and_marked_as_reported() {
    let daemon = Daemon::with(|server| POLICY.replace("SERVER", &server.to_string())).await;
    let search = &[("account", "ada"), ("part", "search"), ("class", "critical")];
    // No limit is for it, and it counts; a class that there is not is no error.
    let odd = &[("colour", "red"), ("class", "purple")];
    let usages: Vec<BucketQuotaUsage> = vec![
        usage(&[("account", "ada")], 3, 4),
        usage(search, 10, 20),
        usage(&[("account", "bob")], u64::MAX, 0),
        usage(&[("account", "bob")], u64::MAX, 1),
        usage(&[("account", "idle")], 0, 0),
        usage(odd, 1, 1),
    ];
    let stream = EnvoyStream::begun(daemon.grpc(), report("shop", usages)).await;
    stream.send(report("shop", [usage(&[("account", "ada")], 100, 0)])).await;
    metric_becomes(&daemon.handle, "tidegate_rlqs_reports_total", 2).await;
    drop(stream);
    metric_becomes(&daemon.handle, "tidegate_rlqs_streams", 0).await;

    let shop = daemon.usage("/shop").await;
    assert_eq!(columns(row(&shop["tenants"], "name", "ada")), [113, 24, 0]);
    let bob = row(&shop["tenants"], "name", "bob");
    assert_eq!((columns(bob), &bob["total"]["saturated"]), ([u64::MAX, 1, 0], &json!(true)));
    assert_eq!((&shop["tracked"], columns(&shop["no_tenant"])), (&json!(2), [1, 1, 0]));
    let ada = daemon.usage("/shop/ada").await;
    assert!(ada["tenant"]["total"].get("saturated").is_none(), "{ada}");
    assert_eq!(row(&ada["tenant"]["classes"], "class", "critical")["usage"]["reported_denied"], 20);
    assert_eq!(columns(&daemon.usage("/web").await["namespace"]), [0, 0, 0]);
    let all = daemon.usage("?by=reported_denied").await;
    assert_eq!(all["namespaces"][0]["name"], "shop");
    assert_eq!(columns(row(&all["features"], "name", "search")), [10, 20, 0]);
    for (series, value) in [
        (
            r#"tidegate_usage_reported_requests_total{namespace="shop",class="critical",outcome="denied"}"#,
            "20",
        ),
        (
            r#"tidegate_feature_reported_requests_total{feature="search",class="critical",outcome="admitted"}"#,
            "10",
        ),
    ] {
        assert_eq!(daemon.series(series).await, value, "{series}");
    }
}
