//! Places of callers that settle nothing: they expire while another namespace waits for its part.

use core::time::Duration;

use tidegate_capacity::Capacity;
use tidegate_core::{Attributes, Class, Timestamp};
use tidegate_engine::{Completion, Engine, NamespaceConfig, Outcome, Pending, Permit, PermitId, Request};
use tidegate_overload::{Overload, QueueConfig, ResourceConfig, TICK};

use crate::world::{NOW, Stage, World, config, done, turn};

const MS: Duration = Duration::from_millis(1);
const PLACES: usize = 20;

/// A resource of 20 places, with a fair queue or without.
fn world(queue: Option<QueueConfig>) -> World {
    let app = ResourceConfig::new(PLACES as u64);
    let app = queue.map_or(app, |queue| app.queue(queue));
    let names = ["checkout", "batch"].map(|name| NamespaceConfig::new(name, []));
    let engine = Engine::builder(config()).namespaces(names).build().unwrap();
    let resources = Overload::builder(7).resource("app", app);
    World::of(engine.with_planes(Capacity::builder(), resources, NOW).unwrap())
}

fn worlds() -> [World; 2] {
    [world(Some(QueueConfig::default())), world(None)]
}

fn request(namespace: &str, class: Class) -> Request<'_> {
    Request::new(namespace, Attributes::default()).resource("app").class(class)
}

fn admit(world: &World, namespace: &str) -> Permit {
    world.begin(&request(namespace, Class::SheddablePlus)).admitted()
}

fn keep(world: &World, permit: Permit) -> PermitId {
    let expires = world.now().saturating_add(Duration::from_mins(1));
    done(world.engine.keep(permit, expires, world.now()))
}

/// As a check whose caller may settle it.
fn check(world: &World, namespace: &str) -> PermitId {
    keep(world, admit(world, namespace))
}

fn settle(world: &World, id: PermitId, completion: impl Into<Completion>) -> bool {
    world.engine.settle_kept(id, completion, world.now()).unwrap().has_lost_place
}

fn wait(world: &World, namespace: &str, class: Class, wait: Duration) -> Pending {
    let until = world.now().saturating_add(wait);
    world.begin(&request(namespace, class).may_wait_until(until)).waits()
}

/// Ticks for so long, or until the request is admitted. How long that took, and its permit.
fn tick_for(world: &World, span: Duration, pending: Pending) -> (Duration, Option<Permit>) {
    let mut stage = Stage::Waits(pending);
    let start = world.now();
    loop {
        let took = world.now().saturating_since(start);
        stage = match stage {
            Stage::Waits(pending) if turn(&pending).is_called() => world.resume(pending),
            Stage::Waits(pending) if took >= span => {
                drop(pending);
                return (took, None);
            }
            Stage::Admitted(permit) => return (took, Some(permit)),
            Stage::Refused(refused) => panic!("{refused:?}"),
            waits @ Stage::Waits(_) => {
                world.advance(TICK);
                let _ = world.engine.tick(world.now());
                waits
            }
        };
    }
}

#[test]
fn issue_39_critical_plus_is_served_while_another_namespace_has_all_places_and_settles_none() {
    for world in worlds() {
        let held: Vec<_> = (0..PLACES).map(|_| check(&world, "batch")).collect();
        let pending = wait(&world, "checkout", Class::CriticalPlus, 1500 * MS);
        // Requests of the namespace itself wait, too, and have no part to get.
        let own = wait(&world, "batch", Class::CriticalPlus, 1500 * MS);
        let (took, permit) = tick_for(&world, 1500 * MS, pending);
        assert!(took >= 1000 * MS && took <= 1100 * MS && permit.is_some(), "{took:?}");
        assert_eq!((world.stats().in_flight, world.stats().places_expired), (20, 1));
        // The caller of the place settles it after all, or tries to: it gives nothing back twice.
        assert!(settle(&world, held[0], Outcome::Succeeded));
        assert_eq!(world.stats().in_flight, 20);
        assert!(world.engine.settle_kept(held[0], Outcome::Succeeded, world.now()).is_err());
        assert!(!settle(&world, held[1], Outcome::Succeeded));
        assert_eq!(world.stats().in_flight, 19);
        drop((permit, own));
    }
}

#[test]
fn no_more_places_expire_than_are_waited_for_or_are_beyond_the_part() {
    for world in worlds() {
        let held: Vec<_> = (0..PLACES).map(|_| check(&world, "batch")).collect();
        let waiting: Vec<_> =
            (0..15).map(|_| wait(&world, "checkout", Class::Critical, 60_000 * MS)).collect();
        let mut served: Vec<Permit> = Vec::new();
        let mut waiting = waiting;
        for _ in 0..100 {
            world.advance(TICK);
            let _ = world.engine.tick(world.now());
            while let Some(called) = waiting.iter().position(|one| turn(one).is_called()) {
                match world.resume(waiting.remove(called)) {
                    Stage::Admitted(permit) => served.push(permit),
                    Stage::Waits(pending) => waiting.push(pending),
                    Stage::Refused(refused) => panic!("{refused:?}"),
                }
            }
        }
        assert_eq!((served.len(), world.stats().places_expired), (10, 10));
        let lost = held.into_iter().filter(|id| settle(&world, *id, Outcome::Cancelled)).count();
        assert_eq!((lost, world.stats().in_flight), (10, 10));
    }
}

#[test]
fn a_place_whose_end_the_daemon_sees_does_not_expire() {
    for world in worlds() {
        let proxied: Vec<_> = (0..PLACES).map(|_| admit(&world, "batch")).collect();
        let pending = wait(&world, "checkout", Class::CriticalPlus, 5000 * MS);
        let (_, permit) = tick_for(&world, 4900 * MS, pending);
        assert_eq!((permit.is_none(), world.stats().places_expired), (true, 0));
        drop(proxied);
    }
}

#[test]
fn ten_times_the_typical_work_of_the_namespace_is_left_to_it_also_when_it_settles_late() {
    for world in worlds() {
        let work = 400 * MS;
        let succeed = |id| _ = settle(&world, id, Outcome::Succeeded);
        // Other work of the resource is quick.
        let quick: Vec<_> = (0..9).map(|_| check(&world, "checkout")).collect();
        world.advance(5 * MS);
        quick.into_iter().for_each(succeed);
        let slow: Vec<_> = (0..9).map(|_| check(&world, "batch")).collect();
        world.advance(work);
        slow.into_iter().for_each(succeed);
        let held: Vec<_> = (0..PLACES).map(|_| check(&world, "batch")).collect();
        let pending = wait(&world, "checkout", Class::CriticalPlus, 9000 * MS);
        let (took, permit) = tick_for(&world, 9000 * MS, pending);
        assert!(took >= 4000 * MS && took <= 4100 * MS && permit.is_some(), "{took:?}");
        // A late settlement says how long the work takes, and what the caller claims says nothing.
        world.advance(1000 * MS);
        let mut claims = Completion::from(Outcome::Succeeded);
        claims.ended_after = Some(Duration::from_hours(1));
        for id in held {
            settle(&world, id, claims);
        }
        let _held: Vec<_> = (0..PLACES - 1).map(|_| check(&world, "batch")).collect();
        // Nineteen works of about five seconds and nine shorter ones.
        drop(permit);
        let _last = check(&world, "batch");
        let pending = wait(&world, "checkout", Class::CriticalPlus, Duration::from_mins(5));
        let (took, permit) = tick_for(&world, Duration::from_mins(5), pending);
        assert!(took >= 50_000 * MS && took <= 52_000 * MS && permit.is_some(), "{took:?}");
    }
}

#[test]
fn places_expire_after_a_reload_as_before_it() {
    let mut world = world(Some(QueueConfig::default()));
    let held: Vec<_> = (0..PLACES).map(|_| check(&world, "batch")).collect();
    let app = ResourceConfig::new(PLACES as u64).queue(QueueConfig::default());
    let resources = Overload::builder(7).resource("app", app);
    world.engine = world.engine.with_planes(Capacity::builder(), resources, NOW).unwrap();
    let pending = wait(&world, "checkout", Class::CriticalPlus, 1500 * MS);
    assert!(tick_for(&world, 1500 * MS, pending).1.is_some());
    assert!(settle(&world, held[0], Outcome::Succeeded));
    assert_eq!(world.stats().in_flight, 19);
}

/// One tick in which a request of the namespace is refused or admitted at once.
fn asks_in_a_tick(world: &World, namespace: &str) -> Option<Permit> {
    world.advance(TICK);
    let _ = world.engine.tick(world.now());
    asks_at_once(world, namespace)
}

/// A request that is refused or admitted at once.
fn asks_at_once(world: &World, namespace: &str) -> Option<Permit> {
    match world.begin(&request(namespace, Class::SheddablePlus)) {
        Stage::Admitted(permit) => Some(permit),
        Stage::Refused(_) => None,
        Stage::Waits(_) => panic!("it may not wait"),
    }
}

#[test]
fn requests_that_are_refused_are_waited_for_as_those_that_wait() {
    for world in worlds() {
        let _held: Vec<_> = (0..PLACES).map(|_| check(&world, "batch")).collect();
        let served = (0..20).find_map(|_| asks_in_a_tick(&world, "checkout"));
        assert!(served.is_some() && world.stats().places_expired > 0, "{:?}", world.stats());
    }
}

#[test]
fn a_namespace_whose_place_has_expired_is_held_back_to_its_part_while_another_asks() {
    let world = world(Some(QueueConfig::default()));
    let _held: Vec<_> = (0..PLACES).map(|_| check(&world, "batch")).collect();
    let served = (0..20).find_map(|_| asks_in_a_tick(&world, "checkout"));
    drop(served);
    let takes = |world: &World| {
        let tries = (0..2 * PLACES).map_while(|_| asks_at_once(world, "batch"));
        tries.for_each(|permit| _ = keep(world, permit));
    };
    for tick in 0..300 {
        let served = asks_in_a_tick(&world, "checkout");
        assert!(served.is_some(), "tick {tick}");
        drop(served);
        takes(&world);
        // One place was lacked. The namespace does not take it again.
        assert_eq!(world.stats().in_flight, PLACES as u64 - 1, "tick {tick}");
    }
    // A second after the other has stopped asking, all places are its own.
    for _ in 0..12 {
        world.advance(TICK);
        let _ = world.engine.tick(world.now());
    }
    takes(&world);
    assert_eq!(world.stats().in_flight, PLACES as u64);
}

/// A caller that asks again as soon as it can.
enum Caller {
    Idle,
    Waits(Pending, Timestamp),
    Works(PermitId, Timestamp),
}

/// A group of callers in one namespace, each of which waits for at most half a second.
struct Group {
    namespace: &'static str,
    callers: Vec<Caller>,
    served: u64,
}

impl Group {
    fn new(namespace: &'static str, callers: usize) -> Self {
        Self { namespace, callers: (0..callers).map(|_| Caller::Idle).collect(), served: 0 }
    }

    /// Settles what is due. How many were.
    fn settle_due(&mut self, world: &World) -> u32 {
        let mut settled = 0;
        for caller in &mut self.callers {
            if let Caller::Works(id, until) = caller
                && world.now() >= *until
            {
                settle(world, *id, Outcome::Succeeded);
                *caller = Caller::Idle;
                settled += 1;
            }
        }
        settled
    }

    /// Asks and takes places, each of which is kept for `work`. Whether any caller took one.
    fn ask(&mut self, world: &World, work: Duration) -> bool {
        let now = world.now();
        let wait_until = now.saturating_add(500 * MS);
        let asked = request(self.namespace, Class::SheddablePlus).may_wait_until(wait_until);
        let before = self.served;
        for caller in &mut self.callers {
            let stage = match core::mem::replace(caller, Caller::Idle) {
                Caller::Idle => world.begin(&asked),
                Caller::Waits(pending, _) if turn(&pending).is_called() => world.resume(pending),
                Caller::Waits(pending, until) if now >= until => {
                    drop(pending);
                    continue;
                }
                same => {
                    *caller = same;
                    continue;
                }
            };
            *caller = match stage {
                Stage::Waits(pending) => Caller::Waits(pending, wait_until),
                Stage::Refused(_) => Caller::Idle,
                Stage::Admitted(permit) => {
                    self.served += 1;
                    let expires = now.saturating_add(Duration::from_hours(24));
                    Caller::Works(done(world.engine.keep(permit, expires, now)), now.saturating_add(work))
                }
            };
        }
        self.served > before
    }
}

/// It settles each place just before it may expire, so that ever later settlements are typical.
#[test]
fn issue_39_a_namespace_that_settles_just_in_time_leaves_another_its_part() {
    const SECONDS: u64 = 600;
    const STEP: Duration = Duration::from_millis(20);
    const WORK: Duration = Duration::from_millis(40);
    /// Half of the places, each of which serves 25 requests a second.
    const PART: u64 = PLACES as u64 / 2 * 25;
    let world = world(Some(QueueConfig::default()));
    let (mut quiet, mut late) = (Group::new("checkout", 40), Group::new("batch", 60));
    let (mut kept_for, mut settled) = (900 * MS, 0);
    let (mut lacking, mut served) = (0, 0);
    for _ in 0..SECONDS {
        let before = quiet.served;
        for step in 0..50 {
            if step % 5 == 0 {
                let _ = world.engine.tick(world.now());
            }
            settled += late.settle_due(&world);
            quiet.settle_due(&world);
            while late.ask(&world, kept_for) | quiet.ask(&world, WORK) {}
            // The last 32 settlements say what is typical.
            if settled >= 32 {
                (kept_for, settled) = (kept_for * 9, 0);
            }
            world.advance(STEP);
        }
        let in_second = quiet.served - before;
        if in_second < PART / 2 {
            lacking += 1;
        } else {
            served += in_second;
        }
    }
    let percent = served * 100 / ((SECONDS - lacking) * PART);
    println!("{lacking} of {SECONDS} seconds without half of its part, {percent} % of it in the others");
    assert!(lacking <= SECONDS / 10 && percent >= 90, "{lacking} seconds, {percent} % in the others");
    assert!(kept_for > Duration::from_mins(1), "{kept_for:?}");
}

/// Two namespaces that always have 30 requests waiting. The work of one takes 40 ms and is settled;
/// the permits of the other are never settled and expire after 300 ms.
#[test]
fn permits_that_expire_are_charged_for_their_places() {
    let world = world(Some(QueueConfig::default()));
    let mut waiting: [Vec<Pending>; 2] = Default::default();
    let mut at_work: Vec<(Timestamp, PermitId)> = Vec::new();
    let mut served = 0;
    for step in 0..200 {
        // The other one comes after a second, in which it is learned how long work takes.
        for (namespace, waiting) in ["checkout", "batch"].into_iter().zip(&mut waiting) {
            while waiting.len() < 30 && (namespace == "checkout" || step >= 100) {
                let request = request(namespace, Class::Critical);
                let until = world.now().saturating_add(Duration::from_secs(5));
                match world.begin(&request.may_wait_until(until)) {
                    Stage::Waits(pending) => waiting.push(pending),
                    Stage::Admitted(permit) => at_work.push((world.now(), keep(&world, permit))),
                    // The queue is long enough.
                    Stage::Refused(_) => break,
                }
            }
        }
        let now = world.now();
        let (over, left) =
            at_work.into_iter().partition(|(admitted, _)| now.saturating_since(*admitted) >= 40 * MS);
        at_work = left;
        for (_, id) in over {
            settle(&world, id, Outcome::Succeeded);
            served += usize::from(step >= 110);
        }
        for (number, waiting) in waiting.iter_mut().enumerate() {
            for pending in core::mem::take(waiting) {
                match if turn(&pending).is_called() { world.resume(pending) } else { Stage::Waits(pending) } {
                    Stage::Waits(pending) => waiting.push(pending),
                    Stage::Admitted(permit) if number == 0 => {
                        let expires = now.saturating_add(Duration::from_mins(1));
                        at_work.push((now, done(world.engine.keep(permit, expires, now))));
                    }
                    Stage::Admitted(permit) => {
                        done(world.engine.keep(permit, now.saturating_add(300 * MS), now));
                    }
                    Stage::Refused(_) => {}
                }
            }
        }
        world.advance(10 * MS);
        let _ = world.engine.tick(world.now());
    }
    // Half of 20 places serve 225 in 900 ms.
    assert!(served >= 170, "{served} of 225");
}

/// The requests of two groups that begin to be served in five seconds, after five of warm-up: work
/// of 40 ms at 20 places, 2 500 in all. Each group has a namespace, a class and the requests that
/// it makes every 5 ms, of so many tenants. None waits.
fn served_of_two(world: &World, tenants: usize, groups: [(&str, Class, usize); 2]) -> [usize; 2] {
    let tenants: Vec<String> = (0..tenants).map(|tenant| format!("t{tenant}")).collect();
    let mut tenants = tenants.iter().cycle();
    let mut at_work: Vec<(Timestamp, Permit)> = Vec::new();
    let mut served = [0; 2];
    for step in 0..2_000 {
        let now = world.now();
        let (over, left) =
            at_work.into_iter().partition(|(since, _)| now.saturating_since(*since) >= 40 * MS);
        at_work = left;
        for (_, permit) in over {
            assert!(world.engine.settle(permit, Outcome::Succeeded, now).batches.is_empty());
        }
        for (served, (namespace, class, asks)) in served.iter_mut().zip(groups) {
            for _ in 0..asks {
                match world.begin(&request(namespace, class).tenant(tenants.next().unwrap())) {
                    Stage::Admitted(permit) => {
                        at_work.push((now, permit));
                        *served += usize::from(step >= 1_000);
                    }
                    Stage::Refused(_) => {}
                    Stage::Waits(_) => panic!("it does not wait"),
                }
            }
        }
        world.advance(5 * MS);
        let _ = world.engine.tick(now);
    }
    served
}

#[test]
fn a_flood_that_does_not_wait_leaves_another_namespace_its_part_with_a_queue_and_without() {
    for tenants in [1, 3, 100] {
        for (world, name) in worlds().into_iter().zip(["a queue", "no queue"]) {
            let groups = [("batch", Class::Critical, 20), ("checkout", Class::Critical, 5)];
            let served = served_of_two(&world, tenants, groups);
            let all: usize = served.iter().sum();
            assert!(3 * served[1] >= all && all >= 2_000, "{name}, {tenants} tenants: {served:?}");
        }
    }
}
