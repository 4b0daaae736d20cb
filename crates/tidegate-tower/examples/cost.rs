//! The cost of the layer over a service that does nothing:
//! `cargo run --release -p tidegate-tower --example cost`.
//!
//! Prints the median time of a call, from the request to the end of the answer's body, in batches
//! on one thread.

use core::convert::Infallible;
use core::future::{Future, Ready, ready};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tidegate_core::Limit;
use tidegate_tower::{AdmitLayer, extract};
use tower::{Layer, Service, service_fn};

const CALLS: u32 = 10_000;
const BATCHES: usize = 101;

type Error = Box<dyn std::error::Error>;

fn nothing(_request: Request<()>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    ready(Ok(Response::new(Full::new(Bytes::from_static(b"ok")))))
}

fn layer(limits: Vec<Limit>) -> Result<AdmitLayer, Error> {
    Ok(AdmitLayer::from_limits(limits)?.attribute("user", extract::header("x-user")))
}

/// The median of what a call takes.
fn measure<S, B>(mut service: S) -> Duration
where
    S: Service<Request<()>, Response = Response<B>>,
    B: Body,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut template = Request::new(());
    template.headers_mut().insert("x-user", http::HeaderValue::from_static("ada"));
    let mut call = || {
        let mut future = pin!(service.call(template.clone()));
        let Poll::Ready(Ok(response)) = future.as_mut().poll(&mut cx) else { return };
        let mut body = pin!(response.into_body());
        while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut cx) {
            black_box(&frame.is_ok());
        }
    };
    let mut batches: Vec<Duration> = (0..BATCHES)
        .map(|_| {
            let begun = Instant::now();
            (0..CALLS).for_each(|_| call());
            begun.elapsed() / CALLS
        })
        .collect();
    batches.sort();
    batches[BATCHES / 2]
}

fn main() -> Result<(), Error> {
    let rate = |name: &str| Limit::rate(name, "1000000000/s").map(|limit| limit.key(["user"]));
    let lent = Limit::concurrency("parallel", 10, "1m")?.key(["user"]);

    let bare = measure(service_fn(nothing));
    println!("no layer, with the copy of the request: {bare:?}");
    for (what, limits) in [
        ("a layer without limits", vec![]),
        ("one rate, admitted", vec![rate("one")?]),
        ("three rates, admitted", vec![rate("one")?, rate("two")?, rate("three")?]),
        ("a rate and a concurrency limit, admitted", vec![rate("one")?, lent]),
        ("one rate, refused", vec![Limit::rate("shut", "1/365d")?.key(["user"])]),
    ] {
        let with = measure(layer(limits)?.layer(service_fn(nothing)));
        println!("{what}: {with:?}, of which the layer {:?}", with.saturating_sub(bare));
    }
    Ok(())
}
