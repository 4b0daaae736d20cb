//! Other limits while requests go on.

use core::time::Duration;

use tidegate_core::algorithm::{
    Calendar, CivilUnit, Concurrency, Fixed, Rolling, SlidingCounter, WindowStart,
};
use tidegate_core::{Algorithm, Cost, Limit, Timestamp, error_chain};
use tidegate_engine::{
    BuildError, Change, Completion, Decision, Engine, NamespaceConfig, Outcome, Permit, ReloadReport,
    Request, RequestError, Step,
};

use crate::world::{NOW, USER, bucket, config, done};

pub(crate) const MINUTE: Duration = Duration::from_mins(1);

pub(crate) fn namespace(limits: impl IntoIterator<Item = Limit>) -> Vec<NamespaceConfig> {
    vec![NamespaceConfig::new("api", limits)]
}

pub(crate) fn engine(limits: impl IntoIterator<Item = Limit>) -> Engine {
    Engine::builder(config()).namespaces(namespace(limits)).build().unwrap()
}

pub(crate) fn admit(engine: &Engine, units: u64, now: Timestamp) -> Option<Permit> {
    let request = Request::new("api", &USER).cost(Cost::new(units).unwrap());
    match engine.admit(&request, now).unwrap() {
        Step::Decided(Decision::Admit(permit)) => Some(permit),
        Step::Decided(Decision::Refuse(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// The remaining quota of each limit.
pub(crate) fn left(engine: &Engine, now: Timestamp) -> Vec<u64> {
    let peek = done(engine.peek(&Request::new("api", &USER), now));
    peek.limits.iter().map(|one| one.remaining).collect()
}

pub(crate) fn limit(name: &str, algorithm: Algorithm) -> Limit {
    Limit::new(name, algorithm).key(["user"])
}

fn changes(report: &ReloadReport) -> Vec<(String, String)> {
    report.limits.iter().map(|one| (one.limit.clone(), one.change.to_string())).collect()
}

fn every(units: u64) -> Vec<Limit> {
    vec![
        limit("bucket", bucket(units, MINUTE)),
        limit("rolling", Algorithm::Rolling(Rolling::new(units, MINUTE).unwrap())),
        limit("approximate", Algorithm::SlidingCounter(SlidingCounter::new(units, MINUTE).unwrap())),
        limit("fixed", Algorithm::Fixed(Fixed::new(units, MINUTE, WindowStart::Epoch).unwrap())),
        limit("calendar", Algorithm::Calendar(Calendar::new(units, CivilUnit::Day, "UTC").unwrap())),
        limit("parallel", Algorithm::Concurrency(Concurrency::new(units, MINUTE).unwrap())),
    ]
}

#[test]
fn what_is_used_stays_used_under_every_algorithm_when_numbers_change() {
    let first = engine(every(10));
    let held: Vec<_> = (0..10).map(|_| admit(&first, 1, NOW).unwrap()).collect();
    assert_eq!(left(&first, NOW), [0; 6]);
    let (raised, report) = first.reconfigured(namespace(every(15))).unwrap();
    assert_eq!(left(&raised, NOW), [5; 6]);
    assert!(report.limits.iter().all(|one| matches!(one.change, Change::Numbers { .. })), "{report:?}");
    assert_eq!(
        report.limits[0].change.to_string(),
        "changed from rate 10/m, burst 10 to rate 15/m, burst 15, usage kept"
    );
    let (lowered, _) = raised.reconfigured(namespace(every(5))).unwrap();
    assert_eq!(left(&lowered, NOW), [0; 6]);
    assert!(admit(&lowered, 1, NOW).is_none());
    // The engine of before still decides, over the same counters.
    let more: Vec<_> = (0..5).map(|_| admit(&raised, 1, NOW).unwrap()).collect();
    assert!(admit(&raised, 1, NOW).is_none());
    drop((held, more));
    assert_eq!(left(&raised, NOW), [0, 0, 0, 0, 0, 15]);
}

#[test]
fn the_report_names_what_became_of_every_limit() {
    let first = engine([
        limit("kept", bucket(10, MINUTE)),
        limit("key", bucket(10, MINUTE)),
        limit("algorithm", bucket(10, MINUTE)),
        limit("unit", Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, "UTC").unwrap())),
        limit("window", Algorithm::Fixed(Fixed::new(10, MINUTE, WindowStart::Epoch).unwrap())),
        limit("zone", Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, "UTC").unwrap())),
        limit("gone", bucket(10, MINUTE)),
    ]);
    drop(admit(&first, 4, NOW));
    let hour = Duration::from_hours(1);
    let (second, report) = first
        .reconfigured(namespace([
            limit("kept", bucket(10, MINUTE)),
            Limit::new("key", bucket(10, MINUTE)).key(["user", "app"]),
            limit("algorithm", Algorithm::Rolling(Rolling::new(10, MINUTE).unwrap())),
            limit("unit", Algorithm::Calendar(Calendar::new(10, CivilUnit::Hour, "UTC").unwrap())),
            limit("window", Algorithm::Fixed(Fixed::new(10, hour, WindowStart::Epoch).unwrap())),
            limit("zone", Algorithm::Calendar(Calendar::new(10, CivilUnit::Day, "Europe/Berlin").unwrap())),
            limit("new", bucket(10, MINUTE)),
        ]))
        .unwrap();
    let expected = [
        ("kept", "kept"),
        ("key", "starts fresh: its key was [user] and is [user, app]"),
        ("algorithm", "starts fresh: its algorithm was rate and is rolling"),
        ("unit", "starts fresh: its unit was day and is hour"),
        ("window", "starts fresh: its window was fixed 10 in 1m and is fixed 10 in 1h"),
        ("zone", "changed from calendar 10 a day in UTC to calendar 10 a day in Europe/Berlin, usage kept"),
        ("new", "added"),
        ("gone", "removed, what it used drains"),
    ];
    let expected: Vec<_> = expected.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    assert_eq!(changes(&report), expected);
    // The limit that counts by application as well does not apply to this request.
    assert_eq!(left(&second, NOW), [6, 10, 10, 10, 6, 10]);
}

#[test]
fn a_reload_that_makes_no_engine_changes_nothing() {
    let first = engine([limit("a", bucket(10, MINUTE))]);
    drop(admit(&first, 3, NOW));
    let before = first.fingerprint();
    let twice = [limit("a", bucket(20, MINUTE)), limit("a", bucket(20, MINUTE))];
    let error = first.reconfigured(namespace(twice)).unwrap_err();
    assert!(matches!(error, BuildError::Limits { .. }), "{error}");
    assert_eq!(
        error_chain(&error),
        "namespace \"api\" has limits that cannot be used: duplicate limit \"a\"; rename one of them"
    );
    assert_eq!((first.fingerprint(), left(&first, NOW)), (before, vec![7]));
}

#[test]
fn a_permit_is_settled_by_an_engine_that_does_not_know_its_namespace_any_more() {
    let first = engine(every(10));
    let expires = NOW.saturating_add(MINUTE);
    let kept = done(first.keep(admit(&first, 4, NOW).unwrap(), expires, NOW));
    let loose = admit(&first, 3, NOW).unwrap();
    let cancelled = admit(&first, 2, NOW).unwrap();
    let (none, report) = first.reconfigured(Vec::new()).unwrap();
    assert!(report.limits.iter().all(|one| one.change == Change::Removed));
    assert!(matches!(none.admit(&Request::new("api", &USER), NOW), Err(RequestError::UnknownNamespace(_))));
    assert!(none.statuses(&loose).is_empty());
    assert!(none.settle_kept(kept, Completion::from_cost(1), NOW).unwrap().batches.is_empty());
    assert!(none.settle(loose, Completion::from_cost(5), NOW).batches.is_empty());
    assert!(none.settle(cancelled, Outcome::Cancelled, NOW).batches.is_empty());
    // The limits come back and find what was used: 1 and 5 of the ten, and every place free.
    let (back, _) = none.reconfigured(namespace(every(10))).unwrap();
    assert_eq!(left(&back, NOW), [4, 4, 4, 4, 4, 10]);
}

#[test]
fn a_place_of_a_limit_that_is_gone_is_given_back_by_dropping_its_permit() {
    let one = || [limit("parallel", Algorithm::Concurrency(Concurrency::new(1, MINUTE).unwrap()))];
    let first = engine(one());
    let permit = admit(&first, 1, NOW).unwrap();
    let (second, _) = first.reconfigured(Vec::new()).unwrap();
    drop((first, permit));
    let (third, _) = second.reconfigured(namespace(one())).unwrap();
    assert_eq!(left(&third, NOW), [1]);
}

#[test]
fn kept_permits_refund_keys_and_blocks_go_on() {
    let first = engine([limit("a", bucket(10, MINUTE))]);
    let request = Request::new("api", &USER);
    drop(admit(&first, 5, NOW));
    assert_eq!(done(first.refund(&request, "order-1", NOW)), tidegate_engine::Refunded::Applied);
    done(first.block(&request, "a", NOW.saturating_add(MINUTE), NOW));
    let (second, _) = first.reconfigured(namespace([limit("a", bucket(20, MINUTE))])).unwrap();
    assert_eq!(done(second.refund(&request, "order-1", NOW)), tidegate_engine::Refunded::AlreadyApplied);
    assert!(admit(&second, 1, NOW).is_none(), "still blocked");
    assert_eq!(done(second.reset(&request, None, NOW)), 1);
    assert_eq!(left(&second, NOW), [20]);
}

#[test]
fn numbers_seen_before_take_no_room_again() {
    let mut engine = engine([limit("a", bucket(1, MINUTE))]);
    drop(admit(&engine, 1, NOW));
    for round in 0..5000_u64 {
        let limits = namespace([limit("a", bucket(1 + round % 7, MINUTE))]);
        engine = engine.reconfigured(limits).unwrap().0;
    }
    assert_eq!(left(&engine, NOW), [4999 % 7]);
}
