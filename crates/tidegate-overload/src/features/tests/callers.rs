//! Callers that stop asking while a feature is off, and a demand that grows meanwhile.

use tidegate_core::Class;

use super::fluid::FluidService;
use super::ramp::{B, ramp, t1_and_t2, world};
use super::world::{TUNED, UNTUNED, feature, thresholds};
use crate::{FeatureEvent, FeatureReason};

#[test]
fn callers_that_stop_asking_the_moment_b_is_off_do_not_make_it_look_free() {
    for seed in TUNED.into_iter().chain(UNTUNED) {
        let mut world = world(seed);
        world.gives_up = true;
        world.run_until(150.0);
        let (t1, t2) = t1_and_t2(&world);
        // By then a fifth of what they asked for is forgotten.
        assert!(ramp(t2) + 0.8 * B <= 0.81, "seed {seed}: {t1} to {t2}");
        println!("seed {seed}: off {t1:.1} s, on {t2:.1} s");
    }
}

/// B is off while A and C ask for 0.70; then they ask for `after`, and B for `b`.
fn settle(after: f64, b: f64) -> FluidService {
    let flows = [(None, Class::Critical), (Some("b"), Class::Sheddable)];
    let config = feature("b", Class::Sheddable, &[("on", 1.0), ("off", 0.0)]);
    let mut fluid = FluidService::new(|config| config.levels(thresholds(0.90)), vec![config], &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.50, B]);
    fluid.run(20.0, |_| vec![0.70, b]);
    assert_eq!(fluid.transitions(), 1);
    fluid.run(60.0, |_| vec![after, b]);
    fluid
}

#[test]
pub(super) fn a_demand_that_doubled_while_b_was_off_keeps_it_off_until_that_fits() {
    assert_eq!(settle(0.50, B).transitions(), 2, "as much as before fits beside 0.50");
    let mut fluid = settle(0.50, 2.0 * B);
    assert_eq!(fluid.transitions(), 1, "twice as much does not");
    let view = &fluid.overload.feature_views(fluid.now)[0];
    assert!((view.footprint_better.unwrap() - 0.50).abs() < 0.02, "{view:?}");
    assert!((view.room - 0.30).abs() < 0.02 && view.footprint == 0.0, "{view:?}");
    assert!(matches!(&view.reason, FeatureReason::Degraded { pressure, signal }
        if *pressure >= 0.90 && signal.is_some()));
    fluid.run(10.0, |_| vec![0.28, 2.0 * B]);
    assert_eq!(fluid.transitions(), 2, "and it does beside 0.28");
}

#[test]
pub(super) fn demand_that_rises_on_after_a_step_is_met_by_the_next_step_at_once() {
    let flows = [(None, Class::Critical), (Some("x"), Class::Sheddable), (Some("y"), Class::Sheddable)];
    let levels = [("full", 1.0), ("half", 0.5), ("off", 0.0)];
    let features = ["x", "y"].map(|name| feature(name, Class::Sheddable, &levels)).into();
    let mut fluid = FluidService::new(|config| config, features, &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.30, 0.20, 0.20]);
    fluid.run(1.0, |_| vec![0.45, 0.20, 0.20]);
    assert_eq!(fluid.transitions(), 1, "half of one is enough: {:?}", fluid.events);
    // The relief of the first step counts for three seconds; it does not hide demand on top of it.
    fluid.run(1.5, |_| vec![0.58, 0.20, 0.20]);
    assert_eq!(fluid.transitions(), 2, "{:?}", fluid.events);
    assert!(fluid.load <= 0.81, "{}", fluid.load);
}

#[test]
fn relief_that_is_ordered_and_not_felt_yet_is_not_ordered_again() {
    // The signal goes on to say 0.95 for two seconds after the switch-off, as work ends late.
    let flows = [(None, Class::Critical), (Some("x"), Class::Sheddable), (Some("y"), Class::Sheddable)];
    let features =
        ["x", "y"].map(|name| feature(name, Class::Sheddable, &[("on", 1.0), ("off", 0.0)])).into();
    let mut fluid = FluidService::new(|config| config, features, &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.30, 0.20, 0.20]);
    fluid.shown = Some(0.95);
    fluid.run(3.0, |_| vec![0.30, 0.20, 0.20]);
    assert_eq!(fluid.transitions(), 1, "{:?}", fluid.events);
    fluid.run(2.0, |_| vec![0.30, 0.20, 0.20]);
    assert_eq!(fluid.transitions(), 2, "it was not felt after all: {:?}", fluid.events);
}

#[test]
fn two_planes_that_are_fed_the_same_give_the_same_levels() {
    let run = || {
        let mut world = world(7);
        world.run_until(130.0);
        (world.changes(), world.overload.feature_views(world.now))
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!(!first.0.is_empty());
}

#[test]
fn a_switch_off_cancels_work_after_its_grace_and_tells_when_all_has_ended() {
    use core::time::Duration;

    use crate::{FeatureConfig, OnDisable};
    let grace = Duration::from_millis(1500);
    let mut config: FeatureConfig = feature("b", Class::Sheddable, &[("on", 1.0), ("off", 0.0)]);
    config.on_disable = OnDisable::Cancel { grace };
    let flows = [(None, Class::Critical), (Some("b"), Class::Sheddable)];
    let mut fluid = FluidService::new(|config| config, vec![config], &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.50, B]);
    let level = fluid.overload.request_level(1, Class::Sheddable, Some("t"), fluid.now);
    let id = fluid.overload.find_feature("b").unwrap();
    let feature = fluid.overload.feature(id);
    let grant = feature.grant(level);
    let work = feature.begin(grant);
    assert_eq!(feature.cancel_at(grant), None);
    fluid.run(1.0, |_| vec![0.70, B]);
    let since = fluid.overload.feature_views(fluid.now)[0].since.unwrap();
    let feature = fluid.overload.feature(id);
    assert!(feature.grant(level).is_refused());
    assert_eq!(feature.cancel_at(grant), Some(since.saturating_add(grace)));
    assert!(!fluid.events.iter().any(|event| matches!(event, FeatureEvent::Released { .. })));
    feature.end(work, None);
    fluid.run(0.2, |_| vec![0.70, B]);
    let released = fluid.events.iter().find_map(|event| match event {
        FeatureEvent::Released { after, .. } => Some(*after),
        _ => None,
    });
    assert!(released.is_some_and(|after| after <= Duration::from_secs(2)), "{released:?}");
    let view = &fluid.overload.feature_views(fluid.now)[0];
    assert_eq!((view.released_after, view.in_flight), (released, 0));
    let retry = fluid.overload.feature_retry(id, fluid.now);
    assert!(retry >= since.saturating_add(FeatureConfig::MIN_DWELL) && retry > fluid.now);
}
