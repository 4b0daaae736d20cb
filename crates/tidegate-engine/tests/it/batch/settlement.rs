//! Permits of requests that were admitted together, settled together and each by itself.

use tidegate_engine::{Completion, Outcome, Permit};

use super::*;

/// A limit of each kind that a store decides; `all` is the same counter for everybody.
fn world() -> World {
    World::with_limits([
        Limit::new("rate", bucket(100, HOUR)).key(["user"]),
        exact("quota", bucket(50, HOUR)),
        exact("rolling", Algorithm::Rolling(Rolling::new(40, HOUR).unwrap())),
        exact("parallel", Algorithm::Concurrency(Concurrency::new(4, HOUR).unwrap())),
        Limit::new("all", bucket(30, HOUR)).consistency(Consistency::Exact),
    ])
}

fn three() -> [Request<'static>; 3] {
    const BOB: [(&str, &str); 1] = [("user", "bob")];
    [
        Request::new("api", &USER).cost(cost(1)),
        Request::new("api", &BOB).cost(cost(2)),
        Request::new("api", &USER).cost(cost(4)),
    ]
}

fn settle(world: &World, permit: Permit, completion: impl Into<Completion>) {
    world.finish(world.engine.settle(permit, completion, world.now()));
}

#[test]
fn cancelled_together_they_leave_nothing_anywhere() {
    let world = world();
    drop(admitted(&world, &three()));
    let before = world.state();
    let permits = admitted(&world, &three());
    let settled = world.engine.settle(permits, Outcome::Cancelled, world.now());
    assert_eq!(settled.batches.len(), 1, "one round trip for all");
    finish(&world, settled);
    assert_eq!(world.state(), before);
}

#[test]
fn cancelled_together_over_several_batches_they_leave_nothing_anywhere() {
    let world = World::with_limits([exact("quota", bucket(200, HOUR))]);
    drop(admitted(&world, &[Request::new("api", &USER); 3]));
    let before = world.state();
    let permits = admitted(&world, &vec![Request::new("api", &USER); 100]);
    let settled = world.engine.settle(permits, Outcome::Cancelled, world.now());
    assert_eq!(settled.batches.len(), 2);
    finish(&world, settled);
    assert_eq!(world.state(), before);
}

#[test]
fn cancelling_one_leaves_the_others_what_they_have_charged() {
    for gone in 0..3 {
        let world = world();
        let mut permits: Vec<_> = admitted(&world, &three()).into_iter().collect();
        assert_eq!(left(&world, "ada"), [95, 45, 35, 2, 23]);
        settle(&world, permits.remove(gone), Outcome::Cancelled);
        let expected = match gone {
            0 => ([96, 46, 36, 3, 24], [98, 48, 38, 3, 24]),
            1 => ([95, 45, 35, 2, 25], [100, 50, 40, 4, 25]),
            _ => ([99, 49, 39, 3, 27], [98, 48, 38, 3, 27]),
        };
        assert_eq!((left(&world, "ada"), left(&world, "bob")), (expected.0.into(), expected.1.into()));
        // And one after the other, until nothing is left of them.
        for permit in permits {
            settle(&world, permit, Outcome::Cancelled);
        }
        assert_eq!(left(&world, "ada"), [100, 50, 40, 4, 30]);
        assert_eq!(left(&world, "bob"), [100, 50, 40, 4, 30]);
    }
}

#[test]
fn a_key_that_only_one_has_charged_is_undone_when_it_is_cancelled_alone() {
    let world = world();
    let mut permits = admitted(&world, &three()).into_iter();
    // In an hour everything has drained, and others have charged anew: there is nothing to take
    // back from them.
    world.advance(HOUR);
    let (ada, bob) = (permits.next(), permits.next().unwrap());
    let others = admitted(&world, &three());
    let before = left(&world, "bob");
    assert_eq!(before[1..3], [48, 38]);
    settle(&world, bob, Outcome::Cancelled);
    assert_eq!(left(&world, "bob")[1..3], [48, 38]);
    drop((ada, others));
}

#[test]
fn each_is_settled_with_what_it_truly_cost_and_gives_its_own_place_back() {
    let world = world();
    let mut permits = admitted(&world, &three()).into_iter();
    let (first, second, third) = (permits.next().unwrap(), permits.next().unwrap(), permits.next().unwrap());
    assert!([&first, &second, &third].iter().all(|permit| permit.must_be_settled()));
    settle(&world, third, Completion::from_cost(1));
    assert_eq!(
        (left(&world, "ada"), left(&world, "bob")),
        (vec![98, 48, 38, 3, 26], vec![98, 48, 38, 3, 26])
    );
    settle(&world, first, Outcome::Succeeded);
    settle(&world, second, Completion::from_cost(5));
    assert_eq!(
        (left(&world, "ada"), left(&world, "bob")),
        (vec![98, 48, 38, 4, 23], vec![95, 45, 35, 4, 23])
    );
}

#[test]
fn settled_together_their_places_come_back_in_one_round_trip() {
    let world = world();
    let settled = world.engine.settle(admitted(&world, &three()), Outcome::Succeeded, world.now());
    assert_eq!(settled.batches.len(), 1);
    finish(&world, settled);
    assert_eq!(left(&world, "ada"), [95, 45, 35, 4, 23]);
    let rates = World::with_limits([exact("quota", bucket(50, HOUR))]);
    let permits = admitted(&rates, &[Request::new("api", &USER); 2]);
    assert!(rates.engine.settle(permits, Outcome::Succeeded, rates.now()).batches.is_empty());
}

#[test]
fn each_of_several_holds_a_place_of_its_own() {
    let world =
        World::with_limits([exact("parallel", Algorithm::Concurrency(Concurrency::new(3, HOUR).unwrap()))]);
    let mut permits: Vec<_> = admitted(&world, &[Request::new("api", &USER); 3]).into_iter().collect();
    assert_eq!(left(&world, "ada"), [0]);
    let before = world.state();
    assert_eq!(refused(&world, &[Request::new("api", &USER)]), [Some("parallel".to_owned())]);
    settle(&world, permits.remove(1), Outcome::Succeeded);
    assert_eq!(left(&world, "ada"), [1]);
    assert_eq!(refused(&world, &[Request::new("api", &USER); 2]), [None, Some("parallel".to_owned())]);
    let again = admitted(&world, &[Request::new("api", &USER)]);
    settle(&world, permits.remove(1), Outcome::Cancelled);
    assert_eq!(left(&world, "ada"), [1], "the first and the last hold theirs");
    assert_ne!(world.state(), before);
    drop((permits, again));
}

#[test]
fn a_kept_permit_of_several_is_settled_by_its_name_alone() {
    let world = world();
    let mut permits = admitted(&world, &three()).into_iter();
    let until = world.now().saturating_add(HOUR);
    let kept = world.engine.keep(permits.nth(2).unwrap(), until, world.now());
    let id = world.carry(kept).unwrap();
    world.finish(world.engine.settle_kept(id, Outcome::Cancelled, world.now()).unwrap());
    assert_eq!(left(&world, "ada"), [99, 49, 39, 3, 27]);
}
