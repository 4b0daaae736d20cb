//! The units of time and their lengths.
//!
//! Months have 30 days and years 365, as everywhere in Envoy's rate limiting.

use core::time::Duration;

use super::{RateLimitUnit, Unit};

const DAY: Duration = Duration::from_hours(24);

const SPANS: [(Unit, Duration); 7] = [
    (Unit::Second, Duration::from_secs(1)),
    (Unit::Minute, Duration::from_mins(1)),
    (Unit::Hour, Duration::from_hours(1)),
    (Unit::Day, DAY),
    (Unit::Week, Duration::from_hours(7 * 24)),
    (Unit::Month, Duration::from_hours(30 * 24)),
    (Unit::Year, Duration::from_hours(365 * 24)),
];

/// The unit of a span; [`Unit::Unknown`] if no unit has that length.
///
/// Envoy leaves a limit with that unit out of its `x-ratelimit-limit` and shows the rest.
pub fn from_span(span: Duration) -> Unit {
    SPANS.iter().find(|(_, known)| *known == span).map_or(Unit::Unknown, |(unit, _)| *unit)
}

/// How long the span of a limit is that comes with a request; `None` for one that was not said.
pub fn span(unit: RateLimitUnit) -> Option<Duration> {
    let unit = match unit {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    };
    SPANS.iter().find(|(known, _)| *known == unit).map(|(_, span)| *span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_that_a_request_may_name_is_shown_by_the_same_name() {
        for number in 1..=6 {
            let unit = RateLimitUnit::try_from(number).unwrap();
            let shown = from_span(span(unit).unwrap());
            assert_eq!((shown.as_str_name(), shown as i32), (unit.as_str_name(), number));
        }
        assert_eq!(span(RateLimitUnit::Unknown), None);
    }

    #[test]
    fn a_span_without_a_name_is_not_given_that_of_another() {
        assert_eq!(from_span(Duration::from_secs(2)), Unit::Unknown);
        assert_eq!(from_span(Duration::from_millis(999)), Unit::Unknown);
        assert_eq!(from_span(Duration::from_hours(7 * 24)), Unit::Week);
    }
}
