//! Durations, counts, civil instants and long text as people read them: in messages, tables and
//! logs.
//!
//! Machines read other forms: JSON has whole milliseconds, policies have
//! [`rate::format_span`](crate::rate::format_span).

#[cfg(feature = "calendar")]
mod civil_instant;

use core::fmt::{self, Write};
use core::time::Duration;
use std::borrow::Cow;

#[cfg(feature = "calendar")]
pub use civil_instant::CivilInstant;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Seconds from which days are shown; a window of 24 hours reads as hours.
const DAYS_FROM: u64 = 48 * HOUR;

/// A duration in at most two units: `250 ms`, `1.2 s`, `15 min`, `1 h 30 min`, `24 h`, `2 d 3 h`.
///
/// Below a second it has milliseconds, below ten seconds tenths of a second, above that the largest
/// unit and the next one that is not zero. Hours reach to 48.
///
/// **Rounding.** Up, so that a wait is never shown shorter than it is. The one exception: from a
/// second on, an excess of at most one millisecond is left off. Waits are rounded up to
/// milliseconds before they are shown, and that millisecond would otherwise turn a window of 15
/// minutes into `15 min 1 s`.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::display::HumanDuration;
/// assert_eq!(HumanDuration(Duration::from_secs(5_400)).to_string(), "1 h 30 min");
/// assert_eq!(HumanDuration::from_millis(1_130).to_string(), "1.2 s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

impl HumanDuration {
    /// Of whole milliseconds, as JSON has them.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

impl HumanDuration {
    /// Writes it as `Display` does, in a third of the time: each refusal tells a wait.
    pub fn write_to(self, out: &mut impl Write) -> fmt::Result {
        let (whole, millis) = (self.0.as_secs(), u64::from(self.0.subsec_nanos().div_ceil(1_000_000)));
        if whole == 0 && millis < 1000 {
            return write_count(out, millis, "ms");
        }
        // Without the millisecond that rounding may have added.
        let rest = if whole == 0 { 0 } else { millis.saturating_sub(1) };
        let whole = whole.max(1);
        let tenths = rest.div_ceil(100);
        if whole < 10 && 10 * whole + tenths < 100 {
            return match (whole + tenths / 10, tenths % 10) {
                (whole, 0) => write_count(out, whole, "s"),
                (whole, tenth) => {
                    out.write_str(itoa::Buffer::new().format(whole))?;
                    out.write_char('.')?;
                    write_count(out, tenth, "s")
                }
            };
        }
        let seconds = in_two_units(whole.saturating_add(rest.div_ceil(1000)));
        let (larger, rest) = largest_unit(seconds);
        write_count(out, seconds / larger.seconds, larger.name)?;
        if rest == 0 {
            return Ok(());
        }
        let (smaller, _) = largest_unit(rest);
        out.write_char(' ')?;
        write_count(out, rest / smaller.seconds, smaller.name)
    }
}

/// So many of a unit.
fn write_count(out: &mut impl Write, number: u64, unit: &str) -> fmt::Result {
    out.write_str(itoa::Buffer::new().format(number))?;
    out.write_char(' ')?;
    out.write_str(unit)
}

struct Unit {
    seconds: u64,
    name: &'static str,
}

/// The unit that `seconds` are shown in, and what is left of them beside whole units.
fn largest_unit(seconds: u64) -> (Unit, u64) {
    let unit = match seconds {
        0..MINUTE => Unit { seconds: 1, name: "s" },
        MINUTE..HOUR => Unit { seconds: MINUTE, name: "min" },
        HOUR..DAYS_FROM => Unit { seconds: HOUR, name: "h" },
        _ => Unit { seconds: DAY, name: "d" },
    };
    let rest = seconds % unit.seconds;
    (unit, rest)
}

/// `seconds` rounded up so that two units show them.
fn in_two_units(seconds: u64) -> u64 {
    let (_, rest) = largest_unit(seconds);
    let (smaller, _) = largest_unit(rest);
    (seconds - rest).saturating_add(rest.div_ceil(smaller.seconds) * smaller.seconds)
}

/// A number of things: `1 key`, `2 keys`. The plural of the noun is regular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity<'a, N>(pub N, pub &'a str);

impl<N: fmt::Display + PartialEq + From<u8>> fmt::Display for Quantity<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, noun) = self;
        let plural = if *count == N::from(1) { "" } else { "s" };
        write!(f, "{count} {noun}{plural}")
    }
}

/// At most `max` bytes of `text`, cut between characters, with an ellipsis where something is
/// missing.
///
/// For messages: what strangers send must not decide how long an answer or a log line is.
pub fn shortened(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    Cow::Owned(format!("{}…", &text[..end]))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_at_most_two_units_and_is_never_shown_shorter_than_it_is() {
        for (millis, shown) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (1100, "1.1 s"),
            (1102, "1.2 s"),
            (9_900, "9.9 s"),
            (9_902, "10 s"),
            (59_001, "59 s"),
            (59_002, "1 min"),
            (94_002, "1 min 35 s"),
            (900_000, "15 min"),
            (900_002, "15 min 1 s"),
            (5_400_000, "1 h 30 min"),
            (5_400_500, "1 h 31 min"),
            (10_801_033, "3 h 2 s"),
            (7_199_002, "2 h"),
            (86_400_000, "24 h"),
            (129_600_000, "36 h"),
            (172_799_002, "2 d"),
            (183_600_000, "2 d 3 h"),
            (183_600_002, "2 d 4 h"),
            (31_536_000_000, "365 d"),
            (u64::MAX, "213503982334 d 15 h"),
        ] {
            assert_eq!(HumanDuration::from_millis(millis).to_string(), shown, "{millis} ms");
        }
        assert_eq!(HumanDuration(Duration::from_nanos(1)).to_string(), "1 ms");
        assert_eq!(HumanDuration(Duration::from_nanos(999_000_001)).to_string(), "1 s");
    }

    #[test]
    fn the_millisecond_that_rounding_adds_shows_in_no_window() {
        for (window_ms, shown) in
            [(1000, "1 s"), (60_000, "1 min"), (900_000, "15 min"), (10_800_000, "3 h"), (86_400_000, "24 h")]
        {
            assert_eq!(HumanDuration::from_millis(window_ms + 1).to_string(), shown, "{window_ms} ms");
        }
    }

    #[test]
    fn every_duration_up_to_three_days_is_shown_within_its_smaller_unit() {
        let shown_ms = |text: &str| -> u64 {
            let words: Vec<&str> = text.split(' ').collect();
            assert!(words.len() <= 4, "{text}");
            let unit = |name: &str| match name {
                "ms" => 1,
                "s" => 1000,
                "min" => 60_000,
                "h" => 3_600_000,
                _ => 86_400_000,
            };
            let part = |pair: &[&str]| {
                let (whole, tenths) = pair[0].split_once('.').unwrap_or((pair[0], "0"));
                (whole.parse::<u64>().unwrap() * 10 + tenths.parse::<u64>().unwrap()) * unit(pair[1]) / 10
            };
            words.chunks(2).map(part).sum()
        };
        for millis in (0..3 * 86_400_000).step_by(997) {
            let text = HumanDuration::from_millis(millis).to_string();
            let shown = shown_ms(&text);
            assert!(shown + 1 >= millis && shown <= millis + millis / 24 + 1000, "{millis} ms is {text}");
        }
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!(Quantity(1_usize, "namespace").to_string(), "1 namespace");
        assert_eq!(Quantity(0_u64, "limit").to_string(), "0 limits");
        assert_eq!(Quantity(12_u64, "key").to_string(), "12 keys");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(shortened("short", 5), "short");
        assert_eq!(shortened("h\u{e9}llo", 2), "h…");
        assert_eq!(shortened("h\u{e9}llo", 3), "h\u{e9}…");
    }
}
