//! The metrics page: every name in one table, every label from a bounded set.
//!
//! Labels are names from the policy, reasons, routes and status codes. Nothing a caller sends
//! becomes a label; `/v1/keys/top` lists the keys that are refused most.

mod limits;
mod planes;

use core::fmt;
use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tidegate_engine::LeaseTotals;
use tidegate_store_redb::RedbStore;
use tidegate_store_redis::{Circuit, RedisStats};
use tidegate_wire::FaultCode;

use crate::changes::Changes;
use crate::connections::Connections;
use crate::decisions::Decisions;
use crate::endpoint::Endpoint;
use crate::grpc::GrpcMetrics;
use crate::histogram::Histogram;
use crate::in_force::InForce;
use crate::members::Members;
use crate::process_metrics;
use crate::proxy::rejection::RejectionCode;
use crate::proxy::{ProxyMetrics, ProxyState, Upstream};
use crate::resp::RespMetrics;
use crate::shared_store::SharedStore;
use tidegate_clock::Clock;

pub(crate) use self::limits::{LimitFamilies, LimitSeries, NamespaceTable, OVERRIDE, tightest};

/// The media type of the page.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every metric: its name on the page, and its help text. The page ends counters with `_total`.
pub const TABLE: [(&str, &str); 82] = [
    (
        "tidegate_decisions",
        "Decisions by namespace, limit (the one that binds longest, or has the least left), decision, reason and protocol",
    ),
    ("tidegate_near_limit", "Admitted requests after which a limit had less than a fifth left"),
    ("tidegate_shadow_refusals", "Requests that a shadow limit would have refused"),
    ("tidegate_decision_duration_seconds", "Time from reading a request to having decided it"),
    ("tidegate_table_bytes", "Budget of keyed state"),
    ("tidegate_table_slots", "Places in the table of keyed state"),
    ("tidegate_table_keys", "Places in use: exact for the first 4096, otherwise estimated from a sample"),
    ("tidegate_table_ring_bytes", "Bytes in use by rolling windows and permits"),
    ("tidegate_table_full_refusals", "Requests refused because there was no room for a new key"),
    ("tidegate_table_full_admissions", "Requests admitted uncounted because there was no room for a new key"),
    ("tidegate_permits_kept", "Permits waiting to be settled or released"),
    ("tidegate_permits_kept_max", "Permits that may wait at a time"),
    ("tidegate_permits_expired", "Permits that expired before they were settled"),
    ("tidegate_http_requests", "Requests by route and status"),
    ("tidegate_faults", "Requests rejected before a decision, by fault"),
    ("tidegate_connections", "Open connections"),
    ("tidegate_listener_connections", "Open connections by listener"),
    ("tidegate_connections_accepted", "Connections accepted"),
    ("tidegate_connections_evicted", "Idle connections closed because their listener was full"),
    ("tidegate_connections_timed_out", "Connections closed for being idle or slow"),
    (
        "tidegate_accept_pauses",
        "Times a listener stopped accepting because it had reached its connection limit",
    ),
    (
        "tidegate_buffered_bytes",
        "Bytes held for slow peers: unfinished bodies, half commands, replies that are not read",
    ),
    ("tidegate_buffer_refusals", "Times a slow peer was refused room for more bytes"),
    ("tidegate_store_failures", "Calls to the store that failed or took too long"),
    ("tidegate_refusal_lines_suppressed", "Refusals that got no line in the log"),
    ("tidegate_clock_steps", "Steps of the wall clock by more than a minute, which decisions do not follow"),
    (
        "tidegate_policy_version",
        "Number of the policy in force: 1 at the start, one more for each reload that took effect",
    ),
    ("tidegate_policy_age_seconds", "Time since the policy in force took effect"),
    ("tidegate_policy_reloads", "Policy reloads that took effect"),
    ("tidegate_policy_reload_failures", "Policy reloads that failed because the policy has errors"),
    (
        "tidegate_policy_last_reload_successful",
        "1 unless the last reload of the policy, or of the files of envoy_ratelimit, failed",
    ),
    ("tidegate_overrides", "Numbers of single keys set while running"),
    ("tidegate_store_calls", "Script calls to the shared store"),
    ("tidegate_store_call_failures", "Script calls that were not answered in time or at all"),
    ("tidegate_store_batches_rejected", "Batches that were not sent to the shared store, by cause"),
    ("tidegate_store_undone", "Batches undone after their requests were refused because the store was late"),
    ("tidegate_store_undo_failed", "Batches whose charges could not be undone; they drain by themselves"),
    ("tidegate_store_losses", "Times the shared store was found to have lost its data"),
    (
        "tidegate_store_disagreements",
        "Decisions of the script that were not those of the pure code: a defect",
    ),
    ("tidegate_members", "Members that share the store, as far as is known"),
    ("tidegate_members_gone", "Members that were gone without having left"),
    (
        "tidegate_members_gone_tokens",
        "Tokens of windows granted to members that are gone or silent, of the keys with a lease at this member",
    ),
    ("tidegate_leases", "Keys with a lease at this member"),
    ("tidegate_lease_asks", "Asks for leases that this member has sent to the store"),
    ("tidegate_lease_asks_unanswered", "Asks for leases that the store did not answer"),
    ("tidegate_store_waiting", "Operations waiting to be sent to the shared store"),
    (
        "tidegate_store_circuit_open",
        "1 while the circuit breaker rejects batches because the shared store does not answer",
    ),
    ("tidegate_store_newer_protocol", "1 while the shared store is used by a newer lease protocol"),
    ("tidegate_store_loss", "1 while a loss of the shared store's data is not acknowledged"),
    ("tidegate_store_commits", "Transactions that the store in files has written"),
    (
        "tidegate_store_batches",
        "Batches in calls to the shared store, or in transactions of the store in files",
    ),
    ("tidegate_store_commit_seconds", "Total time of the transactions of the store in files"),
    ("tidegate_store_commit_failures", "Transactions of the store in files that failed"),
    ("tidegate_store_unsaved", "Counters and notes that are not on disk yet"),
    ("tidegate_store_disk_bytes", "Size of the store in files"),
    (
        "tidegate_store_disk_used_bytes",
        "Bytes that counters take in the store in files, as `store.disk` counts them",
    ),
    ("tidegate_store_disk_max_bytes", "Bytes that counters may take in the store in files: `store.disk`"),
    ("tidegate_store_full", "Charges that found no room in the store in files"),
    ("tidegate_decision_lines", "Lines written to the decision log"),
    (
        "tidegate_decision_lines_dropped",
        "Decisions without a line because the queue of the decision log was full",
    ),
    ("tidegate_decision_log_errors", "Failures to write the decision log"),
    ("tidegate_grpc_calls", "Calls over gRPC by service and status code"),
    ("tidegate_envoy_hits", "Hits under the rules of envoyproxy/ratelimit's files, by rule and result"),
    ("tidegate_resp_commands", "Commands of Redis clients by name and whether the answer was an error"),
    ("tidegate_proxy_requests", "Proxied requests by route and status; no route where none takes them"),
    ("tidegate_proxy_endings", "Answers of upstreams that did not reach their end, by route and reason"),
    ("tidegate_proxy_upstream_failures", "Requests that a server of an upstream failed, by kind of failure"),
    ("tidegate_proxy_upstream_duration_seconds", "Time from sending a request on to the head of its answer"),
    ("tidegate_proxy_in_flight", "Permits that proxied requests hold"),
    ("tidegate_proxy_waiting", "Proxied requests that wait for a limit or a permit"),
    ("tidegate_proxy_tunnels", "Connections that have changed their protocol"),
    ("tidegate_proxy_servers_unavailable", "Servers of upstreams that get no requests: ejected or unhealthy"),
    ("tidegate_capacity_provisioned_units", "Capacity units a second that a table is provisioned with"),
    (
        "tidegate_capacity_left_units",
        "Capacity units that the partitions of a table have left, at most one second of them",
    ),
    ("tidegate_capacity_throttled", "Accesses that a table refused"),
    (
        "tidegate_capacity_node_left_units",
        "Capacity units that a node has to spare; negative when its partitions have used more",
    ),
    ("tidegate_resource_in_flight", "Requests in flight at a resource"),
    ("tidegate_resource_in_flight_max", "The most requests that may be in flight at a resource"),
    ("tidegate_resource_cursor", "Level of importance below which a resource sheds requests; 0 sheds none"),
    ("tidegate_resource_offered", "First attempts of requests for a resource"),
    ("tidegate_resource_outcomes", "First attempts of requests for a resource by what became of them"),
    ("tidegate_build_info", "The running version"),
];

pub use crate::process_metrics::TABLE as PROCESS_TABLE;

/// The help text of a metric of the table.
const fn help(name: &str) -> &'static str {
    let mut index = 0;
    while index < TABLE.len() {
        if is_same(TABLE[index].0.as_bytes(), name.as_bytes()) {
            return TABLE[index].1;
        }
        index += 1;
    }
    panic!("every metric stands in the table")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FaultLabels {
    error: &'static str,
}

/// All metrics of a daemon.
pub(crate) struct Metrics {
    registry: Registry,
    /// Series for each limit.
    pub(crate) limits: LimitFamilies,
    shared: Arc<DaemonCounters>,
    pub(crate) proxy: Arc<ProxyMetrics>,
    pub(crate) grpc: GrpcMetrics,
    pub(crate) resp: RespMetrics,
    requests: Family<RequestLabels, Counter>,
    faults: Family<FaultLabels, Counter>,
    /// The usual answers of each route, so that counting one costs no look-up.
    usual: Box<[[OnceLock<Counter>; USUAL_STATUSES.len()]]>,
}

const USUAL_STATUSES: [u16; 3] = [200, 429, 503];

/// Numbers that are kept as they come and turned into metrics when the page is read.
#[derive(Debug, Default)]
pub(crate) struct DaemonCounters {
    pub(crate) decision_duration: Histogram,
    pub(crate) permits_expired: AtomicU64,
    pub(crate) connections_accepted: AtomicU64,
    pub(crate) connections_timed_out: AtomicU64,
    pub(crate) connections_evicted: AtomicU64,
    pub(crate) accept_pauses: AtomicU64,
    pub(crate) store_failures: AtomicU64,
    pub(crate) lines_suppressed: AtomicU64,
    pub(crate) clock_steps: AtomicU64,
}

impl Metrics {
    /// Metrics of a daemon, without any limit yet.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let limits = LimitFamilies::default();
        limits.register(&mut registry, help);
        let requests = Family::<RequestLabels, Counter>::default();
        let faults = Family::<FaultLabels, Counter>::default();
        let shared = Arc::new(DaemonCounters::default());
        registry.register("tidegate_http_requests", help("tidegate_http_requests"), requests.clone());
        registry.register("tidegate_faults", help("tidegate_faults"), faults.clone());
        let proxy = Arc::new(ProxyMetrics::default());
        proxy.register(&mut registry, help);
        let grpc = GrpcMetrics::default();
        grpc.register(&mut registry, help);
        let resp = RespMetrics::default();
        resp.register(&mut registry, help);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("tidegate_build", help("tidegate_build_info"), build);
        let usual = Endpoint::ALL.iter().map(|_| core::array::from_fn(|_| OnceLock::new())).collect();
        Self { registry, limits, shared, proxy, grpc, resp, requests, faults, usual }
    }

    /// Has the page ask whatever is in force.
    pub(crate) fn watch(&mut self, watched: MetricSources) {
        let shared = Arc::clone(&self.shared);
        let proxy = Arc::clone(&self.proxy);
        self.registry.register_collector(Box::new(DaemonCollector { watched, shared, proxy }));
    }

    /// The numbers that are kept as they come.
    pub(crate) fn shared(&self) -> &DaemonCounters {
        &self.shared
    }

    /// Counts an answered request. `None` for a path that is no route.
    pub(crate) fn answered(&self, route: Option<Endpoint>, status: u16) {
        let create = || {
            let route = route.map_or("other", Endpoint::path);
            self.requests.get_or_create(&RequestLabels { route, status }).clone()
        };
        let usual = USUAL_STATUSES.iter().position(|usual| *usual == status);
        match (route, usual) {
            (Some(route), Some(usual)) => self.usual[route as usize][usual].get_or_init(create).inc(),
            _ => create().inc(),
        };
    }

    /// Counts a message that could not be taken.
    pub(crate) fn fault(&self, code: FaultCode) {
        self.faults.get_or_create(&FaultLabels { error: code.as_str() }).inc();
    }

    /// Counts a request that is rejected because it is malformed or ambiguous.
    pub(crate) fn rejected(&self, code: RejectionCode) {
        self.faults.get_or_create(&FaultLabels { error: code.as_str() }).inc();
    }

    /// Counts a connection that did not speak HTTP.
    pub(crate) fn broken_http(&self) {
        self.faults.get_or_create(&FaultLabels { error: "malformed_http" }).inc();
    }

    /// Counts a connection that did not speak RESP.
    pub(crate) fn broken_resp(&self) {
        self.faults.get_or_create(&FaultLabels { error: "malformed_resp" }).inc();
    }

    /// Counts a connection whose TLS handshake failed.
    pub(crate) fn broken_tls(&self) {
        self.faults.get_or_create(&FaultLabels { error: "tls_handshake" }).inc();
    }

    /// Counts a connection that should begin with the PROXY protocol and does not.
    pub(crate) fn broken_preamble(&self) {
        self.faults.get_or_create(&FaultLabels { error: "proxy_protocol" }).inc();
    }

    /// Counts a connection whose peer is not trusted to say who it is.
    pub(crate) fn untrusted_peer(&self) {
        self.faults.get_or_create(&FaultLabels { error: "untrusted_peer" }).inc();
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let mut page = String::with_capacity(8 << 10);
        prometheus_client::encoding::text::encode(&mut page, &self.registry)
            .expect("writing into a string does not fail");
        page
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// The sources that are read when the page is rendered.
pub(crate) struct MetricSources {
    pub(crate) proxy: Arc<ProxyState>,
    pub(crate) in_force: Arc<ArcSwap<InForce>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) embedded: Option<Arc<RedbStore>>,
    pub(crate) shared: Option<Arc<SharedStore>>,
    pub(crate) members: Option<Arc<Members>>,
    pub(crate) decisions: Option<Arc<Decisions>>,
}

struct DaemonCollector {
    watched: MetricSources,
    shared: Arc<DaemonCounters>,
    proxy: Arc<ProxyMetrics>,
}

impl fmt::Debug for DaemonCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DaemonCollector")
    }
}

fn shared_store_gauges(stats: &RedisStats) -> [(&'static str, u64); 4] {
    [
        ("tidegate_store_waiting", stats.waiting as u64),
        ("tidegate_store_circuit_open", u64::from(stats.circuit != Circuit::Closed)),
        ("tidegate_store_loss", u64::from(stats.loss.is_some())),
        ("tidegate_store_newer_protocol", u64::from(stats.newer_protocol.is_some())),
    ]
}

fn shared_store_counters(stats: &RedisStats) -> [(&'static str, u64); 7] {
    [
        ("tidegate_store_calls", stats.calls),
        ("tidegate_store_batches", stats.batches),
        ("tidegate_store_call_failures", stats.failed),
        ("tidegate_store_undone", stats.undone),
        ("tidegate_store_undo_failed", stats.undo_failed),
        ("tidegate_store_losses", stats.lost),
        ("tidegate_store_disagreements", stats.disagreed),
    ]
}

fn encode_rejected(encoder: &mut DescriptorEncoder<'_>, stats: &RedisStats) -> fmt::Result {
    let name = "tidegate_store_batches_rejected";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?;
    let rejected = &stats.rejected;
    let causes = [
        ("circuit_open", rejected.circuit_open),
        ("queue_full", rejected.queue_full),
        ("not_sent", rejected.not_sent),
    ];
    for (cause, count) in causes {
        ConstCounter::new(count).encode(family.encode_family(&[("cause", cause)])?)?;
    }
    Ok(())
}

fn encode_listeners(encoder: &mut DescriptorEncoder<'_>, connections: &Connections) -> fmt::Result {
    let name = "tidegate_listener_connections";
    let mut family = encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?;
    for (listener, count) in connections.by_listener() {
        ConstGauge::new(count).encode(family.encode_family(&[("listener", listener)])?)?;
    }
    Ok(())
}

/// Writes a histogram; the page adds the unit to its name.
fn encode_durations(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    durations: &Histogram,
) -> fmt::Result {
    let (sum, count, buckets) = durations.snapshot();
    let mut histogram = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    histogram.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}

fn encode_seconds(encoder: &mut DescriptorEncoder<'_>, name: &'static str, span: Duration) -> fmt::Result {
    let seconds = ConstCounter::new(span.as_secs_f64());
    seconds.encode(encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?)
}

fn lease_gauges(members: &Members, totals: &LeaseTotals) -> [(&'static str, u64); 3] {
    [
        ("tidegate_members", members.count()),
        ("tidegate_members_gone_tokens", members.gone_tokens.load(Ordering::Relaxed)),
        ("tidegate_leases", totals.holders as u64),
    ]
}

fn lease_counters(members: &Members, totals: &LeaseTotals) -> [(&'static str, u64); 3] {
    [
        ("tidegate_members_gone", members.gone.load(Ordering::Relaxed)),
        ("tidegate_lease_asks", totals.asks),
        ("tidegate_lease_asks_unanswered", totals.unanswered),
    ]
}

fn decision_log_counters(decisions: &Decisions) -> [(&'static str, u64); 3] {
    [
        ("tidegate_decision_lines", decisions.log.written()),
        ("tidegate_decision_lines_dropped", decisions.log.dropped()),
        ("tidegate_decision_log_errors", decisions.log.errors()),
    ]
}

impl Collector for DaemonCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let MetricSources {
            in_force,
            clock,
            connections,
            changes,
            embedded,
            shared: shared_store,
            members,
            decisions,
            proxy,
        } = &self.watched;
        let now = clock.now();
        let in_force = in_force.load();
        let stats = in_force.engine.stats(now);
        let reloads = changes.status().clone();
        let shared = &self.shared;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut gauges = vec![
            ("tidegate_table_bytes", stats.table.bytes as u64),
            ("tidegate_table_slots", stats.table.slots as u64),
            ("tidegate_table_keys", stats.table.keys as u64),
            ("tidegate_table_ring_bytes", stats.table.ring_bytes as u64),
            ("tidegate_permits_kept", stats.permits_kept as u64),
            ("tidegate_permits_kept_max", stats.permits_max as u64),
            ("tidegate_connections", connections.len() as u64),
            ("tidegate_buffered_bytes", connections.buffers().held() as u64),
            ("tidegate_policy_version", in_force.version.number),
            ("tidegate_policy_age_seconds", now.saturating_since(in_force.version.since).as_secs()),
            ("tidegate_policy_last_reload_successful", u64::from(reloads.error().is_none())),
            ("tidegate_overrides", in_force.engine.overrides(now).count() as u64),
        ];
        let mut counters = vec![
            ("tidegate_table_full_refusals", stats.table.full_refusals),
            ("tidegate_table_full_admissions", stats.table.full_admissions),
            ("tidegate_permits_expired", read(&shared.permits_expired)),
            ("tidegate_connections_accepted", read(&shared.connections_accepted)),
            ("tidegate_connections_timed_out", read(&shared.connections_timed_out)),
            ("tidegate_connections_evicted", read(&shared.connections_evicted)),
            ("tidegate_buffer_refusals", connections.buffers().refused()),
            ("tidegate_accept_pauses", read(&shared.accept_pauses)),
            ("tidegate_store_failures", read(&shared.store_failures)),
            ("tidegate_refusal_lines_suppressed", read(&shared.lines_suppressed)),
            ("tidegate_clock_steps", read(&shared.clock_steps)),
            ("tidegate_policy_reloads", reloads.succeeded),
            ("tidegate_policy_reload_failures", reloads.failed),
        ];
        if in_force.config.proxy.is_some() {
            let out = |upstream: &Upstream| upstream.config.servers.len().saturating_sub(upstream.well());
            gauges.extend([
                ("tidegate_proxy_in_flight", proxy.in_flight.load(Ordering::Relaxed) as u64),
                ("tidegate_proxy_waiting", in_force.engine.waiting() as u64),
                ("tidegate_proxy_tunnels", proxy.tunnels.load(Ordering::Relaxed) as u64),
                (
                    "tidegate_proxy_servers_unavailable",
                    in_force.routes.upstreams().map(out).sum::<usize>() as u64,
                ),
            ]);
            let help = help("tidegate_proxy_upstream_duration_seconds");
            let durations = &self.proxy.upstream_duration;
            encode_durations(&mut encoder, "tidegate_proxy_upstream_duration", help, durations)?;
        }
        if let Some(store) = embedded {
            let stats = store.stats();
            gauges.push(("tidegate_store_unsaved", stats.unsaved as u64));
            gauges.push(("tidegate_store_disk_bytes", stats.bytes_on_disk));
            gauges.push(("tidegate_store_disk_used_bytes", stats.space_used));
            gauges.push(("tidegate_store_disk_max_bytes", stats.space_max));
            counters.push(("tidegate_store_full", stats.full));
            counters.push(("tidegate_store_commits", stats.commits));
            counters.push(("tidegate_store_batches", stats.batches));
            counters.push(("tidegate_store_commit_failures", stats.failures));
            encode_seconds(&mut encoder, "tidegate_store_commit_seconds", stats.commit_total)?;
        }
        if let Some(store) = shared_store {
            let stats = store.stats();
            gauges.extend(shared_store_gauges(&stats));
            counters.extend(shared_store_counters(&stats));
            encode_rejected(&mut encoder, &stats)?;
        }
        if let (Some(members), Some(totals)) = (members, in_force.engine.lease_totals()) {
            gauges.extend(lease_gauges(members, &totals));
            counters.extend(lease_counters(members, &totals));
        }
        if let Some(decisions) = decisions {
            counters.extend(decision_log_counters(decisions));
        }
        for (name, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help(name), None, MetricType::Gauge)?)?;
        }
        for (name, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help(name), None, MetricType::Counter)?)?;
        }
        planes::encode(&mut encoder, &in_force.engine, now, help)?;
        encode_listeners(&mut encoder, connections)?;
        process_metrics::encode(&mut encoder)?;
        let help = help("tidegate_decision_duration_seconds");
        encode_durations(&mut encoder, "tidegate_decision_duration", help, &shared.decision_duration)
    }
}
