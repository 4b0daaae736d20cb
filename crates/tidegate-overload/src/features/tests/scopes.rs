//! Features whose classes or tenants have levels of their own, and work whose end is not known.

use core::time::Duration;

use tidegate_core::{Class, Timestamp};

use super::fluid::FluidService;
use super::world::{START, feature};
use crate::{
    FeatureConfig, FeatureScope, OnDisable, Overload, PushedValue, RequestRecord, ResourceConfig,
    SignalConfig, SignalSource, TICK,
};

const LEVELS: [(&str, f64); 3] = [("full", 1.0), ("half", 0.5), ("off", 0.0)];

#[test]
fn a_lower_class_of_requests_degrades_first_and_one_above_the_feature_never() {
    let config = FeatureConfig { scope: FeatureScope::Class, ..feature("video", Class::Critical, &LEVELS) };
    let flows = Class::ALL.map(|class| (Some("video"), class));
    let mut fluid = FluidService::new(|config| config, vec![config], &flows, 0.0, 1);
    let levels = |fluid: &FluidService| fluid.overload.feature_views(fluid.now)[0].class_levels;
    fluid.run(20.0, |_| vec![0.15, 0.15, 0.15, 0.15]);
    fluid.run(5.0, |_| vec![0.22, 0.22, 0.22, 0.22]);
    assert_eq!(levels(&fluid), [1, 0, 0, 0]);
    fluid.run(15.0, |_| vec![0.30, 0.30, 0.30, 0.30]);
    assert_eq!(levels(&fluid), [2, 1, 0, 0]);
    fluid.run(30.0, |_| vec![0.0, 0.0, 0.70, 0.75]);
    let after = levels(&fluid);
    assert_eq!((after[2] > 0, after[3]), (true, 0), "{:?}", fluid.events);
    fluid.run(120.0, |_| vec![0.05, 0.05, 0.05, 0.05]);
    assert_eq!(levels(&fluid), [0; 4]);
}

#[test]
fn a_class_that_goes_off_does_not_prolong_the_grace_of_one_that_is_off() {
    let grace = Duration::from_secs(8);
    let mut config = feature("video", Class::Critical, &[("on", 1.0), ("off", 0.0)]);
    (config.scope, config.on_disable) = (FeatureScope::Class, OnDisable::Cancel { grace });
    let flows = Class::ALL.map(|class| (Some("video"), class));
    let mut fluid = FluidService::new(|config| config, vec![config], &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.15, 0.15, 0.15, 0.15]);
    let feature = fluid.overload.feature(fluid.overload.find_feature("video").unwrap());
    let grants =
        Class::ALL.map(|class| feature.grant(fluid.overload.request_level(1, class, Some("t"), fluid.now)));
    let works = grants.map(|grant| feature.begin(grant));
    fluid.run(3.0, |_| vec![0.22, 0.22, 0.22, 0.22]);
    fluid.run(2.0, |_| vec![0.30, 0.30, 0.30, 0.30]);
    let at: Vec<_> = fluid.changes().map(|change| (change.class, change.at)).collect();
    assert_eq!((at.len(), at[0].0, at[1].0), (2, Some(Class::Sheddable), Some(Class::SheddablePlus)));
    let feature = fluid.overload.feature(fluid.overload.find_feature("video").unwrap());
    let cancelled = grants.map(|grant| feature.cancel_at(grant));
    let after = |at: Timestamp| Some(at.saturating_add(grace));
    assert_eq!(cancelled, [after(at[0].1), after(at[1].1), None, None]);
    for work in works {
        feature.end(work, None);
    }
}

#[test]
fn a_step_moves_as_many_tenants_as_the_need_asks_for() {
    let config = FeatureConfig { scope: FeatureScope::Tenant, ..feature("video", Class::Sheddable, &LEVELS) };
    let flows = [(None, Class::Critical), (Some("video"), Class::Sheddable)];
    let mut fluid = FluidService::new(|config| config, vec![config], &flows, 0.0, 1);
    fluid.run(20.0, |_| vec![0.30, 0.40]);
    fluid.run(15.0, |_| vec![0.44, 0.40]);
    let view = &fluid.overload.feature_views(fluid.now)[0];
    // 0.04 of the 0.20 that half a picture for all would give.
    assert!(view.level == 1 && (10..60).contains(&view.moved), "{view:?}");
    assert!((0.70..=0.82).contains(&fluid.mean_load(3)), "{}", fluid.mean_load(3));
    let feature = fluid.overload.feature(view.id);
    let level = |tenant: u32| {
        let tenant = format!("t{tenant}");
        let level = fluid.overload.request_level(1, Class::Sheddable, Some(&tenant), fluid.now);
        (level.cohort(), feature.grant(level).level)
    };
    assert!((0..50).map(level).all(|(cohort, level)| (level == 1) == (cohort < view.moved)));
    fluid.run(60.0, |_| vec![0.20, 0.40]);
    let view = &fluid.overload.feature_views(fluid.now)[0];
    assert_eq!((view.level, view.moved), (0, 0), "{:?}", fluid.events);
}

#[test]
fn work_without_a_known_end_has_its_footprint_in_units_of_what_is_served() {
    let cpu = SignalConfig { target: 1.0, ..SignalConfig::new("cpu", SignalSource::Pushed) };
    let overload = Overload::builder(7)
        .default_resource(ResourceConfig::new(100))
        .signal(cpu)
        .feature(feature("export", Class::Sheddable, &LEVELS))
        .build()
        .unwrap();
    let resource = overload.find(None).unwrap();
    let mut now = START;
    let export = overload.find_feature("export").unwrap();
    let mut run = |seconds: u64, others: u64| {
        for _ in 0..seconds * 10 {
            let mut units = 0.0;
            let level = overload.request_level(1, Class::Sheddable, Some("t"), now);
            for number in 0..others + 2 {
                let grant = overload.feature(export).grant(level);
                let is_export = number < 2;
                if is_export {
                    overload.feature(export).count_offered(level);
                    if grant.is_refused() {
                        continue;
                    }
                }
                let mut record = RequestRecord::new(resource, level);
                overload.offer(&mut record, now);
                assert!(overload.pace(&mut record, now).is_none());
                overload.end(record, crate::OfferOutcome::Admitted);
                if is_export {
                    let cost: u32 = if grant.level == 0 { 20 } else { 10 };
                    overload.feature(export).count_units(grant, cost.into());
                    units += f64::from(cost);
                } else {
                    units += 1.0;
                }
            }
            overload.push_signal("cpu", PushedValue::new(units / 100.0), now).unwrap();
            overload.tick(now);
            now = now.saturating_add(TICK);
        }
        overload.feature_views(now)[0].clone()
    };
    // 40 units of the export and 30 of others in each tick of 100.
    let view = run(20, 30);
    assert!((view.footprint - 0.40).abs() < 0.02, "{view:?}");
    let view = run(10, 50);
    assert_eq!(view.level, 1, "half of it is enough for 0.90: {view:?}");
    assert!((view.footprint - 0.20).abs() < 0.02, "{view:?}");
    assert!((view.footprint_better.unwrap() - 0.40).abs() < 0.04, "{view:?}");
    assert_eq!(run(20, 50).level, 1, "0.90 does not fit");
    assert_eq!(run(20, 25).level, 0, "0.65 does");
    assert!(view.earliest.unwrap() >= view.since.unwrap().saturating_add(Duration::from_secs(10)));
}
