//! Numbers that a request says about itself, one grammar for every protocol: digits and nothing
//! else. `str::parse` would accept a sign.

use core::time::Duration;

/// The most digits of a wait in milliseconds, 115 days.
const MILLIS_DIGITS_MAX: usize = 10;

/// The most digits of a number of attempts.
const ATTEMPT_DIGITS_MAX: usize = 9;

/// How long a caller waits, as `tidegate-deadline-ms` says: 1 to 10 digits. `None` for anything
/// else.
pub fn parse_deadline_ms(value: &[u8]) -> Option<Duration> {
    digits(value, MILLIS_DIGITS_MAX).map(Duration::from_millis)
}

/// How many attempts there were before a request, as `tidegate-attempt` says: 1 to 9 digits. `None`
/// for anything else.
pub fn parse_attempt(value: &[u8]) -> Option<u32> {
    digits(value, ATTEMPT_DIGITS_MAX).and_then(|number| u32::try_from(number).ok())
}

fn digits(value: &[u8], most: usize) -> Option<u64> {
    let is_number = (1..=most).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    let number = || value.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    is_number.then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_are_a_number() {
        assert_eq!(parse_deadline_ms(b"1500"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_deadline_ms(b"9999999999"), Some(Duration::from_millis(9_999_999_999)));
        assert_eq!((parse_attempt(b"0"), parse_attempt(b"999999999")), (Some(0), Some(999_999_999)));
        for text in ["", "1.5", "-1", "+1", "1e3", "12345678901", "0x10", "ten", " 1", "\u{661}"] {
            assert_eq!(
                (parse_deadline_ms(text.as_bytes()), parse_attempt(text.as_bytes())),
                (None, None),
                "{text}"
            );
        }
        assert_eq!(parse_attempt(b"1234567890"), None);
    }
}
