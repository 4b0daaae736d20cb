//! Features that degrade and come back without anyone who ticks: requests come seldom, or not at
//! all.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_core::{Class, Reason, Retry};
use tidegate_driver::{Admission, Clock, Driver, EngineHandle, Hold, ManualClock, Verdict};
use tidegate_engine::{Engine, EngineConfig, FeaturePinning, NamespaceConfig, Request};
use tidegate_overload::{
    FeatureConfig, FeatureLevelConfig, LevelThresholds, OnDisable, Overload, ResourceConfig,
};

use crate::world::{NOW, SECOND, let_run};

const PLACES: u64 = 8;
const GRACE: Duration = SECOND;
/// The time between two ticks of the engine.
const TICK: Duration = Duration::from_millis(100);

/// An admission whose feature `images` gives up its levels for other work.
struct SeldomWorld {
    handle: EngineHandle,
    clock: Arc<ManualClock>,
    admission: Admission,
}

impl SeldomWorld {
    fn new() -> Self {
        let mut images = FeatureConfig::new("images", Class::Sheddable);
        images.levels = [("720p", 1.0), ("480p", 0.45), ("off", 0.0)]
            .map(|(name, cost)| FeatureLevelConfig::new(name, cost))
            .into();
        images.on_disable = OnDisable::Cancel { grace: GRACE };
        let overload =
            Overload::builder(7).default_resource(ResourceConfig::new(PLACES)).feature(images).build();
        let engine = Engine::builder(EngineConfig::seeded([1, 2, 3, 4]))
            .namespace(NamespaceConfig::new("default", []))
            .overload(overload.unwrap());
        let handle = EngineHandle::new(engine.build().unwrap());
        let clock = Arc::new(ManualClock::new(NOW));
        let admission = Admission::from(driver(&handle, &clock));
        Self { handle, clock, admission }
    }

    /// Lets time pass, in which tasks run.
    async fn pass(&self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(TICK);
            self.clock.advance(step);
            let_run().await;
            left = left.saturating_sub(step);
        }
    }

    async fn image(&self) -> Verdict {
        self.admission.admit(&Request::new("default", ()).feature("images")).await.unwrap()
    }

    fn level(&self) -> String {
        self.admission.feature("images").unwrap().level().name.to_owned()
    }

    async fn other(&self) -> Hold {
        self.admission.admit(&Request::new("default", ())).await.unwrap().into_result().unwrap()
    }

    /// Switches the feature off by seven other requests that take a tick each, beside an image.
    async fn switch_off(&self) {
        let mut work = VecDeque::new();
        for _ in 0..50 {
            for _ in 1..PLACES {
                work.push_back(self.other().await);
                if work.len() == PLACES as usize {
                    work.pop_front().unwrap().succeeded();
                }
            }
            if let Verdict::Admit(hold) = self.image().await {
                work.push_back(hold);
                work.pop_front().unwrap().succeeded();
            }
            self.pass(TICK).await;
        }
        assert_eq!(self.level(), "off");
        work.into_iter().for_each(Hold::succeeded);
    }
}

fn driver(handle: &EngineHandle, clock: &Arc<ManualClock>) -> Driver {
    Driver::new(handle.clone()).clock(Arc::clone(clock) as Arc<dyn Clock>)
}

#[tokio::test]
async fn one_request_in_five_seconds_is_enough_for_a_feature_to_come_back() {
    let world = SeldomWorld::new();
    world.switch_off().await;
    let mut seen = Vec::new();
    for _ in 0..10 {
        world.pass(5 * SECOND).await;
        seen.push(match world.image().await {
            Verdict::Admit(hold) => {
                hold.succeeded();
                world.level()
            }
            Verdict::Refuse(refusal) => {
                assert_eq!(refusal.reason(), Reason::FeatureDisabled);
                "off".to_owned()
            }
        });
    }
    seen.dedup();
    let back: Vec<_> = seen.iter().filter(|level| *level != "off").collect();
    assert_eq!(back, ["480p", "720p"], "{seen:?}");
}

#[tokio::test]
async fn a_feature_that_nobody_asks_for_is_on_at_the_instant_that_its_refusal_named() {
    let world = SeldomWorld::new();
    world.switch_off().await;
    world.pass(SECOND).await;
    let Verdict::Refuse(refusal) = world.image().await else { panic!("it is off") };
    let Retry::At(at) = refusal.retry() else { panic!("an instant is known") };
    let wait = at.saturating_since(world.clock.now());
    let (dwell, settle) = (FeatureConfig::MIN_DWELL, LevelThresholds::DEFAULT.settle);
    assert!(wait <= dwell.max(settle), "{wait:?}");
    world.pass(wait).await;
    let Verdict::Admit(hold) = world.image().await else { panic!("off after {wait:?}") };
    hold.succeeded();
    assert_eq!(world.level(), "480p");
}

#[tokio::test]
async fn a_feature_degrades_by_work_that_is_long_and_seldom() {
    let world = SeldomWorld::new();
    let mut work = VecDeque::<Hold>::new();
    for _ in 0..4 * PLACES {
        // Each takes 16 s, so that all places are in use after as long.
        world.pass(2 * SECOND).await;
        if work.len() == PLACES as usize {
            work.pop_front().unwrap().succeeded();
        }
        match world.image().await {
            Verdict::Admit(hold) => work.push_back(hold),
            Verdict::Refuse(refusal) => assert_eq!(refusal.reason(), Reason::FeatureDisabled),
        }
    }
    assert_ne!(world.level(), "720p");
}

#[tokio::test]
async fn nothing_comes_back_because_the_program_did_not_run() {
    let world = SeldomWorld::new();
    world.switch_off().await;
    for _ in 0..5 {
        // No task runs in this hour.
        world.clock.advance(Duration::from_hours(1));
        assert!(world.image().await.refusal().is_some());
        let_run().await;
        assert_eq!(world.level(), "off");
    }
    world.pass(FeatureConfig::MIN_DWELL + LevelThresholds::DEFAULT.settle).await;
    assert_ne!(world.level(), "off");
}

#[tokio::test]
async fn work_of_each_driver_of_an_engine_is_cancelled_whichever_of_them_ticks() {
    let world = SeldomWorld::new();
    // The first request starts the ticks of its driver, and the work is that of another one.
    drop(world.image().await);
    let other = Admission::from(driver(&world.handle, &world.clock));
    let request = Request::new("default", ()).feature("images");
    let hold = other.admit(&request).await.unwrap().into_result().unwrap();
    let (_, cancelled) = other.driver().cancellation(hold.permit()).unwrap();
    let cancelled = tokio::spawn(cancelled);
    world.pass(TICK).await;
    let (until, now) = (NOW.saturating_add(60 * SECOND), world.clock.now());
    let (feature, level) = ("images".to_owned(), "off".to_owned());
    let pin = FeaturePinning { feature, level, until, by: None, reason: None };
    world.handle.engine().pin_feature(pin, now).unwrap();
    world.pass(GRACE + 2 * TICK).await;
    assert!(cancelled.is_finished());
}

#[tokio::test]
async fn an_admission_that_is_dropped_is_not_kept_by_its_ticks_and_another_one_goes_on() {
    let mut world = SeldomWorld::new();
    world.switch_off().await;
    world.admission = Admission::from(driver(&world.handle, &world.clock));
    world.pass(SECOND).await;
    assert!(world.image().await.refusal().is_some());
    world.pass(FeatureConfig::MIN_DWELL + LevelThresholds::DEFAULT.settle).await;
    assert_ne!(world.level(), "off");
    let engine = Arc::downgrade(&world.handle.engine());
    let clock = Arc::clone(&world.clock);
    drop(world);
    clock.advance(TICK);
    let_run().await;
    assert!(engine.upgrade().is_none());
}
