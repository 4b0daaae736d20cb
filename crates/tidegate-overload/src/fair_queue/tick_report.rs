//! The report of a fair queue to the control loops, tick by tick.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::queue_tick::QueueTick;
use super::{FairQueue, TickState};

impl FairQueue {
    /// Reports the time since the last tick, and begins the next one.
    pub fn tick(&mut self, now: Timestamp) -> QueueTick {
        let is_empty = Class::ALL.map(|class| self.classes[class as usize].is_empty());
        let tick = core::mem::replace(&mut self.tick, TickState::new(is_empty, self.requests.is_empty()));
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
            let Some(target) = target.filter(|_| !tick.class_was_empty[number]) else { continue };
            // Where none had its turn, the one that is next has waited this long already.
            let oldest = || {
                let oldest = self.requests.get(self.classes[number].oldest()?)?;
                Some(now.saturating_since(oldest.since))
            };
            let delay = tick.delay_min[number].or_else(oldest).unwrap_or_default();
            self.counts[number].delay = delay;
            observation.delay = observation.delay.max(delay);
            let ratio = delay.as_secs_f64() / target.as_secs_f64();
            if ratio > 1.0 {
                self.stood_at[number] = Some(now);
            }
            if ratio > observation.delay_ratio {
                (observation.delay_ratio, observation.slowest) = (ratio, Some(class));
            }
        }
        observation
    }
}
