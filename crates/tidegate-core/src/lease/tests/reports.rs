//! Reports, refunds and resets of a leased limit.

use core::time::Duration;

use super::super::*;
use super::world::{START, Trouble, World};
use crate::algorithm::{Algorithm, Bucket, Fixed, REPORT_DEBT_LIMITS, WindowStart};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::time::Timestamp;

fn bucket(per_second: u64, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::per_second(per_second).unwrap(), burst).unwrap())
}

fn minute(limit: u64) -> Algorithm {
    Algorithm::Fixed(Fixed::new(limit, World::span(60), WindowStart::Epoch).unwrap())
}

fn calm() -> Trouble {
    Trouble { delay_ms: 2, ..Trouble::default() }
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// An instant so many microseconds after a store has been there for long.
fn at(micros: u64) -> Timestamp {
    Timestamp::from_nanos(START).saturating_add(Duration::from_micros(micros))
}

/// The largest limit of a window.
const LARGEST: u64 = (1 << 35) - 1;

const EPOCH: Epoch = Epoch { number: 1, began: Timestamp::MIN, is_after_loss: false };

fn ask(member: u64, seq: u32, need: u64) -> Ask {
    let holder = HolderName { member, incarnation: 1 };
    Ask { seq, acked: seq - 1, epoch: 1, demand: 1000, ..Ask::first(holder, need) }
}

/// The grant to a new holder, without changing the record.
fn granted(ledger: &Ledger, algorithm: &Algorithm, now: Timestamp) -> Grant {
    let terms = Terms::from_algorithm(algorithm, now).unwrap();
    ledger.clone().ask(now, &terms, &EPOCH, &ask(99, 4, 1)).grant.unwrap()
}

#[test]
fn a_report_leaves_room_for_nobody_until_what_is_owed_has_drained() {
    let algorithm = bucket(100, 200);
    let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
    let mut ledger = Ledger::begin(&terms, &EPOCH);
    // Of 900 units 700 are owed, seven seconds of the rate; a period's units are 500.
    assert_eq!(ledger.report(at(0), &terms, &EPOCH, cost(900)), 900);
    assert_eq!(ledger.used(at(0), &terms), 900);
    for micros in [0, 1, 1_000_000, 1_999_999] {
        let grant = granted(&ledger, &algorithm, at(micros));
        assert_eq!((grant.lump, grant.rate), (0, 0), "{micros}");
        assert!(!grant.again.is_zero(), "{micros}");
    }
    // Less than a period's units are owed: the rest of them is lent, and nothing of the burst.
    for seconds in [3, 5, 6] {
        let grant = granted(&ledger, &algorithm, at(seconds * 1_000_000));
        let owed = 700 - 100 * seconds;
        assert!(grant.rate > 0 && u64::from(grant.rate) <= 500 - owed, "{seconds}: {grant:?}");
        assert_eq!(grant.lump, 0, "{seconds}");
    }
    assert_eq!(granted(&ledger, &algorithm, at(7_009_999)).lump, 0);
    assert_eq!(granted(&ledger, &algorithm, at(7_010_000)).lump, 1);
}

#[test]
fn what_is_reported_is_taken_from_what_members_admit() {
    let mut world = World::new(bucket(1000, 100), 4, calm(), 21);
    world.run(10, &[1000; 4]);
    // 300 units a second, in threes. The debt settles at the refill of one period.
    let reported = |world: &mut World, seconds: u64| {
        let (before, mut booked) = (world.admitted(), 0);
        for tick in 0..seconds * 1000 {
            world.step();
            (0..4).for_each(|member| world.request(member, 1, 0));
            booked += if tick % 10 == 0 { world.report(3) } else { 0 };
        }
        assert_eq!(booked, seconds * 300);
        println!("{} admitted beside {booked} in {seconds} s", world.admitted() - before);
        world.admitted() - before
    };
    let first = reported(&mut world, 20);
    assert!(first + 6_000 <= 20_000 + 100 + 100 + 5 * 300, "{first}");
    let then = reported(&mut world, 40);
    assert!((27_500..=28_200).contains(&then), "{then}");
    // When reports end all of it is there again.
    world.run(10, &[1000; 4]);
    let before = world.admitted();
    world.run(10, &[1000; 4]);
    assert!(world.admitted() - before >= 9_800, "{}", world.admitted() - before);
}

#[test]
fn a_report_beyond_a_window_ends_with_it_and_takes_nothing_out_of_a_hand() {
    let algorithm = minute(100);
    let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
    let mut ledger = Ledger::begin(&terms, &EPOCH);
    let lent = ledger.ask(at(0), &terms, &EPOCH, &ask(1, 1, 30)).grant.unwrap();
    assert!(lent.lump >= 30);
    let most = 100 * (1 + REPORT_DEBT_LIMITS);
    let booked = ledger.report(at(1), &terms, &EPOCH, cost(u64::MAX));
    assert_eq!((booked, ledger.used(at(1), &terms)), (most - u64::from(lent.lump), most));
    assert_eq!(granted(&ledger, &algorithm, at(2)).lump, 0);
    let more = ledger.ask(at(3), &terms, &EPOCH, &Ask { left: lent.lump, ..ask(1, 2, 100) });
    assert_eq!(more.grant.map(|grant| (grant.lump, grant.held)), Some((0, lent.lump)));
    let next = at(60_000_000);
    let terms = Terms::from_algorithm(&algorithm, next).unwrap();
    assert_eq!(ledger.used(next, &terms), 0);
    assert!(granted(&ledger, &algorithm, next).lump > 0);
}

#[test]
fn debt_has_a_bound_that_every_store_can_count_and_what_is_lent_is_not_part_of_it() {
    let fast = Rate::per_second(300_000_000).unwrap();
    let largest = Algorithm::Bucket(Bucket::new(fast, 1 << 40).unwrap());
    for (algorithm, limit) in [
        (bucket(1000, 1), 1),
        (bucket(10, 50), 50),
        (minute(7), 7),
        (minute(LARGEST), LARGEST),
        (largest, 1 << 40),
    ] {
        let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
        let mut ledger = Ledger::begin(&terms, &EPOCH);
        for member in 1..4 {
            ledger.ask(at(0), &terms, &EPOCH, &Ask { demand: u32::MAX, ..ask(member, 4, 1) });
        }
        let lent = ledger.units_used();
        let mut booked = 0;
        for units in [1, limit, 5 * limit, u64::MAX, u64::MAX] {
            booked += ledger.report(at(0), &terms, &EPOCH, cost(units));
        }
        assert!(booked >= 1, "{algorithm:?}: what is lent leaves no room for a report");
        let bound = limit.saturating_mul(1 + REPORT_DEBT_LIMITS).min(NUMBER_MAX);
        assert!(booked <= bound && ledger.units_used() <= bound.saturating_add(lent).min(NUMBER_MAX));
        assert!(ledger.units_used() >= bound.min(NUMBER_MAX - 4 * LENT_MAX), "{algorithm:?}");
        for member in 1..9 {
            ledger.ask(at(1), &terms, &EPOCH, &Ask { demand: u32::MAX, left: 1, ..ask(member, 5, 1) });
        }
        // Every number in it is below 2^53, or it would not be read.
        assert_eq!(Ledger::from_bytes(&ledger.to_bytes()).as_ref(), Ok(&ledger));
    }
}

#[test]
fn a_refund_of_everything_leaves_what_is_in_hand_and_yet_to_come() {
    for algorithm in [bucket(100, 200), minute(2000)] {
        let mut world = World::new(algorithm, 3, calm(), 22);
        world.run(7, &[80, 40, 20]);
        let now = Timestamp::from_nanos(world.now);
        let mut once = world.ledger.clone().unwrap();
        let used = once.used(now, &world.terms());
        let units = once.refund(now, &world.terms(), &world.epoch, cost(u64::MAX));
        assert!(units > 0 && units < used);
        let out = once.tokens_out(now);
        assert_eq!(
            used - units,
            if world.terms().quota() > 0 {
                out
            } else {
                once.holders().map(|view| u64::from(view.held)).sum()
            }
        );
        assert_eq!(once.refund(now, &world.terms(), &world.epoch, cost(1)), 0);
        let mut reset = world.ledger.clone().unwrap();
        assert_eq!(reset.reset(now, &world.terms(), &world.epoch), units);
        assert_eq!(reset, once);
        let mut bit_by_bit = world.ledger.clone().unwrap();
        let given: u64 =
            (0..=used).map(|_| bit_by_bit.refund(now, &world.terms(), &world.epoch, cost(1))).sum();
        assert_eq!((given, bit_by_bit), (units, once));
    }
}

#[test]
fn a_record_may_be_forgotten_when_it_says_and_not_before() {
    for (algorithm, seed) in [(bucket(7, 200), 23), (bucket(1000, 10), 24), (minute(2000), 25)] {
        let mut world = World::new(algorithm, 3, calm(), seed);
        world.run(6, &[40, 10, 0]);
        world.report(60);
        let (ledger, now) = (world.ledger.unwrap(), Timestamp::from_nanos(world.now));
        let terms = |now| Terms::from_algorithm(&world.algorithm, now).unwrap();
        let when = ledger.forgettable_at(now, &terms(now));
        assert!(when > now && ledger.level(now, &terms(now)).1 <= when);
        assert!((now..=when).contains(&ledger.lasts_until(now)));
        assert!(ledger.is_forgettable(when, &terms(when), &world.epoch));
        let before = when.saturating_sub(Duration::from_micros(1));
        assert!(!ledger.is_forgettable(before, &terms(before), &world.epoch));
        assert_eq!(ledger.forgettable_at(when, &terms(when)), when);
    }
}

#[test]
fn what_a_record_grows_by_is_known_before() {
    let algorithm = bucket(1000, 1000);
    let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
    let mut ledger = Ledger::begin(&terms, &EPOCH);
    for turn in 0..400_u64 {
        let growth =
            Ledger::heap_growth(Some(&ledger), usize::from(!ledger.has_holder(ask(turn, 1, 1).holder)));
        let before = ledger.heap_bytes();
        ledger.ask(at(turn), &terms, &EPOCH, &ask(turn, 1, 1));
        assert!(ledger.heap_bytes() <= before + growth, "{turn}");
    }
    assert_eq!(ledger.holders().count(), HOLDERS_MAX);
    assert_eq!(Ledger::heap_growth(Some(&ledger), 50), 0);
}

#[test]
fn the_same_ask_again_gets_the_same_tokens_and_a_holder_without_a_place_another_spot_grant() {
    let algorithm = bucket(10_000, 10_000);
    let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
    let mut ledger = Ledger::begin(&terms, &EPOCH);
    let asked = ask(0, 300, 7);
    let first = ledger.ask(at(0), &terms, &EPOCH, &asked).grant.unwrap();
    let used = ledger.used(at(0), &terms);
    let again = ledger.ask(at(0), &terms, &EPOCH, &asked).grant.unwrap();
    assert_eq!(
        (again.lump, again.held, again.rate, again.ttl),
        (first.lump, first.held, first.rate, first.ttl)
    );
    assert_eq!(ledger.used(at(0), &terms), used);
    // The rest is not remembered.
    assert!(first.keep > 0);
    assert!(!first.is_scarce);
    assert_eq!((again.keep, again.is_scarce, again.again), (0, true, SPACING));
    for member in 1..HOLDERS_MAX as u64 {
        ledger.ask(at(0), &terms, &EPOCH, &ask(member, 1, 1));
    }
    let without = ask(HOLDERS_MAX as u64, 7, 7);
    let used = ledger.used(at(0), &terms);
    for times in 1..=2 {
        let grant = ledger.ask(at(0), &terms, &EPOCH, &without).grant.unwrap();
        assert!(grant.is_spot() && grant.lump == 7, "{grant:?}");
        assert_eq!(ledger.used(at(0), &terms), used + 7 * times);
    }
}
