//! The retry hint for callers whose requests were shed.
//!
//! The rule of Kubernetes' priority and fairness: the hint starts at a second, doubles while as
//! many requests are shed as before, up to [`RETRY_MAX`], and falls by a second at a time when
//! fewer are. Each caller is told up to half of it more, so that those refused together do not come
//! back together.

use core::time::Duration;

use crate::cursor::hash::keyed_hash;
use crate::fault::Fault;

/// The shortest hint.
pub(crate) const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest hint before the part that scatters it: with that part 31.5 s, which whole seconds
/// round up to the 32 s of Kubernetes.
pub(crate) const RETRY_MAX: Duration = Duration::from_secs(21);
/// A hint doubles when, while it was in force, at least so many requests were shed a second.
const SHED_PER_SECOND_TO_DOUBLE: u64 = 3;

/// The hint of one caller: `base` and up to half of it more, by the number of the caller among
/// those that were refused. `key` makes the numbers of one resource scatter unlike those of
/// another.
pub(crate) fn scattered(base: Duration, key: u64, number: u64) -> Duration {
    // 1024 steps: 10 ms apart at 21 s.
    let part = keyed_hash([key, number], None) >> 54;
    let part = if Fault::HintAlike.is_planted() { 0 } else { part };
    let more = base.as_nanos() * u128::from(part) / 2048;
    base.saturating_add(Duration::from_nanos(u64::try_from(more).unwrap_or(0)))
}

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
pub(crate) mod tests {
    use super::*;

    #[test]
    pub(crate) fn hints_are_spread_evenly_over_half_of_the_base_and_stay_between_1_and_32_seconds() {
        for base in [RETRY_MIN, Duration::from_secs(8), RETRY_MAX] {
            let mut tenths = [0_u32; 10];
            for number in 0..10_000 {
                let hint = scattered(base, 7, number);
                assert!(hint >= base && hint < base + base / 2, "{hint:?}");
                assert!(hint >= Duration::from_secs(1) && hint.as_secs_f64().ceil() <= 32.0, "{hint:?}");
                let part = hint.saturating_sub(base).as_nanos() * 20 / base.as_nanos();
                tenths[usize::try_from(part).unwrap()] += 1;
            }
            // A thousand each; five standard deviations are 150.
            assert!(tenths.iter().all(|count| (850..=1150).contains(count)), "{base:?}: {tenths:?}");
        }
        let same =
            (0..1000).filter(|number| scattered(RETRY_MAX, 1, *number) == scattered(RETRY_MAX, 2, *number));
        assert!(same.count() < 10, "each resource scatters in its own way");
    }

    #[test]
    fn the_hint_doubles_while_shedding_goes_on_and_comes_down_a_second_at_a_time() {
        let mut backoff = Backoff::new();
        let tick = Duration::from_millis(100);
        for _ in 0..10_000 {
            backoff.observe(10, tick);
        }
        assert_eq!(backoff.hint(), RETRY_MAX);
        // The span in which shedding stopped, and one without any.
        for _ in 0..420 {
            backoff.observe(0, tick);
        }
        assert_eq!(backoff.hint(), Duration::from_secs(20));
        for _ in 0..10_000 {
            backoff.observe(0, tick);
        }
        assert_eq!(backoff.hint(), RETRY_MIN);
    }
}
