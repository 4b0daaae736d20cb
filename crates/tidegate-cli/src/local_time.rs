//! Instants of the daemon on the clock of the one who looks.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The steps between two marks of an axis, in minutes.
const STEPS: [i64; 11] = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720];

const MINUTE_MS: i64 = 60_000;

/// The time zone of the machine, or that of `TZ`.
#[derive(Clone, Debug)]
pub(crate) struct LocalTime(TimeZone);

impl LocalTime {
    pub(crate) fn system() -> Self {
        Self(TimeZone::system())
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self(TimeZone::get(name).unwrap())
    }

    fn zoned(&self, at_ms: i64) -> Zoned {
        Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::MAX).to_zoned(self.0.clone())
    }

    /// Hour and minute: `14:05`.
    pub(crate) fn clock(&self, at_ms: i64) -> String {
        self.zoned(at_ms).strftime("%H:%M").to_string()
    }

    /// Hour and minute of an instant, with the date unless the instant is on the day of `now_ms`:
    /// `14:05`, or `28 Nov, 14:05`.
    pub(crate) fn day_clock(&self, at_ms: i64, now_ms: i64) -> String {
        let at = self.zoned(at_ms);
        let is_today = at.date() == self.zoned(now_ms).date();
        at.strftime(if is_today { "%H:%M" } else { "%-d %b, %H:%M" }).to_string()
    }

    /// A span in words: `29 Nov 2026, 13:05 to 14:05 CET`, with seconds if it is short.
    pub(crate) fn span(&self, from_ms: i64, until_ms: i64) -> String {
        let (from, until) = (self.zoned(from_ms), self.zoned(until_ms));
        let clock = if until_ms - from_ms < 5 * MINUTE_MS { "%H:%M:%S" } else { "%H:%M" };
        let begin = from.strftime(&format!("%-d %b %Y, {clock}")).to_string();
        let date = if from.date() == until.date() { "" } else { "%-d %b, " };
        format!("{begin} to {}", until.strftime(&format!("{date}{clock} %Z")))
    }

    /// At most `count` round instants in a span, each with its hour and minute.
    pub(crate) fn marks(&self, (from_ms, until_ms): (i64, i64), count: usize) -> Vec<(i64, String)> {
        let minutes = (until_ms - from_ms) / MINUTE_MS;
        let count = i64::try_from(count).unwrap_or(i64::MAX).max(1);
        let fits = STEPS.into_iter().find(|step| minutes / step < count);
        let step_ms = fits.unwrap_or(1440) * MINUTE_MS;
        let offset_ms = i64::from(self.zoned(from_ms).offset().seconds()) * 1000;
        // Round on the clock of the place, as it stands at the beginning.
        let first = (from_ms + offset_ms).div_euclid(step_ms) * step_ms - offset_ms;
        let mut marks = Vec::new();
        let mut at = first;
        while at <= until_ms {
            if at >= from_ms {
                marks.push((at, self.clock(at)));
            }
            at += step_ms;
        }
        marks
    }
}

/// Milliseconds since 1970 of an instant of RFC 3339.
pub(crate) fn millis_of(text: &str) -> Option<i64> {
    Some(text.parse::<Timestamp>().ok()?.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_on_the_clock_of_the_place() {
        let at = |text: &str| millis_of(text).unwrap();
        let texts = |zone: &str, span: (&str, &str), count| -> Vec<String> {
            let marks = LocalTime::named(zone).marks((at(span.0), at(span.1)), count);
            marks.into_iter().map(|(_, text)| text).collect()
        };
        let hour = ("2026-11-29T12:05:00Z", "2026-11-29T13:05:00Z");
        assert_eq!(texts("Europe/Berlin", hour, 7), ["13:10", "13:20", "13:30", "13:40", "13:50", "14:00"]);
        assert_eq!(texts("Asia/Kathmandu", hour, 3), ["18:00", "18:30"]);
        let day = ("2026-11-28T12:00:00Z", "2026-11-29T12:00:00Z");
        assert_eq!(
            texts("UTC", day, 9),
            ["12:00", "15:00", "18:00", "21:00", "00:00", "03:00", "06:00", "09:00", "12:00"]
        );
    }

    #[test]
    fn an_instant_of_another_day_has_its_date() {
        let zone = LocalTime::named("Europe/Berlin");
        let at = |text: &str| millis_of(text).unwrap();
        let clock = |text: &str| zone.day_clock(at(text), at("2026-11-29T12:05:00Z"));
        assert_eq!(clock("2026-11-29T13:05:00Z"), "14:05");
        assert_eq!(clock("2026-11-28T23:30:00Z"), "00:30");
        assert_eq!(clock("2026-11-28T22:30:00Z"), "28 Nov, 23:30");
    }

    #[test]
    fn a_span_says_its_date_and_zone() {
        let span = |from: &str, until: &str| {
            LocalTime::named("Europe/Berlin").span(millis_of(from).unwrap(), millis_of(until).unwrap())
        };
        assert_eq!(span("2026-11-29T12:05:00Z", "2026-11-29T13:05:00Z"), "29 Nov 2026, 13:05 to 14:05 CET");
        assert_eq!(
            span("2026-11-28T13:05:00Z", "2026-11-29T13:05:00Z"),
            "28 Nov 2026, 14:05 to 29 Nov, 14:05 CET"
        );
    }
}
