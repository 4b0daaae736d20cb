//! The load of a resource over the last settle time, which decides whether a better level fits.
//!
//! A level fits if the mean of each fifth of the settle time leaves room for it below the threshold
//! and its margin, and no tick of the whole time was so high that the threshold would have been
//! passed. A rule for each single tick would never hold in noise of a few percent, and a rule for
//! the mean of the whole time would hold half a settle time too early while the load falls.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::tick::TICK;

/// A settle time is kept in so many buckets, of a tick at least.
const BUCKETS: usize = 50;
/// The parts of which each has a mean of its own.
const PARTS: usize = 5;

/// The load of some ticks.
#[derive(Clone, Copy, Debug, Default)]
struct LoadBucket {
    sum: f64,
    ticks: u32,
    max: f64,
}

/// The load over the last settle time.
#[derive(Clone, Debug)]
pub(crate) struct SettleWindow {
    buckets: [LoadBucket; BUCKETS],
    /// The number of the bucket of the last tick; `None`: no tick since the window began anew.
    last: Option<u64>,
    /// Since when there is a tick in each bucket.
    since: Timestamp,
}

impl Default for SettleWindow {
    fn default() -> Self {
        Self { buckets: [LoadBucket::default(); BUCKETS], last: None, since: Timestamp::MIN }
    }
}

/// The time of a bucket, and how many of them a settle time has.
fn division(settle: Duration) -> (u64, usize) {
    let ticks = settle.as_nanos().div_ceil(TICK.as_nanos()).max(1) as u64;
    let buckets = ticks.min(BUCKETS as u64);
    ((settle.as_nanos() as u64).div_ceil(buckets).max(1), buckets as usize)
}

impl SettleWindow {
    /// Begins anew at the next tick.
    pub(crate) fn restart(&mut self) {
        *self = Self::default();
    }

    /// Takes in the load of a tick.
    pub(crate) fn observe(&mut self, load: f64, settle: Duration, now: Timestamp) {
        let (span, count) = division(settle);
        let number = now.as_nanos() / span;
        match self.last {
            Some(last) if last <= number && number - last <= count as u64 => {
                for skipped in last + 1..=number {
                    self.buckets[(skipped % count as u64) as usize] = LoadBucket::default();
                }
            }
            _ => {
                self.restart();
                self.since = now;
            }
        }
        self.last = Some(number);
        let bucket = &mut self.buckets[(number % count as u64) as usize];
        bucket.max = if bucket.ticks == 0 { load } else { bucket.max.max(load) };
        bucket.sum += load;
        bucket.ticks += 1;
    }

    /// Since when it has loads without a gap.
    pub(crate) fn since(&self, now: Timestamp) -> Timestamp {
        if self.last.is_some() { self.since } else { now }
    }

    /// The mean load of the whole settle time; `None`: the time is not over.
    pub(crate) fn mean(&self, settle: Duration, now: Timestamp) -> Option<f64> {
        if self.last.is_none() || now.saturating_since(self.since) < settle {
            return None;
        }
        let (sum, ticks) =
            self.buckets.iter().fold((0.0, 0), |(sum, ticks), one| (sum + one.sum, ticks + one.ticks));
        Some(sum / f64::from(ticks.max(1)))
    }

    /// The most that may be added to the load of the whole settle time: so that each fifth of it
    /// has a mean of at most `mean_max`, and no tick is above `max`. `None`: the time is not over.
    pub(crate) fn room(&self, settle: Duration, mean_max: f64, max: f64, now: Timestamp) -> Option<f64> {
        let last = self.last?;
        if now.saturating_since(self.since) < settle {
            return None;
        }
        let (_, count) = division(settle);
        let part = count.div_ceil(PARTS);
        let mut room = f64::INFINITY;
        for first in (0..count).step_by(part) {
            let ages = first..(first + part).min(count);
            let buckets = ages.map(|age| {
                let number = last.saturating_sub(age as u64);
                &self.buckets[(number % count as u64) as usize]
            });
            let (mut sum, mut ticks) = (0.0, 0);
            for bucket in buckets.filter(|bucket| bucket.ticks > 0) {
                (sum, ticks) = (sum + bucket.sum, ticks + bucket.ticks);
                room = room.min(max - bucket.max);
            }
            if ticks > 0 {
                room = room.min(mean_max - sum / f64::from(ticks));
            }
        }
        Some(room)
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const SETTLE: Duration = Duration::from_secs(5);

    fn run(loads: impl IntoIterator<Item = f64>, settle: Duration) -> Option<f64> {
        let (mut window, mut now) = (SettleWindow::default(), Timestamp::from_secs(1_800_000_000));
        for load in loads {
            now = now.saturating_add(TICK);
            window.observe(load, settle, now);
        }
        window.room(settle, 0.8, 0.9, now)
    }

    #[test]
    fn there_is_room_after_a_whole_settle_time_and_not_a_tick_before() {
        assert_eq!(run([0.5; 50], SETTLE), None);
        let room = run([0.5; 51], SETTLE).unwrap();
        assert!((room - 0.3).abs() < 1e-9, "{room}");
    }

    #[test]
    fn the_worst_fifth_and_the_worst_tick_bound_the_room() {
        let mut loads = [0.5; 60];
        loads[20] = 0.65;
        let room = run(loads, SETTLE).unwrap();
        assert!((room - 0.25).abs() < 1e-9, "one tick of 0.65 leaves 0.25 below 0.9: {room}");
        let mut loads = [0.5; 60];
        loads[10..20].fill(0.6);
        let room = run(loads, SETTLE).unwrap();
        assert!((room - 0.2).abs() < 1e-9, "a fifth of 0.6 leaves 0.2: {room}");
        loads[5] = 5.0;
        assert!(run(loads, SETTLE).unwrap() > 0.19, "what is older does not count");
    }

    #[test]
    fn the_shortest_settle_time_is_a_tick_and_the_longest_an_hour() {
        assert!(run([0.5, 0.5], TICK).is_some());
        let hour = Duration::from_hours(1);
        assert_eq!(run((0..36_000).map(|_| 0.5), hour), None);
        let room = run((0..36_010).map(|_| 0.5), hour).unwrap();
        assert!((room - 0.3).abs() < 1e-6, "{room}");
    }

    #[test]
    fn a_gap_and_a_clock_that_steps_back_begin_anew() {
        let mut window = SettleWindow::default();
        let mut now = Timestamp::from_secs(1_800_000_000);
        for step in [TICK; 60] {
            now = now.saturating_add(step);
            window.observe(0.5, SETTLE, now);
        }
        now = now.saturating_add(Duration::from_secs(30));
        window.observe(0.5, SETTLE, now);
        assert_eq!((window.room(SETTLE, 0.8, 0.9, now), window.since(now)), (None, now));
        now = now.saturating_sub(Duration::from_hours(1));
        window.observe(0.5, SETTLE, now);
        assert_eq!(window.room(SETTLE, 0.8, 0.9, now), None);
    }
}
