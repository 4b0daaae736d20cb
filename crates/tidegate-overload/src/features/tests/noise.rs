//! No flapping (E5): noise, a sine at the threshold, and days without an overload.

use core::time::Duration;

use tidegate_core::Class;

use super::brownout::{NAMES, mixed};
use super::fluid::FluidService;
use super::ramp::{B, ramp};
use super::world::{Chance, TUNED, UNTUNED, feature, thresholds};
use crate::{FeatureCause, FeatureConfig};

const NOISE: f64 = 0.03;

fn b() -> FeatureConfig {
    feature("b", Class::Sheddable, &[("on", 1.0), ("off", 0.0)])
}

fn fluid(noise: f64, seed: u64) -> FluidService {
    let flows = [(None, Class::Critical), (Some("b"), Class::Sheddable)];
    FluidService::new(|config| config.levels(thresholds(0.90)), vec![b()], &flows, noise, seed)
}

/// The transitions of a rule of thresholds alone, on the same load with noise and the same
/// smoothing.
fn transitions_of_rule(
    rule: impl Fn(f64, bool) -> bool,
    load: impl Fn(f64) -> f64,
    seconds: u32,
    seed: u64,
) -> u32 {
    let (mut chance, mut is_off, mut smoothed, mut transitions) = (Chance::new(seed), false, 0.0, 0);
    for tick in 0..seconds * 10 {
        let used = load(f64::from(tick) / 10.0) + if is_off { 0.0 } else { B };
        smoothed += (used + NOISE * chance.normal() - smoothed) / 6.0;
        let next = rule(smoothed, is_off);
        transitions += u32::from(next != is_off);
        is_off = next;
    }
    transitions
}

#[test]
fn noise_of_three_percent_changes_b_twice_in_an_episode() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let mut fluid = fluid(NOISE, seed);
        fluid.run(300.0, |seconds| vec![ramp(seconds / 2.0), B]);
        let on_off = transitions_of_rule(|load, _| load >= 0.90, |seconds| ramp(seconds / 2.0), 300, seed);
        let hysteresis = |load: f64, is_off: bool| if is_off { load > 0.75 } else { load >= 0.90 };
        let two = transitions_of_rule(hysteresis, |seconds| ramp(seconds / 2.0), 300, seed);
        println!(
            "seed {seed}: {} transitions; one threshold {on_off}, two thresholds {two}",
            fluid.transitions()
        );
        assert_eq!(fluid.transitions(), 2, "seed {seed}: {:?}", fluid.events);
        let at: Vec<_> = fluid.changes().map(|change| change.at).collect();
        assert!(at[1].saturating_since(at[0]) >= FeatureConfig::MIN_DWELL);
    }
}

#[test]
fn a_sine_at_the_threshold_is_one_episode() {
    for (index, seed) in TUNED.into_iter().chain(UNTUNED).enumerate() {
        let period = [2.0, 7.0, 20.0, 60.0, 150.0][index % 5];
        let load = move |seconds: f64| {
            let sine = 0.05 * (seconds * core::f64::consts::TAU / period).sin();
            if (30.0..330.0).contains(&seconds) { 0.65 + sine } else { 0.40 }
        };
        let mut fluid = fluid(NOISE, seed);
        fluid.run(400.0, |seconds| vec![load(seconds), B]);
        let on_off = transitions_of_rule(|load, _| load >= 0.90, load, 400, seed);
        println!(
            "seed {seed}, period {period} s: {} transitions; one threshold {on_off}",
            fluid.transitions()
        );
        assert_eq!(fluid.transitions(), 2, "seed {seed}, period {period}: {:?}", fluid.events);
    }
}

/// 60 to 85 % over a period, so that B never has to go.
fn day(seconds: f64, period: f64) -> Vec<f64> {
    let part = 0.5 - 0.5 * (seconds / period * core::f64::consts::TAU).cos();
    vec![0.60 + 0.25 * part - B, B]
}

#[test]
fn a_tenth_of_a_day_below_the_threshold_changes_nothing() {
    let mut fluid = fluid(NOISE, UNTUNED[0]);
    let period = 2.4 * 3600.0;
    fluid.run(period, |seconds| day(seconds, period));
    assert_eq!(fluid.transitions(), 0, "{:?}", fluid.events);
}

#[test]
#[ignore = "ten days in virtual time take a minute"]
fn days_below_the_threshold_change_nothing() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let mut fluid = fluid(NOISE, seed);
        fluid.run(86_400.0, |seconds| day(seconds, 86_400.0));
        assert_eq!(fluid.transitions(), 0, "seed {seed}: {:?}", fluid.events);
    }
}

#[test]
fn whatever_the_load_does_no_feature_changes_twice_within_its_dwell() {
    for seed in TUNED {
        let levels = [("full", 1.0), ("half", 0.5), ("off", 0.0)];
        let mut low = feature("low", Class::Sheddable, &levels);
        low.min_dwell = Duration::from_secs(3);
        let mut high = feature("high", Class::Critical, &levels);
        high.min_dwell = Duration::from_secs(20);
        let flows =
            [(None, Class::Critical), (Some("low"), Class::Sheddable), (Some("high"), Class::Critical)];
        let mut fluid = FluidService::new(|config| config, vec![low, high], &flows, NOISE, seed);
        let mut chance = Chance::new(seed);
        for _ in 0..60 {
            let asked: Vec<f64> = (0..3).map(|_| 0.5 * chance.part()).collect();
            fluid.run(1.0 + 10.0 * chance.part(), |_| asked.clone());
        }
        let dwell = |name: &str| {
            let own = fluid.changes().filter(|change| *change.feature == *name);
            let at: Vec<_> = own.map(|change| change.at).collect();
            assert!(at.len() > 2, "{name} changes {} times", at.len());
            at.windows(2).map(|pair| pair[1].saturating_since(pair[0])).min().unwrap()
        };
        assert!(dwell("low") >= Duration::from_secs(3) && dwell("high") >= Duration::from_secs(20));
    }
}

#[test]
fn demand_that_wanders_through_three_classes_keeps_their_order_and_every_dwell() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let mut chance = Chance::new(seed);
        let mut features = mixed(&mut chance);
        for (config, _) in &mut features {
            config.min_dwell = Duration::from_secs_f64(2.0 + 13.0 * chance.part());
        }
        let mut flows = vec![(None, Class::CriticalPlus)];
        flows.extend(features.iter().zip(NAMES).map(|((config, _), name)| (Some(name), config.class)));
        let configs = features.iter().map(|(config, _)| config.clone()).collect();
        let mut fluid = FluidService::new(|config| config, configs, &flows, NOISE, seed);
        let mut from = 0.6;
        for _ in 0..60 {
            let to = 0.6 + 0.8 * chance.part();
            let start = fluid.seconds();
            fluid.run(10.0, |seconds| {
                let demand = from + (to - from) * (seconds - start) / 10.0;
                let parts = features.iter().map(|(_, part)| part * demand);
                [0.4 * demand].into_iter().chain(parts).collect()
            });
            from = to;
        }
        for (config, _) in &features {
            let own = fluid.changes().filter(|change| *change.feature == *config.name);
            let at: Vec<_> = own.map(|change| change.at).collect();
            let gap = at.windows(2).map(|pair| pair[1].saturating_since(pair[0])).min();
            assert!(gap.is_none_or(|gap| gap >= config.min_dwell), "seed {seed}, {}: {gap:?}", config.name);
        }
        // Levels get worse only where the lower classes have none left. One that has just become
        // worse may keep its dwell while a lower class gets better.
        let mut off = [false; NAMES.len()];
        for change in fluid.changes() {
            let index = NAMES.iter().position(|name| *name == &*change.feature).unwrap();
            off[index] = &*change.to == "off";
            let lower = &off[..index / 2 * 2];
            assert!(
                change.cause == FeatureCause::Room || lower.iter().all(|off| *off),
                "seed {seed}: {change:?}"
            );
        }
        let changes = fluid.transitions();
        println!("seed {seed}: {changes} changes in 600 s");
        assert!((20..=120).contains(&changes), "seed {seed}: {changes}");
    }
}
