//! The bounds of windows, and the reasons why numbers are rejected.

use core::time::Duration;

use crate::rate::Rate;

/// The longest window or full drain of any limit: 366 days.
pub const WINDOW_MAX: Duration = Duration::from_hours(366 * 24);

/// The shortest window of any limit: a microsecond.
pub const WINDOW_MIN: Duration = Duration::from_micros(1);

/// A reason why numbers do not make an algorithm. The text names the value and the fix, without
/// the name of the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// A burst of zero.
    #[error("burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`")]
    BurstZero,
    /// The window is longer than [`WINDOW_MAX`] or shorter than [`WINDOW_MIN`].
    #[error("window {} is not between 1us and 366d; use a span in that range, or `calendar` for years", crate::rate::format_span(*.0))]
    Window(Duration),
    /// A bucket takes longer than [`WINDOW_MAX`] to drain.
    #[error("burst {burst} takes more than 366d to refill at {rate}; lower `burst` or raise `rate`")]
    DrainTooLong {
        /// The burst, with the debt it may add.
        burst: u64,
        /// The rate it refills at.
        rate: Rate,
    },
    /// The limit does not fit beside the window index.
    #[error("limit {limit} is above {largest}, the largest this window can count; count in larger units")]
    LimitTooLarge {
        /// The limit asked for.
        limit: u64,
        /// The largest that fits.
        largest: u64,
    },
    /// The time zone is not in the IANA database.
    #[error("time zone \"{0}\" does not exist; use an IANA name such as Europe/Berlin or UTC")]
    Zone(String),
    /// The unit of a calendar is unknown.
    #[error("invalid calendar unit \"{0}\"; use minute, hour, day, week, month or year")]
    CivilUnit(String),
    /// The first day of a week is unknown.
    #[error("\"{0}\" is not a day of the week; use monday to sunday")]
    Weekday(String),
    /// The hold of a permit is zero or longer than [`WINDOW_MAX`].
    #[error("hold {} is not between 1us and 366d; use the longest time a request may take", crate::rate::format_span(*.0))]
    Hold(Duration),
}

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
