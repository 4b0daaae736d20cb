//! Other people's rate limiters behind one shape: does it admit this key now?

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use dashmap::DashMap;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use ratelimit::Ratelimiter;
use tidegate_core::Timestamp;

use crate::calls::MutexedLog;

/// A token bucket's numbers in a form that all of them take.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// Units in `per`.
    pub units: u32,
    /// The span of the rate.
    pub per: Duration,
    /// Units the bucket holds.
    pub burst: u32,
}

impl Numbers {
    /// As [`crate::workload::endless`].
    pub const ENDLESS: Self = Self { units: 1_000_000, per: Duration::from_secs(1), burst: 1_000_000_000 };
    /// As [`crate::workload::tight`].
    pub const TIGHT: Self = Self { units: 1, per: Duration::from_mins(1), burst: 10 };
}

/// `governor`, keyed, in its default store, on its default clock.
#[derive(Debug)]
pub struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    /// Its name in tables.
    pub const NAME: &str = "governor 0.10 keyed (dashmap)";

    /// With these numbers for each key.
    pub fn new(numbers: Numbers) -> Self {
        let burst = NonZeroU32::new(numbers.burst).expect("a burst is at least 1");
        let quota = Quota::with_period(numbers.per / numbers.units).expect("a period is above zero");
        Self(RateLimiter::keyed(quota.allow_burst(burst)))
    }

    /// Whether it admits one unit.
    #[inline]
    pub fn check(&self, key: &String) -> bool {
        self.0.check_key(key).is_ok()
    }
}

/// `throttlecrab`'s library with its server's default store, behind a lock as its types demand.
pub struct Crab(Mutex<throttlecrab::RateLimiter<throttlecrab::PeriodicStore>>, Numbers);

impl std::fmt::Debug for Crab {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Crab").field(&self.1).finish()
    }
}

impl Crab {
    /// Its name in tables.
    pub const NAME: &str = "throttlecrab 0.4 (mutex)";

    /// With these numbers for each key.
    pub fn new(numbers: Numbers) -> Self {
        Self(Mutex::new(throttlecrab::RateLimiter::new(throttlecrab::PeriodicStore::new())), numbers)
    }

    /// Whether it admits one unit.
    #[inline]
    pub fn check(&self, key: &str) -> bool {
        let Numbers { units, per, burst } = self.1;
        let mut limiter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = limiter.rate_limit(
            key,
            i64::from(burst),
            i64::from(units),
            per.as_secs().cast_signed(),
            1,
            SystemTime::now(),
        );
        answer.is_ok_and(|(admits, _)| admits)
    }
}

/// `ratelimit`, which knows no keys, in a `dashmap`.
#[derive(Debug)]
pub struct Ratelimits(DashMap<String, Ratelimiter>, Numbers);

impl Ratelimits {
    /// Its name in tables.
    pub const NAME: &str = "ratelimit 2.0 in a dashmap";

    /// With these numbers for each key.
    pub fn new(numbers: Numbers) -> Self {
        Self(DashMap::new(), numbers)
    }

    /// Whether it admits one unit.
    #[inline]
    pub fn check(&self, key: &str) -> bool {
        if let Some(one) = self.0.get(key) {
            return one.try_wait().is_ok();
        }
        let Numbers { units, per, burst } = self.1;
        let one = Ratelimiter::builder(u64::from(units))
            .period(per)
            .max_tokens(u64::from(burst))
            .initial_available(u64::from(burst))
            .build()
            .expect("the numbers of a benchmark are valid");
        self.0.entry(key.to_owned()).or_insert(one).try_wait().is_ok()
    }
}

/// A log of instants behind a lock for each key, in a `dashmap`: an exact sliding window with keys.
#[derive(Debug)]
pub struct KeyedLogs(DashMap<String, MutexedLog>, (usize, Duration));

impl KeyedLogs {
    /// Its name in tables.
    pub const NAME: &str = "mutexed logs in a dashmap";

    /// Logs that admit `limit` in any `window`.
    pub fn new(limit: usize, window: Duration) -> Self {
        Self(DashMap::new(), (limit, window))
    }

    /// Whether it admits one unit.
    #[inline]
    pub fn check(&self, key: &str, now: Timestamp) -> bool {
        if let Some(log) = self.0.get(key) {
            return log.admit(now);
        }
        let (limit, window) = self.1;
        self.0.entry(key.to_owned()).or_insert_with(|| MutexedLog::new(limit, window)).admit(now)
    }
}
