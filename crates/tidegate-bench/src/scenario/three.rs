//! Three limits at once: API key, user, session.

use std::sync::Arc;

use crate::calls::{check_three, fill_three, gate};
use crate::timing::Side::Ours;
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock, Visitors, table_of_words};

/// All or nothing with us; one after the other, and not atomic, with the rivals.
pub(super) fn three() -> Scenario {
    let clock = Clock::start();
    let visitors = Arc::new(Visitors::new());
    let gate = gate(workload::three_limits(), table_of_words(40 << 20));
    fill_three(&gate, &visitors);
    let for_ours = Arc::clone(&visitors);
    let candidates = vec![
        Candidate::each("**tidegate**, all or nothing", Ours, move |index| {
            check_three(&gate, for_ours.request(index), clock.now())
        })
        .within(320.0),
    ];
    Scenario {
        title: "Three limits at once: 1 k API keys, 250 k users, 1 M sessions by Zipf's law".to_owned(),
        admits: Some(true),
        calls: 1 << 18,
        candidates: with_rivals(candidates, &visitors),
    }
}

#[cfg(feature = "rivals")]
fn with_rivals(mut candidates: Vec<Candidate>, visitors: &Arc<Visitors>) -> Vec<Candidate> {
    use crate::rival::{Crab, Governor, Numbers, Ratelimits};
    use crate::timing::Side::Rival;
    let governors = [(); 3].map(|()| Governor::new(Numbers::ENDLESS));
    let crabs = [(); 3].map(|()| Crab::new(Numbers::ENDLESS));
    let ratelimits = [(); 3].map(|()| Ratelimits::new(Numbers::ENDLESS));
    for session in 0..workload::SESSIONS {
        for (level, key) in visitors.strings_of(session).into_iter().enumerate() {
            assert!(governors[level].check(key) && crabs[level].check(key) && ratelimits[level].check(key));
        }
    }
    let [first, second, third] = [(); 3].map(|()| Arc::clone(visitors));
    candidates.extend([
        Candidate::each("governor, three calls", Rival, move |index| {
            first.strings(index).into_iter().zip(&governors).all(|(key, one)| one.check(key))
        }),
        Candidate::each("throttlecrab, three calls", Rival, move |index| {
            second.strings(index).into_iter().zip(&crabs).all(|(key, one)| one.check(key))
        }),
        Candidate::each("ratelimit, three calls", Rival, move |index| {
            third.strings(index).into_iter().zip(&ratelimits).all(|(key, one)| one.check(key))
        }),
    ]);
    candidates
}

#[cfg(not(feature = "rivals"))]
fn with_rivals(candidates: Vec<Candidate>, _visitors: &Arc<Visitors>) -> Vec<Candidate> {
    candidates
}
