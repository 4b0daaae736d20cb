//! Instants as clocks on walls show them.

use core::fmt;

use jiff::tz::TimeZoneDatabase;

use crate::time::Timestamp;

/// An instant as a clock on a wall in a time zone shows it: `2026-03-01 00:00 America/Los_Angeles`.
///
/// Rounded to the nearest second, which is shown only if it is not zero: the end of a window that a
/// store has told on its own clock is some milliseconds off. In UTC if the zone does not exist.
///
/// ```
/// # use tidegate_core::{Timestamp, display::CivilInstant};
/// let at = Timestamp::from_secs(1_772_352_000);
/// let shown = CivilInstant { at, zone: "America/Los_Angeles" }.to_string();
/// assert_eq!(shown, "2026-03-01 00:00 America/Los_Angeles");
/// assert_eq!(CivilInstant { at, zone: "UTC" }.to_string(), "2026-03-01 08:00 UTC");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilInstant<'a> {
    /// The instant.
    pub at: Timestamp,
    /// The IANA name of the zone.
    pub zone: &'a str,
}

impl fmt::Display for CivilInstant<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_nanos().saturating_add(500_000_000) / 1_000_000_000;
        let zone = TimeZoneDatabase::bundled().get(self.zone).unwrap_or(jiff::tz::TimeZone::UTC);
        // The last instant is in the year 2554, which every zone has.
        let instant =
            i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        let shown = instant.unwrap_or(jiff::Timestamp::MAX).to_zoned(zone);
        let format = if shown.second() == 0 { "%Y-%m-%d %H:%M" } else { "%Y-%m-%d %H:%M:%S" };
        let name = shown.time_zone().iana_name().unwrap_or("UTC");
        write!(f, "{} {name}", shown.strftime(format))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_civil_instant_reads_as_on_a_clock_in_its_zone() {
        let shown = |seconds, zone| CivilInstant { at: Timestamp::from_secs(seconds), zone }.to_string();
        assert_eq!(shown(1_772_352_000, "America/Los_Angeles"), "2026-03-01 00:00 America/Los_Angeles");
        assert_eq!(shown(1_772_352_000, "UTC"), "2026-03-01 08:00 UTC");
        assert_eq!(shown(1_772_352_001, "UTC"), "2026-03-01 08:00:01 UTC");
        assert_eq!(shown(1_772_352_000, "Mars/Olympus"), "2026-03-01 08:00 UTC");
        for (millis, text) in [
            (1_772_351_999_600_u64, "08:00 UTC"),
            (1_772_352_000_400, "08:00 UTC"),
            (1_772_352_000_600, "08:00:01 UTC"),
        ] {
            let near = CivilInstant { at: Timestamp::from_nanos(millis * 1_000_000), zone: "UTC" };
            assert_eq!(near.to_string(), format!("2026-03-01 {text}"), "{millis}");
        }
        let last = CivilInstant { at: Timestamp::MAX, zone: "UTC" };
        assert_eq!(last.to_string(), "2554-07-21 23:34:33 UTC");
    }
}
