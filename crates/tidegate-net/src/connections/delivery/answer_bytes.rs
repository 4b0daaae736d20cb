//! The bytes of answers, which notice when the protocol has encoded them.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use super::AnswerDelivery;
use super::messages::{BodyMessage, MessageReceiver, MessageSender, messages};
use crate::connections::ConnectionActivity;

/// A piece of an answer's body, with the delivery of the answer if it is the last piece.
#[derive(Debug, Default)]
pub struct AnswerBytes {
    bytes: Bytes,
    /// The connection that counts them; `None` where nothing counts them.
    line: Option<Arc<ConnectionActivity>>,
    delivery: Option<AnswerDelivery>,
}

impl AnswerBytes {
    /// A piece of an answer on `line`, which is `None` where no piece of the connection is counted.
    pub(crate) fn new(
        bytes: Bytes,
        line: Option<Arc<ConnectionActivity>>,
        delivery: Option<AnswerDelivery>,
    ) -> Self {
        Self { bytes, line, delivery }
    }

    /// The bytes, for a body whose encoding is not followed. A delivery would end as undelivered.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl From<Bytes> for AnswerBytes {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl Buf for AnswerBytes {
    #[inline]
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        let Some(line) = &self.line else { return };
        line.body_encoded(count);
        if self.bytes.is_empty()
            && let Some(delivery) = self.delivery.take()
        {
            line.body_end_encoded(delivery);
        }
    }
}

impl BodyMessage {
    /// The frame of the body, counted on `line`.
    pub(super) fn into_frame(self, line: Option<&Arc<ConnectionActivity>>) -> Frame<AnswerBytes> {
        match self {
            Self::Data(bytes, delivery) => {
                Frame::data(AnswerBytes::new(bytes, line.cloned(), Some(delivery)))
            }
            Self::Trailers(trailers) => Frame::trailers(trailers),
        }
    }
}

/// A body whose pieces are counted: a gRPC answer. Its delivery ends with the first piece, or each
/// piece has a delivery of its own.
#[derive(Debug)]
pub struct DeliveredBody<B> {
    pieces: Pieces<B>,
    /// The connection, once the answer goes out.
    line: Option<Arc<ConnectionActivity>>,
    delivery: Option<AnswerDelivery>,
}

/// Where the pieces come from.
#[derive(Debug)]
enum Pieces<B> {
    /// From another body.
    Inner(B),
    /// From a [`MessageSender`].
    Messages(MessageReceiver),
}

impl<B> DeliveredBody<B> {
    /// The body of an answer that hands something over, if there is a delivery.
    pub fn new(inner: B, delivery: Option<AnswerDelivery>) -> Self {
        Self { pieces: Pieces::Inner(inner), line: None, delivery }
    }

    /// A body of messages that are made while it goes out.
    pub fn of_messages() -> (MessageSender, Self) {
        let (sender, receiver) = messages();
        (sender, Self { pieces: Pieces::Messages(receiver), line: None, delivery: None })
    }

    /// The answer goes out on `line`.
    pub fn go_out(&mut self, line: &Arc<ConnectionActivity>) {
        if let Some(delivery) = &mut self.delivery {
            line.look_for(delivery);
        }
        self.line = Some(Arc::clone(line));
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for DeliveredBody<B> {
    type Data = AnswerBytes;
    type Error = B::Error;

    #[inline]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerBytes>, B::Error>>> {
        let Self { pieces, line, delivery } = &mut *self;
        match pieces {
            Pieces::Inner(inner) => {
                let frame = ready!(Pin::new(inner).poll_frame(cx));
                let counted = |bytes| AnswerBytes::new(bytes, line.clone(), delivery.take());
                Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(counted))))
            }
            Pieces::Messages(receiver) => {
                let message = ready!(receiver.poll_message(cx));
                Poll::Ready(message.map(|message| Ok(message.into_frame(line.as_ref()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.pieces {
            Pieces::Inner(inner) => inner.is_end_stream(),
            Pieces::Messages(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.pieces {
            Pieces::Inner(inner) => inner.size_hint(),
            Pieces::Messages(_) => SizeHint::default(),
        }
    }
}
