//! The counts of one feature: the requests that ask for it, those in flight, and what they cost.

use core::time::Duration;
use std::sync::Arc;

use tidegate_core::Class;

use crate::cursor::{COHORTS, RequestLevel};
use crate::features::config::{FeatureConfig, FeatureScope};
use crate::sync::{AtomicU64, Ordering};

/// The longest time of one request that counts: an hour, so that no sum wraps.
const TIME_MAX_US: u64 = 3_600_000_000;
/// The most units of one request that count, for the same reason.
const UNITS_MAX: u64 = 1 << 40;

/// The requests in flight by class. Every request of the feature writes it, so it shares no cache
/// line with what others read.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct FeatureInFlight([AtomicU64; Class::ALL.len()]);

impl FeatureInFlight {
    pub(crate) fn begin(&self, class: Class) {
        // Relaxed: a count that guards no other memory.
        self.0[class as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self, class: Class) {
        // Each use was counted once, so the count stays at zero or above.
        let before = self.0[class as usize].fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "more uses end than began");
    }

    /// Those of a class.
    pub(crate) fn of_class(&self, class: Class) -> u64 {
        self.0[class as usize].load(Ordering::Relaxed)
    }

    /// All of them.
    pub(crate) fn count(&self) -> u64 {
        Class::ALL.into_iter().map(|class| self.of_class(class)).sum()
    }
}

/// The requests that asked for the feature since the last tick, by class.
#[derive(Debug, Default)]
#[repr(align(64))]
struct OfferedCounts([AtomicU64; Class::ALL.len()]);

/// The work of one level that ended, or was admitted in units, since the last tick.
#[derive(Debug, Default)]
struct LevelCounts {
    ended: AtomicU64,
    held_us: AtomicU64,
    priced: AtomicU64,
    units: AtomicU64,
}

/// The counts of one feature.
#[derive(Debug)]
pub(crate) struct FeatureMeter {
    offered: OfferedCounts,
    /// The same by the cohort of the tenant, where tenants have levels of their own.
    cohorts: Option<Box<[AtomicU64; COHORTS as usize]>>,
    pub(crate) in_flight: Arc<FeatureInFlight>,
    levels: Box<[LevelCounts]>,
}

/// The work of one level in a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LevelTick {
    /// The requests that ended, and the microseconds for which they kept their places.
    pub(crate) ended: u64,
    pub(crate) held_us: u64,
    /// The requests that were admitted without a known end, and their units.
    pub(crate) priced: u64,
    pub(crate) units: u64,
}

impl LevelTick {
    pub(crate) const fn plus(self, other: &Self) -> Self {
        Self {
            ended: self.ended.saturating_add(other.ended),
            held_us: self.held_us.saturating_add(other.held_us),
            priced: self.priced.saturating_add(other.priced),
            units: self.units.saturating_add(other.units),
        }
    }
}

/// The counts of one feature in a tick.
#[derive(Clone, Debug)]
pub(crate) struct MeterTick {
    /// The requests that asked for it, by class.
    pub(crate) offered: [u64; Class::ALL.len()],
    /// The same by cohort; `None` where cohorts have no levels of their own.
    pub(crate) cohorts: Option<Box<[u64; COHORTS as usize]>>,
    pub(crate) levels: Vec<LevelTick>,
}

impl FeatureMeter {
    pub(crate) fn new(config: &FeatureConfig, in_flight: Arc<FeatureInFlight>) -> Self {
        let has_cohorts = config.scope == FeatureScope::Tenant;
        Self {
            offered: OfferedCounts::default(),
            cohorts: has_cohorts.then(|| Box::new(core::array::from_fn(|_| AtomicU64::new(0)))),
            in_flight,
            levels: (0..config.levels.len().max(1)).map(|_| LevelCounts::default()).collect(),
        }
    }

    // Relaxed, all of them: sums for the next tick, ordered with nothing.

    #[inline]
    pub(crate) fn offer(&self, level: RequestLevel) {
        self.offered.0[level.class() as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(cohorts) = &self.cohorts {
            cohorts[usize::from(level.cohort())].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts the end of work at a level.
    pub(crate) fn end(&self, level: u8, place_time: Duration) {
        let Some(counts) = self.levels.get(usize::from(level)) else { return };
        let micros = u64::try_from(place_time.as_micros()).unwrap_or(u64::MAX).min(TIME_MAX_US);
        counts.ended.fetch_add(1, Ordering::Relaxed);
        counts.held_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts the units of a request that was admitted at a level.
    pub(crate) fn price(&self, level: u8, units: u64) {
        let Some(counts) = self.levels.get(usize::from(level)) else { return };
        counts.priced.fetch_add(1, Ordering::Relaxed);
        counts.units.fetch_add(units.min(UNITS_MAX), Ordering::Relaxed);
    }

    /// The counts since the last call.
    pub(crate) fn take(&self) -> MeterTick {
        // Of hundreds of features most are idle at any instant, and reading takes nothing from
        // other cores.
        let take = |sum: &AtomicU64| match sum.load(Ordering::Relaxed) {
            0 => 0,
            _ => sum.swap(0, Ordering::Relaxed),
        };
        MeterTick {
            offered: self.offered.0.each_ref().map(take),
            cohorts: self.cohorts.as_ref().map(|cohorts| Box::new(cohorts.each_ref().map(take))),
            levels: self
                .levels
                .iter()
                .map(|level| LevelTick {
                    ended: take(&level.ended),
                    held_us: take(&level.held_us),
                    priced: take(&level.priced),
                    units: take(&level.units),
                })
                .collect(),
        }
    }
}
