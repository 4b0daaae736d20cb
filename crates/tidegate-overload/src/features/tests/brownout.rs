//! Levels rather than on and off (E6): demand of 1.3 times the capacity is met by less for each.

use core::time::Duration;

use tidegate_core::Class;

use super::world::{Arrivals, Chance, Stream, StreamCounts, TUNED, UNTUNED, World, feature};
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

/// A feature that may change every two seconds, as a rise of ten seconds asks for.
fn quick(name: &str, class: Class, levels: &[(&str, f64)], utility: f64) -> FeatureConfig {
    let mut config = feature(name, class, levels);
    (config.min_dwell, config.utility) = (Duration::from_secs(2), utility);
    config
}

#[test]
fn four_levels_refuse_nothing_at_1_3_times_the_capacity_where_on_and_off_refuse_much() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let run = |levels: &[(&str, f64)], dwell: u64| {
            let of = |name: &&str| {
                let mut config = quick(name, Class::Sheddable, levels, 1.0);
                config.min_dwell = Duration::from_secs(dwell);
                (config, 0.15)
            };
            let mut world = world(NAMES[..4].iter().map(of).collect(), Arrivals::Even, seed);
            world.run_until(60.0);
            world
        };
        let (levels, on_off, slow) = (run(&FOUR, 2), run(&TWO, 2), run(&FOUR, 10));
        let utility = |world: &World| world.counts[1..].iter().map(|counts| counts.quality).sum::<f64>();
        let refused = |world: &World| total(world, |counts| (counts.refused + counts.disabled) as f64);
        println!(
            "seed {seed}: four levels refuse {}, utility {:.0}, {} changes; on and off refuse {}, utility {:.0}; a dwell of 10 s refuses {}, utility {:.0}",
            refused(&levels),
            utility(&levels),
            levels.transitions(),
            refused(&on_off),
            utility(&on_off),
            refused(&slow),
            utility(&slow)
        );
        if seed == 1 {
            println!("{:?}", levels.changes());
        }
    }
}

/// The most utility of an assignment that keeps the order of classes and takes at most `most` of
/// the capacity, by trying all of them.
fn best_assignment(features: &[(FeatureConfig, f64)], demand: f64, others: f64, most: f64) -> f64 {
    let levels = features[0].0.levels.len();
    let mut best: f64 = 0.0;
    for number in 0..levels.pow(features.len() as u32) {
        let level = |index: usize| number / levels.pow(index as u32) % levels;
        let cost = |index: usize| features[index].0.levels[level(index)].cost;
        let keeps_order = features.iter().enumerate().all(|(high, (config, _))| {
            let lower = |low: usize| features[low].0.class < config.class;
            level(high) == 0 || (0..features.len()).all(|low| !lower(low) || level(low) == levels - 1)
        });
        let used: f64 =
            features.iter().enumerate().map(|(index, (_, part))| part * demand * cost(index)).sum();
        if keeps_order && used + others <= most {
            let worth = |index: usize| features[index].0.utility * cost(index).sqrt();
            best = best.max((0..features.len()).map(worth).sum());
        }
    }
    best
}

#[test]
fn the_levels_are_within_five_percent_of_the_best_that_keep_the_order_of_classes() {
    let three = [("1080p", 1.0), ("480p", 0.4), ("off", 0.0)];
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let mut chance = Chance::new(seed);
        let mut parts: Vec<f64> = (0..6).map(|_| 0.5 + chance.part()).collect();
        let all: f64 = parts.iter().sum();
        parts.iter_mut().for_each(|part| *part *= 0.6 / all);
        let class = |index: usize| Class::ALL[index / 2];
        let features: Vec<_> = (0..6)
            .map(|index| (quick(NAMES[index], class(index), &three, 0.5 + 2.0 * chance.part()), parts[index]))
            .collect();
        let mut world = world(features.clone(), Arrivals::Even, seed);
        world.run_until(60.0);
        let last = world.ticks.last().unwrap().levels.clone();
        let worth = |(index, (config, _)): (usize, &(FeatureConfig, f64))| {
            config.utility * config.levels[usize::from(last[index])].cost.sqrt()
        };
        let found: f64 = features.iter().enumerate().map(worth).sum();
        let best = best_assignment(&features, 1.3, 0.52, 0.80);
        let used: f64 = features.iter().enumerate().map(|(i, (c, part))| part * 1.3 * c.levels[usize::from(last[i])].cost).sum::<f64>() + 0.52;
        println!("used {used:.3}; {:.3?}", features.iter().map(|(c, part)| (part * 1.3, c.utility)).collect::<Vec<_>>());
        println!("seed {seed}: {last:?} is worth {found:.2} of {best:.2}: {:.3}", found / best);
        for event in &world.events { if let crate::FeatureEvent::Changed(change) = event { println!("  {:.1} {} {} {:?} {:?}", change.at.saturating_since(super::world::START).as_secs_f64(), change.feature, change.to, change.pressure, change.signal); } }
    }
}
