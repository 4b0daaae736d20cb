//! Tests of the meter, each of them against sums that share no code with it.

mod bounds;
#[cfg(tidegate_planted_faults)]
mod faults;
mod model;
mod parallel;
mod rows;

use core::time::Duration;

use tidegate_core::{Class, RequestOutcome, Timestamp};

use super::{
    DecidedRequest, FeatureRow, MeterAccount, MeterConfig, MeteredRows, NamespaceRow, NamespaceUsage, Offer,
    ResourceRow, Usage, UsageMeter,
};

const START: Timestamp = Timestamp::from_secs(1_800_000_000);

impl UsageMeter {
    /// Counts a request that is offered and decided at once, with its `units`.
    fn decide(
        &self,
        subject: &MeteredRows<'_>,
        offer: Offer,
        outcome: RequestOutcome,
        units: u64,
        now: Timestamp,
    ) -> MeterAccount {
        self.decided(subject, DecidedRequest { outcome, units, is_repeated: offer.is_repeated }, now)
    }

    /// Settles a request that took no time.
    fn settle_units(&self, account: &MeterAccount, true_units: Option<u64>, charged: u64) {
        self.settle(account, (true_units, charged), Duration::ZERO);
    }
}

fn meter(tenants: u32) -> UsageMeter {
    UsageMeter::new(MeterConfig::new(tenants), [1, 2, 3, 4], START)
}

/// A request of a namespace without anything else.
fn of_namespace(namespace: NamespaceRow) -> MeteredRows<'static> {
    let (feature, resource) = (FeatureRow::NONE, ResourceRow::NONE);
    MeteredRows { namespace, tenant: None, class: Class::Critical, feature, resource }
}

fn of_tenant(namespace: NamespaceRow, tenant: &str) -> MeteredRows<'_> {
    MeteredRows { tenant: Some(tenant), ..of_namespace(namespace) }
}

fn total(usage: &NamespaceUsage) -> Usage {
    Usage::sum(&usage.classes)
}

/// The total of all tenants of a namespace, tracked or not, and of requests without one.
fn total_of_tenants(meter: &UsageMeter, namespace: &str) -> Usage {
    let (usage, tenants) = meter.tenants_usage(namespace).expect("the namespace has a row");
    let tracked = tenants.iter().flat_map(|tenant| &tenant.classes);
    Usage::sum(usage.no_tenant.iter().chain(&usage.other).chain(tracked))
}
