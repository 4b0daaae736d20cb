//! Forwarded bodies: one piece at a time, never buffered whole, with the timeouts of the route.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::headers::HeaderRules;
use super::request_context::{RequestContext, ResponseEnd};
use crate::connections::BodyProgressGuard;

/// How long a body may pause that no route has taken yet.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// The most bytes that a stream of HTTP/2 is given at a time, of which its client must take one in
/// `idle`. No frame is larger.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// Why a body broke off.
pub(crate) type BodyError = Box<dyn core::error::Error + Send + Sync>;

/// The body of an answer of the proxy.
pub(crate) enum AnswerBody {
    /// Made here.
    Whole(Full<Bytes>),
    /// From an upstream.
    Proxied(Box<ProxiedBody>),
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            Self::Proxied(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Proxied(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Proxied(body) => body.size_hint(),
        }
    }
}

/// A wait that is only armed while something is waited for: a body that flows costs no timer.
#[derive(Debug)]
struct StallTimer {
    span: Duration,
    /// The deadline of the whole body, however much flows.
    until: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl StallTimer {
    const fn new(span: Duration, until: Option<Instant>) -> Self {
        Self { span, until, sleep: None, is_waiting: false }
    }

    /// Something came.
    const fn refresh(&mut self) {
        self.is_waiting = false;
    }

    /// Nothing came; ready when that has lasted too long.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_waiting {
            let idle_until = Instant::now() + self.span;
            let until = self.until.map_or(idle_until, |until| until.min(idle_until));
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(until),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(until))),
            }
            self.is_waiting = true;
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
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
    context: RequestContext,
}

impl<B> ProxiedBody<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    pub(crate) fn new(body: B, context: RequestContext, idle: Duration, until: Option<Instant>) -> Self {
        let progress = BodyProgressGuard::begin(context.active.line(), idle, until);
        Self { body, rest: Bytes::new(), patience: StallTimer::new(idle, until), progress, context }
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let next = if self.rest.is_empty() {
            Pin::new(&mut self.body).poll_frame(cx)
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
        if self.progress.is_over() {
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
        let ending = self.ending();
        self.context.end(ending);
    }
}

/// The body of a request on its way to an upstream.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// None.
    Empty,
    /// Some, which the one who answers keeps an eye on.
    Upload(Arc<Mutex<Upload>>),
}

/// A body that is being sent on.
#[derive(Debug)]
pub(crate) struct Upload {
    body: Incoming,
    patience: StallTimer,
    /// Which trailers pass; all of them while no route has taken the request.
    rules: Option<Arc<HeaderRules>>,
    /// The progress so far.
    pub(crate) seen: UploadProgress,
}

/// The progress of a body that is sent on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UploadProgress {
    /// Whether any of it was asked for, so that it cannot be sent again.
    pub(crate) is_begun: bool,
    /// Whether all of it was forwarded.
    pub(crate) is_ended: bool,
    /// Whether it was asked for more than has come.
    pub(crate) is_waited_for: bool,
    /// Bytes that have gone on.
    pub(crate) bytes: u64,
    /// When the last of them did.
    pub(crate) last: Instant,
    /// Why it broke off, if it did.
    pub(crate) broke: Option<UploadError>,
}

/// Why the body of a request broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadError {
    /// Its sender was silent for too long.
    Slow,
    /// Its sender went away, or sent something that is no body.
    Malformed,
}

impl RequestBody {
    /// A body that comes; see [`Self::prepare`].
    pub(crate) fn new(body: Incoming) -> Self {
        if body.is_end_stream() {
            return Self::Empty;
        }
        let seen = UploadProgress {
            is_begun: false,
            is_ended: false,
            is_waited_for: false,
            bytes: 0,
            last: Instant::now(),
            broke: None,
        };
        let patience = StallTimer::new(IDLE_MAX, None);
        Self::Upload(Arc::new(Mutex::new(Upload { body, patience, rules: None, seen })))
    }

    /// Says how long it may pause and which of its trailers pass.
    pub(crate) fn prepare(&self, idle: Duration, rules: &Arc<HeaderRules>) {
        if let Self::Upload(upload) = self {
            let mut upload = locked(upload);
            upload.patience.span = idle;
            upload.rules = Some(Arc::clone(rules));
        }
    }

    /// The same body once more: whichever is asked gives the next piece.
    pub(crate) fn share(&self) -> Self {
        match self {
            Self::Empty => Self::Empty,
            Self::Upload(upload) => Self::Upload(Arc::clone(upload)),
        }
    }

    /// The progress of the body; `None` if there is no body.
    pub(crate) fn seen(&self) -> Option<UploadProgress> {
        match self {
            Self::Empty => None,
            Self::Upload(upload) => Some(locked(upload).seen),
        }
    }

    /// Reads and forgets it, for at most `linger`, so that a sender that writes everything before
    /// it reads gets its answer.
    pub(crate) fn discard(self, linger: Duration) {
        if let Self::Upload(_) = &self {
            let mut body = self;
            tokio::spawn(tokio::time::timeout(linger, async move {
                while let Some(Ok(_)) = http_body_util::BodyExt::frame(&mut body).await {}
            }));
        }
    }

    /// The length that its sender has announced.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Upload(upload) => locked(upload).body.size_hint().exact(),
        }
    }
}

fn locked(upload: &Mutex<Upload>) -> MutexGuard<'_, Upload> {
    // A panic in between leaves at worst a body that breaks off.
    upload.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self::Upload(upload) = &*self else { return Poll::Ready(None) };
        let upload = &mut *locked(upload);
        let seen = &mut upload.seen;
        seen.is_begun = true;
        seen.is_waited_for = false;
        match Pin::new(&mut upload.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let (Some(trailers), Some(rules)) = (frame.trailers_mut(), &upload.rules) {
                    let stopped: Vec<_> =
                        trailers.keys().filter(|name| !rules.passes_as_trailer(name)).cloned().collect();
                    for name in &stopped {
                        trailers.remove(name);
                    }
                }
                upload.patience.refresh();
                seen.last = Instant::now();
                seen.bytes = seen.bytes.saturating_add(frame.data_ref().map_or(0, |data| data.len() as u64));
                seen.is_ended = upload.body.is_end_stream();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                seen.broke = Some(UploadError::Malformed);
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                seen.is_ended = true;
                seen.last = Instant::now();
                Poll::Ready(None)
            }
            Poll::Pending => match upload.patience.poll_over(cx) {
                Poll::Ready(()) => {
                    seen.broke = Some(UploadError::Slow);
                    Poll::Ready(Some(Err("the sender of the request was silent for too long".into())))
                }
                Poll::Pending => {
                    seen.is_waited_for = true;
                    Poll::Pending
                }
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Upload(upload) => locked(upload).body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Upload(upload) => locked(upload).body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
