//! The rows that some requests count in, with what was counted and no row has yet.

mod own_sums;

use core::marker::PhantomData;
use core::ops::Deref;
use core::time::Duration;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::{Class, RequestOutcome};

use own_sums::OwnSums;

use super::in_flight_sum::{InFlightSums, InFlightWork, ShareLook};
use super::metered_rows::{DecidedRequest, RowsKey, TenantPart};
use super::names_key::NamesKey;
use super::row_columns::{COUNTS, LARGE, RowAmount, RowColumns};
use super::rows_link::RowsLink;
use super::tally::{NamespaceTally, Tally};
use super::tenant_row::TenantRow;
use super::usage::RowName;
use crate::sync::lock_plain;

/// The rows that some requests count in, and what was counted since the last flush.
///
/// The thread that made the combination finds it in its cache, so the counts share no cache line
/// with those of another thread. That thread counts decided requests in sums of its own, without a
/// locked instruction: see [`OwnCombination`]. Later facts about these requests, which any thread
/// may add, are in `counts` and `amounts`. The rows get both when somebody reads, and when nobody
/// has the combination any more.
#[derive(Debug)]
pub(crate) struct RowCombination {
    link: RowsLink,
    rows: CombinedRows,
    /// The decided requests that the thread of the combination has counted since it made it.
    own: OwnSums,
    /// The later facts that no row has yet, less what the rows have of `own`; modulo 2^64.
    ///
    /// Additions release and a flush acquires. So a flush that sees an admission undone sees the
    /// admission, which came before in `own`.
    counts: [AtomicU64; COUNTS],
    /// As `counts`. Relaxed: an amount is added once and taken once, and publishes nothing else.
    amounts: [AtomicU64; RowAmount::COUNT],
    /// Held while the rows get what was counted: so they get a later sum after an earlier one.
    flushing: Mutex<()>,
    /// Its requests that are in flight. No row gets them.
    pub(crate) in_flight: InFlightSums,
}

#[derive(Debug)]
enum CombinedRows {
    Base(BaseRows),
    Tenant {
        row: Arc<TenantRow>,
        /// The combination without the tenant: so the rows that many tenants share are written
        /// seldom.
        base: Arc<RowCombination>,
    },
    /// Of a tenant whose row was evicted.
    Evicted {
        base: Arc<RowCombination>,
    },
}

/// The rows of a combination but for a tenant's.
#[derive(Debug)]
pub(crate) struct BaseRows {
    pub(crate) part: TenantPart,
    pub(crate) namespace: Arc<NamespaceTally>,
    pub(crate) feature: Arc<Tally>,
    pub(crate) resource: Arc<Tally>,
}

impl RowCombination {
    /// A combination without a tenant's row.
    pub(crate) fn from_base(key: RowsKey, rows: BaseRows) -> Self {
        Self::new(RowsLink::of_base(key), CombinedRows::Base(rows))
    }

    /// The combination `base` with the row of a tenant, which a thread keeps under this key.
    pub(crate) fn from_tenant(key: NamesKey, row: Arc<TenantRow>, base: Arc<Self>) -> Self {
        Self::new(base.link.with_tenant(key, &row), CombinedRows::Tenant { row, base })
    }

    /// The combination `base` with the row of a tenant that was evicted. No cache keeps it.
    pub(crate) fn from_evicted(base: Arc<Self>) -> Self {
        Self::new(base.link, CombinedRows::Evicted { base })
    }

    fn new(link: RowsLink, rows: CombinedRows) -> Self {
        let (own, counts, amounts, flushing, in_flight) = Default::default();
        Self { link, rows, own, counts, amounts, flushing, in_flight }
    }

    /// The numbers by which it is found again.
    #[inline]
    pub(crate) const fn link(&self) -> RowsLink {
        self.link
    }

    const fn class(&self) -> Class {
        self.link.rows().class()
    }

    /// Whether its rows still count; that of a tenant is then used in this second.
    #[inline]
    pub(crate) fn is_used_in(&self, second: u32) -> bool {
        match &self.rows {
            CombinedRows::Tenant { row, .. } => row.is_used_in(second),
            CombinedRows::Base(_) | CombinedRows::Evicted { .. } => true,
        }
    }

    /// Whether the row of a tenant is among its rows.
    pub(crate) fn has_tenant(&self) -> bool {
        matches!(self.rows, CombinedRows::Tenant { .. })
    }

    /// Whether the requests are for a resource.
    pub(crate) fn needs_resource(&self) -> bool {
        self.base().resource.name != RowName::None
    }

    fn base(&self) -> &BaseRows {
        match &self.rows {
            CombinedRows::Base(rows) => rows,
            CombinedRows::Tenant { base, .. } | CombinedRows::Evicted { base } => base.base(),
        }
    }

    /// Lets the shares of its resource have the requests that are in flight at a look.
    pub(crate) fn show_in_flight(&self, look: &ShareLook) {
        if !self.needs_resource() {
            return;
        }
        let seen = self.in_flight.look(look);
        if seen != InFlightWork::default() {
            let rows = self.base();
            rows.resource.add_in_flight((&rows.feature.name, &rows.namespace.name), self.class(), seen);
        }
    }

    /// The namespace of the requests.
    pub(crate) fn namespace(&self) -> &Arc<NamespaceTally> {
        &self.base().namespace
    }

    /// Adds to the count at this position; modulo 2^64.
    #[inline]
    pub(crate) fn count(&self, position: usize, more: u64) {
        self.counts[position].fetch_add(more, Ordering::Release);
    }

    /// Adds to an amount, which saturates.
    #[inline]
    pub(crate) fn add(&self, amount: RowAmount, more: u64) {
        if more >= LARGE {
            return self.add_large(amount, more);
        }
        if self.add_below_large(amount as usize, more) {
            self.flush();
        }
    }

    /// Adds less than [`LARGE`] to an amount. Whether the sum is so large that it is to be flushed.
    #[inline]
    fn add_below_large(&self, amount: usize, more: u64) -> bool {
        let before = self.amounts[amount].fetch_add(more, Ordering::Relaxed);
        before.wrapping_add(self.own.amount(amount)) >= LARGE
    }

    /// An admitted request is settled: it was charged `charged` units and took `true_units`. Its
    /// work was in flight for so long.
    pub(crate) fn settle(&self, true_units: u64, charged: u64, place_time: Duration) {
        self.add(RowAmount::TrueUnits, true_units);
        if true_units > charged {
            self.add(RowAmount::SettledMore, true_units - charged);
        } else if charged > true_units {
            self.add(RowAmount::SettledLess, charged - true_units);
        }
        self.add(RowAmount::PlaceTime, nanos(place_time));
    }

    /// An admission is undone: it is cancelled, and its `units` are not used.
    pub(crate) fn undo(&self, units: u64) {
        self.count(RequestOutcome::Admitted.index(), 1_u64.wrapping_neg());
        self.count(RequestOutcome::Cancelled.index(), 1);
        self.add(RowAmount::UnitsUndone, units);
    }

    /// Adds the units of a request with this outcome.
    #[inline]
    pub(crate) fn add_units(&self, outcome: RequestOutcome, units: u64) {
        if let Some(amount) = RowAmount::of_outcome(outcome) {
            self.add(amount, units);
        }
    }

    #[cold]
    fn add_large(&self, amount: RowAmount, more: u64) {
        let mut columns = RowColumns::default();
        columns.amounts[amount as usize] = more;
        self.deliver(&columns);
    }

    /// Adds what was counted to the rows.
    #[cold]
    pub(crate) fn flush(&self) {
        let _only_me = lock_plain(&self.flushing);
        let mut columns = RowColumns::default();
        for (position, (count, sum)) in columns.counts.iter_mut().zip(&self.counts).enumerate() {
            *count = take(sum, || self.own.count(position));
        }
        for (position, (amount, sum)) in columns.amounts.iter_mut().zip(&self.amounts).enumerate() {
            *amount = take(sum, || self.own.amount(position));
        }
        if columns != RowColumns::default() {
            self.deliver(&columns);
        }
    }

    fn deliver(&self, columns: &RowColumns) {
        match &self.rows {
            CombinedRows::Base(rows) => {
                rows.namespace.add(rows.part, self.class(), columns);
                rows.feature.add(self.class(), columns);
                let of = (&rows.feature.name, &rows.namespace.name);
                rows.resource.add_work(of, self.class(), columns);
            }
            CombinedRows::Tenant { row, base } => {
                row.add(self.class(), columns);
                base.absorb(columns);
            }
            CombinedRows::Evicted { base } => {
                self.namespace().add_evicted(self.class(), columns);
                base.absorb(columns);
            }
        }
    }

    fn absorb(&self, columns: &RowColumns) {
        for (position, more) in columns.counts.into_iter().enumerate() {
            if more != 0 {
                self.count(position, more);
            }
        }
        let mut large = RowColumns::default();
        let mut is_full = false;
        for (position, more) in columns.amounts.into_iter().enumerate() {
            if more >= LARGE {
                large.amounts[position] = more;
            } else if more != 0 {
                is_full |= self.add_below_large(position, more);
            }
        }
        if large != RowColumns::default() {
            self.deliver(&large);
        }
        if is_full {
            self.flush();
        }
    }
}

impl Drop for RowCombination {
    fn drop(&mut self) {
        self.flush();
    }
}

/// A combination in the hands of the thread that made it.
///
/// Only this type adds to [`OwnSums`], and neither it nor a copy of it ever leaves its thread: so
/// each of these sums has one writer. Other threads know the combination as an `Arc` of
/// [`RowCombination`], and add to its atomic sums.
#[derive(Clone, Debug)]
pub(crate) struct OwnCombination {
    combination: Arc<RowCombination>,
    /// Neither `Send` nor `Sync`.
    of_this_thread: PhantomData<Rc<()>>,
}

impl OwnCombination {
    /// The combination, which this thread has just made.
    pub(crate) fn new(combination: RowCombination) -> Self {
        Self { combination: Arc::new(combination), of_this_thread: PhantomData }
    }

    /// The same combination for all threads.
    #[inline]
    pub(crate) const fn shared(&self) -> &Arc<RowCombination> {
        &self.combination
    }

    /// Counts a request that is offered and decided at once.
    pub(crate) fn count_decided(&self, decided: DecidedRequest) {
        if !self.count_small(decided) {
            self.count_large(decided);
        }
    }

    /// The same where nothing is to be flushed by it; otherwise it counts nothing, and is false.
    #[inline]
    pub(crate) fn count_small(&self, decided: DecidedRequest) -> bool {
        self.own.add_small(decided)
    }

    #[cold]
    fn count_large(&self, decided: DecidedRequest) {
        self.own.add_request(decided);
        match RowAmount::of_outcome(decided.outcome) {
            Some(amount) if decided.units < LARGE => {
                self.own.add_units(amount, decided.units);
                self.flush();
            }
            Some(amount) => self.add(amount, decided.units),
            None => {}
        }
    }
}

impl Deref for OwnCombination {
    type Target = RowCombination;

    #[inline]
    fn deref(&self) -> &RowCombination {
        &self.combination
    }
}

/// Takes what was counted in a sum of later facts and in `own`, which stays as it is. For the
/// thread that is flushing.
fn take(sum: &AtomicU64, own: impl Fn() -> u64) -> u64 {
    let mut taken = 0;
    // `own` is read after the sum, and again if the sum has changed meanwhile.
    let unless_nothing = |later: u64| {
        let own = own();
        taken = later.wrapping_add(own);
        (taken != 0).then_some(own.wrapping_neg())
    };
    // Relaxed where it is written: that publishes nothing.
    let _nothing = sum.fetch_update(Ordering::Relaxed, Ordering::Acquire, unless_nothing);
    taken
}

/// Whole nanoseconds; more than 584 years are 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
