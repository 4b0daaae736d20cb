//! For how long the requests of each class of a namespace have kept their places of late.

use crate::cursor::fair_demand::ClassDemand;
use crate::cursor::namespace_slots::NamespaceTick;

/// The part that a tick leaves of what was before it: a time constant of 3 s.
const KEPT: f64 = 0.97;

/// The requests whose work has ended, and the microseconds for which they kept their places,
/// fading.
///
/// Default: none has ended.
#[derive(Debug, Default)]
pub(crate) struct HeldTimes {
    ended: ClassDemand,
    held_us: ClassDemand,
}

impl HeldTimes {
    /// Lets what was before fade by one tick.
    pub(crate) fn fade(&mut self) {
        [&mut self.ended, &mut self.held_us].into_iter().flatten().for_each(|sum| *sum *= KEPT);
    }

    /// Adds those that have ended in a tick.
    pub(crate) fn add(&mut self, tick: &NamespaceTick) {
        for class in 0..self.ended.len() {
            self.ended[class] += tick.ended[class] as f64;
            self.held_us[class] += tick.held_us[class] as f64;
        }
    }

    /// The number of those of all classes, and for how many microseconds they kept their places
    /// together.
    pub(crate) fn all(&self) -> (f64, f64) {
        (self.ended.iter().sum(), self.held_us.iter().sum())
    }

    /// The average time of a class in microseconds, or the average over all classes where fewer
    /// than `ended_min` of it have ended; `None` where fewer of all have as well.
    pub(crate) fn average_us(&self, class: usize, ended_min: f64) -> Option<f64> {
        let known = [(self.ended[class], self.held_us[class]), self.all()];
        let known = known.into_iter().find(|(ended, _)| *ended >= ended_min);
        known.map(|(ended, held_us)| held_us / ended)
    }
}
