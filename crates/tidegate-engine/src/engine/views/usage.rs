//! The use of namespaces, tenants, features and resources, as the meter has counted it.

use tidegate_core::Timestamp;
use tidegate_overload::SpanEnd;

use crate::engine::Engine;
use crate::meter::{NamespaceUsage, ResourceWork, RowUsage, TenantUsage};

/// All that was counted since the start of the meter, by each dimension. The rows of each add up to
/// the same total.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UsageReport {
    /// When the meter began to count.
    pub since: Timestamp,
    /// By namespace.
    pub namespaces: Vec<NamespaceUsage>,
    /// By feature.
    pub features: Vec<RowUsage>,
    /// By resource.
    pub resources: Vec<RowUsage>,
}

impl Engine {
    /// The use of all requests, without the rows of tenants; `None` without
    /// [metering](crate::EngineBuilder::metering).
    pub fn usage(&self) -> Option<UsageReport> {
        let meter = &self.metering()?.meter;
        Some(UsageReport {
            since: meter.since(),
            namespaces: meter.usage(),
            features: meter.features_usage(),
            resources: meter.resources_usage(),
        })
    }

    /// Whether the engine was built with [metering](crate::EngineBuilder::metering).
    pub fn is_metered(&self) -> bool {
        self.metering().is_some()
    }

    /// The use of a namespace; `None` without metering, and for a namespace that no policy had.
    pub fn namespace_usage(&self, namespace: &str) -> Option<NamespaceUsage> {
        self.metering()?.meter.namespace_usage(namespace)
    }

    /// The use of a namespace, and of each of its tracked tenants, in no order; `None`
    /// without metering, and for a namespace that no policy had.
    pub fn usage_of(&self, namespace: &str) -> Option<(NamespaceUsage, Vec<TenantUsage>)> {
        self.metering()?.meter.tenants_usage(namespace)
    }

    /// The use of a tenant; `None` without metering, and for a tenant that is not tracked.
    pub fn tenant_usage(&self, namespace: &str, tenant: &str) -> Option<TenantUsage> {
        self.metering()?.meter.tenant_usage(namespace, tenant)
    }

    /// The work that each resource did since the last call, by feature, namespace and class;
    /// nothing without metering. The first call begins to count it. One caller at a time has use
    /// for it.
    ///
    /// Requests in flight have worked until `end.until`; the rest of their work is of later spans.
    pub fn take_resource_work(&self, end: SpanEnd) -> Vec<ResourceWork> {
        self.metering().map_or_else(Vec::new, |metering| metering.meter.take_work(end))
    }

    /// The bytes that the meter takes; 0 without metering.
    pub fn metering_bytes(&self) -> usize {
        self.metering().map_or(0, |metering| metering.meter.bytes())
    }

    /// The same engine with other features that are counted apart. Those of before keep their rows.
    #[must_use]
    pub fn with_features<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut engine = self.with_same_planes();
        engine.set_features(names.into_iter());
        engine
    }
}
