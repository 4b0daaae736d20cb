//! Replies: status, headers and body, written once and in one place.

use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use tidegate_core::{Refusal, Timestamp};
use tidegate_wire::problem::{MEDIA_TYPE, RefusalBody};
use tidegate_wire::{Fault, FaultCode};
use tokio::time::Instant;

use crate::connections::{
    AnswerBytes, AnswerDelivery, BodyProgressGuard, Buffered, ConnectionActivity, NoRoom, STREAM_BYTES,
};

pub use tidegate_wire::headers::OlderHeaders;
pub use tidegate_wire::headers::{limit_headers, refusal_headers};

/// The answer to a request.
pub type Reply = Response<ReplyBody>;

/// The body of a reply: one piece, or several that are made as the client takes them.
pub struct ReplyBody {
    pieces: BodyPieces,
    /// The connection that counts the pieces, where it does.
    line: Option<Arc<ConnectionActivity>>,
    delivery: Option<AnswerDelivery>,
}

enum BodyPieces {
    /// Empty once it is given out.
    One(Bytes),
    Several(Box<StreamedBody>),
}

/// A body whose pieces are made one by one.
struct StreamedBody {
    pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>,
    progress: BodyProgressGuard,
    /// The charge for a stream that stays open.
    _charge: Buffered,
}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(BodyPieces::One(Bytes::from(bytes)))
    }
}

impl ReplyBody {
    fn new(pieces: BodyPieces) -> Self {
        Self { pieces, line: None, delivery: None }
    }

    /// The answer hands something over. Its body is one piece.
    pub fn deliver(&mut self, delivery: AnswerDelivery) {
        debug_assert!(matches!(self.pieces, BodyPieces::One(_)), "only the end of one piece is noticed");
        self.delivery = Some(delivery);
    }

    /// The answer goes out on `line`, by HTTP/2 if it `is_http2`, and the next that the protocol
    /// does is to encode its head.
    #[inline]
    pub fn go_out(&mut self, line: &Arc<ConnectionActivity>, is_http2: bool) {
        line.another_answer_begins();
        if is_http2 || self.delivery.is_some() {
            self.line = Some(Arc::clone(line));
        }
        if let Some(delivery) = &mut self.delivery {
            line.look_for(delivery);
        }
        if matches!(&self.pieces, BodyPieces::One(bytes) if bytes.is_empty())
            && let Some(delivery) = self.delivery.take()
        {
            line.head_encoded(delivery);
        }
    }
}

impl Body for ReplyBody {
    type Data = AnswerBytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerBytes>, Infallible>>> {
        let Self { pieces, line, delivery } = self.get_mut();
        let bytes = match pieces {
            BodyPieces::One(bytes) if bytes.is_empty() => None,
            BodyPieces::One(bytes) => {
                let bytes = core::mem::take(bytes);
                Some(AnswerBytes::new(bytes, line.take(), delivery.take()))
            }
            BodyPieces::Several(body) => {
                let piece = body.pieces.next();
                body.progress.gave();
                piece.map(|piece| AnswerBytes::new(Bytes::from(piece), line.clone(), None))
            }
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.pieces, BodyPieces::One(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.pieces {
            BodyPieces::One(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyPieces::Several(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReplyBody").field(&self.size_hint()).finish()
    }
}

/// The media type of JSON.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

/// The permit of an admitted gateway subrequest.
pub const PERMIT: HeaderName = HeaderName::from_static("x-tidegate-permit");

/// The longest body that is made at once though it could be streamed, in bytes.
pub const ONE_PIECE_BYTES_MAX: usize = 64 << 10;

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
    let mut reply = Response::new(ReplyBody::from(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    reply
}

/// An answer with a body whose pieces are made as the client takes them, so that a long list is
/// never in memory as a whole. One of up to [`ONE_PIECE_BYTES_MAX`] bytes is made at once.
///
/// All of it must be taken `within` a time, after which the connection `line` is closed. It is
/// charged as a stream that stays open; an error if the budget for slow peers has no room for it.
pub fn streamed(
    status: StatusCode,
    media_type: HeaderValue,
    mut pieces: impl Iterator<Item = Vec<u8>> + Send + 'static,
    line: &Arc<ConnectionActivity>,
    within: Duration,
) -> Result<Reply, Fault> {
    let mut first = Vec::new();
    while first.len() <= ONE_PIECE_BYTES_MAX {
        match pieces.next() {
            Some(piece) => first.extend_from_slice(&piece),
            None => return Ok(with_body(status, media_type, first)),
        }
    }
    let pieces = core::iter::once(first).chain(pieces);
    let mut charge = Buffered::new(Arc::clone(line));
    charge.resize(STREAM_BYTES).map_err(|NoRoom| {
        Fault::new(FaultCode::BodyMemoryFull, "the daemon's memory for unread answers is full").retry_after(1)
    })?;
    let progress = BodyProgressGuard::begin(Arc::clone(line), within, Some(Instant::now() + within));
    let body = StreamedBody { pieces: Box::new(pieces), progress, _charge: charge };
    let mut reply = Response::new(ReplyBody::new(BodyPieces::Several(Box::new(body))));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    Ok(reply)
}

/// An answer without a body.
pub fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::from(Vec::new()));
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
pub fn method_not_allowed(method: &http::Method, path: &str, allowed: &str) -> Reply {
    let detail = format_args!("{path} does not take {method}; use {allowed}");
    let mut reply = fault(&Fault::new(FaultCode::MethodNotAllowed, detail));
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        reply.headers_mut().insert(ALLOW, allowed);
    }
    reply
}

/// The answer to a refused request, with the status `code`.
pub fn refusal(refusal: &Refusal, code: u16, now: Timestamp, older: OlderHeaders) -> Reply {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use http_body_util::BodyExt;

    use super::*;
    use crate::Bounds;
    use crate::connections::{Connections, OpenConnection};

    const WITHIN: Duration = Duration::from_secs(5);

    fn connection() -> (Arc<Connections>, OpenConnection) {
        let connections = Arc::new(Connections::default());
        let open = connections.add();
        (connections, open)
    }

    fn numbers(line: &Arc<ConnectionActivity>, made: &Arc<AtomicUsize>) -> Result<Reply, Fault> {
        let made = Arc::clone(made);
        let pieces = (0..3_u8).map(move |number| {
            made.fetch_add(1, Ordering::Relaxed);
            vec![b'0' + number; ONE_PIECE_BYTES_MAX + 1]
        });
        streamed(StatusCode::OK, JSON, pieces, line, WITHIN)
    }

    #[tokio::test]
    async fn a_piece_is_made_when_the_one_before_is_taken() {
        let (_, open) = connection();
        let made = Arc::default();
        let mut body = numbers(&open.line, &made).unwrap().into_body();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(made.load(Ordering::Relaxed), 1);
        assert!(!body.is_end_stream() && body.size_hint().exact().is_none());
        for expected in [1, 2, 3] {
            assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(Some(Ok(_)))));
            assert_eq!(made.load(Ordering::Relaxed), expected);
        }
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)));
    }

    #[tokio::test]
    async fn a_short_list_is_one_piece_of_known_length() {
        let (_, open) = connection();
        let pieces = [b"[1,".to_vec(), b"2]".to_vec()].into_iter();
        let body = streamed(StatusCode::OK, JSON, pieces, &open.line, WITHIN).unwrap().into_body();
        assert_eq!(body.size_hint().exact(), Some(5));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "[1,2]");
    }

    #[tokio::test]
    async fn replies_that_nobody_takes_are_bounded_and_give_their_charge_back() {
        let (_, open) = connection();
        let made = Arc::default();
        let mut held = Vec::new();
        let fault = loop {
            match numbers(&open.line, &made) {
                Ok(reply) => held.push(reply),
                Err(fault) => break fault,
            }
            assert!(held.len() < 10_000, "no bound");
        };
        assert_eq!((fault.code, fault.retry_after_seconds), (FaultCode::BodyMemoryFull, Some(1)));
        held.pop();
        assert!(numbers(&open.line, &made).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_a_reply_in_time_loses_its_connection() {
        let (connections, open) = connection();
        open.line.request_started();
        let reply = numbers(&open.line, &Arc::default()).unwrap();
        let bounds = Bounds::default();
        tokio::time::advance(Duration::from_millis(4999)).await;
        assert_eq!(connections.sweep(Instant::now(), &bounds), 0);
        tokio::time::advance(Duration::from_millis(2)).await;
        assert_eq!(connections.sweep(Instant::now(), &bounds), 1);
        drop(reply);
    }
}
