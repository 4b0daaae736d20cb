//! Sizes and spans of time as they are written in a configuration.

use core::time::Duration;

use tidegate_core::rate::parse_span;

use crate::printable::shown;

const SIZE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// A number of bytes between `least` and `most`: `256MiB`, `64KiB`, `1048576`. The error is
/// `(what, fix)`.
pub(crate) fn size(name: &str, text: &str, least: u64, most: u64) -> Result<u64, (String, String)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (count, unit) = text.split_at(digits);
    let scale = match unit.trim_start() {
        "" => Some(1),
        unit => SIZE_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale),
    };
    let range = || format!("use a size from {} to {}", format_size(least), format_size(most));
    let (Ok(count), Some(scale)) = (count.parse::<u64>(), scale) else {
        let fix = "write a whole number with B, KiB, MiB, GiB or TiB, for example 256MiB".to_owned();
        return Err((format!("{name} \"{}\" is not a size", shown(text)), fix));
    };
    match count.checked_mul(scale) {
        Some(bytes) if bytes < least => Err((format!("{name} \"{}\" is too small", shown(text)), range())),
        Some(bytes) if bytes <= most => Ok(bytes),
        _ => Err((format!("{name} \"{}\" is too large", shown(text)), range())),
    }
}

/// A size in the largest unit that divides it.
pub(crate) fn format_size(bytes: u64) -> String {
    let (name, scale) = SIZE_UNITS
        .iter()
        .find(|(_, scale)| bytes >= *scale && bytes.is_multiple_of(*scale))
        .unwrap_or(&("B", 1));
    format!("{}{name}", bytes / scale)
}

/// A span of time: `250ms`, `10m`, `1h30m`. The error is `(what, fix)`.
pub(crate) fn span(name: &str, text: &str) -> Result<Duration, (String, String)> {
    parse_span(text).ok_or_else(|| {
        let what = format!("{name} \"{}\" is not a span of time", shown(text));
        let fix = match text.parse::<u64>() {
            Ok(number) => format!("add a unit, for example {number}ms or {number}s"),
            Err(_) => "write a whole number with ns, us, ms, s, m, h, d or w, for example 10m, 1h30m or 7d"
                .to_owned(),
        };
        (what, fix)
    })
}

/// A part of a whole in hundredths, written as a decimal with at most two places: `0`, `0.05`,
/// `0.5`, `1`.
pub(crate) fn percent(text: &str) -> Option<u8> {
    match text {
        "0" => Some(0),
        "1" => Some(100),
        _ => {
            let places = text.strip_prefix("0.").filter(|places| (1..=2).contains(&places.len()))?;
            let is_number = places.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| format!("{places:0<2}").parse().ok()).flatten()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        for (text, bytes) in [("256MiB", 256 << 20), ("64 KiB", 65_536), ("1048576", 1 << 20), ("0B", 0)] {
            assert_eq!(size("keys", text, 0, 1 << 40), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "256MB", "-1", "1.5GiB", "99999999999999999999TiB"] {
            assert!(size("keys", text, 0, u64::MAX).unwrap_err().0.contains("is not a size"), "{text}");
        }
        assert!(size("keys", "99999999TiB", 0, u64::MAX).unwrap_err().0.contains("too large"));
        assert_eq!(format_size(1536), "1536B");
        assert_eq!(format_size(3 << 30), "3GiB");
    }

    #[test]
    fn a_span_without_a_unit_is_asked_for_one() {
        let (what, fix) = span("window", "10").unwrap_err();
        assert_eq!(
            (what.as_str(), fix.as_str()),
            ("window \"10\" is not a span of time", "add a unit, for example 10ms or 10s")
        );
    }

    #[test]
    fn parts_are_written_in_hundredths() {
        let parts = ["0", "0.05", "0.5", "0.50", "1", "1.0", "0.005", "5%", "0.+5", "", "."].map(percent);
        let expected = [Some(0), Some(5), Some(50), Some(50), Some(100), None, None, None, None, None, None];
        assert_eq!(parts, expected);
    }
}
