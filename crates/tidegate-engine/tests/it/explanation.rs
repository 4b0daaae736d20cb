//! The explanation of each limit, limits in a store included.

use core::time::Duration;

use proptest::prelude::*;
use tidegate_core::gate::{DecidedBy, Explanation, Level, Outlook, Standing};
use tidegate_core::limit::{Consistency, OnStoreFailure};
use tidegate_core::{Algorithm, Cost, Limit, Reason, Retry};
use tidegate_engine::{Decision, Explained, Request, RequestError};

use crate::world::{USER, World, bucket};

const HOUR: Duration = Duration::from_hours(1);

fn exact(name: &str, units: u64) -> Limit {
    Limit::new(name, bucket(units, HOUR)).key(["user"]).consistency(Consistency::Exact)
}

fn world() -> World {
    let local = Limit::new("rate", bucket(100, Duration::from_mins(1))).key(["user"]);
    World::with_limits([exact("quota", 50), local, exact("shadow", 5).shadow(), exact("app", 9).key(["app"])])
}

fn request(units: u64) -> Request<'static> {
    Request::new("api", &USER).cost(Cost::new(units).unwrap())
}

fn explained(world: &World, units: u64) -> Explained {
    world.carry(world.engine.explain(&request(units), world.now())).unwrap()
}

fn level(explanation: &Explanation) -> (DecidedBy, Option<Level>) {
    match &explanation.standing {
        Standing::Counts(counting) => (counting.decided_by, counting.level.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn limits_in_the_store_are_explained_in_their_place_with_what_the_store_knows() {
    let world = world();
    drop(world.admit(40));
    let before = world.state();
    let all = explained(&world, 20);
    assert_eq!(world.state(), before, "explaining changes nothing, here or there");
    let names: Vec<_> = all.limits.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["quota", "rate", "shadow", "app"]);
    let (by, quota) = level(&all.limits[0]);
    let quota = quota.unwrap();
    assert_eq!((by, quota.used, quota.remaining), (DecidedBy::Store, 40, 10));
    let refusal = match world.decide(&request(20)) {
        Decision::Refuse(refusal) => refusal,
        Decision::Admit(permit) => panic!("{permit:?}"),
    };
    assert_eq!(quota.outlook, Outlook::Refuse { reason: Reason::QuotaExceeded, retry: refusal.retry() });
    let (by, rate) = level(&all.limits[1]);
    assert_eq!((by, rate.unwrap().outlook), (DecidedBy::Member, Outlook::Admit));
    let (_, shadow) = level(&all.limits[2]);
    let never = Outlook::Refuse { reason: Reason::CostExceedsLimit, retry: Retry::Never };
    assert_eq!((shadow.unwrap().outlook, all.limits[2].refuses()), (never, false));
    assert_eq!(all.limits[3].standing, Standing::Skipped { lacks: "app".to_owned() });
    assert!(!all.is_admitted() && explained(&world, 10).is_admitted());
}

#[test]
fn without_the_store_each_limit_says_what_its_policy_makes_of_that() {
    let failing = |name, how| exact(name, 50).on_store_failure(how);
    let mut world = World::with_limits([
        failing("refuses", OnStoreFailure::Refuse),
        failing("allows", OnStoreFailure::Allow),
        failing("local", OnStoreFailure::Local),
    ]);
    world.store_is_down = true;
    let all = explained(&world, 1);
    assert!(all.store_failure.is_some());
    let levels: Vec<_> = all.limits.iter().map(|one| level(one).1).collect();
    let later = world.now().saturating_add(Duration::from_secs(1));
    let away = Outlook::Refuse { reason: Reason::StoreUnavailable, retry: Retry::At(later) };
    assert_eq!(levels[0].as_ref().unwrap().outlook, away);
    assert_eq!(levels[1], None, "it passes, uncounted");
    assert_eq!(levels[2].as_ref().unwrap().remaining, 50);
    assert_eq!(all.is_admitted(), world.admit(1).is_some());
}

/// A bucket admits more at once than it holds where it may be overdrawn.
#[test]
fn a_cost_that_the_store_never_admits_is_told_the_largest_that_it_does() {
    let Algorithm::Bucket(one) = bucket(10, Duration::from_hours(1)) else { panic!("a bucket") };
    let limit = Limit::new("quota", Algorithm::Bucket(one.with_debt(5).unwrap())).key(["user"]);
    let world = World::with_limits([limit.consistency(Consistency::Exact)]);
    let Decision::Refuse(refused) = world.decide(&request(16)) else { panic!("never admitted") };
    let refusal = refused.into_refusal();
    assert_eq!((refusal.reason(), refusal.violated[0].limit), (Reason::CostExceedsLimit, 15));
    assert!(world.admit(15).is_some());
}

#[test]
fn a_namespace_that_is_none_is_an_error() {
    let world = world();
    let error = world.engine.explain(&Request::new("none", &USER), world.now()).unwrap_err();
    assert!(matches!(error, RequestError::UnknownNamespace(name) if name == "none"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_explained_is_what_is_then_decided_here_and_in_the_store(
        requests in proptest::collection::vec((1..30_u64, 0..600_u64, any::<bool>()), 1..30),
    ) {
        let mut world = world();
        for (units, step, is_down) in requests {
            world.advance(Duration::from_secs(step));
            world.store_is_down = is_down;
            let would_admit = explained(&world, units).is_admitted();
            prop_assert_eq!(would_admit, world.admit(units).is_some());
        }
    }
}
