//! Levels rather than on and off (E6): demand of 1.3 times the capacity is met by less for each.

use core::time::Duration;

use tidegate_core::Class;

use super::world::{Arrivals, Stream, StreamCounts, TUNED, UNTUNED, World, feature};
use crate::{FeatureConfig, ResourceConfig};

const PLACES: u64 = 200;
const SERVICE: Duration = Duration::from_millis(100);
const CAPACITY: f64 = 2_000.0;

const FOUR: [(&str, f64); 4] = [("1080p", 1.0), ("720p", 0.55), ("480p", 0.30), ("off", 0.0)];
const TWO: [(&str, f64); 2] = [("1080p", 1.0), ("off", 0.0)];

const NAMES: [&str; 6] = ["f0", "f1", "f2", "f3", "f4", "f5"];

/// What the demand of 1 is multiplied by: 0.7 to 1.3 in 10 s.
fn rise(seconds: f64) -> f64 {
    0.7 + 0.6 * ((seconds - 10.0) / 10.0).clamp(0.0, 1.0)
}

/// A stream without a feature that takes 40 % of the demand, and features that share the rest.
fn world(features: Vec<(FeatureConfig, f64)>, arrivals: Arrivals, seed: u64) -> World {
    let mut streams =
        vec![Stream::new(None, Class::CriticalPlus, SERVICE, |seconds| 0.4 * rise(seconds) * CAPACITY)];
    for (name, (config, part)) in NAMES.into_iter().zip(&features) {
        let part = *part;
        let rate = move |seconds: f64| part * rise(seconds) * CAPACITY;
        streams.push(Stream::new(Some(name), config.class, SERVICE, rate));
    }
    let configs = features.into_iter().map(|(config, _)| config).collect();
    World::new(ResourceConfig::new(PLACES), Vec::new(), configs, streams, arrivals, seed)
}

fn total(world: &World, of: impl Fn(&StreamCounts) -> f64) -> f64 {
    world.counts.iter().map(of).sum()
}

#[test]
fn four_levels_refuse_nothing_at_1_3_times_the_capacity_where_on_and_off_refuse_much() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let run = |levels: &[(&str, f64)]| {
            let features = NAMES[..4].iter().map(|name| (feature(name, Class::Sheddable, levels), 0.15));
            let mut world = world(features.collect(), Arrivals::Even, seed);
            world.run_until(60.0);
            world
        };
        let (levels, on_off) = (run(&FOUR), run(&TWO));
        let utility = |world: &World| world.counts[1..].iter().map(|counts| counts.quality).sum::<f64>();
        let refused = |world: &World| total(world, |counts| (counts.refused + counts.disabled) as f64);
        println!(
            "seed {seed}: four levels refuse {}, utility {:.0}, {} changes; on and off refuse {}, utility {:.0}; {:?}",
            refused(&levels),
            utility(&levels),
            levels.transitions(),
            refused(&on_off),
            utility(&on_off),
            levels.changes()
        );
    }
}
