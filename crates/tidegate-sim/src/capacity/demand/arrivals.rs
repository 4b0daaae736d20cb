//! The arrivals of requests: open loop, from the seed, the same for every design.

use std::sync::Arc;

use crate::capacity::demand::keys::{KeySet, ordered_key, partition_of};
use crate::capacity::demand::{Demand, Pattern};
use crate::kit::{Chance, SECOND};

/// How many hot keys the fluid model looks at.
const HOT_KEYS: usize = 64;

/// The key of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivalKey {
    pub(crate) bytes: [u8; 12],
    /// The first word of its position.
    pub(crate) word: u64,
}

impl ArrivalKey {
    /// A new key at a place in the order of keys.
    fn ordered(word: u64) -> Self {
        Self { bytes: ordered_key(word), word }
    }
}

/// The requests for one table, one after the other: a Poisson process whose rate and keys follow
/// the demand.
#[derive(Debug)]
pub(crate) struct ArrivalSource {
    chance: Chance,
    demand: Demand,
    keys: Arc<KeySet>,
    /// Whether requests come at equal distances.
    is_paced: bool,
    /// The keys of each phase, for those that draw one by weight.
    draws: Vec<Option<AliasTable>>,
    phase: usize,
    /// When the next request comes, in nanoseconds; the end of time if none does.
    next_at: u64,
    end: u64,
    /// The partitions in the order in which they become hot.
    hot_order: Vec<u32>,
}

impl ArrivalSource {
    /// The requests of `demand` for `keys` over `seconds` seconds. `part` numbers the source.
    pub(crate) fn new(
        demand: Demand,
        keys: Arc<KeySet>,
        partitions: u32,
        seconds: u32,
        seed: u64,
        part: u64,
    ) -> Self {
        let mut chance = Chance::new(seed, part);
        let draws =
            demand.phases.iter().map(|phase| AliasTable::from_pattern(phase.pattern, keys.count())).collect();
        let mut hot_order: Vec<u32> = (0..partitions).collect();
        for place in (1..hot_order.len()).rev() {
            hot_order.swap(place, chance.below(place as u64 + 1) as usize);
        }
        let end = u64::from(seconds) * SECOND;
        let is_paced = false;
        let mut source = Self { chance, demand, keys, is_paced, draws, phase: 0, next_at: 0, end, hot_order };
        source.plan_from(0);
        source
    }

    /// The same requests at equal distances, before the first is taken.
    pub(crate) fn paced(mut self) -> Self {
        self.is_paced = true;
        self.phase = 0;
        self.plan_from(0);
        self
    }

    /// When the next request comes, in nanoseconds.
    pub(crate) const fn next_at(&self) -> u64 {
        self.next_at
    }

    /// The keys of the table.
    pub(crate) fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The key of the next request; the one after it is planned.
    pub(crate) fn take(&mut self) -> ArrivalKey {
        let at = self.next_at;
        let key = self.draw(at);
        self.plan_from(at);
        key
    }

    fn plan_from(&mut self, at: u64) {
        let mut at = at;
        loop {
            let rate = self.demand.phases[self.phase].units_per_second / f64::from(self.demand.units);
            let phase_end = self.demand.phases.get(self.phase + 1).map_or(self.end, |next| nanos(next.from));
            if rate > 0.0 {
                let mean = 1e9 / rate;
                let gap = if self.is_paced { nanos(mean / 1e9) } else { self.chance.gap(mean) };
                let next = at.saturating_add(gap);
                if next < phase_end {
                    self.next_at = next;
                    return;
                }
            }
            if phase_end >= self.end {
                self.next_at = u64::MAX;
                return;
            }
            // Gaps have no memory: the next phase begins anew.
            at = phase_end;
            self.phase += 1;
        }
    }

    fn draw(&mut self, at: u64) -> ArrivalKey {
        let pattern = self.demand.phases[self.phase].pattern;
        let percent = pattern.percent();
        let is_chosen = percent.is_some_and(|percent| self.chance.below(100) < u64::from(percent));
        let index = match pattern {
            Pattern::Zipf { .. } => {
                self.draws[self.phase].as_ref().map_or(0, |table| table.draw(&mut self.chance))
            }
            Pattern::HotPartition { every, .. } if is_chosen => {
                let keys = self.keys.of_partition(hot_partition(&self.hot_order, every, at));
                if keys.is_empty() { 0 } else { keys[self.chance.below(keys.len() as u64) as usize] }
            }
            Pattern::OneKey { .. } if is_chosen => 0,
            Pattern::Tail { .. } if is_chosen => {
                return ArrivalKey::ordered(tail_word(at, self.hot_order.len()));
            }
            Pattern::ScatteredTail { .. } if is_chosen => {
                return ArrivalKey::ordered(scattered_word(at, &self.hot_order));
            }
            _ => self.chance.below(self.keys.count().into()) as u32,
        };
        ArrivalKey { bytes: *self.keys.key(index), word: self.keys.word(index) }
    }

    /// Whether the parts of the demand are the same at two instants.
    pub(crate) fn has_same_shares(&self, before: f64, after: f64) -> bool {
        let phase = self.demand.phase_at(before);
        phase == self.demand.phase_at(after)
            && match self.demand.phases[phase].pattern {
                Pattern::Uniform
                | Pattern::Zipf { .. }
                | Pattern::OneKey { .. }
                | Pattern::ScatteredTail { .. } => true,
                Pattern::HotPartition { every, .. } => {
                    hot_partition(&self.hot_order, every, nanos(before))
                        == hot_partition(&self.hot_order, every, nanos(after))
                }
                Pattern::Tail { .. } => false,
            }
    }

    /// The parts of the demand at `seconds` that each configured partition and each single key get,
    /// for the fluid model.
    pub(crate) fn shares_at(&self, seconds: f64, partitions: u32) -> DemandShares {
        let pattern = self.demand.phases[self.demand.phase_at(seconds)].pattern;
        let count = self.keys.count();
        let mut of_partition = vec![0.0; partitions as usize];
        let place = |word| partition_of(word, partitions) as usize;
        let mut hot_keys = Vec::new();
        if let Pattern::Zipf { exponent } = pattern {
            let weights = zipf_weights(count, exponent);
            let sum: f64 = weights.iter().sum();
            for (key, weight) in (0..count).zip(&weights) {
                of_partition[place(self.keys.word(key))] += weight / sum;
            }
            hot_keys = weights.iter().take(HOT_KEYS).map(|weight| weight / sum).collect();
            return DemandShares { of_partition, hot_keys };
        }
        let chosen = f64::from(pattern.percent().unwrap_or(0)) / 100.0;
        for key in 0..count {
            of_partition[place(self.keys.word(key))] += (1.0 - chosen) * (1.0 / f64::from(count));
        }
        let chosen_place = match pattern {
            Pattern::Uniform | Pattern::Zipf { .. } => return DemandShares { of_partition, hot_keys },
            Pattern::HotPartition { every, .. } => {
                hot_partition(&self.hot_order, every, nanos(seconds)) as usize
            }
            Pattern::OneKey { .. } => place(self.keys.word(0)),
            Pattern::Tail { .. } => place(tail_word(nanos(seconds), self.hot_order.len())),
            Pattern::ScatteredTail { .. } => self.hot_order[0] as usize,
        };
        of_partition[chosen_place] += chosen;
        // All of a tail lies within a span that is too short to be cut in time.
        if matches!(pattern, Pattern::OneKey { .. } | Pattern::Tail { .. }) {
            hot_keys.push(chosen);
        }
        DemandShares { of_partition, hot_keys }
    }
}

/// The parts of a demand.
#[derive(Clone, Debug)]
pub(crate) struct DemandShares {
    /// The part of each configured partition.
    pub(crate) of_partition: Vec<f64>,
    /// The parts of the hottest keys, and of what no cut parts.
    pub(crate) hot_keys: Vec<f64>,
}

fn hot_partition(order: &[u32], every: u32, at: u64) -> u32 {
    let turn = at / (u64::from(every.max(1)) * SECOND);
    order[(turn % order.len() as u64) as usize]
}

/// The place in the order of keys at which new ones are inserted at `at`: a partition in a minute,
/// and after the last one the first again.
fn tail_word(at: u64, partitions: usize) -> u64 {
    let whole = 60 * SECOND * partitions as u64;
    // Below 2^64, since the part is below the whole.
    ((u128::from(at % whole) << 64) / u128::from(whole)) as u64
}

/// The place of the key that is inserted at `at` when new keys come in a permuted order: within the
/// first partition of `order`, with the bits of its former place reversed. Keys that were
/// neighbours are far apart, and the keys of any second lie evenly over the partition.
fn scattered_word(at: u64, order: &[u32]) -> u64 {
    let scattered = tail_word(at, order.len()).reverse_bits();
    let whole = (u128::from(order[0]) << 64) + u128::from(scattered);
    // Below 2^64, since the partition is one of them.
    whole.div_ceil(order.len() as u128) as u64
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn zipf_weights(count: u32, exponent: f64) -> Vec<f64> {
    (1..=count).map(|rank| libm::pow(f64::from(rank), -exponent)).collect()
}

/// Draws keys by weight in constant time, after A. J. Walker, "An efficient method for generating
/// discrete random variables with general distributions", ACM Transactions on Mathematical Software
/// 3 (1977).
#[derive(Debug)]
struct AliasTable {
    /// For each place the part of 2^32 that it keeps, and the key that has the rest.
    cells: Vec<(u32, u32)>,
}

impl AliasTable {
    fn from_pattern(pattern: Pattern, count: u32) -> Option<Self> {
        let Pattern::Zipf { exponent } = pattern else { return None };
        Some(Self::new(&zipf_weights(count, exponent)))
    }

    fn new(weights: &[f64]) -> Self {
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut parts: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
        let mut cells: Vec<(u32, u32)> = (0..weights.len() as u32).map(|key| (u32::MAX, key)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|key| parts[*key as usize] < 1.0);
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            let kept = (parts[low as usize] * 4_294_967_295.0) as u32;
            cells[low as usize] = (kept, high);
            parts[high as usize] -= 1.0 - parts[low as usize];
            if parts[high as usize] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        Self { cells }
    }

    #[inline]
    fn draw(&self, chance: &mut Chance) -> u32 {
        let bits = chance.bits();
        let place = ((bits >> 32) * self.cells.len() as u64) >> 32;
        let (kept, other) = self.cells[place as usize];
        if bits as u32 <= kept { place as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::demand::Phase;

    fn source(pattern: Pattern, seconds: u32) -> ArrivalSource {
        let phases = vec![Phase { from: 0.0, units_per_second: 10_000.0, pattern }];
        let demand = Demand { keys: 1000, units: 1, phases };
        let is_ordered = matches!(pattern, Pattern::Tail { .. } | Pattern::ScatteredTail { .. });
        let keys = Arc::new(KeySet::new(1000, 16, is_ordered, false, 1));
        ArrivalSource::new(demand, keys, 16, seconds, 1, 1)
    }

    fn parts(source: &mut ArrivalSource) -> (Vec<f64>, f64) {
        let (mut counts, mut all) = (vec![0.0; 16], 0.0);
        while source.next_at() != u64::MAX {
            let key = source.take();
            counts[partition_of(key.word, 16) as usize] += 1.0;
            all += 1.0;
        }
        (counts.into_iter().map(|count: f64| count / all).collect(), all)
    }

    #[test]
    fn arrivals_follow_the_rate_and_the_shares_of_the_fluid_model() {
        for pattern in [
            Pattern::Uniform,
            Pattern::Zipf { exponent: 0.99 },
            Pattern::Zipf { exponent: 1.2 },
            Pattern::HotPartition { percent: 18, every: 100 },
            Pattern::OneKey { percent: 50 },
        ] {
            let mut source = source(pattern, 30);
            let shares = source.shares_at(0.0, 16);
            let (parts, all) = parts(&mut source);
            assert!((all - 300_000.0).abs() < 4.0 * f64::sqrt(300_000.0), "{pattern:?} {all}");
            for (part, share) in parts.iter().zip(&shares.of_partition) {
                // Five standard deviations.
                let most = 5.0 * f64::sqrt(share / 300_000.0) + 1e-6;
                assert!((part - share).abs() < most, "{pattern:?} {part} {share}");
            }
            assert!((shares.of_partition.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_tail_passes_through_the_order_of_the_keys_and_never_turns_back() {
        let mut source = source(Pattern::Tail { percent: 100 }, 10);
        let mut last = 0;
        while source.next_at() != u64::MAX {
            let word = source.take().word;
            assert!(word >= last);
            last = word;
        }
        // Ten seconds of a minute in the first of sixteen partitions.
        assert!(partition_of(last, 16) == 0 && last > u64::MAX / 100);
    }

    #[test]
    fn a_scattered_tail_has_the_same_arrivals_and_old_keys_and_its_new_keys_stay_in_one_partition() {
        let mut tail = source(Pattern::Tail { percent: 40 }, 130);
        let mut scattered = source(Pattern::ScatteredTail { percent: 40 }, 130);
        let hot = scattered.hot_order[0];
        let mut of_seconds = vec![[0_u32; 4]; 130];
        while tail.next_at() != u64::MAX {
            assert_eq!(tail.next_at(), scattered.next_at());
            let second = (tail.next_at() / SECOND) as usize;
            let (ordered, permuted) = (tail.take(), scattered.take());
            if ordered.word == permuted.word {
                continue;
            }
            assert_eq!(partition_of(permuted.word, 16), hot);
            // The quarter of the partition.
            of_seconds[second][(partition_of(permuted.word, 64) % 4) as usize] += 1;
        }
        assert_eq!(tail.next_at(), scattered.next_at());
        // 1000 new keys in each quarter in each second.
        for quarters in of_seconds {
            assert!(quarters.iter().all(|count| (800..1200).contains(count)), "{quarters:?}");
        }
    }

    #[test]
    fn a_phase_without_demand_has_no_arrivals_and_the_next_one_has() {
        let phase = |from, units_per_second| Phase { from, units_per_second, pattern: Pattern::Uniform };
        let demand = Demand { keys: 10, units: 2, phases: vec![phase(0.0, 0.0), phase(5.0, 100.0)] };
        let keys = Arc::new(KeySet::new(10, 1, false, false, 1));
        let mut source = ArrivalSource::new(demand, keys, 1, 10, 1, 1);
        let mut count = 0;
        while source.next_at() != u64::MAX {
            assert!(source.next_at() >= 5 * SECOND);
            source.take();
            count += 1;
        }
        assert!((200..300).contains(&count), "{count}");
    }
}
