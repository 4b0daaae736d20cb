use proptest::prelude::*;

use super::*;

const HONEST: Owner = Owner(1);

#[test]
fn a_namespace_that_is_alone_may_hold_all_places() {
    let shares = Shares::new(101);
    shares.divide(1);
    assert!(shares.take(HONEST, 101));
    assert!(!shares.take(HONEST, 1));
    shares.give_back(HONEST, 1);
    assert!(shares.take(HONEST, 1));
}

#[test]
fn a_namespace_below_its_share_gets_a_place_after_others_have_taken_all_they_can() {
    let shares = Shares::new(1000);
    shares.divide(5);
    assert_eq!(shares.guaranteed(), 100);
    for hostile in 2..=5 {
        while shares.take(Owner(hostile), 1) {}
    }
    assert_eq!((2..=5).map(|owner| shares.held(Owner(owner))).sum::<u64>(), 900);
    for _ in 0..100 {
        assert!(shares.take(HONEST, 1));
    }
    assert!(!shares.take(HONEST, 1));
}

#[test]
fn places_that_come_back_go_to_the_pool_before_they_go_to_the_share() {
    let shares = Shares::new(100);
    shares.divide(2);
    while shares.take(Owner(2), 1) {}
    assert_eq!(shares.held(Owner(2)), 75);
    shares.give_back(Owner(2), 10);
    assert!(shares.take(HONEST, 35));
    assert!(!shares.take(HONEST, 1));
}

#[test]
fn a_new_division_counts_what_is_held_by_the_new_shares() {
    let shares = Shares::new(100);
    shares.divide(1);
    assert!(shares.take(Owner(2), 90));
    shares.divide(2);
    assert!(!shares.take(Owner(2), 1), "65 of its 90 places are the pool's, which has 50");
    assert!(shares.take(HONEST, 25), "its share counts, though it is not there yet");
    shares.give_back(Owner(2), 90);
    assert!(shares.take(HONEST, 50));
}

#[test]
fn namespaces_have_numbers_of_their_own_that_stay() {
    let namespaces = Namespaces::new(1);
    assert_eq!(namespaces.owners(), 0);
    let (api, resp) = (namespaces.owner("api"), namespaces.owner("resp"));
    assert_ne!(api, resp);
    assert_ne!(api, Owner::NONE);
    assert_eq!((namespaces.owner("api"), namespaces.owners()), (api, 2));
}

#[test]
fn namespaces_that_only_requests_name_are_one_owner_together() {
    let namespaces = Namespaces::new(1);
    let api = namespaces.owner("api");
    assert_eq!((namespaces.find("api"), namespaces.owners()), (api, 1));
    assert_eq!(
        (namespaces.find("x"), namespaces.find("y"), namespaces.owners()),
        (Owner::NONE, Owner::NONE, 2)
    );
}

#[test]
fn namespaces_beyond_the_last_number_share_it() {
    let namespaces = Namespaces::new(1);
    let last = (0..=Owner::MAX).map(|name| namespaces.owner(&name.to_string())).last();
    assert_eq!(last, Some(Owner(u16::MAX)));
    assert_eq!(namespaces.owner("another"), Owner(u16::MAX));
    assert_eq!(namespaces.owner("0"), Owner(1));
}

#[derive(Clone, Debug)]
enum Step {
    Take(u16, u64),
    TakeAnyway(u16, u64),
    GiveBack(u16, u64),
    Divide(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1_u16..5, 1_u64..40).prop_map(|(owner, count)| Step::Take(owner, count)),
        1 => (1_u16..5, 1_u64..10).prop_map(|(owner, count)| Step::TakeAnyway(owner, count)),
        4 => (1_u16..5, 1_u64..40).prop_map(|(owner, count)| Step::GiveBack(owner, count)),
        1 => (1_usize..6).prop_map(Step::Divide),
    ]
}

proptest! {
    /// The definition: a place is granted if the share has it, or else if all that is held beyond
    /// shares leaves room.
    #[test]
    fn the_counters_agree_with_the_definition(steps in prop::collection::vec(step(), 1..200)) {
        let (shares, mut held, mut share) = (Shares::new(200), [0_u64; 5], 0);
        for step in steps {
            match step {
                Step::Take(owner, count) => {
                    let mut after = held;
                    after[usize::from(owner)] += count;
                    let beyond = |held: &[u64; 5]| held.iter().map(|one| one.saturating_sub(share)).sum::<u64>();
                    let pool = if share == 0 { 200 } else { 100 };
                    let is_granted = beyond(&after) == beyond(&held) || beyond(&after) <= pool;
                    prop_assert_eq!(shares.take(Owner(owner), count), is_granted);
                    if is_granted {
                        held = after;
                    }
                }
                Step::TakeAnyway(owner, count) => {
                    shares.take_anyway(Owner(owner), count);
                    held[usize::from(owner)] += count;
                }
                Step::GiveBack(owner, count) => {
                    let count = count.min(held[usize::from(owner)]);
                    shares.give_back(Owner(owner), count);
                    held[usize::from(owner)] -= count;
                }
                Step::Divide(namespaces) => {
                    shares.divide(namespaces);
                    share = if namespaces < 2 { 0 } else { 100 / namespaces as u64 };
                }
            }
            for owner in 1..5 {
                prop_assert_eq!(shares.held(Owner(owner)), held[usize::from(owner)]);
            }
        }
    }
}

#[test]
fn threads_that_take_and_give_back_leave_nothing_behind() {
    let shares = Shares::new(64);
    shares.divide(2);
    std::thread::scope(|scope| {
        for owner in [1, 1, 2, 2] {
            let shares = &shares;
            scope.spawn(move || {
                for _ in 0..20_000 {
                    if shares.take(Owner(owner), 3) {
                        shares.give_back(Owner(owner), 3);
                    }
                }
            });
        }
    });
    assert_eq!((shares.held(Owner(1)), shares.held(Owner(2))), (0, 0));
    assert!(shares.take(HONEST, 48), "nothing of the pool was lost");
    assert!(!shares.take(HONEST, 1));
}
