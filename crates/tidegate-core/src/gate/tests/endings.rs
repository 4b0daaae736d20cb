//! Limits that give their charge back on some endings of the work.

use super::*;
use crate::limit::{Outcome, RefundOn, WorkEnd};

fn refund_on(endings: &[&str]) -> RefundOn {
    RefundOn::parse(endings.iter().copied()).unwrap()
}

fn end(outcome: Outcome, status: Option<u16>, true_units: Option<u64>) -> WorkEnd {
    WorkEnd { outcome, status, true_units }
}

#[test]
fn a_charge_is_given_back_on_the_endings_of_its_limit_and_on_no_other() {
    for limit in one_of_each(10).into_iter().filter(|limit| limit.algorithm.name() != "concurrency") {
        let name = limit.name.clone();
        let gate = gate([limit.refund_on(refund_on(&["failed", "304"]))]);
        let key = [(name.as_str(), "x")];
        let left = || gate.peek(&key, Cost::ONE, NOW).limits[0].remaining;
        for (end, expected) in [
            (end(Outcome::Failed, None, None), 10),
            (end(Outcome::Failed, Some(503), Some(9)), 10),
            (end(Outcome::Succeeded, Some(304), None), 10),
            (end(Outcome::Succeeded, Some(200), Some(1)), 9),
            (end(Outcome::Succeeded, None, None), 5),
        ] {
            let permit = gate.check(&key, cost(4), NOW).into_result().unwrap();
            permit.end(gate.table(), &end, NOW);
            assert_eq!(left(), expected, "{name}: {end:?}");
        }
    }
}

#[test]
fn each_limit_of_a_request_ends_by_itself_and_places_are_given_back_in_any_case() {
    let attempts = Limit::new("attempts", bucket(10, Duration::from_mins(1)));
    let failures = Limit::new("failures", bucket(10, Duration::from_mins(1))).refund_on(refund_on(&["2xx"]));
    let parallel = Algorithm::Concurrency(Concurrency::new(1, Duration::from_mins(1)).unwrap());
    let gate = gate([attempts, failures, Limit::new("parallel", parallel).refund_on(refund_on(&["2xx"]))]);
    for (status, expected) in [(200, [9, 10, 1]), (401, [8, 9, 1]), (204, [7, 9, 1])] {
        let permit = gate.check((), Cost::ONE, NOW).into_result().unwrap();
        permit.end(gate.table(), &end(Outcome::Succeeded, Some(status), None), NOW);
        let left: Vec<_> = gate.peek((), Cost::ONE, NOW).limits.iter().map(|one| one.remaining).collect();
        assert_eq!(left, expected, "{status}");
    }
}

#[test]
fn a_permit_ends_by_the_endings_it_was_given_under_although_its_limit_has_others_now() {
    let table = table();
    let build = |endings: &[&str]| {
        let limit = per_second("user", 10).refund_on(refund_on(endings));
        Gate::builder("api").limit(limit).table(Arc::clone(&table)).build().unwrap()
    };
    let key = [("user", "x")];
    let permit = build(&["failed"]).check(&key, cost(4), NOW).into_result().unwrap();
    let gate = build(&[]);
    permit.end(&table, &end(Outcome::Failed, None, None), NOW);
    assert_eq!(gate.peek(&key, Cost::ONE, NOW).limits[0].remaining, 10);
}

#[test]
fn one_set_of_endings_too_many_makes_no_gate() {
    let table = table();
    let build = |status: u16| {
        let limit = per_second("user", 1).refund_on(refund_on(&[&status.to_string()]));
        Gate::builder("api").limit(limit).table(Arc::clone(&table)).build()
    };
    for status in 100..355 {
        build(status).unwrap();
    }
    build(100).unwrap();
    assert_eq!(
        build(355).unwrap_err().to_string(),
        "limit \"user\": there have been 255 different sets of outcomes to refund on since the start; use one of them, or restart"
    );
}
