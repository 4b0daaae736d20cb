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

/// Connects to `address` whatever a URI says.
async fn connect(address: SocketAddr) -> std::io::Result<TokioIo<TcpStream>> {
    let stream = http1::connect(address).await?;
    // A client whose deadline has passed resets the connection. An orderly end would keep its port
    // for a minute, and at 2 000 requests a second there are not enough ports.
    stream.set_zero_linger()?;
    Ok(TokioIo::new(stream))
}

/// The status of a request of which the whole answer has come.
async fn status_of(answer: ResponseFuture) -> Option<u16> {
    let answer = answer.await.ok()?;
    let status = answer.status().as_u16();
    answer.into_body().collect().await.ok().map(|_| status)
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
                let answer = status_of(client.request(request.map(Full::new)));
                let answer = timeout_at((scheduled + DEADLINE).into(), answer).await;
                let took = scheduled.elapsed();
                let ending = match answer {
                    Err(_) => Ending::Late,
                    Ok(Some(_)) if took > DEADLINE => Ending::Late,
                    Ok(Some(200)) => Ending::Answered,
                    Ok(Some(status @ (429 | 503))) => Ending::Refused(status),
                    Ok(status) => Ending::Failed(status),
                };
                Sample { stream, at, lateness, took, ending }
            });
        }
        requests.join_all().await
    });
    Ok(Measurement::new(schedule, samples))
}
