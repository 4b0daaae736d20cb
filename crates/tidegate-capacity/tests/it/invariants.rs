//! The checkers find nothing in the plane as it is, and something in every one that does wrong.

#[cfg(tidegate_planted_faults)]
mod planted_faults;
mod planted_traces;
mod random_leases;
mod random_store;
mod refill_pattern;
mod steady_runs;

use std::collections::BTreeMap;

use tidegate_sim::invariants::Invariant;

use self::random_store::{RandomRun, STEPS, one_run};

/// Every event of a hundred runs is judged.
#[test]
pub(crate) fn no_invariant_breaks_in_a_hundred_runs() {
    for seed in 0..100 {
        let violations = one_run(seed, STEPS).violations;
        assert_eq!(violations.kept(), [], "seed {seed}");
    }
}

#[test]
fn no_invariant_breaks_in_a_hundred_thousand_random_operations() {
    let mut all = BTreeMap::new();
    for seed in 1000..1010 {
        let RandomRun { violations, done } = one_run(seed, 10_000);
        assert_eq!(violations.kept(), [], "seed {seed}");
        for (operation, count) in done {
            *all.entry(operation).or_insert(0) += count;
        }
    }
    // Operations that were refused show nothing.
    let least = [
        ("admit", 10_000),
        ("settle", 1000),
        ("give back", 1000),
        ("boost", 500),
        ("split", 300),
        ("isolate", 10),
        ("merge", 300),
        ("move", 100),
        ("gate", 100),
        ("tokens", 100),
        ("growth", 10),
        ("reload", 300),
    ];
    for (operation, least) in least {
        assert!(all[operation] >= least, "{operation}: {all:?}");
    }
}

#[test]
fn numbers_and_names_of_invariants_agree() {
    for (index, invariant) in Invariant::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(invariant.number()), index + 1);
        assert_eq!(invariant.to_string(), format!("I{}", index + 1));
        assert!(!invariant.claim().is_empty());
    }
}
