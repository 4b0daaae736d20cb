//! The series of the rules of envoyproxy/ratelimit's files.

use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tidegate_policy::envoy::{Answer, Counts, MetricKeys, MetricName};

/// The kinds of counted hits of a rule, in the order of [`EnvoyHits::add_all`].
const HIT_KINDS: [&str; 6] =
    ["total", "over_limit", "near_limit", "within_limit", "shadow_mode", "given_back"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HitLabels {
    rule: String,
    kind: &'static str,
}

/// The counters of hits by rule, whichever protocol they came over.
#[derive(Debug, Default)]
pub(crate) struct EnvoyHits {
    hits: Family<HitLabels, Counter>,
    /// Which values of requests have a series of their own.
    keys: Mutex<MetricKeys>,
}

impl EnvoyHits {
    /// Puts them on the page, with `help` for each name.
    pub(super) fn register(&self, registry: &mut Registry, help: fn(&str) -> &'static str) {
        registry.register("tidegate_envoy_hits", help("tidegate_envoy_hits"), self.hits.clone());
    }

    /// Counts the hits of each rule in an answer by files.
    pub(crate) fn decided(&self, answer: &Answer<'_>) {
        if !answer.is_domain_known {
            self.add(String::new(), "domain_not_found", 1);
        }
        if answer.is_shadowed {
            self.add(String::new(), "global_shadow_mode", 1);
        }
        for counts in &answer.counts {
            // A rule without values of requests in its key shares nothing with others.
            if counts.key.exact.is_none() {
                self.add_all(&counts.key.bounded, counts);
                continue;
            }
            // The table is consistent after every change, so a poisoned lock is usable. Held until
            // the hits are added, so that no series is made anew after another value has taken its
            // place.
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            let MetricName { name, replaced } = keys.name(&counts.key);
            if let Some(replaced) = replaced {
                for kind in HIT_KINDS {
                    self.hits.remove(&HitLabels { rule: replaced.clone(), kind });
                }
            }
            self.add_all(name, counts);
        }
    }

    fn add_all(&self, rule: &str, counts: &Counts<'_>) {
        let Counts { total_hits, over_limit, near_limit, within_limit, shadow_mode, .. } = *counts;
        let hits =
            [total_hits, over_limit, near_limit, within_limit, shadow_mode, counts.total_negative_hits];
        for (kind, hits) in HIT_KINDS.into_iter().zip(hits) {
            if hits > 0 {
                self.add(rule.to_owned(), kind, hits);
            }
        }
    }

    fn add(&self, rule: String, kind: &'static str, hits: u64) {
        self.hits.get_or_create(&HitLabels { rule, kind }).inc_by(hits);
    }
}
