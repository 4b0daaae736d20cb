//! The advice itself, with its numbers.

use core::fmt;
use core::time::Duration;

/// Advice to change the places of a resource.
///
/// It displays as one English sentence or two, with the numbers that it was made from.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_overload::ConcurrencyAdvice;
/// let advice = ConcurrencyAdvice::TooHigh { places: 40, rises_from: 9, suggested: 8 };
/// assert_eq!(
///     advice.to_string(),
///     "40 places are too many: requests take longer the more places are in use, from 9 on; the \
///      queue stands in the service. Try `concurrency: auto` or 8."
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConcurrencyAdvice {
    /// The places may be too few: most requests were refused, and nothing shows that the service
    /// could not work on more. Only more places can show it: a service that works on as many
    /// requests as there are places measures the same.
    TooLow {
        /// The places of the resource.
        places: u64,
        /// The mean time for which a request keeps its place.
        place_time: Duration,
        /// The requests a second that were asked for in the last minute, those that a limit, a
        /// table or a feature refused not counted.
        asked_per_second: f64,
        /// The part of them that was refused because of the load: above 0, at most 1.
        refused_part: f64,
        /// The number to try.
        suggested: u64,
        /// Whether requests are known to take no longer when more places are in use. Not known
        /// while all places are always in use, and of a single place.
        is_flat: bool,
        /// Whether the places are the largest that an adaptive limit may have.
        is_adaptive: bool,
    },
    /// The places are too many: beyond a number of them the service does no more work, and requests
    /// wait in it.
    TooHigh {
        /// The places of the resource.
        places: u64,
        /// The places in use from which on the time of a request rises.
        rises_from: u64,
        /// The number to try.
        suggested: u64,
    },
}

impl ConcurrencyAdvice {
    /// The number of places to try.
    pub const fn suggested(&self) -> u64 {
        match self {
            Self::TooLow { suggested, .. } | Self::TooHigh { suggested, .. } => *suggested,
        }
    }

    /// The word for it: `too_low` or `too_high`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::TooLow { .. } => "too_low",
            Self::TooHigh { .. } => "too_high",
        }
    }
}

impl fmt::Display for ConcurrencyAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLow {
                places,
                place_time,
                asked_per_second,
                refused_part,
                suggested,
                is_flat,
                is_adaptive,
            } => {
                let at_most = places as f64 / place_time.as_secs_f64().max(1e-6);
                let (unit, serve) = if places == 1 { ("place", "serves") } else { ("places", "serve") };
                write!(f, "{places} {unit} may be too few: a request takes ")?;
                write_time(f, place_time)?;
                write!(f, ", so {places} {unit} {serve} at most {at_most:.0}/s, and ")?;
                let percent = refused_part * 100.0;
                write!(f, "{percent:.0} % of {asked_per_second:.0}/s was refused in the last minute; ")?;
                f.write_str(if is_flat {
                    "requests take no longer when more places are in use. "
                } else {
                    "whether requests take longer when more places are in use is not known. "
                })?;
                let how = if is_adaptive { "`max: " } else { "`concurrency: auto` or " };
                let end = if is_adaptive { "`" } else { "" };
                write!(f, "If the service can work on more at once, try {how}{suggested}{end}.")
            }
            Self::TooHigh { places, rises_from, suggested } => write!(
                f,
                "{places} places are too many: requests take longer the more places are in use, from \
                 {rises_from} on; the queue stands in the service. Try `concurrency: auto` or {suggested}."
            ),
        }
    }
}

/// Writes a time with two or three digits.
fn write_time(f: &mut fmt::Formatter<'_>, time: Duration) -> fmt::Result {
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        ..10.0 => write!(f, "{millis:.1} ms"),
        ..10_000.0 => write!(f, "{millis:.0} ms"),
        _ => write!(f, "{:.0} s", time.as_secs_f64()),
    }
}
