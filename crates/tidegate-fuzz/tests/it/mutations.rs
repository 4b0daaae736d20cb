//! Inputs that resemble the kept ones break no claim either.
//!
//! A run of the gate tries some mutations of each target. `TIDEGATE_FUZZ_SECONDS=600` tries others
//! for that long, one target after the other, and `TIDEGATE_FUZZ_TARGET=NAME` only one of them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tidegate_fuzz::{TARGETS, mutated};

use crate::replay::inputs;

/// The mutations of each target in a run of the gate.
const MUTATIONS: u64 = 400;

#[test]
fn inputs_that_resemble_the_kept_ones_break_no_claim() {
    let seconds: Option<u64> = std::env::var("TIDEGATE_FUZZ_SECONDS").ok().map(|text| text.parse().unwrap());
    let only = std::env::var("TIDEGATE_FUZZ_TARGET").ok();
    for (name, target) in TARGETS {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let paths = inputs("corpus", name).into_iter().chain(inputs("regressions", name));
        let kept: Vec<Vec<u8>> = paths.map(|path| fs::read(path).unwrap()).collect();
        let begun = Instant::now();
        let mut seed = 0_u64;
        while seconds.map_or(seed < MUTATIONS, |seconds| begun.elapsed() < Duration::from_secs(seconds)) {
            let [one, other] = [7, 13].map(|step| &kept[(seed / step + seed) as usize % kept.len()]);
            let input = mutated(one, other, seed);
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
            assert!(outcome.is_ok(), "{name} breaks a claim, seed {seed}: \"{}\"", input.escape_ascii());
            seed += 1;
        }
        println!("{name}: {seed} inputs in {:.0?}", begun.elapsed());
    }
}
