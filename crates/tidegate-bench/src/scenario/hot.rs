//! One key that everybody asks for.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::calls::{HOT, check_one, check_one_and_read, gate_of_one};
use crate::timing::Side::{Floor, Ours};
use crate::timing::{Candidate, Scenario};
use crate::workload::{self, Clock, START, table_of_words};

/// Always admitted.
pub(super) fn admit() -> Scenario {
    let clock = Clock::start();
    let gate = gate_of_one(workload::endless(), table_of_words(1 << 20));
    let without_clock = gate_of_one(workload::endless(), table_of_words(1 << 20));
    let candidates = vec![
        exchange(clock),
        Candidate::each("tidegate, no clock", Ours, move |index| {
            let now = tidegate_core::Timestamp::from_nanos(START.as_nanos() + index as u64);
            check_one(&without_clock, black_box(HOT), now)
        }),
        Candidate::each("**tidegate**", Ours, move |_| check_one(&gate, black_box(HOT), clock.now()))
            .within(34.0),
    ];
    Scenario {
        title: "One hot key, admit".to_owned(),
        admits: Some(true),
        calls: 1 << 20,
        candidates: with_rivals(candidates, true),
    }
}

/// Always refused. A refusal that is read says which limit, why and when to come back; the rivals
/// say less.
pub(super) fn deny() -> Scenario {
    let clock = Clock::start();
    let gate = gate_of_one(workload::tight(), table_of_words(1 << 20));
    while check_one(&gate, HOT, clock.now()) {}
    let read = gate_of_one(workload::tight(), table_of_words(1 << 20));
    while check_one(&read, HOT, clock.now()) {}
    let candidates = vec![
        Candidate::each("**tidegate**", Ours, move |_| check_one(&gate, black_box(HOT), clock.now())),
        Candidate::each("**tidegate**, and the refusal is read", Ours, move |_| {
            check_one_and_read(&read, black_box(HOT), clock.now())
        }),
    ];
    Scenario {
        title: "One hot key, deny".to_owned(),
        admits: Some(false),
        calls: 1 << 18,
        candidates: with_rivals(candidates, false),
    }
}

/// The least that an exact shared limit costs: one clock and one exchange.
fn exchange(clock: Clock) -> Candidate {
    let tat = AtomicU64::new(START.as_nanos());
    Candidate::each("floor: one atomic bucket, no key", Floor, move |_| {
        let now = clock.now().as_nanos();
        let next = |seen: u64| {
            let next = seen.max(now) + 1_000;
            (next - now <= 1_000_000_000_000_000).then_some(next)
        };
        tat.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    })
}

#[cfg(feature = "rivals")]
fn with_rivals(mut candidates: Vec<Candidate>, admits: bool) -> Vec<Candidate> {
    use crate::rival::{Crab, Governor, Numbers, Ratelimits};
    let numbers = if admits { Numbers::ENDLESS } else { Numbers::TIGHT };
    let hot = HOT.to_owned();
    let (governor, crab, ratelimits) = (Governor::new(numbers), Crab::new(numbers), Ratelimits::new(numbers));
    if !admits {
        while governor.check(&hot) {}
        while crab.check(&hot) {}
        while ratelimits.check(&hot) {}
    }
    let keys = [hot.clone(), hot.clone(), hot];
    let [first, second, third] = keys;
    candidates.extend([
        Candidate::each(Governor::NAME, crate::timing::Side::Rival, move |_| {
            governor.check(black_box(&first))
        }),
        Candidate::each(Crab::NAME, crate::timing::Side::Rival, move |_| crab.check(black_box(&second))),
        Candidate::each(Ratelimits::NAME, crate::timing::Side::Rival, move |_| {
            ratelimits.check(black_box(&third))
        }),
    ]);
    candidates
}

#[cfg(not(feature = "rivals"))]
fn with_rivals(candidates: Vec<Candidate>, _admits: bool) -> Vec<Candidate> {
    candidates
}
