//! The report of a meter: plain values that are summed and shown.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{RequestOutcome, Timestamp};

use super::row_columns::{REPEATED, RowAmount, RowColumns, UNDER_WAY};

/// The columns of a row, counted since the row began.
///
/// `offered = sum of outcomes + under way` always holds. Amounts saturate at `u64::MAX`, which is
/// marked by [`Usage::is_saturated`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Requests by outcome, in the order of [`RequestOutcome::ALL`].
    pub outcomes: [u64; RequestOutcome::ALL.len()],
    /// Requests that are offered and not decided: those that wait for a store, a lease or a place.
    pub under_way: u64,
    /// Of the requests that were offered, those that repeat an earlier attempt.
    pub repeated: u64,
    /// Units at admission, without those of admissions that were undone.
    pub units: u64,
    /// Units of refused requests: of all outcomes but admitted, failed and cancelled.
    pub refused_units: u64,
    /// Units of settled requests as they truly were.
    pub true_units: u64,
    /// The time that admitted requests were in flight, where the end of their work is known.
    pub place_time: Duration,
    /// The time that requests waited before they were decided.
    pub waited: Duration,
    /// Units that were reported without a request to admit.
    pub reported: u64,
    /// Units that were refunded.
    pub refunded: u64,
    /// Units that settlements added to what was charged.
    pub settled_more: u64,
    /// Units that settlements gave back of what was charged.
    pub settled_less: u64,
    /// Requests that Envoys admitted by their parts of limits, as they report. They are not
    /// offered, and have no outcome: nothing was decided here.
    pub reported_admitted: u64,
    /// Requests that Envoys denied, as [`Usage::reported_admitted`].
    pub reported_denied: u64,
    /// Whether an amount is `u64::MAX`: it may have been larger, and grows no more.
    pub is_saturated: bool,
}

impl Usage {
    /// The requests with this outcome.
    pub const fn outcome(&self, outcome: RequestOutcome) -> u64 {
        self.outcomes[outcome.index()]
    }

    /// The requests that were offered: those with an outcome, and those under way.
    pub fn offered(&self) -> u64 {
        self.outcomes.iter().fold(self.under_way, |sum, count| sum.saturating_add(*count))
    }

    /// Adds what another row, or the same row of another member, has counted; saturates.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.outcomes.iter_mut().zip(other.outcomes) {
            *count = count.saturating_add(more);
        }
        // As in the rows, counts of requests do not mark a sum as saturated.
        for (count, more) in [(&mut self.under_way, other.under_way), (&mut self.repeated, other.repeated)] {
            *count = count.saturating_add(more);
        }
        for (amount, more) in [
            (&mut self.units, other.units),
            (&mut self.refused_units, other.refused_units),
            (&mut self.true_units, other.true_units),
            (&mut self.reported, other.reported),
            (&mut self.refunded, other.refunded),
            (&mut self.settled_more, other.settled_more),
            (&mut self.settled_less, other.settled_less),
            (&mut self.reported_admitted, other.reported_admitted),
            (&mut self.reported_denied, other.reported_denied),
        ] {
            *amount = amount.saturating_add(more);
            self.is_saturated |= *amount == u64::MAX;
        }
        self.place_time = self.place_time.saturating_add(other.place_time);
        self.waited = self.waited.saturating_add(other.waited);
        self.is_saturated |= other.is_saturated;
    }

    /// The sum of some rows.
    pub fn sum<'a>(rows: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        rows.into_iter().for_each(|row| sum.add(row));
        sum
    }
}

impl From<RowColumns> for Usage {
    fn from(columns: RowColumns) -> Self {
        let mut outcomes = [0; RequestOutcome::ALL.len()];
        for (outcome, count) in outcomes.iter_mut().zip(columns.counts) {
            // Where one thread admits a request and another undoes the admission, a reader may see
            // the second without the first.
            *outcome = if count.cast_signed() < 0 { 0 } else { count };
        }
        let units = columns.amount(RowAmount::Units);
        Self {
            outcomes,
            under_way: columns.counts[UNDER_WAY],
            repeated: columns.counts[REPEATED],
            // Beyond the end of the scale it is not known how much is left of it.
            units: match units {
                u64::MAX => units,
                _ => units.saturating_sub(columns.amount(RowAmount::UnitsUndone)),
            },
            refused_units: columns.amount(RowAmount::RefusedUnits),
            true_units: columns.amount(RowAmount::TrueUnits),
            place_time: Duration::from_nanos(columns.amount(RowAmount::PlaceTime)),
            waited: Duration::from_nanos(columns.amount(RowAmount::Wait)),
            reported: columns.amount(RowAmount::Reported),
            refunded: columns.amount(RowAmount::Refunded),
            settled_more: columns.amount(RowAmount::SettledMore),
            settled_less: columns.amount(RowAmount::SettledLess),
            reported_admitted: columns.amount(RowAmount::ReportedAdmitted),
            reported_denied: columns.amount(RowAmount::ReportedDenied),
            is_saturated: columns.amounts.contains(&u64::MAX),
        }
    }
}

/// The name of a row of namespaces, features or resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowName {
    /// One name.
    Named(Arc<str>),
    /// Requests that name no feature, that need no resource, or whose namespace no policy has.
    None,
    /// All names that have no row of their own.
    Other,
}

/// The usage of a feature or of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RowUsage {
    /// Its name.
    pub name: RowName,
    /// When its row began.
    pub since: Timestamp,
    /// Its columns by class, in the order of [`Class::ALL`](tidegate_core::Class::ALL).
    pub classes: [Usage; 4],
}

/// The usage of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespaceUsage {
    /// Its name.
    pub name: RowName,
    /// When its row began.
    pub since: Timestamp,
    /// Its columns by class, in the order of [`Class::ALL`](tidegate_core::Class::ALL).
    pub classes: [Usage; 4],
    /// The part of requests that name no tenant.
    pub no_tenant: [Usage; 4],
    /// The part of tenants that have no row, or no more.
    pub other: [Usage; 4],
    /// How many tenants have a row.
    pub tenants: usize,
}

/// The usage of a tracked tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantUsage {
    /// Its name, cut to 128 bytes.
    pub name: Box<str>,
    /// Whether the name is longer than shown. Tenants whose names begin alike have different rows.
    pub is_cut: bool,
    /// When its row began. Its use before an eviction is in the `other` of its namespace.
    pub since: Timestamp,
    /// Its columns by class, in the order of [`Class::ALL`](tidegate_core::Class::ALL).
    pub classes: [Usage; 4],
}
