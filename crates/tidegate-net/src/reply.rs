//! Answers: status, headers and body, written once and in one place.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;
use tidegate::{Refusal, Timestamp};
use tidegate_wire::problem::{MEDIA_TYPE, RefusalBody};
use tidegate_wire::{Fault, FaultCode};

pub use tidegate_wire::headers::OlderHeaders;
pub use tidegate_wire::headers::{limit_headers, refusal_headers};

/// The answer of every endpoint.
pub type Reply = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

/// The permit of an admitted gateway subrequest.
pub const PERMIT: HeaderName = HeaderName::from_static("x-tidegate-permit");

/// How large most answers are.
const USUAL_BODY_BYTES: usize = 512;

/// An answer with a JSON body.
pub fn json<T: Serialize>(status: StatusCode, body: &T) -> Reply {
    let mut bytes = Vec::with_capacity(USUAL_BODY_BYTES);
    tidegate_wire::answer::write(body, &mut bytes);
    with_body(status, JSON, bytes)
}

/// An answer with any body.
pub fn with_body(status: StatusCode, media_type: HeaderValue, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    reply
}

/// An answer without a body.
pub fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::new()));
    *reply.status_mut() = status;
    reply
}

/// The answer to a message that could not be taken.
pub fn fault(fault: &Fault) -> Reply {
    let mut body = Vec::with_capacity(USUAL_BODY_BYTES);
    fault.write_body(&mut body);
    let mut reply = with_body(status(fault.code.status()), PROBLEM, body);
    if let Some(seconds) = fault.retry_after_seconds {
        reply.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    if fault.code == FaultCode::Unauthenticated {
        reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if fault.code == FaultCode::BodyTimeout {
        reply.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

/// The answer to a method that the route does not take.
pub fn method_not_allowed(method: &http::Method, path: &str, allowed: &'static str) -> Reply {
    let detail = format_args!("{path} does not take {method}; use {allowed}");
    let mut reply = fault(&Fault::new(FaultCode::MethodNotAllowed, detail));
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// The answer to a refused request, with the status `code`.
pub fn refusal(refusal: &Refusal<'_>, code: u16, now: Timestamp, older: OlderHeaders) -> Reply {
    let mut body = Vec::with_capacity(2 * USUAL_BODY_BYTES);
    tidegate_wire::answer::write(&RefusalBody::new(refusal, code, now), &mut body);
    let mut reply = with_body(status(code), PROBLEM, body);
    refusal_headers(reply.headers_mut(), refusal, now, older);
    reply
}

/// The status of this number, or 500 if no status has it.
pub fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
