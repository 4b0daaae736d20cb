//! A resource in one span of time.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

/// The most features that a sample names, and the most namespaces: those with the most place time.
pub const HISTORY_NAMES_MAX: usize = 12;

/// The longest name of a feature or namespace in a sample. Longer ones count as [`OTHER_NAME`].
pub const HISTORY_NAME_BYTES_MAX: usize = 128;

/// The name of all features, or namespaces, that a sample does not name.
pub const OTHER_NAME: &str = "other";

/// The highest pressure that is kept; a higher one is kept as this one.
pub const PRESSURE_MAX: f64 = 1000.0;

/// The work of one feature, class or namespace at a resource in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareTotals {
    /// The time in nanoseconds for which its requests held places, of requests whose end is known.
    /// Ten requests of a second each are ten seconds. Saturates.
    pub place_time_ns: u64,
    /// The units of its admitted requests. Saturates.
    pub units: u64,
}

impl ShareTotals {
    pub(super) fn of_work(place_time: Duration, units: u64) -> Self {
        Self { place_time_ns: u64::try_from(place_time.as_nanos()).unwrap_or(u64::MAX), units }
    }

    pub(super) const fn add(&mut self, more: Self) {
        self.place_time_ns = self.place_time_ns.saturating_add(more.place_time_ns);
        self.units = self.units.saturating_add(more.units);
    }
}

/// The work of a feature or namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRow {
    /// The name, at most [`HISTORY_NAME_BYTES_MAX`] bytes.
    pub name: Arc<str>,
    /// Its work.
    pub totals: ShareTotals,
}

/// A resource in one span of time.
#[derive(Clone, Debug, PartialEq)]
pub struct HistorySample {
    /// The beginning of the span.
    pub from: Timestamp,
    /// The end of the span.
    pub until: Timestamp,
    /// The mean pressure, 0 to [`PRESSURE_MAX`]; `None` if no signal was fresh.
    pub pressure: Option<f64>,
    /// The pressure at which the level `soft` is entered.
    pub soft: f64,
    /// The pressure at which the level `hard` is entered.
    pub hard: f64,
    /// The units that were asked for.
    pub offered_units: u64,
    /// Of these, the units that were refused.
    pub refused_units: u64,
    /// The work by feature, the most place time first and [`OTHER_NAME`] last.
    pub features: Box<[ShareRow]>,
    /// The work by class, in the order of [`Class::ALL`].
    pub classes: [ShareTotals; Class::ALL.len()],
    /// The work by namespace, as the features.
    pub namespaces: Box<[ShareRow]>,
}

impl HistorySample {
    /// The length of the span.
    pub fn length(&self) -> Duration {
        self.until.saturating_since(self.from)
    }

    /// The sample with a pressure and names within their bounds.
    pub(super) fn bounded(mut self) -> Self {
        let pressure = self.pressure.filter(|pressure| !pressure.is_nan());
        self.pressure = pressure.map(|pressure| pressure.clamp(0.0, PRESSURE_MAX));
        self.features = largest_rows(self.features.into());
        self.namespaces = largest_rows(self.namespaces.into());
        self
    }

    /// The sample of this span and of the next one.
    pub(super) fn joined_with(mut self, next: Self) -> Self {
        self.pressure = mean((self.pressure, self.length()), (next.pressure, next.length()));
        self.until = next.until;
        self.offered_units = self.offered_units.saturating_add(next.offered_units);
        self.refused_units = self.refused_units.saturating_add(next.refused_units);
        self.classes.iter_mut().zip(next.classes).for_each(|(totals, more)| totals.add(more));
        self.features = largest_rows(self.features.into_iter().chain(next.features).collect());
        self.namespaces = largest_rows(self.namespaces.into_iter().chain(next.namespaces).collect());
        self
    }

    pub(super) fn row_bytes(&self) -> usize {
        (self.features.len() + self.namespaces.len()) * size_of::<ShareRow>()
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut ShareRow> {
        self.features.iter_mut().chain(self.namespaces.iter_mut())
    }
}

/// The mean of two pressures that lasted so long.
fn mean(first: (Option<f64>, Duration), second: (Option<f64>, Duration)) -> Option<f64> {
    let (Some(one), Some(other)) = (first.0, second.0) else { return first.0.or(second.0) };
    let whole = first.1.as_secs_f64() + second.1.as_secs_f64();
    let part = if whole > 0.0 { first.1.as_secs_f64() / whole } else { 0.5 };
    Some(one * part + other * (1.0 - part))
}

/// One row for each name, the most place time first, without the rows of no work. Those that a
/// sample does not name are the last row.
pub(super) fn largest_rows(mut rows: Vec<ShareRow>) -> Box<[ShareRow]> {
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows.dedup_by(|next, kept| {
        let is_same = next.name == kept.name;
        if is_same {
            kept.totals.add(next.totals);
        }
        is_same
    });
    rows.retain(|row| row.totals != ShareTotals::default());
    rows.sort_by(|one, other| other.totals.cmp(&one.totals).then_with(|| one.name.cmp(&other.name)));
    let mut rest = ShareTotals::default();
    let mut named = 0;
    rows.retain(|row| {
        let is_named =
            named < HISTORY_NAMES_MAX && *row.name != *OTHER_NAME && row.name.len() <= HISTORY_NAME_BYTES_MAX;
        if is_named {
            named += 1;
        } else {
            rest.add(row.totals);
        }
        is_named
    });
    if rest != ShareTotals::default() {
        rows.push(ShareRow { name: OTHER_NAME.into(), totals: rest });
    }
    rows.into()
}
