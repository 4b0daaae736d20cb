//! Looking, reporting, refunding, keeping, settling, resetting, blocking.

use core::time::Duration;
use tidegate_core::{Cost, Limit, Reason, Timestamp};
use tidegate_engine::{
    BuildError, Completion, Decision, Engine, NamespaceConfig, Outcome, Permit, PermitId, Refunded, Request,
    RequestError, Step, TickAction,
};

use crate::world::{NOW, USER, bucket, config, done, permits_config};

fn engine(permits_max: usize) -> Engine {
    let concurrency = tidegate_core::algorithm::Concurrency::new(2, Duration::from_secs(30)).unwrap();
    let limits = vec![
        Limit::new("rate", bucket(100, Duration::from_secs(1))).key(["user"]),
        Limit::new("parallel", tidegate_core::Algorithm::Concurrency(concurrency)).key(["user"]),
    ];
    Engine::builder(permits_config(permits_max))
        .namespace(NamespaceConfig::new("api", limits))
        .build()
        .unwrap()
}

fn admit(engine: &Engine, now: Timestamp) -> Option<Permit> {
    match engine.admit(&Request::new("api", &USER), now).unwrap() {
        Step::Decided(Decision::Admit(permit)) => Some(permit),
        Step::Decided(Decision::Refuse(_)) => None,
        other => panic!("{other:?}"),
    }
}

fn left(engine: &Engine, limit: usize) -> u64 {
    done(engine.peek(&Request::new("api", &USER), NOW)).limits[limit].remaining
}

#[test]
fn a_permit_is_settled_once() {
    let engine = engine(10);
    let expires = NOW.saturating_add(Duration::from_secs(30));
    let kept = done(engine.keep(admit(&engine, NOW).unwrap(), expires, NOW));
    assert_eq!(left(&engine, 1), 1);
    assert!(engine.settle_kept(kept, Outcome::Succeeded, NOW).unwrap().batches.is_empty());
    assert_eq!(left(&engine, 1), 2);
    let again = engine.settle_kept(kept, Outcome::Succeeded, NOW).unwrap_err();
    assert!(matches!(again, RequestError::UnknownPermit(id) if id == kept), "{again}");
    assert_eq!(left(&engine, 1), 2);
}

#[test]
fn the_name_of_a_permit_is_read_as_it_is_written_and_cannot_be_guessed_from_another() {
    let engine = engine(10);
    let expires = NOW.saturating_add(Duration::from_secs(30));
    let one = done(engine.keep(admit(&engine, NOW).unwrap(), expires, NOW));
    let two = done(engine.keep(admit(&engine, NOW).unwrap(), expires, NOW));
    assert_eq!(one.to_string().parse::<PermitId>().unwrap(), one);
    let differing = one.to_string().bytes().zip(two.to_string().bytes()).filter(|(a, b)| a != b).count();
    assert!(differing > 16, "{one} {two}");
    for bad in ["", "xyz", &"0".repeat(31), &"0".repeat(33), "+0000000000000000000000000000000"] {
        assert!(bad.parse::<PermitId>().is_err(), "{bad}");
    }
}

#[test]
fn a_kept_permit_expires_and_gives_its_place_back() {
    let engine = engine(10);
    let expires = NOW.saturating_add(Duration::from_secs(10));
    let kept = done(engine.keep(admit(&engine, NOW).unwrap(), expires, NOW));
    let tick = engine.tick(NOW);
    assert!(tick.actions.is_empty(), "{tick:?}");
    assert_eq!(engine.tick(expires).actions[..], [TickAction::CountExpiredPermits(1)]);
    assert!(matches!(
        engine.settle_kept(kept, Outcome::Succeeded, expires),
        Err(RequestError::UnknownPermit(_))
    ));
    let peek = done(engine.peek(&Request::new("api", &USER), expires));
    assert_eq!(peek.limits[1].remaining, 2);
    // A permit that a settlement removes as expired is counted by the next tick.
    let later = expires.saturating_add(Duration::from_secs(10));
    let [kept, _] = [(); 2].map(|()| done(engine.keep(admit(&engine, expires).unwrap(), later, expires)));
    assert!(engine.settle_kept(kept, Outcome::Succeeded, later).is_err());
    assert_eq!(engine.tick(later).actions[..], [TickAction::CountExpiredPermits(2)]);
    assert!(engine.tick(later).actions.is_empty());
}

#[test]
fn one_permit_too_many_is_cancelled_and_leaves_nothing_charged() {
    let engine = engine(1);
    let expires = NOW.saturating_add(Duration::from_secs(30));
    let kept = done(engine.keep(admit(&engine, NOW).unwrap(), expires, NOW));
    let before = engine.fingerprint();
    let error = engine.keep(admit(&engine, NOW).unwrap(), expires, NOW).unwrap_err();
    assert!(matches!(error, RequestError::TooManyPermits(1)), "{error}");
    assert_eq!(engine.fingerprint(), before);
    assert!(engine.settle_kept(kept, Outcome::Succeeded, NOW).is_ok());
}

#[test]
fn a_true_cost_is_charged_or_given_back_when_a_reservation_is_settled() {
    let engine = engine(10);
    let reserve =
        |units: u64| match engine.admit(&Request::new("api", &USER).cost(Cost::new(units).unwrap()), NOW) {
            Ok(Step::Decided(Decision::Admit(permit))) => permit,
            other => panic!("{other:?}"),
        };
    assert!(engine.settle(reserve(40), Completion::from_cost(10), NOW).batches.is_empty());
    assert_eq!(left(&engine, 0), 90);
    assert!(engine.settle(reserve(10), Completion::from_cost(70), NOW).batches.is_empty());
    assert_eq!(left(&engine, 0), 20);
    assert_eq!(left(&engine, 1), 2, "and the places are free");
}

#[test]
fn a_refund_is_applied_once_for_each_key() {
    let engine = engine(10);
    drop(admit(&engine, NOW));
    drop(admit(&engine, NOW));
    let request = Request::new("api", &USER);
    assert_eq!(done(engine.refund(&request, "order-1", NOW)), Refunded::Applied);
    assert_eq!(left(&engine, 0), 99);
    for _ in 0..3 {
        assert_eq!(done(engine.refund(&request, "order-1", NOW)), Refunded::AlreadyApplied);
    }
    assert_eq!(left(&engine, 0), 99);
    assert_eq!(done(engine.refund(&request, "order-2", NOW)), Refunded::Applied);
    assert_eq!(left(&engine, 0), 100);
}

#[test]
fn what_does_not_exist_is_named() {
    let engine = engine(10);
    let message = |error: RequestError| error.to_string();
    let nowhere = Request::new("nowhere", &USER);
    assert_eq!(
        message(engine.admit(&nowhere, NOW).unwrap_err()),
        "namespace \"nowhere\" does not exist; use one of the policy's, or add it"
    );
    assert!(engine.peek(&nowhere, NOW).is_err() && engine.report(&nowhere, NOW).is_err());
    assert!(engine.refund(&nowhere, "k", NOW).is_err() && engine.reset(&nowhere, None, NOW).is_err());
    let request = Request::new("api", &USER);
    let until = NOW.saturating_add(Duration::from_secs(1));
    assert_eq!(
        message(engine.block(&request, "rats", until, NOW).unwrap_err()),
        "limit \"rats\" of namespace \"api\" does not exist or does not apply to these attributes"
    );
    assert!(engine.reset(&request, Some("rats"), NOW).is_err());
}

#[test]
fn a_block_refuses_until_its_instant_and_a_reset_lifts_it() {
    let engine = engine(10);
    let request = Request::new("api", &USER);
    done(engine.block(&request, "rate", NOW.saturating_add(Duration::from_mins(1)), NOW));
    let Step::Decided(Decision::Refuse(refusal)) = engine.admit(&request, NOW).unwrap() else {
        panic!("blocked")
    };
    assert_eq!(refusal.reason(), Reason::Blocked);
    assert_eq!(done(engine.reset(&request, Some("rate"), NOW)), 1);
    assert!(admit(&engine, NOW).is_some());
}

#[test]
fn a_report_is_booked_whether_or_not_there_is_room() {
    let engine = engine(10);
    let request = Request::new("api", &USER).cost(Cost::new(150).unwrap());
    let reports = done(engine.report(&request, NOW));
    assert_eq!((reports[0].name.as_str(), reports[0].remaining), ("rate", 0));
    assert!(admit(&engine, NOW.saturating_add(Duration::from_millis(509))).is_none());
    assert!(admit(&engine, NOW.saturating_add(Duration::from_millis(510))).is_some());
}

#[test]
fn two_namespaces_of_one_name_make_no_engine() {
    let twice = (0..2).map(|_| NamespaceConfig::new("api", []));
    let error = Engine::builder(config()).namespaces(twice).build().unwrap_err();
    assert!(matches!(error, BuildError::NamespaceName(name) if name == "api"));
}
