//! Answers: status, headers and body, written once and in one place.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use tidegate::{Refusal, Timestamp};
use tidegate_wire::problem::{MEDIA_TYPE, RefusalBody};
use tidegate_wire::ratelimit::{Allowance, tightest, write_policy, write_ratelimit};
use tidegate_wire::{Fault, FaultCode, retry_after};

/// What every route answers with.
pub(crate) type Reply = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The word of a refusal as a header, for gateways that pass headers but no body.
const REASON: HeaderName = HeaderName::from_static("x-tidegate-reason");
/// The limit that bound, as a header.
const LIMIT: HeaderName = HeaderName::from_static("x-tidegate-limit");
/// The permit of an admitted gateway subrequest.
pub(crate) const PERMIT: HeaderName = HeaderName::from_static("x-tidegate-permit");

/// Which of the older header families are sent beside `RateLimit`. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OlderHeaders {
    /// `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset` (seconds) of the tightest limit.
    pub ratelimit: bool,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset` (seconds) of the tightest limit.
    pub x_ratelimit: bool,
}

/// How large most answers are.
const USUAL_BODY_BYTES: usize = 512;

/// An answer with a JSON body.
pub(crate) fn json<T: Serialize>(status: StatusCode, body: &T) -> Reply {
    let mut bytes = Vec::with_capacity(USUAL_BODY_BYTES);
    tidegate_wire::answer::write(body, &mut bytes);
    with_body(status, JSON, bytes)
}

/// An answer with any body.
pub(crate) fn with_body(status: StatusCode, media_type: HeaderValue, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    reply
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = status;
    reply
}

/// The answer to a message that could not be taken.
pub(crate) fn fault(fault: &Fault) -> Reply {
    let mut body = Vec::with_capacity(USUAL_BODY_BYTES);
    fault.write_body(&mut body);
    let mut reply = with_body(status(fault.code.status()), PROBLEM, body);
    if let Some(seconds) = fault.retry_after_seconds {
        reply.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if fault.code == FaultCode::BodyTimeout {
        reply.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// The answer to a method that the route does not take.
pub(crate) fn method_not_allowed(method: &http::Method, path: &str, allowed: &'static str) -> Reply {
    let detail = format_args!("{path} does not take {method}; use {allowed}");
    let mut reply = fault(&Fault::new(FaultCode::MethodNotAllowed, detail));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// The answer to a refused request, with the status `code`.
pub(crate) fn refusal(refusal: &Refusal<'_>, code: u16, now: Timestamp, older: OlderHeaders) -> Reply {
    let mut body = Vec::with_capacity(2 * USUAL_BODY_BYTES);
    tidegate_wire::answer::write(&RefusalBody::new(refusal, code, now), &mut body);
    let mut reply = with_body(status(code), PROBLEM, body);
    refusal_headers(reply.headers_mut(), refusal, now, older);
    reply
}

/// The headers of a refusal, the same with and without a body.
pub(crate) fn refusal_headers(
    headers: &mut HeaderMap,
    refusal: &Refusal<'_>,
    now: Timestamp,
    older: OlderHeaders,
) {
    if let Some(seconds) = retry_after::of(refusal, now) {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    let allowances = refusal.violated.iter().map(|violated| Allowance::violated(violated, now));
    limit_headers(headers, allowances, older);
    headers.insert(REASON, HeaderValue::from_static(refusal.reason().as_str()));
    if let Ok(name) = HeaderValue::from_str(&tidegate_wire::ratelimit::policy_name(refusal.name())) {
        headers.insert(LIMIT, name);
    }
}

/// The `RateLimit` fields, and the older ones where configured. None if there are no limits.
pub(crate) fn limit_headers<'a>(
    headers: &mut HeaderMap,
    allowances: impl Iterator<Item = Allowance<'a>> + Clone,
    older: OlderHeaders,
) {
    // Both values share one allocation.
    let mut values = String::with_capacity(192);
    write_policy(allowances.clone(), &mut values);
    let policy_bytes = values.len();
    if policy_bytes == 0 {
        return;
    }
    write_ratelimit(allowances.clone(), &mut values);
    let values = Bytes::from(values);
    insert(headers, RATELIMIT_POLICY, values.slice(..policy_bytes));
    insert(headers, RATELIMIT, values.slice(policy_bytes..));
    if (older.ratelimit || older.x_ratelimit)
        && let Some(one) = tightest(allowances)
    {
        let values = [one.limit, one.remaining, one.wait_seconds.unwrap_or(0)];
        for (is_sent, names) in [(older.ratelimit, RATELIMIT_NAMES), (older.x_ratelimit, X_RATELIMIT_NAMES)] {
            if is_sent {
                for (name, value) in names.into_iter().zip(values) {
                    headers.insert(HeaderName::from_static(name), value.into());
                }
            }
        }
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Bytes) {
    let value = HeaderValue::from_maybe_shared(value);
    headers.insert(name, value.expect("structured fields are printable ASCII"));
}

const RATELIMIT_NAMES: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const X_RATELIMIT_NAMES: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];

pub(crate) fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
