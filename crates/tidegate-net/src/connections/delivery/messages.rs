//! A body of messages that are made while it goes out, each with a delivery of its own.

use core::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::mpsc;

use super::AnswerDelivery;

/// Sends the messages of one body. When it is dropped, the body ends.
///
/// One message or the trailers wait at a time; a message waits until the one before is encoded,
/// which the window of the client may delay for ever. Its delivery says when the kernel has it.
#[derive(Debug)]
pub struct MessageSender(mpsc::Sender<BodyMessage>);

/// The other end, in the body.
#[derive(Debug)]
pub(super) struct MessageReceiver(mpsc::Receiver<BodyMessage>);

/// A part of the body.
#[derive(Debug)]
pub(super) enum BodyMessage {
    Data(Bytes, AnswerDelivery),
    /// The last one.
    Trailers(HeaderMap),
}

/// The message before is not encoded yet, or the body is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMessageRoom;

pub(super) fn messages() -> (MessageSender, MessageReceiver) {
    let (sender, receiver) = mpsc::channel(1);
    (MessageSender(sender), MessageReceiver(receiver))
}

impl MessageSender {
    /// Sends a message. On an error, its delivery ends as undelivered.
    pub fn send(&self, message: Bytes, delivery: AnswerDelivery) -> Result<(), NoMessageRoom> {
        self.0.try_send(BodyMessage::Data(message, delivery)).map_err(|_| NoMessageRoom)
    }

    /// Ends the body with these trailers, once the last message is encoded.
    pub async fn end(self, trailers: HeaderMap) {
        // An error: the body is gone, and nobody reads the trailers.
        let _ = self.0.send(BodyMessage::Trailers(trailers)).await;
    }

    /// Returns when the body is gone: its stream was reset, or its connection has ended.
    pub async fn gone(&self) {
        self.0.closed().await;
    }
}

impl MessageReceiver {
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<BodyMessage>> {
        self.0.poll_recv(cx)
    }
}
