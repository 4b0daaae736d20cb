//! The metrics page: every name in one table, every label from a bounded set.
//!
//! Labels are names from the policy, reasons, routes and status codes. Nothing a caller sends
//! becomes a label; `/v1/keys/top` lists the keys that are refused most.

pub(crate) mod histogram;
pub(crate) mod process_metrics;

mod collector;
mod envoy_hits;
mod features;
pub(crate) mod limits;
mod planes;
mod series;
mod usage;

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tidegate_wire::FaultCode;

use crate::metrics::histogram::Histogram;

pub(crate) use self::collector::MetricSources;
pub(crate) use self::envoy_hits::EnvoyHits;
pub(crate) use self::limits::{LimitFamilies, LimitSeries, NamespaceTable, OVERRIDE, tightest};

/// The media type of the page.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every metric: its name on the page, and its help text. The page ends counters with `_total`.
pub const TABLE: &[(&str, &str)] = &[
    (
        "tidegate_decisions",
        "Decisions by namespace, limit (the one that binds longest, or has the least left, or the mechanism that shed), decision, reason and protocol",
    ),
    ("tidegate_near_limit", "Admitted requests after which a limit had less than a fifth left"),
    ("tidegate_shadow_refusals", "Requests that a shadow limit would have refused"),
    ("tidegate_decision_duration_seconds", "Time from reading a request to having decided it"),
    ("tidegate_table_bytes", "Budget of keyed state"),
    ("tidegate_table_slots", "Places in the table of keyed state"),
    ("tidegate_table_keys", "Places in use: exact for the first 4096, otherwise estimated from a sample"),
    (
        "tidegate_table_keys_max",
        "Places that all namespaces may take together; where several divide the table, each is refused at its share of them",
    ),
    ("tidegate_table_ring_bytes", "Bytes in use by rolling windows and permits"),
    ("tidegate_table_full_refusals", "Requests refused because there was no room for a new key"),
    ("tidegate_table_full_admissions", "Requests admitted uncounted because there was no room for a new key"),
    ("tidegate_permits_kept", "Permits waiting to be settled or released"),
    ("tidegate_permits_kept_max", "Permits that may wait at a time"),
    ("tidegate_permits_expired", "Permits that expired before they were settled"),
    ("tidegate_http_requests", "Requests by route and status"),
    ("tidegate_faults", "Requests rejected before a decision, by fault"),
    (
        "tidegate_panics",
        "Handlers and background tasks that panicked, which is a defect; the callers of handlers got an error, tasks began anew",
    ),
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
    (
        "tidegate_leased_limits_different",
        "Leased limits that another member counts by other numbers than this one",
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
    ("tidegate_rlqs_streams", "Open streams of Envoy's rate limit quota service"),
    ("tidegate_rlqs_buckets", "Buckets of open streams by the state of their assignment"),
    ("tidegate_rlqs_reports", "Reports of Envoys"),
    (
        "tidegate_rlqs_reports_cut",
        "Reports of Envoys that were too long, of which only the beginning was read",
    ),
    (
        "tidegate_rlqs_buckets_ignored",
        "Buckets in reports of Envoys that got no assignment because they exceed a bound",
    ),
    ("tidegate_rlqs_actions", "Actions sent to Envoys, by kind"),
    ("tidegate_rlqs_streams_ended", "Streams of Envoy's rate limit quota service that have ended, by cause"),
    ("tidegate_envoy_hits", "Hits under the rules of envoyproxy/ratelimit's files, by rule and result"),
    ("tidegate_resp_commands", "Commands of Redis clients by name and whether the answer was an error"),
    ("tidegate_proxy_requests", "Proxied requests by route and status; no route where none takes them"),
    ("tidegate_proxy_endings", "Answers of upstreams that did not reach their end, by route and reason"),
    ("tidegate_proxy_true_costs", "Answers of routes that take the true cost from them, by route and result"),
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
    ("tidegate_capacity_partitions", "Partitions of a table"),
    ("tidegate_capacity_splits", "Partitions of a table that were split"),
    ("tidegate_capacity_merges", "Pairs of partitions of a table that were merged"),
    (
        "tidegate_capacity_node_left_units",
        "Capacity units that a node has to spare; negative when its partitions have used more",
    ),
    ("tidegate_resource_in_flight", "Requests in flight at a resource"),
    ("tidegate_resource_in_flight_max", "The most requests that may be in flight at a resource"),
    ("tidegate_resource_advised_places", "Places that advice suggests for a resource; 0 without advice"),
    ("tidegate_resource_streams", "Streams open at a resource, and requests that may become one"),
    ("tidegate_resource_streams_max", "The most streams that may be open at a resource"),
    ("tidegate_resource_streams_refused", "Requests that a resource refused for want of a stream"),
    ("tidegate_resource_cursor", "Level of importance below which a resource sheds requests; 0 sheds none"),
    (
        "tidegate_resource_level",
        "Load level of a resource: 0 normal, 1 soft, 2 brownout, 3 hard, 4 emergency",
    ),
    (
        "tidegate_resource_pressure",
        "Highest pressure of the signals of a resource; 1 is as much as it should bear, 0 without a fresh signal",
    ),
    ("tidegate_resource_queued", "Requests that wait in the queue of a resource, by class"),
    (
        "tidegate_resource_queue_delay_seconds",
        "Shortest delay of a queue in the last 100 ms, by class; 0 where the class was empty meanwhile",
    ),
    (
        "tidegate_resource_queue_wait_seconds",
        "Sum of the waits of the requests that left a queue to be served, by class",
    ),
    (
        "tidegate_resource_queue_departures",
        "Requests that left the queue of a resource, by class and by the way they left",
    ),
    ("tidegate_resource_tickets", "Deferral tickets of a resource, by what happened to them"),
    ("tidegate_resource_tickets_booked", "Tickets of a resource for the present second and later ones"),
    (
        "tidegate_resource_shown_capacity",
        "Requests a second that a resource has shown it can serve, by which it sells tickets",
    ),
    ("tidegate_ticket_faults", "Deferral tickets that counted for nothing, by the fault"),
    ("tidegate_signal_pressure", "Smoothed pressure of a signal at a resource; 0 while it is stale"),
    ("tidegate_signal_stale", "1 while a signal has no value that is fresh enough to count"),
    ("tidegate_resource_offered", "First attempts of requests for a resource"),
    (
        "tidegate_resource_places_expired",
        "Places given back before their permits were settled, because a namespace below its part waited",
    ),
    ("tidegate_resource_outcomes", "First attempts of requests for a resource by what became of them"),
    ("tidegate_resource_class_offered", "First attempts of requests for a resource by class"),
    ("tidegate_resource_class_outcomes", "First attempts of requests for a resource by class and outcome"),
    (
        "tidegate_resource_would_refuse",
        "First attempts that a resource in shadow mode let through and would have refused, by class and mechanism",
    ),
    ("tidegate_feature_level", "Level of a feature: 0 is the best of its levels"),
    ("tidegate_feature_in_flight", "Requests of a feature in flight"),
    (
        "tidegate_feature_footprint_ratio",
        "Part of the capacity of its resource that a feature takes at its level",
    ),
    (
        "tidegate_feature_transitions",
        "Changes of the level of a feature, down to a worse one or up to a better one",
    ),
    (
        "tidegate_feature_released_seconds",
        "Time from the last switch-off of a feature to the end of its work in flight; 0 before the first",
    ),
    ("tidegate_usage_requests", "Requests by namespace, class and outcome"),
    ("tidegate_usage_units", "Units of admitted requests by namespace and class"),
    (
        "tidegate_usage_place_seconds",
        "Time that admitted requests were in flight, by namespace and class, where the end of their work is known",
    ),
    (
        "tidegate_usage_wait_seconds",
        "Time that requests waited until they were decided, by namespace and class",
    ),
    (
        "tidegate_usage_reported_requests",
        "Requests that Envoys decided by themselves as they report, by namespace, class and outcome",
    ),
    ("tidegate_feature_requests", "Requests by feature, class and outcome"),
    ("tidegate_feature_units", "Units of admitted requests by feature and class"),
    (
        "tidegate_feature_place_seconds",
        "Time that admitted requests were in flight, by feature and class, where the end of their work is known",
    ),
    (
        "tidegate_feature_wait_seconds",
        "Time that requests waited until they were decided, by feature and class",
    ),
    (
        "tidegate_feature_reported_requests",
        "Requests that Envoys decided by themselves as they report, by feature, class and outcome",
    ),
    ("tidegate_resource_requests", "Requests by resource, class and outcome, repeated attempts included"),
    ("tidegate_resource_units", "Units of admitted requests by resource and class"),
    (
        "tidegate_resource_place_seconds",
        "Time that admitted requests were in flight, by resource and class, where the end of their work is known",
    ),
    (
        "tidegate_resource_wait_seconds",
        "Time that requests waited until they were decided, by resource and class",
    ),
    ("tidegate_build_info", "The running version"),
];

pub use crate::metrics::process_metrics::TABLE as PROCESS_TABLE;

/// The help text of a metric of the table.
pub(crate) const fn help(name: &str) -> &'static str {
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
struct FaultLabels {
    error: &'static str,
}

/// All metrics of a daemon.
pub(crate) struct Metrics {
    registry: Registry,
    /// Series for each limit.
    pub(crate) limits: LimitFamilies,
    shared: Arc<DaemonCounters>,
    /// Hits under the rules of envoyproxy/ratelimit's files.
    pub(crate) envoy_hits: EnvoyHits,
    faults: Family<FaultLabels, Counter>,
}

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
    pub(crate) panics: AtomicU64,
}

impl Metrics {
    /// Metrics of a daemon, without any limit yet.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let limits = LimitFamilies::default();
        limits.register(&mut registry, help);
        let faults = Family::<FaultLabels, Counter>::default();
        let shared = Arc::new(DaemonCounters::default());
        registry.register("tidegate_faults", help("tidegate_faults"), faults.clone());
        let envoy_hits = EnvoyHits::default();
        envoy_hits.register(&mut registry, help);
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("tidegate_build", help("tidegate_build_info"), build);
        Self { registry, limits, shared, envoy_hits, faults }
    }

    /// Has a protocol register its series, each with its help text.
    pub(crate) fn register(&mut self, register: impl FnOnce(&mut Registry, fn(&str) -> &'static str)) {
        register(&mut self.registry, help);
    }

    /// Has the page read `collector` when it is rendered.
    pub(crate) fn collect(&mut self, collector: Box<dyn Collector>) {
        self.registry.register_collector(collector);
    }

    /// Has the page read a protocol's collector, made with the help texts of series.
    pub(crate) fn collect_with(&mut self, make: impl FnOnce(fn(&str) -> &'static str) -> Box<dyn Collector>) {
        self.collect(make(help));
    }

    /// The numbers that are kept as they come.
    pub(crate) fn shared(&self) -> &Arc<DaemonCounters> {
        &self.shared
    }

    /// Counts a message that could not be taken.
    pub(crate) fn fault(&self, code: FaultCode) {
        self.fault_of_protocol(code.as_str());
    }

    /// Counts a message or a connection that a protocol rejects for an error of its own, such as a
    /// failed TLS handshake.
    pub(crate) fn fault_of_protocol(&self, error: &'static str) {
        self.faults.get_or_create(&FaultLabels { error }).inc();
    }

    /// The page.
    pub(crate) fn page(&self) -> String {
        let mut page = String::with_capacity(8 << 10);
        prometheus_client::encoding::text::encode(&mut page, &self.registry)
            .expect("writing into a string does not fail");
        page
    }
}

tidegate_core::debug_fields!(Metrics {});

/// Writes a histogram; the page adds the unit to its name.
pub(crate) fn encode_durations(
    encoder: &mut DescriptorEncoder<'_>,
    name: &'static str,
    help: &'static str,
    durations: &Histogram,
) -> fmt::Result {
    let (sum, count, buckets) = durations.snapshot();
    let mut histogram = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    histogram.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}
