mod messages;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tidegate_core::shares::Namespaces;
use tokio::time::Instant;

use super::super::{Connections, OpenConnection, WATCHED_TOTAL_MAX};
use super::*;

fn connection(is_http2: bool) -> OpenConnection {
    let open = Arc::new(Connections::default()).add();
    open.line.is_http2.store(is_http2, Ordering::Relaxed);
    open
}

/// A delivery that watches for resets, and its end.
fn delivery() -> (AnswerDelivery, Receiver<DeliveryEnd>) {
    let (send, ended) = channel();
    let end = move |end| {
        let _ = send.send(end);
    };
    (AnswerDelivery::new(end).watching_resets(Owner::NONE), ended)
}

/// An answer whose bytes the protocol has copied; the end of its delivery.
fn encoded(open: &OpenConnection, bytes: &'static [u8]) -> Receiver<DeliveryEnd> {
    let (delivery, ended) = delivery();
    let line = Some(Arc::clone(&open.line));
    let mut piece = AnswerBytes::new(Bytes::from_static(bytes), line, Some(delivery));
    piece.advance(bytes.len() - 1);
    assert!(!open.line.has_deliveries(), "one byte is missing");
    piece.advance(1);
    assert!(open.line.has_deliveries());
    ended
}

fn written(open: &OpenConnection) -> Receiver<DeliveryEnd> {
    let (delivery, ended) = delivery();
    open.line.delivery_written(delivery);
    ended
}

#[test]
fn an_answer_that_is_dropped_before_its_last_byte_is_encoded_is_undelivered() {
    let open = connection(false);
    let (delivery, ended) = delivery();
    let line = Some(Arc::clone(&open.line));
    let mut piece = AnswerBytes::new(Bytes::from_static(b"answer"), line, Some(delivery));
    piece.advance(5);
    open.line.all_written();
    drop(piece);
    assert_eq!(ended.try_recv(), Ok(DeliveryEnd::Undelivered));
}

#[test]
fn an_encoded_answer_is_undelivered_until_it_is_flushed() {
    let open = connection(false);
    let ended = encoded(&open, b"answer");
    open.line.stream_ended(|| None);
    assert_eq!(ended.try_recv(), Ok(DeliveryEnd::Undelivered));
    assert!(!open.line.has_deliveries());
}

#[tokio::test(start_paused = true)]
async fn a_reset_counts_within_a_second_of_the_flush_and_not_later() {
    for (after, expected) in [(999, DeliveryEnd::Reset), (1000, DeliveryEnd::Delivered)] {
        let open = connection(false);
        let ended = encoded(&open, b"answer");
        open.line.all_written();
        tokio::time::advance(Duration::from_millis(after)).await;
        open.line.connection_reset();
        assert_eq!(ended.try_recv(), Ok(expected), "{after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn the_sweep_ends_a_delivery_whose_second_is_over() {
    let open = connection(false);
    let ended = written(&open);
    open.line.expire_deliveries(Instant::now() + RESET_WINDOW - Duration::from_millis(1));
    assert!(ended.try_recv().is_err());
    open.line.expire_deliveries(Instant::now() + RESET_WINDOW);
    assert_eq!(ended.try_recv(), Ok(DeliveryEnd::Delivered));
    assert!(!open.line.has_deliveries());
}

#[tokio::test(start_paused = true)]
async fn a_reset_of_a_connection_that_the_daemon_ends_counts_for_nothing() {
    let open = connection(false);
    let ended = written(&open);
    open.line.command(super::super::ConnectionCommand::Finish);
    open.line.connection_reset();
    assert_eq!(ended.try_recv(), Ok(DeliveryEnd::Delivered));
}

#[tokio::test(start_paused = true)]
async fn another_request_ends_a_delivery_of_http_1_and_none_of_http_2() {
    let (http1, http2) = (connection(false), connection(true));
    let (of_http1, of_http2) = (written(&http1), written(&http2));
    http1.line.another_request_came();
    http2.line.another_request_came();
    assert_eq!(of_http1.try_recv(), Ok(DeliveryEnd::Delivered));
    assert!(of_http2.try_recv().is_err());
    http2.line.connection_reset();
    assert_eq!(of_http2.try_recv(), Ok(DeliveryEnd::Reset));
}

#[tokio::test(start_paused = true)]
async fn issue_39_another_answer_ends_a_delivery_of_http_1_and_none_of_http_2() {
    for is_http2 in [false, true] {
        let expected = if is_http2 { DeliveryEnd::Reset } else { DeliveryEnd::Delivered };
        // Its bytes are sent after those of the delivery, or begun before they were flushed.
        let (sent, begun) = (connection(is_http2), connection(is_http2));
        let first = written(&sent);
        sent.line.another_answer_sent();
        sent.line.connection_reset();
        assert_eq!(first.try_recv(), Ok(expected), "HTTP/2: {is_http2}");
        let first = encoded(&begun, b"answer");
        begun.line.another_answer_begins();
        assert!(first.try_recv().is_err());
        begun.line.all_written();
        begun.line.connection_reset();
        assert_eq!(first.try_recv(), Ok(expected), "HTTP/2: {is_http2}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_frame_of_the_protocol_behind_an_answer_may_be_what_was_left_unread() {
    let open = connection(true);
    let before = written(&open);
    open.line.control_frame_written();
    let after = written(&open);
    open.line.connection_reset();
    assert_eq!(before.try_recv(), Ok(DeliveryEnd::Delivered));
    assert_eq!(after.try_recv(), Ok(DeliveryEnd::Reset));
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_an_answer_is_that_of_the_frame_that_ends_with_it() {
    // Its frame is written after it was copied, or before its last byte was taken.
    for is_copied in [true, false] {
        let open = connection(true);
        open.line.body_encoded(10);
        open.line.data_frame_written(1, 10);
        if !is_copied {
            open.line.data_frame_written(3, 16);
        }
        let ended = encoded(&open, b"answer");
        if is_copied {
            open.line.data_frame_written(3, 16);
        }
        open.line.all_written();
        open.line.stream_reset(1);
        open.line.stream_reset(5);
        assert!(ended.try_recv().is_err());
        open.line.stream_reset(3);
        assert_eq!(ended.try_recv(), Ok(DeliveryEnd::Reset), "copied: {is_copied}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_reset_while_its_answer_is_in_a_buffer_is_undelivered() {
    let open = connection(true);
    let (first, second) = (encoded(&open, b"answer"), connection(true));
    open.line.stream_reset(3);
    open.line.data_frame_written(3, 6);
    open.line.all_written();
    assert_eq!(first.try_recv(), Ok(DeliveryEnd::Undelivered), "reset before its stream was known");
    let ended = encoded(&second, b"answer");
    second.line.data_frame_written(3, 6);
    second.line.stream_reset(3);
    assert_eq!(ended.try_recv(), Ok(DeliveryEnd::Undelivered), "reset before the flush");
}

#[tokio::test(start_paused = true)]
async fn watched_deliveries_are_bounded_by_connection_and_in_all() {
    let connections = Arc::new(Connections::default());
    let open: Vec<_> = (0..=WATCHED_TOTAL_MAX / WATCHED_MAX).map(|_| connections.add()).collect();
    let first = written(&open[0]);
    let mut rest: Vec<_> = (1..WATCHED_MAX).map(|_| written(&open[0])).collect();
    assert!(first.try_recv().is_err());
    rest.push(written(&open[0]));
    assert_eq!(first.try_recv(), Ok(DeliveryEnd::Delivered), "the oldest of the connection");
    for one in &open[1..open.len() - 1] {
        rest.extend((0..WATCHED_MAX).map(|_| written(one)));
    }
    let last = open.last().unwrap();
    assert_eq!(written(last).try_recv(), Ok(DeliveryEnd::Delivered), "the budget of all is used up");
    open[0].line.connection_reset();
    assert!(rest[..WATCHED_MAX].iter().all(|one| one.try_recv() == Ok(DeliveryEnd::Reset)));
    assert!(written(last).try_recv().is_err(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn issue_39_one_namespace_on_many_connections_leaves_the_others_their_share_of_the_watch() {
    let connections = Arc::new(Connections::default());
    let namespaces = Namespaces::new(7);
    let [greedy, other] = ["greedy", "other"].map(|name| namespaces.owner(name));
    connections.divide_watched(2);
    let written_of = |open: &OpenConnection, owner| {
        let (send, ended) = channel();
        let delivery = AnswerDelivery::new(move |end| _ = send.send(end)).watching_resets(owner);
        open.line.delivery_written(delivery);
        ended
    };
    let share = WATCHED_TOTAL_MAX / 4;
    let open: Vec<_> = (0..20).map(|_| connections.add()).collect();
    let greedy_ones: Vec<_> =
        open.iter().flat_map(|open| (0..WATCHED_MAX).map(|_| written_of(open, greedy))).collect();
    let watched = greedy_ones.iter().filter(|one| one.try_recv().is_err()).count();
    assert_eq!(watched, 3 * share, "its share and the pool");
    let others: Vec<_> = (0..share).map(|index| (connections.add(), index)).collect();
    let ended: Vec<_> = others.iter().map(|(open, _)| written_of(open, other)).collect();
    for (open, _) in &others {
        open.line.connection_reset();
    }
    assert!(ended.iter().all(|one| one.try_recv() == Ok(DeliveryEnd::Reset)));
}
