//! Answers that the layer makes itself: refusals and faults, over HTTP and over gRPC.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tidegate_core::{Refusal, Timestamp};
use tidegate_wire::fault::DETAIL_BYTES_MAX;
use tidegate_wire::headers::{OlderHeaders, refusal_headers};
use tidegate_wire::problem::{self, MEDIA_TYPE, RefusalBody};
use tidegate_wire::text::shortened;
use tidegate_wire::{Fault, Meaning};

const PROBLEM: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);
const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// In which words a caller wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerFormat {
    Http,
    Grpc,
}

impl AnswerFormat {
    /// A caller that sends `application/grpc` is answered so.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let media_type = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
        if media_type.starts_with(b"application/grpc") { Self::Grpc } else { Self::Http }
    }
}

/// The answer to a refused request.
pub(crate) fn refusal(
    refusal: &Refusal,
    now: Timestamp,
    format: AnswerFormat,
    older: OlderHeaders,
) -> Response<Bytes> {
    let meaning = Meaning::from_reason(refusal.reason());
    let mut response = match format {
        AnswerFormat::Http => {
            let mut body = Vec::with_capacity(1024);
            tidegate_wire::answer::write(&RefusalBody::new(refusal, meaning.status, now), &mut body);
            with_problem(meaning.status, body)
        }
        AnswerFormat::Grpc => trailers_only(meaning.grpc as u8, &problem::sentence(refusal, now)),
    };
    refusal_headers(response.headers_mut(), refusal, now, older);
    response
}

/// The answer to a request that could not be decided.
pub(crate) fn fault(fault: &Fault, format: AnswerFormat) -> Response<Bytes> {
    let status = fault.code.status();
    let mut response = match format {
        AnswerFormat::Http => {
            let mut body = Vec::with_capacity(512);
            fault.write_body(&mut body);
            with_problem(status, body)
        }
        // INVALID_ARGUMENT, or INTERNAL.
        AnswerFormat::Grpc => trailers_only(if status < 500 { 3 } else { 13 }, &fault.detail),
    };
    if let Some(seconds) = fault.retry_after_seconds {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn with_problem(status: u16, body: Vec<u8>) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM);
    response
}

/// An answer of gRPC without messages: the status stands in the headers.
fn trailers_only(code: u8, message: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC);
    headers.insert(GRPC_STATUS, u16::from(code).into());
    // Messages are percent-encoded where names of policies are: all but printable ASCII, and `%`.
    let message = shortened(message, DETAIL_BYTES_MAX);
    if let Ok(message) = HeaderValue::from_str(&tidegate_wire::ratelimit::policy_name(&message)) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}

/// Whether an answer says that the service failed, as opposed to the caller: a status of 500 and
/// above, or a gRPC status of `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`, `UNAVAILABLE` or
/// `DATA_LOSS` in headers or trailers.
pub(crate) fn has_failed(status: Option<StatusCode>, headers: &HeaderMap) -> bool {
    let grpc = headers.get(GRPC_STATUS).map(HeaderValue::as_bytes);
    status.is_some_and(|status| status.is_server_error())
        || matches!(grpc, Some(b"2" | b"4" | b"13" | b"14" | b"15"))
}
