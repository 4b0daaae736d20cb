//! A service behind a layer, on a clock that stands still, whose every limit can be looked at.

use core::convert::Infallible;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tidegate_core::algorithm::{Bucket, Concurrency};
use tidegate_core::{Algorithm, Limit, Rate, Timestamp};
use tidegate_engine::{Engine, EngineBuilder, EngineConfig, NamespaceConfig, Outcome};
use tidegate_overload::{Overload, ResourceConfig};
use tidegate_tower::{AdmitLayer, Clock, EngineHandle, ManualClock, extract};
use tokio::time::Instant;

pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The time of tokio, which stands still while there is work and skips what is slept.
#[derive(Debug)]
pub(crate) struct TokioClock {
    start: Instant,
}

impl TokioClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        NOW.saturating_add(self.start.elapsed())
    }
}

pub(crate) fn bucket(units: u64, per: Duration, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, per).unwrap(), burst).unwrap())
}

pub(crate) fn parallel(limit: u64) -> Algorithm {
    Algorithm::Concurrency(Concurrency::new(limit, Duration::from_mins(5)).unwrap())
}

pub(crate) fn builder(limits: impl IntoIterator<Item = Limit>) -> EngineBuilder {
    let mut config = EngineConfig::seeded([1, 2, 3, 4]);
    config.table.bytes = 1 << 20;
    config.asks_store = true;
    let api = NamespaceConfig::new("api", limits);
    Engine::builder(config).namespace(api)
}

/// The limits most tests use: two requests a second, one at a time, and three in flight over all.
pub(crate) fn usual() -> EngineBuilder {
    let rate = Limit::new("rate", bucket(2, SECOND, 2)).key(["user"]);
    let parallel = Limit::new("parallel", parallel(1)).key(["user"]);
    let overload = Overload::new(ResourceConfig::new(3), 5).unwrap();
    builder([rate, parallel]).overload(overload)
}

pub(crate) struct World {
    pub(crate) engine: EngineHandle,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) layer: AdmitLayer,
    /// How requests ended.
    pub(crate) settled: Arc<Mutex<Vec<Outcome>>>,
}

impl World {
    pub(crate) fn new(engine: EngineBuilder) -> Self {
        let engine = EngineHandle::new(engine.build().unwrap());
        let clock = Arc::new(ManualClock::new(NOW));
        let settled = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&settled);
        let layer = AdmitLayer::new(engine.clone(), "api")
            .unwrap()
            .attribute("user", extract::header("x-user"))
            .class(extract::header("x-class"))
            .clock(Arc::clone(&clock) as Arc<dyn Clock>)
            .cost_from_response("x-cost")
            .on_settled(move |outcome| seen.lock().unwrap().push(outcome));
        Self { engine, clock, layer, settled }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(AdmitLayer) -> AdmitLayer) -> Self {
        self.layer = change(self.layer);
        self
    }

    /// The units that each local limit of the user has left.
    pub(crate) fn left(&self) -> Vec<(String, u64)> {
        let request = tidegate_engine::Request::new("api", &[("user", "ada")]);
        let peek = self.engine.engine().peek(&request, self.clock.now()).unwrap().done().unwrap();
        peek.limits.into_iter().map(|one| (one.name, one.remaining)).collect()
    }

    pub(crate) fn outcomes(&self) -> Vec<Outcome> {
        self.settled.lock().unwrap().clone()
    }
}

pub(crate) fn left(rate: u64, parallel: u64) -> Vec<(String, u64)> {
    vec![("rate".to_owned(), rate), ("parallel".to_owned(), parallel)]
}

pub(crate) fn request() -> Request<()> {
    Request::builder().header("x-user", "ada").body(()).unwrap()
}

pub(crate) fn request_of(class: &str) -> Request<()> {
    Request::builder().header("x-user", "ada").header("x-class", class).body(()).unwrap()
}

/// A body of the given frames; then it fails, or never ends, or ends.
#[derive(Debug)]
pub(crate) struct Frames(pub(crate) VecDeque<Frame<Bytes>>, pub(crate) Then);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    End,
    Fail,
    Hang,
}

impl Frames {
    pub(crate) fn new(frames: impl IntoIterator<Item = &'static str>, then: Then) -> Self {
        Self(frames.into_iter().map(|text| Frame::data(Bytes::from(text))).collect(), then)
    }

    pub(crate) fn trailers(mut self, pairs: &[(&'static str, &'static str)]) -> Self {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.insert(*name, value.parse().unwrap());
        }
        self.0.push_back(Frame::trailers(map));
        self
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        match (self.0.pop_front(), self.1) {
            (Some(frame), _) => Poll::Ready(Some(Ok(frame))),
            (None, Then::End) => Poll::Ready(None),
            (None, Then::Fail) => Poll::Ready(Some(Err("the body broke off"))),
            (None, Then::Hang) => Poll::Pending,
        }
    }
}

pub(crate) type Answered = Result<Response<Frames>, Infallible>;

/// A service that answers at once with a body that does not end.
pub(crate) async fn hanging(_request: Request<()>) -> Answered {
    Ok(Response::new(Frames::new(["begun"], Then::Hang)))
}

/// A service that answers at once with a body of one frame.
pub(crate) async fn prompt(_request: Request<()>) -> Answered {
    Ok(Response::new(Frames::new(["done"], Then::End)))
}

/// Polls once.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets every task run as far as it can.
pub(crate) async fn let_run() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// The text of a body that ends.
pub(crate) async fn text<B: Body<Data = Bytes>>(response: Response<B>) -> String
where
    B::Error: core::fmt::Debug,
{
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}
