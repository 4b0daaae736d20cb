//! The capacity that a resource has shown: how many requests a second it serves when all of its
//! places are in use.

use core::time::Duration;
use std::collections::VecDeque;

use crate::cursor::namespace_slots::NamespaceTick;
use crate::tick::TICK;

/// The ticks whose work counts: a second.
const TICKS: usize = 10;
/// Each tick without an end of work, while places are in use, takes the capacity for less by this
/// factor: it is halved in a second.
const FADE: f64 = 0.933;

/// After a start or a rest, the ticks until the capacity is steady.
const FRESH_TICKS: usize = 3;

/// The work of the last second.
///
/// The requests that were served, divided by the part of the places in use, are by Little's law the
/// number of places divided by the mean time for which a request keeps one.
///
/// In the first second after a start or a rest the short requests end first, and their mean is too
/// short. Two other numbers are rather too low then, and the larger one counts:
///
/// * The ended ones by the time since the start.
/// * The places by the time of the ended ones, divided by how many more of them there are than of
///   those in flight, which have kept their places for about the mean time too.
///
/// A count is uncertain by its root. Half of the root is left out, since a second that is sold too
/// full stays so, and all of it before the first tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownCapacity {
    /// The requests that ended in each of the last ticks, and the microseconds for which they kept
    /// their places.
    ends: VecDeque<(u64, u64)>,
    /// The requests a second that the last work showed; `None`: no work has ended yet.
    known: Option<f64>,
    /// The same since the last tick, before the first tick at which work has ended.
    first: Option<f64>,
    /// The ticks since a start or a rest, up to [`TICKS`].
    age: usize,
}

impl ShownCapacity {
    /// Takes in a tick of these places. `typical` is the time of work whose end is not reported, in
    /// seconds; 0: not known.
    pub(crate) fn tick(&mut self, ticks: &[NamespaceTick], use_of: ShownUse, typical: f64) {
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
        if ended == 0 && use_of.in_flight == 0 {
            self.age = 0;
        } else {
            self.age = (self.age + 1).min(TICKS);
        }
        if ended > 0 {
            let seconds = self.age_seconds();
            let is_young = self.age < TICKS;
            self.known = Some(if is_young {
                use_of.young((ended, held), seconds, 0.5)
            } else {
                use_of.settled(ended, held)
            });
        } else if typical > 0.0 {
            self.known = Some(use_of.served_in(typical));
        } else if use_of.in_use > 0.5 {
            self.known = self.known.map(|known| known * FADE);
        }
    }

    /// The time since the last start or rest, at most a second.
    #[expect(clippy::cast_precision_loss, reason = "at most ten ticks")]
    fn age_seconds(&self) -> f64 {
        self.age as f64 * TICK.as_secs_f64()
    }

    /// Whether work has ended before the last tick.
    pub(crate) const fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Takes in the work that has ended since the last tick, while none had ended before: a service
    /// that starts under load is not known before its first tick otherwise.
    pub(crate) fn begin(&mut self, ended: (u64, u64), use_of: ShownUse, since_tick: Duration) {
        let shown = use_of.young(ended, self.age_seconds() + since_tick.as_secs_f64(), 1.0);
        self.first = (shown > 0.0).then_some(shown);
    }

    /// Whether the work of the last start is too young for its numbers to be steady.
    pub(crate) const fn is_fresh(&self) -> bool {
        self.age <= FRESH_TICKS
    }

    /// The requests a second that all of so many places serve. Before any work has ended each place
    /// is taken to serve one a second.
    #[expect(clippy::cast_precision_loss, reason = "at most a million places")]
    pub(crate) fn get(&self, places: u64) -> f64 {
        self.known.or(self.first).unwrap_or(places as f64)
    }
}

/// The places of a resource and their use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownUse {
    /// The places.
    pub(crate) places: u64,
    /// The requests that keep one now.
    pub(crate) in_flight: u64,
    /// The part of the places in use since the last tick.
    pub(crate) in_use: f64,
}

impl ShownUse {
    /// The requests a second that all places serve, each for so many seconds.
    #[expect(clippy::cast_precision_loss, reason = "at most a million places")]
    fn served_in(self, seconds: f64) -> f64 {
        self.places as f64 / seconds.max(1e-6)
    }

    /// The same, of which so many have ended after so many microseconds in all.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second are far below 2^53")]
    fn settled(self, ended: u64, held_us: u64) -> f64 {
        self.served_in(held_us as f64 / ended as f64 / 1e6)
    }

    /// The same where all work has begun within the last `seconds`, with this part of the
    /// uncertainty of the count left out.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second are far below 2^53")]
    fn young(self, (ended, held_us): (u64, u64), seconds: f64, left_out: f64) -> f64 {
        let certain = ended as f64 - left_out * (ended as f64).sqrt();
        let by_rate = certain / seconds.max(1e-3);
        let by_time = self.served_in(held_us as f64 / 1e6) * (certain - self.in_flight as f64);
        by_rate.max(by_time)
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

    /// Ten places, of which a part is in use.
    fn ten(in_use: f64) -> ShownUse {
        ShownUse { places: 10, in_flight: if in_use > 0.0 { 10 } else { 0 }, in_use }
    }

    #[test]
    fn half_of_the_places_show_the_capacity_of_all() {
        let mut shown = ShownCapacity::default();
        assert!((shown.get(10) - 10.0).abs() < 1e-9, "one a second for each place");
        // 5 of 10 places serve 50 requests of 100 ms a second.
        for _ in 0..10 {
            shown.tick(&[ended(5, 100)], ten(0.5), 0.0);
        }
        assert!((shown.get(10) - 100.0).abs() < 1e-6, "{}", shown.get(10));
    }

    #[test]
    fn a_service_that_starts_under_load_is_known_before_its_first_tick_and_never_much_too_large() {
        let mut shown = ShownCapacity::default();
        let after = Duration::from_millis;
        // Of ten requests of 10 ms on average the shortest ones end first, after 1 ms.
        shown.begin((0, 0), ten(1.0), after(1));
        assert!((shown.get(10) - 10.0).abs() < 1e-9, "nothing is known");
        shown.begin((4, 4_000), ten(1.0), after(4));
        assert!((400.0..1_000.0).contains(&shown.get(10)), "{}", shown.get(10));
        // 64 of them have ended after 64 ms, which took 540 of 640 ms.
        shown.begin((64, 540_000), ten(1.0), after(64));
        assert!((800.0..1_000.0).contains(&shown.get(10)), "{}", shown.get(10));
        let mut tick = ended(100, 9);
        (tick.ended[0], tick.held_us[0]) = (100, 900_000);
        shown.tick(&[tick], ten(1.0), 0.0);
        assert!((850.0..1_000.0).contains(&shown.get(10)), "{}", shown.get(10));
        assert!(shown.is_fresh() && shown.is_known());
        (0..10).for_each(|_| shown.tick(&[ended(100, 10)], ten(1.0), 0.0));
        assert!((shown.get(10) - 1_000.0).abs() < 1e-6 && !shown.is_fresh(), "{}", shown.get(10));
    }

    #[test]
    fn the_capacity_of_a_second_ago_is_forgotten_and_that_of_work_that_stands_still_fades() {
        let mut shown = ShownCapacity::default();
        shown.tick(&[ended(10, 10)], ten(1.0), 0.0);
        for _ in 0..TICKS {
            shown.tick(&[ended(1, 100)], ten(1.0), 0.0);
        }
        assert!((shown.get(10) - 100.0).abs() < 1e-6, "{}", shown.get(10));
        for _ in 0..2 * TICKS {
            shown.tick(&[], ten(1.0), 0.0);
        }
        assert!((40.0..60.0).contains(&shown.get(10)), "{}", shown.get(10));
        // Nothing is concluded from a time without requests.
        let before = shown.get(10);
        (0..100).for_each(|_| shown.tick(&[], ten(0.0), 0.0));
        assert!((shown.get(10) - before).abs() < 1e-9);
    }

    #[test]
    fn work_whose_end_is_not_reported_counts_by_its_typical_time() {
        let mut shown = ShownCapacity::default();
        shown.tick(&[], ten(1.0), 0.05);
        assert!((shown.get(10) - 200.0).abs() < 1e-6);
    }
}
