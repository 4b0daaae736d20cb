//! The timeout of a caller, read from the head of its request.

use core::time::Duration;

use http::header::HeaderName;
use tidegate_wire::grpc_timeout;

use crate::extract::Head;

/// The `grpc-timeout` of a call: up to eight digits and a unit of `H`, `M`, `S`, `m`, `u` or `n`.
/// Any other value is treated as absent, as gRPC servers do.
pub fn grpc(head: &Head<'_>) -> Option<Duration> {
    grpc_timeout::parse(head.headers.get("grpc-timeout")?.as_bytes())
}

/// Whole milliseconds in a header. A value that is no number is treated as absent.
///
/// # Panics
///
/// If `name` is no header name: that is a mistake in the program and shows at its start.
pub fn millis(name: &str) -> impl Fn(&Head<'_>) -> Option<Duration> + Send + Sync + 'static {
    let name: HeaderName = name.parse().expect("a header name is made of letters, digits and `-`");
    move |head| number(head.headers.get(&name)?.to_str().ok()?).map(Duration::from_millis)
}

/// Digits and nothing else: no sign, which `u64::from_str` would take.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn with(name: &str, value: &str) -> Request<()> {
        Request::builder().header(name, value).body(()).unwrap()
    }

    #[test]
    fn a_grpc_timeout_is_read_in_every_unit_and_garbage_is_none() {
        let read = |value: &str| grpc(&Head::from_request(&with("grpc-timeout", value)));
        for (value, expected) in [
            ("2H", Duration::from_hours(2)),
            ("3M", Duration::from_mins(3)),
            ("4S", Duration::from_secs(4)),
            ("5m", Duration::from_millis(5)),
            ("6u", Duration::from_micros(6)),
            ("7n", Duration::from_nanos(7)),
            ("99999999H", Duration::from_hours(99_999_999)),
            ("0S", Duration::ZERO),
        ] {
            assert_eq!(read(value), Some(expected), "{value}");
        }
        for garbage in ["", "S", "5", "5s", "-5S", "+5S", "100000000S", "1.5S", "5 S", "5\u{e9}"] {
            assert_eq!(read(garbage), None, "{garbage:?}");
        }
        assert_eq!(grpc(&Head::from_request(&Request::new(()))), None);
    }

    #[test]
    fn milliseconds_are_digits_and_nothing_else() {
        let read = |value: &str| millis("x-timeout-ms")(&Head::from_request(&with("x-timeout-ms", value)));
        assert_eq!(read("250"), Some(Duration::from_millis(250)));
        assert_eq!(read("18446744073709551615"), Some(Duration::from_millis(u64::MAX)));
        for garbage in ["", "+1", "-1", "1.5", "18446744073709551616", "1s"] {
            assert_eq!(read(garbage), None, "{garbage:?}");
        }
    }
}
