//! Forwarded bodies: one piece at a time, never buffered whole, with the timeouts of the route.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate_net::connections::{AnswerBytes, BodyProgressGuard};
use tidegate_net::reply::ReplyBody;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::request_body::BodyError;
use crate::request_context::RequestContext;
use crate::response_end::ResponseEnd;
use crate::stall_timer::StallTimer;

/// The most bytes that a stream of HTTP/2 is given at a time, of which its client must take one in
/// `idle`. No frame is larger.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// The body of an answer of the proxy, which holds what its request holds until it has ended or is
/// dropped.
pub struct AnswerBody(BodySource);

enum BodySource {
    /// Made here.
    Whole(ReplyBody),
    /// From an upstream.
    Proxied(Box<ProxiedBody>),
}

impl AnswerBody {
    pub(crate) fn whole(body: ReplyBody) -> Self {
        Self(BodySource::Whole(body))
    }

    pub(crate) fn proxied(body: ProxiedBody) -> Self {
        Self(BodySource::Proxied(Box::new(body)))
    }
}

impl fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerBody").field(&self.size_hint()).finish()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.get_mut().0 {
            BodySource::Whole(body) => {
                let frame = Pin::new(body).poll_frame(cx).map_err(|never| match never {});
                frame.map_ok(|frame| frame.map_data(AnswerBytes::into_bytes))
            }
            BodySource::Proxied(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodySource::Whole(body) => body.is_end_stream(),
            BodySource::Proxied(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodySource::Whole(body) => body.size_hint(),
            BodySource::Proxied(body) => body.size_hint(),
        }
    }
}

/// The body of an upstream's answer, which keeps the holds of the request until it has ended.
pub(crate) struct ProxiedBody<B: Body = Incoming> {
    body: B,
    /// The rest of a frame that was too large for one piece.
    rest: Bytes,
    patience: StallTimer,
    progress: BodyProgressGuard,
    /// The task that ends the answer if the feature of its request is switched off.
    ///
    /// The body could not: it is not polled while its client reads nothing.
    cancellation: Option<AbortHandle>,
    context: RequestContext,
}

impl<B> ProxiedBody<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    pub(crate) fn new(body: B, mut context: RequestContext, idle: Duration, until: Option<Instant>) -> Self {
        let progress = BodyProgressGuard::begin(context.active.line(), idle, until);
        let cancellation = context.cancellation.take().map(|cancellation| {
            let canceller = progress.canceller();
            let task = tokio::spawn(async move {
                cancellation.ended.await;
                canceller.cancel();
            });
            task.abort_handle()
        });
        let patience = StallTimer::new(idle, until);
        Self { body, rest: Bytes::new(), patience, progress, cancellation, context }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = if self.rest.is_empty() {
            let next = Pin::new(&mut self.body).poll_frame(cx);
            if let Poll::Ready(Some(Ok(frame))) = &next
                && let Some(data) = frame.data_ref()
            {
                self.context.response_cost.read(data);
            }
            next
        } else {
            Poll::Ready(Some(Ok(Frame::data(core::mem::take(&mut self.rest)))))
        };
        match next {
            Poll::Ready(Some(Ok(frame))) => {
                self.patience.refresh();
                if self.patience.until.is_some_and(|until| until <= Instant::now()) {
                    self.context.end(ResponseEnd::Late);
                    return Poll::Ready(Some(Err("the answer took longer than the route allows".into())));
                }
                self.progress.gave();
                Poll::Ready(Some(Ok(self.piece(frame))))
            }
            Poll::Ready(Some(Err(error))) => {
                self.context.end(ResponseEnd::Broken);
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                self.context.end(ResponseEnd::Whole);
                Poll::Ready(None)
            }
            Poll::Pending => match self.patience.poll_over(cx) {
                Poll::Ready(()) => {
                    self.context.end(ResponseEnd::Late);
                    Poll::Ready(Some(Err("the upstream stopped in the middle of its answer".into())))
                }
                Poll::Pending => {
                    self.progress.waits();
                    Poll::Pending
                }
            },
        }
    }

    /// As much of a frame as is given at a time. A slow client of HTTP/2 is known by taking one
    /// piece after the other.
    fn piece(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if !self.progress.is_stream() {
            return frame;
        }
        match frame.into_data() {
            Ok(mut data) if data.len() > PIECE_BYTES_MAX => {
                self.rest = data.split_off(PIECE_BYTES_MAX);
                Frame::data(data)
            }
            Ok(data) => Frame::data(data),
            Err(frame) => frame,
        }
    }
}

impl<B: Body> ProxiedBody<B> {
    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        if let Some(upper) = hint.upper() {
            all.set_upper(upper.saturating_add(rest));
        }
        all.set_lower(hint.lower().saturating_add(rest));
        all
    }

    /// How the body ended, once its reader has dropped it.
    fn ending(&self) -> ResponseEnd {
        if self.progress.is_cancelled() {
            ResponseEnd::Cancelled
        } else if self.progress.is_over() {
            ResponseEnd::Late
        } else if self.is_end_stream() {
            // A sender of a body of known length does not poll for its end.
            ResponseEnd::Whole
        } else {
            ResponseEnd::Abandoned
        }
    }
}

impl<B: Body> Drop for ProxiedBody<B> {
    fn drop(&mut self) {
        if let Some(task) = &self.cancellation {
            task.abort();
        }
        let ending = self.ending();
        self.context.end(ending);
    }
}

#[cfg(test)]
mod tests;
