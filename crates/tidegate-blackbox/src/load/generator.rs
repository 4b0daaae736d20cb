//! An open-loop generator: it sends each request at its scheduled instant, whatever became of the
//! requests before.
//!
//! One thread with one event loop: on two cores, the daemon and its upstreams need the rest.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Uri;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};
use tower::service_fn;

use crate::http1;
use crate::load::measurement::{Ending, Measurement, Sample};
use crate::load::schedule::Schedule;

/// How long a client waits for an answer, from the scheduled instant of its request. A later answer
/// is a failure.
pub const DEADLINE: Duration = Duration::from_millis(500);

/// The most connections that are kept while they carry no request.
const IDLE_MAX: usize = 1024;

/// The reason in the answer to a request whose feature is off.
const FEATURE_DISABLED: &[u8] = b"feature_disabled";

/// Connects to `address` whatever a URI says.
async fn connect(address: SocketAddr) -> std::io::Result<TokioIo<TcpStream>> {
    let stream = http1::connect(address).await?;
    // A client whose deadline has passed resets the connection. An orderly end would keep its port
    // for a minute, and at 2 000 requests a second there are not enough ports.
    stream.set_zero_linger()?;
    Ok(TokioIo::new(stream))
}

/// How a request ends that is answered in time: by the whole answer.
async fn ending_of(answer: ResponseFuture) -> Ending {
    let Ok(answer) = answer.await else { return Ending::Failed(None) };
    let status = answer.status().as_u16();
    let Ok(body) = answer.into_body().collect().await else { return Ending::Failed(None) };
    match status {
        200 => Ending::Answered,
        503 if contains(&body.to_bytes(), FEATURE_DISABLED) => Ending::Disabled,
        429 | 503 => Ending::Refused(status),
        _ => Ending::Failed(Some(status)),
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|part| part == text)
}

/// Sends all requests of `schedule` to `address`, the first instant being `start`, and returns when
/// each has its answer or its [`DEADLINE`] has passed.
pub fn run(schedule: &Schedule, address: SocketAddr, start: Instant) -> std::io::Result<Measurement> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    // The connection that was used last is used first, so that the others stay idle.
    let connector = service_fn(move |_: Uri| Box::pin(connect(address)));
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(IDLE_MAX).build(connector);
    let samples = runtime.block_on(async {
        let mut requests = JoinSet::new();
        for arrival in schedule.arrivals() {
            let (scheduled, stream) = (start + arrival.at, arrival.stream);
            let at = arrival.at;
            // Without this the loop would not give way to the requests that are under way.
            sleep_until(scheduled.into()).await;
            let (client, request) = (client.clone(), schedule.request(arrival));
            requests.spawn(async move {
                let lateness = scheduled.elapsed();
                let answer = ending_of(client.request(request.map(Full::new)));
                let answer = timeout_at((scheduled + DEADLINE).into(), answer).await;
                let took = scheduled.elapsed();
                let ending = match answer {
                    Ok(Ending::Failed(None)) => Ending::Failed(None),
                    Ok(ending) if took <= DEADLINE => ending,
                    _ => Ending::Late,
                };
                Sample { stream, at, lateness, took, ending }
            });
        }
        requests.join_all().await
    });
    Ok(Measurement::new(schedule, samples))
}
