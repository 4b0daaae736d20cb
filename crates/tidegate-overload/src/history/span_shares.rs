//! The work of a span that has not ended yet.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use super::history_sample::{
    HISTORY_NAME_BYTES_MAX, HistorySample, OTHER_NAME, ShareRow, ShareTotals, largest_rows,
};

/// The most features that are told apart before a span ends, and the most namespaces. At one more,
/// the one with the least work is added to [`OTHER_NAME`].
pub const SPAN_ROWS_MAX: usize = 256;

/// The work of a resource since its last sample.
#[derive(Clone, Debug)]
pub struct SpanShares {
    from: Timestamp,
    offered_units: u64,
    refused_units: u64,
    features: SpanRows,
    classes: [ShareTotals; Class::ALL.len()],
    namespaces: SpanRows,
}

impl SpanShares {
    /// A span without work that begins at `from`.
    pub fn new(from: Timestamp) -> Self {
        Self {
            from,
            offered_units: 0,
            refused_units: 0,
            features: SpanRows::default(),
            classes: Default::default(),
            namespaces: SpanRows::default(),
        }
    }

    /// The beginning of the span.
    pub const fn from(&self) -> Timestamp {
        self.from
    }

    /// Adds work of one request or of many. `place_time` is how long they held places, together;
    /// zero if their ends are not known. Sums saturate.
    pub fn add(&mut self, feature: &str, class: Class, namespace: &str, place_time: Duration, units: u64) {
        let work = ShareTotals::of_work(place_time, units);
        self.features.add(feature, work);
        self.classes[class as usize].add(work);
        self.namespaces.add(namespace, work);
    }

    /// Adds units that were asked for.
    pub const fn offer(&mut self, units: u64) {
        self.offered_units = self.offered_units.saturating_add(units);
    }

    /// Adds units that were refused. They were offered as well, which [`SpanShares::offer`] counts.
    pub const fn refuse(&mut self, units: u64) {
        self.refused_units = self.refused_units.saturating_add(units);
    }

    /// Ends the span at `now` and begins the next one there. A span that would end before it began
    /// has no length.
    pub fn close(&mut self, now: Timestamp, pressure: Option<f64>, soft: f64, hard: f64) -> HistorySample {
        let span = core::mem::replace(self, Self::new(now));
        HistorySample {
            from: span.from.min(now),
            until: now,
            pressure,
            soft,
            hard,
            offered_units: span.offered_units,
            refused_units: span.refused_units,
            features: span.features.into_rows(),
            classes: span.classes,
            namespaces: span.namespaces.into_rows(),
        }
    }

    /// Moves the beginning, for a clock that has stepped. The work stays.
    pub(super) const fn begin_at(&mut self, from: Timestamp) {
        self.from = from;
    }
}

/// Work by name, of a bounded number of names.
#[derive(Clone, Debug, Default)]
struct SpanRows {
    named: BTreeMap<Arc<str>, ShareTotals>,
    other: ShareTotals,
}

impl SpanRows {
    fn add(&mut self, name: &str, work: ShareTotals) {
        if let Some(totals) = self.named.get_mut(name) {
            totals.add(work);
            return;
        }
        if name.len() > HISTORY_NAME_BYTES_MAX || name == OTHER_NAME {
            self.other.add(work);
            return;
        }
        if self.named.len() >= SPAN_ROWS_MAX {
            let least = self.named.iter().min_by_key(|(_, totals)| **totals);
            let least = least.map(|(name, _)| Arc::clone(name));
            if let Some(totals) = least.and_then(|name| self.named.remove(&name)) {
                self.other.add(totals);
            }
        }
        self.named.insert(name.into(), work);
    }

    fn into_rows(self) -> Box<[ShareRow]> {
        let other = ShareRow { name: OTHER_NAME.into(), totals: self.other };
        let named = self.named.into_iter().map(|(name, totals)| ShareRow { name, totals });
        largest_rows(named.chain([other]).collect())
    }
}
