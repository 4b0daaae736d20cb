//! The true cost of a request as its answer says it: in a header, in a JSON body, or in the events
//! of a stream.
//!
//! A body is read as it passes, in pieces of any size, and nothing of it is kept but the numbers
//! that are looked for. So an answer of any length costs the same memory, and no byte of it is
//! late.

mod event_numbers;
mod json_numbers;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderMap, HeaderValue};
use tidegate_policy::grammar::ResponseValue;

use event_numbers::EventNumbers;
use json_numbers::JsonNumbers;

/// The knowledge so far of the true cost of a request.
#[derive(Debug, Default)]
pub(crate) enum ResponseCost {
    /// The answer does not say it, or is not read for it.
    #[default]
    Unsaid,
    /// A header said it.
    Said(u64),
    /// The body is read for it.
    Json(Box<JsonNumbers>),
    /// The events of the body are read for it.
    Events(Box<EventNumbers>),
}

/// The result of reading an answer for the true cost, as a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CostReading {
    /// The answer said it.
    Read,
    /// The answer did not say it.
    Absent,
}

impl CostReading {
    pub(crate) const ALL: [Self; 2] = [Self::Read, Self::Absent];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Absent => "absent",
        }
    }
}

impl ResponseCost {
    /// The first of `places` that the answer with this head has. Headers that name the cost are for
    /// the proxy and are removed.
    pub(crate) fn from_head(places: &[ResponseValue], head: &mut Parts) -> Self {
        let mut found = Self::Unsaid;
        for place in places {
            let here = match place {
                ResponseValue::Header(name) => head.headers.remove(name).as_ref().and_then(header_number),
                _ => None,
            };
            if !matches!(found, Self::Unsaid) {
                continue;
            }
            found = match place {
                ResponseValue::Header(_) => here.map_or(Self::Unsaid, Self::Said),
                ResponseValue::Json(fields) if is_plain(&head.headers) && !is_event_stream(&head.headers) => {
                    Self::Json(Box::new(JsonNumbers::new(fields.clone().into())))
                }
                ResponseValue::Events(fields)
                    if is_plain(&head.headers) && is_event_stream(&head.headers) =>
                {
                    Self::Events(Box::new(EventNumbers::new(fields.clone().into())))
                }
                _ => Self::Unsaid,
            };
        }
        found
    }

    /// Reads a piece of the body.
    pub(crate) fn read(&mut self, piece: &[u8]) {
        match self {
            Self::Unsaid | Self::Said(_) => {}
            Self::Json(numbers) => numbers.read(piece),
            Self::Events(numbers) => numbers.read(piece),
        }
    }

    /// The true cost, as far as the answer has said it by now.
    pub(crate) fn units(&self) -> Option<u64> {
        match self {
            Self::Unsaid => None,
            Self::Said(units) => Some(*units),
            Self::Json(numbers) => sum(numbers.found()),
            Self::Events(numbers) => sum(&numbers.found()),
        }
    }
}

/// The sum of the numbers that were found; `None` if none was.
fn sum(found: &[Option<u64>]) -> Option<u64> {
    found.iter().flatten().copied().reduce(u64::saturating_add)
}

fn header_number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.trim().parse().ok()
}

/// Whether the body is not compressed.
fn is_plain(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let media = media.split(|byte| *byte == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(texts: &[&str]) -> Vec<ResponseValue> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn head(headers: &[(&'static str, &'static str)]) -> Parts {
        let mut response = http::Response::new(());
        for (name, value) in headers {
            response.headers_mut().append(*name, HeaderValue::from_static(value));
        }
        response.into_parts().0
    }

    fn units(texts: &[&str], headers: &[(&'static str, &'static str)], body: &str) -> Option<u64> {
        let mut cost = ResponseCost::from_head(&places(texts), &mut head(headers));
        cost.read(body.as_bytes());
        cost.units()
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const EVENTS: (&str, &str) = ("content-type", "Text/Event-Stream; charset=utf-8");

    #[test]
    fn the_first_place_that_an_answer_has_counts() {
        let all = ["header.x-tokens", "sse.n", "json.n"];
        assert_eq!(units(&all, &[("x-tokens", "7"), JSON], r#"{"n":8}"#), Some(7));
        assert_eq!(units(&all, &[JSON], r#"{"n":8}"#), Some(8));
        assert_eq!(units(&all, &[EVENTS], "data: {\"n\":9}\n\n"), Some(9));
        assert_eq!(units(&all, &[("x-tokens", "many"), JSON], r#"{"n":8}"#), Some(8));
        assert_eq!(units(&["sse.n"], &[JSON], r#"{"n":8}"#), None);
        assert_eq!(units(&["json.n"], &[], r#"{"n":8}"#), Some(8), "an answer need not say its type");
    }

    #[test]
    fn fields_that_are_there_are_added() {
        let both = ["json.usage.in + json.usage.out"];
        assert_eq!(units(&both, &[JSON], r#"{"usage":{"out":5,"in":3}}"#), Some(8));
        assert_eq!(units(&both, &[JSON], r#"{"usage":{"out":5}}"#), Some(5));
        assert_eq!(units(&both, &[JSON], r#"{"usage":{}}"#), None);
        let most = format!(r#"{{"usage":{{"out":{0},"in":{0}}}}}"#, u64::MAX);
        assert_eq!(units(&both, &[JSON], &most), Some(u64::MAX));
    }

    #[test]
    fn a_compressed_body_is_not_read_and_a_header_does_not_reach_the_client() {
        assert_eq!(units(&["json.n"], &[JSON, ("content-encoding", "gzip")], r#"{"n":8}"#), None);
        assert_eq!(units(&["json.n"], &[JSON, ("content-encoding", "Identity")], r#"{"n":8}"#), Some(8));
        let mut head = head(&[("x-a", "1"), ("x-b", "2"), ("x-c", "3")]);
        let cost = ResponseCost::from_head(&places(&["header.x-a", "header.x-b"]), &mut head);
        assert_eq!((cost.units(), head.headers.len()), (Some(1), 1));
    }
}
