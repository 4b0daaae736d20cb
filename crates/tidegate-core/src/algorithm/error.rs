//! The bounds of windows, and the reasons why numbers are rejected.

use core::fmt;
use core::time::Duration;

use crate::rate::Rate;

/// The longest window or full drain of any limit: 366 days.
pub const WINDOW_MAX: Duration = Duration::from_hours(366 * 24);

/// The shortest window of any limit: a microsecond.
pub const WINDOW_MIN: Duration = Duration::from_micros(1);

/// A reason why numbers do not make an algorithm. The text names the value and the fix, without
/// the name of the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// A burst of zero.
    BurstZero,
    /// The window is longer than [`WINDOW_MAX`] or shorter than [`WINDOW_MIN`].
    Window(Duration),
    /// A bucket takes longer than [`WINDOW_MAX`] to drain.
    DrainTooLong {
        /// The burst, with the debt it may add.
        burst: u64,
        /// The rate it refills at.
        rate: Rate,
    },
    /// The limit does not fit beside the window index.
    LimitTooLarge {
        /// The limit asked for.
        limit: u64,
        /// The largest that fits.
        largest: u64,
    },
    /// The time zone is not in the IANA database.
    Zone(String),
    /// The unit of a calendar is unknown.
    CivilUnit(String),
    /// The first day of a week is unknown.
    Weekday(String),
    /// The hold of a permit is zero or longer than [`WINDOW_MAX`].
    Hold(Duration),
}

impl fmt::Display for AlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BurstZero => f.write_str(
                "burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`",
            ),
            Self::Window(value) => write!(
                f,
                "window {} is not between 1us and 366d; use a span in that range, or `calendar` for years",
                crate::rate::format_span(*value)
            ),
            Self::DrainTooLong { burst, rate } => write!(
                f,
                "burst {burst} takes more than 366d to refill at {rate}; lower `burst` or raise `rate`"
            ),
            Self::LimitTooLarge { limit, largest } => write!(
                f,
                "limit {limit} is above {largest}, the largest this window can count; count in larger units"
            ),
            Self::Zone(value) => write!(
                f,
                "time zone \"{value}\" does not exist; use an IANA name such as Europe/Berlin or UTC"
            ),
            Self::CivilUnit(value) => {
                write!(f, "invalid calendar unit \"{value}\"; use minute, hour, day, week, month or year")
            }
            Self::Weekday(value) => write!(f, "\"{value}\" is not a day of the week; use monday to sunday"),
            Self::Hold(value) => write!(
                f,
                "hold {} is not between 1us and 366d; use the longest time a request may take",
                crate::rate::format_span(*value)
            ),
        }
    }
}

impl core::error::Error for AlgorithmError {}

/// An algorithm with `limit`, or with the largest limit there is for it, whichever is less.
pub(super) fn saturating<A>(
    limit: u64,
    new: impl Fn(u64) -> Result<A, AlgorithmError>,
) -> Result<A, AlgorithmError> {
    match new(limit) {
        Err(AlgorithmError::LimitTooLarge { largest, .. }) => new(largest),
        other => other,
    }
}
