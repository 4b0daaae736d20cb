//! The link of a request to its rows: later facts about the request are counted in the same rows.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{RequestOutcome, Timestamp};

use super::in_flight_sum::InFlightMark;
use super::row_columns::{RowAmount, UNDER_WAY};
use super::row_combination::RowCombination;
use crate::fault::Fault;

/// The rows of a decided request. While it is in flight, they know since when.
#[derive(Debug)]
pub(crate) struct MeterAccount {
    rows: Arc<RowCombination>,
    in_flight: Option<InFlightMark>,
}

impl MeterAccount {
    pub(super) const fn new(rows: Arc<RowCombination>) -> Self {
        Self { rows, in_flight: None }
    }

    /// Counts the outcome of the request with its `units`, which were admitted or refused.
    #[inline]
    pub(crate) fn count(&self, outcome: RequestOutcome, units: u64) {
        self.rows.count(outcome.index(), 1);
        if Fault::OutcomeTwice.is_planted() {
            self.rows.count(outcome.index(), 1);
        }
        self.rows.add_units(outcome, units);
    }

    /// The request is in flight since then, until the account is dropped. Only a resource has use
    /// for it.
    pub(crate) fn begin(&mut self, admitted: Timestamp) {
        if self.in_flight.is_none() && self.rows.needs_resource() {
            let mark = InFlightMark::new(admitted);
            self.rows.in_flight.begin(mark);
            self.in_flight = Some(mark);
        }
    }

    /// The admitted request is settled: it was charged `charged` units and took `true_units`, or
    /// nobody says how many.
    pub(crate) fn settle(&self, true_units: Option<u64>, charged: u64) {
        let true_units = true_units.unwrap_or(charged);
        let rows = &self.rows;
        rows.add(RowAmount::TrueUnits, true_units);
        if true_units > charged {
            rows.add(RowAmount::SettledMore, true_units - charged);
        } else if charged > true_units {
            rows.add(RowAmount::SettledLess, charged - true_units);
        }
    }

    /// The work of the admitted request has ended, and was in flight for so long.
    pub(crate) fn served(&self, place_time: Duration) {
        self.rows.add(RowAmount::PlaceTime, nanos(place_time));
        if let Some(mark) = self.in_flight {
            self.rows.in_flight.serve(mark);
        }
    }

    /// The admission is undone: it is cancelled, and its `units` are not used.
    pub(crate) fn undo(self, units: u64) {
        self.rows.count(RequestOutcome::Admitted.index(), 1_u64.wrapping_neg());
        self.rows.count(RequestOutcome::Cancelled.index(), 1);
        self.rows.add(RowAmount::UnitsUndone, units);
    }
}

impl Drop for MeterAccount {
    #[inline]
    fn drop(&mut self) {
        if let Some(mark) = self.in_flight {
            self.rows.in_flight.end(mark);
        }
    }
}

/// A request that is offered and not decided. Dropping it counts it as cancelled.
#[derive(Debug)]
#[must_use = "a request whose account is dropped is cancelled"]
pub(crate) struct OpenMeterAccount {
    /// `None` once it is decided, and for a request that no meter counts.
    rows: Option<Arc<RowCombination>>,
    units: u64,
}

impl OpenMeterAccount {
    /// The account of a request that no meter counts.
    pub(crate) const NOTHING: Self = Self { rows: None, units: 0 };

    pub(super) const fn new(rows: Arc<RowCombination>, units: u64) -> Self {
        Self { rows: Some(rows), units }
    }

    /// The same of a request that is for so many units.
    pub(crate) const fn with_units(mut self, units: u64) -> Self {
        self.units = units;
        self
    }

    /// Whether a meter counts the request, which is not decided yet.
    pub(crate) const fn is_open(&self) -> bool {
        self.rows.is_some()
    }

    /// The request is decided, after it has waited so long. `units` count if it is admitted; if it
    /// is refused, those that it was offered with. `None` if it was decided before, and without a
    /// meter.
    pub(crate) fn decide(
        &mut self,
        outcome: RequestOutcome,
        units: u64,
        waited: Duration,
    ) -> Option<MeterAccount> {
        let rows = self.rows.take()?;
        let units = if outcome == RequestOutcome::Admitted { units } else { self.units };
        end(&rows, outcome, units, waited);
        Some(MeterAccount::new(rows))
    }
}

impl Drop for OpenMeterAccount {
    fn drop(&mut self) {
        if let Some(rows) = &self.rows {
            end(rows, RequestOutcome::Cancelled, 0, Duration::ZERO);
        }
    }
}

/// A request that was under way has this outcome.
fn end(rows: &Arc<RowCombination>, outcome: RequestOutcome, units: u64, waited: Duration) {
    if !Fault::WaitOfferedAnew.is_planted() {
        rows.count(UNDER_WAY, 1_u64.wrapping_neg());
    }
    rows.count(outcome.index(), 1);
    rows.add_units(outcome, units);
    if !waited.is_zero() {
        rows.add(RowAmount::Wait, nanos(waited));
    }
}

/// Whole nanoseconds; more than 584 years are 584 years.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
