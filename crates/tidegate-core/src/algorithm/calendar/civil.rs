//! Where civil windows begin and end.
//!
//! Everything is in whole seconds since [`ORIGIN`], as all civil windows begin on whole seconds and
//! those that hold the epoch begin before it.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneTransition};
use jiff::{Span, ToSpan};

use super::units::{CivilUnit, Weekday};
use crate::time::Timestamp;

/// Seconds between the origin and the epoch: 400 days, so that the year that holds the epoch begins
/// after the origin in every zone.
const ORIGIN: u64 = 400 * 86_400;

/// How far back clocks may be set at once: a whole day, where the date line was moved.
const SET_BACK_MAX: i64 = 26 * 3600;

const HOUR: i64 = 3600;

/// More than any offset from UTC.
const OFFSET_MAX: i64 = 26 * 3600;

/// From the second a window begins at to the one its successor begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CivilWindow {
    start: u64,
    end: u64,
}

impl CivilWindow {
    const LENGTH_BITS: u32 = 29;

    /// The last second at which a window may begin: that of the last [`Timestamp`]. Below 2^35.
    pub(super) const LAST_START: u64 = Timestamp::MAX.as_secs() + ORIGIN;

    /// A window in one word: 35 bits of start and 29 of length, which hold 17 years.
    pub(super) const fn to_bits(self) -> u64 {
        self.start << Self::LENGTH_BITS | (self.end - self.start)
    }

    /// The reverse. 0 is a window that holds nothing.
    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        let start = bits >> Self::LENGTH_BITS;
        Self { start, end: start + (bits & ((1 << Self::LENGTH_BITS) - 1)) }
    }

    /// Whether the second since the epoch lies within.
    #[inline]
    pub(super) const fn holds(self, second: u64) -> bool {
        let second = second + ORIGIN;
        self.start <= second && second < self.end
    }

    /// The second it begins at.
    #[inline]
    pub(super) const fn start(self) -> u64 {
        self.start
    }

    /// The instant it begins at, saturating.
    pub(super) const fn begin(self) -> Timestamp {
        Timestamp::from_secs(self.start.saturating_sub(ORIGIN))
    }

    /// The first instant after it, saturating.
    pub(super) const fn end(self) -> Timestamp {
        Timestamp::from_secs(self.end.saturating_sub(ORIGIN))
    }

    /// The window of `unit` in the zone that holds the second since the epoch.
    pub(super) fn find(rules: &TimeZone, unit: CivilUnit, week_start: Weekday, second: u64) -> Self {
        if unit == CivilUnit::Minute {
            let start = second / 60 * 60 + ORIGIN;
            return Self { start, end: start + 60 };
        }
        let second = i64::try_from(second.min(Self::LAST_START)).unwrap_or(i64::MAX);
        if unit == CivilUnit::Hour {
            return Self::hour(rules, second);
        }
        let label = latest_label(rules, unit, week_start, second);
        let start = first_shown(rules, label).min(second);
        let end = first_shown(rules, label.saturating_add(length(unit))).max(second + 1);
        Self { start: since_origin(start), end: since_origin(end) }
    }

    /// From a full hour of the civil clock to the next, cut where the clock is set in between.
    fn hour(rules: &TimeZone, second: i64) -> Self {
        let offset = i64::from(rules.to_offset(instant(second)).seconds());
        let full = second - (second + offset).rem_euclid(HOUR);
        // A change of the rules may leave the offset as it was.
        let set = |change: TimeZoneTransition<'_>| {
            let at = change.timestamp().as_second();
            (rules.to_offset(instant(at - 1)) != change.offset()).then_some(at)
        };
        let before = rules.preceding(instant(second + 1));
        let mut before = before.take_while(|change| change.timestamp().as_second() > full).filter_map(set);
        let after = rules.following(instant(second));
        let mut after =
            after.take_while(|change| change.timestamp().as_second() < full + HOUR).filter_map(set);
        let start = before.next().unwrap_or(full);
        let end = after.next().unwrap_or(full + HOUR).max(second + 1);
        Self { start: since_origin(start), end: since_origin(end) }
    }
}

/// The number of the window of `unit` that begins at `start`.
#[inline]
pub(super) const fn number_of(unit: CivilUnit, start: u64) -> u64 {
    // Written out, so that each is a division by a constant.
    match unit {
        CivilUnit::Minute => start / step(CivilUnit::Minute),
        CivilUnit::Hour => start / step(CivilUnit::Hour),
        CivilUnit::Day => start / step(CivilUnit::Day),
        CivilUnit::Week => start / step(CivilUnit::Week),
        CivilUnit::Month => start / step(CivilUnit::Month),
        CivilUnit::Year => start / step(CivilUnit::Year),
    }
}

/// A second since the epoch within the window of this number: it begins in the step before, and
/// lasts longer than one.
pub(super) const fn second_within(unit: CivilUnit, number: u64) -> u64 {
    ((number + 1) * step(unit) - 1).saturating_sub(ORIGIN)
}

/// Seconds that are at most the shortest window of the unit in any zone since 1970. Where clocks
/// are set at a minute past midnight an hour may last that minute; days were as short as 17 hours.
const fn step(unit: CivilUnit) -> u64 {
    match unit {
        CivilUnit::Minute | CivilUnit::Hour => 60,
        CivilUnit::Day => 12 * 3600,
        CivilUnit::Week => 5 * 86_400,
        CivilUnit::Month => 25 * 86_400,
        CivilUnit::Year => 300 * 86_400,
    }
}

/// From one label of a unit to the next; days are the shortest windows that have one.
fn length(unit: CivilUnit) -> Span {
    match unit {
        CivilUnit::Minute | CivilUnit::Hour | CivilUnit::Day => 1.day(),
        CivilUnit::Week => 7.days(),
        CivilUnit::Month => 1.month(),
        CivilUnit::Year => 1.year(),
    }
}

/// The latest label that was shown up to this second. It is the one shown now, unless clocks were
/// set back not long ago.
fn latest_label(rules: &TimeZone, unit: CivilUnit, week_start: Weekday, second: i64) -> DateTime {
    let label = |second| label(unit, week_start, rules.to_datetime(instant(second)));
    rules
        // Those before the next second: one at this second has taken place.
        .preceding(instant(second + 1))
        .map(|change| change.timestamp().as_second())
        .take_while(|change| *change > second - SET_BACK_MAX)
        .map(|change| label(change - 1))
        .fold(label(second), Ord::max)
}

/// The civil time at which the window of `unit` around `shown` begins, which stands for its label.
fn label(unit: CivilUnit, week_start: Weekday, shown: DateTime) -> DateTime {
    let date = shown.date();
    let first = match unit {
        CivilUnit::Minute | CivilUnit::Hour | CivilUnit::Day => date,
        CivilUnit::Week => {
            let days = i64::from(date.weekday().to_monday_zero_offset()) - week_start as i64;
            date.saturating_sub(days.rem_euclid(7).days())
        }
        CivilUnit::Month => date.first_of_month(),
        CivilUnit::Year => date.first_of_year(),
    };
    first.at(0, 0, 0, 0)
}

/// The first second at which the zone shows `label` or later.
///
/// Found from the changes of offset around it rather than by asking which offset the label has:
/// that answer does not say when a skipped label's successor is shown, and is wrong in jiff 0.2
/// where a zone's last change before its recurring rule keeps the offset (Nuuk, October 2023).
fn first_shown(rules: &TimeZone, label: DateTime) -> i64 {
    let shown_in_utc = Offset::UTC.to_timestamp(label).map_or(i64::MAX, jiff::Timestamp::as_second);
    // No offset is as large, so here the label has not been shown yet.
    let mut since = shown_in_utc.saturating_sub(OFFSET_MAX);
    let mut offset = rules.to_offset(instant(since));
    for change in rules.following(instant(since)) {
        let until = change.timestamp().as_second();
        if shown_in_utc - i64::from(offset.seconds()) < until {
            break;
        }
        (since, offset) = (until, change.offset());
    }
    // Where the label was skipped, the change itself is when a later one is shown.
    (shown_in_utc - i64::from(offset.seconds())).max(since)
}

/// A second since the epoch as jiff has it; its range goes on for millennia after ours.
fn instant(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(second).unwrap_or(jiff::Timestamp::MAX)
}

fn since_origin(second: i64) -> u64 {
    u64::try_from(second.saturating_add_unsigned(ORIGIN)).unwrap_or(0)
}
