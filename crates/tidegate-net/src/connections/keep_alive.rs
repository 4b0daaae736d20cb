//! The pings of HTTP/2, sent only while an answer waits until its client has read it.
//!
//! The library sends pings by a timer that belongs to the connection from its beginning: so long
//! after the last bytes have come. This timer stands still while no
//! [delivery](super::AnswerDelivery::until_read) waits, so that other connections carry no pings
//! and arm no timer.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use hyper::rt::{Sleep, Timer};

use super::activity::ConnectionActivity;

/// The timer of the pings of one connection.
#[derive(Clone, Debug)]
pub struct KeepAliveTimer(Arc<ConnectionActivity>);

impl KeepAliveTimer {
    /// The timer of this connection.
    pub fn new(line: Arc<ConnectionActivity>) -> Self {
        Self(line)
    }
}

impl Timer for KeepAliveTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(PingSleep { line: Arc::clone(&self.0), deadline, running: None })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// A sleep that stands still while no answer waits.
struct PingSleep {
    line: Arc<ConnectionActivity>,
    deadline: Instant,
    running: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for PingSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.line.awaits_reading() {
            // The task of the connection is woken when an answer waits.
            self.running = None;
            return Poll::Pending;
        }
        let deadline = self.deadline.into();
        let running = self.running.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        running.as_mut().poll(cx)
    }
}

impl Sleep for PingSleep {}

#[cfg(test)]
mod tests {
    use core::task::Waker;
    use std::sync::atomic::Ordering;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn poll(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
        sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn wait(line: &ConnectionActivity, answers: u32) {
        line.deliveries.unread.store(answers, Ordering::Relaxed);
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_stands_still_while_no_answer_waits() {
        let line = Arc::new(ConnectionActivity::default());
        let mut sleep = KeepAliveTimer::new(Arc::clone(&line)).sleep(SECOND);
        tokio::time::advance(10 * SECOND).await;
        assert!(!poll(&mut sleep));
        wait(&line, 1);
        assert!(poll(&mut sleep), "its instant has come");
        let mut sleep = KeepAliveTimer::new(Arc::clone(&line)).sleep(SECOND);
        assert!(!poll(&mut sleep));
        wait(&line, 0);
        tokio::time::advance(10 * SECOND).await;
        assert!(!poll(&mut sleep));
    }
}
