//! Sleeping until an instant of a clock.

use core::future::poll_fn;
use core::task::Poll;

use tidegate_clock::{Clock, ClockWait};
use tidegate_core::Timestamp;

/// Waits until the clock has reached `at`; the wait may end earlier.
pub(crate) async fn sleep_until(clock: &dyn Clock, at: Timestamp) {
    let left = poll_fn(|context| match clock.wake_at(at, context.waker()) {
        ClockWait::Reached => Poll::Ready(None),
        ClockWait::Wakes => Poll::Pending,
        ClockWait::Runs(left) => Poll::Ready(Some(left)),
    });
    if let Some(left) = left.await {
        tokio::time::sleep(left).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_clock::{ManualClock, SystemClock};

    use super::*;

    #[tokio::test]
    async fn a_sleep_on_a_manual_clock_ends_when_the_clock_is_moved() {
        let clock = ManualClock::new(Timestamp::from_secs(10));
        let at = Timestamp::from_secs(12);
        let mover = async {
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
            assert_eq!(clock.now(), Timestamp::from_secs(11));
            clock.advance(Duration::from_secs(1));
        };
        tokio::join!(sleep_until(&clock, at), mover);
        assert_eq!(clock.now(), at);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleep_on_the_clock_of_the_machine_takes_the_span_that_is_left() {
        let clock = SystemClock::new();
        let now = clock.now();
        let begun = tokio::time::Instant::now();
        sleep_until(&clock, now).await;
        assert_eq!(begun.elapsed(), Duration::ZERO, "an instant that has passed is not waited for");
        sleep_until(&clock, now.saturating_add(Duration::from_mins(1))).await;
        // The clock of the machine has gone on meanwhile.
        assert!((59..=61).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    }
}
