//! Samples of the keys that a partition is asked for, kept only while it is warm.
//!
//! Two windows of ten seconds follow each other. Each has a weighted sample of positions, whose
//! sorted order is the distribution of the load over the keys, and the heaviest keys by
//! Space-Saving, which gives a lower bound: only that can prove that a single key is too much.
//!
//! Memory: [`SAMPLE_MAX`] positions and [`HEAVY_MAX`] counters a window, within
//! [`sketch_bytes_max`]. A hash and a slot take 8 bytes, a position by ranges 32. When a table of
//! counters is full, the least one gives way.

use core::time::Duration;

use tidegate_core::Timestamp;

use crate::layout::position::{PartitionBy, Position};
use crate::layout::position_list::PositionList;
use crate::units::Units;

/// The length of a window.
pub const WINDOW: Duration = Duration::from_secs(10);
/// The positions in the sample of a window.
pub const SAMPLE_MAX: usize = 1024;
/// The keys that are counted in a window. A key with more than one in so many units is among them.
pub const HEAVY_MAX: usize = 256;

/// The most bytes of heap that a sketch has for one direction of a partition: 64 KiB, and 192 KiB
/// in a table by ranges.
pub const fn sketch_bytes_max(by: PartitionBy) -> usize {
    match by {
        PartitionBy::Hash | PartitionBy::Slot => 64 << 10,
        PartitionBy::Range => 192 << 10,
    }
}

/// The keys that one direction of a partition is asked for.
#[derive(Clone, Debug)]
pub struct Sketch {
    by: PartitionBy,
    running: Window,
    /// The last whole window.
    last: Option<Window>,
    /// The state of the sampler; the seed is the caller's.
    random: u64,
}

/// The keys of one window.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    since: Timestamp,
    sample: PositionList,
    heavy: HeavyKeys,
    /// The thousandths of all accesses.
    total: u64,
    requests: u64,
    /// Those of them that read many keys.
    spanning: u64,
}

/// The keys of a whole window, sorted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeySample {
    /// The beginning of the window.
    pub since: Timestamp,
    /// The sampled positions in their order. Each stands for an equal part of the load.
    pub positions: PositionList,
    /// The heaviest keys, the first one the heaviest.
    pub heavy: Vec<HeavyKey>,
    /// The load in units a second.
    pub load: Units,
    /// The accesses of the window.
    pub requests: u64,
    /// Those of them that read many keys, of which only the first is known.
    pub spanning: u64,
}

/// A key and its load in units a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeavyKey {
    /// The key.
    pub position: Position,
    /// Units a second that it was asked for at least.
    pub at_least: Units,
    /// Units a second that it was asked for at most.
    pub at_most: Units,
}

impl Sketch {
    /// An empty sketch of a table partitioned like this, that begins at `now`. The seed decides
    /// which of the keys are sampled.
    pub fn new(by: PartitionBy, seed: u64, now: Timestamp) -> Self {
        Self { by, running: Window::new(by, now), last: None, random: seed }
    }

    /// Counts an access of `cost` thousandths.
    pub(crate) fn record(&mut self, position: Position, cost: u64, now: Timestamp) {
        self.roll(now);
        self.running.total = self.running.total.saturating_add(cost);
        self.running.requests += 1;
        self.running.heavy.count(position, cost);
        if self.running.sample.len() < SAMPLE_MAX {
            self.running.sample.push(position);
            return;
        }
        // The sampled share of an access is that of its units (A-Chao).
        let chance = u128::from(cost) * SAMPLE_MAX as u128;
        if (u128::from(self.draw()) * u128::from(self.running.total)) >> 64 < chance {
            let replaced = (u128::from(self.draw()) * SAMPLE_MAX as u128) >> 64;
            self.running.sample.set(replaced as usize, position);
        }
    }

    /// Counts the access recorded last as one that reads many keys.
    pub(crate) fn mark_spanning(&mut self) {
        self.running.spanning += 1;
    }

    /// Ends the window that runs, if its time is over. The next one begins where it ends, however
    /// late the next access comes. A window that ended long ago is not kept.
    fn roll(&mut self, now: Timestamp) {
        let elapsed = now.saturating_since(self.running.since);
        if elapsed < WINDOW && now >= self.running.since {
            return;
        }
        let is_next = elapsed >= WINDOW && elapsed < 2 * WINDOW;
        let since = if is_next { self.running.since.saturating_add(WINDOW) } else { now };
        let ended = core::mem::replace(&mut self.running, Window::new(self.by, since));
        self.last = is_next.then_some(ended);
    }

    /// The last whole window at `now`, once; `None` before the first one.
    pub fn take_sample(&mut self, now: Timestamp) -> Option<KeySample> {
        self.take_window(now).map(Window::into_sample)
    }

    /// [`Sketch::take_sample`] without the work of sorting, which needs no lock.
    pub(crate) fn take_window(&mut self, now: Timestamp) -> Option<Window> {
        self.roll(now);
        self.last.take()
    }

    /// The next number of the sampler (`SplitMix64`).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Window {
    fn new(by: PartitionBy, since: Timestamp) -> Self {
        let (sample, heavy) = (PositionList::with_capacity(by, SAMPLE_MAX), HeavyKeys::new(by));
        Self { since, sample, heavy, total: 0, requests: 0, spanning: 0 }
    }

    /// The load in units a second.
    pub(crate) const fn load(&self) -> Units {
        Units::from_rate(self.total / WINDOW.as_secs())
    }

    pub(crate) fn into_sample(self) -> KeySample {
        let (since, load) = (self.since, self.load());
        let mut positions = self.sample;
        positions.sort();
        let rate = |thousandths: u64| Units::from_rate(thousandths / WINDOW.as_secs());
        let mut heavy: Vec<HeavyKey> = self
            .heavy
            .counters()
            .map(|(position, count, error)| HeavyKey {
                position,
                at_least: rate(count - error),
                at_most: rate(count),
            })
            .collect();
        heavy.sort_by_key(|key| core::cmp::Reverse((key.at_least, key.position)));
        let (requests, spanning) = (self.requests, self.spanning);
        KeySample { since, positions, heavy, load, requests, spanning }
    }
}

/// Counters of the heaviest keys (Space-Saving).
#[derive(Clone, Debug)]
struct HeavyKeys {
    // Apart, so that a search reads nothing but positions.
    positions: PositionList,
    counts: Vec<u64>,
    /// How much of each count may be of other keys.
    errors: Vec<u64>,
}

impl HeavyKeys {
    fn new(by: PartitionBy) -> Self {
        Self {
            positions: PositionList::with_capacity(by, HEAVY_MAX),
            counts: Vec::with_capacity(HEAVY_MAX),
            errors: Vec::with_capacity(HEAVY_MAX),
        }
    }

    fn count(&mut self, position: Position, cost: u64) {
        if let Some(index) = self.positions.find(position) {
            self.counts[index] += cost;
        } else if self.positions.len() < HEAVY_MAX {
            self.positions.push(position);
            self.counts.push(cost);
            self.errors.push(0);
        } else if let Some((index, least)) =
            self.counts.iter().copied().enumerate().min_by_key(|(_, count)| *count)
        {
            self.positions.set(index, position);
            self.errors[index] = least;
            self.counts[index] = least + cost;
        }
    }

    fn counters(&self) -> impl Iterator<Item = (Position, u64, u64)> {
        let counts = self.counts.iter().copied().zip(self.errors.iter().copied());
        self.positions.iter().zip(counts).map(|(position, (count, error))| (position, count, error))
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_795_210_800_000 + millis)
    }

    /// Keys by Zipf's law with this exponent, the first one the heaviest.
    #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
    fn zipf(keys: usize, exponent: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        let mut acc = 0.0;
        weights
            .into_iter()
            .map(|weight| {
                acc += weight / sum;
                acc
            })
            .collect()
    }

    #[test]
    #[expect(clippy::cast_precision_loss, reason = "53 bits are drawn")]
    fn the_sample_is_the_distribution_and_the_heaviest_keys_are_among_the_counters() {
        let cdf = zipf(20_000, 0.99);
        let mut sketch = Sketch::new(PartitionBy::Hash, 7, at(0));
        let mut random = Sketch::new(PartitionBy::Hash, 11, at(0));
        let mut counts = vec![0_u64; cdf.len()];
        for access in 0..60_000_u64 {
            let draw = (random.draw() >> 11) as f64 / (1_u64 << 53) as f64;
            let rank = cdf.partition_point(|sum| *sum < draw).min(cdf.len() - 1);
            counts[rank] += 1000;
            sketch.record(Position::from_hash(rank as u64), 1000, at(access * 10_000 / 60_000));
        }
        let sample = sketch.take_sample(at(10_000)).unwrap();
        assert_eq!((sample.positions.len(), sample.load), (SAMPLE_MAX, Units::whole(6_000)));
        // The rank error of the median: 1.2 hundredths on average, 2.8 at most in 19 of 20.
        let median = sample.positions.get(SAMPLE_MAX / 2).unwrap().first_word() as usize;
        let below: u64 = counts[..median].iter().sum();
        let upto: u64 = counts[..=median].iter().sum();
        assert!(below < 34_000_000 && upto > 26_000_000, "{below} {upto}");
        for (rank, key) in (0..10_u64).zip(&sample.heavy) {
            assert_eq!(key.position, Position::from_hash(rank));
            let true_rate = Units::from_rate(counts[rank as usize] / 10);
            assert!(key.at_least <= true_rate && true_rate <= key.at_most);
        }
    }

    #[test]
    fn an_access_is_sampled_by_its_units() {
        let mut sketch = Sketch::new(PartitionBy::Hash, 3, at(0));
        for access in 0..100_000_u64 {
            // One in ten weighs nine times as much as the others.
            let (position, cost) = if access % 10 == 0 { (1, 9_000) } else { (access + 10, 1000) };
            sketch.record(Position::from_hash(position), cost, at(access / 20));
        }
        let sample = sketch.take_sample(at(10_000)).unwrap();
        let heavy = sample.positions.iter().filter(|position| *position == Position::from_hash(1)).count();
        assert!((440..580).contains(&heavy), "{heavy} of 1024");
        assert_eq!(sample.heavy[0].position, Position::from_hash(1));
    }

    #[test]
    fn a_window_begins_where_the_one_before_it_ended() {
        let mut sketch = Sketch::new(PartitionBy::Hash, 3, at(0));
        sketch.record(Position::from_hash(1), 1000, at(9_000));
        // The access that ends a window comes 4 s late.
        sketch.record(Position::from_hash(2), 1000, at(14_000));
        assert_eq!(sketch.take_sample(at(14_000)).unwrap().since, at(0));
        let second = sketch.take_sample(at(20_000)).unwrap();
        assert_eq!((second.since, second.requests), (at(10_000), 1));
        assert!(sketch.take_sample(at(29_999)).is_none());
        assert_eq!(sketch.take_sample(at(30_000)).unwrap().requests, 0);
    }

    #[test]
    fn a_late_roll_or_a_step_back_leaves_no_sample_of_another_time() {
        let mut sketch = Sketch::new(PartitionBy::Hash, 3, at(100_000));
        sketch.record(Position::from_hash(1), 1000, at(100_000));
        assert!(sketch.take_sample(at(160_000)).is_none(), "a minute late");
        sketch.record(Position::from_hash(1), 1000, at(160_000));
        assert!(sketch.take_sample(at(150_000)).is_none(), "a step back");
        sketch.record(Position::from_hash(1), 1000, at(151_000));
        assert!(sketch.take_sample(at(160_000)).is_some());
        assert!(sketch.take_sample(at(160_000)).is_none(), "once");
    }
}
