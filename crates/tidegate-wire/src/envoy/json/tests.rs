use prost_types::Duration;

use super::*;
use crate::envoy::rate_limit_descriptor::{Entry, RateLimitOverride};
use crate::envoy::{
    Code, DescriptorStatus, HeaderValue, RateLimit, RateLimitDescriptor, RateLimitUnit, Unit, metadata,
};
use crate::fault::FaultCode;

fn entry(key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.to_owned() }
}

fn written(answer: &RateLimitResponse) -> String {
    let mut out = Vec::new();
    write(answer, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn names_of_fields_are_read_as_written_for_json_and_as_they_stand_in_the_messages() {
    let whole = RateLimitRequest {
        domain: "api".to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![entry("user", "ada"), entry("path", "")],
            limit: Some(RateLimitOverride { requests_per_unit: 5, unit: RateLimitUnit::Hour.into() }),
            hits_addend: Some(u64::MAX),
            is_negative_hits: true,
        }],
        hits_addend: 7,
    };
    for body in [
        r#"{"domain":"api","descriptors":[{"entries":[{"key":"user","value":"ada"},{"key":"path"}],
            "limit":{"requestsPerUnit":5,"unit":"HOUR"},"hitsAddend":"18446744073709551615","isNegativeHits":true}],"hitsAddend":7}"#,
        r#"{"hits_addend":"7","descriptors":[{"is_negative_hits":true,"hits_addend":18446744073709551615,
            "limit":{"unit":3,"requests_per_unit":"5"},"entries":[{"value":"ada","key":"us\u0065r"},{"key":"path","value":null}]}],"domain":"api"}"#,
    ] {
        assert_eq!(read(body.as_bytes()).unwrap(), whole);
    }
}

#[test]
fn null_is_as_good_as_left_out() {
    let none = RateLimitRequest::default();
    for body in ["{}", r#"{"domain":null,"descriptors":null,"hitsAddend":null}"#, r#" {"descriptors": []} "#]
    {
        assert_eq!(read(body.as_bytes()).unwrap(), none);
    }
    let empty = RateLimitRequest { descriptors: vec![RateLimitDescriptor::default()], ..none };
    for body in [
        r#"{"descriptors":[{}]}"#,
        r#"{"descriptors":[{"entries":null,"limit":null,"hitsAddend":null,"isNegativeHits":null}]}"#,
    ] {
        assert_eq!(read(body.as_bytes()).unwrap(), empty);
    }
    let limit = read(br#"{"descriptors":[{"limit":{"unit":null,"requestsPerUnit":null}}]}"#).unwrap();
    assert_eq!(limit.descriptors[0].limit, Some(RateLimitOverride::default()));
}

#[test]
fn a_weight_of_nothing_is_told_from_one_that_is_not_said() {
    let hits = |body: &str| {
        let body = format!(r#"{{"descriptors":[{{"hitsAddend":{body}}}]}}"#);
        read(body.as_bytes()).map(|request| request.descriptors[0].hits_addend).map_err(|fault| fault.detail)
    };
    for (body, read) in [
        ("null", None),
        ("0", Some(0)),
        ("\"0\"", Some(0)),
        ("1e3", Some(1000)),
        ("\"1e3\"", Some(1000)),
        ("2.0", Some(2)),
        ("9007199254740992.0", Some(1 << 53)),
    ] {
        assert_eq!(hits(body), Ok(read), "{body}");
    }
    for body in [
        "-1",
        "1.5",
        "1e400",
        "1e19",
        "18446744073709551616",
        "\"\"",
        "\" 1\"",
        "\"1 \"",
        "\"+1\"",
        "\"01\"",
        "\"x\"",
        "true",
        "[1]",
        "{}",
    ] {
        assert!(hits(body).is_err(), "{body}: {:?}", hits(body));
    }
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    for (body, said, field) in [
        ("", "is empty", None),
        ("}", "expected value", None),
        ("null", "null, expected an object", None),
        ("[]", "expected an object", None),
        (r#"["api",[]]"#, "expected an object", None),
        (r#"{"domain":"api"} {}"#, "the body goes on", None),
        (r#"{"domain":"a","domain":"b"}"#, "duplicate field `domain`", None),
        (r#"{"hitsAddend":1,"hits_addend":1}"#, "duplicate field `hitsAddend`", None),
        (r#"{"domain":7}"#, "expected a string", Some("domain")),
        (r#"{"hitsAddend":4294967296}"#, "from 0 to 4294967295", Some("hitsAddend")),
        (r#"{"hits_addend":-1}"#, "from 0 to 4294967295", Some("hits_addend")),
        (r#"{"descriptors":{}}"#, "expected a list", Some("descriptors")),
        (r#"{"descriptors":[null]}"#, "expected an object", Some("descriptors[0]")),
        (r#"{"descriptors":[[]]}"#, "expected an object", Some("descriptors[0]")),
        (r#"{"descriptors":[{},{"limits":{}}]}"#, "unknown field `limits`", Some("descriptors[1].limits")),
        (
            r#"{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#,
            "\"FORTNIGHT\", expected SECOND, MINUTE",
            Some("descriptors[0].limit.unit"),
        ),
        (r#"{"descriptors":[{"limit":{"unit":"hour"}}]}"#, "\"hour\"", Some("descriptors[0].limit.unit")),
        (
            r#"{"descriptors":[{"entries":[{"key":1}]}]}"#,
            "expected a string",
            Some("descriptors[0].entries[0].key"),
        ),
    ] {
        let fault = read(body.as_bytes()).unwrap_err();
        assert_eq!(fault.code, FaultCode::MalformedBody);
        assert!(fault.detail.contains(said), "{body}: {}", fault.detail);
        assert_eq!(fault.field.as_deref(), field, "{body}");
    }
    assert!(read(b"{\"domain\":\"\xff\"}").is_err());
    let fix = read(br#"{"hitsAdend":1}"#).unwrap_err().fix.unwrap();
    assert_eq!(fix, "did you mean \"hitsAddend\"?");
}

#[test]
fn a_unit_by_its_number_is_looked_at_when_the_request_is_understood() {
    for number in [-1, 0, 6, 99, i32::MIN] {
        let body = format!(r#"{{"descriptors":[{{"limit":{{"unit":{number}}}}}]}}"#);
        assert_eq!(read(body.as_bytes()).unwrap().descriptors[0].limit.unwrap().unit, number);
    }
}

#[test]
fn what_has_its_default_is_left_out_of_an_answer() {
    assert_eq!(written(&RateLimitResponse::default()), "{}");
    let answer = RateLimitResponse {
        overall_code: Code::Ok.into(),
        statuses: vec![DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }],
        ..RateLimitResponse::default()
    };
    assert_eq!(written(&answer), r#"{"overallCode":"OK","statuses":[{"code":"OK"}]}"#);
}

#[test]
fn everything_in_an_answer_has_the_name_and_the_form_of_the_mapping() {
    let header = |key: &str, value: &str, raw: &[u8]| HeaderValue {
        key: key.to_owned(),
        value: value.to_owned(),
        raw_value: raw.to_vec(),
    };
    let answer = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![DescriptorStatus {
            code: Code::OverLimit.into(),
            current_limit: Some(RateLimit {
                name: "per-user".to_owned(),
                requests_per_unit: u32::MAX,
                unit: Unit::Week.into(),
            }),
            limit_remaining: 2,
            duration_until_reset: Some(Duration { seconds: 3, nanos: 0 }),
            quota: None,
        }],
        response_headers_to_add: vec![header("retry-after", "3", b"")],
        request_headers_to_add: vec![header("x", "", b"\xff\x00")],
        raw_body: b"no\n".to_vec().into(),
        dynamic_metadata: metadata::structure(
            &serde_json::json!({ "retry_after_ms": 3000, "limit": "per-user" }),
        ),
        quota: None,
    };
    let expected = concat!(
        r#"{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"name":"per-user","#,
        r#""requestsPerUnit":4294967295,"unit":"WEEK"},"limitRemaining":2,"durationUntilReset":"3s"}],"#,
        r#""responseHeadersToAdd":[{"key":"retry-after","value":"3"}],"requestHeadersToAdd":[{"key":"x","rawValue":"/wA="}],"#,
        r#""rawBody":"bm8K","dynamicMetadata":{"limit":"per-user","retry_after_ms":3000}}"#,
    );
    assert_eq!(written(&answer), expected);
}
