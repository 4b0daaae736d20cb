//! The capacity that a resource has shown: how many requests a second it serves when all of its
//! places are in use.

use std::collections::VecDeque;

use crate::cursor::namespace_slots::NamespaceTick;

/// The ticks whose work counts: a second.
const TICKS: usize = 10;
/// Each tick without an end of work, while places are in use, takes the capacity for less by this
/// factor: it is halved in a second.
const FADE: f64 = 0.933;

/// The work of the last second.
///
/// The requests that were served, divided by the part of the places in use, are by Little's law the
/// number of places divided by the mean time for which a request keeps one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownCapacity {
    /// The requests that ended in each of the last ticks, and the microseconds for which they kept
    /// their places.
    ends: VecDeque<(u64, u64)>,
    /// The requests a second that the last work showed; `None`: no work has ended yet.
    known: Option<f64>,
}

impl ShownCapacity {
    /// Takes in a tick with so many places, of which a part was in use. `typical` is the time of
    /// work whose end is not reported, in seconds; 0: not known.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second are far below 2^53")]
    pub(crate) fn tick(&mut self, ticks: &[NamespaceTick], places: u64, in_use: f64, typical: f64) {
        let sum = |of: fn(&NamespaceTick) -> u64| ticks.iter().map(of).fold(0, u64::saturating_add);
        let (ended, held) = (sum(|tick| tick.ended.iter().sum()), sum(|tick| tick.held_us.iter().sum()));
        if self.ends.len() == TICKS {
            self.ends.pop_front();
        }
        self.ends.push_back((ended, held));
        let (ended, held) = self
            .ends
            .iter()
            .fold((0_u64, 0_u64), |(ended, held), one| (ended + one.0, held.saturating_add(one.1)));
        let places = places as f64;
        if ended > 0 {
            let mean = (held as f64 / ended as f64 / 1e6).max(1e-6);
            self.known = Some(places / mean);
        } else if typical > 0.0 {
            self.known = Some(places / typical);
        } else if in_use > 0.5 {
            self.known = self.known.map(|known| known * FADE);
        }
    }

    /// The requests a second that all of so many places serve. Before any work has ended each place
    /// is taken to serve one a second.
    #[expect(clippy::cast_precision_loss, reason = "at most a million places")]
    pub(crate) fn get(&self, places: u64) -> f64 {
        self.known.unwrap_or(places as f64)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::namespaces::NamespaceKey;

    fn ended(count: u64, held_ms: u64) -> NamespaceTick {
        let mut tick = NamespaceTick::idle(0, NamespaceKey::Exact(1));
        (tick.ended[0], tick.held_us[0]) = (count, count * held_ms * 1000);
        tick
    }

    #[test]
    fn half_of_the_places_show_the_capacity_of_all() {
        let mut shown = ShownCapacity::default();
        assert!((shown.get(10) - 10.0).abs() < 1e-9, "one a second for each place");
        // 5 of 10 places serve 50 requests of 100 ms a second.
        for _ in 0..10 {
            shown.tick(&[ended(5, 100)], 10, 0.5, 0.0);
        }
        assert!((shown.get(10) - 100.0).abs() < 1e-6, "{}", shown.get(10));
    }

    #[test]
    fn the_capacity_of_a_second_ago_is_forgotten_and_that_of_work_that_stands_still_fades() {
        let mut shown = ShownCapacity::default();
        shown.tick(&[ended(10, 10)], 10, 1.0, 0.0);
        for _ in 0..TICKS {
            shown.tick(&[ended(1, 100)], 10, 1.0, 0.0);
        }
        assert!((shown.get(10) - 100.0).abs() < 1e-6, "{}", shown.get(10));
        for _ in 0..2 * TICKS {
            shown.tick(&[], 10, 1.0, 0.0);
        }
        assert!((40.0..60.0).contains(&shown.get(10)), "{}", shown.get(10));
        // Nothing is concluded from a time without requests.
        let before = shown.get(10);
        (0..100).for_each(|_| shown.tick(&[], 10, 0.0, 0.0));
        assert!((shown.get(10) - before).abs() < 1e-9);
    }

    #[test]
    fn work_whose_end_is_not_reported_counts_by_its_typical_time() {
        let mut shown = ShownCapacity::default();
        shown.tick(&[], 10, 1.0, 0.05);
        assert!((shown.get(10) - 200.0).abs() < 1e-6);
    }
}
