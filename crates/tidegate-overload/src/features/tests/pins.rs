//! Pins of operators, and features that only show their level.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::fluid::FluidService;
use super::world::feature;
use crate::{FEATURE_PIN_MAX, FeatureConfig, FeatureEvent, FeatureMode, FeaturePinError, FeatureReason};

const LEVELS: [(&str, f64); 3] = [("full", 1.0), ("480p", 0.3), ("off", 0.0)];

fn fluid(config: FeatureConfig) -> FluidService {
    let flows = [(None, Class::Critical), (Some("video"), Class::Sheddable)];
    FluidService::new(|config| config, vec![config], &flows, 0.0, 1)
}

fn level(fluid: &FluidService) -> String {
    fluid.overload.feature_views(fluid.now)[0].level_name.to_string()
}

#[test]
fn a_pin_holds_its_level_at_once_and_the_control_goes_on_from_it() {
    let mut fluid = fluid(feature("video", Class::Sheddable, &LEVELS));
    fluid.run(10.0, |_| vec![0.30, 0.20]);
    let until = fluid.now.saturating_add(Duration::from_secs(30));
    fluid.overload.pin_feature("video", "480p", until, fluid.now).unwrap();
    assert_eq!(level(&fluid), "480p");
    // Within `min_dwell`, too.
    fluid.overload.pin_feature("video", "off", until, fluid.now).unwrap();
    assert_eq!(level(&fluid), "off");
    let view = &fluid.overload.feature_views(fluid.now)[0];
    assert_eq!(view.reason, FeatureReason::Pinned);
    fluid.run(29.0, |_| vec![0.30, 0.20]);
    assert_eq!(level(&fluid), "off", "there is room, and the pin holds");
    fluid.run(2.0, |_| vec![0.30, 0.20]);
    assert!(
        fluid.events.iter().any(|event| matches!(event, FeatureEvent::Unpinned { has_expired: true, .. }))
    );
    fluid.run(20.0, |_| vec![0.30, 0.20]);
    assert_eq!(level(&fluid), "full", "one level after the other: {:?}", fluid.events);
    let far = fluid.now.saturating_add(Duration::from_hours(1));
    fluid.overload.pin_feature("video", "full", far, fluid.now).unwrap();
    fluid.run(10.0, |_| vec![0.80, 0.19]);
    assert_eq!(level(&fluid), "full", "no load degrades a pinned feature");
    fluid.overload.unpin_feature("video", fluid.now).unwrap();
    fluid.run(3.0, |_| vec![0.70, 0.19]);
    assert_ne!(level(&fluid), "full");
}

#[test]
fn a_pin_without_sense_changes_nothing_and_says_why() {
    let fluid = fluid(feature("video", Class::Sheddable, &LEVELS));
    let now = Timestamp::from_secs(1_800_000_000);
    let pin =
        |name: &str, level: &str, until| fluid.overload.pin_feature(name, level, until, now).unwrap_err();
    let later = now.saturating_add(Duration::from_mins(1));
    assert_eq!(pin("vidio", "off", later).to_string(), "feature \"vidio\" does not exist; use one of: video");
    assert_eq!(
        pin("video", "720p", later).to_string(),
        "feature \"video\" has no level \"720p\"; use one of: full, 480p, off"
    );
    assert_eq!(
        pin("video", "off", now),
        FeaturePinError::Past { feature: "video".into(), ago: Duration::ZERO }
    );
    let too_late = now.saturating_add(FEATURE_PIN_MAX + Duration::from_nanos(1));
    assert!(matches!(pin("video", "off", too_late), FeaturePinError::TooLong { .. }));
    assert!(fluid.overload.unpin_feature("vidio", now).is_err());
    assert_eq!(level(&fluid), "full");
    assert!(fluid.overload.take_feature_events().is_empty());
}

#[test]
fn a_feature_in_shadow_mode_shows_its_level_and_admits_at_the_best_one() {
    let config = FeatureConfig { mode: FeatureMode::Shadow, ..feature("video", Class::Sheddable, &LEVELS) };
    let mut fluid = fluid(config);
    fluid.run(10.0, |_| vec![0.50, 0.20]);
    fluid.run(20.0, |_| vec![0.65, 0.20]);
    // One step is enough, whatever the load is: it would have been released.
    assert_eq!((level(&fluid).as_str(), fluid.transitions()), ("480p", 1), "{:?}", fluid.events);
    assert!((fluid.load - 0.85).abs() < 0.02, "nothing is released: {}", fluid.load);
    let feature = fluid.overload.feature(fluid.overload.find_feature("video").unwrap());
    let grant = feature.grant(fluid.overload.request_level(1, Class::Sheddable, None, fluid.now));
    assert!(grant.is_shadow && !grant.is_refused());
    assert_eq!((grant.level, grant.level_in_force()), (1, 0));
    fluid.run(20.0, |_| vec![0.40, 0.20]);
    assert_eq!((level(&fluid).as_str(), fluid.transitions()), ("full", 2));
}
