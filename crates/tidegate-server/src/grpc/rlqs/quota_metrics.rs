//! Counters of the streams of the rate limit quota service. Labels are words of closed lists.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_engine::Action;

use super::stream_end::EndCause;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    cause: &'static str,
}

/// The counters of all streams.
#[derive(Debug, Default)]
pub(in crate::grpc) struct QuotaMetrics {
    streams: Gauge,
    pub(super) reports: Counter,
    /// Reports of which only the beginning was read.
    pub(super) reports_cut: Counter,
    /// Buckets in reports that exceed a bound.
    pub(super) buckets_ignored: Counter,
    actions: Family<ActionLabels, Counter>,
    ended: Family<EndLabels, Counter>,
}

impl QuotaMetrics {
    /// Puts them on the page, with `help` for each name.
    pub(in crate::grpc) fn register(&self, registry: &mut Registry, help: fn(&str) -> &'static str) {
        // Each of its series is there from the start, so that the first of its kind is seen.
        for action in ["tokens", "deny", "abandon"] {
            drop(self.actions.get_or_create(&ActionLabels { action }));
        }
        for cause in EndCause::ALL {
            drop(self.ended.get_or_create(&EndLabels { cause: cause.as_str() }));
        }
        let counters = [
            ("tidegate_rlqs_reports", &self.reports),
            ("tidegate_rlqs_reports_cut", &self.reports_cut),
            ("tidegate_rlqs_buckets_ignored", &self.buckets_ignored),
        ];
        for (name, counter) in counters {
            registry.register(name, help(name), counter.clone());
        }
        registry.register("tidegate_rlqs_streams", help("tidegate_rlqs_streams"), self.streams.clone());
        registry.register("tidegate_rlqs_actions", help("tidegate_rlqs_actions"), self.actions.clone());
        let ended = "tidegate_rlqs_streams_ended";
        registry.register(ended, help(ended), self.ended.clone());
    }

    /// Counts a stream that begins.
    pub(super) fn began(&self) {
        self.streams.inc();
    }

    /// Counts a stream that has ended.
    pub(super) fn ended(&self, cause: EndCause) {
        self.streams.dec();
        self.ended.get_or_create(&EndLabels { cause: cause.as_str() }).inc();
    }

    /// Counts an action that is sent.
    pub(super) fn sent(&self, action: Action) {
        let action = match action {
            Action::Assign { .. } => "tokens",
            Action::Deny { .. } => "deny",
            Action::Abandon => "abandon",
        };
        self.actions.get_or_create(&ActionLabels { action }).inc();
    }
}
