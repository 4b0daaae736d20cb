//! The upstream: workers that sleep, and a queue without a bound.
//!
//! It accepts every connection, refuses nothing, and works on requests in the order of arrival even
//! when their clients have left, as a service does that does not watch its callers. So without
//! anything in front of it, it answers nobody in time once its queue is longer than the deadline of
//! its clients. Its work is sleep: it takes no processor time from the daemon that is measured.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Result;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{Interval, interval, sleep};

use crate::loopback::{self, ok, serve_http};

/// The path whose answer is [`ServiceCounts`]; it takes no worker.
pub const COUNTS_PATH: &str = "/counts";

/// The path whose answer is an endless list of events; it takes no worker.
pub const EVENTS_PATH: &str = "/events";

/// The time between two events.
const EVENT_GAP: Duration = Duration::from_millis(200);

/// How late the end of a connection may be noticed. The proxy gives a place back and closes the
/// connection of the request at the same time, so the request that gets the place may be read
/// first: 44 of 1776 times under load, and by 0.8 ms at most.
const NOTICE_LATENESS: Duration = Duration::from_millis(5);

/// The requests of a service: those served, present and attended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// Requests that it has worked on to the end.
    pub served: u64,
    /// Requests that wait for a worker or have one.
    pub present: u64,
    /// The most requests that were present at a time.
    pub present_max: u64,
    /// The most requests at a time whose clients waited for the answer. A request ends before the
    /// first byte of its answer is sent, so a client that sends the next request only after an
    /// answer or after leaving never makes this larger than its bound on requests in flight.
    /// Arrivals of the last 5 ms are not counted yet.
    pub attended_max: u64,
    /// Requests whose clients left before the answer. The service works on them to the end.
    pub departed: u64,
}

/// The requests whose clients wait for the answer.
#[derive(Debug, Default)]
struct Attendance {
    count: u64,
    /// The highest count that an arrival has made, but for the recent ones.
    max: u64,
    departed: u64,
    /// The arrivals of the last [`NOTICE_LATENESS`], each with the count that it made. The count
    /// falls if the client of an earlier request had left by then and that is noticed afterwards.
    recent: VecDeque<(Instant, u64)>,
}

impl Attendance {
    fn arrive(&mut self, now: Instant) {
        self.settle(now);
        self.count += 1;
        self.recent.push_back((now, self.count));
    }

    fn answer(&mut self) {
        self.count -= 1;
    }

    /// The client of a request that came at `arrived` has left.
    fn depart(&mut self, arrived: Instant, now: Instant) {
        self.settle(now);
        self.count -= 1;
        self.departed += 1;
        for (_, count) in self.recent.iter_mut().filter(|(later, _)| *later > arrived) {
            *count -= 1;
        }
    }

    /// Takes the counts that can no longer fall.
    fn settle(&mut self, now: Instant) {
        while let Some((arrived, count)) = self.recent.front()
            && now.saturating_duration_since(*arrived) > NOTICE_LATENESS
        {
            self.max = self.max.max(*count);
            self.recent.pop_front();
        }
    }
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
    served: u64,
    present: u64,
    present_max: u64,
    attendance: Attendance,
    /// How much longer workers slept than their work took. Timers are a millisecond late on
    /// average; without this the service would have a few per cent less capacity than it says.
    overslept: Duration,
}

impl Workers {
    fn state(&self) -> MutexGuard<'_, WorkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self, now: Instant) -> ServiceCounts {
        let WorkState { served, present, present_max, attendance, .. } = &mut *self.state();
        attendance.settle(now);
        ServiceCounts {
            served: *served,
            present: *present,
            present_max: *present_max,
            attended_max: attendance.max,
            departed: attendance.departed,
        }
    }

    fn arrive(&self, now: Instant) {
        let state = &mut *self.state();
        state.present += 1;
        state.present_max = state.present_max.max(state.present);
        state.attendance.arrive(now);
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
        state.served += 1;
        state.present -= 1;
    }
}

/// Serves on a free port of loopback with `workers` workers, until the process ends. The address.
pub fn start(workers: usize) -> Result<SocketAddr> {
    let workers = Arc::new(Workers { free: Semaphore::new(workers), state: Mutex::default() });
    loopback::start(move |stream, _| {
        let workers = Arc::clone(&workers);
        async move { serve_http(stream, |request| respond(request, Arc::clone(&workers))).await }
    })
}

/// A request whose client waits for the answer, or has left if the value is dropped before.
struct AttendedRequest {
    workers: Arc<Workers>,
    arrived: Instant,
    is_answered: bool,
}

impl Drop for AttendedRequest {
    fn drop(&mut self) {
        let attendance = &mut self.workers.state().attendance;
        if self.is_answered {
            attendance.answer();
        } else {
            attendance.depart(self.arrived, Instant::now());
        }
    }
}

/// Events without end.
#[derive(Debug)]
struct EventStreamBody(Interval);

impl Body for EventStreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_tick(cx).map(|_| Some(Ok(Frame::data(Bytes::from_static(b"data: tick\n\n")))))
    }
}

async fn respond(
    request: Request<Incoming>,
    workers: Arc<Workers>,
) -> Response<Either<Full<Bytes>, EventStreamBody>> {
    if request.uri().path() == EVENTS_PATH {
        return Response::new(Either::Right(EventStreamBody(interval(EVENT_GAP))));
    }
    answer(request, workers).await.map(Either::Left)
}

/// The answer to a request that ends.
async fn answer(request: Request<Incoming>, workers: Arc<Workers>) -> Response<Full<Bytes>> {
    if request.uri().path() == COUNTS_PATH {
        let counts = workers.counts(Instant::now());
        return ok(json!([
            counts.served,
            counts.present,
            counts.present_max,
            counts.attended_max,
            counts.departed
        ])
        .to_string());
    }
    let work = request.headers().get("x-work-us").and_then(|work| work.to_str().ok()?.parse().ok());
    let work = Duration::from_micros(work.unwrap_or(0));
    let arrived = Instant::now();
    workers.arrive(arrived);
    // Dropped before the answer is sent, or the client could send the next request before this one
    // has ended.
    let mut attended = AttendedRequest { workers: Arc::clone(&workers), arrived, is_answered: false };
    // Goes on when the client has left.
    let served = tokio::spawn(async move { workers.serve(work).await });
    attended.is_answered = served.await.is_ok();
    ok("ok\n")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::runtime;

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
                workers.arrive(began);
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
        let counts = workers.counts(Instant::now());
        assert_eq!((counts.served, counts.present, counts.present_max), (40, 0, 40));
    }

    #[test]
    fn time_that_a_worker_overslept_is_taken_off_later_work() {
        let workers = workers(1);
        workers.state().overslept = WORK * 3;
        let took = drained(&workers, 3);
        assert!(took < WORK * 2, "{took:?}");
    }

    const MS: Duration = Duration::from_millis(1);

    /// Two requests, of which the client of the first leaves, and a third one.
    fn departure(departs: Duration, arrives: Duration) -> u64 {
        let (mut attendance, start) = (Attendance::default(), Instant::now());
        attendance.arrive(start);
        attendance.arrive(start);
        let mut events = [(departs, true), (arrives, false)];
        events.sort_unstable();
        for (at, is_departure) in events {
            if is_departure {
                attendance.depart(start, start + at);
            } else {
                attendance.arrive(start + at);
            }
        }
        attendance.settle(start + Duration::from_secs(1));
        attendance.max
    }

    #[test]
    fn a_request_whose_client_has_left_is_not_attended_even_if_that_is_noticed_late() {
        let second = Duration::from_secs(1);
        assert_eq!(departure(second, second + MS), 2);
        assert_eq!(departure(second + NOTICE_LATENESS, second), 2);
        assert_eq!(departure(second + NOTICE_LATENESS + MS, second), 3);
    }

    #[test]
    fn a_request_too_many_is_counted_even_if_its_own_client_leaves_at_once() {
        let (mut attendance, start) = (Attendance::default(), Instant::now());
        for request in 0..3 {
            attendance.arrive(start + MS * request);
        }
        attendance.depart(start + 2 * MS, start + 3 * MS);
        attendance.answer();
        attendance.arrive(start + 3 * MS);
        attendance.settle(start + Duration::from_secs(1));
        assert_eq!((attendance.max, attendance.count, attendance.departed), (3, 2, 1));
    }

    #[test]
    fn a_client_that_leaves_is_counted_and_its_request_is_worked_on() {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let workers = workers(1);
            let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nx-work-us: 60000000\r\n\r\n").await.unwrap();
            client.shutdown().await.unwrap();
            serve_http(stream, |request| respond(request, Arc::clone(&workers))).await;
            let counts = workers.counts(Instant::now() + Duration::from_secs(1));
            assert_eq!((counts.served, counts.present, counts.attended_max, counts.departed), (0, 1, 1, 1));
        });
    }
}
