//! Remote buckets: bounds over seeds, shares, and what a loss costs.

#[cfg(tidegate_planted_faults)]
use super::super::Fault;
use super::remote_world::{RemoteWorld, Troubles};
use super::world::{Chance, SECOND};
use crate::Rate;
use crate::algorithm::{Algorithm, Bucket};

fn bucket(rate: u64, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::per_second(rate).unwrap(), burst).unwrap())
}

/// A world of a seed, with everything that goes wrong.
fn drawn(seed: u64) -> RemoteWorld {
    let mut chance = Chance::new(seed);
    for _ in 0..16 {
        chance.below(2);
    }
    let rate = [1, 2, 5, 20, 100, 1000][chance.below(6) as usize];
    let burst = [16, 16.max(rate / (1 + chance.below(3)) + chance.below(rate))][chance.below(2) as usize];
    let (envoys, daemons) = (1 + chance.below(4), 1 + chance.below(3));
    let mut world = RemoteWorld::new(bucket(rate, burst), envoys as usize, daemons as usize, seed);
    let mut often = |most: u64| if chance.below(2) == 0 { 0 } else { chance.below(most) };
    world = world.with(Troubles {
        pauses: often(50),
        restarts: often(50),
        cuts: often(50),
        crashes: often(30),
        silences: 0,
        acts: often(50),
        delay_ms: [0, 10, 500, 3_000][often(4) as usize],
        lost: often(100),
        drift: often(20),
    });
    world.member_demand = often(3) * rate * 500;
    world
}

/// Runs a world with changing demands; whether it ever was over its bound.
fn is_over(seed: u64, world: &mut RemoteWorld) -> bool {
    let mut chance = Chance::new(seed ^ 0xdead);
    let rate = world.rate();
    for _ in 0..6 {
        for envoy in &mut world.envoys {
            envoy.demand = [0, 100, rate * 300, rate * 1000, rate * 3000][chance.below(5) as usize];
        }
        world.run_for(10 * SECOND);
    }
    world.highest > world.bound()
}

fn over(seeds: core::ops::RangeInclusive<u64>) -> Vec<(u64, u128, u128)> {
    let runs = seeds.filter_map(|seed| {
        let mut world = drawn(seed);
        is_over(seed, &mut world).then(|| (seed, world.highest, world.bound()))
    });
    runs.collect()
}

#[test]
fn no_seed_is_ever_over_the_bound() {
    let over = over(1..=200);
    assert!(over.is_empty(), "{} seeds are over: {over:?}", over.len());
}

#[test]
#[ignore = "10 000 seeds take minutes"]
fn none_of_ten_thousand_seeds_is_over_the_bound() {
    let over = over(1..=10_000);
    assert!(over.is_empty(), "{} seeds are over: {over:?}", over.len());
}

/// Runs two Envoys, of which one takes its messages late and is then cut off from all daemons;
/// whether it ever was over its bound.
fn is_over_when_one_is_cut_off(world: &mut RemoteWorld) -> bool {
    world.envoys[0].slower_ms = 3_700;
    for envoy in &mut world.envoys {
        envoy.demand = 300_000;
    }
    world.run_for(25 * SECOND);
    // A moment at which it has just taken one.
    while !world.has_just_taken(0) {
        world.run_for(SECOND / 100);
    }
    world.isolate(0, 100 * SECOND);
    world.run_for(30 * SECOND);
    world.highest > world.bound()
}

#[test]
fn an_envoy_that_is_cut_off_leaves_no_seed_over_the_bound() {
    let over: Vec<_> = (1..=100)
        .filter(|seed| is_over_when_one_is_cut_off(&mut RemoteWorld::new(bucket(100, 16), 2, 2, *seed)))
        .collect();
    assert!(over.is_empty(), "{over:?}");
}

#[test]
#[cfg(tidegate_planted_faults)]
fn planted_faults_are_over_the_bound() {
    for fault in [Fault::IncreaseNotGranted, Fault::FullAfterDenial] {
        let found = (1..=3_000).find(|seed| is_over(*seed, &mut drawn(*seed).with_fault(fault)));
        assert!(found.is_some(), "{fault:?} is not found");
    }
    let fault = Fault::LeaseEndsWithAssignment;
    let mut worlds = (1..=100).map(|seed| RemoteWorld::new(bucket(100, 16), 2, 2, seed).with_fault(fault));
    assert!(worlds.any(|mut world| is_over_when_one_is_cut_off(&mut world)), "{fault:?} is not found");
}

/// Two Envoys at two daemons with so many requests in a thousand seconds each, after a minute in
/// which nothing was counted but the first seconds.
fn shared(demands: [u64; 2], seed: u64) -> ([u64; 2], RemoteWorld) {
    let mut world = RemoteWorld::new(bucket(20, 20), 2, 2, seed);
    for (envoy, demand) in world.envoys.iter_mut().zip(demands) {
        envoy.demand = demand;
    }
    world.run_for(10 * SECOND);
    let before = [0, 1].map(|at| world.envoys[at].admitted);
    world.run_for(60 * SECOND);
    let after = [0, 1].map(|at| world.envoys[at].admitted);
    ([after[0] - before[0], after[1] - before[1]], world)
}

#[test]
fn a_rate_is_shared_by_demand() {
    for seed in 1..=20 {
        for demands in [[40_000, 40_000], [40_000, 4_000], [40_000, 0]] {
            let (admitted, world) = shared(demands, seed);
            let total = admitted[0] + admitted[1];
            // 20 a second for a minute, of which at most 1 in 64 is never leased.
            assert!((1_140..=1_220).contains(&total), "{seed} {demands:?}: {admitted:?}");
            let part = total * demands[1] / (demands[0] + demands[1]);
            assert!(admitted[1].abs_diff(part) <= total / 50, "{seed} {demands:?}: {admitted:?}");
            assert!(world.calls < 60, "{} calls", world.calls);
        }
        for demands in [[8_000, 8_000], [15_000, 3_000]] {
            let (admitted, world) = shared(demands, seed);
            let wanted = [0, 1].map(|at| demands[at] * 60 / 1_000);
            assert!(
                (0..2).all(|at| admitted[at] * 100 >= wanted[at] * 99),
                "{seed} {demands:?}: {admitted:?}"
            );
            let refused = world.envoys.iter().map(|envoy| envoy.longest_refusal).max();
            assert!(refused < Some(SECOND), "{seed} {demands:?}: refused for {refused:?}");
        }
    }
}
