//! Limits that give their charge back on some endings of the work, wherever they are decided.

use core::time::Duration;

use tidegate_core::Limit;
use tidegate_core::limit::{Consistency, RefundOn};
use tidegate_engine::{Completion, Engine, NamespaceConfig, Outcome};
use tidegate_store::NoteKind;

use crate::leases::{Fleet, leased};
use crate::world::{World, bucket, store_config};

const HOUR: Duration = Duration::from_hours(1);

fn refunded(limit: Limit) -> Limit {
    limit.refund_on(RefundOn::parse(["failed", "404"]).unwrap())
}

fn limits() -> Vec<Limit> {
    let of = |name: &str| Limit::new(name, bucket(100, HOUR)).key(["user"]);
    vec![
        refunded(of("local")),
        of("local-kept"),
        refunded(of("exact")).consistency(Consistency::Exact),
        of("exact-kept").consistency(Consistency::Exact),
    ]
}

fn left(world: &World) -> Vec<u64> {
    world.left().into_iter().map(|(_, left)| left).collect()
}

/// Endings, each with what is left of limits that refund it, and of limits that do not, after a
/// request of 10 units.
fn endings() -> [(Completion, u64, u64); 9] {
    let of = Completion::from;
    [
        (of(Outcome::Succeeded), 90, 90),
        (of(Outcome::Succeeded).with_status(200), 90, 90),
        (of(Outcome::Succeeded).with_status(404), 100, 90),
        (Completion::from_cost(4).with_status(404), 100, 96),
        (of(Outcome::Failed), 100, 90),
        (of(Outcome::Abandoned), 90, 90),
        (of(Outcome::Abandoned).with_status(404), 100, 90),
        (of(Outcome::Failed).with_status(503), 100, 90),
        (of(Outcome::Cancelled), 100, 100),
    ]
}

#[test]
fn a_limit_is_charged_nothing_for_work_that_ended_as_it_says() {
    for (completion, refunded, kept) in endings() {
        let world = World::with_limits(limits());
        let permit = world.admit(10).unwrap();
        world.finish(world.engine.settle(permit, completion, world.now()));
        assert_eq!(left(&world), [refunded, kept, refunded, kept], "{completion:?}");
    }
}

#[test]
fn so_is_a_limit_whose_store_is_away() {
    for (completion, refunded, kept) in endings() {
        let local = tidegate_core::limit::OnStoreFailure::Local;
        let limits = limits().into_iter().map(|limit| limit.on_store_failure(local));
        let mut world = World::with_limits(limits);
        world.store_is_down = true;
        let permit = world.admit(10).unwrap();
        assert!(world.engine.settle(permit, completion, world.now()).batches.is_empty());
        assert_eq!(left(&world), [refunded, kept, refunded, kept], "{completion:?}");
    }
}

#[test]
fn so_is_a_reservation_that_is_settled_after_a_restart_under_other_limits() {
    for (completion, refunded, kept) in endings() {
        let mut world = World::with_limits(limits());
        let permit = world.admit(10).unwrap();
        let id =
            world.carry(world.engine.keep(permit, world.now().saturating_add(HOUR), world.now())).unwrap();
        let mut config = store_config();
        config.table.seed = [5, 6, 7, 8];
        let exact =
            |name: &str| Limit::new(name, bucket(100, HOUR)).key(["user"]).consistency(Consistency::Exact);
        let namespace = NamespaceConfig::new("api", [exact("exact"), exact("exact-kept")]);
        world.engine = Engine::builder(config).namespace(namespace).build().unwrap();
        for note in world.store.notes_now(NoteKind::Permit) {
            world.engine.restore_permit(&note).unwrap();
        }
        world.finish(world.engine.settle_kept(id, completion, world.now()).unwrap());
        assert_eq!(left(&world), [refunded, kept], "{completion:?}");
    }
}

#[test]
fn so_is_a_limit_that_is_spent_from_leases() {
    let day = || {
        let window = tidegate_core::algorithm::Fixed::new(
            100,
            Duration::from_hours(24),
            tidegate_core::algorithm::WindowStart::Epoch,
        );
        tidegate_core::Algorithm::Fixed(window.unwrap())
    };
    for (completion, refunded_left, kept) in endings() {
        let mut fleet = Fleet::new(1, &[refunded(leased("refunded", day())), leased("kept", day())]);
        let permit = fleet.admit(0, 10).unwrap();
        fleet.settle(0, permit, completion);
        fleet.pass(Duration::from_mins(1));
        let request = tidegate_engine::Request::new("api", &crate::leases::ADA);
        let peek = fleet.members[0].peek(&request, fleet.now()).unwrap();
        let limits = fleet.carry(0, peek).limits;
        let left: Vec<_> = limits.iter().map(|one| one.remaining).collect();
        assert_eq!(left, [refunded_left, kept], "{completion:?}");
    }
}

#[test]
fn a_note_of_a_permit_that_knows_no_endings_is_read() {
    let world = World::with_limits(limits());
    let permit = world.admit(10).unwrap();
    let expires = world.now().saturating_add(HOUR);
    let id = world.carry(world.engine.keep(permit, expires, world.now())).unwrap();
    let mut notes = world.store.notes_now(NoteKind::Permit);
    let text = String::from_utf8(notes[0].value.to_vec()).unwrap();
    assert_eq!(text.matches(r#","refund_on":"failed, 404""#).count(), 1, "{text}");
    // As versions wrote it that had no such limits.
    notes[0].value = text.replace(r#","refund_on":"failed, 404""#, "").into_bytes().into();
    let mut config = store_config();
    config.table.seed = [5, 6, 7, 8];
    let engine = Engine::builder(config).namespace(NamespaceConfig::new("api", limits())).build().unwrap();
    engine.restore_permit(&notes[0]).unwrap();
    let settled = engine.settle_kept(id, Outcome::Failed, world.now()).unwrap();
    world.finish(settled);
    assert_eq!(left(&world)[2..], [90, 90]);
}
