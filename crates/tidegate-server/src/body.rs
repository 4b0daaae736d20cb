//! Reading the body of a request, within its bounds.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tidegate::display::HumanDuration;
use tidegate_wire::{Fault, FaultCode};

use crate::bounds::Bounds;

/// Reads a whole body, or says why not.
///
/// A body that is larger than the bound, or too slow, is answered at once; what is left of it is discarded for a while,
/// so that a sender that writes everything before it reads still gets the answer.
pub(crate) async fn read(body: Incoming, bounds: &Bounds) -> Result<Bytes, Fault> {
    read_at_most(body, bounds.body_bytes, bounds).await
}

/// As [`read`], with another bound.
pub(crate) async fn read_at_most(mut body: Incoming, max: usize, bounds: &Bounds) -> Result<Bytes, Fault> {
    if body.size_hint().lower() > max as u64 {
        discard(body, bounds.linger);
        return Err(too_large(max));
    }
    let outcome = {
        let mut reading = pin!(collect(&mut body, max));
        // Small bodies arrive with the headers. Only those that do not cost a timer.
        match poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => Box::pin(tokio::time::timeout(bounds.body_timeout, reading)).await,
        }
    };
    match outcome {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(Incomplete::TooLarge)) => {
            discard(body, bounds.linger);
            Err(too_large(max))
        }
        Ok(Err(Incomplete::Broken(error))) => {
            Err(Fault::new(FaultCode::MalformedBody, format_args!("the body broke off: {error}")))
        }
        Err(_) => Err(Fault::new(
            FaultCode::BodyTimeout,
            format_args!("the body did not arrive within {}", HumanDuration(bounds.body_timeout)),
        )
        .fix("send the headers when the body is ready")),
    }
}

enum Incomplete {
    TooLarge,
    Broken(hyper::Error),
}

async fn collect(body: &mut Incoming, max: usize) -> Result<Bytes, Incomplete> {
    // A body usually is one piece, which is taken as it is.
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(Incomplete::Broken)?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len().max(joined.len()).saturating_add(data.len()) > max {
            return Err(Incomplete::TooLarge);
        }
        if first.is_empty() {
            first = data;
        } else {
            if joined.is_empty() {
                joined.extend_from_slice(&first);
            }
            joined.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}

/// Reads and forgets the rest of a body, for at most `linger`.
pub(crate) fn discard(mut body: Incoming, linger: Duration) {
    if body.is_end_stream() {
        return;
    }
    tokio::spawn(tokio::time::timeout(linger, async move { while let Some(Ok(_)) = body.frame().await {} }));
}

fn too_large(max: usize) -> Fault {
    Fault::new(FaultCode::BodyTooLarge, format_args!("the body is larger than {max} bytes"))
        .fix("send only the attributes that limits use")
}
