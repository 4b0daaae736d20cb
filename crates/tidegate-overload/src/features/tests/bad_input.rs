//! Features that cannot be, and as many as there may be.

use core::time::Duration;

use tidegate_core::Class;

use super::world::{START, feature};
use crate::{
    FeatureConfig, FeaturePinError, FeatureProblem, LevelThresholds, Overload, OverloadBuilder,
    OverloadError, ResourceConfig, TICK,
};

fn builder() -> OverloadBuilder {
    Overload::builder(7).default_resource(ResourceConfig::new(10)).resource("api", ResourceConfig::new(10))
}

fn on_off(name: &str) -> FeatureConfig {
    feature(name, Class::Sheddable, &[("on", 1.0), ("off", 0.0)])
}

fn message(builder: OverloadBuilder) -> String {
    builder.build().unwrap_err().to_string()
}

#[test]
fn a_problem_names_the_feature_the_value_and_the_fix() {
    let rising = feature("video", Class::Sheddable, &[("low", 1.0), ("high", 1.0)]);
    assert_eq!(
        message(builder().feature(rising)),
        "feature \"video\": level \"high\": the cost must be less than that of the level before; change it"
    );
    let nowhere = FeatureConfig { resource: Some("db".into()), ..on_off("video") };
    assert_eq!(
        message(builder().feature(nowhere)),
        "feature \"video\": resource \"db\" does not exist; use the name of a resource, or leave it out for the \
         default one"
    );
    assert_eq!(
        message(builder().feature(on_off("video")).feature(on_off("video"))),
        "feature \"video\": another feature has this name; rename one of them"
    );
    let two =
        Overload::builder(7).resource("a", ResourceConfig::new(1)).resource("b", ResourceConfig::new(1));
    assert_eq!(
        two.feature(on_off("video")).build().unwrap_err(),
        OverloadError::Feature { name: "video".into(), problem: FeatureProblem::NoResource }
    );
    let not_a_number = FeatureConfig { utility: f64::NAN, ..on_off("video") };
    assert!(builder().feature(not_a_number).build().is_err());
}

#[test]
fn thresholds_out_of_order_and_a_half_life_of_nothing_are_refused() {
    let levels = LevelThresholds { brownout: 0.95, ..LevelThresholds::DEFAULT };
    let plane = Overload::builder(7).resource("api", ResourceConfig::new(1).levels(levels));
    assert_eq!(
        message(plane),
        "resource \"api\": levels: hard 0.9 is not above 0.95 and at most 2; use thresholds that ascend"
    );
    let mut config = ResourceConfig::new(1);
    config.demand_half_life = Duration::ZERO;
    assert_eq!(
        message(Overload::builder(7).default_resource(config)),
        "demand_half_life 0ns is not between 1s and 24h; use one of some minutes"
    );
}

#[test]
fn the_only_resource_is_that_of_a_feature_that_names_none() {
    let plane = Overload::builder(7).resource("api", ResourceConfig::new(1)).feature(on_off("video"));
    let plane = plane.build().unwrap();
    let id = plane.find_feature("video").unwrap();
    assert_eq!(Some(plane.feature_resource(id)), plane.find(Some("api")));
    assert_eq!(plane.find_feature("audio"), None);
}

#[test]
fn a_thousand_features_are_found_and_ticked_and_one_more_is_refused() {
    let names: Vec<String> = (0..=1000).map(|number| format!("f{number}")).collect();
    let with =
        |count: usize| names[..count].iter().fold(builder(), |plane, name| plane.feature(on_off(name)));
    assert_eq!(with(1001).build().unwrap_err(), OverloadError::TooManyFeatures { count: 1001 });
    let plane = with(1000).build().unwrap();
    let mut now = START;
    for _ in 0..20 {
        now = now.saturating_add(TICK);
        for name in &names[..1000] {
            let feature = plane.feature(plane.find_feature(name).unwrap());
            assert_eq!(&**feature.name(), name);
            feature.count_offered(plane.request_level(1, Class::Sheddable, None, now));
        }
        plane.tick(now);
    }
    assert_eq!(plane.feature_views(now).len(), 1000);
}

#[test]
fn a_feature_without_levels_is_counted_and_never_degraded() {
    let plane = builder().feature(FeatureConfig::new("search", Class::Sheddable)).build().unwrap();
    let feature = plane.feature(plane.find_feature("search").unwrap());
    let grant = feature.grant(plane.request_level(1, Class::Sheddable, None, START));
    assert!(!grant.is_off && grant.level == 0);
    let work = feature.begin(grant);
    assert_eq!((feature.in_flight(), &**feature.level_name(0)), (1, "on"));
    feature.end(work, None);
    let pinned = plane.pin_feature("search", "off", START.saturating_add(TICK), START);
    assert_eq!(pinned, Err(FeaturePinError::NoLevels { feature: "search".into() }));
    assert!(plane.feature_views(START)[0].levels.is_empty());
}
