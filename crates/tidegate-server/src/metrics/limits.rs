//! The series of limits: decisions by limit, result and protocol.
//!
//! A decision counts once. For a refused request, its series is the limit that binds longest; for
//! an admitted one, the limit with the least left, which refuses next if nothing changes. A refusal
//! by the overload plane counts in the series of its mechanism. Requests to which no limit applies,
//! and refusals by a table, have an empty `limit`.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tidegate_core::{OverloadMechanism, Plane, Reason, RefusalView};
use tidegate_engine::{Engine, LimitReport};

use crate::protocol::Protocol;

/// The name of limits that arrive with requests of Envoy.
pub(crate) const OVERRIDE: &str = "override";

/// The mechanisms of the overload plane, which stand in the place of a limit.
pub(crate) const MECHANISMS: [&str; 8] = [
    OverloadMechanism::AdmissionCursor { level: 0 }.as_str(),
    OverloadMechanism::Ticket.as_str(),
    OverloadMechanism::InFlight.as_str(),
    OverloadMechanism::Streams.as_str(),
    OverloadMechanism::Pace.as_str(),
    OverloadMechanism::QueueDelay.as_str(),
    OverloadMechanism::QueueFull.as_str(),
    OverloadMechanism::Deadline.as_str(),
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    namespace: Arc<str>,
    limit: Arc<str>,
    decision: &'static str,
    reason: &'static str,
    protocol: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    namespace: Arc<str>,
    limit: Arc<str>,
}

/// The families that have a series for each limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitFamilies {
    decisions: Family<DecisionLabels, Counter>,
    near: Family<LimitLabels, Counter>,
    shadow: Family<LimitLabels, Counter>,
}

/// The series of the limits in force, found by their namespace.
pub(crate) struct NamespaceTable {
    families: LimitFamilies,
    namespaces: HashMap<Box<str>, NamespaceSeries, ahash::RandomState>,
}

struct NamespaceSeries {
    /// By name: a domain of Envoy's files may have 100 000.
    limits: HashMap<Arc<str>, LimitSeries, ahash::RandomState>,
    /// Limits that arrive with requests.
    own: LimitSeries,
    /// Decisions without a limit: none applied, or a table or a node refused.
    elsewhere: LimitSeries,
    /// In the order of [`MECHANISMS`]; made with the first refusal by the overload plane.
    mechanisms: OnceLock<Box<[LimitSeries; MECHANISMS.len()]>>,
}

/// The series of one limit.
#[derive(Debug)]
pub(crate) struct LimitSeries {
    labels: LimitLabels,
    families: LimitFamilies,
    near: OnceLock<Counter>,
    shadow: OnceLock<Counter>,
    /// Made when the first decision comes over a protocol, for a limit is usually used over one of
    /// them.
    protocols: [OnceLock<Box<ProtocolSeries>>; Protocol::ALL.len()],
}

#[derive(Debug, Default)]
struct ProtocolSeries {
    admitted: OnceLock<Counter>,
    refused: [OnceLock<Counter>; Reason::ALL.len()],
}

impl LimitFamilies {
    /// Puts them on the page, with `help` for each name.
    pub(super) fn register(&self, registry: &mut Registry, help: fn(&str) -> &'static str) {
        registry.register("tidegate_decisions", help("tidegate_decisions"), self.decisions.clone());
        registry.register("tidegate_near_limit", help("tidegate_near_limit"), self.near.clone());
        registry.register("tidegate_shadow_refusals", help("tidegate_shadow_refusals"), self.shadow.clone());
    }

    /// The series of the limits of an engine.
    pub(crate) fn of_engine(&self, engine: &Engine) -> NamespaceTable {
        let limits = |name| engine.limits(name).into_iter().flatten().map(|limit| limit.name.as_str());
        self.table(engine.namespaces().map(|name| (name, limits(name))))
    }

    /// The series of these namespaces and their limits.
    pub(crate) fn table<'a, L: Iterator<Item = &'a str>>(
        &self,
        namespaces: impl Iterator<Item = (&'a str, L)>,
    ) -> NamespaceTable {
        let [a, b, c, d] = tidegate_core::random_seed();
        let hasher = ahash::RandomState::with_seeds(a, b, c, d);
        let mut table = HashMap::with_hasher(hasher.clone());
        for (name, limits) in namespaces {
            let namespace: Arc<str> = name.into();
            let series = |limit: &str| self.limit(&namespace, limit);
            let mut by_name = HashMap::with_hasher(hasher.clone());
            for limit in limits {
                let limit = series(limit);
                // So that a limit stands on the page before its first decision.
                limit.near();
                limit.shadow();
                by_name.entry(Arc::clone(&limit.labels.limit)).or_insert(limit);
            }
            let all = NamespaceSeries {
                limits: by_name,
                own: series(OVERRIDE),
                elsewhere: series(""),
                mechanisms: OnceLock::new(),
            };
            table.insert(name.into(), all);
        }
        NamespaceTable { families: self.clone(), namespaces: table }
    }

    /// The series of one limit.
    pub(crate) fn limit(&self, namespace: &Arc<str>, limit: &str) -> LimitSeries {
        LimitSeries {
            labels: LimitLabels { namespace: Arc::clone(namespace), limit: limit.into() },
            families: self.clone(),
            near: OnceLock::new(),
            shadow: OnceLock::new(),
            protocols: [const { OnceLock::new() }; Protocol::ALL.len()],
        }
    }
}

impl NamespaceTable {
    /// Counts an admitted request, with the units left of its limits.
    pub(crate) fn admitted(&self, namespace: &str, limits: &[LimitReport], protocol: Protocol) {
        let Some(series) = self.namespaces.get(namespace) else { return };
        series.of(tightest(limits).map_or("", |limit| &limit.name)).admitted(1, protocol);
        for report in limits {
            if report.shadow_refused {
                series.of(&report.name).shadow().inc();
            } else if is_near(report) {
                series.of(&report.name).near().inc();
            }
        }
    }

    /// Counts a refusal.
    pub(crate) fn refused(&self, refusal: &RefusalView<'_>, protocol: Protocol) {
        if let Some(series) = self.namespaces.get(refusal.namespace) {
            let by = match refusal.plane {
                Plane::Overload => series.mechanism(refusal.name),
                Plane::Limits | Plane::Capacity => None,
            };
            by.unwrap_or_else(|| series.of(refusal.name)).refused(refusal.reason, protocol);
        }
    }

    /// The series of other limits in their place: of those that are the same they go on.
    pub(crate) fn replaced_by<'a, L: Iterator<Item = &'a str>>(
        &self,
        namespaces: impl Iterator<Item = (&'a str, L)>,
    ) -> Self {
        let now = self.families.table(namespaces);
        now.forget(self);
        now
    }

    /// Drops the series of limits that were in force and no longer are: a page grows with the
    /// policy, not with its history.
    pub(crate) fn forget(&self, before: &Self) {
        for (name, old) in &before.namespaces {
            let new = self.namespaces.get(name);
            for (limit, series) in &old.limits {
                if new.is_some_and(|new| new.limits.contains_key(limit)) {
                    continue;
                }
                // The series of a mechanism of this name goes on: it has reasons of its own.
                let is_mechanism = new.is_some() && MECHANISMS.contains(&&**limit);
                series.remove(|reason| !is_mechanism || reason.plane() != Plane::Overload);
            }
            if new.is_none() {
                let mechanisms = old.mechanisms.get().into_iter().flat_map(|all| all.iter());
                let all = [&old.own, &old.elsewhere].into_iter().chain(mechanisms);
                all.for_each(|series| series.remove(|_| true));
            }
        }
    }
}

/// The limit with the least left, of those that enforce.
pub(crate) fn tightest(limits: &[LimitReport]) -> Option<&LimitReport> {
    limits.iter().filter(|limit| !limit.shadow_refused).min_by_key(|limit| limit.remaining)
}

/// Whether less than a fifth is left: the last moment at which a caller can still be talked to.
fn is_near(report: &LimitReport) -> bool {
    report.remaining.saturating_mul(5) < report.limit
}

impl NamespaceSeries {
    fn of(&self, limit: &str) -> &LimitSeries {
        self.limits.get(limit).unwrap_or(if limit == OVERRIDE { &self.own } else { &self.elsewhere })
    }
}

impl NamespaceSeries {
    /// The series of a mechanism of the overload plane.
    fn mechanism(&self, name: &str) -> Option<&LimitSeries> {
        let position = MECHANISMS.iter().position(|known| *known == name)?;
        let LimitSeries { labels, families, .. } = &self.elsewhere;
        let create = || Box::new(MECHANISMS.map(|name| families.limit(&labels.namespace, name)));
        Some(&self.mechanisms.get_or_init(create)[position])
    }
}

impl LimitSeries {
    /// Counts requests that were admitted.
    pub(crate) fn admitted(&self, count: u64, protocol: Protocol) {
        let create = || self.families.decisions.get_or_create(&self.decision(None, protocol)).clone();
        self.protocol(protocol).admitted.get_or_init(create).inc_by(count);
    }

    /// Counts one that was refused.
    pub(crate) fn refused(&self, reason: Reason, protocol: Protocol) {
        let create = || self.families.decisions.get_or_create(&self.decision(Some(reason), protocol)).clone();
        self.protocol(protocol).refused[reason as usize].get_or_init(create).inc();
    }

    fn near(&self) -> &Counter {
        self.near.get_or_init(|| self.families.near.get_or_create(&self.labels).clone())
    }

    fn shadow(&self) -> &Counter {
        self.shadow.get_or_init(|| self.families.shadow.get_or_create(&self.labels).clone())
    }

    fn protocol(&self, protocol: Protocol) -> &ProtocolSeries {
        self.protocols[protocol as usize].get_or_init(Box::default)
    }

    fn decision(&self, reason: Option<Reason>, protocol: Protocol) -> DecisionLabels {
        DecisionLabels {
            namespace: Arc::clone(&self.labels.namespace),
            limit: Arc::clone(&self.labels.limit),
            decision: if reason.is_some() { "refuse" } else { "admit" },
            reason: reason.map_or("", Reason::as_str),
            protocol: protocol.as_str(),
        }
    }

    /// Takes its series off the page, of refusals those for the reasons that `is_gone` names.
    fn remove(&self, is_gone: impl Fn(Reason) -> bool) {
        self.families.near.remove(&self.labels);
        self.families.shadow.remove(&self.labels);
        for protocol in Protocol::ALL {
            for reason in Reason::ALL.into_iter().filter(|one| is_gone(*one)).map(Some).chain([None]) {
                self.families.decisions.remove(&self.decision(reason, protocol));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::iter;

    use tidegate_core::refusal::ScopeValues;
    use tidegate_core::{Refusal, Retry, Violated};

    use super::*;

    #[test]
    fn issue_39_a_removed_limit_named_as_a_mechanism_leaves_the_series_of_the_mechanism() {
        let families = LimitFamilies::default();
        let before = families.table(iter::once(("api", iter::once("queue"))));
        let refuse = |table: &NamespaceTable, reason| {
            let (name, retry) = ("queue".into(), Retry::Backoff);
            let violated = Violated { name, reason, retry, limit: 1, remaining: 0, window: None };
            table.refused(&Refusal::new("api", ScopeValues::new(), violated).view(), Protocol::Http);
        };
        refuse(&before, Reason::QueueFull);
        refuse(&before, Reason::RateExceeded);
        let after = before.replaced_by(iter::once(("api", iter::empty())));
        refuse(&after, Reason::QueueFull);
        let series = families.limit(&"api".into(), "queue");
        let count =
            |reason| families.decisions.get_or_create(&series.decision(Some(reason), Protocol::Http)).get();
        assert_eq!((count(Reason::QueueFull), count(Reason::RateExceeded)), (2, 0));
    }
}
