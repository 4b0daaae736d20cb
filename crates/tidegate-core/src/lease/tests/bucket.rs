//! A leased rate without faults, and under particular faults.

use super::super::*;
use super::world::{SECOND, Trouble, World};
use crate::algorithm::{Algorithm, Bucket};
use crate::rate::Rate;
use crate::time::Timestamp;

fn bucket(per_second: u64, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::per_second(per_second).unwrap(), burst).unwrap())
}

fn calm() -> Trouble {
    Trouble { delay_ms: 2, ..Trouble::default() }
}

/// The used part of the limit in hundredths of a percent, and the store calls in a million
/// decisions.
fn report(world: &World, seconds: u64, rate: u64) -> (u64, u64) {
    let used = world.admitted() * 10_000 / (seconds * rate);
    let calls = world.calls * 1_000_000 / world.decisions();
    println!("use {used} of 10000, {} calls for {} decisions", world.calls, world.decisions());
    (used, calls)
}

#[test]
fn ten_members_at_three_times_the_limit_use_it_and_hardly_call() {
    let mut world = World::new(bucket(1000, 1000), 10, calm(), 1);
    world.run(5, &[300; 10]);
    report(&world, 5, 1000);
    let (admitted, calls, decisions) = (world.admitted(), world.calls, world.decisions());
    world.run(55, &[300; 10]);
    let (used, calls) = (world.admitted() - admitted, world.calls - calls);
    println!("   then {used} of 55000 with {calls} calls");
    assert!(used >= 53_900 && calls * 1000 <= world.decisions() - decisions);
}

#[test]
fn two_minutes_from_a_cold_start_take_about_one_call_in_a_thousand_decisions() {
    let mut world = World::new(bucket(1000, 1000), 10, calm(), 1);
    // The burst is full, and no demand was measured yet.
    world.run(10, &[0; 10]);
    world.run(5, &[300; 10]);
    let first = world.calls;
    world.run(115, &[300; 10]);
    report(&world, 120, 1000);
    assert!(first <= 110, "{first} calls in the first five seconds");
    // From the second minute on it is 0.08 %.
    assert!(world.calls * 1000 <= world.decisions() + world.decisions() / 50);
}

#[test]
fn one_member_alone_uses_the_whole_limit() {
    let mut world = World::new(bucket(1000, 100), 1, calm(), 2);
    world.run(60, &[3000]);
    let (used, calls) = report(&world, 60, 1000);
    assert!(used >= 9_800 && calls <= 1_000);
}

#[test]
fn members_below_the_limit_are_not_refused() {
    let mut world = World::new(bucket(1000, 1000), 10, calm(), 3);
    world.run(10, &[0; 10]);
    world.run(5, &[80; 10]);
    let refused: u64 = world.members.iter().map(|member| member.refused).sum();
    world.run(60, &[80; 10]);
    let now: u64 = world.members.iter().map(|member| member.refused).sum();
    report(&world, 65, 800);
    assert!(refused <= 200 && now == refused, "{refused} {now}");
}

#[test]
fn demand_that_moves_between_members_is_followed() {
    let mut world = World::new(bucket(1000, 1000), 10, calm(), 4);
    let mut paces = [0; 10];
    for turn in 0..12 {
        paces.fill(20);
        paces[turn % 10] = 700;
        world.run(10, &paces);
    }
    report(&world, 120, 880);
    let refused: u64 = world.members.iter().map(|member| member.refused).sum();
    println!("refused {refused} of {}", world.decisions());
    assert!(refused * 100 < world.decisions() * 15);
}

#[test]
fn every_request_meets_the_same_odds_whichever_member_it_reaches() {
    let mut world = World::new(bucket(1000, 100), 3, calm(), 5);
    world.run(10, &[200, 600, 2000]);
    let before: Vec<_> = world.members.iter().map(|member| (member.admitted, member.refused)).collect();
    world.run(60, &[200, 600, 2000]);
    // In hundredths of a percent.
    let odds: Vec<u64> = (world.members.iter().zip(before))
        .map(|(member, (admitted, refused))| {
            let (admitted, refused) = (member.admitted - admitted, member.refused - refused);
            refused * 10_000 / (admitted + refused)
        })
        .collect();
    println!("refused {odds:?} of 10000");
    assert!(odds.iter().max().unwrap() - odds.iter().min().unwrap() <= 200, "{odds:?}");
}

#[test]
fn callers_who_try_again_at_once_take_nothing_from_others() {
    let share = |attempts: u32| {
        let mut world = World::new(bucket(1000, 100), 2, calm(), 6);
        for _ in 0..60_000 {
            world.step();
            world.request(0, 1, 0);
            world.request(1, 1, 0);
            for attempt in 1..attempts {
                world.request(1, 1, attempt);
            }
        }
        world.members[0].admitted
    };
    let (alone, beside) = (share(1), share(4));
    println!("{alone} {beside}");
    assert!(alone.abs_diff(beside) * 20 <= alone);
}

#[test]
fn a_member_that_dies_is_replaced_within_two_periods() {
    let mut world = World::new(bucket(1000, 100), 4, calm(), 7);
    world.run(20, &[1000; 4]);
    world.crash(0);
    world.run(10, &[0, 1000, 1000, 1000]);
    let before = world.admitted();
    world.run(10, &[0, 1000, 1000, 1000]);
    assert!(world.admitted() - before >= 9_800, "{}", world.admitted() - before);
}

#[test]
fn a_store_that_lost_everything_goes_on_at_the_full_rate_at_once() {
    let mut world = World::new(bucket(1000, 100), 4, calm(), 8);
    world.run(20, &[1000; 4]);
    world.forget();
    for second in 0..10 {
        let before = world.admitted();
        world.run(1, &[1000; 4]);
        let admitted = world.admitted() - before;
        // Leases of the epoch before run out beside the new record.
        assert!((980..=2_200).contains(&admitted), "{admitted} in second {second}");
    }
}

#[test]
fn a_burst_is_there_again_after_a_pause() {
    let mut world = World::new(bucket(100, 200), 3, calm(), 9);
    world.run(5, &[0; 3]);
    for pause in 0..3 {
        let before = world.admitted();
        for _ in 0..1000 {
            world.step();
            world.request(pause, 1, 0);
        }
        println!("{} in a second after a pause", world.admitted() - before);
        assert!(world.admitted() - before >= 270);
        world.run(15, &[0; 3]);
    }
}

#[test]
fn unused_shares_refill_the_burst() {
    let mut world = World::new(bucket(100, 200), 2, calm(), 10);
    world.run(10, &[10, 10]);
    for _ in 0..500 {
        world.step();
        world.request(0, 1, 0);
    }
    world.run(10, &[10, 10]);
    let before = world.admitted();
    for _ in 0..500 {
        world.step();
        world.request(1, 1, 0);
    }
    println!("{} of an unused burst and 50 in half a second", world.admitted() - before);
    assert!(world.admitted() - before >= 150);
}

#[test]
fn members_that_leave_give_their_share_back_at_once() {
    let mut world = World::new(bucket(1000, 100), 2, calm(), 11);
    world.run(20, &[2000, 2000]);
    world.leave(0);
    world.run(6, &[0, 2000]);
    let before = world.admitted();
    world.run(10, &[0, 2000]);
    assert!(world.admitted() - before >= 9_800);
}

#[test]
fn a_silent_store_leaves_the_member_alone_and_an_answer_ends_that() {
    let mut world = World::new(bucket(1000, 100), 4, calm(), 12);
    world.run(20, &[1000; 4]);
    world.is_store_down = true;
    // Leases last until they end.
    world.run(6, &[1000; 4]);
    let (admitted, alone) = (world.admitted(), world.members[0].alone);
    world.run(10, &[1000; 4]);
    assert_eq!(world.admitted(), admitted, "nothing is spent that was not granted");
    assert!(world.members[0].alone - alone >= 9_900, "every request is for the member to decide");
    world.is_store_down = false;
    world.run(1, &[1000; 4]);
    let (before, alone) = (world.admitted(), world.members[0].alone);
    world.run(10, &[1000; 4]);
    assert!(world.admitted() - before >= 9_800 && world.members[0].alone == alone);
}

#[test]
fn a_tenth_of_all_messages_lost_costs_little() {
    let mut world = World::new(bucket(1000, 1000), 8, Trouble { lost: 100, ..calm() }, 13);
    world.run(60, &[400; 8]);
    let (used, _) = report(&world, 60, 1000);
    assert!(used >= 9_700);
}

#[test]
fn slow_limits_are_shared_too() {
    let ten_minutes = Rate::new(30, World::span(60)).unwrap();
    let algorithm = Algorithm::Bucket(Bucket::new(ten_minutes, 30).unwrap());
    let mut world = World::new(algorithm, 5, calm(), 14);
    world.run(600, &[1; 5]);
    println!("{} of 300 + burst", world.admitted());
    assert!(world.admitted() >= 290);
}

#[test]
fn the_refill_does_not_depend_on_how_often_it_is_looked_at() {
    for (units, per_ns) in [(7, 3 * SECOND), (1000, SECOND), (1, 7_000), (999_999, 86_400 * SECOND)] {
        let rate = Rate::new(units, core::time::Duration::from_nanos(per_ns)).unwrap();
        let algorithm = Algorithm::Bucket(Bucket::new(rate, 1_000_000).unwrap());
        let start = crate::time::Timestamp::from_nanos(super::world::START);
        let terms = Terms::from_algorithm(&algorithm, start).unwrap();
        let epoch = Epoch { number: 1, began: start, is_after_loss: false };
        let (mut once, mut often) = (Ledger::begin(&terms, &epoch), Ledger::begin(&terms, &epoch));
        let leaves =
            |member| Ask { is_leaving: true, ..Ask::first(HolderName { member, incarnation: 1 }, 0) };
        let mut chance = super::world::Chance::new(units);
        let mut now = start;
        for _ in 0..10_000 {
            now = now.saturating_add(core::time::Duration::from_nanos(chance.below(20_000_000)));
            often.ask(now, &terms, &epoch, &leaves(chance.below(9)));
        }
        once.ask(now, &terms, &epoch, &leaves(1));
        assert_eq!(once, often);
    }
}

#[test]
fn tokens_held_to_the_end_of_a_lease_hold_up_what_is_used_though_nobody_looks() {
    let algorithm = bucket(100, 400);
    let terms = Terms::from_algorithm(&algorithm, at(0)).unwrap();
    let epoch = Epoch { number: 1, began: at(0), is_after_loss: false };
    let mut ledger = Ledger::begin(&terms, &epoch);
    let ask = |member, seq, need| {
        let holder = HolderName { member, incarnation: 1 };
        Ask { seq, acked: seq - 1, epoch: 1, demand: 100, ..Ask::first(holder, need) }
    };
    // All of the burst is in one hand, until its lease ends.
    let start = 60 * SECOND;
    let first = ledger.ask(at(start), &terms, &epoch, &ask(1, 4, 400)).grant.unwrap();
    assert_eq!(first.lump, 400);
    let ends = start + u64::try_from(first.ttl.as_nanos()).unwrap();
    // It may have spent them the moment before; no ask has happened since the beginning.
    let second =
        ledger.ask(at(ends + SECOND), &terms, &epoch, &Ask { need_min: 1, ..ask(2, 4, 400) }).grant.unwrap();
    assert_eq!(second.lump, 100, "a second after 400 units no more than 100 are there");
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(super::world::START + nanos)
}

#[test]
fn those_without_a_place_that_find_nothing_come_back_each_at_another_time() {
    let algorithm = bucket(1000, 1000);
    let terms = Terms::from_algorithm(&algorithm, Timestamp::MIN).unwrap();
    let epoch = Epoch { number: 1, began: Timestamp::MIN, is_after_loss: false };
    let mut ledger = Ledger::begin(&terms, &epoch);
    let mut ask = |member: u64, need: u64| {
        let holder = HolderName { member, incarnation: 3 };
        let ask = Ask { demand: 20, ..Ask::first(holder, need) };
        ledger.ask(at(10 * SECOND), &terms, &epoch, &ask).grant.unwrap()
    };
    for member in 0..HOLDERS_MAX as u64 {
        let _ = ask(member, 1);
    }
    // Whatever is left.
    while ask(1 << 32, 1).lump > 0 {}
    let period_us = Terms::PERIOD.as_micros() as u64;
    let mut waits: Vec<u64> = (1000..1016).map(|member| ask(member, 1).again.as_micros() as u64).collect();
    waits.sort_unstable();
    waits.dedup();
    let expected: Vec<u64> = (4..12).map(|part| period_us * part / 32).collect();
    assert_eq!(waits, expected);
}
