//! The units of civil time and the days of a week, with their names in policies.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::algorithm::error::AlgorithmError;

/// A unit of civil time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CivilUnit {
    /// From a whole minute to the next.
    Minute,
    /// From a whole hour to the next, or to where clocks are set.
    Hour,
    /// From midnight to midnight.
    Day,
    /// Seven days, from Monday by default.
    Week,
    /// From the first of a month to the first of the next.
    Month,
    /// From the first of January to the next.
    Year,
}

impl CivilUnit {
    /// The name in policies: `minute`, `hour`, `day`, `week`, `month`, `year`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// Its length where one figure has to stand for all: a month is 30 days, a year 365.
    pub const fn nominal(self) -> Duration {
        match self {
            Self::Minute => Duration::from_mins(1),
            Self::Hour => Duration::from_hours(1),
            Self::Day => Duration::from_hours(24),
            Self::Week => Duration::from_hours(7 * 24),
            Self::Month => Duration::from_hours(30 * 24),
            Self::Year => Duration::from_hours(365 * 24),
        }
    }
}

impl fmt::Display for CivilUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<&str> for CivilUnit {
    type Error = AlgorithmError;

    fn try_from(text: &str) -> Result<Self, AlgorithmError> {
        text.parse()
    }
}

impl FromStr for CivilUnit {
    type Err = AlgorithmError;

    /// Reads what [`CivilUnit::as_str`] gives.
    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        [Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year]
            .into_iter()
            .find(|unit| unit.as_str() == text)
            .ok_or_else(|| AlgorithmError::CivilUnit(text.to_owned()))
    }
}

/// The day a week begins on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Weekday {
    /// Monday, as in ISO 8601.
    #[default]
    Monday,
    /// Tuesday.
    Tuesday,
    /// Wednesday.
    Wednesday,
    /// Thursday.
    Thursday,
    /// Friday.
    Friday,
    /// Saturday.
    Saturday,
    /// Sunday.
    Sunday,
}

impl Weekday {
    pub(super) const ALL: [Self; 7] = [
        Self::Monday,
        Self::Tuesday,
        Self::Wednesday,
        Self::Thursday,
        Self::Friday,
        Self::Saturday,
        Self::Sunday,
    ];

    /// The name in policies, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Monday => "monday",
            Self::Tuesday => "tuesday",
            Self::Wednesday => "wednesday",
            Self::Thursday => "thursday",
            Self::Friday => "friday",
            Self::Saturday => "saturday",
            Self::Sunday => "sunday",
        }
    }

    /// The name in English: `Monday`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Monday => "Monday",
            Self::Tuesday => "Tuesday",
            Self::Wednesday => "Wednesday",
            Self::Thursday => "Thursday",
            Self::Friday => "Friday",
            Self::Saturday => "Saturday",
            Self::Sunday => "Sunday",
        }
    }
}

impl fmt::Display for Weekday {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Weekday {
    type Err = AlgorithmError;

    /// Reads what [`Weekday::as_str`] gives.
    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let found = Self::ALL.into_iter().find(|day| day.as_str() == text);
        found.ok_or_else(|| AlgorithmError::Weekday(text.to_owned()))
    }
}
