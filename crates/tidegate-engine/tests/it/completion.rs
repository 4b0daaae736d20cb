//! The end of a request's work, as its resource gets to know it.

use core::time::Duration;

use tidegate_core::Limit;
use tidegate_engine::{Completion, Decision, LatencyStats, Outcome, Permit};

use crate::world::{Room, USER, World, bucket, request};

const MS: Duration = Duration::from_millis(1);

fn admit(world: &World) -> Permit {
    match world.decide(&request()) {
        Decision::Admit(permit) => permit,
        Decision::Refuse(refusal) => panic!("{refusal}"),
    }
}

fn latency(world: &World) -> LatencyStats {
    world.stats().latency
}

fn settle(world: &World, permit: Permit, completion: impl Into<Completion>) {
    world.finish(world.engine.settle(permit, completion, world.now()));
}

#[test]
fn a_settled_permit_is_a_sample_from_its_admission_to_its_settlement() {
    let world = World::new(Room::WIDE);
    let permit = admit(&world);
    assert!(permit.holds_place());
    world.advance(40 * MS);
    settle(&world, permit, Outcome::Succeeded);
    let seen = latency(&world);
    assert_eq!((seen.succeeded, seen.end, seen.first_byte), (1, Some(40 * MS), None));
    let permit = admit(&world);
    world.advance(80 * MS);
    settle(&world, permit, Completion::from_cost(1));
    assert_eq!((latency(&world).succeeded, latency(&world).end), (2, Some(45 * MS)), "an eighth of 80 ms");
}

#[test]
fn the_times_of_a_completion_go_before_the_instant_of_its_settlement() {
    let world = World::new(Room::WIDE);
    let permit = admit(&world);
    world.advance(1000 * MS);
    let mut completion = Completion::default();
    completion.first_byte_after = Some(7 * MS);
    completion.ended_after = Some(9 * MS);
    settle(&world, permit, completion);
    assert_eq!((latency(&world).first_byte, latency(&world).end), (Some(7 * MS), Some(9 * MS)));
}

#[test]
fn a_failure_is_counted_and_a_cancelled_abandoned_dropped_or_unsampled_end_is_no_sample() {
    let world = World::new(Room::WIDE);
    settle(&world, admit(&world), Outcome::Cancelled);
    settle(&world, admit(&world), Outcome::Abandoned);
    drop(admit(&world));
    settle(&world, admit(&world), Completion::default().unsampled());
    settle(&world, admit(&world), Completion::from(Outcome::Failed).unsampled());
    assert_eq!(latency(&world), LatencyStats::default());
    settle(&world, admit(&world), Outcome::Failed);
    let seen = latency(&world);
    assert_eq!((seen.succeeded, seen.failed, seen.end), (0, 1, None));
    assert_eq!(world.stats().in_flight, 0, "every place is back");
}

#[test]
fn a_kept_permit_is_a_sample_when_it_is_settled_and_not_when_it_expires() {
    let world = World::new(Room::WIDE);
    let until = world.now().saturating_add(1000 * MS);
    let keep = || match world.carry(world.engine.keep(admit(&world), until, world.now())) {
        Ok(id) => id,
        Err(error) => panic!("{error}"),
    };
    let (settled, _expires) = (keep(), keep());
    world.advance(100 * MS);
    world.finish(world.engine.settle_kept(settled, Outcome::Succeeded, world.now()).unwrap());
    world.advance(900 * MS);
    let _ = world.engine.tick(world.now());
    let seen = latency(&world);
    assert_eq!((seen.succeeded, seen.failed, seen.end), (1, 0, Some(100 * MS)));
    assert_eq!(world.stats().in_flight, 0);
}

#[test]
fn a_request_without_a_resource_has_no_place_to_report_to() {
    let world = World::with_limits([Limit::new("rate", bucket(3, 1000 * MS)).key(["user"])]);
    let Decision::Admit(permit) = world.decide(&tidegate_engine::Request::new("api", &USER)) else {
        panic!()
    };
    assert!(!permit.holds_place());
    settle(&world, permit, Outcome::Succeeded);
    assert_eq!(world.engine.resource_stats(world.now()).count(), 0);
}

#[test]
fn an_answer_of_too_much_or_a_timeout_is_no_latency_whatever_its_outcome() {
    let world = World::new(Room::WIDE);
    let too_much = Completion::from(Outcome::Succeeded).with_status(429);
    settle(&world, admit(&world), too_much);
    settle(&world, admit(&world), Completion::from(Outcome::Failed).with_status(503));
    settle(&world, admit(&world), Completion::from(Outcome::Failed).with_status(504));
    settle(&world, admit(&world), Completion::from(Outcome::Failed).timed_out());
    let seen = latency(&world);
    assert_eq!((seen.succeeded, seen.failed, seen.end), (0, 4, None));
}
