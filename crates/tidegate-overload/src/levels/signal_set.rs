//! The signals of one resource, of which the worst is its pressure.

use core::time::Duration;
use std::collections::BTreeSet;

use tidegate_core::Timestamp;

use crate::levels::signal::{PushedValue, SignalConfig, SignalSource, SignalState, SignalStats};

/// The name of the signal that every resource has.
pub(crate) const IN_FLIGHT: &str = "in_flight";

/// The signals of one resource, in the order of their names.
#[derive(Debug)]
pub(crate) struct SignalSet {
    states: Vec<SignalState>,
}

impl SignalSet {
    /// These signals, and one of the places in use unless they have one.
    pub(crate) fn new(configs: impl IntoIterator<Item = SignalConfig>) -> Self {
        let mut configs: Vec<_> = configs.into_iter().collect();
        if configs.iter().all(|config| config.source != SignalSource::InFlight) {
            configs.push(SignalConfig::new(IN_FLIGHT, SignalSource::InFlight));
        }
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        Self { states: configs.into_iter().map(SignalState::new).collect() }
    }

    /// Goes on with other settings. A signal whose settings are the same keeps its state.
    pub(crate) fn reconfigure(&mut self, configs: impl IntoIterator<Item = SignalConfig>) {
        let earlier = core::mem::take(&mut self.states);
        *self = Self::new(configs);
        for old in earlier {
            if let Some(new) = self.states.iter_mut().find(|state| state.config() == old.config()) {
                *new = old;
            }
        }
    }

    /// The names of the signals that are pushed.
    pub(crate) fn pushed_names(&self) -> impl Iterator<Item = &str> {
        let pushed = self.states.iter().filter(|state| state.config().source == SignalSource::Pushed);
        pushed.map(|state| state.config().name.as_str())
    }

    /// The thresholds of the signals of slow answers, each once.
    pub(crate) fn slow_thresholds(&self) -> impl Iterator<Item = Duration> {
        let all = self.states.iter().filter_map(|state| match state.config().source {
            SignalSource::SlowAnswers { slower_than } => Some(slower_than),
            _ => None,
        });
        all.collect::<BTreeSet<_>>().into_iter()
    }

    /// The source of a signal; `None` if no signal has this name.
    pub(crate) fn source(&self, name: &str) -> Option<SignalSource> {
        let found = self.states.iter().find(|state| state.config().name == name);
        found.map(|state| state.config().source)
    }

    /// Takes in a pushed value that was checked; whether there is such a signal.
    pub(crate) fn push(&mut self, name: &str, pushed: PushedValue, now: Timestamp) -> bool {
        let found = self
            .states
            .iter_mut()
            .find(|state| state.config().name == name && state.config().source == SignalSource::Pushed);
        found.map(|state| state.push(pushed, now)).is_some()
    }

    /// Takes in what the resource measured of itself in a tick.
    pub(crate) fn measure(&mut self, source: SignalSource, value: f64, now: Timestamp) {
        for state in self.states.iter_mut().filter(|state| state.config().source == source) {
            state.push(PushedValue::new(value), now);
        }
    }

    /// The worst smoothed pressure after a tick, and the position of its signal; `None` if no
    /// signal is fresh.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Option<(f64, usize)> {
        let pressures = self.states.iter_mut().enumerate();
        let fresh = pressures.filter_map(|(index, state)| Some((state.tick(now)?, index)));
        fresh.reduce(|worst, next| if next.0 > worst.0 { next } else { worst })
    }

    /// The name, the source and the last pressure, not smoothed, of the signal at a position.
    pub(crate) fn last(&self, index: usize) -> Option<(&str, SignalSource, f64)> {
        let state = self.states.get(index)?;
        Some((&state.config().name, state.config().source, state.last_pressure()?))
    }

    /// The worst last pressure of the pushed signals; `None` if none is fresh.
    pub(crate) fn worst_pushed(&self) -> Option<f64> {
        let pushed = self.states.iter().filter(|state| state.config().source == SignalSource::Pushed);
        pushed.filter(|state| !state.is_lost()).filter_map(SignalState::last_pressure).reduce(f64::max)
    }

    /// The pushed signals that had a value once, and none that counted at the last tick. A signal
    /// that is measured here has no value while there is no work, which is no loss.
    pub(crate) fn stale_pushed(&self) -> impl Iterator<Item = &str> {
        let pushed = self.states.iter().filter(|state| state.config().source == SignalSource::Pushed);
        pushed.filter(|state| state.is_lost()).map(|state| state.config().name.as_str())
    }

    /// The name of the signal at a position.
    pub(crate) fn name(&self, index: usize) -> Option<&str> {
        self.states.get(index).map(|state| state.config().name.as_str())
    }

    pub(crate) fn stats(&self, now: Timestamp) -> Vec<SignalStats> {
        self.states.iter().map(|state| state.stats(now)).collect()
    }
}
