//! Numbers as the pages for operators show them.

use core::time::Duration;

/// A time in milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    figure(duration.as_secs_f64() * 1e3)
}

/// To a millionth: a smoothed value on its way to zero is not told as 8.6e-43.
pub(crate) fn figure(value: f64) -> f64 {
    const PARTS: f64 = 1e6;
    if value.abs() < 1e9 { (value * PARTS).round() / PARTS + 0.0 } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_to_a_millionth_and_large_ones_as_they_are() {
        for (value, told) in [
            (8.6e-43, "0.0"),
            (0.123_456_789, "0.123457"),
            (-4e-7, "0.0"),
            (12.5, "12.5"),
            (1.0e300, "1e+300"),
            (1_234_567_890.25, "1234567890.25"),
        ] {
            assert_eq!(serde_json::to_string(&figure(value)).unwrap(), told);
        }
    }
}
