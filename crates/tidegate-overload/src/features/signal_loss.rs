//! Pushed signals that have gone stale: while one is, no feature of the resource gets a better
//! level, for a minute; then the signals that are left decide.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::Timestamp;

use crate::features::clock_step::ClockStep;

/// Levels are held for so long without a signal.
pub(crate) const SIGNAL_HELD: Duration = Duration::from_mins(1);

/// The stale signals of one resource.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignalLoss(BTreeMap<String, StaleSignal>);

#[derive(Clone, Debug)]
struct StaleSignal {
    since: Timestamp,
    is_lost: bool,
}

impl SignalLoss {
    /// Takes in the signals that are stale at `now`. Those that are lost from now on.
    pub(crate) fn observe(&mut self, stale: &[String], now: Timestamp) -> Vec<String> {
        self.0.retain(|name, _| stale.contains(name));
        for name in stale {
            let fresh = StaleSignal { since: now, is_lost: false };
            self.0.entry(name.clone()).or_insert(fresh);
        }
        let over = |signal: &StaleSignal| now.saturating_since(signal.since) >= SIGNAL_HELD;
        let newly = self.0.iter_mut().filter(|(_, signal)| !signal.is_lost && over(signal));
        newly
            .map(|(name, signal)| {
                signal.is_lost = true;
                name.clone()
            })
            .collect()
    }

    /// The signal for which better levels wait.
    pub(crate) fn held_by(&self) -> Option<&str> {
        self.0.iter().find(|(_, signal)| !signal.is_lost).map(|(name, _)| name.as_str())
    }

    pub(crate) fn step(&mut self, step: ClockStep) {
        self.0.values_mut().for_each(|signal| signal.since = step.shifted(signal.since));
    }
}
