//! Envoy's rate limit service: a request as it comes over the wire, and the answer to it.

use core::time::Duration;
use std::collections::BTreeSet;

use prost::Message;
use tidegate_core::{Cost, Reason, Refusal, Retry, Text, Timestamp, Violated};
use tidegate_wire::envoy::request::{DESCRIPTORS_MAX, ENTRIES_MAX, NAME_BYTES_MAX, VALUE_BYTES_MAX};
use tidegate_wire::envoy::{
    Code, Descriptor, Hits, Left, Outcome, ParsedRequest, RateLimitDescriptor, RateLimitRequest,
    RateLimitResponse, answer,
};
use tidegate_wire::headers::OlderHeaders;

use crate::Taken;
use crate::draws::Draws;

/// When everything is asked.
const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// The most characters of a key that names a made-up limit, as long as a name in a policy may be.
const LIMIT_NAME_CHARS_MAX: usize = 128;

/// Reads a serialized request, and answers it with outcomes made up for each of its descriptors.
///
/// The parsed request agrees with the message and is within the bounds; no value of an attribute is
/// lost; the answer can be sent, whatever stands in it.
pub fn rls(bytes: &[u8]) -> Taken {
    let Ok(request) = RateLimitRequest::decode(bytes) else { return Taken::Refused };
    let asked = match ParsedRequest::read(&request) {
        Ok(asked) => asked,
        Err(bad) => {
            let line = bad.to_string();
            assert!(line.starts_with(&bad.field) && line.len() < 256, "{line:?}");
            assert!(!line.contains(char::is_control), "{line:?}");
            return Taken::Refused;
        }
    };
    assert_as_sent(&request, &asked);
    let mut draws = Draws::new(bytes);
    let outcomes = asked.descriptors.iter().map(|one| outcome(asked.domain, one, &mut draws));
    let outcomes: Vec<Outcome> = outcomes.collect();
    let older = OlderHeaders { ratelimit: draws.below(2) == 0, x_ratelimit: draws.below(2) == 0 };
    assert_answered(&outcomes, &answer(&outcomes, NOW, older));
    Taken::Accepted
}

fn assert_as_sent(request: &RateLimitRequest, asked: &ParsedRequest<'_>) {
    assert_eq!(asked.domain, request.domain);
    assert!((1..=NAME_BYTES_MAX).contains(&asked.domain.len()), "{:?}", asked.domain);
    assert_eq!(asked.descriptors.len(), request.descriptors.len());
    assert!((1..=DESCRIPTORS_MAX).contains(&asked.descriptors.len()), "{}", asked.descriptors.len());
    for (sent, read) in request.descriptors.iter().zip(&asked.descriptors) {
        assert_eq!(read.hits, hits(sent, request.hits_addend));
        assert_eq!(read.limit.is_some(), sent.limit.is_some());
        if let (Some(read), Some(sent)) = (read.limit, sent.limit) {
            assert_eq!((read.requests_per_unit, read.unit as i32), (sent.requests_per_unit, sent.unit));
            assert!((1..=6).contains(&sent.unit) && read.window >= Duration::from_secs(1), "{read:?}");
        }
        assert_eq!(read.entries, sent.entries);
        assert!((1..=ENTRIES_MAX).contains(&read.entries.len()), "{} entries", read.entries.len());
        for entry in read.entries {
            assert!((1..=NAME_BYTES_MAX).contains(&entry.key.len()), "{:?}", entry.key);
            assert!(entry.value.len() <= VALUE_BYTES_MAX, "{} bytes of a value", entry.value.len());
        }
        assert_attributes(read);
    }
}

/// The cost of a descriptor, by the description of the message.
fn hits(sent: &RateLimitDescriptor, of_request: u32) -> Hits {
    let of_all = Cost::new(of_request.into());
    match (sent.hits_addend, sent.is_negative_hits) {
        (Some(0), _) => Hits::Look,
        (Some(units), true) => Hits::GiveBack(Cost::new(units)),
        (Some(units), false) => Hits::Charge(Cost::new(units).expect("0 stands above")),
        (None, true) => Hits::GiveBack(of_all),
        (None, false) => Hits::Ask(of_all),
    }
}

/// Every value is there, under a name that no other value has.
fn assert_attributes(read: &Descriptor<'_>) {
    let pairs = read.attributes();
    assert!(pairs.iter().map(|(_, value)| *value).eq(read.entries.iter().map(|entry| entry.value.as_str())));
    for ((name, _), entry) in pairs.iter().zip(read.entries) {
        assert!(name.starts_with(&entry.key), "{name:?} for {:?}", entry.key);
    }
    let names: BTreeSet<&str> = pairs.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names.len(), pairs.len(), "two values of one name in {pairs:?}");
}

/// A made-up outcome of a descriptor; its limits are named after its keys.
fn outcome(domain: &str, one: &Descriptor<'_>, draws: &mut Draws) -> Outcome {
    let names =
        one.entries.iter().map(|entry| entry.key.chars().take(LIMIT_NAME_CHARS_MAX).collect::<String>());
    let mut names: Vec<String> = names.collect();
    names.truncate(draws.below(4));
    if draws.below(2) == 0 {
        let left = names.into_iter().map(|name| Left {
            name: name.into(),
            limit: draws.units(),
            remaining: draws.units(),
            window: window(draws),
            reset_at: instant(draws),
        });
        return Outcome::within(left.collect());
    }
    let mut violated = |name: String| Violated {
        name: name.into(),
        reason: Reason::ALL[draws.below(Reason::ALL.len())],
        retry: match draws.below(3) {
            0 => Retry::At(instant(draws)),
            1 => Retry::Backoff,
            _ => Retry::Never,
        },
        limit: draws.units(),
        remaining: draws.units(),
        window: window(draws),
    };
    let scope =
        one.attributes().iter().map(|(name, value)| (Text::from(&**name), Text::from(*value))).collect();
    let mut refusal = Refusal::new(domain, scope, violated("first".to_owned()));
    refusal.violated.extend(names.into_iter().map(violated));
    refusal.retry_hint = window(draws);
    Outcome::Over(refusal)
}

fn window(draws: &mut Draws) -> Option<Duration> {
    const WINDOWS: [Duration; 4] =
        [Duration::from_millis(1), Duration::from_secs(1), Duration::from_hours(24), Duration::MAX];
    WINDOWS
        .get(draws.below(6))
        .copied()
        .or_else(|| Some(Duration::from_nanos(draws.bits())))
        .filter(|_| draws.below(4) > 0)
}

fn instant(draws: &mut Draws) -> Timestamp {
    match draws.below(4) {
        0 => Timestamp::from_nanos(draws.bits()),
        1 => Timestamp::MAX,
        2 => NOW,
        _ => NOW.saturating_add(Duration::from_millis(draws.bits() >> 40)),
    }
}

fn assert_answered(outcomes: &[Outcome], answer: &RateLimitResponse) {
    let is_over = |one: &Outcome| matches!(one, Outcome::Over(_));
    let code = |is_over| if is_over { Code::OverLimit } else { Code::Ok };
    let is_refused = outcomes.iter().any(is_over);
    assert_eq!(answer.overall_code(), code(is_refused));
    assert_eq!(answer.statuses.len(), outcomes.len());
    for (status, outcome) in answer.statuses.iter().zip(outcomes) {
        assert_eq!(status.code(), code(is_over(outcome)));
    }
    assert_eq!(answer.dynamic_metadata.is_some(), is_refused);
    for header in &answer.response_headers_to_add {
        assert!(!header.key.is_empty() && !header.value.is_empty(), "{header:?}");
        assert!(header.value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{header:?}");
    }
    if is_refused {
        let body: Result<serde_json::Value, _> = serde_json::from_slice(&answer.raw_body);
        assert!(body.is_ok_and(|body| body.is_object()), "{}", answer.raw_body.escape_ascii());
    } else {
        assert!(answer.raw_body.is_empty());
    }
    assert_eq!(RateLimitResponse::decode(&*answer.encode_to_vec()).as_ref(), Ok(answer));
}
