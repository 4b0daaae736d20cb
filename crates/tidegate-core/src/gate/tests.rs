mod atomicity;
mod carried;
mod changes;
mod endings;
mod explanations;
mod located;
mod moved_usage;
mod operations;
mod plans;
mod reclamation;
mod scopes;
mod short_paths;
mod unread_refusals;
#[cfg(feature = "calendar")]
mod zones;

use core::time::Duration;

use super::*;
use crate::algorithm::{Algorithm, Bucket, Concurrency, Fixed, Rolling, SlidingCounter, WindowStart};
use crate::cost::Cost;
use crate::rate::Rate;
use crate::refusal::{Reason, Retry};
use crate::table::TableConfig;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn after(span: Duration) -> Timestamp {
    NOW.saturating_add(span)
}

fn bucket(units: u64, per: Duration) -> Algorithm {
    Algorithm::Bucket(Bucket::new(Rate::new(units, per).unwrap(), units).unwrap())
}

fn per_second(name: &str, units: u64) -> Limit {
    Limit::new(name, bucket(units, Duration::from_secs(1))).key([name])
}

fn table() -> Arc<KeyTable> {
    Arc::new(KeyTable::new(TableConfig { bytes: 1 << 20, ..TableConfig::seeded([1, 2, 3, 4]) }))
}

fn gate(limits: impl IntoIterator<Item = Limit>) -> Gate {
    Gate::builder("api").limits(limits).table(table()).build().unwrap()
}

/// One limit of each kind, all of them with `units` and counted by the attribute of their own name.
fn one_of_each(units: u64) -> Vec<Limit> {
    one_of_each_in(units, Duration::from_mins(1))
}

fn one_of_each_in(units: u64, window: Duration) -> Vec<Limit> {
    let algorithms = [
        ("bucket", bucket(units, window)),
        ("rolling", Algorithm::Rolling(Rolling::new(units, window).unwrap())),
        ("approximate", Algorithm::SlidingCounter(SlidingCounter::new(units, window).unwrap())),
        ("fixed", Algorithm::Fixed(Fixed::new(units, window, WindowStart::Epoch).unwrap())),
        ("concurrency", Algorithm::Concurrency(Concurrency::new(units, window).unwrap())),
    ];
    algorithms.into_iter().map(|(name, algorithm)| Limit::new(name, algorithm).key([name])).collect()
}

#[test]
fn exactly_as_many_as_the_limit_holds_are_admitted() {
    for limit in one_of_each(7) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let permits: Vec<_> = (0..20)
            .filter_map(|_| match gate.check(&attributes, Cost::ONE, NOW) {
                Decision::Admit(permit) => Some(permit),
                Decision::Refuse(_) => None,
            })
            .collect();
        assert_eq!(permits.len(), 7, "{name}");
    }
}

#[test]
fn a_refusal_says_which_limit_why_when_to_come_back_and_how_much_was_left() {
    let gate = gate([per_second("user", 4)]);
    assert!(gate.check(&[("user", "ada")], cost(3), NOW).is_admit());
    let refusal = gate.check(&[("user", "ada")], cost(2), NOW).into_result().unwrap_err();
    assert_eq!(refusal.reason(), Reason::RateExceeded);
    assert_eq!(refusal.name(), "user");
    assert_eq!(refusal.remaining(), 1);
    assert_eq!(refusal.retry(), Retry::At(after(Duration::from_millis(250))));
    assert_eq!(
        refusal.to_string(),
        "limit \"user\" of \"api\" (user=ada): rate_exceeded, 1 of 4 left, come back at 2027-01-15T08:00:00.25Z"
    );
    let almost = after(Duration::from_millis(250) - Duration::from_nanos(1));
    assert!(!gate.check(&[("user", "ada")], cost(2), almost).is_admit());
    assert!(gate.check(&[("user", "ada")], cost(2), after(Duration::from_millis(250))).is_admit());
}

#[test]
fn the_limit_that_binds_longest_comes_first_and_all_violated_ones_are_listed() {
    let gate = gate([
        Limit::new("short", bucket(1, Duration::from_secs(1))),
        Limit::new("long", bucket(1, Duration::from_hours(2))),
        Limit::new("wide", bucket(100, Duration::from_secs(1))),
    ]);
    assert!(gate.check((), Cost::ONE, NOW).is_admit());
    let refusal = gate.check((), Cost::ONE, NOW).into_result().unwrap_err();
    let names: Vec<_> = refusal.violated.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["long", "short"]);
    assert_eq!(refusal.reason(), Reason::QuotaExceeded, "two hours make a quota");
}

#[test]
fn a_cost_that_never_fits_is_refused_as_never() {
    for limit in one_of_each(7) {
        let name = limit.name.clone();
        if name == "concurrency" {
            continue;
        }
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        for units in [8, u64::MAX] {
            let refusal = gate.check(&attributes, cost(units), NOW).into_result().unwrap_err();
            assert_eq!(
                (refusal.reason(), refusal.retry()),
                (Reason::CostExceedsLimit, Retry::Never),
                "{name}"
            );
        }
    }
}

#[test]
fn a_request_takes_one_permit_whatever_it_costs_and_gives_it_back_by_dropping() {
    let gate = gate([Limit::new(
        "parallel",
        Algorithm::Concurrency(Concurrency::new(1, Duration::from_secs(30)).unwrap()),
    )]);
    let Decision::Admit(permit) = gate.check((), cost(1000), NOW) else { panic!("the first is admitted") };
    assert!(permit.must_be_settled());
    let refusal = gate.check((), Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!(refusal.reason(), Reason::ConcurrencyExceeded);
    assert_eq!(refusal.retry(), Retry::Backoff);
    drop(permit);
    assert!(gate.check((), Cost::ONE, NOW).is_admit());
}

#[test]
fn a_batch_gives_the_answers_that_single_checks_give() {
    let single = gate([per_second("user", 3), Limit::new("all", bucket(20, Duration::from_secs(1)))]);
    let batched = gate([per_second("user", 3), Limit::new("all", bucket(20, Duration::from_secs(1)))]);
    let users: Vec<String> = (0..50).map(|index| format!("user-{}", index % 11)).collect();
    let attributes: Vec<[(&str, &str); 1]> = users.iter().map(|user| [("user", user.as_str())]).collect();
    let requests: Vec<_> = attributes.iter().map(|one| (crate::Attributes::from(one), Cost::ONE)).collect();
    let expected: Vec<bool> =
        requests.iter().map(|(attributes, cost)| single.check(*attributes, *cost, NOW).is_admit()).collect();
    let mut answers = vec![None; requests.len()];
    batched.check_batch(&requests, NOW, |index, decision| answers[index] = Some(decision.is_admit()));
    assert_eq!(answers.into_iter().map(Option::unwrap).collect::<Vec<_>>(), expected);
    assert_eq!(expected.iter().filter(|admitted| **admitted).count(), 20);
}

#[test]
fn a_clock_that_steps_back_never_admits_more() {
    for limit in one_of_each(5) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let mut held = Vec::new();
        for _ in 0..5 {
            let Decision::Admit(permit) = gate.check(&attributes, Cost::ONE, NOW) else { panic!("{name}") };
            held.push(permit);
        }
        let back = NOW.saturating_sub(Duration::from_secs(50));
        assert!(!gate.check(&attributes, Cost::ONE, back).is_admit(), "{name}: a step back");
        assert!(!gate.check(&attributes, Cost::ONE, NOW).is_admit(), "{name}: and forward again");
    }
}

/// A thread may be put aside for longer than a short window after it read the clock.
#[test]
fn a_now_that_comes_late_makes_no_room_in_a_short_window() {
    for limit in one_of_each_in(5, Duration::from_millis(10)) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let permits: Vec<_> = (0..5).map(|_| gate.check(&attributes, Cost::ONE, NOW)).collect();
        assert!(permits.iter().all(Decision::is_admit), "{name}");
        for late in [Duration::from_millis(11), Duration::from_secs(1), Duration::from_secs(59)] {
            assert!(!gate.check(&attributes, Cost::ONE, NOW.saturating_sub(late)).is_admit(), "{name}");
            assert!(!gate.check(&attributes, Cost::ONE, NOW).is_admit(), "{name} after {late:?}");
        }
    }
}

/// By more than a window, it grants one window more, once, and locks nobody for longer than two.
#[test]
fn a_clock_that_was_ahead_locks_no_key_of_a_gate_for_long() {
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    for ahead in [hour, 40 * day, 1461 * day] {
        for used in [1, 5] {
            for limit in one_of_each(5) {
                let name = limit.name.clone();
                let (window, is_permits) = match &limit.algorithm {
                    Algorithm::Concurrency(concurrency) => (concurrency.hold(), true),
                    other => (other.window().unwrap(), false),
                };
                let gate = gate([limit]);
                let attributes = [(name.as_str(), "x")];
                let permits: Vec<_> = (0..used)
                    .map(|_| gate.check(&attributes, Cost::ONE, NOW.saturating_add(ahead)).into_result())
                    .collect();
                assert!(permits.iter().all(Result::is_ok), "{name}");
                let ask = if is_permits { Cost::ONE } else { Cost::new(5).unwrap() };
                let Decision::Refuse(refusal) = gate.check(&attributes, ask, NOW) else {
                    assert!(is_permits && used < 5, "{name} forgets {used}");
                    continue;
                };
                // A permit may come back at any time; it does when its hold ends.
                let until = match refusal.retry() {
                    Retry::At(until) => until,
                    retry => {
                        assert!(is_permits, "{name}: {retry:?}");
                        NOW.saturating_add(window)
                    }
                };
                assert!(until.saturating_since(NOW) <= 2 * window, "{name}, {used} used {ahead:?} ahead");
                // The wait that is told is the wait that is kept.
                let before = until.saturating_sub(Duration::from_nanos(1));
                for now in [NOW.saturating_add(until.saturating_since(NOW) / 2), before] {
                    let refusal = gate.check(&attributes, ask, now).into_result().unwrap_err();
                    assert!(is_permits || refusal.violated[0].retry == Retry::At(until), "{name}");
                }
                assert!(
                    gate.check(&attributes, ask, until).is_admit(),
                    "{name}, {used} used {ahead:?} ahead"
                );
            }
        }
    }
}

/// Also by exactly a drain: the next unit takes no longer than one.
#[test]
fn a_bucket_of_a_clock_that_was_a_drain_ahead_tells_to_wait_no_longer_than_a_drain() {
    let hour = Duration::from_hours(1);
    for used in [1, 5] {
        let gate = gate([Limit::new("user", bucket(5, hour)).key(["user"])]);
        for _ in 0..used {
            assert!(gate.check(&[("user", "x")], Cost::ONE, NOW.saturating_add(hour)).is_admit());
        }
        let refusal = gate.check(&[("user", "x")], Cost::ONE, NOW).into_result().unwrap_err();
        let Retry::At(until) = refusal.retry() else { panic!("{refusal:?}") };
        assert!(until.saturating_since(NOW) <= hour, "{used} used: {until}");
        assert!(gate.check(&[("user", "x")], Cost::ONE, until).is_admit(), "{used} used");
    }
}

#[test]
fn a_block_that_a_limit_set_while_the_clock_was_ahead_lasts_no_longer_than_such_a_block() {
    let (length, day) = (Duration::from_mins(10), Duration::from_hours(24));
    for ahead in [day, 40 * day, 1461 * day] {
        let gate = gate([per_second("user", 1).block_on_exceed(length)]);
        let ask = |now| gate.check(&[("user", "x")], Cost::ONE, now).into_result();
        assert!(ask(NOW.saturating_add(ahead)).is_ok());
        assert_eq!(ask(NOW.saturating_add(ahead)).unwrap_err().reason(), Reason::Blocked);
        assert_eq!(ask(NOW).unwrap_err().retry(), Retry::At(NOW.saturating_add(length)), "{ahead:?}");
        // The wait that is told is the wait that is kept.
        let nearly = NOW.saturating_add(length).saturating_sub(Duration::from_nanos(1));
        assert_eq!(ask(nearly).unwrap_err().retry(), Retry::At(NOW.saturating_add(length)), "{ahead:?}");
        assert!(ask(NOW.saturating_add(length)).is_ok(), "{ahead:?}");
        // A longer block of an operator stays as long as it was set for.
        let until = NOW.saturating_add(90 * day);
        assert_eq!(gate.block(&[("user", "y")], "user", until, NOW), Ok(true));
        let refusal = gate.check(&[("user", "y")], Cost::ONE, NOW.saturating_add(length)).into_result();
        assert_eq!(refusal.unwrap_err().retry(), Retry::At(until));
    }
}

#[test]
fn a_clock_that_jumps_ahead_ten_years_grants_one_limit_at_most() {
    let ahead = after(Duration::from_hours(24 * 3653));
    for limit in one_of_each(5) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        for now in [NOW, ahead] {
            let permits: Vec<_> =
                (0..20).map(|_| gate.check(&attributes, Cost::ONE, now)).filter(Decision::is_admit).collect();
            assert_eq!(permits.len(), 5, "{name} at {now}");
        }
    }
}

#[test]
fn when_the_table_is_full_a_new_key_is_refused_or_admitted_uncounted_as_configured() {
    use crate::table::WhenFull;
    for when_full in [WhenFull::Refuse, WhenFull::Admit] {
        let config =
            TableConfig { bytes: TableConfig::BYTES_MIN, when_full, ..TableConfig::seeded([1, 2, 3, 4]) };
        let table = Arc::new(KeyTable::new(config));
        let limit = Limit::new("user", bucket(1, Duration::from_mins(1))).key(["user"]);
        let gate = Gate::builder("api").limit(limit).table(Arc::clone(&table)).build().unwrap();
        let mut refusals = Vec::new();
        for index in 0..1000 {
            let user = index.to_string();
            if let Decision::Refuse(refusal) = gate.check(&[("user", user.as_str())], Cost::ONE, NOW) {
                refusals.push((refusal.reason(), refusal.retry()));
            }
        }
        let stats = table.stats(NOW);
        match when_full {
            WhenFull::Refuse => {
                assert!(refusals.len() > 700);
                assert_eq!(stats.full_refusals, refusals.len() as u64);
                // The first word drains after a minute; the wait is at most that.
                let waits = after(Duration::from_secs(40))..=after(Duration::from_mins(1));
                let is_told = |retry: &Retry| matches!(retry, Retry::At(at) if waits.contains(at));
                assert!(refusals.iter().all(|(why, retry)| *why == Reason::TableFull && is_told(retry)));
            }
            WhenFull::Admit => {
                assert_eq!(refusals, []);
                assert!(stats.full_admissions > 700);
            }
        }
    }
}

#[test]
fn limits_that_make_no_gate_are_named() {
    let same = [per_second("user", 1), per_second("user", 2)];
    assert_eq!(
        Gate::builder("api").limits(same).build().unwrap_err().to_string(),
        "duplicate limit \"user\"; rename one of them"
    );
    let foreign = per_second("user", 1).override_for([("tenant", "a")], bucket(5, Duration::from_secs(1)));
    assert_eq!(
        Gate::builder("api").limit(foreign).build().unwrap_err().to_string(),
        "limit \"user\": an override needs attributes of `key`, and \"tenant\" is not one of them; use an attribute of `key`"
    );
    let other = per_second("user", 1)
        .override_for([("user", "a")], Algorithm::Rolling(Rolling::new(1, Duration::from_secs(1)).unwrap()));
    assert_eq!(
        Gate::builder("api").limit(other).build().unwrap_err().to_string(),
        "limit \"user\": numbers for rolling of a limit that uses rate; use rate"
    );
    assert!(Gate::builder("api").limit(Limit::new("", bucket(1, Duration::from_secs(1)))).build().is_err());
    let twice = Limit::new("user", bucket(1, Duration::from_secs(1))).key(["a", "a"]);
    assert!(Gate::builder("api").limit(twice).build().is_err());
}
