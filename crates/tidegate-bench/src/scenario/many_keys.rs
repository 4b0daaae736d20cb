//! A million keys, some of them popular.

use std::sync::Arc;

use tidegate_core::Gate;

use crate::calls::{check_one, check_sixteen, fill_one, gate_of_one};
use crate::timing::Side::{Floor, Ours};
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock, DRAWS, SEED, SESSIONS, table_of_words};

struct Sessions {
    keys: Vec<String>,
    order: Vec<u32>,
}

impl Sessions {
    #[inline]
    fn at(&self, index: usize) -> &String {
        &self.keys[self.order[index % DRAWS] as usize]
    }
}

/// One by one, and in batches.
pub(super) fn zipf() -> Scenario {
    let clock = Clock::start();
    let sessions =
        Arc::new(Sessions { keys: workload::keys(SESSIONS), order: workload::zipf(SESSIONS, SEED[0]) });
    // At 32 MiB half of the words are taken.
    let gate = Arc::new(gate_of_one(workload::endless(), table_of_words(32 << 20)));
    fill_one(&gate, &sessions.keys);
    let for_floor = Arc::clone(&sessions);
    let hasher = std::hash::RandomState::new();
    let (for_each, gate_for_each) = (Arc::clone(&sessions), Arc::clone(&gate));
    let for_batch = Arc::clone(&sessions);
    let candidates = vec![
        Candidate::each("floor: reading and hashing the key (SipHash)", Floor, move |index| {
            std::hash::BuildHasher::hash_one(&hasher, for_floor.at(index)) != 0
        }),
        Candidate::each("**tidegate**, one by one", Ours, move |index| {
            check_one(&gate_for_each, for_each.at(index), clock.now())
        })
        .within(210.0)
        .within_by_two(210.0),
        Candidate::batched("**tidegate**, batches of 16", Ours, Gate::BATCH, move |index| {
            let keys = std::array::from_fn(|within| for_batch.at(index + within).as_str());
            check_sixteen(&gate, keys, clock.now())
        })
        .within(100.0),
    ];
    Scenario {
        title: "A million string keys by Zipf's law".to_owned(),
        admits: Some(true),
        calls: 1 << 19,
        candidates: with_rivals(candidates, &sessions),
    }
}

#[cfg(feature = "rivals")]
fn with_rivals(mut candidates: Vec<Candidate>, sessions: &Arc<Sessions>) -> Vec<Candidate> {
    use crate::rival::{Crab, Governor, Numbers, Ratelimits};
    use crate::timing::Side::Rival;
    let governor = Governor::new(Numbers::ENDLESS);
    let crab = Crab::new(Numbers::ENDLESS);
    let ratelimits = Ratelimits::new(Numbers::ENDLESS);
    for key in &sessions.keys {
        assert!(governor.check(key) && crab.check(key) && ratelimits.check(key));
    }
    let [first, second, third] = [(); 3].map(|()| Arc::clone(sessions));
    candidates.extend([
        Candidate::each(Governor::NAME, Rival, move |index| governor.check(first.at(index))),
        Candidate::each(Crab::NAME, Rival, move |index| crab.check(second.at(index))),
        Candidate::each(Ratelimits::NAME, Rival, move |index| ratelimits.check(third.at(index))),
    ]);
    candidates
}

#[cfg(not(feature = "rivals"))]
fn with_rivals(candidates: Vec<Candidate>, _sessions: &Arc<Sessions>) -> Vec<Candidate> {
    candidates
}
