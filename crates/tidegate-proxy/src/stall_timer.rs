//! A timer for a body that pauses.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::time::{Instant, Sleep};

/// A wait that is only armed while something is waited for: a body that flows costs no timer.
#[derive(Debug)]
pub(super) struct StallTimer {
    pub(super) span: Duration,
    /// The deadline of the whole body, however much flows.
    pub(super) until: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl StallTimer {
    pub(super) const fn new(span: Duration, until: Option<Instant>) -> Self {
        Self { span, until, sleep: None, is_waiting: false }
    }

    /// Something came.
    pub(super) const fn refresh(&mut self) {
        self.is_waiting = false;
    }

    /// Nothing came; ready when that has lasted too long.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_waiting {
            let idle_until = Instant::now() + self.span;
            let until = self.until.map_or(idle_until, |until| until.min(idle_until));
            match &mut self.sleep {
                Some(sleep) => sleep.as_mut().reset(until),
                None => self.sleep = Some(Box::pin(tokio::time::sleep_until(until))),
            }
            self.is_waiting = true;
        }
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
