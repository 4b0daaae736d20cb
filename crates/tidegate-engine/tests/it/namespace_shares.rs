//! The shares of the namespaces that wait for one resource.

use core::time::Duration;

use tidegate_capacity::Capacity;
use tidegate_core::{Attributes, Class, OverloadMechanism, Reason, RefusalDetails};
use tidegate_engine::{Engine, NamespaceConfig, Outcome, Pending, Request, RoomUse};
use tidegate_overload::{Overload, OverloadBuilder, QueueConfig, ResourceConfig};

use crate::world::{NOW, Stage, World, config, turn};

const WORK: Duration = Duration::from_millis(10);

/// A resource of one place, whose queue sheds nothing.
fn resources() -> OverloadBuilder {
    let queue = QueueConfig::default().delay_target(Class::Critical, None);
    let app = ResourceConfig::new(1).waiting_max(RoomUse::new(1000, 1 << 20)).queue(queue);
    Overload::builder(7).resource("app", app)
}

fn namespaces(names: &[&str]) -> Vec<NamespaceConfig> {
    names.iter().map(|name| NamespaceConfig::new(*name, [])).collect()
}

fn world(names: &[&str]) -> World {
    let engine = Engine::builder(config()).namespaces(namespaces(names)).build().unwrap();
    World::of(engine.with_planes(Capacity::builder(), resources(), NOW).unwrap())
}

/// A reload: the engine has these namespaces, and the resource these shares.
fn reload(world: &mut World, names: &[&str], shares: &[(&str, u32)]) {
    let (engine, _) = world.engine.reconfigured(namespaces(names)).unwrap();
    world.engine = engine.with_planes(Capacity::builder(), resources(), world.now()).unwrap();
    world.engine.set_namespace_shares("app", shares.iter().copied());
}

/// Serves 40 requests while more of both namespaces wait; the number of each that were served.
fn served(world: &World, of: [&str; 2]) -> [usize; 2] {
    let ask = |namespace| {
        let until = world.now().saturating_add(Duration::from_hours(1));
        let request = Request::new(namespace, Attributes::default()).resource("app");
        world.begin(&request.class(Class::Critical).may_wait_until(until))
    };
    let mut running = ask("other").admitted();
    let mut waiting: Vec<(usize, Pending)> = Vec::new();
    for _ in 0..50 {
        waiting.extend([0, 1].map(|index| (index, ask(of[index]).waits())));
    }
    let mut served = [0, 0];
    for _ in 0..40 {
        world.advance(WORK);
        world.finish(world.engine.settle(running, Outcome::Succeeded, world.now()));
        // A correction may call a second request; only one of the two has the place.
        let called: Vec<_> = waiting.extract_if(.., |(_, pending)| turn(pending).is_called()).collect();
        let mut admitted = None;
        for (index, pending) in called {
            match world.resume(pending) {
                Stage::Admitted(permit) => admitted = Some((index, permit)),
                Stage::Waits(pending) => waiting.push((index, pending)),
                Stage::Refused(refused) => panic!("{refused:?}"),
            }
        }
        let (index, permit) = admitted.unwrap();
        served[index] += 1;
        running = permit;
    }
    drop(waiting);
    world.finish(world.engine.settle(running, Outcome::Succeeded, world.now()));
    served
}

fn assert_near(served: [usize; 2], expected: usize) {
    assert!(served[0].abs_diff(expected) <= 1, "{served:?} where {expected} of the first are right");
}

#[test]
fn issue_39_namespaces_that_wait_are_served_by_their_shares_and_equally_without() {
    let both = ["checkout", "batch"];
    let names = ["other", "checkout", "batch"];
    assert_near(served(&world(&names), both), 20);
    let shared = world(&names);
    shared.engine.set_namespace_shares("app", [("checkout", 3), ("batch", 1)]);
    assert_near(served(&shared, both), 30);
    // Each without a share has one of 1.
    let partly = world(&names);
    partly.engine.set_namespace_shares("app", [("batch", 3)]);
    assert_near(served(&partly, both), 10);
    // Names that the engine does not have change nothing.
    let unknown = world(&names);
    unknown.engine.set_namespace_shares("app", [("elsewhere", 100)]);
    unknown.engine.set_namespace_shares("elsewhere", [("checkout", 100)]);
    assert_near(served(&unknown, both), 20);
}

#[test]
fn a_reload_adds_changes_and_removes_shares() {
    let both = ["checkout", "batch"];
    let mut world = world(&["other", "checkout", "batch"]);
    world.engine.set_namespace_shares("app", [("checkout", 3)]);
    assert_near(served(&world, both), 30);
    // Other planes alone leave the shares as they are.
    world.engine = world.engine.with_planes(Capacity::builder(), resources(), world.now()).unwrap();
    assert_near(served(&world, both), 30);
    reload(&mut world, &["other", "checkout", "batch"], &[("batch", 4)]);
    assert_near(served(&world, both), 8);
    // A namespace that the reload adds has its share.
    reload(&mut world, &["other", "night", "checkout", "batch"], &[("night", 4)]);
    assert_near(served(&world, ["night", "batch"]), 32);
    assert_near(served(&world, both), 20);
    reload(&mut world, &["other", "night", "checkout", "batch"], &[]);
    assert_near(served(&world, ["night", "batch"]), 20);
}

#[test]
fn issue_39_a_request_whose_deadline_leaves_no_time_after_its_queue_names_the_resource() {
    let world = world(&["api"]);
    let ask = |deadline: Option<Duration>| {
        let until = world.now().saturating_add(Duration::from_secs(10));
        let mut request = Request::new("api", Attributes::default()).resource("app");
        request.deadline = deadline.map(|within| world.now().saturating_add(within));
        world.begin(&request.class(Class::Critical).may_wait_until(until))
    };
    // Each request takes a second.
    let mut running = ask(None).admitted();
    for _ in 0..10 {
        let next = ask(None).waits();
        world.advance(Duration::from_secs(1));
        world.finish(world.engine.settle(running, Outcome::Succeeded, world.now()));
        let _ = world.engine.tick(world.now());
        running = world.resume(next).admitted();
    }
    let late = ask(Some(Duration::from_millis(1500))).waits();
    world.advance(Duration::from_secs(1));
    world.finish(world.engine.settle(running, Outcome::Succeeded, world.now()));
    let refusal = world.resume(late).refused();
    assert_eq!((refusal.reason(), refusal.name()), (Reason::DeadlineUnmeetable, "deadline"));
    let details = refusal.details.as_deref().and_then(RefusalDetails::overload).unwrap();
    assert_eq!(details.resource.as_deref(), Some("app"));
    assert_eq!(details.mechanism, OverloadMechanism::Deadline);
}
