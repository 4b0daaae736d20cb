//! Instants: nanoseconds since the Unix epoch, and the arithmetic that never wraps.
//!
//! A [`Timestamp`] is what every decision takes as `now`. A process makes one from a wall-clock
//! anchor read once at start plus monotonic time since then, so that it does not step while the
//! process lives; nothing here assumes that it never does. Subtraction and addition saturate.

use core::fmt;
use core::time::Duration;
use std::time::{SystemTime, UNIX_EPOCH};

/// An instant, in nanoseconds since 1970-01-01T00:00:00Z.
///
/// Range: 1970 to the year 2554. The zero is the epoch itself; arithmetic saturates at both ends.
///
/// ```
/// # use std::time::{Duration, SystemTime};
/// # use tidegate_core::Timestamp;
/// let now = Timestamp::from(SystemTime::now());
/// assert_eq!(now.saturating_add(Duration::from_secs(5)).saturating_since(now).as_secs(), 5);
/// assert_eq!(Timestamp::from_secs(1_795_215_600).to_string(), "2026-11-20T23:00:00Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The first representable instant, 1970-01-01T00:00:00Z.
    pub const MIN: Self = Self(0);
    /// The last representable instant, in the year 2554.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the Unix epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `millis` milliseconds after the Unix epoch; saturates at [`Timestamp::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The instant `seconds` seconds after the Unix epoch; saturates at [`Timestamp::MAX`].
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The beginning of the millisecond that it is in, for instants that people read.
    #[must_use]
    pub const fn to_whole_millis(self) -> Self {
        Self(self.0 - self.0 % 1_000_000)
    }

    /// Whole milliseconds since the Unix epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }

    /// This instant moved later by `by`; saturates at [`Timestamp::MAX`].
    #[must_use]
    pub const fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(duration_nanos(by)))
    }

    /// This instant moved earlier by `by`; saturates at [`Timestamp::MIN`].
    #[must_use]
    pub const fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(duration_nanos(by)))
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// The time between the two instants, whichever is earlier.
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> Duration {
        Duration::from_nanos(self.0.abs_diff(other.0))
    }
}

/// Whole nanoseconds of `duration`, saturating at `u64::MAX` (584 years).
pub(crate) const fn duration_nanos(duration: Duration) -> u64 {
    let nanos = duration.as_nanos();
    if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
}

impl From<SystemTime> for Timestamp {
    /// Times before 1970 become [`Timestamp::MIN`].
    fn from(time: SystemTime) -> Self {
        Self(duration_nanos(time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, as `2026-11-20T20:40:00.25Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.as_secs();
        let (year, month, day) = civil_date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        let (mut fraction, mut digits) = (self.0 % 1_000_000_000, 9);
        if fraction == 0 {
            return f.write_str("Z");
        }
        while fraction.is_multiple_of(10) {
            (fraction, digits) = (fraction / 10, digits - 1);
        }
        write!(f, ".{fraction:0digits$}Z")
    }
}

/// The year, month and day of the Gregorian calendar, so many days after 1970-01-01.
///
/// Eras of 400 years begin in March, so that a leap day is the last of its year; see Howard
/// Hinnant, "chrono-Compatible Low-Level Date Algorithms".
const fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = days / 146_097 * 400 + year_of_era;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn two_instants_are_as_far_apart_as_one_is_later_than_the_other() {
        let (earlier, later) = (Timestamp::from_secs(7), Timestamp::from_secs(9));
        assert_eq!(
            (earlier.abs_diff(later), later.abs_diff(earlier)),
            (Duration::from_secs(2), Duration::from_secs(2))
        );
        assert_eq!(earlier.abs_diff(earlier), Duration::ZERO);
    }

    #[test]
    fn instants_saturate_at_both_ends() {
        assert_eq!(Timestamp::MIN.saturating_sub(Duration::from_secs(1)), Timestamp::MIN);
        assert_eq!(Timestamp::MAX.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(u64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::from_secs(1).saturating_since(Timestamp::from_secs(2)), Duration::ZERO);
    }

    #[test]
    fn an_instant_reads_as_rfc_3339() {
        assert_eq!(Timestamp::from_millis(1_795_215_600_250).to_string(), "2026-11-20T23:00:00.25Z");
        let exact = Timestamp::from_nanos(1_795_215_600_250_999_999);
        assert_eq!(exact.to_whole_millis().to_string(), "2026-11-20T23:00:00.25Z");
    }

    #[cfg(feature = "calendar")]
    #[test]
    fn every_day_and_fraction_reads_as_another_calendar_writes_it() {
        let shown = |nanos: u64| jiff::Timestamp::from_nanosecond(i128::from(nanos)).unwrap().to_string();
        for day in 0..213_503_u64 {
            let nanos = day * 86_400_000_000_000 + day * 404_123_457;
            assert_eq!(Timestamp::from_nanos(nanos).to_string(), shown(nanos));
        }
        for nanos in [0, 1, 10, 999_999_999, 1_000_000_000, u64::MAX] {
            assert_eq!(Timestamp::from_nanos(nanos).to_string(), shown(nanos));
        }
    }

    #[test]
    fn system_time_before_the_epoch_is_the_epoch() {
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(5)), Timestamp::MIN);
    }
}
