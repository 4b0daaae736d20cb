//! The bounds that hold under every fault.

use proptest::prelude::*;

use super::world::{Trouble, World};
use crate::algorithm::{Algorithm, Bucket, Fixed, WindowStart};
use crate::rate::Rate;

fn troubles() -> impl Strategy<Value = Trouble> {
    (0..200_u64, 0..200_u64, 0..3_u64, 0..3_u64, 1..700_u64, 0..10_u64, 0..500_u64).prop_map(
        |(lost, repeated, crashes, forgets, delay_ms, drift, undone)| Trouble {
            lost,
            repeated,
            crashes,
            forgets,
            delay_ms,
            drift,
            undone,
        },
    )
}

/// Traffic that stops, bursts and moves between members.
fn disturb(world: &mut World, seconds: u64, most: u64, cost_max: u64) {
    disturb_for(world, seconds * 1000, most, cost_max);
}

fn disturb_for(world: &mut World, ticks: u64, most: u64, cost_max: u64) {
    let members = world.members.len() as u64;
    let mut pace = 0;
    for tick in 0..ticks {
        world.step();
        if tick % 400 == 0 {
            pace = world.chance.below(5) * most / 4;
        }
        let mut requests = pace / 1000 + u64::from(world.chance.below(1000) < pace % 1000);
        if world.chance.below(500) == 0 {
            requests += world.chance.below(2 * most + 2);
        }
        for _ in 0..requests {
            let index = world.chance.below(members).min(world.chance.below(members)) as usize;
            let (cost, attempt) = (1 + world.chance.below(cost_max), world.chance.below(2) as u32);
            world.request(index, cost, attempt);
        }
    }
}

/// The same with units that come back now and then, as refunds do, and a reset now and then.
fn disturb_with_refunds(world: &mut World, seconds: u64, most: u64, cost_max: u64) {
    for _ in 0..seconds * 20 {
        disturb_for(world, 50, most, cost_max);
        match world.chance.below(40) {
            0 => _ = world.reset(),
            1..10 => {
                let units = 1 + world.chance.below(most / 8 + 1);
                // No more than was admitted, and counts as used, is ever given back.
                if units <= world.refundable() {
                    world.refund(units);
                }
            }
            10..13 => {
                let units = 1 + world.chance.below(most / 4 + 1);
                world.report(units);
            }
            _ => {}
        }
    }
}

/// Traffic of so many seconds, of at most so many units a second, with costs up to the last.
type Disturb = fn(&mut World, u64, u64, u64);

/// The faults, the seed, and the number of members.
type Setting = (Trouble, u64, usize);

fn settings() -> impl Strategy<Value = Setting> {
    (troubles(), any::<u64>(), 1..6_usize)
}

/// Units, the seconds they take, and a burst.
fn buckets() -> impl Strategy<Value = ((u64, u64), u64)> {
    (
        prop::sample::select(vec![(1, 1), (7, 2), (10, 1), (50, 1), (300, 1), (1000, 1), (5, 600)]),
        prop::sample::select(vec![1, 2, 10, 100, 1000]),
    )
}

/// The seconds of a window, and its limit.
fn windows() -> impl Strategy<Value = (u64, u64)> {
    (prop::sample::select(vec![1, 3, 7, 60]), prop::sample::select(vec![1, 5, 100, 2000]))
}

fn disturb_bucket(setting: Setting, bucket: ((u64, u64), u64), disturb: Disturb) {
    let ((trouble, seed, members), ((units, seconds), burst)) = (setting, bucket);
    let rate = Rate::new(units, World::span(seconds)).unwrap();
    let bucket = Algorithm::Bucket(Bucket::new(rate, burst).unwrap());
    let mut world = World::new(bucket, members, trouble, seed);
    let most = 3 * (rate.units() * 1_000_000_000 / rate.per_ns()).max(2);
    disturb(&mut world, 25, most, burst.min(3));
}

fn disturb_window(setting: Setting, window: (u64, u64), disturb: Disturb) {
    let ((trouble, seed, members), (seconds, limit)) = (setting, window);
    let fixed = Fixed::new(limit, World::span(seconds), WindowStart::Epoch).unwrap();
    let mut world = World::new(Algorithm::Fixed(fixed), members, trouble, seed);
    disturb(&mut world, 25, (3 * limit / seconds).max(5), limit.min(3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_bucket_never_admits_more_than_rate_and_burst_and_a_tenth_of_a_second(
        setting in settings(), bucket in buckets(),
    ) {
        disturb_bucket(setting, bucket, disturb);
    }

    #[test]
    fn a_window_never_admits_more_than_its_limit(setting in settings(), window in windows()) {
        disturb_window(setting, window, disturb);
    }

    #[test]
    fn what_was_given_back_makes_a_bucket_admit_as_much_more_and_nothing_else(
        setting in settings(), bucket in buckets(),
    ) {
        disturb_bucket(setting, bucket, disturb_with_refunds);
    }

    #[test]
    fn what_was_given_back_makes_a_window_admit_as_much_more_and_nothing_else(
        setting in settings(), window in windows(),
    ) {
        disturb_window(setting, window, disturb_with_refunds);
    }
}
