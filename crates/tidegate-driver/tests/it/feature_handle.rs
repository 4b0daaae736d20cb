//! Features in code without requests: the level, the guard and its cancellation.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Class, Reason, Retry};
use tidegate_driver::{Admission, Clock, Driver, FeatureGuard, ManualClock};
use tidegate_engine::{Engine, EngineConfig, FeaturePinning, NamespaceConfig, Request};
use tidegate_overload::{
    FeatureConfig, FeatureLevelConfig, FeatureMode, OnDisable, Overload, ResourceConfig,
};

use crate::world::NOW;

const GRACE: Duration = Duration::from_secs(2);

struct FeatureWorld {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    admission: Admission,
}

impl FeatureWorld {
    /// The features `exports`, which cancels its work, `reports`, which finishes it, and `trials`,
    /// which only shows its level.
    fn new() -> Self {
        let feature = |name: &str, on_disable, mode| {
            let mut feature = FeatureConfig::new(name, Class::Sheddable);
            feature.levels = [("full", 1.0), ("480p", 0.3), ("off", 0.0)]
                .map(|(name, cost)| FeatureLevelConfig::new(name, cost))
                .into();
            (feature.on_disable, feature.mode) = (on_disable, mode);
            feature
        };
        let overload = Overload::builder(7)
            .default_resource(ResourceConfig::new(8))
            .feature(feature("exports", OnDisable::Cancel { grace: GRACE }, FeatureMode::Enforce))
            .feature(feature("reports", OnDisable::Finish, FeatureMode::Enforce))
            .feature(feature("trials", OnDisable::Cancel { grace: GRACE }, FeatureMode::Shadow));
        let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4]))
            .namespace(NamespaceConfig::new("default", []))
            .overload(overload.build().unwrap());
        let engine = Arc::new(engine.build().unwrap());
        let clock = Arc::new(ManualClock::new(NOW));
        let driver = Driver::new(Arc::clone(&engine)).clock(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { engine, clock, admission: Admission::from(driver) }
    }

    fn pin(&self, feature: &str, level: &str) {
        let until = self.clock.now().saturating_add(Duration::from_hours(24));
        let (feature, level) = (feature.to_owned(), level.to_owned());
        let pin = FeaturePinning { feature, level, until, by: None, reason: None };
        self.engine.pin_feature(pin, self.clock.now()).unwrap();
    }

    /// Lets time pass tick by tick: a step of seconds would be a machine that was suspended, whose
    /// work has as long as before.
    fn pass(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(Duration::from_millis(100));
            self.clock.advance(step);
            self.admission.driver().tick_if_due(self.clock.now());
            left = left.saturating_sub(step);
        }
    }

    fn in_flight(&self, feature: &str) -> u64 {
        let views = self.engine.feature_views(self.clock.now());
        views.iter().find(|view| *view.name == *feature).unwrap().in_flight
    }
}

#[test]
fn a_handle_sees_each_change_of_the_level_at_once() {
    let world = FeatureWorld::new();
    let exports = world.admission.feature("exports").unwrap();
    let critical = exports.clone().class(Class::CriticalPlus);
    for level in ["full", "480p", "off", "full"] {
        world.pin("exports", level);
        assert_eq!((exports.level().name, exports.level().is_off), (level, level == "off"));
        // The level of all classes, in the scope `global`.
        assert_eq!(critical.level(), exports.level());
    }
    let trials = world.admission.feature("trials").unwrap();
    world.pin("trials", "off");
    assert_eq!((trials.level().name, trials.level().is_off), ("full", false));
    assert!(trials.guard().is_ok());
    assert!(world.admission.feature("unknown").is_none());
}

#[test]
fn a_guard_is_in_flight_until_it_is_dropped_and_a_feature_that_is_off_refuses_it() {
    let world = FeatureWorld::new();
    let exports = world.admission.feature("exports").unwrap();
    world.pin("exports", "480p");
    let guards = [exports.guard().unwrap(), exports.guard().unwrap()];
    assert_eq!((world.in_flight("exports"), guards[0].level_name()), (2, "480p"));
    drop(guards);
    assert_eq!(world.in_flight("exports"), 0);
    world.pin("exports", "off");
    let refusal = exports.guard().unwrap_err();
    assert_eq!((refusal.reason(), refusal.name()), (Reason::FeatureDisabled, "exports"));
    let Retry::At(at) = refusal.retry() else { panic!("an instant is known") };
    assert!(at > world.clock.now());
    assert_eq!(world.in_flight("exports"), 0);
}

#[tokio::test]
async fn a_guard_is_cancelled_once_the_grace_of_its_feature_is_over() {
    let world = FeatureWorld::new();
    let exports = world.admission.feature("exports").unwrap();
    let guard = exports.guard().unwrap();
    let mut cancelled = guard.cancelled();
    assert!(!is_over(&mut cancelled).await);
    world.pin("exports", "off");
    world.pass(GRACE.saturating_sub(Duration::from_millis(1)));
    assert!(!is_over(&mut cancelled).await, "within the grace");
    world.pass(Duration::from_millis(1));
    cancelled.await;
    assert_eq!(world.in_flight("exports"), 1, "the work goes on until its guard is dropped");
}

#[tokio::test]
async fn a_guard_is_not_cancelled_if_its_feature_is_on_again_or_finishes_its_work_or_shows_its_level() {
    let world = FeatureWorld::new();
    let guard = |name| world.admission.feature(name).unwrap().guard().unwrap();
    let guards = ["exports", "reports", "trials"].map(guard);
    let mut cancelled = guards.each_ref().map(FeatureGuard::cancelled);
    for feature in ["exports", "reports", "trials"] {
        world.pin(feature, "off");
    }
    world.pass(GRACE / 2);
    world.pin("exports", "480p");
    world.pass(10 * GRACE);
    for cancelled in &mut cancelled {
        assert!(!is_over(cancelled).await);
    }
}

/// The permit of a request with a place is cancelled as a guard is.
#[tokio::test]
async fn the_permit_of_a_request_is_cancelled_as_a_guard_is() {
    let world = FeatureWorld::new();
    let request = Request::new("default", ()).feature("exports");
    let hold = world.admission.admit(&request).await.unwrap().into_result().unwrap();
    let driver = world.admission.driver();
    let (work, mut cancelled) = driver.cancellation(hold.permit()).unwrap();
    assert_eq!(work.feature(), "exports");
    world.pin("exports", "off");
    driver.publish_feature_changes();
    assert!(!is_over(&mut cancelled).await, "within the grace");
    world.pass(GRACE);
    cancelled.await;
    let refusal = world.engine.cancelled_work(&work, "default", world.clock.now()).unwrap();
    assert_eq!((refusal.reason(), &*refusal.namespace), (Reason::FeatureDisabled, "default"));
    hold.cancelled();
    assert_eq!(world.in_flight("exports"), 0);
}

/// Whether a future is over once everything has run that can.
async fn is_over(future: &mut tidegate_driver::Cancellation) -> bool {
    for _ in 0..4 {
        tokio::task::yield_now().await;
        if poll_once(future).await {
            return true;
        }
    }
    false
}

async fn poll_once(future: &mut tidegate_driver::Cancellation) -> bool {
    core::future::poll_fn(|context| core::task::Poll::Ready(future.as_mut().poll(context).is_ready())).await
}
