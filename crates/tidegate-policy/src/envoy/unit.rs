//! The units of time a limit counts over.

use core::time::Duration;

/// A unit of time, with the number it has in the peer's messages.
///
/// Windows are whole multiples of its length since 1970-01-01T00:00:00Z, a Thursday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Unit {
    /// 1 s.
    Second = 1,
    /// 60 s.
    Minute = 2,
    /// 3600 s.
    Hour = 3,
    /// 86 400 s.
    Day = 4,
    /// 30 days.
    Month = 5,
    /// 365 days.
    Year = 6,
    /// 7 days.
    Week = 7,
}

impl Unit {
    /// All of them, the shortest first.
    pub const ALL: [Self; 7] =
        [Self::Second, Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// The unit with this number in a message; `None` for 0, which is UNKNOWN, and for what is no
    /// unit.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.number() == number)
    }

    /// Its number in a message, 1 to 7.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The unit that is written so in a file, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }

    /// Its name in a file: `second`, `minute`, `hour`, `day`, `week`, `month`, `year`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// How long it is. A month is 30 days and a year 365.
    pub const fn length(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::Minute => Duration::from_mins(1),
            Self::Hour => Duration::from_hours(1),
            Self::Day => Duration::from_hours(24),
            Self::Week => Duration::from_hours(7 * 24),
            Self::Month => Duration::from_hours(30 * 24),
            Self::Year => Duration::from_hours(365 * 24),
        }
    }

    /// The unit that is exactly so long.
    pub fn from_length(length: Duration) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.length() == length)
    }
}
