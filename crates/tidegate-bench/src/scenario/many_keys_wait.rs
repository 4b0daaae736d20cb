//! Where a decision among many keys waits: for the key that its caller brings, or for its counter.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::sync::Arc;

use tidegate_core::algorithm::Verdict;
use tidegate_core::{CarriedLimit, Charging, Gate, KeyTable, Limit, Timestamp};
use tidegate_engine::{Decision, Engine, EngineConfig, NamespaceConfig, Request, Step};

use crate::calls::{Planes, admit_one, check_one, check_sixteen, gate_of_one};
use crate::timing::Side::{Floor, Ours};
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock, DRAWS, SEED, START, table_of_words};

/// How popular keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Popularity {
    /// By Zipf's law with exponent 1.
    Zipf,
    /// All alike.
    Uniform,
}

/// The calls that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Calls {
    /// `Gate::check` and `Gate::check_batch`.
    Gate,
    /// `KeyTable::carry`, as `CL.THROTTLE` uses it: one by one, and as many as came in a pipeline.
    Carried,
    /// `Engine::admit` and `Engine::admit_all`, as Envoy's service uses it for descriptors.
    Engine,
}

/// The keys, and the table that counts them.
#[derive(Clone, Copy, Debug)]
pub struct ManyKeys {
    /// How many keys there are; all of them are in the table.
    pub keys: usize,
    /// The size of the table. [`ManyKeys::scenario`] panics if a key finds no room.
    pub table_bytes: usize,
    /// How popular the keys are.
    pub popularity: Popularity,
    /// The calls that are measured.
    pub calls: Calls,
}

const KEY_LEN: usize = 20;

type Key = [u8; KEY_LEN];

/// A key that is made in a few nanoseconds, so that it is in the cache as one that was just parsed.
#[inline]
fn made(number: u32) -> Key {
    let mut bytes = *b"session-aaaaaaaaaaaa";
    for (place, byte) in bytes[KEY_LEN - 8..].iter_mut().enumerate() {
        *byte += (number >> (4 * place)) as u8 & 0xF;
    }
    bytes
}

#[inline]
fn text(key: &Key) -> &str {
    str::from_utf8(key).expect("the letters of a key are ASCII")
}

/// The numbers of the keys in the order in which they come.
#[derive(Clone)]
struct Draws(Arc<[u32]>);

impl Draws {
    #[inline]
    fn number(&self, index: usize) -> u32 {
        self.0[index % DRAWS]
    }

    #[inline]
    fn made<const N: usize>(&self, index: usize) -> [Key; N] {
        std::array::from_fn(|within| made(self.number(index + within)))
    }
}

impl ManyKeys {
    /// Single calls and calls for several keys. Every repetition goes through all [`DRAWS`].
    pub fn scenario(self) -> Scenario {
        let draws = match self.popularity {
            Popularity::Zipf => workload::zipf(self.keys, SEED[0]),
            Popularity::Uniform => workload::uniform(self.keys, SEED[0]),
        };
        let draws = Draws(draws.into());
        let candidates = match self.calls {
            Calls::Gate => self.gate(&draws),
            Calls::Carried => self.carried(&draws),
            Calls::Engine => self.engine(&draws),
        };
        Scenario { title: format!("{self:?}"), admits: Some(true), calls: DRAWS, candidates }
    }

    /// Brings each key once.
    fn fill(self, check: impl Fn(&Key) -> bool) {
        for number in 0..self.keys as u32 {
            assert!(check(&made(number)), "the table has room for every key");
        }
    }

    fn gate(self, draws: &Draws) -> Vec<Candidate> {
        let gate = Arc::new(gate_of_one(workload::endless(), table_of_words(self.table_bytes)));
        self.fill(|key| check_one(&gate, text(key), START));
        let keys: Arc<[String]> =
            (0..self.keys as u32).map(|number| text(&made(number)).to_owned()).collect();
        let (clock, hasher) = (Clock::start(), RandomState::new());
        let with = || (Arc::clone(&gate), Arc::clone(&keys), draws.clone());
        let [hot, read, made_floor, single, single_made, batch, batch_made] = [(); 7].map(|()| with());
        let hasher_of_made = hasher.clone();
        vec![
            Candidate::each("floor: the key is read from memory and hashed (SipHash)", Floor, move |index| {
                let (_, keys, draws) = &read;
                hasher.hash_one(&*keys[draws.number(index) as usize]) != 0
            }),
            Candidate::each("floor: the key is made and hashed (SipHash)", Floor, move |index| {
                hasher_of_made.hash_one(text(&made(made_floor.2.number(index)))) != 0
            }),
            Candidate::each("one hot key, made", Ours, move |_| {
                check_one(&hot.0, text(&made(black_box(0))), clock.now())
            }),
            Candidate::each("one by one, keys in memory", Ours, move |index| {
                let (gate, keys, draws) = &single;
                check_one(gate, &keys[draws.number(index) as usize], clock.now())
            }),
            Candidate::each("one by one, keys made", Ours, move |index| {
                let (gate, _, draws) = &single_made;
                check_one(gate, text(&made(draws.number(index))), clock.now())
            }),
            Candidate::batched("sixteen together, keys in memory", Ours, Gate::BATCH, move |index| {
                let (gate, keys, draws) = &batch;
                let key = |within| keys[draws.number(index + within) as usize].as_str();
                check_sixteen(gate, std::array::from_fn(key), clock.now())
            }),
            Candidate::batched("sixteen together, keys made", Ours, Gate::BATCH, move |index| {
                let (gate, _, draws) = &batch_made;
                check_sixteen(gate, draws.made(index).each_ref().map(text), clock.now())
            }),
        ]
    }

    fn carried(self, draws: &Draws) -> Vec<Candidate> {
        let table = Arc::new(KeyTable::new(table_of_words(self.table_bytes)));
        self.fill(|key| carry(&table, &[*key], START) == 1);
        let clock = Clock::start();
        let with = || (Arc::clone(&table), draws.clone());
        let [hot, one, four, sixteen] = [(); 4].map(|()| with());
        vec![
            Candidate::each("one hot key, made", Ours, move |_| {
                carry(&hot.0, &[made(black_box(0))], clock.now()) == 1
            }),
            Candidate::each("one by one, keys made", Ours, move |index| {
                carry(&one.0, &one.1.made::<1>(index), clock.now()) == 1
            }),
            Candidate::batched("four together, keys made", Ours, 4, move |index| {
                carry(&four.0, &four.1.made::<4>(index), clock.now())
            }),
            Candidate::batched("sixteen together, keys made", Ours, 16, move |index| {
                carry(&sixteen.0, &sixteen.1.made::<16>(index), clock.now())
            }),
        ]
    }

    fn engine(self, draws: &Draws) -> Vec<Candidate> {
        let mut config = EngineConfig::seeded(SEED);
        config.table = table_of_words(self.table_bytes);
        let limits = [Limit::new("per-session", workload::endless()).key(["session"])];
        let built = Engine::builder(config).namespace(NamespaceConfig::new("bench", limits)).build();
        let engine = Arc::new(built.expect("the engine of a benchmark is valid"));
        self.fill(|key| admit_one(&engine, Planes::Limits, 0, text(key), START));
        let clock = Clock::start();
        let with = || (Arc::clone(&engine), draws.clone());
        let [hot, one, four_hot, four, sixteen] = [(); 5].map(|()| with());
        vec![
            Candidate::each("one hot key, made", Ours, move |index| {
                admit_one(&hot.0, Planes::Limits, index, text(&made(black_box(0))), clock.now())
            }),
            Candidate::each("one by one, keys made", Ours, move |index| {
                let key = made(one.1.number(index));
                admit_one(&one.0, Planes::Limits, index, text(&key), clock.now())
            }),
            Candidate::batched("four together, hot keys, made", Ours, 4, move |_| {
                admit_together(&four_hot.0, &black_box([0, 1, 2, 3]).map(made), clock.now())
            }),
            Candidate::batched("four together, keys made", Ours, 4, move |index| {
                admit_together(&four.0, &four.1.made::<4>(index), clock.now())
            }),
            Candidate::batched("sixteen together, keys made", Ours, 16, move |index| {
                admit_together(&sixteen.0, &sixteen.1.made::<16>(index), clock.now())
            }),
        ]
    }
}

/// Charges a limit for each key, as a run of `CL.THROTTLE` does, and counts the admitted ones.
fn carry<const N: usize>(table: &KeyTable, keys: &[Key; N], now: Timestamp) -> u64 {
    let algorithm = workload::endless();
    let keys = keys.each_ref().map(|key| [key.as_slice()]);
    let limits = keys.each_ref().map(|key| CarriedLimit {
        key: Cow::Borrowed(key.as_slice()),
        algorithm: Cow::Borrowed(&algorithm),
        cost: 1,
    });
    let carried = table.carry("bench", &limits, Charging::Each, now).expect("the limits are valid");
    carried.limits.iter().filter(|status| status.verdict == Verdict::Admit).count() as u64
}

/// Admits requests together, and returns how many were admitted: all or none.
fn admit_together<const N: usize>(engine: &Engine, keys: &[Key; N], now: Timestamp) -> u64 {
    let pairs = keys.each_ref().map(|key| [("session", text(key))]);
    let requests = pairs.each_ref().map(|pairs| Request::new("bench", pairs));
    let admitted = matches!(engine.admit_all(&requests, now), Ok(Step::Decided(Decision::Admit(_))));
    if admitted { N as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_have_twenty_characters() {
        let keys: std::collections::HashSet<Key> = (0..70_000).map(made).collect();
        assert_eq!(keys.len(), 70_000);
        assert_eq!(text(&made(0x21)), "session-aaaabcaaaaaa");
    }
}
