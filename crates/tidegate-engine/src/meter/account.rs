//! The link of a request to its rows: later facts about the request are counted in the same rows.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{RequestOutcome, Timestamp};

use super::in_flight_sum::InFlightMark;
use super::metered_rows::RowsKey;
use super::row_columns::{RowAmount, UNDER_WAY};
use super::row_combination::{RowCombination, nanos};
use super::rows_link::RowsLink;
use crate::fault::Fault;

/// The rows of a decided request. While it is in flight, they know since when.
///
/// Two words, which a function returns in registers.
#[derive(Debug)]
pub(crate) struct MeterAccount {
    /// `None` for a request without names and resource: its rows are found again by their key, so
    /// that nothing is to be done when it ends.
    rows: Option<Arc<RowCombination>>,
    /// The key of such a request. Of another one, the mark of its beginning while it is in flight,
    /// else zero.
    key_or_mark: u64,
}

impl MeterAccount {
    #[inline]
    pub(crate) const fn of_key(key: RowsKey) -> Self {
        Self { rows: None, key_or_mark: key.get() }
    }

    #[inline]
    pub(crate) const fn of_rows(rows: Arc<RowCombination>) -> Self {
        Self { rows: Some(rows), key_or_mark: 0 }
    }

    /// The request is in flight since then, until the account is dropped. Only a resource has use
    /// for it.
    pub(crate) fn begin(&mut self, admitted: Timestamp) {
        if let Some(rows) = &self.rows
            && self.key_or_mark == 0
            && rows.needs_resource()
        {
            let mark = InFlightMark::new(admitted);
            rows.in_flight.begin(mark);
            self.key_or_mark = mark.get();
        }
    }

    /// The rows that know the request as one in flight, since this mark.
    #[inline]
    fn in_flight(&self) -> Option<(&RowCombination, InFlightMark)> {
        Some((self.rows.as_deref()?, InFlightMark::from_number(self.key_or_mark)?))
    }

    /// Its rows, or the key by which they are found.
    pub(crate) fn rows(&self) -> Result<&RowCombination, RowsKey> {
        self.rows.as_deref().ok_or(RowsKey::from_number(self.key_or_mark))
    }

    /// The place time of the request is counted; it ends next.
    pub(crate) fn serve(&self) {
        if let Some((rows, mark)) = self.in_flight() {
            rows.in_flight.serve(mark);
        }
    }

    /// The work of a request that held a place has ended, and was in flight for so long.
    pub(crate) fn served(&self, place_time: Duration) {
        // Without a resource it held none.
        if let Some(rows) = &self.rows {
            rows.add(RowAmount::PlaceTime, nanos(place_time));
        }
        self.serve();
    }

    /// The request is no longer in flight, if it was.
    #[inline(never)]
    fn end(&self) {
        if let Some((rows, mark)) = self.in_flight() {
            rows.in_flight.end(mark);
        }
    }
}

impl Drop for MeterAccount {
    #[inline]
    fn drop(&mut self) {
        if self.key_or_mark != 0 {
            self.end();
        }
    }
}

/// The account that a permit has of its request.
#[derive(Debug)]
pub(crate) enum PermitAccount {
    Account(MeterAccount),
    /// Of a request without a resource, which is not in flight anywhere.
    Link(RowsLink),
}

impl From<MeterAccount> for PermitAccount {
    fn from(account: MeterAccount) -> Self {
        Self::Account(account)
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
        Some(MeterAccount::of_rows(rows))
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
