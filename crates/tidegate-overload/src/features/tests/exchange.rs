//! The exchange of levels after a need: one feature gives more, and another has its level back.

use core::time::Duration;

use tidegate_core::Class;

use super::choice::part;
use super::fluid::FluidService;
use super::world::feature;
use crate::features::change_reason::ChangeReason;
use crate::features::feature_part::{FeaturePart, PartHold};
use crate::features::level_exchange::{ExchangeSteps, LevelExchange, RESERVE};
use crate::features::level_position::LevelPosition;
use crate::features::step_choice::LevelStep;
use crate::{FeatureCause, FeatureConfig, Overload, ResourceConfig, SignalConfig, SignalSource, TICK};

const OFF: LevelPosition = LevelPosition::at(2);
const SMALL: LevelPosition = LevelPosition::at(1);

/// A large feature at its best level and a worthier one that is off.
fn large_and_worthy() -> Vec<FeaturePart> {
    let mut parts = vec![part(Class::Sheddable, 0.30, 1.0), part(Class::Sheddable, 0.25, 2.0)];
    (parts[1].position, parts[1].in_force) = (OFF, OFF);
    parts
}

/// The exchange after a need that was met and has left so much.
fn exchange(room: f64) -> LevelExchange {
    let reason = ChangeReason { cause: FeatureCause::Pressure, pressure: Some(0.81), signal: None };
    let mut exchange = LevelExchange::after(0.1, reason);
    exchange.moved(0.1 + RESERVE + room);
    exchange
}

fn now(part: usize, to: LevelPosition) -> ExchangeSteps {
    ExchangeSteps::Now(vec![LevelStep { part, to }])
}

#[test]
fn the_worse_level_comes_first_and_the_better_ones_one_at_a_time_as_far_as_they_fit() {
    let (mut parts, mut exchange) = (large_and_worthy(), exchange(0.0));
    assert_eq!(exchange.steps(&parts, 1.0), now(0, OFF));
    exchange.moved(parts[0].relief(OFF));
    parts[0].position = OFF;
    assert_eq!(exchange.steps(&parts, 0.09), ExchangeSteps::None, "no level fits");
    assert_eq!(exchange.steps(&parts, 1.0), now(1, SMALL));
    exchange.moved(-parts[1].growth(SMALL));
    parts[1].position = SMALL;
    parts[1].hold = PartHold::DwellsShortly;
    assert_eq!(exchange.steps(&parts, 1.0), ExchangeSteps::Later, "the first does not come back instead");
    parts[1].hold = PartHold::Free;
    assert_eq!(exchange.steps(&parts, 1.0), now(1, LevelPosition::BEST));
    exchange.moved(-parts[1].growth(LevelPosition::BEST));
    parts[1].position = LevelPosition::BEST;
    assert!((exchange.room() - 0.05).abs() < 1e-9, "{}", exchange.room());
    assert_eq!(exchange.steps(&parts, 1.0), ExchangeSteps::None, "what is left is less than a level");
}

#[test]
fn nothing_is_exchanged_for_a_twentieth_of_the_worth_or_out_of_turn() {
    let mut parts = large_and_worthy();
    parts.push(part(Class::Critical, 0.1, 19.1));
    assert_eq!(exchange(0.0).steps(&parts, 1.0), ExchangeSteps::None, "20.1 of 21.1 is 95.3 %");
    parts[2] = part(Class::Critical, 0.1, 17.9);
    assert_eq!(exchange(0.0).steps(&parts, 1.0), now(0, OFF), "18.9 of 19.9 is 94.97 %");
    assert_eq!(exchange(-0.21).steps(&parts[..2], 1.0), ExchangeSteps::None, "the need has left less");
    parts[0].hold = PartHold::Dwells;
    assert_eq!(exchange(0.0).steps(&parts, 1.0), ExchangeSteps::Later, "it has its dwell");
    parts[0].hold = PartHold::Pinned;
    assert_eq!(exchange(1.0).steps(&parts, 1.0), ExchangeSteps::None, "one part has nothing to exchange");
    let mut parts = large_and_worthy();
    for part in &mut parts {
        part.class = Class::Critical;
    }
    parts.push(part(Class::Sheddable, 0.1, 1.0));
    assert_eq!(exchange(0.0).steps(&parts, 1.0), ExchangeSteps::None, "a lower class can still give");
}

const X: f64 = 0.19;
const Y: f64 = 0.10;
const Z: f64 = 0.06;

fn features() -> Vec<FeatureConfig> {
    let one = |(name, utility): (&str, f64)| {
        let mut config = feature(name, Class::Sheddable, &[("on", 1.0), ("off", 0.0)]);
        (config.utility, config.min_dwell) = (utility, Duration::from_secs(2));
        config
    };
    [("x", 1.5), ("y", 1.0), ("z", 0.9)].into_iter().map(one).collect()
}

fn run(fluid: &mut FluidService, seconds: f64, others: f64) {
    fluid.run(seconds, |_| vec![others, X, Y, Z]);
}

/// The features that are on.
fn on(fluid: &FluidService) -> String {
    let views = fluid.overload.feature_views(fluid.now);
    views.iter().filter(|view| view.level == 0).map(|view| &*view.name).collect()
}

/// A first need has switched off Z, a second one Y, and an exchange has just switched off X, which
/// is worth less than both.
fn exchanged() -> FluidService {
    let sheddable = Class::Sheddable;
    let flows =
        [(None, Class::Critical), (Some("x"), sheddable), (Some("y"), sheddable), (Some("z"), sheddable)];
    let mut fluid = FluidService::new(|config| config, features(), &flows, 0.0, 1);
    run(&mut fluid, 10.0, 0.40);
    run(&mut fluid, 4.0, 0.49);
    assert_eq!(on(&fluid), "xy", "{:?}", fluid.events);
    run(&mut fluid, 3.0, 0.56);
    assert_eq!(on(&fluid), "x", "{:?}", fluid.events);
    while on(&fluid) == "x" && fluid.seconds() < 40.0 {
        run(&mut fluid, 0.1, 0.56);
    }
    assert_eq!(on(&fluid), "", "{:?}", fluid.events);
    fluid
}

#[test]
fn what_two_needs_took_from_two_features_one_gives_alone() {
    let mut fluid = exchanged();
    let began = fluid.now;
    run(&mut fluid, 30.0, 0.56);
    assert_eq!(on(&fluid), "yz", "{:?}", fluid.events);
    let changes: Vec<_> = fluid.changes().filter(|change| change.at >= began).collect();
    assert_eq!(changes.len(), 2, "{changes:?}");
    let names: Vec<_> = changes.iter().map(|change| &*change.feature).collect();
    assert_eq!(names, ["z", "y"], "the one that is worth more for what it takes comes first");
    // A step is felt after three seconds, and the settle time is five.
    let steps = [began, changes[0].at, changes[1].at];
    let mut waits = steps.windows(2).map(|pair| pair[1].saturating_since(pair[0]));
    let expected = Duration::from_millis(7_900)..Duration::from_millis(8_200);
    assert!(waits.all(|wait| expected.contains(&wait)), "{changes:?}");
    run(&mut fluid, 100.0, 0.56);
    assert_eq!((on(&fluid).as_str(), fluid.transitions()), ("yz", 5), "{:?}", fluid.events);
}

#[test]
fn the_earliest_instant_of_a_better_level_is_never_after_it() {
    let mut fluid = exchanged();
    for name in ["z", "y"] {
        let id = fluid.overload.find_feature(name).unwrap();
        let mut told = fluid.overload.feature_retry(id, fluid.now);
        while !on(&fluid).contains(name) {
            assert!(fluid.seconds() < 60.0, "{name} is off");
            told = fluid.overload.feature_retry(id, fluid.now);
            assert!(told > fluid.now);
            run(&mut fluid, 0.1, 0.56);
        }
        let at = fluid.changes().last().unwrap().at;
        // An announced instant is always at least a tick ahead, so the last one may be up to a tick
        // after the step.
        assert!(
            told <= at.saturating_add(TICK) && at.saturating_since(told) <= Duration::from_secs(1),
            "{name}: {told:?}, {at:?}"
        );
    }
}

#[test]
fn a_level_that_takes_little_does_not_come_first_where_one_that_is_worth_more_fits_alone() {
    let mut fluid = exchanged();
    run(&mut fluid, 30.0, 0.66);
    assert_eq!(on(&fluid), "y", "0.82 would be above the threshold: {:?}", fluid.events);
    let view = fluid.overload.feature_views(fluid.now).swap_remove(2);
    assert!(view.room < Z, "{view:?}");
    run(&mut fluid, 60.0, 0.66);
    assert_eq!((on(&fluid).as_str(), fluid.transitions()), ("y", 4), "{:?}", fluid.events);
}

#[test]
fn a_need_a_pin_and_a_reload_end_an_exchange() {
    let mut fluid = exchanged();
    run(&mut fluid, 2.0, 0.83);
    run(&mut fluid, 60.0, 0.56);
    assert_eq!(on(&fluid), "z", "it fits with the margin, and Y does not: {:?}", fluid.events);

    let mut fluid = exchanged();
    let until = fluid.now.saturating_add(Duration::from_secs(1));
    fluid.overload.pin_feature("y", "on", until, fluid.now).unwrap();
    run(&mut fluid, 60.0, 0.56);
    assert_eq!(on(&fluid), "y", "{:?}", fluid.events);

    let mut fluid = exchanged();
    let in_flight = SignalConfig::new("in_flight", SignalSource::InFlight);
    let mut builder = Overload::builder(7)
        .default_resource(ResourceConfig::new(20))
        .signal(SignalConfig { target: 1e6, ..in_flight })
        .signal(SignalConfig::new("u", SignalSource::Pushed));
    for config in features() {
        builder = builder.feature(config);
    }
    fluid.overload = builder.build_over(&fluid.overload).unwrap();
    run(&mut fluid, 60.0, 0.56);
    assert_eq!(on(&fluid), "z", "{:?}", fluid.events);
}
