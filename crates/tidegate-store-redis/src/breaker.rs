//! A circuit breaker: while a store does not answer, batches are rejected at once.
//!
//! **Closed** it lets everything through and counts failures in a row. After
//! [`BreakerConfig::failures`] of them it **opens** and lets nothing through for a cool-down. Then
//! it is **half open**: one request goes through to see. If that succeeds it closes; if it fails it
//! opens again for twice as long, up to a bound. A request whose end is not reported holds it half
//! open for one cool-down, and then another may try.
//!
//! Pure: `now` is an argument, as the time since any fixed instant.

use core::time::Duration;

use tidegate_store::Circuit;

/// When a breaker opens, and for how long.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_store_redis::{Circuit, RedisConfig, breaker::Breaker};
/// let mut config = RedisConfig::new(["redis://127.0.0.1:6379"]);
/// config.breaker.failures = 2;
/// config.breaker.cool_down = Duration::from_millis(50);
/// let mut breaker = Breaker::new(config.breaker);
/// let now = Duration::from_secs(1);
/// breaker.failed(now);
/// assert_eq!(breaker.circuit(), Circuit::Closed);
/// breaker.failed(now);
/// assert_eq!(breaker.circuit(), Circuit::Open { until: Duration::from_millis(1_050) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerConfig {
    /// Failures in a row after which it opens. Default 5; 0 counts as 1.
    pub failures: u32,
    /// The first cool-down. Default 100 ms.
    pub cool_down: Duration,
    /// The longest cool-down, after doubling. Default 250 ms, so that a store is used again well
    /// within a second of its return; less than [`BreakerConfig::cool_down`] counts as that.
    pub cool_down_max: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, cool_down: Duration::from_millis(100), cool_down_max: Duration::from_millis(250) }
    }
}

/// The state of one breaker.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_store_redis::{BreakerConfig, Circuit, breaker::Breaker};
/// let mut breaker = Breaker::new(BreakerConfig::default());
/// let at = Duration::from_millis;
/// for _ in 0..5 {
///     assert!(breaker.lets_through(at(0)));
///     breaker.failed(at(0));
/// }
/// assert!(!breaker.lets_through(at(99)));
/// // After the cool-down one request tries, and its answer closes the breaker.
/// assert!(breaker.lets_through(at(100)) && !breaker.lets_through(at(100)));
/// breaker.succeeded();
/// assert_eq!(breaker.circuit(), Circuit::Closed);
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    config: BreakerConfig,
    circuit: Circuit,
    failures: u32,
    /// The cool-down that it is in, or was in last.
    cool_down: Duration,
    /// When the request that tries was let through.
    tried_at: Duration,
    opened: u64,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(config: BreakerConfig) -> Self {
        Self {
            config,
            circuit: Circuit::Closed,
            failures: 0,
            cool_down: config.cool_down,
            tried_at: Duration::ZERO,
            opened: 0,
        }
    }

    /// Whether a request may go through at `now`. When half open only the first is let through.
    pub fn lets_through(&mut self, now: Duration) -> bool {
        match self.circuit {
            Circuit::Closed => true,
            Circuit::Open { until } if now < until => false,
            Circuit::HalfOpen if now < self.tried_at.saturating_add(self.cool_down) => false,
            Circuit::Open { .. } | Circuit::HalfOpen => {
                self.circuit = Circuit::HalfOpen;
                self.tried_at = now;
                true
            }
        }
    }

    /// A request was answered, whatever the answer.
    pub fn succeeded(&mut self) {
        self.circuit = Circuit::Closed;
        self.failures = 0;
        self.cool_down = self.config.cool_down;
    }

    /// A request was not answered. Those let through before it opened change nothing any more.
    pub fn failed(&mut self, now: Duration) {
        let longest = self.config.cool_down_max.max(self.config.cool_down);
        match self.circuit {
            Circuit::Closed => {
                self.failures += 1;
                if self.failures < self.config.failures {
                    return;
                }
                self.cool_down = self.config.cool_down;
            }
            Circuit::HalfOpen => self.cool_down = self.cool_down.saturating_mul(2).min(longest),
            Circuit::Open { .. } => return,
        }
        self.opened += 1;
        self.circuit = Circuit::Open { until: now.saturating_add(self.cool_down) };
    }

    /// Whether the last request that was reported on was answered; also before the first.
    pub(crate) fn is_well(&self) -> bool {
        self.circuit == Circuit::Closed && self.failures == 0
    }

    /// Its state now.
    pub fn circuit(&self) -> Circuit {
        self.circuit
    }

    /// How often it has opened since it was made.
    pub fn opened(&self) -> u64 {
        self.opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn opened_at(now: Duration) -> Breaker {
        let mut breaker = Breaker::new(BreakerConfig::default());
        (0..5).for_each(|_| breaker.failed(now));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_success_between_them_does_not_let_them_add_up() {
        let mut breaker = Breaker::new(BreakerConfig::default());
        for _ in 0..10 {
            (0..4).for_each(|_| breaker.failed(MS));
            assert!(breaker.lets_through(MS));
            breaker.succeeded();
        }
        (0..5).for_each(|_| breaker.failed(MS));
        assert!(!breaker.lets_through(MS));
        assert_eq!(breaker.circuit(), Circuit::Open { until: 101 * MS });
    }

    #[test]
    fn one_request_tries_when_the_cool_down_is_over_and_its_success_closes_it() {
        let mut breaker = opened_at(MS);
        assert!(!breaker.lets_through(100 * MS));
        assert!(breaker.lets_through(101 * MS));
        assert!(!breaker.lets_through(101 * MS));
        breaker.succeeded();
        assert!(breaker.lets_through(101 * MS) && breaker.lets_through(101 * MS));
    }

    #[test]
    fn each_try_that_fails_doubles_the_cool_down_up_to_its_bound() {
        let mut breaker = opened_at(Duration::ZERO);
        let mut now = 100 * MS;
        for expected in [200, 250, 250] {
            assert!(breaker.lets_through(now));
            breaker.failed(now);
            assert!(!breaker.lets_through(now + (expected - 1) * MS));
            now += expected * MS;
        }
        assert_eq!(breaker.opened(), 4);
    }

    #[test]
    fn a_try_that_is_never_reported_keeps_others_out_for_one_cool_down_only() {
        let mut breaker = opened_at(Duration::ZERO);
        assert!(breaker.lets_through(100 * MS));
        assert!(!breaker.lets_through(199 * MS));
        assert!(breaker.lets_through(200 * MS));
    }

    #[test]
    fn late_failures_of_an_open_breaker_do_not_keep_it_open() {
        let mut breaker = opened_at(Duration::ZERO);
        (0..100).for_each(|_| breaker.failed(90 * MS));
        assert!(breaker.lets_through(100 * MS));
    }
}
