//! The body of an answer, which keeps the permit until it has ended.

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tidegate_engine::Outcome;

use crate::answer::has_failed;
use crate::hold::ResponseHold;

pin_project! {
    /// The body of an answer: the service's, or the one of a refusal.
    ///
    /// The service's body carries the permit of its request. The permit is settled when the body
    /// has ended (as succeeded, or as failed for an answer of 500 and above), or when it fails;
    /// dropping the body before gives back what is lent.
    pub struct AdmitBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Served {
            #[pin]
            body: B,
            hold: Option<ResponseHold>,
            failed: bool,
        },
        Own {
            bytes: Bytes,
        },
    }
}

impl<B: Body> AdmitBody<B> {
    /// The body of an answer of the service. One that has no content settles the permit at once,
    /// since servers need not look at it again.
    pub(crate) fn served(body: B, hold: ResponseHold, failed: bool) -> Self {
        let mut hold = Some(hold);
        if body.is_end_stream() {
            end(&mut hold, failed);
        }
        Self { kind: Kind::Served { body, hold, failed } }
    }

    pub(crate) fn own(bytes: Bytes) -> Self {
        Self { kind: Kind::Own { bytes } }
    }
}

/// Settles the permit, if it is still there.
fn end(hold: &mut Option<ResponseHold>, failed: bool) {
    if let Some(mut hold) = hold.take() {
        hold.settle(if failed { Outcome::Failed } else { Outcome::Succeeded });
    }
}

impl<B> Body for AdmitBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.project().kind.project() {
            KindProjection::Served { mut body, hold, failed } => {
                let frame = ready!(body.as_mut().poll_frame(cx));
                match &frame {
                    None => end(hold, *failed),
                    Some(Err(_)) => end(hold, true),
                    Some(Ok(frame)) => {
                        if let (Some(trailers), Some(hold)) = (frame.trailers_ref(), hold.as_mut()) {
                            hold.read_cost(trailers);
                            *failed |= has_failed(None, trailers);
                        }
                        if frame.is_trailers() || body.is_end_stream() {
                            end(hold, *failed);
                        }
                    }
                }
                Poll::Ready(frame)
            }
            KindProjection::Own { bytes } if bytes.is_empty() => Poll::Ready(None),
            KindProjection::Own { bytes } => {
                Poll::Ready(Some(Ok(Frame::data(core::mem::take(bytes).into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body, .. } => body.is_end_stream(),
            Kind::Own { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body, .. } => body.size_hint(),
            Kind::Own { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

impl<B> fmt::Debug for AdmitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Served { hold: Some(_), .. } => "served, with its permit",
            Kind::Served { hold: None, .. } => "served, settled",
            Kind::Own { .. } => "refused",
        };
        f.debug_tuple("AdmitBody").field(&kind).finish()
    }
}
