//! An alarm at an instant of the daemon's clock.

use core::pin::Pin;
use core::task::{Context, Poll};

use tidegate_clock::{Clock, ClockWait};
use tidegate_core::Timestamp;
use tokio::time::Sleep;

/// Wakes a task when a clock has reached an instant. It is kept from one wait to the next, so that
/// the same instant takes one timer.
#[derive(Debug, Default)]
pub(super) struct ClockAlarm(Option<(Timestamp, Pin<Box<Sleep>>)>);

impl ClockAlarm {
    /// Ready once the clock has reached `at`.
    pub(super) fn poll(&mut self, clock: &dyn Clock, at: Timestamp, cx: &mut Context<'_>) -> Poll<()> {
        let left = match clock.wake_at(at, cx.waker()) {
            ClockWait::Reached => {
                self.0 = None;
                return Poll::Ready(());
            }
            ClockWait::Wakes => return Poll::Pending,
            ClockWait::Runs(left) => left,
        };
        let is_other = self.0.as_ref().is_none_or(|(until, _)| *until != at);
        if is_other {
            self.0 = Some((at, Box::pin(tokio::time::sleep(left))));
        }
        let Some((_, sleep)) = &mut self.0 else { return Poll::Pending };
        let rung = sleep.as_mut().poll(cx);
        if rung.is_ready() {
            self.0 = None;
        }
        rung
    }
}
