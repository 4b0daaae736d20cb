//! Events of features, for logs and webhooks: each is told once.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Class, Timestamp};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// The most events that wait to be taken; further ones are counted and dropped.
pub const FEATURE_EVENTS_MAX: usize = 1024;

/// The cause of a change of level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeatureCause {
    /// The load was above the threshold: the level is worse.
    Pressure,
    /// There was room for the better level for a whole settle time.
    Room,
    /// An operator pinned the level.
    Pin,
    /// The feature has other levels after a reload.
    Reload,
}

impl FeatureCause {
    /// The name in logs: `pressure`, `room`, `pin` or `reload`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pressure => "pressure",
            Self::Room => "room",
            Self::Pin => "pin",
            Self::Reload => "reload",
        }
    }
}

/// A change of the level of a feature.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FeatureChange {
    /// The feature.
    pub feature: Arc<str>,
    /// The resource; `None`: the default resource.
    pub resource: Option<Arc<str>>,
    /// The class whose requests changed; `None`: all of them.
    pub class: Option<Class>,
    /// The name of the worst level before.
    pub from: Arc<str>,
    /// The name of the worst level after.
    pub to: Arc<str>,
    /// The cohorts of tenants, of [`COHORTS`](crate::COHORTS), that have the level `to` while the
    /// others have the one before it; 0: all have it, as always but for a scope of tenants.
    pub moved: u16,
    /// When.
    pub at: Timestamp,
    /// The cause.
    pub cause: FeatureCause,
    /// The load at the time: the worst smoothed pressure or the demand by the capacity; `None`: no
    /// signal was fresh.
    pub pressure: Option<f64>,
    /// The signal with that pressure, or `demand`.
    pub signal: Option<String>,
    /// Whether the feature only shows its level.
    pub is_shadow: bool,
}

/// An event of a feature.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FeatureEvent {
    /// The level has changed.
    Changed(FeatureChange),
    /// The work in flight when the feature was switched off has ended.
    Released {
        /// The feature.
        feature: Arc<str>,
        /// The time since the switch-off.
        after: Duration,
        /// When.
        at: Timestamp,
    },
    /// A signal has had no value for a minute while features were degraded: the levels follow the
    /// signals that are left from now on.
    SignalLost {
        /// The resource; `None`: the default resource.
        resource: Option<Arc<str>>,
        /// The signal.
        signal: String,
        /// When.
        at: Timestamp,
    },
    /// An operator has pinned the level.
    Pinned {
        /// The feature.
        feature: Arc<str>,
        /// The level.
        level: Arc<str>,
        /// The end of the pin.
        until: Timestamp,
        /// When.
        at: Timestamp,
    },
    /// A pin has ended; the level follows the load again.
    Unpinned {
        /// The feature.
        feature: Arc<str>,
        /// The level that was pinned.
        level: Arc<str>,
        /// Whether its time was over, rather than an operator took it back.
        has_expired: bool,
        /// When.
        at: Timestamp,
    },
}

/// The events that were not taken yet, which planes made of each other share.
#[derive(Debug, Default)]
pub(crate) struct FeatureEventQueue {
    pending: Mutex<PendingEvents>,
    /// Those that happened since the start, dropped ones among them.
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct PendingEvents {
    events: VecDeque<FeatureEvent>,
    dropped: u64,
}

impl FeatureEventQueue {
    pub(crate) fn push(&self, event: FeatureEvent) {
        let mut pending = lock(&self.pending);
        if pending.events.len() < FEATURE_EVENTS_MAX {
            pending.events.push_back(event);
        } else {
            pending.dropped += 1;
        }
        drop(pending);
        // Relaxed: a later sight of it is a later look at the levels, which are words of their own.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The events since the start.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<FeatureEvent> {
        core::mem::take(&mut lock(&self.pending).events).into()
    }

    /// The events that found the queue full since the start.
    pub(crate) fn dropped(&self) -> u64 {
        lock(&self.pending).dropped
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn events_beyond_the_bound_are_counted_and_those_before_it_stay() {
        let queue = FeatureEventQueue::default();
        for second in 0..FEATURE_EVENTS_MAX as u64 + 3 {
            queue.push(FeatureEvent::Released {
                feature: "f".into(),
                after: Duration::from_secs(second),
                at: Timestamp::MIN,
            });
        }
        let events = queue.take();
        assert_eq!((events.len(), queue.dropped()), (FEATURE_EVENTS_MAX, 3));
        assert_eq!(queue.count(), FEATURE_EVENTS_MAX as u64 + 3);
        assert!(matches!(events[0], FeatureEvent::Released { after: Duration::ZERO, .. }));
        assert!(queue.take().is_empty());
    }
}
