//! How long the caller of a request waits for its answer, as the request says.
//!
//! The header contains a duration from the reading of the request, and not an instant: caller and
//! daemon share no clock.

use core::time::Duration;

use http::HeaderName;
use tidegate_policy::grammar::ValueSource;
use tidegate_policy::policy::claims::DEADLINE_MS;
use tidegate_wire::claim::parse_deadline_ms;
use tidegate_wire::grpc_timeout;

use crate::attributes::RequestValues;

const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// How long the caller of one request waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The wait from when the request was read; the shortest that the request names. Zero: the
    /// caller waits no more. `None`: the request names none. At most 11 408 years, so add it to
    /// instants with saturation.
    pub within: Option<Duration>,
    /// A source that could not be read and was ignored, to be noted.
    pub ignored: Option<ValueSource>,
}

impl Wait {
    /// Reads how long the caller of a request waits: from `grpc-timeout`, `tidegate-deadline-ms`
    /// and the source of the route, a whole number with at most 10 digits, in milliseconds. A
    /// duplicate, or a value of another form, is ignored.
    pub fn read(source: Option<&ValueSource>, values: &RequestValues<'_>) -> Self {
        let mut wait = Self::default();
        let headers = &values.parts.headers;
        for (name, parse) in
            [(GRPC_TIMEOUT, grpc_timeout::parse as fn(&[u8]) -> _), (DEADLINE_MS, parse_deadline_ms)]
        {
            let mut lines = headers.get_all(&name).iter();
            let Some(line) = lines.next() else { continue };
            match parse(line.as_bytes()).filter(|_| lines.next().is_none()) {
                Some(one) => wait.shorten(one),
                None => wait.ignored = Some(ValueSource::Header(name)),
            }
        }
        if let Some(source) = source {
            match values.value(source).map(|value| value.map(|text| parse_deadline_ms(text.as_bytes()))) {
                Ok(None) => {}
                Ok(Some(Some(one))) => wait.shorten(one),
                Ok(Some(None)) | Err(_) => wait.ignored = Some(source.clone()),
            }
        }
        wait
    }

    fn shorten(&mut self, wait: Duration) {
        self.within = Some(self.within.map_or(wait, |known| known.min(wait)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    use crate::request_fixture::{parts, path, values};

    fn read(pairs: &[(&'static str, &[u8])], source: Option<&str>) -> Wait {
        let parts = parts("/?wait=700", pairs);
        let source = source.map(|text| text.parse().unwrap());
        Wait::read(source.as_ref(), &values(&parts, &path(&parts)))
    }

    fn within(pairs: &[(&'static str, &[u8])]) -> Option<Duration> {
        read(pairs, Some("header.x-timeout-ms")).within
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
    fn a_wait_that_cannot_be_read_is_ignored_and_noted() {
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "+1S", "1 S", "1.5S", " 1S", "1SS", "\u{661}S"]
        {
            let wait = read(&[("grpc-timeout", text.as_bytes())], None);
            let ignored = Some(ValueSource::Header(GRPC_TIMEOUT));
            assert_eq!(wait, Wait { within: None, ignored }, "{text}");
        }
        for text in ["", "1.5", "-1", "1e3", "12345678901", "0x10", "ten"] {
            for name in ["x-timeout-ms", "tidegate-deadline-ms"] {
                let wait = read(&[(name, text.as_bytes())], Some("header.x-timeout-ms"));
                let ignored = format!("header.{name}").parse().ok();
                assert_eq!(wait, Wait { within: None, ignored }, "{text}");
            }
        }
    }

    #[test]
    fn the_shortest_wait_counts_and_an_unreadable_one_does_not_hide_the_other() {
        assert_eq!(
            within(&[("grpc-timeout", b"2S"), ("x-timeout-ms", b"1500")]),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(
            within(&[("grpc-timeout", b"1S"), ("x-timeout-ms", b"1500"), ("tidegate-deadline-ms", b"900")]),
            Some(Duration::from_millis(900))
        );
        let wait = read(&[("grpc-timeout", b"soon")], Some("query.wait"));
        let ignored = Some(ValueSource::Header(GRPC_TIMEOUT));
        assert_eq!(wait, Wait { within: Some(Duration::from_millis(700)), ignored });
    }

    #[test]
    fn a_wait_that_stands_twice_is_not_chosen_from() {
        assert_eq!(within(&[("x-timeout-ms", b"1"), ("x-timeout-ms", b"9999")]), None);
        assert_eq!(within(&[("tidegate-deadline-ms", b"1"), ("tidegate-deadline-ms", b"9999")]), None);
    }

    #[test]
    fn a_header_that_is_not_named_is_not_read() {
        assert_eq!(read(&[("x-timeout-ms", b"1")], None), Wait::default());
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_read_or_ignored(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            if HeaderValue::from_bytes(&bytes).is_ok() {
                let pairs = [("grpc-timeout", &bytes[..]), ("x-timeout-ms", &bytes), ("tidegate-deadline-ms", &bytes)];
                let _ = read(&pairs, Some("header.x-timeout-ms"));
            }
        }
    }
}
