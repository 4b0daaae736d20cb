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
    PermitAccount, ResourceRow, Usage, UsageMeter,
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

    /// The same of a request that needs no resource, with the account that its permit has if only
    /// limits decide it.
    fn decide_by_limits(
        &self,
        subject: &MeteredRows<'_>,
        offer: Offer,
        outcome: RequestOutcome,
        units: u64,
        now: Timestamp,
    ) -> PermitAccount {
        assert_eq!(subject.resource, ResourceRow::NONE);
        let decided = DecidedRequest { outcome, units, is_repeated: offer.is_repeated };
        self.with_rows(subject, now, |_, rows| {
            rows.count_decided(decided);
            PermitAccount::Link(rows.link())
        })
    }

    /// Settles a request that took no time.
    fn settle_units(&self, account: &PermitAccount, true_units: Option<u64>, charged: u64) {
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
