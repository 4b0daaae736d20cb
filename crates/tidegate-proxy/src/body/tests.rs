use core::convert::Infallible;
use core::task::Waker;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::rt::Executor;
use tidegate_net::connections::{Connections, OpenConnection, StreamExecutor};

use super::super::metrics::ProxyMetrics;
use super::super::request_context::{AccessLogRecord, ActiveRequest};
use super::*;

/// A server that gives one byte whenever it is asked, for ever.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

/// A server that gives nothing more.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

fn context(connection: &OpenConnection) -> RequestContext {
    let record = AccessLogRecord {
        started: Instant::now(),
        method: http::Method::GET,
        path: None,
        client: None,
        status: 200,
        decision: "admit",
        waited: Duration::ZERO,
        upstream: None,
        until: None,
        is_wanted: false,
    };
    let counts = Arc::new(ProxyMetrics::default().route("all"));
    RequestContext::new(ActiveRequest::new(Arc::clone(&connection.line)), counts, record)
}

fn connection() -> OpenConnection {
    Arc::new(Connections::default()).add()
}

const IDLE: Duration = Duration::from_mins(1);
const TOTAL: Duration = Duration::from_secs(10);

fn endless(connection: &OpenConnection) -> ProxiedBody<Endless> {
    ProxiedBody::new(Endless, context(connection), IDLE, Some(Instant::now() + TOTAL))
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_flows_for_ever_without_a_pause_ends_when_all_its_time_is_over() {
    let connection = connection();
    let mut body = endless(&connection);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10 {
        assert!(matches!(body.poll_frame(&mut context), Poll::Ready(Some(Ok(_)))));
        tokio::time::advance(TOTAL / 10).await;
    }
    let Poll::Ready(Some(Err(error))) = body.poll_frame(&mut context) else { panic!("it goes on") };
    assert_eq!(error.to_string(), "the answer took longer than the route allows");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_pauses_ends_when_its_pause_or_all_its_time_is_over() {
    for (idle, until, expected) in
        [(IDLE, Some(TOTAL), TOTAL), (TOTAL, Some(IDLE), TOTAL), (IDLE, None, IDLE)]
    {
        let connection = connection();
        let started = Instant::now();
        let until = until.map(|until| started + until);
        let mut body = ProxiedBody::new(Silent, context(&connection), idle, until);
        let ended = core::future::poll_fn(|cx| body.poll_frame(cx)).await;
        assert!(matches!(ended, Some(Err(_))));
        // A timer of tokio is as exact as a millisecond.
        let took = started.elapsed();
        assert!(took >= expected && took <= expected + Duration::from_millis(2), "{took:?}");
    }
}

#[tokio::test]
async fn a_stream_is_given_pieces_of_a_frame_and_a_connection_all_that_there_is() {
    async fn pieces() -> Vec<usize> {
        let connection = connection();
        let all = Full::new(Bytes::from(vec![7; 2 * PIECE_BYTES_MAX + 5]));
        let body = ProxiedBody::new(all, context(&connection), IDLE, None);
        let mut body = AnyBody(body);
        let mut pieces = Vec::new();
        let mut left = 2 * PIECE_BYTES_MAX + 5;
        while let Some(frame) = body.frame().await {
            let data = frame.unwrap().into_data().unwrap();
            left -= data.len();
            assert_eq!(body.0.size_hint().exact(), Some(left as u64));
            assert_eq!(body.0.is_end_stream(), left == 0);
            pieces.push(data.len());
        }
        pieces
    }
    let whole = 2 * PIECE_BYTES_MAX + 5;
    assert_eq!(pieces().await, [whole]);
    let (give, take) = tokio::sync::oneshot::channel();
    StreamExecutor::Tasks.execute(async move { give.send(pieces().await) });
    assert_eq!(take.await.unwrap(), [PIECE_BYTES_MAX, PIECE_BYTES_MAX, 5]);
}

/// As the body of an answer, whatever is in it.
struct AnyBody<B: Body>(ProxiedBody<B>);

impl<B> Body for AnyBody<B>
where
    B: Body<Data = Bytes, Error: Into<BodyError>> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_frame(cx)
    }
}
