//! The state that a store remembers over a restart of a member.

use core::time::Duration;

use tidegate_core::algorithm::Concurrency;
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Cost, Limit};
use tidegate_engine::{Completion, Outcome, PermitId, Refunded, Request, RequestError};
use tidegate_store::{Note, NoteKind};

use crate::reload::MINUTE;
use crate::world::{USER, World, bucket, store_config, stored_by};

const HOUR: Duration = Duration::from_hours(1);

fn limits() -> Vec<Limit> {
    let exact =
        |name: &str, algorithm| Limit::new(name, algorithm).key(["user"]).consistency(Consistency::Exact);
    vec![
        Limit::new("rate", bucket(100, MINUTE)).key(["user"]),
        exact("quota", bucket(50, HOUR)),
        exact("parallel", Algorithm::Concurrency(Concurrency::new(2, HOUR).unwrap())),
    ]
}

/// The same store, asked by a member that was started anew with what the notes say.
fn restarted(mut world: World) -> World {
    // Another seed at each start: batches are counted from it, and the store remembers those of
    // before.
    let seed = [world.store.stats().answers as u64, 6, 7, 8];
    let mut config = store_config();
    config.table.seed = seed;
    let again = stored_by(config, limits()).build().unwrap();
    for note in world.store.notes_now(NoteKind::Refund) {
        again.restore_refund(&note, world.now()).unwrap();
    }
    for note in world.store.notes_now(NoteKind::Block) {
        assert!(again.restore_block(&note, world.now()).unwrap());
    }
    for note in world.store.notes_now(NoteKind::Permit) {
        again.restore_permit(&note).unwrap();
    }
    world.engine = again;
    world
}

fn reserve(world: &World, units: u64) -> PermitId {
    let permit = world.admit(units).unwrap();
    let expires = world.now().saturating_add(MINUTE);
    world.carry(world.engine.keep(permit, expires, world.now())).unwrap()
}

fn settle(world: &World, id: PermitId, completion: impl Into<Completion>) -> Result<(), RequestError> {
    world.finish(world.engine.settle_kept(id, completion, world.now())?);
    Ok(())
}

fn left(world: &World) -> Vec<u64> {
    world.left().into_iter().map(|(_, left)| left).collect()
}

#[test]
fn a_refund_is_applied_once_across_a_restart() {
    let world = World::with_limits(limits());
    drop(world.admit(20));
    let request = Request::new("api", &USER).cost(Cost::new(5).unwrap());
    world.carry(world.engine.refund(&request, "order-1", world.now())).unwrap();
    let world = restarted(world);
    let again = world.carry(world.engine.refund(&request, "order-1", world.now())).unwrap();
    assert_eq!((again, left(&world)[1]), (Refunded::AlreadyApplied, 35));
    world.advance(tidegate_engine::REFUND_KEY_KEPT);
    let world = restarted(world);
    let later = world.carry(world.engine.refund(&request, "order-1", world.now())).unwrap();
    assert_eq!(later, Refunded::Applied, "an hour later it is another refund");
}

#[test]
fn a_block_on_a_local_limit_holds_until_its_instant_across_a_restart_and_a_reset_ends_it_for_good() {
    let world = World::with_limits(limits());
    let request = Request::new("api", &USER);
    let until = world.now().saturating_add(MINUTE);
    world.carry(world.engine.block(&request, "rate", until, world.now())).unwrap();
    let world = restarted(world);
    assert!(world.admit(1).is_none());
    world.carry(world.engine.reset(&request, Some("rate"), world.now())).unwrap();
    assert!(restarted(world).admit(1).is_some());
    let world = World::with_limits(limits());
    world.carry(world.engine.block(&request, "rate", until, world.now())).unwrap();
    world.advance(MINUTE);
    let world = restarted(world);
    assert!(world.admit(1).is_some());
    world.carry(world.engine.block(&request, "rate", until.saturating_add(MINUTE), world.now())).unwrap();
    world.carry(world.engine.block(&request, "rate", tidegate_core::Timestamp::MIN, world.now())).unwrap();
    let told = world.store.notes_now(NoteKind::LiftedBlock);
    assert!(told.is_empty(), "nobody shares the store: {told:?}");
    assert!(restarted(world).admit(1).is_some(), "a lifted block is lifted for good");
}

#[test]
fn a_reservation_is_settled_once_across_a_restart_with_what_the_store_holds() {
    for (outcome, quota) in [
        (Outcome::Succeeded.into(), 20),
        (Outcome::Failed.into(), 20),
        (Outcome::Cancelled.into(), 50),
        (Completion::from_cost(10), 40),
        (Completion::from_cost(45), 5),
    ] {
        let world = World::with_limits(limits());
        let id = reserve(&world, 30);
        assert_eq!(left(&world), [70, 20, 1]);
        let world = restarted(world);
        settle(&world, id, outcome).unwrap();
        assert_eq!(left(&world), [100, quota, 2], "{outcome:?}");
        let twice = settle(&world, id, outcome);
        assert!(matches!(twice, Err(RequestError::UnknownPermit(_))));
        let world = restarted(world);
        let third = settle(&world, id, outcome);
        assert!(matches!(third, Err(RequestError::UnknownPermit(_))), "{outcome:?}");
        assert_eq!(left(&world), [100, quota, 2], "{outcome:?}");
    }
}

#[test]
fn a_reservation_settled_before_the_restart_is_unknown_after_it() {
    let world = World::with_limits(limits());
    let id = reserve(&world, 30);
    settle(&world, id, Completion::from_cost(10)).unwrap();
    assert_eq!(left(&world), [90, 40, 2]);
    let world = restarted(world);
    assert!(matches!(settle(&world, id, Completion::from_cost(10)), Err(RequestError::UnknownPermit(_))));
    assert_eq!(left(&world)[1], 40);
}

#[test]
fn an_expired_reservation_leaves_its_charge_and_is_forgotten() {
    let world = World::with_limits(limits());
    let id = reserve(&world, 30);
    world.advance(MINUTE);
    assert!(world.store.notes_now(NoteKind::Permit).is_empty());
    let world = restarted(world);
    assert!(matches!(settle(&world, id, Outcome::Cancelled), Err(RequestError::UnknownPermit(_))));
    // 50 an hour: in a minute less than one unit comes back.
    assert_eq!(left(&world)[1], 20);
}

#[test]
fn a_reservation_that_cannot_be_written_down_is_cancelled() {
    let world = World::with_limits(limits());
    let permit = world.admit(30).unwrap();
    let expires = world.now().saturating_add(MINUTE);
    let begun = world.engine.keep(permit, expires, world.now());
    let tidegate_engine::Progress::Ask(asking) = begun.unwrap() else { panic!("the store must be asked") };
    let lost = tidegate_store::StoreError::Timeout { after: MINUTE };
    let undoing = asking.resume(&world.engine, Err(lost), world.now());
    let error = world.carry(undoing).unwrap_err();
    assert!(matches!(error, RequestError::Store(_)), "{error}");
    assert_eq!((left(&world), world.engine.stats(world.now()).permits_kept), (vec![100, 50, 2], 0));
}

#[test]
fn a_permit_that_only_local_limits_know_costs_the_store_nothing() {
    let mut world = World::with_limits([Limit::new("rate", bucket(100, MINUTE)).key(["user"])]);
    world.store_is_down = true;
    let id = reserve(&world, 30);
    assert!(world.engine.settle_kept(id, Completion::from_cost(10), world.now()).unwrap().batches.is_empty());
    assert_eq!(left(&world), [90]);
}

#[test]
fn notes_that_nobody_wrote_are_an_error() {
    let world = World::with_limits(limits());
    let note = |kind, name: &[u8], value: &str| Note {
        kind,
        name: name.into(),
        value: value.as_bytes().into(),
        until: tidegate_core::Timestamp::MAX,
    };
    let short = note(NoteKind::Permit, b"x", "{}");
    assert_eq!(
        world.engine.restore_permit(&short).unwrap_err().to_string(),
        "a stored permit cannot be read: its name has not 16 bytes; start the version that wrote it, or remove it"
    );
    let name = [7; 16];
    for value in ["", "[]", "{}", r#"{"namespace":"api","cost":0,"operations":[]}"#] {
        assert!(world.engine.restore_permit(&note(NoteKind::Permit, &name, value)).is_err(), "{value}");
        assert!(world.engine.restore_block(&note(NoteKind::Block, &name, value), world.now()).is_err());
    }
    let wrong = note(NoteKind::Block, &name, "{}");
    assert!(world.engine.restore_refund(&wrong, world.now()).is_err());
    let gone = r#"{"namespace":"gone","identity":"00","attributes":[]}"#;
    assert!(!world.engine.restore_block(&note(NoteKind::Block, &name, gone), world.now()).unwrap());
}
