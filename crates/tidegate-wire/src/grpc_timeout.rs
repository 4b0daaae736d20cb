//! The `grpc-timeout` header of a gRPC call, which says how long the caller waits for the answer.

use core::time::Duration;

/// The most digits of a timeout in the specification of gRPC over HTTP/2.
const DIGITS_MAX: usize = 8;

/// Parses a header value: 1 to 8 digits, then the unit `H`, `M`, `S`, `m`, `u` or `n` for hours,
/// minutes, seconds, milliseconds, microseconds or nanoseconds.
///
/// Returns `None` for every other value. gRPC leaves the reaction to the server: a service may
/// ignore such a header, a proxy may reject the request. The largest value, `99999999H`, is
/// 11 408 years, so add it to instants with saturation.
///
/// ```
/// use std::time::Duration;
/// use tidegate_wire::grpc_timeout;
///
/// assert_eq!(grpc_timeout::parse(b"250m"), Some(Duration::from_millis(250)));
/// assert_eq!(grpc_timeout::parse(b"+1S"), None);
/// ```
pub fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if !(1..=DIGITS_MAX).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Eight digits of hours are 3.6e11 seconds, which 64 bits hold.
    let count = digits.iter().fold(0, |count, digit| count * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(count * 3600),
        b'M' => Duration::from_secs(count * 60),
        b'S' => Duration::from_secs(count),
        b'm' => Duration::from_millis(count),
        b'u' => Duration::from_micros(count),
        b'n' => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_unit_of_the_specification_is_read() {
        for (text, expected) in [
            ("7n", Duration::from_nanos(7)),
            ("6u", Duration::from_micros(6)),
            ("100m", Duration::from_millis(100)),
            ("4S", Duration::from_secs(4)),
            ("3M", Duration::from_mins(3)),
            ("2H", Duration::from_hours(2)),
            ("0S", Duration::ZERO),
            ("00000001S", Duration::from_secs(1)),
            ("99999999H", Duration::from_hours(99_999_999)),
        ] {
            assert_eq!(parse(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_value_outside_the_specification_is_not_read() {
        for text in [
            "",
            "S",
            "5",
            "5s",
            "-5S",
            "+5S",
            "100000000S",
            "1.5S",
            "5 S",
            " 5S",
            "5SS",
            "5\u{e9}",
            "\u{661}S",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            if let Some(timeout) = parse(&bytes) {
                prop_assert!(timeout <= Duration::from_hours(99_999_999));
            }
        }
    }
}
