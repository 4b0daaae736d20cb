//! An open-loop generator: it sends each request at its scheduled instant, whatever became of the
//! requests before.
//!
//! One thread with one event loop: on two cores, the daemon and its upstreams need the rest.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout_at};

use crate::load::client::{ClientConnection, Reply};
use crate::load::measurement::{Ending, Measurement, Sample};
use crate::load::schedule::Schedule;

/// How long a client waits for an answer, from the scheduled instant of its request. A later answer
/// is a failure.
pub const DEADLINE: Duration = Duration::from_millis(500);

/// The most connections that are kept while they carry no request.
const IDLE_MAX: usize = 1024;

/// Connections that carry no request. The one that was used last is used first, so that those which
/// are not needed stay idle.
#[derive(Debug)]
struct ConnectionPool {
    address: SocketAddr,
    idle: Mutex<Vec<ClientConnection>>,
}

impl ConnectionPool {
    fn take(&self) -> Option<ClientConnection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_back(&self, connection: ClientConnection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    /// Asks over an idle connection. A server may close an idle connection at any time, so a failed
    /// request is sent once more over a new one, as HTTP clients do with requests that are safe.
    async fn ask(&self, request: &[u8]) -> std::io::Result<u16> {
        if let Some(connection) = self.take()
            && let Ok(status) = self.ask_over(connection, request).await
        {
            return Ok(status);
        }
        self.ask_over(ClientConnection::open(self.address).await?, request).await
    }

    async fn ask_over(&self, mut connection: ClientConnection, request: &[u8]) -> std::io::Result<u16> {
        let Reply { status, keeps_alive } = connection.ask(request).await?;
        if keeps_alive {
            self.put_back(connection);
        }
        Ok(status)
    }
}

/// Sends all requests of `schedule` to `address`, the first instant being `start`, and returns when
/// each has its answer or its [`DEADLINE`] has passed.
pub fn run(schedule: &Schedule, address: SocketAddr, start: Instant) -> std::io::Result<Measurement> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let pool = Arc::new(ConnectionPool { address, idle: Mutex::default() });
    let samples = runtime.block_on(async {
        let mut requests = JoinSet::new();
        for arrival in schedule.arrivals() {
            let (scheduled, stream) = (start + arrival.at, arrival.stream);
            let at = arrival.at;
            // Without this the loop would not give way to the requests that are under way.
            sleep_until(scheduled.into()).await;
            let (pool, request) = (Arc::clone(&pool), schedule.request(arrival));
            requests.spawn(async move {
                let lateness = scheduled.elapsed();
                let answer = timeout_at((scheduled + DEADLINE).into(), pool.ask(&request)).await;
                let took = scheduled.elapsed();
                let ending = match answer {
                    Err(_) => Ending::Late,
                    Ok(Ok(_)) if took > DEADLINE => Ending::Late,
                    Ok(Ok(200)) => Ending::Answered,
                    Ok(Ok(status @ (429 | 503))) => Ending::Refused(status),
                    Ok(Ok(status)) => Ending::Failed(Some(status)),
                    Ok(Err(_)) => Ending::Failed(None),
                };
                Sample { stream, at, lateness, took, ending }
            });
        }
        requests.join_all().await
    });
    Ok(Measurement::new(schedule, samples))
}
