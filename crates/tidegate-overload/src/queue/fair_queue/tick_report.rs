//! The report of a fair queue to the control loops, tick by tick.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::queue_tick::QueueTick;
use super::{FairQueue, TickState};
use crate::namespaces::NamespaceKey;

impl FairQueue {
    /// Reports the time since the last tick, and begins the next one.
    pub fn tick(&mut self, now: Timestamp) -> QueueTick {
        self.times.forget(now);
        let tick = core::mem::replace(&mut self.tick, TickState::new(self.requests.is_empty()));
        let mut observation = QueueTick {
            was_empty: tick.was_empty,
            cost_served: tick.cost_served,
            departures: tick.departures,
            shed: tick.shed,
            ..QueueTick::default()
        };
        for class in Class::ALL {
            let (number, target) = (class as usize, self.delay_target(class, now));
            self.counts[number].delay = Duration::ZERO;
            let mut delays = core::mem::take(&mut self.delays[number]);
            for (namespace, state) in &mut delays {
                if let Some(target) = target.filter(|_| !state.was_empty) {
                    let delay = state.delay_min.or_else(|| self.oldest_wait(class, *namespace, now));
                    let delay = delay.unwrap_or_default();
                    self.counts[number].delay = self.counts[number].delay.max(delay);
                    observation.delay = observation.delay.max(delay);
                    let ratio = delay.as_secs_f64() / target.as_secs_f64();
                    if ratio > 1.0 {
                        state.stood_at = Some(now);
                    }
                    if ratio > observation.delay_ratio {
                        (observation.delay_ratio, observation.slowest) = (ratio, Some(class));
                    }
                }
                state.begin_tick();
            }
            delays.retain(|_, state| !state.is_over(now));
            self.delays[number] = delays;
        }
        observation
    }

    /// How long the request of a namespace that is next has waited already: its delay where no
    /// request had its turn.
    fn oldest_wait(&self, class: Class, namespace: NamespaceKey, now: Timestamp) -> Option<Duration> {
        let (.., queue) = self.classes[class as usize].ready().find(|(key, ..)| *key == namespace)?;
        let oldest = self.requests.get(queue.oldest()?)?;
        Some(now.saturating_since(oldest.since))
    }
}
