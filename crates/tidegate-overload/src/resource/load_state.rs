//! The load level of a resource, and the signals that move it.

use std::collections::BTreeSet;

use tidegate_core::Timestamp;

use super::{Resource, ResourceControl, in_use};
use crate::cursor::cursor_control::TickMeasures;
use crate::levels::level_control::LevelInput;
use crate::levels::load_level::{LevelThresholds, LoadLevel};
use crate::levels::signal::{PushedValue, SignalSource, SignalStats};
use crate::sync::lock;

/// The load of a resource, as signals and ticks see it.
#[derive(Clone, Debug)]
pub(crate) struct LoadState {
    pub(crate) level: LoadLevel,
    pub(crate) transitions: u64,
    pub(crate) pressure: Option<f64>,
    pub(crate) binding: Option<String>,
    pub(crate) signals: Vec<SignalStats>,
}

impl Resource {
    /// Moves the load level by the signals.
    pub(super) fn tick_level(
        &self,
        control: &mut ResourceControl,
        measures: &TickMeasures<'_>,
        now: Timestamp,
    ) {
        control.signals.measure(SignalSource::InFlight, in_use(measures), now);
        if let Some(queue) = measures.queue {
            control.signals.measure(SignalSource::QueueDelay, queue.delay.as_secs_f64() * 1e3, now);
        }
        for (slower_than, part) in self.slow_answers.take() {
            control.signals.measure(SignalSource::SlowAnswers { slower_than }, part, now);
        }
        control.pressure = control.signals.tick(now);
        let input = LevelInput {
            pressure: control.pressure.map(|(pressure, _)| pressure),
            is_queue_over: measures.queue.is_some_and(|queue| queue.is_overloaded()),
            is_cursor_closed: control.cursor.is_at_end(now),
        };
        control.levels.tick(input, now);
        self.set_places(control, self.in_flight.max());
    }

    /// Takes in a pushed value that was checked; whether the resource has such a signal.
    pub(crate) fn push_signal(&self, name: &str, pushed: PushedValue, now: Timestamp) -> bool {
        lock(&self.control).signals.push(name, pushed, now)
    }

    /// The source of a signal; `None` if the resource has none of this name.
    pub(crate) fn signal_source(&self, name: &str) -> Option<SignalSource> {
        lock(&self.control).signals.source(name)
    }

    /// Adds the names of the pushed signals.
    pub(crate) fn pushed_names(&self, names: &mut BTreeSet<String>) {
        names.extend(lock(&self.control).signals.pushed_names().map(str::to_owned));
    }

    /// The load level of a resource.
    pub fn level(&self) -> LoadLevel {
        lock(&self.control).levels.level()
    }

    /// When its load levels are entered and left.
    pub fn level_thresholds(&self) -> LevelThresholds {
        *lock(&self.control).levels.thresholds()
    }

    /// The worst smoothed pressure of the last tick; `None` while no signal is fresh.
    pub fn pressure(&self) -> Option<f64> {
        lock(&self.control).pressure.map(|(pressure, _)| pressure)
    }

    pub(crate) fn load(&self, now: Timestamp) -> LoadState {
        let control = lock(&self.control);
        LoadState {
            level: control.levels.level(),
            transitions: control.levels.transitions(),
            pressure: control.pressure.map(|(pressure, _)| pressure),
            binding: control.pressure.and_then(|(_, index)| control.signals.name(index)).map(str::to_owned),
            signals: control.signals.stats(now),
        }
    }
}
