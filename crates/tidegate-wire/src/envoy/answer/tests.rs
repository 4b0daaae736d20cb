//! The answers that Envoy and its clients get.

use smallvec::smallvec;
use tidegate_core::{Reason, Violated};

use super::*;
use crate::envoy::Unit;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn left(name: &'static str, limit: u64, remaining: u64, window: Duration) -> Left {
    let reset_at = NOW.saturating_add(window);
    Left { name: name.into(), limit, remaining, window: Some(window), reset_at }
}

fn over(name: &'static str, retry: Retry) -> Outcome {
    let violated = Violated {
        name: name.into(),
        reason: Reason::RateExceeded,
        retry,
        limit: 5,
        remaining: 0,
        window: Some(Duration::from_mins(1)),
    };
    let scope = smallvec![("user".into(), "ada".into())];
    Outcome::Over(Refusal::new("api", scope, violated))
}

fn headers(answer: &RateLimitResponse) -> Vec<(&str, &str)> {
    let headers = answer.response_headers_to_add.iter();
    headers.map(|header| (header.key.as_str(), header.value.as_str())).collect()
}

#[test]
fn a_descriptor_shows_its_tightest_limit_and_the_answer_shows_all() {
    let minute = left("per-minute", 5, 2, Duration::from_mins(1));
    let hour = left("per-hour", 100, 2, Duration::from_hours(1));
    let odd = left("odd", 7, 6, Duration::from_millis(1500));
    let outcomes = [Outcome::within(vec![minute, hour]), Outcome::within(vec![odd]), Outcome::within(vec![])];
    let answer = answer(&outcomes, NOW, OlderHeaders::default());
    assert_eq!(answer.overall_code(), Code::Ok);
    let shown: Vec<_> = answer
        .statuses
        .iter()
        .map(|status| {
            let limit = status
                .current_limit
                .clone()
                .map(|limit| (limit.name.clone(), limit.requests_per_unit, limit.unit()));
            (
                status.code(),
                limit,
                status.limit_remaining,
                status.duration_until_reset.map(|span| (span.seconds, span.nanos)),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (Code::Ok, Some(("per-hour".to_owned(), 100, Unit::Hour)), 2, Some((3600, 0))),
            (Code::Ok, Some(("odd".to_owned(), 7, Unit::Unknown)), 6, Some((2, 0))),
            (Code::Ok, None, 0, None),
        ]
    );
    assert_eq!(
        headers(&answer),
        [
            ("ratelimit-policy", r#""per-minute";q=5;w=60, "per-hour";q=100;w=3600, "odd";q=7;w=2"#),
            ("ratelimit", r#""per-minute";r=2;t=60, "per-hour";r=2;t=3600, "odd";r=6;t=2"#),
        ]
    );
    assert!(answer.raw_body.is_empty() && answer.dynamic_metadata.is_none());
}

#[test]
fn nothing_is_said_of_limits_that_there_are_not() {
    let answer = answer(&[Outcome::within(vec![])], NOW, OlderHeaders::default());
    assert_eq!(
        answer,
        RateLimitResponse {
            overall_code: Code::Ok.into(),
            statuses: vec![DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }],
            ..RateLimitResponse::default()
        }
    );
}

#[test]
fn a_refusal_tells_the_client_of_the_limit_that_lasts_longest() {
    let at = |ms| Retry::At(NOW.saturating_add(Duration::from_millis(ms)));
    let outcomes = [over("short", at(1)), over("long", at(2001)), Outcome::within(vec![])];
    let answer = answer(&outcomes, NOW, OlderHeaders::default());
    assert_eq!(answer.overall_code(), Code::OverLimit);
    let codes: Vec<_> = answer.statuses.iter().map(DescriptorStatus::code).collect();
    assert_eq!(codes, [Code::OverLimit, Code::OverLimit, Code::Ok]);
    let waits: Vec<_> =
        answer.statuses.iter().map(|one| one.duration_until_reset.map(|span| span.seconds)).collect();
    assert_eq!(waits, [Some(1), Some(3), None]);
    assert_eq!(
        headers(&answer),
        [
            ("retry-after", "3"),
            ("ratelimit-policy", r#""long";q=5;w=60"#),
            ("ratelimit", r#""long";r=0;t=3"#),
            ("x-tidegate-reason", "rate_exceeded"),
            ("x-tidegate-limit", "long"),
            ("content-type", "application/problem+json"),
        ]
    );
    let body: serde_json::Value = serde_json::from_slice(&answer.raw_body).unwrap();
    assert_eq!(
        (&body["status"], &body["limit"], &body["retry_after_ms"]),
        (&429.into(), &"long".into(), &2001.into())
    );
    let metadata = answer.dynamic_metadata.unwrap();
    let names: Vec<_> = metadata.fields.keys().map(String::as_str).collect();
    assert_eq!(names, ["limit", "namespace", "plane", "reason", "retry_after_ms", "scope"]);
    assert_eq!(metadata.fields["retry_after_ms"].kind, Some(Kind::NumberValue(2001.0)));
    assert_eq!(metadata.fields["reason"].kind, Some(Kind::StringValue("rate_exceeded".to_owned())));
}

#[test]
fn a_refusal_for_ever_outlasts_all_others_and_names_no_wait() {
    let outcomes =
        [over("never", Retry::Never), over("later", Retry::At(NOW.saturating_add(Duration::from_hours(1))))];
    let answer = answer(&outcomes, NOW, OlderHeaders::default());
    assert_eq!(answer.statuses[0].duration_until_reset, None);
    assert!(!headers(&answer).iter().any(|(name, _)| *name == "retry-after"));
    assert!(!answer.dynamic_metadata.unwrap().fields.contains_key("retry_after_ms"));
}

#[test]
fn a_refusal_that_no_limit_made_shows_no_limit_to_envoy() {
    let violated = |name: &'static str, reason, limit| Violated {
        name: name.into(),
        reason,
        retry: Retry::Backoff,
        limit,
        remaining: 0,
        window: None,
    };
    let mut shed = Refusal::new("api", smallvec![], violated("admission_cursor", Reason::OverloadShed, 256));
    shed.retry_hint = Some(Duration::from_secs(2));
    let older = OlderHeaders { ratelimit: true, x_ratelimit: true };
    let answer_to = |refusal: &Refusal| answer(&[Outcome::Over(refusal.clone())], NOW, older);
    let answered = answer_to(&shed);
    let expected = DescriptorStatus { code: Code::OverLimit.into(), ..DescriptorStatus::default() };
    assert_eq!(answered.statuses, [expected]);
    assert_eq!(
        headers(&answered),
        [
            ("retry-after", "2"),
            ("x-tidegate-reason", "overload_shed"),
            ("x-tidegate-limit", "admission_cursor"),
            ("content-type", "application/problem+json"),
        ]
    );
    // A limit of parallel requests is one.
    let parallel = Refusal::new("api", smallvec![], violated("parallel", Reason::ConcurrencyExceeded, 4));
    let answered = answer_to(&parallel);
    assert_eq!(answered.statuses[0].current_limit.as_ref().unwrap().requests_per_unit, 4);
    let policy = ("ratelimit-policy", r#""parallel";q=4;qu="concurrent-requests""#);
    assert!(headers(&answered).contains(&policy), "{answered:?}");
    // The limits that refused beside an attribute that is missing are shown.
    let missing = Violated { retry: Retry::Never, ..violated("per-account", Reason::AttributeMissing, 0) };
    let mut refusal = Refusal::new("api", smallvec![], missing);
    refusal.violated.push(violated("parallel", Reason::ConcurrencyExceeded, 4));
    let answered = answer_to(&refusal);
    assert_eq!(answered.statuses[0].current_limit.as_ref().unwrap().name, "parallel");
    assert!(headers(&answered).contains(&policy), "{answered:?}");
}

#[test]
fn numbers_beyond_32_bits_are_shown_as_the_largest() {
    let large = left("large", u64::MAX, u64::MAX, Duration::from_hours(24));
    let status = Outcome::within(vec![large]).status(NOW);
    assert_eq!(
        (status.limit_remaining, status.current_limit.unwrap().requests_per_unit),
        (u32::MAX, u32::MAX)
    );
}
