//! An access beside a split or a merge, in every interleaving.
//!
//! Run with `RUSTFLAGS="--cfg tidegate_loom" cargo test -p tidegate-capacity --release --lib loom`.

use std::sync::Arc;

use ::loom::model::Builder;
use ::loom::thread;

use super::*;
use crate::throughput::{ChargePath, Throughput};

const NOW: Timestamp = Timestamp::from_secs(1_795_210_800);

/// A table of two partitions, cut in the middle, with 100 units each way.
fn layout() -> Layout {
    let config = TableConfig::new("shop", "orders", 100, 100).partitions(2);
    let numbers = TableNumbers::from_config(&config);
    let directions = || Directions {
        read: Throughput::new(numbers.rates(true, 50_000), NOW),
        write: Throughput::new(numbers.rates(false, 50_000), NOW),
    };
    let firsts = [Position::FIRST, Position::from_hash(1 << 63)];
    let parts = firsts.map(|first| (first, Members::new([0]), directions()));
    Layout::new(config, numbers, parts.into())
}

/// Charges a unit of reading to the partition that owns `position`.
fn charge(layout: &Layout, position: Position) {
    let mut state = layout.owner(position);
    assert!(state.owns(position), "led to another partition");
    let throughput = &mut state.directions.read;
    let ceiling = throughput.ceiling_taken(0, 1000, NOW).expect("the ceiling is open");
    throughput.charge(throughput.now(NOW), ChargePath::Allocated, (0, ceiling), 1000, NOW);
}

fn left(layout: &Layout) -> i64 {
    let plan = layout.plan();
    layout.map(&plan, |state| state.directions.read.now(NOW).allocation()).into_iter().sum()
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn an_access_beside_a_split_finds_the_owner_and_no_unit_is_lost() {
    explore(|| {
        let layout = Arc::new(layout());
        let other = Arc::clone(&layout);
        let splits = thread::spawn(move || {
            let mut plan = other.plan();
            let _ = other.split(&mut plan, 0, Position::from_hash(1 << 62), [Share::HALF; 2], NOW);
        });
        charge(&layout, Position::from_hash((1 << 62) + 5));
        splits.join().unwrap();
        assert_eq!(left(&layout), 99_000);
        charge(&layout, Position::from_hash(u64::MAX));
        assert_eq!(left(&layout), 98_000);
    });
}

#[test]
fn an_access_beside_a_merge_and_the_reuse_of_a_slot_finds_the_owner() {
    explore(|| {
        let layout = Arc::new(layout());
        let other = Arc::clone(&layout);
        let merges = thread::spawn(move || {
            let mut plan = other.plan();
            let _ = other.merge(&mut plan, 0, NOW);
            let _ = other.split(&mut plan, 0, Position::from_hash(1 << 61), [Share::HALF; 2], NOW);
        });
        charge(&layout, Position::from_hash(u64::MAX - 1));
        merges.join().unwrap();
        assert_eq!(left(&layout), 99_000);
    });
}
