//! A leased quota until its last token.

use super::super::{Ask, HolderName};
use super::world::{Trouble, World};
use crate::Timestamp;
use crate::algorithm::{Algorithm, Fixed, WindowStart};

fn calm() -> Trouble {
    Trouble { delay_ms: 2, ..Trouble::default() }
}

/// A quota of so many units a day, from the beginning of a day on.
fn daily(limit: u64, members: usize, trouble: Trouble, seed: u64) -> World {
    let day = Fixed::new(limit, World::span(86_400), WindowStart::Epoch).unwrap();
    let mut world = World::new(Algorithm::Fixed(day), members, trouble, seed);
    world.now += 1_000_000_000;
    world
}

#[test]
fn a_daily_quota_of_ten_members_admits_exactly_what_it_says() {
    for (seed, paces) in [[40; 10], [300, 1, 1, 1, 1, 1, 1, 1, 1, 1], [5, 10, 15, 20, 25, 30, 35, 40, 45, 50]]
        .iter()
        .enumerate()
    {
        let mut world = daily(10_000, 10, calm(), seed as u64);
        world.run(120, paces);
        println!("{} admitted, {} calls, {} decisions", world.admitted(), world.calls, world.decisions());
        assert_eq!(world.admitted(), 10_000);
    }
}

#[test]
fn a_quota_is_used_up_although_messages_are_lost_repeated_and_late() {
    for seed in 0..10 {
        let trouble = Trouble { lost: 100, repeated: 100, delay_ms: 60, drift: 10, ..Trouble::default() };
        let mut world = daily(2_000, 6, trouble, seed);
        world.run(120, &[60, 30, 20, 10, 5, 1]);
        assert_eq!(world.admitted(), 2_000, "seed {seed}");
    }
}

#[test]
fn tokens_of_members_that_fell_silent_come_back() {
    let mut world = daily(10_000, 10, calm(), 3);
    world.run(10, &[50; 10]);
    // Only one still gets requests; tokens in hand at the others return without traffic.
    world.run(120, &[200, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(world.admitted(), 10_000);
}

#[test]
fn a_quota_is_short_by_no_more_than_dead_members_held() {
    for seed in 0..20 {
        let mut world = daily(10_000, 10, calm(), seed);
        world.run(4, &[100; 10]);
        let mut dead = 0;
        for index in 0..3 {
            let member = HolderName { member: index, incarnation: 1 };
            let ledger = world.ledger.as_ref().unwrap();
            dead += ledger
                .holders()
                .filter(|view| view.holder == member)
                .map(|view| u64::from(view.held))
                .sum::<u64>();
            world.crash(index as usize);
        }
        world.run(120, &[100; 10]);
        let admitted = world.admitted();
        let (now, terms, epoch) = (Timestamp::from_nanos(world.now), world.terms(), world.epoch);
        let anybody = Ask::first(HolderName { member: 99, incarnation: 1 }, 1);
        let gone = world.ledger.as_mut().unwrap().ask(now, &terms, &epoch, &anybody).grant.unwrap().gone;
        println!("{admitted} admitted, dead members held at most {dead}, {gone} are said to be gone");
        assert!(admitted <= 10_000 && admitted + gone >= 10_000, "{admitted} {gone}");
        assert!(gone <= dead && dead > 0, "{gone} {dead}");
    }
}

#[test]
fn refusals_after_the_last_token_ask_twice_a_minute() {
    let mut world = daily(1_000, 4, calm(), 5);
    world.run(60, &[100; 4]);
    let calls = world.calls;
    world.run(60, &[100; 4]);
    println!("{calls} calls, then {}", world.calls - calls);
    assert_eq!(world.admitted(), 1_000);
    // Of 24 000; so a limit that is raised is not missed until the window ends.
    assert!(world.calls - calls <= 12, "{}", world.calls - calls);
}

#[test]
fn each_window_gives_its_limit() {
    let minute = Fixed::new(600, World::span(20), WindowStart::Epoch).unwrap();
    let mut world = World::new(Algorithm::Fixed(minute), 4, calm(), 6);
    world.run(200, &[20; 4]);
    println!("{} of 6000", world.admitted());
    assert!(world.admitted() >= 5_900);
}
