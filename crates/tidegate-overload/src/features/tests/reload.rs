//! Other settings while features are degraded.

use core::time::Duration;

use tidegate_core::Class;

use super::world::{START, feature};
use crate::{FeatureCause, FeatureConfig, FeatureEvent, Overload, OverloadBuilder, ResourceConfig, TICK};

fn builder() -> OverloadBuilder {
    Overload::builder(7).default_resource(ResourceConfig::new(10)).resource("api", ResourceConfig::new(10))
}

fn video(levels: &[(&str, f64)]) -> FeatureConfig {
    feature("video", Class::Sheddable, levels)
}

const LEVELS: [(&str, f64); 4] = [("1080p", 1.0), ("720p", 0.5), ("480p", 0.25), ("off", 0.0)];

/// A plane whose feature is pinned to 720p.
fn pinned() -> Overload {
    let plane = builder().feature(video(&LEVELS)).build().unwrap();
    plane.pin_feature("video", "720p", START.saturating_add(Duration::from_mins(1)), START).unwrap();
    let _ = plane.take_feature_events();
    plane
}

fn level(plane: &Overload) -> String {
    plane.feature_views(START)[0].level_name.to_string()
}

#[test]
fn a_level_is_kept_by_its_name_else_it_is_the_best_that_costs_no_more() {
    let after =
        |levels: &[(&str, f64)]| level(&builder().feature(video(levels)).build_over(&pinned()).unwrap());
    assert_eq!(after(&[("2160p", 1.0), ("1080p", 0.8), ("720p", 0.1), ("off", 0.0)]), "720p");
    assert_eq!(after(&[("1080p", 1.0), ("half", 0.5), ("low", 0.2), ("off", 0.0)]), "half");
    assert_eq!(after(&[("1080p", 1.0), ("most", 0.9), ("low", 0.4), ("off", 0.0)]), "low");
    assert_eq!(after(&[("1080p", 1.0), ("most", 0.9)]), "most", "no level is as cheap: the worst one");
    assert_eq!(after(&[]), "on");
}

#[test]
fn a_pin_goes_on_at_its_level_and_ends_with_it() {
    let kept = builder().feature(video(&[("720p", 1.0), ("off", 0.0)])).build_over(&pinned()).unwrap();
    let view = &kept.feature_views(START)[0];
    assert_eq!((view.pin.map(|pin| pin.level), &*view.level_name), (Some(0), "720p"));
    let gone = builder().feature(video(&[("full", 1.0), ("off", 0.0)])).build_over(&pinned()).unwrap();
    assert_eq!(gone.feature_views(START)[0].pin, None);
    gone.tick(START);
    gone.tick(START.saturating_add(TICK));
    let reloaded = gone.take_feature_events().into_iter().find_map(|event| match event {
        FeatureEvent::Changed(change) => Some(change),
        _ => None,
    });
    let reloaded = reloaded.unwrap();
    assert_eq!((&*reloaded.from, &*reloaded.to, reloaded.cause), ("720p", "off", FeatureCause::Reload));
}

#[test]
fn work_of_a_feature_that_is_removed_or_changed_can_end() {
    let plane = pinned();
    let id = plane.find_feature("video").unwrap();
    let level = plane.request_level(1, Class::Sheddable, None, START);
    let begin = || plane.feature(id).begin(plane.feature(id).grant(level));
    let (first, second, third) = (begin(), begin(), begin());
    let changed = builder().feature(video(&[("720p", 1.0), ("off", 0.0)])).build_over(&plane).unwrap();
    assert_eq!(changed.find_feature("video"), Some(id));
    changed.feature(id).end(first, Some(Duration::from_secs(9)));
    assert_eq!(changed.feature(id).in_flight(), 2);
    let removed = builder().build_over(&changed).unwrap();
    assert_eq!((removed.find_feature("video"), removed.features().count()), (None, 0));
    removed.feature(id).end(second, None);
    // Others may have its number only once its work has ended.
    let others: Vec<_> =
        (0..3).map(|number| feature(&format!("f{number}"), Class::Sheddable, &LEVELS)).collect();
    let again =
        others.iter().cloned().fold(builder(), OverloadBuilder::feature).build_over(&removed).unwrap();
    assert!(again.features().all(|(other, _)| other != id));
    again.feature(id).end(third, None);
    let back = others.into_iter().fold(builder(), OverloadBuilder::feature).feature(video(&LEVELS));
    let back = back.build_over(&again).unwrap();
    let feature = back.feature(back.find_feature("video").unwrap());
    assert_eq!((feature.in_flight(), feature.worst_level()), (0, 0), "it starts anew");
}

#[test]
fn a_feature_that_moves_to_another_resource_keeps_its_level() {
    let plane = pinned();
    let moved = FeatureConfig { resource: Some("api".into()), ..video(&LEVELS) };
    let moved = builder().feature(moved).build_over(&plane).unwrap();
    let id = moved.find_feature("video").unwrap();
    assert_eq!(Some(moved.feature_resource(id)), moved.find(Some("api")));
    assert_eq!(level(&moved), "720p");
    let mut now = START;
    for _ in 0..10 {
        now = now.saturating_add(TICK);
        moved.tick(now);
    }
    assert_eq!(level(&moved), "720p");
}
