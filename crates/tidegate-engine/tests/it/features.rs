//! Features with levels, as requests meet them, whatever the source of the requests is.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_core::{
    CarriedLimit, Charging, Class, Cost, Plane, Reason, RefusalDetails, RequestOutcome, Retry, Timestamp,
};
use tidegate_engine::{
    AdminError, Answered, Engine, FeaturePinError, FeaturePinning, GrantedFeature, MeterConfig,
    NamespaceConfig, OfferOutcome, Outcome, Permit, Request, RowName,
};
use tidegate_overload::{FeatureMode, OnDisable, Overload, ResourceConfig};
use tidegate_store::{Note, NoteChange, NoteKind};

use crate::world::{NOW, Room, World, bucket, config, done, request, thumbnails};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

pub(crate) fn pin(level: &str, until: Timestamp) -> FeaturePinning {
    let (by, reason) = (Some("ada".to_owned()), Some("incident 7".to_owned()));
    FeaturePinning { feature: "thumbnails".to_owned(), level: level.to_owned(), until, by, reason }
}

/// Pins the feature for a minute; the note for the store.
fn pinned(world: &World, level: &str) -> Note {
    let now = world.now();
    match world.engine.pin_feature(pin(level, now.saturating_add(MINUTE)), now).unwrap() {
        NoteChange::Put(note) => note,
        other => panic!("a pin is a note that is kept: {other:?}"),
    }
}

fn asks() -> Request<'static> {
    request().feature("thumbnails")
}

fn in_flight(world: &World) -> u64 {
    world.engine.feature_views(world.now())[0].in_flight
}

/// The instant from which the work of a permit is to be cancelled.
fn cancel_at(world: &World, permit: &Permit) -> Option<Timestamp> {
    world.engine.cancellable_work(permit).and_then(|work| world.engine.cancel_at(&work))
}

#[test]
fn a_request_is_told_the_level_of_its_feature_and_refused_where_that_is_off() {
    let world = World::new(Room::WIDE);
    for level in ["full", "480p"] {
        let _note = pinned(&world, level);
        for ask in [asks(), asks().end_unknown()] {
            let permit = world.begin(&ask).admitted();
            let granted = GrantedFeature { name: "thumbnails", level };
            assert_eq!(world.engine.granted_feature(&permit), Some(granted));
            world.finish(world.engine.settle(permit, Outcome::Succeeded, world.now()));
        }
    }
    let before = world.state();
    let _note = pinned(&world, "off");
    let refusal = world.begin(&asks()).refused();
    assert_eq!((refusal.reason(), refusal.plane()), (Reason::FeatureDisabled, Plane::Overload));
    assert_eq!(refusal.name(), "thumbnails");
    let Some(RefusalDetails::Feature(details)) = refusal.details.as_deref() else { panic!("{refusal:?}") };
    assert_eq!((&*details.feature, &*details.level, &details.resource), ("thumbnails", "off", &None));
    let Retry::At(until) = refusal.retry() else { panic!("it may come back: {refusal:?}") };
    assert_eq!(until, world.now().saturating_add(MINUTE), "not before its pin ends");
    // Nothing is charged, and the resource has had no demand.
    let after = world.state();
    assert_eq!((before.0, before.1, before.2), (after.0, after.1, after.2));
    let stats = world.stats();
    assert_eq!((stats.count(OfferOutcome::Disabled), stats.undecided()), (1, 0));
    // Another feature, an unknown one and none at all are served.
    for other in [request(), request().feature("search"), request().feature("")] {
        let permit = world.begin(&other).admitted();
        assert_eq!(world.engine.granted_feature(&permit), None);
    }
}

#[test]
fn a_feature_is_in_flight_as_long_as_its_place_is_held() {
    let world = World::new(Room::WIDE);
    let (settled, dropped) = (world.begin(&asks()).admitted(), world.begin(&asks()).admitted());
    let undone = world.begin(&asks()).admitted();
    assert_eq!(in_flight(&world), 3);
    world.finish(world.engine.settle(settled, Outcome::Succeeded, world.now()));
    assert_eq!(in_flight(&world), 2);
    drop(dropped);
    world.finish(world.engine.settle(undone, Outcome::Cancelled, world.now()));
    assert_eq!(in_flight(&world), 0);
    // Work whose end nobody reports is in flight nowhere, and a permit that is kept is until it is
    // settled.
    drop(world.begin(&asks().end_unknown()).admitted());
    let permit = world.begin(&asks()).admitted();
    let id = world.carry(world.engine.keep(permit, world.now().saturating_add(MINUTE), world.now())).unwrap();
    assert_eq!(in_flight(&world), 1);
    world.finish(world.engine.settle_kept(id, Outcome::Succeeded, world.now()).unwrap());
    assert_eq!(in_flight(&world), 0);
}

#[test]
fn a_request_that_waits_meets_the_level_at_its_turn() {
    let world = World::new(Room { in_flight: 1, ..Room::WIDE });
    let until = NOW.saturating_add(MINUTE);
    for level in ["480p", "off"] {
        let held = world.begin(&request()).admitted();
        let waiting = world.begin(&asks().may_wait_until(until)).waits();
        let _note = pinned(&world, level);
        world.finish(world.engine.settle(held, Outcome::Succeeded, world.now()));
        let stage = world.go_on(world.engine.resume(waiting, Answered::Turn, world.now()));
        if level == "off" {
            assert_eq!(stage.refused().reason(), Reason::FeatureDisabled);
        } else {
            let permit = stage.admitted();
            assert_eq!(world.engine.granted_feature(&permit).unwrap().level, level);
        }
        assert_eq!((world.engine.waiting(), in_flight(&world)), (0, 0));
    }
    // A feature that is off is not waited for.
    assert_eq!(world.begin(&asks().may_wait_until(until)).refused().reason(), Reason::FeatureDisabled);
    let stats = world.stats();
    assert_eq!((stats.count(OfferOutcome::Disabled), stats.undecided()), (2, 0));
}

#[test]
fn a_batch_and_limits_that_arrive_with_a_request_meet_the_level_as_well() {
    let world = World::new(Room::WIDE);
    let _note = pinned(&world, "480p");
    let both = [request(), asks()];
    let permit = world.go_on(world.engine.admit_all(&both, world.now()).unwrap()).admitted();
    let levels: Vec<_> =
        world.engine.granted_features(&permit).map(|one| one.map(|granted| granted.level)).collect();
    assert_eq!(levels, [None, Some("480p")]);
    drop(permit);
    let _note = pinned(&world, "off");
    let refused = world.go_on(world.engine.admit_all(&both, world.now()).unwrap()).refused();
    assert_eq!(refused.reason(), Reason::FeatureDisabled);
    let algorithm = bucket(10, SECOND);
    let key: &[&[u8]] = &[b"k"];
    let limit = CarriedLimit { key: Cow::Borrowed(key), algorithm: Cow::Borrowed(&algorithm), cost: 1 };
    let carried = world.engine.carry(&asks(), &[limit], Charging::AllOrNone, world.now());
    let carried = world.carry(carried).unwrap();
    assert!(!carried.is_admitted);
    assert_eq!(carried.refusal.unwrap().reason(), Reason::FeatureDisabled);
    assert_eq!((world.stats().undecided(), in_flight(&world)), (0, 0));
}

#[test]
fn a_look_shows_the_level_and_counts_nothing() {
    let world = World::new(Room::WIDE);
    for (level, is_off) in [("480p", false), ("off", true)] {
        let _note = pinned(&world, level);
        let before = (world.state(), world.stats().offered);
        let peek = world.carry(world.engine.peek(&asks(), world.now())).unwrap();
        let feature = peek.feature.unwrap();
        assert_eq!((&*feature.name, &*feature.level), ("thumbnails", level));
        assert_eq!((feature.is_off, feature.retry_at.is_some()), (is_off, is_off));
        assert_eq!(peek.refusal.map(|refusal| refusal.reason()), is_off.then_some(Reason::FeatureDisabled));
        let explained = world.carry(world.engine.explain(&asks(), world.now())).unwrap();
        assert_eq!(explained.is_refused(), is_off);
        assert_eq!(&*explained.load.unwrap().feature.unwrap().level, level);
        assert_eq!((world.state(), world.stats().offered), before);
    }
    let peek = world.carry(world.engine.peek(&request().feature("search"), world.now())).unwrap();
    assert!(peek.feature.is_none() && peek.refusal.is_none());
}

/// An engine with a meter, two resources and the feature on the first of them.
fn two_resources(mode: FeatureMode, on_disable: OnDisable) -> Engine {
    let mut feature = thumbnails();
    (feature.resource, feature.mode, feature.on_disable) = (Some("app".to_owned()), mode, on_disable);
    let overload = Overload::builder(7)
        .resource("app", ResourceConfig::new(100))
        .resource("other", ResourceConfig::new(100))
        .feature(feature)
        .build();
    let builder = Engine::builder(config()).namespace(NamespaceConfig::new("api", []));
    let builder = builder.overload(overload.unwrap()).metering(MeterConfig::default(), NOW);
    builder.features(["thumbnails"]).build().unwrap()
}

#[test]
fn a_feature_speaks_of_work_at_its_own_resource_only() {
    let world = World::of(two_resources(FeatureMode::Enforce, OnDisable::Finish));
    let _note = pinned(&world, "off");
    let ask = Request::new("api", ()).class(Class::Critical).feature("thumbnails");
    assert_eq!(world.begin(&ask.resource("app")).refused().reason(), Reason::FeatureDisabled);
    for elsewhere in [ask, ask.resource("other")] {
        let permit = world.begin(&elsewhere).admitted();
        assert_eq!((world.engine.granted_feature(&permit), in_flight(&world)), (None, 0));
    }
    let usage = world.engine.usage().unwrap();
    let api = usage.namespaces.iter().find(|row| row.name == RowName::Named("api".into())).unwrap();
    let counted = |outcome: RequestOutcome| -> u64 {
        api.classes.iter().map(|class| class.outcomes[outcome.index()]).sum()
    };
    assert_eq!((counted(RequestOutcome::Disabled), counted(RequestOutcome::Admitted)), (1, 2));
}

#[test]
fn a_feature_in_shadow_mode_refuses_nobody_and_tells_nobody() {
    let world = World::of(two_resources(FeatureMode::Shadow, OnDisable::Finish));
    let _note = pinned(&world, "off");
    let ask = Request::new("api", ()).resource("app").feature("thumbnails");
    let permit = world.begin(&ask).admitted();
    assert_eq!(world.engine.granted_feature(&permit), None);
    assert_eq!((in_flight(&world), cancel_at(&world, &permit)), (1, None));
    let report = done(world.engine.peek(&ask, world.now())).feature.unwrap();
    assert!(report.is_off && report.is_shadow, "{report:?}");
}

#[test]
fn work_of_a_feature_that_is_switched_off_is_to_end_when_its_grace_is_over() {
    let cancel = OnDisable::Cancel { grace: 2 * SECOND };
    let world = World::of(two_resources(FeatureMode::Enforce, cancel));
    let ask = Request::new("api", ()).resource("app");
    let (work, other) = (world.begin(&ask.feature("thumbnails")).admitted(), world.begin(&ask).admitted());
    assert_eq!(cancel_at(&world, &work), None);
    world.advance(SECOND);
    let _note = pinned(&world, "off");
    assert_eq!(cancel_at(&world, &work), Some(NOW.saturating_add(3 * SECOND)));
    assert_eq!(cancel_at(&world, &other), None);
    let _note = pinned(&world, "480p");
    assert_eq!(cancel_at(&world, &work), None, "it is on again before its grace is over");
}

#[test]
fn a_pin_outlives_a_restart_and_ends_where_its_note_is_gone() {
    let world = World::new(Room::WIDE);
    let note = pinned(&world, "480p");
    assert_eq!((note.kind, note.until), (NoteKind::FeaturePin, NOW.saturating_add(MINUTE)));
    let another = World::new(Room::WIDE);
    let level = |world: &World| world.engine.feature_views(world.now())[0].level_name.to_string();
    another.engine.restore_feature_pins(core::slice::from_ref(&note), NOW).unwrap();
    assert_eq!(level(&another), "480p");
    assert_eq!(another.engine.feature_pins(NOW), [pin("480p", NOW.saturating_add(MINUTE))]);
    // The same notes again change nothing; others that cannot be read do not keep them from it.
    let broken = Note { value: [0xff; 3].into(), ..note.clone() };
    assert!(another.engine.restore_feature_pins(&[broken, note.clone()], NOW).is_err());
    assert_eq!(another.engine.feature_pins(NOW).len(), 1);
    another.engine.restore_feature_pins(&[], NOW).unwrap();
    assert!(another.engine.feature_pins(NOW).is_empty());
    assert!(another.engine.feature_views(NOW)[0].pin.is_none());
    let _note = pinned(&world, "off");
    let forgotten = world.engine.unpin_feature("thumbnails", NOW).unwrap();
    let Retry::At(until) = world.begin(&asks()).refused().retry() else { panic!("an instant is known") };
    assert!(until < NOW.saturating_add(SECOND), "its pin has ended: {until}");
    assert_eq!(forgotten, NoteChange::Remove { kind: NoteKind::FeaturePin, name: note.name });
}

#[test]
fn a_pin_that_makes_no_sense_changes_nothing() {
    let world = World::new(Room::WIDE);
    let later = NOW.saturating_add(MINUTE);
    let fails = |pin: FeaturePinning| match world.engine.pin_feature(pin, NOW) {
        Err(AdminError::FeaturePin(error)) => error,
        other => panic!("{other:?}"),
    };
    assert!(matches!(fails(pin("720p", later)), FeaturePinError::UnknownLevel { .. }));
    assert!(matches!(fails(pin("off", NOW)), FeaturePinError::Past { .. }));
    let months = NOW.saturating_add(Duration::from_hours(24 * 31));
    assert!(matches!(fails(pin("off", months)), FeaturePinError::TooLong { .. }));
    let unknown = FeaturePinning { feature: "thumbs".to_owned(), ..pin("off", later) };
    assert!(matches!(fails(unknown), FeaturePinError::UnknownFeature { .. }));
    let wordy = FeaturePinning { reason: Some("x".repeat(300)), ..pin("off", later) };
    assert!(matches!(
        world.engine.pin_feature(wordy, NOW),
        Err(AdminError::FeaturePinText { what: "reason", bytes: 300 })
    ));
    assert!(world.engine.feature_pins(NOW).is_empty());
    assert_eq!(&*world.engine.feature_views(NOW)[0].level_name, "full");
    let without_plane = Engine::builder(config()).namespace(NamespaceConfig::new("api", [])).build().unwrap();
    assert!(without_plane.pin_feature(pin("off", later), NOW).is_err());
    assert!(without_plane.feature_views(NOW).is_empty());
    let cost = Request::new("api", ()).feature("thumbnails").cost(Cost::ONE);
    drop(World::of(without_plane).begin(&cost).admitted());
}
