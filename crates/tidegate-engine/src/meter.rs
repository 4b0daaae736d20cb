//! The meter: the use of requests by namespace, tenant, feature and resource, in rows that add up.
//!
//! A request is offered once and has one outcome. It counts in four rows: for its namespace,
//! tenant, feature and resource, each by class. The rows of each kind add up to the total: there
//! are rows for requests that name no tenant, no feature or no resource, and for all that have no
//! row of their own. `offered = sum of outcomes + under way` holds in every row at every instant;
//! between threads that count, rows of different kinds differ by at most what those threads are
//! counting.
//!
//! Tenants are tracked in a bounded number of rows (`tenant_census.rs`). A row that makes room is
//! added to `other` of its namespace, with all that is counted of its requests later: sums never
//! fall. A tenant that comes back begins a new row.
//!
//! A thread finds the rows of a request in a cache of its own (`thread_cache.rs`), and counts
//! beside them (`row_combination.rs`); rows get the counts when somebody reads. So threads write no
//! cache line together.

mod account;
mod combination_list;
mod in_flight_sum;
mod metered_rows;
mod names_key;
mod resource_shares;
mod row_columns;
mod row_combination;
mod rows_link;
mod second_order;
mod tally;
mod tenant_census;
mod tenant_row;
mod thread_cache;
mod usage;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::{Class, Timestamp};
use tidegate_overload::SpanEnd;

pub(crate) use account::{MeterAccount, OpenMeterAccount, PermitAccount};
use combination_list::CombinationList;
use in_flight_sum::ShareLook;
use metered_rows::TenantPart;
pub(crate) use metered_rows::{
    DecidedRequest, FeatureRow, MeteredRows, NamespaceRow, Offer, RequestNames, ResourceRow, RowsKey,
};
use names_key::{BaseKey, NamesKey, SPREAD};
pub use resource_shares::{ResourceShare, ResourceWork};
use row_columns::{REPEATED, RowAmount, UNDER_WAY};
use row_combination::BaseRows;
pub(crate) use row_combination::OwnCombination;
use row_combination::RowCombination;
pub(crate) use rows_link::RowsLink;
use second_order::SecondOrder;
use tally::{NamedTallies, NamespaceTallies, NamespaceTally, Tally};
use tenant_census::TenantCensus;
use tenant_row::TenantRow;
pub use usage::{NamespaceUsage, RowName, RowUsage, TenantUsage, Usage};

use crate::sync::lock_plain;

/// The settings of the meter.
///
/// ```
/// # use tidegate_engine::MeterConfig;
/// assert_eq!(MeterConfig::default().tenants, 10_000);
/// assert_eq!(MeterConfig::new(500).tenants, 500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeterConfig {
    /// How many tenants of all namespaces have rows of their own, 0 to
    /// [`MeterConfig::TENANTS_MAX`]; 10 000 by default. Each takes up to 1 100 bytes. With 0, all
    /// tenants count in `other` of their namespace. A larger number is taken for the largest.
    pub tenants: u32,
}

impl MeterConfig {
    /// The most features that have rows of their own.
    pub const FEATURES_MAX: usize = 1000;
    /// The most tenants that have rows of their own.
    pub const TENANTS_MAX: u32 = 1_000_000;

    /// A meter that tracks so many tenants.
    pub const fn new(tenants: u32) -> Self {
        Self { tenants }
    }
}

impl Default for MeterConfig {
    fn default() -> Self {
        Self::new(10_000)
    }
}

/// A number that no other meter of the process has, and no list of features of one: not zero, and
/// with few bits in common with others.
pub(crate) fn next_list_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: a number, ordered with nothing.
    NEXT.fetch_add(1, Ordering::Relaxed).wrapping_mul(SPREAD)
}

/// The meter of one engine.
#[derive(Debug)]
pub(crate) struct UsageMeter {
    /// See [`next_list_number`].
    number: u64,
    combinations: CombinationList,
    seconds: SecondOrder,
    census: TenantCensus,
    namespaces: NamespaceTallies,
    features: NamedTallies,
    resources: NamedTallies,
    since: Timestamp,
    /// Since when the shares of resources are counted; `None` before the first look at them.
    looked_at: Mutex<Option<Timestamp>>,
}

impl UsageMeter {
    /// An empty meter. The seed makes the places of names in tables unpredictable.
    pub(crate) fn new(config: MeterConfig, seed: [u64; 4], now: Timestamp) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[3], seed[2], !seed[1], seed[0]);
        Self {
            number: next_list_number(),
            combinations: CombinationList::default(),
            seconds: SecondOrder::new(now),
            census: TenantCensus::new(config.tenants.min(MeterConfig::TENANTS_MAX), seed),
            namespaces: NamespaceTallies::new(seed[0], now),
            features: NamedTallies::new(hasher.clone(), now),
            resources: NamedTallies::new(hasher, now),
            since: now,
            looked_at: Mutex::default(),
        }
    }

    /// The row of a namespace, made where it is absent. Called when an engine is built or reloaded.
    ///
    /// No row is ever removed: a namespace that a reload takes away and another one brings back
    /// goes on in its row. So 65 534 namespaces have a row; all further ones share
    /// [`RowName::Other`].
    pub(crate) fn namespace(&self, name: &str, now: Timestamp) -> NamespaceRow {
        NamespaceRow::new(self.namespaces.number(name, now))
    }

    /// The row of a feature that is listed, made where it is absent. 10 000 names have a row; all
    /// further ones share [`RowName::Other`], which is [`FeatureRow::OTHER`].
    pub(crate) fn feature(&self, name: &str, now: Timestamp) -> FeatureRow {
        FeatureRow::new(self.features.number(name, now))
    }

    /// The row of a resource, made where it is absent; bounded as features are.
    pub(crate) fn resource(&self, name: Option<&str>, now: Timestamp) -> ResourceRow {
        let Some(name) = name else { return ResourceRow::NONE };
        let row = ResourceRow::new(self.resources.number(name, now));
        if lock_plain(&self.looked_at).is_some() {
            self.resources.row(row.number()).begin_shares();
        }
        row
    }

    /// Counts a request that is offered and decided at once.
    pub(crate) fn decided(
        &self,
        subject: &MeteredRows<'_>,
        decided: DecidedRequest,
        now: Timestamp,
    ) -> MeterAccount {
        self.with_rows(subject, now, |key, rows| {
            rows.count_decided(decided);
            account(key, rows)
        })
    }

    /// [`Self::decided`] of a request without names.
    pub(crate) fn decided_base(&self, key: RowsKey, decided: DecidedRequest) -> MeterAccount {
        self.with_base(key, |rows| {
            rows.count_decided(decided);
            account(key, rows)
        })
    }

    /// Counts a request without names if this thread has used its rows lately and no sum comes to
    /// its end; otherwise nothing is counted, and it is false.
    #[inline]
    pub(crate) fn count_lately_used(&self, rows: RowsKey, decided: DecidedRequest) -> bool {
        thread_cache::base(self.base_key(rows), |rows| rows.count_small(decided)) == Some(true)
    }

    /// Counts a request that is offered and has to wait. It is under way until its account is
    /// decided; however often it asks meanwhile, it is offered once.
    pub(crate) fn offered(
        &self,
        subject: &MeteredRows<'_>,
        offer: Offer,
        now: Timestamp,
    ) -> OpenMeterAccount {
        self.with_rows(subject, now, |_, rows| {
            rows.count(UNDER_WAY, 1);
            rows.count(REPEATED, u64::from(offer.is_repeated));
            OpenMeterAccount::new(Arc::clone(rows.shared()), 0)
        })
    }

    /// Counts units that are reported without a request to admit. The tenant is tracked as one that
    /// makes a request.
    pub(crate) fn report(&self, subject: &MeteredRows<'_>, units: u64, now: Timestamp) {
        self.with_rows(subject, now, |_, rows| rows.add(RowAmount::Reported, units));
    }

    /// Counts units that are refunded. The tenant is tracked as one that makes a request.
    pub(crate) fn refund(&self, subject: &MeteredRows<'_>, units: u64, now: Timestamp) {
        self.with_rows(subject, now, |_, rows| rows.add(RowAmount::Refunded, units));
    }

    /// Counts requests that an Envoy reports as admitted and as denied. They are not offered. The
    /// tenant is tracked as one that makes a request.
    pub(crate) fn report_decided(
        &self,
        subject: &MeteredRows<'_>,
        (admitted, denied): (u64, u64),
        now: Timestamp,
    ) {
        self.with_rows(subject, now, |_, rows| {
            rows.add(RowAmount::ReportedAdmitted, admitted);
            rows.add(RowAmount::ReportedDenied, denied);
        });
    }

    /// An admitted request is settled: it was charged `charged` units and took `true_units`, or
    /// nobody says how many. Its work was in flight for so long.
    pub(crate) fn settle(
        &self,
        account: &PermitAccount,
        (true_units, charged): (Option<u64>, u64),
        place_time: Duration,
    ) {
        let true_units = true_units.unwrap_or(charged);
        self.with_account(account, |rows| rows.settle(true_units, charged, place_time));
        if let PermitAccount::Account(account) = account {
            account.serve();
        }
    }

    /// The admission of a request is undone: it is cancelled, and its `units` are not used.
    pub(crate) fn undo(&self, account: &PermitAccount, units: u64) {
        self.with_account(account, |rows| rows.undo(units));
    }

    fn with_account(&self, account: &PermitAccount, act: impl Fn(&RowCombination)) {
        match account {
            PermitAccount::Link(link) => self.with_link(link, act),
            PermitAccount::Account(account) => match account.rows() {
                Ok(rows) => act(rows),
                Err(key) => self.with_base(key, |rows| act(rows)),
            },
        }
    }

    /// Lets `act` have the rows that a request has counted in, in this thread or in another one.
    fn with_link(&self, link: &RowsLink, act: impl Fn(&RowCombination)) {
        let Some((hash, number)) = link.tenant() else {
            return self.with_base(link.rows(), |rows| act(rows));
        };
        if thread_cache::named(link.key(), |rows| rows.link() == *link, |rows| act(rows)).is_some() {
            return;
        }
        let base = self.with_base(link.rows(), OwnCombination::clone);
        match self.census.find_numbered(hash, number) {
            Some(row) => act(&self.make_tenant(link.key(), row, &base)),
            None => act(&RowCombination::from_evicted(Arc::clone(base.shared()))),
        }
    }

    /// Lets `act` have the rows that a request without names counts in.
    #[inline]
    pub(crate) fn with_base<T>(&self, rows: RowsKey, act: impl Fn(&OwnCombination) -> T) -> T {
        match thread_cache::base(self.base_key(rows), &act) {
            Some(done) => done,
            None => act(&self.make_base(rows)),
        }
    }

    /// Lets `act` have the rows that a request counts in, with their key.
    pub(crate) fn with_rows<T>(
        &self,
        subject: &MeteredRows<'_>,
        now: Timestamp,
        act: impl Fn(RowsKey, &OwnCombination) -> T,
    ) -> T {
        let part = match subject.tenant {
            None => TenantPart::Absent,
            Some(_) if self.census.has_places() => TenantPart::Tracked,
            Some(_) => TenantPart::Other,
        };
        let rows = subject.key(part);
        if part != TenantPart::Tracked {
            return self.with_base(rows, |base| act(rows, base));
        }
        let names = RequestNames { tenant: subject.tenant, feature: None };
        let key = self.names_key(self.number, rows, &names);
        match self.with_names(key, now, |found| act(rows, found)) {
            Some(done) => done,
            None => act(rows, &self.make_names(key, subject, now)),
        }
    }

    /// The key of rows of a request with names. The number is that of a list of features if the
    /// feature is named, else that of the meter.
    #[inline]
    pub(crate) fn names_key(&self, list: u64, rows: RowsKey, names: &RequestNames<'_>) -> NamesKey {
        let hash = self.census.names.hash_of(names.tenant, names.feature);
        NamesKey::new(hash, BaseKey { list, rows: rows.with_names(names) })
    }

    /// Lets `act` have the rows of a request with names; `None` where its thread has not used them
    /// lately.
    #[inline]
    pub(crate) fn with_names<T>(
        &self,
        key: NamesKey,
        now: Timestamp,
        act: impl FnOnce(&OwnCombination) -> T,
    ) -> Option<T> {
        let second = self.seconds.number(now);
        thread_cache::named(key, |rows| rows.is_used_in(second), act)
    }

    /// The rows of a request with names, which its thread keeps under this key.
    #[cold]
    pub(crate) fn make_names(
        &self,
        key: NamesKey,
        subject: &MeteredRows<'_>,
        now: Timestamp,
    ) -> OwnCombination {
        let base = |part| self.with_base(subject.key(part), OwnCombination::clone);
        let combination = match subject.tenant {
            None => base(TenantPart::Absent),
            Some(_) if !self.census.has_places() => base(TenantPart::Other),
            Some(tenant) => {
                let name = self.census.names.name(subject.namespace.number(), tenant);
                let base = base(TenantPart::Tracked);
                let second = self.seconds.number(now);
                let row = self.census.row(&name, base.namespace(), self.namespaces.count(), second, now);
                return self.make_tenant(key, row, &base);
            }
        };
        thread_cache::keep_named(key, &combination);
        combination
    }

    /// The rows of `base` with that of a tenant, which this thread keeps under this key.
    #[cold]
    fn make_tenant(&self, key: NamesKey, row: Arc<TenantRow>, base: &OwnCombination) -> OwnCombination {
        let base = Arc::clone(base.shared());
        let combination = OwnCombination::new(RowCombination::from_tenant(key, row, base));
        self.combinations.add(combination.shared());
        thread_cache::keep_named(key, &combination);
        combination
    }

    #[inline]
    const fn base_key(&self, rows: RowsKey) -> BaseKey {
        BaseKey { list: self.number, rows: rows.get() }
    }

    #[cold]
    fn make_base(&self, key: RowsKey) -> OwnCombination {
        let rows = BaseRows {
            part: key.part(),
            namespace: self.namespaces.row(key.namespace()),
            feature: self.features.row(key.feature()),
            resource: self.resources.row(key.resource()),
        };
        let combination = OwnCombination::new(RowCombination::from_base(key, rows));
        self.combinations.add(combination.shared());
        thread_cache::keep_base(self.base_key(key), &combination);
        combination
    }

    /// The number of a namespace that has a row; that of those which no policy has for others.
    pub(crate) fn known_namespace(&self, name: &str) -> NamespaceRow {
        NamespaceRow::new(self.namespaces.known(name))
    }

    /// The second in which a request came last.
    pub(crate) fn latest(&self) -> Timestamp {
        self.seconds.start()
    }

    /// When the meter began to count.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// The usage of every namespace that has a row.
    pub(crate) fn usage(&self) -> Vec<NamespaceUsage> {
        self.flush();
        self.namespaces.all().iter().map(|row| self.namespace_report(row)).collect()
    }

    /// The usage of a namespace; `None` if it has no row of its own.
    pub(crate) fn namespace_usage(&self, name: &str) -> Option<NamespaceUsage> {
        self.flush();
        self.namespaces.find(name).map(|row| self.namespace_report(&row))
    }

    /// The usage of a namespace and of each of its tracked tenants, in no order. The parts are of
    /// one instant: no tenant is evicted between them.
    pub(crate) fn tenants_usage(&self, name: &str) -> Option<(NamespaceUsage, Vec<TenantUsage>)> {
        self.flush();
        let namespace = self.namespaces.find(name)?;
        Some(self.census.read(namespace.number, |rows| {
            let tenants: Vec<TenantUsage> = rows.map(|row| tenant_report(row)).collect();
            (namespace_report(&namespace, tenants.len()), tenants)
        }))
    }

    /// The usage of a tenant; `None` if it is not tracked.
    pub(crate) fn tenant_usage(&self, namespace: &str, tenant: &str) -> Option<TenantUsage> {
        self.flush();
        let namespace = self.namespaces.find(namespace)?;
        let row = self.census.find(&self.census.names.name(namespace.number, tenant))?;
        Some(tenant_report(&row))
    }

    /// The usage of every feature that has a row.
    pub(crate) fn features_usage(&self) -> Vec<RowUsage> {
        self.flush();
        self.features.all().iter().map(|row| row_report(row)).collect()
    }

    /// The usage of every resource that has a row.
    pub(crate) fn resources_usage(&self) -> Vec<RowUsage> {
        self.flush();
        self.resources.all().iter().map(|row| row_report(row)).collect()
    }

    /// The work of each resource with a name since the last call; the first one begins to count.
    pub(crate) fn take_work(&self, end: SpanEnd) -> Vec<ResourceWork> {
        // One look at a time: each ends the span of the one before.
        let mut looked_at = lock_plain(&self.looked_at);
        let before = looked_at.replace(end.next_from);
        let look = ShareLook { from: before.unwrap_or(end.until), end };
        let resources = self.resources.all();
        if before.is_none() {
            for row in &resources {
                row.begin_shares();
            }
        }
        self.combinations.flush_at(&look);
        let work = |row: &Arc<Tally>| {
            let (mut shares, bytes) = row.take_shares(&look);
            if before.is_none() {
                shares.clear();
            }
            match &row.name {
                RowName::Named(name) => Some(ResourceWork { resource: Arc::clone(name), shares, bytes }),
                RowName::None | RowName::Other => None,
            }
        };
        resources.iter().filter_map(work).collect()
    }

    /// The bytes of all rows, and of what threads have counted since they were read.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.namespaces.bytes() + self.features.bytes() + self.resources.bytes();
        size_of::<Self>() + rows + self.census.bytes() + self.combinations.bytes()
    }

    fn namespace_report(&self, row: &NamespaceTally) -> NamespaceUsage {
        self.census.read(row.number, |tenants| namespace_report(row, tenants.len()))
    }

    /// Lets the rows have all that was counted so far.
    fn flush(&self) {
        self.combinations.flush();
    }
}

#[inline]
fn account(key: RowsKey, rows: &OwnCombination) -> MeterAccount {
    if key.is_enough() { MeterAccount::of_key(key) } else { MeterAccount::of_rows(Arc::clone(rows.shared())) }
}

fn namespace_report(row: &NamespaceTally, tenants: usize) -> NamespaceUsage {
    row.read(|columns| {
        let [classes, no_tenant, other] = [&columns.total, &columns.no_tenant, &columns.other]
            .map(|part| Class::ALL.map(|class| Usage::from(part.of_class(class))));
        NamespaceUsage { name: row.name.clone(), since: row.since, classes, no_tenant, other, tenants }
    })
}

fn tenant_report(row: &TenantRow) -> TenantUsage {
    let (is_cut, since) = (row.is_cut(), row.since);
    TenantUsage { name: row.shown().into(), is_cut, since, classes: row.read().map(Usage::from) }
}

fn row_report(row: &Tally) -> RowUsage {
    RowUsage { name: row.name.clone(), since: row.since, classes: row.read().map(Usage::from) }
}
