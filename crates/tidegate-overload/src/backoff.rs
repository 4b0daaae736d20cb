//! The retry hint for callers whose requests were shed.
//!
//! The rule of Kubernetes' priority and fairness: the hint starts at a second, doubles while as
//! many requests are shed as before, up to [`RETRY_MAX`], and falls by a second at a time when
//! fewer are.

use core::time::Duration;

/// The shortest hint.
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest hint.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(32);
/// A hint doubles when, while it was in force, at least so many requests were shed a second.
const SHED_PER_SECOND_TO_DOUBLE: u64 = 3;

/// The hint, and the requests shed while it was in force.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    seconds: u64,
    shed: u64,
    /// The nanoseconds for which the hint has been in force.
    age_ns: u64,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { seconds: RETRY_MIN.as_secs(), shed: 0, age_ns: 0 }
    }

    pub(crate) const fn hint(self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Takes in the number of requests shed during `span`.
    pub(crate) fn observe(&mut self, shed: u64, span: Duration) {
        self.shed = self.shed.saturating_add(shed);
        self.age_ns = self.age_ns.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
        if self.age_ns < self.seconds * 1_000_000_000 {
            return;
        }
        if self.shed >= SHED_PER_SECOND_TO_DOUBLE * self.seconds {
            self.seconds = (self.seconds * 2).min(RETRY_MAX.as_secs());
        } else if self.shed < self.seconds {
            self.seconds = (self.seconds - 1).max(RETRY_MIN.as_secs());
        }
        self.shed = 0;
        self.age_ns = 0;
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_hint_doubles_while_shedding_goes_on_and_comes_down_a_second_at_a_time() {
        let mut backoff = Backoff::new();
        let tick = Duration::from_millis(100);
        for _ in 0..10_000 {
            backoff.observe(10, tick);
        }
        assert_eq!(backoff.hint(), RETRY_MAX);
        // The span in which shedding stopped, and one without any.
        for _ in 0..640 {
            backoff.observe(0, tick);
        }
        assert_eq!(backoff.hint(), Duration::from_secs(31));
        for _ in 0..10_000 {
            backoff.observe(0, tick);
        }
        assert_eq!(backoff.hint(), RETRY_MIN);
    }
}
