//! The service behind the proxy: slow at random, and failing at times.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate_test_support::SplitMix64;
use tokio::time::sleep;

use crate::loopback::start;

/// The longest time that it takes for an answer, in milliseconds.
const WORK_MS_MAX: u64 = 40;

/// Starts the service with the draws of this seed. Its thread ends with the process.
pub(super) fn start_service(seed: u64) -> Result<SocketAddr> {
    let number = std::sync::Arc::new(AtomicU64::new(seed));
    start(move |stream, _| {
        let number = std::sync::Arc::clone(&number);
        async move {
            let service = service_fn(move |request| {
                // Relaxed: a number for each request, ordered with nothing.
                let mut random = SplitMix64::new(number.fetch_add(1, Ordering::Relaxed));
                async move { respond(request, &mut random).await }
            });
            // The end of a connection is no concern of the others.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    })
}

/// An error closes the connection without an answer.
async fn respond(request: Request<Incoming>, random: &mut SplitMix64) -> Result<Response<Full<Bytes>>> {
    let _ = request.into_body().collect().await;
    sleep(Duration::from_millis(random.below(WORK_MS_MAX))).await;
    let mut response = Response::new(Full::new(Bytes::from("a".repeat(2000))));
    match random.below(20) {
        0 => Err(Error::other("it fails")),
        1 => {
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            Ok(response)
        }
        _ => Ok(response),
    }
}
