//! The table of metrics in the documents and the pages of real daemons: names, types and
//! labels, both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_server::{Handle, ManualClock, from_policy};
use tidegate_test_support::TemporaryFolder;
use tidegate_wire::envoy::{RateLimitRequest, RateLimitResponse, SHOULD_RATE_LIMIT};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use crate::client::Client;
use crate::grpc::rlqs::{EnvoyStream, first, metric_becomes};
use crate::world::START;

const METRICS: &str = include_str!("../../../../docs/metrics.md");

/// The type of a metric, and its labels beside `le`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    /// Whether the page has a value of it.
    has_series: bool,
}

type Families = BTreeMap<String, Family>;

/// The rows of the table. A row says of each metric that it has series.
fn documented() -> Families {
    let rows =
        METRICS.lines().filter(|line| line.starts_with("| `tidegate_") || line.starts_with("| `process_"));
    let family = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, _] = cells[..] else { panic!("a row of four cells: {row}") };
        let labels = labels.split(", ").map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        (name.trim_matches('`').to_owned(), Family { kind: kind.to_owned(), labels, has_series: true })
    };
    rows.map(family).collect()
}

/// Adds the families of a page.
fn add(page: &str, families: &mut Families) {
    let mut name = String::new();
    for line in page.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            let (family, kind) = described.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            name = format!("{family}{suffix}");
            kind.clone_into(&mut families.entry(name.clone()).or_default().kind);
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with(&name), "{series} stands below {name}");
            let family = families.get_mut(&name).unwrap();
            family.has_series = true;
            let labels = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
            let labels = labels
                .split("\",")
                .filter_map(|label| label.split_once('='))
                .map(|(label, _)| label.to_owned());
            family.labels.extend(labels.filter(|label| label != "le"));
        }
    }
}

async fn start(policy: &str) -> Handle {
    let parsed = tidegate_policy::parse("policy.yaml", policy, &|_| None).unwrap().policy;
    let mut config = from_policy::server_config(&parsed).unwrap();
    config.bounds.drain_grace = Duration::ZERO;
    let clock = Arc::new(ManualClock::new(START));
    from_policy::serve_on(&parsed, policy.as_bytes(), config, clock).await.unwrap()
}

async fn page(handle: &Handle) -> String {
    Client::connect(handle.http().unwrap().tcp().unwrap()).await.get("/metrics").await.body
}

/// A server that answers every request with the beginning of an answer.
async fn broken_upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
        }
    });
    address
}

async fn ask_over_grpc(address: SocketAddr) {
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let request = RateLimitRequest { domain: "api".to_owned(), ..RateLimitRequest::default() };
    let path = PathAndQuery::from_static(SHOULD_RATE_LIMIT);
    // Every answer counts as a call, an error too.
    let _ = grpc.unary(tonic::Request::new(request), path, codec).await;
}

async fn exchange(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    // The answer may break off.
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
}

/// Adds the page of a daemon with every part but a shared store, after some traffic.
async fn with_every_part(families: &mut Families) {
    let folder = TemporaryFolder::new();
    let path = folder.path().display();
    std::fs::create_dir(folder.path().join("files")).unwrap();
    let domain =
        "domain: mail\ndescriptors: [{ key: kind, rate_limit: { unit: second, requests_per_unit: 5 } }]\n";
    std::fs::write(folder.path().join("files/mail.yaml"), domain).unwrap();
    let upstream = broken_upstream().await;
    let handle = start(&format!(
        "listen: {{ http: 127.0.0.1:0, grpc: 127.0.0.1:0, resp: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
store: {{ kind: embedded, path: \"{path}/store\" }}
log: {{ decisions: {{ path: \"{path}/decisions.log\" }} }}
envoy_ratelimit: {{ path: \"{path}/files\" }}
features: [search, {{ name: thumbnails, resource: app, levels: [{{ name: full, cost: 1 }}, {{ name: off, cost: 0 }}] }}]
namespaces:
  api:
    limits: [{{ name: all, rate: 1/m, burst: 1 }}, {{ name: tried, rate: 1/m, mode: shadow }}]
    tables: [{{ name: orders, partition_by: hash, provisioned: {{ read: 4, write: 4 }}, mode: static, partitions: {{ min: 1 }} }}]
resources: {{ app: {{ concurrency: 8, queue: {{ wait: {{ critical: 1s }} }} }}, deferring: {{ concurrency: 1, defer: {{ classes: [sheddable] }} }}, rehearsed: {{ concurrency: 1, mode: shadow }} }}
proxy:
  upstreams: {{ app: {{ servers: [\"http://{upstream}\"] }} }}
  routes:
    - {{ name: events, match: {{ path: /events }}, upstream: app, namespace: api, hold: first_byte }}
    - {{ name: all, upstream: app, cost: {{ from_response: header.x-cost }} }}
"
    ))
    .await;
    let mut client = Client::connect(handle.http().unwrap().tcp().unwrap()).await;
    for body in [r#"{"namespace":"api"}"#, r#"{"namespace":"api"}"#, "{"] {
        client.post("/v1/check", body).await;
    }
    client
        .post("/json", r#"{"domain":"mail","descriptors":[{"entries":[{"key":"kind","value":"a"}]}]}"#)
        .await;
    ask_over_grpc(handle.grpc().unwrap().tcp().unwrap()).await;
    let envoy = EnvoyStream::begun(handle.grpc().unwrap().tcp().unwrap(), first()).await;
    metric_becomes(&handle, "tidegate_rlqs_reports_total", 1).await;
    drop(envoy);
    metric_becomes(&handle, "tidegate_rlqs_streams", 0).await;
    exchange(handle.resp().unwrap().tcp().unwrap(), b"PING\r\nQUIT\r\n").await;
    let proxy = handle.proxy().unwrap().tcp().unwrap();
    exchange(proxy, b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    add(&page(&handle).await, families);
    handle.shutdown().await;
}

/// Adds the page of a daemon whose shared store and upstream do not answer.
async fn with_unreachable_peers(families: &mut Families) {
    // A port that was free a moment ago: nothing answers there.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let handle = start(&format!(
        "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}
store: {{ kind: redis, urls: [\"redis://{nobody}\"] }}
namespaces: {{ api: {{ limits: [{{ name: all, rate: 1/m }}] }} }}
proxy:
  upstreams: {{ app: {{ servers: [\"http://{nobody}\"] }} }}
  routes: [{{ name: all, upstream: app }}]
"
    ))
    .await;
    let proxy = handle.proxy().unwrap().tcp().unwrap();
    exchange(proxy, b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    add(&page(&handle).await, families);
    handle.shutdown().await;
}

#[tokio::test]
async fn the_table_of_metrics_has_every_name_type_and_label_of_the_page_and_no_others() {
    let mut shown = Families::new();
    with_every_part(&mut shown).await;
    with_unreachable_peers(&mut shown).await;
    let mut documented = documented();
    if !cfg!(target_os = "linux") {
        documented.retain(|name, _| !name.starts_with("process_"));
    }
    let names = |families: &Families| families.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&shown), names(&documented));
    for (name, family) in &documented {
        assert_eq!(&shown[name], family, "{name}");
    }
}

#[tokio::test]
async fn the_first_key_is_counted_at_once() {
    let handle = start(
        "listen: { http: 127.0.0.1:0 }
store: { kind: memory }
memory: { keys: 256MiB }
namespaces: { api: { limits: [{ name: per-user, key: [user], rate: 1/m }] } }
",
    )
    .await;
    let mut client = Client::connect(handle.http().unwrap().tcp().unwrap()).await;
    for (user, keys) in [("ada", 1), ("bob", 2), ("bob", 2)] {
        client.post("/v1/check", &format!(r#"{{"namespace":"api","attributes":{{"user":"{user}"}}}}"#)).await;
        let page = page(&handle).await;
        assert!(page.contains(&format!("\ntidegate_table_keys {keys}\n")), "{page}");
    }
    handle.shutdown().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn the_page_has_the_metrics_of_the_process() {
    let handle = start("listen: { http: 127.0.0.1:0 }\nstore: { kind: memory }\n").await;
    let page = page(&handle).await;
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing: {page}")).parse().unwrap()
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - 86_400.0..now + 5.0).contains(&value("process_start_time_seconds")), "{page}");
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_open_fds") >= 5.0 && value("process_threads") >= 1.0);
    handle.shutdown().await;
}
