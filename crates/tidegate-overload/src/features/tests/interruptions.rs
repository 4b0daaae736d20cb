//! Signals that go stale, machines that sleep and clocks that step.

use core::time::Duration;

use tidegate_core::Class;

use super::fluid::FluidService;
use super::world::feature;
use crate::{FeatureEvent, FeatureReason};

const HOUR: Duration = Duration::from_hours(1);

/// B is off, and there is room for it from now on.
fn degraded() -> FluidService {
    let flows = [(None, Class::Critical), (Some("b"), Class::Sheddable)];
    let config = feature("b", Class::Sheddable, &[("on", 1.0), ("off", 0.0)]);
    let mut fluid = FluidService::new(|config| config, vec![config], &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.50, 0.20]);
    fluid.run(20.0, |_| vec![0.65, 0.20]);
    assert_eq!(fluid.transitions(), 1);
    fluid
}

#[test]
fn nothing_comes_back_because_a_signal_went_stale_and_after_a_minute_the_rest_decides() {
    let mut fluid = degraded();
    fluid.is_silent = true;
    fluid.run(59.0, |_| vec![0.20, 0.20]);
    assert_eq!(fluid.transitions(), 1);
    let view = &fluid.overload.feature_views(fluid.now)[0];
    assert_eq!(view.reason, FeatureReason::Held { signal: "u".into() });
    let lost = |fluid: &FluidService| {
        fluid.events.iter().filter(|event| matches!(event, FeatureEvent::SignalLost { .. })).count()
    };
    assert_eq!(lost(&fluid), 0);
    fluid.run(5.0, |_| vec![0.20, 0.20]);
    assert_eq!((lost(&fluid), fluid.transitions()), (1, 1), "the settle time begins then");
    fluid.run(5.0, |_| vec![0.20, 0.20]);
    assert_eq!((lost(&fluid), fluid.transitions()), (1, 2), "{:?}", fluid.events);
}

#[test]
fn a_signal_that_comes_back_begins_the_settle_time_anew() {
    let mut fluid = degraded();
    fluid.is_silent = true;
    fluid.run(50.0, |_| vec![0.20, 0.20]);
    fluid.is_silent = false;
    fluid.run(4.9, |_| vec![0.20, 0.20]);
    assert_eq!(fluid.transitions(), 1);
    fluid.run(1.0, |_| vec![0.20, 0.20]);
    assert_eq!(fluid.transitions(), 2);
}

#[test]
fn a_machine_that_slept_and_a_clock_that_steps_an_hour_change_nothing_by_themselves() {
    for step in ["sleep", "forward", "back"] {
        let mut fluid = degraded();
        fluid.run(3.0, |_| vec![0.20, 0.20]);
        fluid.now = match step {
            "back" => fluid.now.saturating_sub(HOUR),
            "sleep" => fluid.now.saturating_add(Duration::from_secs(20)),
            _ => fluid.now.saturating_add(HOUR),
        };
        let id = fluid.overload.find_feature("b").unwrap();
        let retry = fluid.overload.feature_retry(id, fluid.now);
        let wait = retry.saturating_since(fluid.now);
        assert!(retry > fluid.now && wait <= Duration::from_secs(20), "{step}: {wait:?}");
        fluid.run(4.8, |_| vec![0.20, 0.20]);
        assert_eq!(fluid.transitions(), 1, "{step}: {:?}", fluid.events);
        fluid.run(1.5, |_| vec![0.20, 0.20]);
        assert_eq!(fluid.transitions(), 2, "{step}: {:?}", fluid.events);
    }
}

#[test]
fn the_dwell_is_time_in_which_the_control_ran() {
    let flows = [(None, Class::Critical), (Some("b"), Class::Sheddable)];
    let mut config = feature("b", Class::Sheddable, &[("on", 1.0), ("off", 0.0)]);
    config.min_dwell = Duration::from_mins(1);
    let mut fluid = FluidService::new(|config| config, vec![config], &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.50, 0.20]);
    fluid.run(2.0, |_| vec![0.65, 0.20]);
    assert_eq!(fluid.transitions(), 1);
    fluid.now = fluid.now.saturating_add(HOUR);
    fluid.run(50.0, |_| vec![0.20, 0.20]);
    assert_eq!(fluid.transitions(), 1, "{:?}", fluid.events);
    fluid.run(10.0, |_| vec![0.20, 0.20]);
    assert_eq!(fluid.transitions(), 2, "{:?}", fluid.events);
}
