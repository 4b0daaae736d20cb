//! The bound on the work in flight of a resource: how it is found, and its state where it adapts.

use tidegate_core::Timestamp;

use crate::places::adaptive_limit::{AdaptiveLimit, AdaptiveLimitConfig, LimitAlgorithm, LimitSample};
use crate::sync::{AtomicU8, Mutex, Ordering, lock};

/// How the bound on the work in flight of a resource is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concurrency {
    /// It is configured.
    Fixed,
    /// It follows the instances that report themselves.
    PerInstance,
    /// It follows the latency of the work, by this algorithm.
    Adaptive(LimitAlgorithm),
}

impl Concurrency {
    /// The name: `fixed`, `per_instance`, `vegas`, `aimd` or `gradient`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::PerInstance => "per_instance",
            Self::Adaptive(LimitAlgorithm::Vegas) => "vegas",
            Self::Adaptive(LimitAlgorithm::Aimd) => "aimd",
            Self::Adaptive(LimitAlgorithm::Gradient) => "gradient",
        }
    }
}

/// The adaptive limit of a resource, if it has one.
#[derive(Debug)]
pub(crate) struct AdaptiveBound {
    limit: Mutex<Option<AdaptiveLimit>>,
    /// Whether there is one, so that a resource without one takes no lock for a sample. Relaxed: a
    /// sample beside a reload may be lost.
    is_present: AtomicU8,
}

impl AdaptiveBound {
    /// The bound of checked settings.
    pub(crate) fn new(config: Option<AdaptiveLimitConfig>) -> Self {
        let bound = Self { limit: Mutex::new(None), is_present: AtomicU8::new(0) };
        bound.reconfigure(config);
        bound
    }

    /// Goes on with other settings, which were checked: from the present limit, as far as the new
    /// bounds allow. The same settings keep all that was learned.
    pub(crate) fn reconfigure(&self, config: Option<AdaptiveLimitConfig>) {
        let mut limit = lock(&self.limit);
        if limit.as_ref().map(|limit| *limit.config()) != config {
            let present = limit.as_ref().and_then(|limit| u32::try_from(limit.limit()).ok());
            *limit = config.and_then(|config| {
                let initial = present.unwrap_or(config.initial).clamp(config.min, config.max);
                AdaptiveLimit::starting_at(config, initial).ok()
            });
        }
        self.is_present.store(u8::from(limit.is_some()), Ordering::Relaxed);
    }

    /// Whether there is one.
    pub(crate) fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Relaxed) != 0
    }

    /// The places to begin with: the limit in force, and at most `in_flight_max`.
    pub(crate) fn places(&self, in_flight_max: u64) -> u64 {
        lock(&self.limit).as_ref().map_or(u64::MAX, AdaptiveLimit::limit).min(in_flight_max)
    }

    pub(crate) fn algorithm(&self) -> Option<LimitAlgorithm> {
        lock(&self.limit).as_ref().map(|limit| limit.config().algorithm)
    }

    /// Adds the end of work.
    pub(crate) fn record(
        &self,
        namespace: u32,
        sample: Option<LimitSample>,
        admitted: Timestamp,
        now: Timestamp,
    ) {
        if let Some(sample) = sample.filter(|_| self.is_present())
            && let Some(limit) = &*lock(&self.limit)
        {
            limit.record(namespace, sample, admitted, now);
        }
    }

    /// The limit from now on, after so much work in flight on average; `places` is that of each
    /// namespace now. `None` without one.
    pub(crate) fn tick(
        &self,
        now: Timestamp,
        in_flight: u64,
        places: impl Iterator<Item = (u32, u64)>,
    ) -> Option<u64> {
        let limit = lock(&self.limit);
        let limit = limit.as_ref()?;
        limit.observe_in_flight(places);
        Some(limit.tick(now, in_flight))
    }
}
