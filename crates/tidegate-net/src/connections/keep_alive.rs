//! The pings of HTTP/2, sent only on connections where an answer wants to know whether its client
//! reads.
//!
//! A kernel takes bytes for a program that has stopped, so a delivery alone does not say that the
//! client lives. A ping does: only the program answers it. The library sends pings by a timer that
//! belongs to the connection from its beginning; this timer stands still while nobody wants to
//! know, so that other connections carry no pings and arm no timer.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hyper::rt::{Sleep, Timer};

use super::activity::ConnectionActivity;

/// The timer of the pings of one connection.
#[derive(Clone, Debug)]
pub struct KeepAliveTimer(Arc<ConnectionActivity>);

/// As long as it lives, the client of the connection is pinged.
#[derive(Debug)]
pub struct ClientProbe(Arc<ConnectionActivity>);

impl KeepAliveTimer {
    /// The timer of this connection.
    pub fn new(line: Arc<ConnectionActivity>) -> Self {
        Self(line)
    }
}

impl ClientProbe {
    /// Has the client of `line` pinged.
    pub fn new(line: Arc<ConnectionActivity>) -> Self {
        // Relaxed: the connection is woken afterwards, by a lock.
        line.probes.fetch_add(1, Ordering::Relaxed);
        // The timer looks again.
        line.poke();
        Self(line)
    }
}

impl Drop for ClientProbe {
    fn drop(&mut self) {
        self.0.probes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Timer for KeepAliveTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(ProbeSleep { line: Arc::clone(&self.0), deadline, running: None })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// A sleep that stands still while there is no probe.
struct ProbeSleep {
    line: Arc<ConnectionActivity>,
    deadline: Instant,
    running: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for ProbeSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.line.probes.load(Ordering::Relaxed) == 0 {
            // The task of the connection is woken when a probe comes.
            self.running = None;
            return Poll::Pending;
        }
        let deadline = self.deadline.into();
        let running = self.running.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        running.as_mut().poll(cx)
    }
}

impl Sleep for ProbeSleep {}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::task::Waker;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn poll(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_stands_still_while_nobody_wants_to_know() {
        let line = Arc::new(ConnectionActivity::default());
        let mut sleep = KeepAliveTimer::new(Arc::clone(&line)).sleep(SECOND);
        tokio::time::advance(10 * SECOND).await;
        assert!(!poll(&mut sleep));
        let probe = ClientProbe::new(Arc::clone(&line));
        let other = ClientProbe::new(Arc::clone(&line));
        drop(other);
        assert!(poll(&mut sleep), "its instant has come");
        let mut sleep = KeepAliveTimer::new(Arc::clone(&line)).sleep(SECOND);
        assert!(!poll(&mut sleep));
        drop(probe);
        tokio::time::advance(10 * SECOND).await;
        assert!(!poll(&mut sleep));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_wakes_the_task_of_the_connection() {
        let line = Arc::new(ConnectionActivity::default());
        let mut sleep = KeepAliveTimer::new(Arc::clone(&line)).sleep(SECOND);
        let mut is_registered = false;
        let connection = poll_fn(|cx| {
            let _ = line.order(cx, &mut is_registered);
            sleep.as_mut().poll(cx)
        });
        let begun = tokio::time::Instant::now();
        let mut probe = None;
        tokio::join!(connection, async {
            tokio::task::yield_now().await;
            probe = Some(ClientProbe::new(Arc::clone(&line)));
        });
        assert_eq!((begun.elapsed(), probe.is_some()), (SECOND, true));
    }
}
