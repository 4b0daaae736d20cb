//! Limits that are lent by the process itself, as its store is shared with no member.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidegate_core::algorithm::{Bucket, Fixed, Rolling, WindowStart};
use tidegate_core::gate::{DecidedBy, Standing};
use tidegate_core::limit::Consistency;
use tidegate_core::{Algorithm, Cost, Limit, Rate, Reason, Retry, Timestamp};
use tidegate_engine::{
    AdminError, Decision, Engine, EngineConfig, NamespaceConfig, Request, RequestError, Step,
};

use crate::world::{NOW, bucket, config, done, store_config};

mod operations;

const ADA: [(&str, &str); 1] = [("user", "ada")];

/// A limit of each user whose place is left open.
fn open(name: &str, algorithm: Algorithm) -> Limit {
    Limit::new(name, algorithm).key(["user"]).lendable()
}

fn rate(units: u64, burst: u64) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::per_second(units).unwrap(), burst).unwrap())
}

fn api(limits: impl IntoIterator<Item = Limit>) -> NamespaceConfig {
    NamespaceConfig::new("api", limits)
}

fn engine_by(config: EngineConfig, limits: impl IntoIterator<Item = Limit>) -> Engine {
    Engine::builder(config).namespace(api(limits)).build().unwrap()
}

fn engine(limits: impl IntoIterator<Item = Limit>) -> Engine {
    engine_by(config(), limits)
}

fn lent(engine: &Engine) -> Engine {
    engine.with_lent("api").unwrap().expect("it was not lent before")
}

fn request(units: u64) -> Request<'static> {
    Request::new("api", &ADA).cost(Cost::new(units).unwrap())
}

/// Whether a request is admitted, which waits for nothing.
fn admits(engine: &Engine, units: u64, now: Timestamp) -> bool {
    match engine.admit(&request(units), now).unwrap() {
        Step::Decided(Decision::Admit(_)) => true,
        Step::Decided(Decision::Refuse(_)) => false,
        Step::Ask(pending) => panic!("nothing is to be waited for: {pending:?}"),
    }
}

/// How many requests of one unit are admitted at once.
fn burst(engine: &Engine, now: Timestamp) -> u64 {
    (0..100_000).take_while(|_| admits(engine, 1, now)).count() as u64
}

/// The limits of the namespace that are spent from leases.
fn leased(engine: &Engine) -> Vec<String> {
    let explained = done(engine.explain(&request(1), NOW));
    let by = |standing: &Standing| match standing {
        Standing::Counts(counting) => counting.decided_by,
        other => panic!("{other:?}"),
    };
    let leased = explained.limits.into_iter().filter(|one| by(&one.standing) == DecidedBy::Lease);
    leased.map(|one| one.name).collect()
}

fn after(seconds: f64) -> Timestamp {
    NOW.saturating_add(Duration::from_secs_f64(seconds))
}

/// Fails where more was admitted in any span than a limit that is leased allows.
fn assert_bound(admitted: &[Timestamp], units: u64, burst: u64) {
    for (first, from) in admitted.iter().enumerate() {
        for (last, until) in admitted.iter().enumerate().skip(first) {
            let span = until.saturating_since(*from);
            let rated = u128::from(units) * (span + Duration::from_millis(100)).as_nanos() / 1_000_000_000;
            let (count, most) = (last - first + 1, rated + u128::from(burst));
            assert!(count as u128 <= most, "{count} in {span:?} from {from}; at most {most}");
        }
    }
}

#[test]
fn a_burning_key_keeps_to_its_bound_over_the_switch_and_has_its_rate_afterwards() {
    for (units, size, offered) in [(5, 10, 50), (20, 40, 100), (200, 100, 1000)] {
        for switch in [0.0, 0.1, 3.0] {
            let mut engine = engine([open("rate", rate(units, size))]);
            let mut admitted = Vec::new();
            let mut is_lent = false;
            let each = 1.0 / f64::from(offered);
            for step in 0..offered * 12 {
                let seconds = f64::from(step) * each;
                let now = after(seconds);
                if !is_lent && seconds >= switch {
                    (engine, is_lent) = (lent(&engine), true);
                }
                let _ = engine.tick(now);
                if admits(&engine, 1, now) {
                    admitted.push(now);
                }
            }
            assert_bound(&admitted, units, size);
            let late = admitted.iter().filter(|at| **at >= after(7.0)).count();
            let due = 5 * units as usize;
            assert!(late * 100 >= due * 95, "{late} of {due} units in 5 s, {units}/s, switch at {switch} s");
        }
    }
}

#[test]
fn a_key_that_has_used_its_burst_has_no_other_after_the_switch() {
    for used in [0, 1, 7, 20] {
        let before = engine([open("rate", rate(1, 20))]);
        assert!(used == 0 || admits(&before, used, NOW));
        let after = lent(&before);
        assert_eq!(burst(&after, NOW), 20 - used, "after {used} of 20");
    }
}

#[test]
fn a_charge_by_an_engine_of_before_the_switch_counts_with_the_next_ask() {
    let before = engine([open("rate", rate(1, 20))]);
    let now = lent(&before);
    assert!(admits(&now, 12, NOW));
    // A request that was read before the switch.
    assert!(admits(&before, 5, NOW));
    assert_eq!(burst(&now, NOW), 3);
}

#[test]
fn requests_of_many_threads_have_one_burst_over_the_switch() {
    const THREADS: u64 = 4;
    let engine = Mutex::new(Arc::new(engine([open("rate", rate(1, 20_000))])));
    let in_force = || Arc::clone(&engine.lock().unwrap());
    let (admitted, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if admits(&in_force(), 1, NOW) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    } else {
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
        while admitted.load(Ordering::Relaxed) < 5000 {
            std::thread::yield_now();
        }
        let lent = lent(&in_force());
        *engine.lock().unwrap() = Arc::new(lent);
    });
    let admitted = admitted.into_inner() + burst(&in_force(), NOW);
    // Each thread may have one request under way that the former engine decides.
    assert!((20_000..=20_000 + THREADS).contains(&admitted), "{admitted}");
}

#[test]
fn lent_are_the_rates_whose_place_is_left_open_and_nothing_else() {
    let minute = Duration::from_mins(1);
    let window = Algorithm::Fixed(Fixed::new(100, minute, WindowStart::Epoch).unwrap());
    let overdrawn = Bucket::new(Rate::per_second(10).unwrap(), 10).unwrap().with_debt(5).unwrap();
    let too_fast = rate(1_000_000_000, 1_000);
    let limits = [
        open("rate", rate(10, 10)),
        Limit::new("said local", rate(10, 10)).key(["user"]),
        open("quota", bucket(100, Duration::from_hours(2))),
        open("daily", bucket(100, Duration::from_hours(24))).consistency(Consistency::Exact),
        open("window", window),
        open("rolling", Algorithm::Rolling(Rolling::new(100, minute).unwrap())),
        open("overdrawn", Algorithm::Bucket(overdrawn)),
        open("too fast", too_fast.clone()),
        open("too fast for bob", rate(10, 10)).override_for([("user", "bob")], too_fast),
        open("divided", rate(10, 10)).divided(),
        open("fast for bob", rate(10, 10)).override_for([("user", "bob")], rate(1000, 1000)),
    ];
    let before = engine(limits);
    assert_eq!((leased(&before), before.lends("api")), (Vec::new(), false));
    let after = lent(&before);
    assert_eq!((leased(&after), after.lends("api")), (vec!["rate".into(), "fast for bob".into()], true));
    assert!(!before.lends("api"), "the engine that is still in force counts by itself");
    assert!(after.with_lent("api").unwrap().is_none(), "it is lent already");
    let unknown = after.with_lent("other").unwrap_err();
    assert!(matches!(unknown, AdminError::Request(RequestError::UnknownNamespace(_))), "{unknown}");
}

#[test]
fn a_namespace_that_nobody_asked_to_lend_is_decided_as_before() {
    let namespaces = ["api", "other"].map(|name| NamespaceConfig::new(name, [open("rate", rate(10, 10))]));
    let engine = Engine::builder(config()).namespaces(namespaces).build().unwrap();
    assert!(engine.lease_totals().is_none(), "there are no leases");
    let engine = lent(&engine);
    assert!(!engine.lends("other"));
    let ask = |namespace| engine.admit(&Request::new(namespace, &ADA), NOW).unwrap();
    let fingerprint = engine.fingerprint();
    assert!(matches!(ask("api"), Step::Decided(Decision::Admit(_))));
    assert_eq!(engine.fingerprint(), fingerprint, "the table of keys counts nothing of it");
    assert!(matches!(ask("other"), Step::Decided(Decision::Admit(_))));
    assert_ne!(engine.fingerprint(), fingerprint);
    assert_eq!(engine.lease_totals().unwrap().holders, 1);
}

#[test]
fn a_quota_is_counted_where_it_was_and_loses_no_count() {
    let quota = || open("daily", bucket(10, Duration::from_hours(24))).consistency(Consistency::Exact);
    let before = engine([open("rate", rate(100, 100)), quota()]);
    assert!(admits(&before, 4, NOW));
    let after = lent(&before);
    assert!(admits(&after, 3, NOW));
    let left = |engine: &Engine| {
        let peek = done(engine.peek(&request(1), NOW));
        peek.limits.into_iter().map(|one| (one.name, one.remaining)).collect::<Vec<_>>()
    };
    assert_eq!(left(&after), [("daily".to_owned(), 3), ("rate".to_owned(), 93)]);
    assert_eq!(burst(&after, NOW), 3);
    assert_eq!(left(&after), [("daily".to_owned(), 0), ("rate".to_owned(), 90)]);
}

#[test]
fn a_refusal_by_another_limit_leaves_no_charge_on_a_lent_one() {
    let exact = Limit::new("daily", bucket(3, Duration::from_hours(24))).key(["user"]);
    let engine = lent(&engine([open("rate", rate(1, 50)), exact]));
    assert_eq!(burst(&engine, NOW), 3);
    let left = done(engine.peek(&request(1), NOW)).limits;
    assert_eq!(left.iter().find(|one| one.name == "rate").unwrap().remaining, 47);
}

#[test]
fn later_policies_are_lent_too_and_keep_what_is_used() {
    let engine = lent(&engine([open("rate", rate(1, 20))]));
    assert!(admits(&engine, 15, NOW));
    let (engine, report) = engine.reconfigured(vec![api([open("rate", rate(1, 30))])]).unwrap();
    assert_eq!(
        report.limits[0].change.to_string(),
        "changed from rate 1/s, burst 20 to rate 1/s, burst 30, usage kept"
    );
    assert_eq!(leased(&engine), ["rate"]);
    assert_eq!(burst(&engine, NOW), 15);
    // Gone, and back again.
    let (engine, _) = engine.reconfigured(Vec::new()).unwrap();
    let (engine, _) = engine.reconfigured(vec![api([open("rate", rate(1, 30))])]).unwrap();
    assert_eq!((leased(&engine), burst(&engine, NOW)), (vec!["rate".to_owned()], 0));
}

#[test]
fn a_reload_says_whether_a_limit_that_is_lent_or_no_longer_lent_starts_fresh() {
    let open = || open("rate", rate(1, 20));
    let said = || Limit::new("rate", rate(1, 20)).key(["user"]);
    for config in [config(), store_config()] {
        let engine = lent(&engine_by(config, [said()]));
        assert!(admits(&engine, 15, NOW));
        let change = |engine: &Engine, limit| {
            let (engine, report) = engine.reconfigured(vec![api([limit])]).unwrap();
            (engine, report.limits[0].change.to_string())
        };
        let (engine, change_to_open) = change(&engine, open());
        assert_eq!(change_to_open, "kept");
        assert_eq!(burst(&engine, NOW), 5);
        let (_, change_to_said) = change(&engine, said());
        assert_eq!(change_to_said, "starts fresh: its consistency was leased and is local");
    }
}

#[test]
fn a_key_without_room_for_its_ledger_is_counted_by_its_complete_limit() {
    let mut config = config();
    config.table.bytes = 4 << 20;
    let engine = lent(&engine_by(config, [open("rate", rate(1, 20))]));
    // Ledgers of so many users do not fit.
    let users: Vec<String> = (0..5_000).map(|number| format!("user-{number:01000}")).collect();
    for user in &users {
        let _ = engine.admit(&Request::new("api", &[("user", user.as_str())]), NOW).unwrap();
    }
    let totals = engine.lease_totals().unwrap();
    assert!(totals.unanswered > 0, "{totals:?}");
    let last = [("user", users.last().unwrap().as_str())];
    let is_admitted = |_: &u64| {
        let step = engine.admit(&Request::new("api", &last), NOW).unwrap();
        matches!(step, Step::Decided(Decision::Admit(_)))
    };
    assert_eq!((0..100).take_while(is_admitted).count(), 19, "one of 20 is used already");
}
