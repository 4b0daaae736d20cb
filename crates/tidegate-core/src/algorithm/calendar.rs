//! Civil windows: minutes, hours, days, weeks, months or years as a clock on a wall in a time zone
//! shows them.
//!
//! **Promise.** At most `limit` units in each window. A day is from midnight to midnight where the
//! zone is, whether that is 23, 24 or 25 hours; weeks, months and years are made of such days. The
//! rules of all zones are compiled in.
//!
//! **Windows.** The window of a day or longer begins when its label (`2026-11-20`, `2026-11`) is
//! shown for the first time and ends when a later one is. A day that is shown twice, because clocks
//! were set back, is one window, and a day that is skipped is not a window: in Apia, 2011-12-29 was
//! followed by 2011-12-31. An hour ends at the next full hour of the civil clock and where clocks
//! are set, so it is never longer than 3600 seconds: the hour that is shown twice in autumn is two
//! windows. A minute is always 60 seconds, from a whole minute of UTC to the next, since all
//! offsets in use are whole minutes.
//!
//! **State.** The start of the window in the high bits, in steps shorter than any window of the
//! unit (so that each has its own number and later ones larger numbers), and the units counted in
//! it in the low bits: between 34 and 54.
//!
//! **Time.** A window stays in force until its end is reached, also while `now` lies before its
//! start: a step back never admits more than no step. Further than one window ahead, it is
//! [brought back](Counter::brought_back).
//!
//! **Limit changes.** Usage is kept, also when zone or first day of the week change: it counts in
//! the window that holds `now`. Another unit starts fresh.

use core::hash::{Hash, Hasher};

use jiff::tz::{TimeZone, TimeZoneDatabase};
use portable_atomic::{AtomicU64, Ordering};

use super::counter::{Charged, Counter, REPORT_DEBT_LIMITS, State, Verdict};
use super::error::AlgorithmError;
use crate::cost::Cost;
use crate::time::Timestamp;

mod civil;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;
mod units;

use civil::CivilWindow;
pub use units::{CivilUnit, Weekday};

/// At most `limit` units in each civil window of a zone.
///
/// Two are equal if limit, unit, name of the zone and first day of the week are.
///
/// ```
/// # use tidegate_core::algorithm::{Calendar, CivilUnit, Counter, State};
/// # use tidegate_core::{Cost, Timestamp, display::CivilInstant};
/// let monthly = Calendar::new(1_000, CivilUnit::Month, "America/Los_Angeles")?;
/// let now = Timestamp::from_secs(1_800_000_000); // 2027-01-15T08:00:00Z
/// let state = monthly.charge(State::EMPTY, Cost::ONE, now);
/// assert_eq!(monthly.remaining(state, now), 999);
/// let reset = CivilInstant { at: monthly.reset_at(state, now), zone: monthly.zone() };
/// assert_eq!(reset.to_string(), "2027-02-01 00:00 America/Los_Angeles");
/// # Ok::<(), tidegate_core::AlgorithmError>(())
/// ```
pub struct Calendar {
    limit: u64,
    unit: CivilUnit,
    zone: String,
    week_start: Weekday,
    rules: TimeZone,
    count_bits: u32,
    /// The most that is counted: what reports may add, or what the bits hold.
    count_max: u64,
    /// The window found last, so that time-zone arithmetic is done once a window rather than once a
    /// decision.
    ///
    /// One self-contained word, overwritten by each thread that finds another window. Nothing is
    /// published through it, so it needs no ordering. It is not `crate::sync`'s, as a cache adds no
    /// interleaving that could change an answer, and loom's atomics live inside a model only.
    found: AtomicU64,
}

/// A window and what was counted in it.
#[derive(Clone, Copy)]
struct CalendarCount {
    window: u64,
    count: u64,
}

impl Calendar {
    /// At most `limit` units in each civil `unit` of the IANA time zone `zone` (`Europe/Berlin`,
    /// `UTC`); limit 0 admits nothing.
    ///
    /// The largest limit is what the bits beside the window's number hold; reports into debt
    /// saturate there too.
    pub fn new(limit: u64, unit: CivilUnit, zone: &str) -> Result<Self, AlgorithmError> {
        let Ok(rules) = TimeZoneDatabase::bundled().get(zone) else {
            return Err(AlgorithmError::Zone(zone.to_owned()));
        };
        // The database ignores case; one zone has one name.
        let zone = rules.iana_name().unwrap_or(zone).to_owned();
        let count_bits = civil::number_of(unit, CivilWindow::LAST_START).leading_zeros();
        let largest = (1 << count_bits) - 1;
        if limit > largest {
            return Err(AlgorithmError::LimitTooLarge { limit, largest });
        }
        let count_max = limit.saturating_mul(1 + REPORT_DEBT_LIMITS).min(largest);
        let (week_start, found) = (Weekday::default(), AtomicU64::new(0));
        Ok(Self { limit, unit, zone, week_start, rules, count_bits, count_max, found })
    }

    /// The same with weeks that begin on `day` rather than Monday. Changes nothing for other units.
    #[must_use]
    pub fn with_week_start(self, day: Weekday) -> Self {
        Self { week_start: day, found: AtomicU64::new(0), ..self }
    }

    /// The same in another IANA time zone.
    pub fn in_zone(&self, zone: &str) -> Result<Self, AlgorithmError> {
        Self::new(self.limit, self.unit, zone).map(|other| other.with_week_start(self.week_start))
    }

    /// The most units in a window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The unit of civil time.
    pub const fn unit(&self) -> CivilUnit {
        self.unit
    }

    /// The name of the time zone, as the IANA database writes it.
    pub fn zone(&self) -> &str {
        &self.zone
    }

    /// The day weeks begin on.
    pub const fn week_start(&self) -> Weekday {
        self.week_start
    }

    /// When the window that holds `now` begins, and the first instant after it; saturating.
    pub(crate) fn window_bounds(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        let window = self.window_at(now.as_secs());
        (window.begin(), window.end())
    }

    /// The first instant after the window that follows the one ending at `end`; saturating.
    pub(crate) fn next_end(&self, end: Timestamp) -> Timestamp {
        CivilWindow::find(&self.rules, self.unit, self.week_start, end.as_secs()).end()
    }

    /// The window that holds `second`.
    #[inline]
    fn window_at(&self, second: u64) -> CivilWindow {
        let found = CivilWindow::from_bits(self.found.load(Ordering::Relaxed));
        if found.holds(second) { found } else { self.find(second) }
    }

    #[cold]
    fn find(&self, second: u64) -> CivilWindow {
        let window = CivilWindow::find(&self.rules, self.unit, self.week_start, second);
        self.found.store(window.to_bits(), Ordering::Relaxed);
        window
    }

    #[inline]
    fn number_at(&self, now: Timestamp) -> u64 {
        civil::number_of(self.unit, self.window_at(now.as_secs()).start())
    }

    /// The number of the window after the one that holds `now`.
    #[cold]
    fn number_after(&self, now: Timestamp) -> u64 {
        let end = self.window_at(now.as_secs()).end();
        let next = CivilWindow::find(&self.rules, self.unit, self.week_start, end.as_secs());
        civil::number_of(self.unit, next.start())
    }

    /// The first instant after the window of this number, saturating.
    fn end(&self, number: u64, now: Timestamp) -> Timestamp {
        let window = self.window_at(now.as_secs());
        if civil::number_of(self.unit, window.start()) == number {
            return window.end();
        }
        // The clock stepped back out of the window.
        CivilWindow::find(&self.rules, self.unit, self.week_start, civil::second_within(self.unit, number))
            .end()
    }

    #[inline]
    fn read(&self, state: State) -> CalendarCount {
        let bits = state.to_bits();
        CalendarCount { window: bits >> self.count_bits, count: bits & !(u64::MAX << self.count_bits) }
    }

    #[inline]
    fn write(&self, counted: CalendarCount) -> State {
        State::from_bits(counted.window << self.count_bits | counted.count)
    }

    /// The count in force at `now`: that of the window in `state` until its end, afterwards an
    /// empty one for the window that holds `now`.
    #[inline]
    fn in_force(&self, state: State, now: Timestamp) -> CalendarCount {
        let counted = self.read(state);
        let window = self.number_at(now);
        if window > counted.window { CalendarCount { window, count: 0 } } else { counted }
    }
}

impl Counter for Calendar {
    #[inline]
    fn decide(&self, state: State, cost: Cost, now: Timestamp) -> (Verdict, State) {
        let counted = self.in_force(state, now);
        let count = counted.count.saturating_add(cost.units());
        if count <= self.limit {
            (Verdict::Admit, self.write(CalendarCount { count, ..counted }))
        } else if cost.units() > self.limit {
            (Verdict::Never { largest: self.limit }, state)
        } else {
            (Verdict::Wait { until: self.end(counted.window, now) }, state)
        }
    }

    fn charge(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let counted = self.in_force(state, now);
        let count = counted.count.saturating_add(cost.units()).min(self.count_max).max(counted.count);
        self.write(CalendarCount { count, ..counted })
    }

    fn refund(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let counted = self.read(state);
        if self.in_force(state, now).window != counted.window {
            return state;
        }
        self.write(CalendarCount { count: counted.count.saturating_sub(cost.units()), ..counted })
    }

    fn undo(&self, state: State, charged: &Charged, _now: Timestamp) -> State {
        if state == charged.after {
            return charged.before;
        }
        let (before, after, counted) =
            (self.read(charged.before), self.read(charged.after), self.read(state));
        if counted.window != after.window {
            return state;
        }
        // A report may have been booked only in part.
        let earlier = if before.window == after.window { before.count } else { 0 };
        let booked = after.count.saturating_sub(earlier).min(charged.cost.units());
        self.write(CalendarCount { count: counted.count.saturating_sub(booked), ..counted })
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: State, now: Timestamp) -> u64 {
        self.in_force(state, now).count
    }

    fn reset_at(&self, state: State, now: Timestamp) -> Timestamp {
        let counted = self.in_force(state, now);
        if counted.count == 0 { now } else { self.end(counted.window, now) }
    }

    fn drained_at(&self, state: State, now: Timestamp) -> Timestamp {
        let counted = self.in_force(state, now);
        match counted.window.checked_sub(1) {
            _ if counted.count > 0 => self.end(counted.window, now),
            Some(before) => self.end(before, now).max(now),
            None => now,
        }
    }

    #[inline]
    fn is_drained(&self, state: State, now: Timestamp) -> bool {
        let counted = self.in_force(state, now);
        // An empty window that lies ahead still keeps the windows before it from being used.
        counted.count == 0 && counted.window <= self.number_at(now)
    }

    fn brought_back(&self, state: State, _charged_at: Timestamp, now: Timestamp) -> State {
        let counted = self.read(state);
        let number = self.number_at(now);
        if counted.window <= number || counted.window <= self.number_after(now) {
            return state;
        }
        if counted.count == 0 {
            return State::EMPTY;
        }
        self.write(CalendarCount { window: number, ..counted })
    }

    fn carry_over(&self, state: State, from: &Self, now: Timestamp) -> State {
        if self.unit != from.unit {
            return State::EMPTY;
        }
        // The bits depend on the unit only, so another limit reads the same state.
        if (&self.zone, self.week_start) == (&from.zone, from.week_start) {
            return state;
        }
        match from.used(state, now) {
            0 => State::EMPTY,
            count => self.write(CalendarCount { window: self.number_at(now), count }),
        }
    }
}

impl Clone for Calendar {
    fn clone(&self) -> Self {
        Self {
            zone: self.zone.clone(),
            rules: self.rules.clone(),
            // The cached window is valid for the copy too.
            found: AtomicU64::new(self.found.load(Ordering::Relaxed)),
            ..*self
        }
    }
}

crate::debug_fields!(Calendar { limit, unit, zone, week_start });

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        (self.limit, self.unit, &self.zone, self.week_start)
            == (other.limit, other.unit, &other.zone, other.week_start)
    }
}

impl Eq for Calendar {}

impl Hash for Calendar {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.limit, self.unit, &self.zone, self.week_start).hash(hasher);
    }
}
