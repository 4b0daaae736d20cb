//! Limits that arrive with the request: rates decided here, quotas by the store.

use core::time::Duration;
use std::borrow::Cow;

use tidegate_capacity::Access;
use tidegate_core::algorithm::{Concurrency, Fixed, Verdict, WindowStart};
use tidegate_core::{Algorithm, Carried, CarriedLimit, Charging, Reason, Timestamp};
use tidegate_engine::{Engine, EngineConfig, LeaseConfig, OfferOutcome, Outcome, Request, RequestError};
use tidegate_store::StoreError;

use crate::world::{Room, World, bucket, request, stored_by};

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

fn limit<'a>(key: &'a [&'a [u8]], algorithm: &'a Algorithm, cost: u64) -> CarriedLimit<'a> {
    CarriedLimit { key: Cow::Borrowed(key), algorithm: Cow::Borrowed(algorithm), cost }
}

fn fixed(limit: u64, window: Duration) -> Algorithm {
    Algorithm::Fixed(Fixed::new(limit, window, WindowStart::Epoch).unwrap())
}

fn carry(world: &World, algorithms: &[&Algorithm], cost: u64, charging: Charging) -> Carried {
    let limits: Vec<_> = algorithms.iter().map(|one| limit(&[b"k"], one, cost)).collect();
    world.carry(world.engine.carry(&Request::new("any", ()), &limits, charging, world.now())).unwrap()
}

fn used(world: &World, algorithm: &Algorithm) -> u64 {
    carry(world, &[algorithm], 0, Charging::Each).limits[0].used
}

#[test]
fn a_quota_outlives_the_engine_and_a_rate_does_not() {
    let world = World::with_limits([]);
    let (rate, quota) = (bucket(10, MINUTE), bucket(10, HOUR));
    assert!(carry(&world, &[&rate, &quota], 4, Charging::AllOrNone).is_admitted);
    assert_eq!((used(&world, &rate), used(&world, &quota)), (4, 4));
    // Every start has a seed of its own.
    let mut config = EngineConfig::seeded([5, 6, 7, 8]);
    config.asks_store = true;
    let started_anew = World { engine: stored_by(config, []).build().unwrap(), ..world };
    assert_eq!((used(&started_anew, &rate), used(&started_anew, &quota)), (0, 4));
}

#[test]
fn whichever_refuses_neither_the_store_nor_this_member_is_charged() {
    for (local, remote) in [(3, 100), (100, 3)] {
        let world = World::with_limits([]);
        let (rate, quota) = (fixed(local, MINUTE), fixed(remote, HOUR));
        assert!(carry(&world, &[&quota, &rate], 2, Charging::AllOrNone).is_admitted);
        let before = world.state();
        let refused = carry(&world, &[&quota, &rate], 2, Charging::AllOrNone);
        assert!(!refused.is_admitted);
        let who = refused.limits.iter().map(|one| one.verdict != Verdict::Admit).collect::<Vec<_>>();
        assert_eq!(who, [remote == 3, local == 3], "in the order of the question");
        assert_eq!(world.state(), before);
        assert_eq!((used(&world, &rate), used(&world, &quota)), (2, 2));
    }
}

#[test]
fn limits_of_the_request_are_paced_counted_as_served_and_refused_past_their_deadline() {
    let world = World::new(Room { in_flight: 2, ..Room::WIDE });
    let rate = bucket(3, MINUTE);
    let carry = |request: Request<'_>| {
        let limits = [limit(&[b"k"], &rate, 1)];
        world.carry(world.engine.carry(&request, &limits, Charging::AllOrNone, world.now())).unwrap()
    };
    let ask = || Request::new("any", ());
    let late = carry(ask().deadline(world.now()));
    assert_eq!(late.refusal.map(|refusal| refusal.reason()), Some(Reason::DeadlineUnmeetable));
    assert_eq!((used(&world, &rate), world.stats().offered), (0, 0));
    for _ in 0..3 {
        assert!(carry(ask()).is_admitted);
    }
    assert_eq!((world.stats().served, world.stats().offered), (3, 3));
    // Its own limit refuses the fourth: it was no demand, and was not served.
    assert!(!carry(ask()).is_admitted);
    assert_eq!((world.stats().served, world.stats().demand, world.stats().undecided()), (3, 3, 0));
    // Two places and work that takes a second: two at once, and then two a second.
    let world = World::new(Room { in_flight: 2, ..Room::WIDE });
    let permit = world.begin(&request()).admitted();
    world.advance(Duration::from_secs(1));
    world.finish(world.engine.settle(permit, Outcome::Succeeded, world.now()));
    let _ = world.engine.tick(world.now());
    let wide = bucket(1000, MINUTE);
    let admitted = (0..10).filter(|_| {
        let limits = [limit(&[b"k"], &wide, 1)];
        let carried = world.engine.carry(&ask(), &limits, Charging::AllOrNone, world.now());
        world.carry(carried).unwrap().is_admitted
    });
    assert_eq!(admitted.count(), 2);
    assert_eq!(used(&world, &wide), 2);
}

/// Between the question and the answer of the store somebody else may use up what is decided here.
#[test]
fn what_the_store_charged_is_taken_back_when_this_member_refuses_by_then() {
    let world = World::with_limits([]);
    let (rate, quota) = (fixed(3, MINUTE), fixed(100, HOUR));
    let limits = [limit(&[b"k"], &quota, 2), limit(&[b"k"], &rate, 2)];
    let begun = world.engine.carry(&Request::new("any", ()), &limits, Charging::AllOrNone, world.now());
    assert!(carry(&world, &[&rate], 2, Charging::AllOrNone).is_admitted);
    let carried = world.carry(begun).unwrap();
    assert!(!carried.is_admitted);
    assert_eq!((used(&world, &quota), used(&world, &rate)), (0, 2));
}

#[test]
fn what_is_always_charged_is_booked_in_the_store_too_and_says_when_there_is_room() {
    let world = World::with_limits([]);
    for (algorithm, room) in [
        (fixed(5, HOUR), next_hour(world.now())),
        // Seven of five are used; four fit when one of them is left, after six of them have
        // drained.
        (bucket(5, HOUR), world.now().saturating_add(HOUR * 6 / 5)),
    ] {
        let charge = |cost| carry(&world, &[&algorithm], cost, Charging::Always).limits[0];
        assert_eq!(charge(3).verdict, Verdict::Admit);
        let over = charge(4);
        assert_eq!((over.used, over.remaining), (7, 0));
        assert_eq!(over.verdict, Verdict::Wait { until: room });
        assert_ne!(charge(0).verdict, Verdict::Admit);
        assert_eq!(charge(6).verdict, Verdict::Never { largest: 5 });
    }
}

fn next_hour(now: Timestamp) -> Timestamp {
    Timestamp::from_secs((now.as_secs() / 3600 + 1) * 3600)
}

#[test]
fn a_refund_and_a_reset_reach_the_store() {
    let world = World::with_limits([]);
    let quota = bucket(10, HOUR);
    assert!(carry(&world, &[&quota], 6, Charging::AllOrNone).is_admitted);
    let refund = limit(&[b"k"], &quota, 2);
    let status = world.carry(world.engine.refund_carried("any", &refund, world.now())).unwrap();
    assert_eq!((status.used, status.verdict), (4, Verdict::Admit));
    let reset = || world.carry(world.engine.reset_carried("any", &refund, world.now())).unwrap();
    assert_eq!((reset(), reset(), used(&world, &quota)), (true, false, 0));
    let rate = bucket(10, MINUTE);
    assert!(carry(&world, &[&rate], 6, Charging::AllOrNone).is_admitted);
    assert_eq!((reset(), reset(), used(&world, &rate)), (true, false, 0), "a reset knows no numbers");
}

/// A key asked with two periods: below an hour the counter is one, from an hour on it is another,
/// and each keeps the instant at which it is full.
#[test]
fn other_periods_of_a_key_mean_the_same_in_memory_in_a_store_and_in_a_shared_store() {
    let in_memory = World::of(Engine::builder(EngineConfig::seeded([1, 2, 3, 4])).build().unwrap());
    let stored = World::with_limits([]);
    let mut config = EngineConfig::seeded([1, 2, 3, 4]);
    (config.asks_store, config.leases) = (true, Some(LeaseConfig::new(1)));
    let shared = World::of(Engine::builder(config).build().unwrap());
    for (world, kept) in [(in_memory, "nowhere"), (stored, "in a store"), (shared, "in a shared store")] {
        let begun = world.now();
        let ask = |period: Duration, cost| {
            let status = carry(&world, &[&bucket(5, period)], cost, Charging::Each).limits[0];
            let full_in = status.reset_at.saturating_since(begun).as_secs();
            (status.verdict == Verdict::Admit, status.remaining, full_in)
        };
        assert_eq!(ask(MINUTE, 5), (true, 0, 60), "{kept}");
        assert_eq!(ask(MINUTE * 10, 0), (true, 4, 60), "{kept}");
        assert_eq!(ask(HOUR, 1), (true, 4, 720), "{kept}");
        assert_eq!(ask(HOUR, 4), (true, 0, 3600), "{kept}");
        assert_eq!(ask(HOUR * 2, 1), (true, 1, 3600 + 1440), "{kept}");
        assert_eq!(ask(HOUR, 0), (false, 0, 3600 + 1440), "{kept}");
        assert_eq!(ask(MINUTE * 10, 4), (true, 0, 60 + 480), "{kept}");
        assert_eq!(ask(MINUTE, 1), (false, 0, 60 + 480), "{kept}");
    }
}

#[test]
fn while_the_store_is_away_nothing_is_charged_and_the_error_says_so() {
    let mut world = World::with_limits([]);
    let (rate, quota) = (bucket(10, MINUTE), bucket(10, HOUR));
    world.store_is_down = true;
    for charging in [Charging::AllOrNone, Charging::Each, Charging::Always] {
        let limits = [limit(&[b"k"], &rate, 1), limit(&[b"k"], &quota, 1)];
        let carried =
            world.carry(world.engine.carry(&Request::new("any", ()), &limits, charging, world.now()));
        assert!(matches!(carried, Err(RequestError::Store(StoreError::Unavailable { .. }))));
    }
    assert!(carry(&world, &[&rate], 10, Charging::AllOrNone).is_admitted, "a rate needs no store");
    world.store_is_down = false;
    assert_eq!(used(&world, &quota), 0);
}

#[test]
fn a_key_too_long_for_a_store_and_a_concurrency_limit_are_errors() {
    let world = World::with_limits([]);
    let long = vec![b'k'; 2000];
    let (rate, quota) = (bucket(10, MINUTE), bucket(10, HOUR));
    let ask = |algorithm| {
        let key = [long.as_slice()];
        let limits = [limit(&key, algorithm, 1)];
        world.carry(world.engine.carry(&Request::new("any", ()), &limits, Charging::AllOrNone, world.now()))
    };
    assert!(ask(&rate).is_ok());
    assert!(matches!(ask(&quota), Err(RequestError::KeyTooLong(_))));
    let concurrency = Algorithm::Concurrency(Concurrency::new(1, MINUTE).unwrap());
    assert!(matches!(ask(&concurrency), Err(RequestError::Carry(_))));
}

/// An error is no demand, and returns the capacity units that the request held by then.
#[test]
fn a_request_that_ends_in_an_error_is_counted_as_failed_and_leaves_nothing() {
    let mut world = World::new(Room::WIDE);
    world.store_is_down = true;
    let before = world.state();
    let (quota, concurrency) =
        (bucket(10, HOUR), Algorithm::Concurrency(Concurrency::new(1, MINUTE).unwrap()));
    let long = vec![b'k'; 2000];
    let (short, long) = ([b"k".as_slice()], [long.as_slice()]);
    let carry = |key, algorithm, of: &Request<'_>| {
        let limits = [limit(key, algorithm, 1)];
        world.carry(world.engine.carry(of, &limits, Charging::AllOrNone, world.now()))
    };
    let in_no_table = request().access(Access::write("orders", b"order-7", u64::MAX));
    assert!(matches!(carry(&short, &quota, &request()), Err(RequestError::Store(_))));
    assert!(matches!(carry(&long, &quota, &request()), Err(RequestError::KeyTooLong(_))));
    assert!(matches!(carry(&short, &concurrency, &request()), Err(RequestError::Carry(_))));
    let _ = carry(&short, &quota, &in_no_table).unwrap_err();
    let stats = world.stats();
    assert_eq!((stats.count(OfferOutcome::Failed), stats.undecided(), stats.demand), (4, 0, 0));
    assert_eq!(world.state(), before);
}
