//! Tests of the meter, each of them against sums that share no code with it.

mod bounds;
#[cfg(tidegate_planted_faults)]
mod faults;
mod model;
mod parallel;
mod rows;

use tidegate_core::{Class, Timestamp};

use super::{FeatureRow, Meter, MeterConfig, NamespaceRow, NamespaceUsage, ResourceRow, Subject, Usage};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn meter(tenants: u32) -> Meter {
    Meter::new(MeterConfig::new(tenants), [1, 2, 3, 4], START)
}

/// A request of a namespace without anything else.
fn of_namespace(namespace: NamespaceRow) -> Subject<'static> {
    let (feature, resource) = (FeatureRow::NONE, ResourceRow::NONE);
    Subject { namespace, tenant: None, class: Class::Critical, feature, resource }
}

fn of_tenant(namespace: NamespaceRow, tenant: &str) -> Subject<'_> {
    Subject { tenant: Some(tenant), ..of_namespace(namespace) }
}

fn total(usage: &NamespaceUsage) -> Usage {
    Usage::sum(&usage.classes)
}

/// The total of all tenants of a namespace, tracked or not, and of requests without one.
fn total_of_tenants(meter: &Meter, namespace: &str) -> Usage {
    let (usage, tenants) = meter.tenants_usage(namespace).expect("the namespace has a row");
    let tracked = tenants.iter().flat_map(|tenant| &tenant.classes);
    Usage::sum(usage.no_tenant.iter().chain(&usage.other).chain(tracked))
}
