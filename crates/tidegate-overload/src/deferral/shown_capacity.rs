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

/// After a start or a rest, so many requests show the capacity well enough for the seconds that are
/// sold by it to keep their room. Of fewer ones the error is more than an eighth.
const FIRST_ENDS: u64 = 64;
/// Of the requests that ended in the first ticks so many are left out, of few ones fewer.
const LEFT_OUT: f64 = 17.0;

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
/// A count is uncertain by its root, and a second that is sold too full stays so. So in the first
/// ticks some of the ended ones are left out: [`LEFT_OUT`] of many, which is one root for 200 and
/// little for a thousand, and nearly all of a few.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShownCapacity {
    /// The requests that ended in each of the last ticks, and the microseconds for which they kept
    /// their places.
    ends: VecDeque<(u64, u64)>,
    /// The requests a second that the last work showed; `None`: no work has ended yet.
    known: Option<f64>,
    /// The ticks since a start or a rest, up to [`TICKS`].
    age: usize,
    /// The requests of which `known` is taken, at most those of a second.
    counted: u64,
    /// For how long places were in use, in seconds, while no work had ended.
    without_end: f64,
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
        let (ended, held) = self.last_ends();
        if ended == 0 && use_of.in_flight == 0 {
            self.age = 0;
        } else {
            self.age = (self.age + 1).min(TICKS);
        }
        self.counted = ended;
        if ended > 0 {
            self.known = Some(if self.age < TICKS {
                use_of.young(ended, held, self.age_seconds(), self.left_out(ended))
            } else {
                use_of.settled(ended, held)
            });
        } else if typical > 0.0 {
            self.known = Some(use_of.served_in(typical));
        } else if use_of.in_use > 0.5 {
            self.known = self.known.map(|known| known * FADE);
        }
    }

    /// The requests that ended in the last ticks, and for how long they kept their places.
    fn last_ends(&self) -> (u64, u64) {
        let add = |(ended, held): (u64, u64), one: &(u64, u64)| (ended + one.0, held.saturating_add(one.1));
        self.ends.iter().fold((0, 0), add)
    }

    /// The time since the last start or rest, at most a second.
    #[expect(clippy::cast_precision_loss, reason = "at most ten ticks")]
    fn age_seconds(&self) -> f64 {
        self.age as f64 * TICK.as_secs_f64()
    }

    /// How many of the ended requests are left out while they are young.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second are far below 2^53")]
    fn left_out(&self, ended: u64) -> f64 {
        let ended = ended as f64;
        if self.age <= FRESH_TICKS { LEFT_OUT * ended / (LEFT_OUT + ended) } else { 0.0 }
    }

    /// Whether the work before the last tick shows the capacity of a start too roughly, so that the
    /// work since then counts as well, by [`ShownCapacity::begin`]. After a rest that is so from
    /// the first tick on; the capacity of before holds until then.
    pub(crate) fn is_first(&self) -> bool {
        let is_of_before = self.age == 0 && self.counted == 0 && self.known.is_some();
        self.age <= FRESH_TICKS && self.last_ends().0 < FIRST_ENDS && !is_of_before
    }

    /// Whether the capacity is taken of [`FIRST_ENDS`] requests of a start, and still rises as the
    /// work of the start gets older.
    pub(crate) const fn is_rising(&self) -> bool {
        self.age < TICKS && self.counted >= FIRST_ENDS
    }

    /// Takes in the requests that have ended since the last tick, and for how long they kept their
    /// places.
    pub(crate) fn begin(&mut self, since: (u64, u64), use_of: ShownUse, since_tick: Duration) {
        let (ended, held) = self.last_ends();
        let (ended, held) = (ended + since.0, held.saturating_add(since.1));
        let seconds = self.age_seconds() + since_tick.as_secs_f64();
        if ended > 0 {
            self.known = Some(use_of.young(ended, held, seconds, self.left_out(ended)));
            self.counted = ended;
        } else {
            self.without_end = seconds;
        }
    }

    /// Whether work has ended since the start.
    pub(crate) const fn has_ended(&self) -> bool {
        self.known.is_some()
    }

    /// The requests a second that all of so many places serve. Before any work has ended each place
    /// is taken to serve one in the time for which none has ended, at least 100 ms and at most a
    /// second.
    #[expect(clippy::cast_precision_loss, reason = "at most a million places")]
    pub(crate) fn get(&self, places: u64) -> f64 {
        self.known.unwrap_or(places as f64 / self.without_end.clamp(0.1, 1.0))
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

    /// The same where all work has begun within the last `seconds`, with so many of the ended ones
    /// left out.
    #[expect(clippy::cast_precision_loss, reason = "counts of a second are far below 2^53")]
    fn young(self, ended: u64, held_us: u64, seconds: f64, left_out: f64) -> f64 {
        let certain = ended as f64 - left_out;
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
        assert!((shown.get(10) - 100.0).abs() < 1e-9, "one in 100 ms for each place");
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
        // The longer none has ended, the longer they take: 100 ms each, 500 ms, and a second.
        for (millis, capacity) in [(1, 100.0), (500, 20.0), (3_000, 10.0), (1, 100.0)] {
            shown.begin((0, 0), ten(1.0), after(millis));
            assert!((shown.get(10) - capacity).abs() < 1e-9 && !shown.has_ended(), "{}", shown.get(10));
        }
        shown.begin((4, 4_000), ten(1.0), after(4));
        assert!((100.0..1_000.0).contains(&shown.get(10)), "{}", shown.get(10));
        assert!(shown.is_first() && !shown.is_rising());
        // 64 of them have ended after 64 ms, which took 540 of 640 ms.
        shown.begin((64, 540_000), ten(1.0), after(64));
        assert!((750.0..900.0).contains(&shown.get(10)), "{}", shown.get(10));
        assert!(shown.is_first() && shown.is_rising());
        let mut tick = ended(100, 9);
        (tick.ended[0], tick.held_us[0]) = (100, 900_000);
        shown.tick(&[tick], ten(1.0), 0.0);
        assert!((800.0..950.0).contains(&shown.get(10)), "{}", shown.get(10));
        assert!(!shown.is_first() && shown.is_rising());
        (0..10).for_each(|_| shown.tick(&[ended(100, 10)], ten(1.0), 0.0));
        assert!((shown.get(10) - 1_000.0).abs() < 1e-6 && !shown.is_rising(), "{}", shown.get(10));
    }

    #[test]
    fn a_start_just_before_a_tick_is_known_from_the_work_after_it_too_and_a_rest_changes_nothing_at_once() {
        let mut shown = ShownCapacity::default();
        shown.tick(&[ended(3, 2)], ten(1.0), 0.0);
        assert!(shown.get(10) < 100.0 && shown.is_first(), "{}", shown.get(10));
        shown.begin((60, 500_000), ten(1.0), Duration::from_millis(60));
        assert!((600.0..1_000.0).contains(&shown.get(10)), "{}", shown.get(10));
        (0..12).for_each(|_| shown.tick(&[ended(100, 10)], ten(1.0), 0.0));
        (0..12).for_each(|_| shown.tick(&[], ten(0.0), 0.0));
        assert!(!shown.is_first() && (shown.get(10) - 1_000.0).abs() < 1e-6, "{}", shown.get(10));
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
