//! The reader of request bodies, within their bounds.

use core::time::Duration;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, Version};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate_core::display::HumanDuration;
use tidegate_wire::{Fault, FaultCode};

use tidegate_net::Bounds;
use tidegate_net::connections::{Buffered, ConnectionActivity, STREAM_BYTES};

/// The bytes that are charged for a header beside its name and value.
const HEADER_BYTES: usize = 64;

/// Reads the body of one request.
#[derive(Debug)]
pub(crate) struct BodyReader<'a> {
    pub(crate) incoming: Incoming,
    bounds: &'a Bounds,
    line: &'a Arc<ConnectionActivity>,
    headers: &'a HeaderMap,
    version: Version,
}

impl<'a> BodyReader<'a> {
    /// The body `incoming` of the request `head`, which came over `line`.
    pub(crate) fn new(
        head: &'a Parts,
        incoming: Incoming,
        bounds: &'a Bounds,
        line: &'a Arc<ConnectionActivity>,
    ) -> Self {
        Self { incoming, bounds, line, headers: &head.headers, version: head.version }
    }

    /// Reads a whole body, or says why not.
    ///
    /// A body that is larger than the bound, or too slow, is answered at once; the rest of it is
    /// discarded for a while, so that a sender that writes everything before it reads still gets
    /// the answer.
    pub(crate) async fn read(self) -> Result<Bytes, Fault> {
        let max = self.bounds.body_bytes;
        self.read_at_most(max).await
    }

    /// As [`BodyReader::read`], with another bound.
    pub(crate) async fn read_at_most(mut self, max: usize) -> Result<Bytes, Fault> {
        if self.incoming.size_hint().lower() > max as u64 {
            self.discard();
            return Err(too_large(max));
        }
        let mut collected = CollectedBody::default();
        // Small bodies arrive with the headers. Only those that do not cost a timer, and are
        // charged to the budget for slow peers.
        let mut outcome = collected.take_ready(&mut self.incoming, max);
        if outcome.is_none() {
            let mut buffered = Buffered::new(Arc::clone(self.line));
            let held = STREAM_BYTES + self.head_bytes();
            let waiting = collected.wait(&mut self.incoming, max, held, &mut buffered);
            outcome = Box::pin(tokio::time::timeout(self.bounds.body_timeout, waiting)).await.ok();
        }
        let fault = match outcome {
            Some(Ok(())) => return Ok(collected.into_bytes()),
            Some(Err(BodyReadError::Broken(error))) => {
                return Err(Fault::new(
                    FaultCode::MalformedBody,
                    format_args!("the body broke off: {error}"),
                ));
            }
            Some(Err(BodyReadError::TooLarge)) => too_large(max),
            Some(Err(BodyReadError::NoRoom)) => {
                let detail = "the daemon's memory for unfinished bodies is full";
                Fault::new(FaultCode::BodyMemoryFull, detail)
                    .retry_after(1)
                    .fix("send the headers when the body is ready")
            }
            None => Fault::new(
                FaultCode::BodyTimeout,
                format_args!("the body did not arrive within {}", HumanDuration(self.bounds.body_timeout)),
            )
            .fix("send the headers when the body is ready"),
        };
        self.discard();
        Err(fault)
    }

    /// Discards the rest of the body, so that a sender that writes all of it before it reads still
    /// gets the answer.
    pub(crate) fn discard(self) {
        discard(self.incoming, self.version, self.bounds.linger);
    }

    /// The approximate size of the request's head, which is kept until the body is read.
    fn head_bytes(&self) -> usize {
        let bytes = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + HEADER_BYTES
        };
        self.headers.iter().map(bytes).sum()
    }
}

enum BodyReadError {
    TooLarge,
    NoRoom,
    Broken(hyper::Error),
}

/// The part of a body that has arrived. Usually this is one piece, which is not copied.
#[derive(Debug, Default)]
struct CollectedBody {
    first: Bytes,
    joined: BytesMut,
}

impl CollectedBody {
    fn len(&self) -> usize {
        self.first.len().max(self.joined.len())
    }

    /// Takes the frames that have arrived already; `None` if the body is not complete.
    fn take_ready(&mut self, body: &mut Incoming, max: usize) -> Option<Result<(), BodyReadError>> {
        loop {
            let frame = body.frame().now_or_never()?;
            match self.take(frame, max) {
                Ok(true) if !body.is_end_stream() => {}
                Ok(_) => return Some(Ok(())),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Waits for the rest. `buffered` is charged for the bytes that have arrived, and `held` bytes
    /// more.
    async fn wait(
        &mut self,
        body: &mut Incoming,
        max: usize,
        held: usize,
        buffered: &mut Buffered,
    ) -> Result<(), BodyReadError> {
        loop {
            buffered.resize(held + self.len()).map_err(|_| BodyReadError::NoRoom)?;
            let frame = body.frame().await;
            if !self.take(frame, max)? || body.is_end_stream() {
                return Ok(());
            }
            if let Some(done) = self.take_ready(body, max) {
                return done;
            }
        }
    }

    /// Takes a frame; whether there may be another.
    fn take(
        &mut self,
        frame: Option<Result<http_body::Frame<Bytes>, hyper::Error>>,
        max: usize,
    ) -> Result<bool, BodyReadError> {
        let Some(frame) = frame else { return Ok(false) };
        let Ok(data) = frame.map_err(BodyReadError::Broken)?.into_data() else { return Ok(true) };
        if self.len().saturating_add(data.len()) > max {
            return Err(BodyReadError::TooLarge);
        }
        if self.len() == 0 {
            self.first = data;
        } else {
            if self.joined.is_empty() {
                self.joined.extend_from_slice(&core::mem::take(&mut self.first));
            }
            self.joined.extend_from_slice(&data);
        }
        Ok(true)
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

/// Reads and drops the rest of a body, for at most `linger`.
///
/// On HTTP/2 the stream is reset without an error instead, which tells the sender that the rest is
/// not wanted and leaves the answer readable: a stream that stayed open would cost memory for as
/// long as its sender likes.
pub(crate) fn discard(mut body: Incoming, version: Version, linger: Duration) {
    if body.is_end_stream() || version >= Version::HTTP_2 {
        return;
    }
    tokio::spawn(tokio::time::timeout(linger, async move { while let Some(Ok(_)) = body.frame().await {} }));
}

fn too_large(max: usize) -> Fault {
    Fault::new(FaultCode::BodyTooLarge, format_args!("the body is larger than {max} bytes"))
        .fix("send only the attributes that limits use")
}
