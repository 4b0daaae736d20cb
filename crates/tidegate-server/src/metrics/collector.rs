//! The series that are read from the parts of a daemon when the page is rendered.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tidegate_engine::{LeaseTotals, RemoteTotals};
use tidegate_net::connections::Connections;
use tidegate_policy::policy::ListenerRole;
use tidegate_store::{Circuit, FleetStats, Rejected};
use tidegate_store_redb::RedbStore;

use super::series::SeriesEncoder;
use super::{DaemonCounters, encode_durations, features, help, planes, usage};
use crate::fleet::members::Members;
use crate::fleet::shared_store::SharedStore;
use crate::in_force::InForce;
use crate::metrics::process_metrics;
use crate::records::decisions::Decisions;
use crate::records::feature_log::FeatureLog;
use crate::reload::reload_status::Changes;
use tidegate_clock::Clock;

/// The sources that are read when the page is rendered.
pub(crate) struct MetricSources {
    pub(crate) in_force: Arc<ArcSwap<InForce>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) embedded: Option<Arc<RedbStore>>,
    pub(crate) shared: Option<Arc<SharedStore>>,
    pub(crate) members: Option<Arc<Members>>,
    pub(crate) decisions: Option<Arc<Decisions>>,
    pub(crate) counters: Arc<DaemonCounters>,
    pub(crate) feature_log: Arc<FeatureLog>,
}

tidegate_core::debug_fields!(MetricSources {});

fn shared_store_gauges(stats: &FleetStats) -> [(&'static str, u64); 4] {
    [
        ("tidegate_store_waiting", stats.waiting as u64),
        ("tidegate_store_circuit_open", u64::from(stats.circuit != Circuit::Closed)),
        ("tidegate_store_loss", u64::from(stats.loss.is_some())),
        ("tidegate_store_newer_protocol", u64::from(stats.newer_protocol.is_some())),
    ]
}

fn shared_store_counters(stats: &FleetStats) -> [(&'static str, u64); 7] {
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

fn rejected_batches(stats: &FleetStats) -> [([(&'static str, &'static str); 1], u64); 3] {
    let Rejected { circuit_open, queue_full, not_sent } = stats.rejected;
    [("circuit_open", circuit_open), ("queue_full", queue_full), ("not_sent", not_sent)]
        .map(|(cause, count)| ([("cause", cause)], count))
}

fn member_gauges(members: &Members) -> [(&'static str, u64); 3] {
    [
        ("tidegate_members", members.count()),
        ("tidegate_members_gone_tokens", members.gone_tokens.load(Ordering::Relaxed)),
        ("tidegate_leased_limits_different", members.different_limits() as u64),
    ]
}

/// Buckets of Envoys by the state of their assignment.
fn remote_buckets(totals: &RemoteTotals) -> [([(&'static str, &'static str); 1], u64); 4] {
    let RemoteTotals { buckets, assigned, denied, not_held, .. } = *totals;
    let others = buckets.saturating_sub(assigned.saturating_add(denied).saturating_add(not_held));
    [("assigned", assigned), ("denied", denied), ("not_held", not_held), ("none", others)]
        .map(|(state, count)| ([("state", state)], count as u64))
}

fn lease_counters(totals: &LeaseTotals) -> [(&'static str, u64); 2] {
    [("tidegate_lease_asks", totals.asks), ("tidegate_lease_asks_unanswered", totals.unanswered)]
}

fn decision_log_counters(decisions: &Decisions) -> [(&'static str, u64); 3] {
    [
        ("tidegate_decision_lines", decisions.log.written()),
        ("tidegate_decision_lines_dropped", decisions.log.dropped()),
        ("tidegate_decision_log_errors", decisions.log.errors()),
    ]
}

impl Collector for MetricSources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { in_force, clock, connections, changes, counters: daemon, .. } = self;
        let now = clock.now();
        let mut page = SeriesEncoder(&mut encoder);
        let in_force = in_force.load();
        let stats = in_force.engine.stats(now);
        let reloads = changes.status().clone();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut gauges = vec![
            ("tidegate_table_bytes", stats.table.bytes as u64),
            ("tidegate_table_slots", stats.table.slots as u64),
            ("tidegate_table_keys", stats.table.keys as u64),
            ("tidegate_table_keys_max", stats.table.keys_max as u64),
            ("tidegate_table_ring_bytes", stats.table.ring_bytes as u64),
            ("tidegate_permits_kept", stats.permits_kept as u64),
            ("tidegate_permits_kept_max", stats.permits_max as u64),
            ("tidegate_connections", connections.count() as u64),
            ("tidegate_buffered_bytes", connections.buffers().held() as u64),
            ("tidegate_policy_version", in_force.version.number),
            ("tidegate_policy_age_seconds", now.saturating_since(in_force.version.since).as_secs()),
            ("tidegate_policy_last_reload_successful", u64::from(reloads.error().is_none())),
            ("tidegate_overrides", in_force.engine.overrides(now).count() as u64),
        ];
        let mut counters = vec![
            ("tidegate_table_full_refusals", stats.table.full_refusals),
            ("tidegate_table_full_admissions", stats.table.full_admissions),
            ("tidegate_permits_expired", read(&daemon.permits_expired)),
            ("tidegate_connections_accepted", read(&daemon.connections_accepted)),
            ("tidegate_connections_timed_out", read(&daemon.connections_timed_out)),
            ("tidegate_connections_evicted", read(&daemon.connections_evicted)),
            ("tidegate_buffer_refusals", connections.buffers().refused()),
            ("tidegate_accept_pauses", read(&daemon.accept_pauses)),
            ("tidegate_store_failures", read(&daemon.store_failures)),
            ("tidegate_refusal_lines_suppressed", read(&daemon.lines_suppressed)),
            ("tidegate_clock_steps", read(&daemon.clock_steps)),
            ("tidegate_panics", read(&daemon.panics)),
            ("tidegate_policy_reloads", reloads.succeeded),
            ("tidegate_policy_reload_failures", reloads.failed),
        ];
        if let Some(store) = &self.embedded {
            let stats = store.stats();
            gauges.push(("tidegate_store_unsaved", stats.unsaved as u64));
            gauges.push(("tidegate_store_disk_bytes", stats.bytes_on_disk));
            gauges.push(("tidegate_store_disk_used_bytes", stats.space_used));
            gauges.push(("tidegate_store_disk_max_bytes", stats.space_max));
            counters.push(("tidegate_store_full", stats.full));
            counters.push(("tidegate_store_commits", stats.commits));
            counters.push(("tidegate_store_batches", stats.batches));
            counters.push(("tidegate_store_commit_failures", stats.failures));
            let total = ConstCounter::new(stats.commit_total.as_secs_f64());
            page.one("tidegate_store_commit_seconds", &total)?;
        }
        if let Some(shared) = &self.shared {
            let stats = shared.store.stats();
            gauges.extend(shared_store_gauges(&stats));
            counters.extend(shared_store_counters(&stats));
            page.counters("tidegate_store_batches_rejected", rejected_batches(&stats))?;
        }
        if let Some(totals) = in_force.engine.lease_totals() {
            if let Some(members) = &self.members {
                gauges.extend(member_gauges(members));
                counters.push(("tidegate_members_gone", members.gone.load(Ordering::Relaxed)));
            }
            gauges.push(("tidegate_leases", totals.holders as u64));
            counters.extend(lease_counters(&totals));
        }
        if let Some(decisions) = &self.decisions {
            counters.extend(decision_log_counters(decisions));
        }
        for (name, value) in gauges {
            page.one(name, &ConstGauge::new(value))?;
        }
        for (name, value) in counters {
            page.one(name, &ConstCounter::new(value))?;
        }
        if in_force.config.has_listener(ListenerRole::Grpc) {
            page.gauges("tidegate_rlqs_buckets", remote_buckets(&in_force.engine.remote_totals(now)))?;
        }
        planes::encode(&mut page, &in_force.engine, now)?;
        features::encode(&mut page, &in_force.engine, &self.feature_log, now)?;
        usage::encode(&mut page, &in_force.engine)?;
        let listeners = connections.by_listener().into_iter();
        let listeners = listeners.map(|(listener, count)| ([("listener", listener)], count));
        page.gauges("tidegate_listener_connections", listeners)?;
        process_metrics::encode(&mut encoder)?;
        let help = help("tidegate_decision_duration_seconds");
        encode_durations(&mut encoder, "tidegate_decision_duration", help, &daemon.decision_duration)
    }
}
