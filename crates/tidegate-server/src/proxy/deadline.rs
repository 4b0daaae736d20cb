//! How long the caller of a request waits for its answer, as the request says.
//!
//! The header contains a duration from the reading of the request, and not an instant: caller and
//! daemon share no clock.

use core::time::Duration;

use http::{HeaderMap, HeaderName};
use tidegate_wire::grpc_timeout;

use super::rejection::{Rejection, RejectionCode};

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The most digits of a header in milliseconds, 115 days. Above it: unreadable.
const MILLIS_DIGITS_MAX: usize = 10;

/// The reaction to a wait that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    /// The request goes on as if the header were absent, and [`Wait::ignored`] names it. The
    /// default.
    #[default]
    Ignore,
    /// The request is rejected with 400.
    Reject,
}

/// Where a request says how long its caller waits: in `grpc-timeout` always, and in one more header
/// if one is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadline {
    header_ms: Option<HeaderName>,
    unreadable: Unreadable,
}

/// How long the caller of one request waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The wait from when the request was read; the shortest that the request names. Zero: the
    /// caller waits no more. `None`: the request names none. At most 11 408 years, so add it to
    /// instants with saturation.
    pub within: Option<Duration>,
    /// A header that could not be read and was ignored, to be noted.
    pub ignored: Option<HeaderName>,
}

impl Deadline {
    /// Reads `grpc-timeout` and, if it is named, `header_ms`: a whole number of milliseconds of at
    /// most 10 digits.
    pub fn new(header_ms: Option<HeaderName>, unreadable: Unreadable) -> Self {
        Self { header_ms, unreadable }
    }

    /// The header that is read beside `grpc-timeout`.
    pub(crate) fn header(&self) -> Option<&HeaderName> {
        self.header_ms.as_ref()
    }

    /// Reads how long the caller waits from the headers of its request. A duplicate header is
    /// unreadable.
    pub fn read(&self, headers: &HeaderMap) -> Result<Wait, Rejection> {
        let mut wait = Wait::default();
        for name in [Some(&GRPC_TIMEOUT), self.header_ms.as_ref()].into_iter().flatten() {
            let mut values = headers.get_all(name).iter();
            let Some(value) = values.next() else { continue };
            let parse = if *name == GRPC_TIMEOUT { grpc_timeout::parse } else { milliseconds };
            let one = parse(value.as_bytes()).filter(|_| values.next().is_none());
            match (one, self.unreadable) {
                (Some(one), _) => wait.within = Some(wait.within.map_or(one, |known| known.min(one))),
                (None, Unreadable::Ignore) => wait.ignored = Some(name.clone()),
                (None, Unreadable::Reject) => return Err(unreadable(name, value.as_bytes())),
            }
        }
        Ok(wait)
    }
}

fn unreadable(name: &HeaderName, value: &[u8]) -> Rejection {
    let value = String::from_utf8_lossy(value);
    let fix = if *name == GRPC_TIMEOUT {
        "send it once, as 1 to 8 digits and one of n, u, m, S, M and H"
    } else {
        "send it once, as a whole number of milliseconds of at most 10 digits"
    };
    let detail = format_args!("header {name} \"{value}\" does not say how long the caller waits");
    Rejection::new(RejectionCode::MalformedHeader, detail).fix(fix)
}

/// A whole number of milliseconds: 1 to 10 digits and nothing else. `str::parse` would accept a
/// sign.
fn milliseconds(bytes: &[u8]) -> Option<Duration> {
    let is_number = (1..=MILLIS_DIGITS_MAX).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit);
    let number = || bytes.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    is_number.then(number).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    fn deadline(unreadable: Unreadable) -> Deadline {
        Deadline::new(Some(HeaderName::from_static("x-timeout-ms")), unreadable)
    }

    fn within(pairs: &[(&'static str, &[u8])]) -> Option<Duration> {
        deadline(Unreadable::Reject).read(&headers(pairs)).unwrap().within
    }

    #[test]
    fn every_unit_of_grpc_is_what_grpc_says() {
        for (text, expected) in [
            ("1n", Duration::from_nanos(1)),
            ("20u", Duration::from_micros(20)),
            ("100m", Duration::from_millis(100)),
            ("7S", Duration::from_secs(7)),
            ("2M", Duration::from_mins(2)),
            ("1H", Duration::from_hours(1)),
            ("0S", Duration::ZERO),
            ("00000001S", Duration::from_secs(1)),
            ("99999999H", Duration::from_hours(99_999_999)),
        ] {
            assert_eq!(within(&[("grpc-timeout", text.as_bytes())]), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_wait_that_cannot_be_read_is_noted_or_rejected_as_configured() {
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "+1S", "1 S", "1.5S", " 1S", "1SS", "\u{661}S"]
        {
            let given = headers(&[("grpc-timeout", text.as_bytes())]);
            let wait = deadline(Unreadable::Ignore).read(&given).unwrap();
            assert_eq!(wait, Wait { within: None, ignored: Some(GRPC_TIMEOUT) }, "{text}");
            let rejection = deadline(Unreadable::Reject).read(&given).unwrap_err();
            assert_eq!((rejection.status, rejection.code), (400, RejectionCode::MalformedHeader), "{text}");
            assert!(rejection.fix.unwrap().contains("n, u, m, S, M and H"));
        }
        for text in ["", "1.5", "-1", "1e3", "12345678901", "0x10", "ten"] {
            let given = headers(&[("x-timeout-ms", text.as_bytes())]);
            assert!(deadline(Unreadable::Reject).read(&given).is_err(), "{text}");
        }
    }

    #[test]
    fn the_shortest_wait_counts_and_an_unreadable_one_does_not_hide_the_other() {
        assert_eq!(
            within(&[("grpc-timeout", b"2S"), ("x-timeout-ms", b"1500")]),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            within(&[("grpc-timeout", b"1S"), ("x-timeout-ms", b"1500")]),
            Some(Duration::from_secs(1))
        );
        let given = headers(&[("grpc-timeout", b"soon"), ("x-timeout-ms", b"1500")]);
        let wait = deadline(Unreadable::Ignore).read(&given).unwrap();
        assert_eq!(wait, Wait { within: Some(Duration::from_millis(1500)), ignored: Some(GRPC_TIMEOUT) });
    }

    #[test]
    fn a_wait_that_stands_twice_is_not_chosen_from() {
        let given = headers(&[("x-timeout-ms", b"1"), ("x-timeout-ms", b"9999")]);
        assert_eq!(deadline(Unreadable::Ignore).read(&given).unwrap().within, None);
        assert!(deadline(Unreadable::Reject).read(&given).is_err());
    }

    #[test]
    fn a_header_that_is_not_named_is_not_read() {
        let given = headers(&[("x-timeout-ms", b"1")]);
        assert_eq!(Deadline::default().read(&given).unwrap(), Wait::default());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_or_unreadable(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let mut given = HeaderMap::new();
                given.append("grpc-timeout", value.clone());
                given.append("x-timeout-ms", value);
                prop_assert!(deadline(Unreadable::Ignore).read(&given).is_ok());
            }
        }
    }
}
