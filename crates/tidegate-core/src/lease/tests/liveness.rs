//! A caller within its limit is not refused, whichever members it reaches.

use super::world::{Trouble, World};
use crate::algorithm::{Algorithm, Bucket, Fixed, WindowStart};
use crate::rate::Rate;

/// How a caller chooses the member for a request.
#[derive(Clone, Copy, Debug)]
enum Routing {
    /// The same one for good.
    Sticky,
    /// One drawn for each request.
    Drawn,
    /// The same one for ten seconds, then the next.
    Moving,
}

fn bucket(units: u64, seconds: u64, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, World::span(seconds)).unwrap(), burst).unwrap())
}

fn window(limit: u64, seconds: u64) -> Algorithm {
    Algorithm::Fixed(Fixed::new(limit, World::span(seconds), WindowStart::Epoch).unwrap())
}

/// Refused requests in a million, of a caller that sends one every so many milliseconds.
fn refused(algorithm: Algorithm, every_ms: u64, members: usize, routing: Routing, seed: u64) -> u64 {
    let trouble = Trouble { delay_ms: 2, ..Trouble::default() };
    let mut world = World::new(algorithm, members, trouble, seed);
    let seconds = (every_ms * 3).clamp(120, 1800);
    for ms in 0..seconds * 1000 {
        world.step();
        if ms % every_ms == 0 {
            let member = match routing {
                Routing::Sticky => 0,
                Routing::Drawn => world.chance.below(members as u64),
                Routing::Moving => ms / 10_000 % members as u64,
            };
            world.request(member as usize, 1, 0);
        }
    }
    let refused: u64 = world.members.iter().map(|member| member.refused).sum();
    refused * 1_000_000 / world.decisions()
}

#[test]
fn of_a_steady_caller_at_four_fifths_of_its_limit_at_least_99_requests_in_100_are_admitted() {
    let (mut worst, mut moving) = (0, 0);
    for (name, algorithm, every_ms) in [
        ("5/m", bucket(5, 60, 5), 15_000),
        ("10/s", bucket(10, 1, 10), 125),
        ("30/s", bucket(30, 1, 30), 42),
        ("100/s", bucket(100, 1, 100), 13),
        ("500/s, burst 50", bucket(500, 1, 50), 3),
        ("1000/s", bucket(1000, 1, 1000), 2),
        ("fixed 5/m", window(5, 60), 15_000),
        ("fixed 60/m", window(60, 60), 1_250),
        ("fixed 1000/m", window(1000, 60), 75),
        ("fixed 100/s", window(100, 1), 13),
    ] {
        for members in [2, 10] {
            for routing in [Routing::Sticky, Routing::Drawn, Routing::Moving] {
                let refused = refused(algorithm.clone(), every_ms, members, routing, members as u64);
                println!("{name}, {members} members, {routing:?}: {refused} in a million refused");
                match routing {
                    Routing::Sticky | Routing::Drawn => worst = worst.max(refused),
                    // Tokens leased by one member take up to a second to reach the next.
                    Routing::Moving => moving = moving.max(refused),
                }
            }
        }
    }
    assert!(worst <= 10_000 && moving <= 120_000, "{worst} and {moving} in a million");
}
