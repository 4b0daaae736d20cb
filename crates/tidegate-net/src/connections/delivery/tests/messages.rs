//! A body of messages, each with a delivery of its own.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame};

use crate::connections::{
    AnswerBytes, AnswerDelivery, Connections, DeliveredBody, DeliveryEnd, NoMessageRoom,
};

type MessageBody = DeliveredBody<http_body_util::Empty<Bytes>>;

fn message_delivery() -> (AnswerDelivery, Receiver<DeliveryEnd>) {
    let (told, end) = channel();
    let delivery = AnswerDelivery::new(move |end| {
        let _ = told.send(end);
    });
    (delivery, end)
}

fn next(body: &mut MessageBody) -> Option<Frame<AnswerBytes>> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(body).poll_frame(&mut cx) {
        Poll::Ready(frame) => frame.map(|frame| frame.unwrap_or_else(|never| match never {})),
        Poll::Pending => panic!("there is no frame"),
    }
}

#[tokio::test]
async fn each_message_has_a_delivery_of_its_own_and_one_waits_at_a_time() {
    let connections = Arc::new(Connections::default());
    let open = connections.add();
    let (sender, mut body) = MessageBody::of_messages();
    body.go_out(&open.line);
    for text in ["one", "two"] {
        let (first, end) = message_delivery();
        assert_eq!(sender.send(Bytes::from(text), first), Ok(()));
        let (refused, refused_end) = message_delivery();
        assert_eq!(sender.send(Bytes::new(), refused), Err(NoMessageRoom));
        assert_eq!(refused_end.try_recv(), Ok(DeliveryEnd::Undelivered));
        let mut bytes = next(&mut body).unwrap().into_data().unwrap();
        assert_eq!(bytes.chunk(), text.as_bytes());
        bytes.advance(3);
        assert!(end.try_recv().is_err(), "the kernel has not taken it");
        open.line.all_written();
        assert_eq!(end.try_recv(), Ok(DeliveryEnd::Delivered));
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    sender.end(trailers).await;
    assert!(next(&mut body).unwrap().is_trailers());
    assert!(next(&mut body).is_none());
}

#[tokio::test]
async fn a_message_of_a_body_that_is_dropped_is_undelivered() {
    let (sender, body) = MessageBody::of_messages();
    let (first, end) = message_delivery();
    assert_eq!(sender.send(Bytes::from_static(b"one"), first), Ok(()));
    drop(body);
    assert_eq!(end.try_recv(), Ok(DeliveryEnd::Undelivered));
    sender.gone().await;
    let (late, end) = message_delivery();
    assert_eq!(sender.send(Bytes::from_static(b"two"), late), Err(NoMessageRoom));
    assert_eq!(end.try_recv(), Ok(DeliveryEnd::Undelivered));
    sender.end(HeaderMap::new()).await;
}
