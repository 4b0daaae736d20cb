//! The rows that some requests count in, with what one thread has counted and no row has yet.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_core::{Class, RequestOutcome};

use super::in_flight_sum::{InFlightSums, InFlightWork, ShareLook};
use super::metered_rows::{DecidedRequest, TenantPart};
use super::row_columns::{COUNTS, REPEATED, RowAmount, RowColumns};
use super::tally::{NamespaceTally, Tally};
use super::tenant_row::TenantRow;
use super::usage::RowName;
use crate::fault::Fault;

/// An amount from which on it is added to the rows at once, and a sum from which on it is flushed.
/// 255 threads may each add one more amount meanwhile.
const LARGE: u64 = 1 << 56;

/// The rows that some requests count in, and what was counted since the last flush.
///
/// One thread finds it in its cache, so the counts share no cache line with those of another
/// thread. Other threads add later facts about requests of that thread. The rows get the counts
/// when somebody reads, and when nobody has the combination any more.
///
/// The atomics are relaxed: a number is added once and taken once, and publishes nothing else.
#[derive(Debug)]
pub(crate) struct RowCombination {
    class: Class,
    rows: CombinedRows,
    counts: [AtomicU64; COUNTS],
    amounts: [AtomicU64; RowAmount::COUNT],
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
    pub(crate) fn from_base(class: Class, rows: BaseRows) -> Self {
        Self::new(class, CombinedRows::Base(rows))
    }

    /// The combination `base` with the row of a tenant.
    pub(crate) fn from_tenant(row: Arc<TenantRow>, base: Arc<Self>) -> Self {
        Self::new(base.class, CombinedRows::Tenant { row, base })
    }

    fn new(class: Class, rows: CombinedRows) -> Self {
        let (counts, amounts, in_flight) = Default::default();
        Self { class, rows, counts, amounts, in_flight }
    }

    /// Whether its rows still count; that of a tenant is then used in this second.
    #[inline]
    pub(crate) fn is_used_in(&self, second: u32) -> bool {
        match &self.rows {
            CombinedRows::Tenant { row, .. } => row.is_used_in(second),
            CombinedRows::Base(_) => true,
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
            CombinedRows::Tenant { base, .. } => base.base(),
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
            rows.resource.add_in_flight((&rows.feature.name, &rows.namespace.name), self.class, seen);
        }
    }

    /// The namespace of the requests.
    pub(crate) fn namespace(&self) -> &Arc<NamespaceTally> {
        match &self.rows {
            CombinedRows::Base(rows) => &rows.namespace,
            CombinedRows::Tenant { row, .. } => row.namespace(),
        }
    }

    /// Adds to the count at this position; modulo 2^64.
    #[inline]
    pub(crate) fn count(&self, position: usize, more: u64) {
        self.counts[position].fetch_add(more, Ordering::Relaxed);
    }

    /// Adds to an amount, which saturates.
    #[inline]
    pub(crate) fn add(&self, amount: RowAmount, more: u64) {
        if more >= LARGE {
            return self.add_large(amount, more);
        }
        let before = self.amounts[amount as usize].fetch_add(more, Ordering::Relaxed);
        if before >= LARGE {
            self.flush();
        }
    }

    /// Counts a request that is offered and decided at once.
    pub(crate) fn count_decided(&self, decided: DecidedRequest) {
        if !self.count_small(decided) {
            let DecidedRequest { outcome, units, is_repeated } = decided;
            self.count(REPEATED, u64::from(is_repeated));
            self.count(outcome.index(), 1);
            self.add_units(outcome, units);
        }
    }

    /// The same where no sum comes to its end by it; otherwise it counts nothing, and is false.
    #[inline]
    pub(crate) fn count_small(&self, decided: DecidedRequest) -> bool {
        let amount = if decided.outcome == RequestOutcome::Admitted {
            RowAmount::Units
        } else if decided.outcome.is_refusal() {
            RowAmount::RefusedUnits
        } else {
            return false;
        };
        let sum = &self.amounts[amount as usize];
        if (decided.units | sum.load(Ordering::Relaxed)) >= LARGE {
            return false;
        }
        if decided.is_repeated {
            self.count(REPEATED, 1);
        }
        self.count(decided.outcome.index(), 1);
        if Fault::OutcomeTwice.is_planted() {
            self.count(decided.outcome.index(), 1);
        }
        sum.fetch_add(decided.units, Ordering::Relaxed);
        true
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
        if outcome == RequestOutcome::Admitted {
            self.add(RowAmount::Units, units);
        } else if outcome.is_refusal() {
            self.add(RowAmount::RefusedUnits, units);
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
        let take = |counted: &AtomicU64| match counted.load(Ordering::Relaxed) {
            0 => 0,
            _ => counted.swap(0, Ordering::Relaxed),
        };
        let columns = RowColumns {
            counts: self.counts.each_ref().map(take),
            amounts: self.amounts.each_ref().map(take),
        };
        if columns != RowColumns::default() {
            self.deliver(&columns);
        }
    }

    fn deliver(&self, columns: &RowColumns) {
        match &self.rows {
            CombinedRows::Base(rows) => {
                rows.namespace.add(rows.part, self.class, columns);
                rows.feature.add(self.class, columns);
                let of = (&rows.feature.name, &rows.namespace.name);
                rows.resource.add_work(of, self.class, columns);
            }
            CombinedRows::Tenant { row, base } => {
                row.add(self.class, columns);
                base.absorb(columns);
            }
        }
    }

    fn absorb(&self, columns: &RowColumns) {
        for (count, more) in self.counts.iter().zip(columns.counts) {
            if more != 0 {
                count.fetch_add(more, Ordering::Relaxed);
            }
        }
        let mut large = RowColumns::default();
        let mut is_full = false;
        for (position, more) in columns.amounts.into_iter().enumerate() {
            if more >= LARGE {
                large.amounts[position] = more;
            } else if more != 0 {
                is_full |= self.amounts[position].fetch_add(more, Ordering::Relaxed) >= LARGE;
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

/// Whole nanoseconds; more than 584 years are 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
