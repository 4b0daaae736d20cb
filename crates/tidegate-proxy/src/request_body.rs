//! The body of a request on its way to an upstream.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::headers::HeaderRules;
use crate::stall_timer::StallTimer;

/// How long a body may pause that no route has taken yet.
const IDLE_MAX: Duration = Duration::from_mins(1);

/// Why a body broke off.
pub type BodyError = Box<dyn core::error::Error + Send + Sync>;

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
