//! Rates as exact ratios: units over a span of time, never rounded to a whole number of
//! nanoseconds.

use core::fmt;
use core::num::{IntErrorKind, NonZeroU64, ParseIntError};
use core::str::FromStr;
use core::time::Duration;

use crate::time::duration_nanos;

/// Units for each span of time, kept as the ratio it was written as.
///
/// Written `100/s`, `5/10m`, `1000/1d`. At least one unit in [`Rate::PER_MAX`], at most
/// [`Rate::UNITS_PER_SECOND_MAX`].
///
/// ```
/// # use tidegate_core::Rate;
/// let rate: Rate = "5/10m".parse()?;
/// assert_eq!((rate.units(), rate.per().as_secs()), (5, 600));
/// assert_eq!(Rate::per_second(100)?.to_string(), "100/s");
/// # Ok::<(), tidegate_core::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    units: NonZeroU64,
    per_ns: NonZeroU64,
}

/// Why a rate is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// Zero units.
    #[error("rate \"{0}\" admits nothing; use at least 1 unit, or block the key")]
    Zero(String),
    /// The span is zero or longer than [`Rate::PER_MAX`].
    #[error("rate \"{0}\" has a span that is zero or longer than a year; use a span from 1ns to 365d")]
    Span(String),
    /// More than [`Rate::UNITS_PER_SECOND_MAX`].
    #[error(
        "rate \"{0}\" is above 1000000000 units a second, the largest that is counted exactly; count in larger units"
    )]
    TooFast(String),
    /// Not of the form `units/span`.
    #[error("rate \"{0}\" is not written as units/span; write for example 100/s, 5/10m or 1000/1d")]
    Form(String),
}

impl Rate {
    /// The longest span a rate may be given over: 365 days.
    pub const PER_MAX: Duration = Duration::from_hours(365 * 24);
    /// The fastest rate: a thousand million units a second, one for each nanosecond.
    pub const UNITS_PER_SECOND_MAX: u64 = 1_000_000_000;

    /// `units` for each `per`.
    pub fn new(units: u64, per: Duration) -> Result<Self, RateError> {
        let text = || format!("{units}/{}", format_span(per));
        let per_ns = duration_nanos(per);
        let count = NonZeroU64::new(units).ok_or_else(|| RateError::Zero(text()))?;
        let span = NonZeroU64::new(per_ns)
            .filter(|_| per <= Self::PER_MAX)
            .ok_or_else(|| RateError::Span(text()))?;
        // One unit a nanosecond is the fastest: beyond it an instant no longer tells two units
        // apart.
        if units > per_ns {
            return Err(RateError::TooFast(text()));
        }
        Ok(Self { units: count, per_ns: span })
    }

    /// `units` a second.
    pub fn per_second(units: u64) -> Result<Self, RateError> {
        Self::new(units, Duration::from_secs(1))
    }

    /// `units` a minute.
    pub fn per_minute(units: u64) -> Result<Self, RateError> {
        Self::new(units, Duration::from_mins(1))
    }

    /// `units` an hour.
    pub fn per_hour(units: u64) -> Result<Self, RateError> {
        Self::new(units, Duration::from_hours(1))
    }

    /// The numerator: units, at least 1.
    pub const fn units(self) -> u64 {
        self.units.get()
    }

    /// The denominator: the span in nanoseconds, at least 1.
    pub const fn per_ns(self) -> u64 {
        self.per_ns.get()
    }

    /// The burst that is as long at the rate `to` as `burst` is at this one: 20 at 10/s are 2 s,
    /// and 2000 at 1000/s. Rounded down to whole units, at least 1; saturating.
    pub fn burst_at(self, to: Self, burst: u64) -> u64 {
        let drain = u128::from(burst) * u128::from(self.per_ns());
        let units = u128::from(to.units());
        let follows = match drain.checked_mul(units) {
            Some(product) => product / (u128::from(self.units()) * u128::from(to.per_ns())),
            // Of numbers so large, a part in a thousand million is nothing.
            None => (drain / u128::from(self.units())).saturating_mul(units) / u128::from(to.per_ns()),
        };
        u64::try_from(follows).unwrap_or(u64::MAX).max(1)
    }

    /// The span the units are given over.
    pub const fn per(self) -> Duration {
        Duration::from_nanos(self.per_ns.get())
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let form = || RateError::Form(text.to_owned());
        let (units, span) = text.split_once('/').ok_or_else(form)?;
        let units = units.trim();
        let per = parse_span(span.trim()).ok_or_else(form)?;
        let units: u64 = units.parse().map_err(|error: ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow => RateError::TooFast(text.to_owned()),
            _ => form(),
        })?;
        Self::new(units, per).map_err(|error| match error {
            RateError::Zero(_) => RateError::Zero(text.to_owned()),
            RateError::Span(_) => RateError::Span(text.to_owned()),
            RateError::TooFast(_) => RateError::TooFast(text.to_owned()),
            RateError::Form(_) => form(),
        })
    }
}

impl TryFrom<&str> for Rate {
    type Error = RateError;

    fn try_from(text: &str) -> Result<Self, RateError> {
        text.parse()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = format_span(self.per());
        // `100/s` rather than `100/1s`.
        match span.strip_prefix('1') {
            Some(unit) if unit.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                write!(f, "{}/{unit}", self.units)
            }
            _ => write!(f, "{}/{span}", self.units),
        }
    }
}

const SPAN_UNITS: [(&str, u64); 8] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Longer names of the units from a second on.
const SPAN_UNIT_ALIASES: [(&str, &str); 13] = [
    ("sec", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("min", "m"),
    ("minute", "m"),
    ("minutes", "m"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("week", "w"),
    ("weeks", "w"),
];

/// A span of time written as a whole number and a unit (`250ms`, `10m`, `1d`); the number may be
/// left out and is then 1. Several parts may follow each other (`1h30m`). Units from a second on
/// have longer names too: `sec`, `min`, `hour`, `day`, `week`, and `second`, `minute`, in singular
/// or plural. `None` if it is not of that form or overflows.
pub fn parse_span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total: u64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let count: u64 = if digits == 0 { 1 } else { rest[..digits].parse().ok()? };
        // A bare unit ("s") is only a span when it stands alone.
        if digits == 0 && rest.len() != text.len() {
            return None;
        }
        rest = &rest[digits..];
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let written = &rest[..letters];
        let alias = SPAN_UNIT_ALIASES.iter().find(|(name, _)| *name == written);
        let unit = alias.map_or(written, |(_, unit)| unit);
        let (_, scale) = SPAN_UNITS.iter().find(|(name, _)| *name == unit)?;
        rest = &rest[letters..];
        total = total.checked_add(count.checked_mul(*scale)?)?;
    }
    Some(Duration::from_nanos(total))
}

/// A span of time: a [`Duration`], or text such as `"10m"`, `"1h30m"` or `"250ms"` that
/// [`parse_span`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

/// A text that is no span of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a span of time; write for example 10s, 5m, 1h30m or 1d")]
pub struct SpanError(pub String);

impl From<Duration> for TimeSpan {
    fn from(span: Duration) -> Self {
        Self(span)
    }
}

impl TryFrom<&str> for TimeSpan {
    type Error = SpanError;

    fn try_from(text: &str) -> Result<Self, SpanError> {
        parse_span(text).map(Self).ok_or_else(|| SpanError(text.to_owned()))
    }
}

/// A span as [`parse_span`] reads it: the largest unit that divides it (`10m`, `1500ms`, `1d`).
pub fn format_span(span: Duration) -> String {
    let nanos = duration_nanos(span);
    if nanos == 0 {
        return "0s".to_owned();
    }
    let (name, scale) = SPAN_UNITS
        .iter()
        .filter(|(name, _)| *name != "w")
        .find(|(_, scale)| nanos >= *scale && nanos.is_multiple_of(*scale))
        .unwrap_or(&("ns", 1));
    format!("{}{name}", nanos / scale)
}

/// The greatest common divisor; the other number if one of them is 0. For ratios in lowest terms,
/// also in the other crates of this project.
#[doc(hidden)]
pub const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while (a | b) >> 64 != 0 {
        if b == 0 {
            return a;
        }
        (a, b) = (b, a % b);
    }
    // Both fit: a division of 64 bits takes a fraction of the time.
    let (mut a, mut b) = (a as u64, b as u64);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as u128
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_they_are_written() {
        for text in ["100/s", "5/10m", "1000/d", "3/250ms", "1/365d", "299999999/s"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("100/1s".parse::<Rate>().unwrap(), Rate::per_second(100).unwrap());
    }

    #[test]
    fn a_burst_at_another_rate_is_as_long_as_before() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(rate("10/s").burst_at(rate("1000/s"), 20), 2000);
        // Not 19999, as of a length in whole nanoseconds.
        assert_eq!(rate("3/s").burst_at(rate("3000/s"), 20), 20_000);
        assert_eq!(rate("1000/s").burst_at(rate("1/d"), 20), 1);
        assert_eq!(rate("1/365d").burst_at(rate("1000000000/s"), u64::MAX), u64::MAX);
    }

    #[test]
    fn issue_15_units_have_longer_names_too() {
        for (text, short) in [
            ("100/sec", "100/s"),
            ("100/second", "100/s"),
            ("5/min", "5/m"),
            ("5/minute", "5/m"),
            ("5/10minutes", "5/10m"),
            ("1/hour", "1/h"),
            ("10/day", "10/d"),
            ("10/2days", "10/2d"),
            ("10/week", "10/7d"),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), short, "{text}");
        }
        assert_eq!(parse_span("1hour30min"), Some(Duration::from_mins(90)));
        assert_eq!(parse_span("1month"), None, "months differ in length");
    }

    #[test]
    fn a_rate_that_is_none_says_what_to_do() {
        for (text, hint) in [
            ("0/s", "admits nothing"),
            ("5/366d", "longer than a year"),
            ("5/0s", "zero"),
            ("2000000000/s", "larger units"),
            ("fast", "units/span"),
            ("5/parsec", "units/span"),
            ("-1/s", "units/span"),
            ("5/", "units/span"),
        ] {
            let message = text.parse::<Rate>().unwrap_err().to_string();
            assert!(message.contains(hint) && message.contains(text), "{text}: {message}");
        }
    }

    #[test]
    fn spans_are_whole_numbers_with_units() {
        assert_eq!(parse_span("1h30m"), Some(Duration::from_mins(90)));
        assert_eq!(parse_span("s"), Some(Duration::from_secs(1)));
        assert_eq!(parse_span("10"), None);
        assert_eq!(parse_span("1.5s"), None);
        assert_eq!(parse_span("1hm"), None);
        assert_eq!(parse_span("99999999999999999999s"), None);
        assert_eq!(format_span(Duration::from_millis(1500)), "1500ms");
        assert_eq!(format_span(Duration::from_hours(24)), "1d");
    }

    #[test]
    fn the_greatest_common_divisor_is_that_of_the_definition_also_beyond_64_bits() {
        for a in 0..40_u128 {
            for b in 0..40_u128 {
                let divides = |divisor: &u128| a % divisor == 0 && b % divisor == 0;
                let expected = (1..40).rev().find(divides).unwrap_or_default();
                let expected = if a == 0 && b == 0 { 0 } else { expected };
                assert_eq!(gcd(a, b), expected, "{a} {b}");
                // Both numbers times one factor have their divisor times that factor.
                for factor in [1_u128 << 64, (1 << 90) + 7, u128::from(u64::MAX)] {
                    assert_eq!(gcd(a * factor, b * factor), expected * factor, "{a} {b} times {factor}");
                }
            }
        }
        assert_eq!(gcd((1 << 100) + 1, 1 << 70), 1);
    }
}
