//! A peek says what an attempt at the same instant gets.

use core::time::Duration;

use tidegate_capacity::{Access, Capacity, TableConfig};
use tidegate_core::algorithm::{Concurrency, Rolling};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Class, Cost, Limit, Plane, Reason, Refusal, Retry};
use tidegate_engine::{Decision, Event, NamespaceConfig, Outcome, Pending, Permit, Request};
use tidegate_overload::{Overload, ResourceConfig};

use crate::world::{Stage, World, bucket, stored, turn};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Numbers by chance, the same at each run (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn once(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// Little room at one of six places, so that each of them refuses at times.
fn small(tight: u64) -> World {
    let room = |place: u64, little: u64, much: u64| if place == tight % 6 { little } else { much };
    let parallel = Concurrency::new(room(0, 2, 100), SECOND).unwrap();
    let rolling = Rolling::new(room(1, 20, 500), SECOND).unwrap();
    let limits = [
        Limit::new("rate", bucket(room(2, 20, 500), SECOND)).key(["user"]),
        Limit::new("rolling", Algorithm::Rolling(rolling)).key(["user"]),
        Limit::new("parallel", Algorithm::Concurrency(parallel)).key(["user"]),
        Limit::new("quota", bucket(room(3, 20, 500), SECOND)).key(["user"]).consistency(Consistency::Exact),
    ];
    let units = room(4, 20, 500);
    let table = TableConfig::new("api", "orders", units, units).partitions(2).nodes(["node"]);
    let capacity = Capacity::builder().node("node", 1_000_000).table(table).build().unwrap();
    let overload = Overload::new(ResourceConfig::new(room(5, 4, 40)), 5).unwrap();
    let others = NamespaceConfig::new("other", [Limit::new("rate", bucket(100, SECOND)).key(["user"])]);
    World::of(stored(limits).namespace(others).capacity(capacity).overload(overload).build().unwrap())
}

fn told(refusal: &Refusal) -> (Reason, Plane, String, Retry) {
    (refusal.reason(), refusal.plane(), refusal.name().to_owned(), refusal.retry())
}

#[test]
fn a_peek_says_the_refusal_that_an_attempt_gets_in_a_hundred_thousand_random_states() {
    const USERS: [[(&str, &str); 1]; 3] = [[("user", "ada")], [("user", "bob")], [("user", "cyd")]];
    const KEYS: [&[u8]; 3] = [b"order-7", b"order-8", b"order-9"];
    let mut seen = std::collections::BTreeMap::new();
    for seed in 1..=24 {
        let (world, mut chance) = (small(seed), Chance(seed));
        let mut held: Vec<Permit> = Vec::new();
        let mut waiting: Vec<Pending> = Vec::new();
        for step in 0..5000 {
            world.advance(MS * (chance.below(12) as u32));
            let _ = world.engine.tick(world.now());
            if chance.once(500) {
                world.engine.event(Event::Pressure(1.5), world.now()).unwrap();
            }
            // Where places are few, work takes so long that requests of unknown end are paced.
            while held.len() > 30 || !held.is_empty() && chance.once(if seed % 6 == 5 { 8 } else { 2 }) {
                let permit = held.swap_remove(chance.below(held.len() as u64) as usize);
                world.finish(world.engine.settle(permit, Outcome::Succeeded, world.now()));
            }
            let is_due = |one: &mut Pending| turn(one).is_called() || turn(one).wake_at() <= world.now();
            for pending in waiting.extract_if(.., is_due).collect::<Vec<_>>() {
                match world.resume(pending) {
                    Stage::Admitted(permit) => held.push(permit),
                    Stage::Waits(pending) => waiting.push(pending),
                    Stage::Refused(_) => {}
                }
            }
            let user = &USERS[chance.below(3) as usize];
            let mut request = Request::new(if chance.once(4) { "other" } else { "api" }, user)
                .class(Class::ALL[chance.below(4) as usize])
                .tenant(["acme", "bolt"][chance.below(2) as usize])
                .cost(Cost::new(if chance.once(50) { 70 } else { 1 + chance.below(3) }).unwrap());
            if request.namespace == "api" && chance.once(2) {
                let key = KEYS[chance.below(3) as usize];
                let size = 1000 * (1 + chance.below(4));
                let read = Access::read("orders", key, size);
                request =
                    request.access(if chance.once(3) { read } else { Access::write("orders", key, size) });
            }
            if chance.once(3) {
                request = request.end_unknown();
            }
            if chance.once(20) {
                request = request.deadline(world.now());
            }
            if chance.once(10) {
                let patient = request.may_wait_until(world.now().saturating_add(MS * 200));
                match world.begin(&patient) {
                    Stage::Admitted(permit) => held.push(permit),
                    Stage::Waits(pending) => waiting.push(pending),
                    Stage::Refused(_) => {}
                }
                continue;
            }
            let peek = world.carry(world.engine.peek(&request, world.now())).unwrap();
            let peek = peek.refusal.as_ref().map(told);
            let got = match world.decide(&request) {
                Decision::Admit(permit) => {
                    held.push(permit);
                    None
                }
                Decision::Refuse(refused) => Some(told(&refused.into_refusal())),
            };
            assert_eq!(peek, got, "seed {seed}, step {step}: {request:?}");
            *seen.entry(got.map(|(reason, _, name, _)| (reason.as_str(), name))).or_insert(0) += 1;
        }
    }
    // Every plane has refused, and most requests were admitted.
    for name in [
        "rate",
        "rolling",
        "parallel",
        "quota",
        "orders",
        "in_flight",
        "pace",
        "admission_cursor",
        "deadline",
    ] {
        let count: u64 = seen
            .iter()
            .filter(|(key, _)| key.as_ref().is_some_and(|(_, of)| of == name))
            .map(|(_, count)| *count)
            .sum();
        assert!(count > 20, "{name} refused {count} times: {seen:?}");
    }
    assert!(seen[&None] > 30_000, "{seen:?}");
}
