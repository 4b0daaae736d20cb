//! The upstream: workers that sleep, and a queue without a bound.
//!
//! It accepts every connection, refuses nothing, and works on requests in the order of arrival even
//! when their clients have left, as a service does that does not watch its callers. So without
//! anything in front of it, it answers nobody in time once its queue is longer than the deadline of
//! its clients. Its work is sleep: it takes no processor time from the daemon that is measured.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;
use tidegate_abuse::http1::header_in;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::sleep;

/// The path whose answer is [`ServiceCounts`]; it takes no worker.
pub const COUNTS_PATH: &str = "/counts";

/// The most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The requests of a service: those served and those present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Requests that it has worked on to the end.
    pub served: u64,
    /// Requests that wait for a worker or have one.
    pub present: u64,
    /// The most requests that were present at a time.
    pub present_max: u64,
}

/// The workers, and what they have done.
#[derive(Debug)]
struct Workers {
    /// Gives workers in the order in which they were asked for.
    free: Semaphore,
    state: Mutex<WorkState>,
}

#[derive(Debug, Default)]
struct WorkState {
    counts: ServiceCounts,
    /// How much longer workers slept than their work took. Timers are a millisecond late on
    /// average; without this the service would have a few per cent less capacity than it says.
    overslept: Duration,
}

impl Workers {
    fn state(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrive(&self) {
        let counts = &mut self.state().counts;
        counts.present += 1;
        counts.present_max = counts.present_max.max(counts.present);
    }

    /// Waits for a worker and lets it do `work`.
    async fn serve(&self, work: Duration) {
        let _worker = self.free.acquire().await.expect("the workers are never closed");
        let planned = {
            let state = &mut *self.state();
            let saved = state.overslept.min(work);
            state.overslept -= saved;
            work.saturating_sub(saved)
        };
        let began = Instant::now();
        if planned > Duration::ZERO {
            sleep(planned).await;
        }
        let state = &mut *self.state();
        state.overslept += began.elapsed().saturating_sub(planned);
        state.counts.served += 1;
        state.counts.present -= 1;
    }
}

/// Serves on a port of loopback, a free one if `port` is 0, with `workers` workers. `listening` is
/// told the address. Ends only with an error.
pub fn serve(port: u16, workers: usize, listening: impl FnOnce(SocketAddr)) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let workers = Workers { free: Semaphore::new(workers), state: Mutex::default() };
    let workers = Arc::new(workers);
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        listening(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            let workers = Arc::clone(&workers);
            // The end of a connection is no concern of the others.
            tokio::spawn(async move { serve_connection(stream, &workers).await });
        }
    })
}

/// Serves requests without bodies, one after the other, until the client leaves.
async fn serve_connection(mut stream: TcpStream, workers: &Arc<Workers>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            if received.len() > HEAD_BYTES_MAX || stream.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let head: Vec<u8> = received.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head);
        if head.split(' ').nth(1) == Some(COUNTS_PATH) {
            let ServiceCounts { served, present, present_max } = workers.state().counts;
            let body = json!({ "served": served, "present": present, "present_max": present_max });
            answer(&mut stream, &body.to_string()).await?;
            continue;
        }
        let work = header_in(&head, "x-work-us").and_then(|work| work.parse().ok());
        let work = Duration::from_micros(work.unwrap_or(0));
        let (done, mut is_done) = oneshot::channel();
        workers.arrive();
        let of_request = Arc::clone(workers);
        tokio::spawn(async move {
            of_request.serve(work).await;
            // A client that has left is not there to be told.
            let _ = done.send(());
        });
        loop {
            tokio::select! {
                _ = &mut is_done => break,
                read = stream.read_buf(&mut received) => if read? == 0 { return Ok(()) },
            }
        }
        answer(&mut stream, "ok\n").await?;
    }
}

async fn answer(stream: &mut TcpStream, body: &str) -> Result<()> {
    let length = body.len();
    stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Duration = Duration::from_millis(25);

    fn workers(count: usize) -> Arc<Workers> {
        Arc::new(Workers { free: Semaphore::new(count), state: Mutex::default() })
    }

    /// Serves `count` requests of [`WORK`] that arrive together, and returns the time that took.
    fn drained(workers: &Arc<Workers>, count: usize) -> Duration {
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let began = Instant::now();
        runtime.block_on(async {
            let mut requests = tokio::task::JoinSet::new();
            for _ in 0..count {
                let workers = Arc::clone(workers);
                workers.arrive();
                requests.spawn(async move { workers.serve(WORK).await });
            }
            requests.join_all().await;
        });
        began.elapsed()
    }

    #[test]
    fn a_backlog_is_served_at_the_capacity_of_the_workers() {
        let workers = workers(4);
        let took = drained(&workers, 40);
        // 10 rounds of 25 ms. Late timers are made up for, so it is not much longer either.
        assert!(took >= WORK * 9, "{took:?}");
        let counts = workers.state().counts;
        assert_eq!((counts.served, counts.present, counts.present_max), (40, 0, 40));
    }

    #[test]
    fn time_that_a_worker_overslept_is_taken_off_later_work() {
        let workers = workers(1);
        workers.state().overslept = WORK * 3;
        let took = drained(&workers, 3);
        assert!(took < WORK * 2, "{took:?}");
    }
}
