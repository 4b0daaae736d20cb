//! Looking, charging afterwards, refunding, settling, resetting, blocking, shadowing.

use super::*;

fn remaining(gate: &Gate, name: &str) -> u64 {
    gate.peek(&[(name, "x")], Cost::ONE, NOW).limits[0].remaining
}

#[test]
fn looking_changes_nothing_and_answers_as_a_check_would() {
    for limit in one_of_each(2) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let fresh = gate.table().fingerprint();
        assert_eq!(gate.peek(&attributes, Cost::ONE, NOW).refusal, None);
        assert_eq!(gate.table().fingerprint(), fresh, "{name}");
        let held: Vec<_> = (0..2).map(|_| gate.check(&attributes, Cost::ONE, NOW)).collect();
        let used = gate.table().fingerprint();
        let looked = gate.peek(&attributes, Cost::ONE, NOW).refusal;
        let refused = gate.check(&attributes, Cost::ONE, NOW).into_result().err();
        assert!(looked.is_some() && looked == refused, "{name}");
        assert_eq!(gate.table().fingerprint(), used, "{name}");
        drop(held);
    }
}

#[test]
fn a_report_is_booked_beyond_the_limit_and_repaid_first() {
    let gate = gate([per_second("user", 10)]);
    let status = gate.report(&[("user", "x")], cost(30), NOW).unwrap();
    assert_eq!(status[0].remaining, 0);
    let refusal = gate.check(&[("user", "x")], Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!(refusal.retry(), Retry::At(after(Duration::from_millis(2100))));
    assert!(gate.report(&[("user", "x")], cost(u64::MAX), NOW).is_ok());
    let refusal = gate.check(&[("user", "x")], Cost::ONE, NOW).into_result().unwrap_err();
    let bound = Duration::from_secs(1 + crate::algorithm::REPORT_DEBT_LIMITS);
    assert!(refusal.retry().after(NOW).unwrap() <= bound, "the debt is bounded: {:?}", refusal.retry());
}

#[test]
fn a_refund_gives_back_no_more_than_was_used() {
    for limit in one_of_each(5) {
        let name = limit.name.clone();
        if name == "concurrency" {
            continue;
        }
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        assert!(gate.check(&attributes, cost(4), NOW).is_admit());
        gate.refund(&attributes, cost(3), NOW);
        assert_eq!(remaining(&gate, &name), 4, "{name}");
        gate.refund(&attributes, cost(u64::MAX), NOW);
        assert_eq!(remaining(&gate, &name), 5, "{name}");
        let admitted = (0..9).filter(|_| gate.check(&attributes, Cost::ONE, NOW).is_admit()).count();
        assert_eq!(admitted, 5, "{name}");
    }
}

#[test]
fn settling_charges_what_the_request_truly_cost() {
    for limit in one_of_each(100) {
        let name = limit.name.clone();
        if name == "concurrency" {
            continue;
        }
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        for (reserved, true_units, left) in [(40, 10, 90), (10, 30, 60), (20, 20, 40), (5, 0, 40)] {
            let Decision::Admit(permit) = gate.check(&attributes, cost(reserved), NOW) else {
                panic!("{name}")
            };
            gate.settle(permit, true_units, NOW);
            assert_eq!(remaining(&gate, &name), left, "{name}: {reserved} settled as {true_units}");
        }
    }
}

#[test]
fn resetting_forgets_what_is_used_of_one_limit_or_of_all() {
    for limit in one_of_each(1) {
        let name = limit.name.clone();
        let gate = gate([limit, Limit::new("all", bucket(1000, Duration::from_hours(1)))]);
        let attributes = [(name.as_str(), "x")];
        let held = gate.check(&attributes, Cost::ONE, NOW);
        assert!(held.is_admit());
        assert_eq!(gate.reset(&attributes, Some("other"), NOW), 0);
        assert!(!gate.check(&attributes, Cost::ONE, NOW).is_admit());
        assert_eq!(gate.reset(&attributes, Some(&name), NOW), 1, "{name}");
        assert!(gate.check(&attributes, Cost::ONE, NOW).is_admit(), "{name}");
        drop(held);
        assert!(gate.reset(&attributes, None, NOW) >= 1);
        let all = gate.peek(&attributes, Cost::ONE, NOW);
        assert_eq!(all.limits.last().unwrap().remaining, 1000);
    }
}

#[test]
fn a_blocked_key_is_refused_until_the_instant_and_not_a_nanosecond_longer() {
    let gate = gate([per_second("user", 100)]);
    let until = after(Duration::from_mins(10));
    assert_eq!(gate.block(&[("user", "x")], "user", until, NOW), Ok(true));
    let refusal = gate.check(&[("user", "x")], Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(until)));
    assert!(gate.check(&[("user", "y")], Cost::ONE, NOW).is_admit(), "its neighbour is not");
    let almost = until.saturating_sub(Duration::from_nanos(1));
    assert!(!gate.check(&[("user", "x")], Cost::ONE, almost).is_admit());
    assert!(gate.check(&[("user", "x")], Cost::ONE, until).is_admit());
    assert_eq!(gate.block(&[("user", "x")], "nobody", until, NOW), Ok(false));
    assert_eq!(gate.block(&[("user", "x")], "user", after(Duration::from_hours(1)), until), Ok(true));
    assert!(!gate.check(&[("user", "x")], Cost::ONE, until).is_admit());
    assert_eq!(gate.block(&[("user", "x")], "user", Timestamp::MIN, until), Ok(true), "lifting it");
    assert!(gate.check(&[("user", "x")], Cost::ONE, until).is_admit());
}

#[test]
fn a_blocked_key_has_nothing_left_until_the_block_ends_and_keeps_what_it_used() {
    for limit in one_of_each(2) {
        let name = limit.name.clone();
        let gate = gate([limit]);
        let attributes = [(name.as_str(), "x")];
        let held = gate.check(&attributes, Cost::ONE, NOW);
        let until = after(Duration::from_hours(2));
        assert_eq!(gate.block(&attributes, &name, until, NOW), Ok(true));
        let refusal = gate.check(&attributes, Cost::ONE, NOW).into_result().unwrap_err();
        assert_eq!((refusal.reason(), refusal.remaining()), (Reason::Blocked, 0), "{name}");
        let peek = gate.peek(&attributes, Cost::ONE, NOW);
        assert_eq!(peek.refusal.map(|refusal| refusal.remaining()), Some(0), "{name}");
        assert_eq!((peek.limits[0].remaining, peek.limits[0].reset_at), (0, until), "{name}");
        let explained = &gate.explain(&attributes, Cost::ONE, NOW)[0].standing;
        let Standing::Counts(counting) = explained else { panic!("{explained:?}") };
        let level = counting.level.as_ref().unwrap();
        assert_eq!((level.used, level.remaining, level.reset_at), (1, 0, until), "{name}");
        drop(held);
        assert_eq!(gate.block(&attributes, &name, Timestamp::MIN, NOW), Ok(true));
        assert!(gate.peek(&attributes, Cost::ONE, NOW).limits[0].remaining > 0, "{name}");
    }
}

#[test]
fn a_caller_without_a_permit_backs_off_for_as_long_as_permits_usually_take_to_come_back() {
    let parallel = Algorithm::Concurrency(Concurrency::new(4, Duration::from_secs(30)).unwrap());
    let gate =
        gate([Limit::new("parallel", parallel), Limit::new("daily", bucket(5, Duration::from_hours(24)))]);
    // Each permit is held for 300 ms, so one comes back every 75 ms.
    let ms = |ms| after(Duration::from_millis(ms));
    let mut held: Vec<_> = (0..4).map(|at| gate.check((), Cost::ONE, ms(75 * at))).collect();
    let refusal = gate.peek((), Cost::ONE, ms(299)).refusal.unwrap();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::ConcurrencyExceeded, Retry::Backoff));
    let hint = refusal.retry_hint.unwrap();
    assert!((50..=100).contains(&hint.as_millis()), "{hint:?}");
    // Callers that never release make no other caller wait for longer than a second.
    let refusal = gate.peek((), Cost::ONE, ms(20_000)).refusal.unwrap();
    assert_eq!(refusal.retry_hint, Some(Duration::from_secs(1)));
    // A quota that is used up binds for longer.
    drop(held.pop());
    held.push(gate.check((), cost(2), ms(20_000)));
    assert_eq!(gate.peek((), cost(2), ms(20_000)).refusal.unwrap().name(), "daily");
}

#[test]
fn exceeding_blocks_the_key_when_the_limit_says_so() {
    let gate = gate([per_second("user", 2).block_on_exceed(Duration::from_mins(10))]);
    assert!(gate.check(&[("user", "x")], cost(2), NOW).is_admit());
    assert_eq!(gate.peek(&[("user", "x")], Cost::ONE, NOW).refusal.unwrap().reason(), Reason::RateExceeded);
    let refusal = gate.check(&[("user", "x")], Cost::ONE, NOW).into_result().unwrap_err();
    let until = Retry::At(after(Duration::from_mins(10)));
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, until));
    let refilled = after(Duration::from_secs(5));
    assert!(!gate.check(&[("user", "x")], Cost::ONE, refilled).is_admit(), "blocked although there is room");
    assert!(gate.check(&[("user", "x")], Cost::ONE, after(Duration::from_mins(10))).is_admit());
}

#[test]
fn a_report_that_leaves_nothing_blocks_the_key_when_the_limit_says_so() {
    let block = Duration::from_mins(10);
    for limit in one_of_each(3).into_iter().filter(|limit| limit.algorithm.name() != "concurrency") {
        let name = limit.name.clone();
        let key = [(name.as_str(), "x")];
        let gate = gate([limit.block_on_exceed(block)]);
        for left in [2, 1] {
            assert_eq!(gate.report(&key, Cost::ONE, NOW).unwrap()[0].remaining, left, "{name}");
            assert!(gate.peek(&key, Cost::ONE, NOW).refusal.is_none(), "{name}");
        }
        let status = gate.report(&key, Cost::ONE, NOW).unwrap().remove(0);
        assert_eq!((status.remaining, status.reset_at), (0, after(block)), "{name}");
        let refusal = gate.peek(&key, Cost::ONE, NOW).refusal.unwrap();
        assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(after(block))), "{name}");
        // A later report is charged and does not prolong the block.
        let later = after(Duration::from_mins(5));
        assert_eq!(gate.report(&key, Cost::ONE, later).unwrap()[0].reset_at, after(block), "{name}");
        let last = Timestamp::from_nanos(after(block).as_nanos() - 1);
        assert!(!gate.check(&key, Cost::ONE, last).is_admit(), "{name}");
        assert!(gate.check(&key, Cost::ONE, after(block)).is_admit(), "{name}");
    }
}

#[test]
fn a_report_to_a_shadow_limit_or_to_one_without_a_block_blocks_nothing() {
    let shadow = per_second("user", 1).block_on_exceed(Duration::from_mins(10)).shadow();
    for limit in [shadow, per_second("user", 1)] {
        let gate = gate([limit]);
        gate.report(&[("user", "x")], cost(1), NOW).unwrap();
        let refilled = after(Duration::from_secs(1));
        assert!(gate.check(&[("user", "x")], Cost::ONE, refilled).is_admit());
    }
}

#[test]
fn a_shadow_limit_refuses_nothing_and_says_what_it_would() {
    let gate = gate([per_second("user", 2).shadow(), per_second("tenant", 5)]);
    let attributes = [("user", "x"), ("tenant", "t")];
    let mut shadowed = Vec::new();
    for _ in 0..5 {
        let Decision::Admit(permit) = gate.check(&attributes, Cost::ONE, NOW) else { panic!("not enforced") };
        shadowed.push(gate.statuses(&permit).find(|status| status.name == "user").unwrap().shadow_refused);
    }
    assert_eq!(shadowed, [false, false, true, true, true]);
    let refusal = gate.check(&attributes, Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!(refusal.violated.len(), 1, "only the enforced limit is violated");
    assert_eq!(refusal.name(), "tenant");
}

#[test]
fn a_permit_tells_what_each_limit_had_left() {
    let gate = gate([per_second("user", 10), Limit::new("all", bucket(60, Duration::from_mins(1)))]);
    let Decision::Admit(permit) = gate.check(&[("user", "x")], cost(4), NOW) else { panic!("there is room") };
    let statuses: Vec<_> = gate.statuses(&permit).collect();
    assert_eq!((statuses[0].name, statuses[0].limit, statuses[0].remaining), ("user", 10, 6));
    assert_eq!((statuses[1].name, statuses[1].limit, statuses[1].remaining), ("all", 60, 56));
    assert_eq!(statuses[0].reset_at, after(Duration::from_millis(400)));
    assert!(!permit.must_be_settled());
}

#[test]
fn a_cost_that_never_fits_is_told_the_largest_that_does_with_the_debt() {
    let bucket = Bucket::new(Rate::per_second(1).unwrap(), 10).unwrap().with_debt(5).unwrap();
    let gate = gate([Limit::new("user", Algorithm::Bucket(bucket)).key(["user"])]);
    let refusal = gate.check(&[("user", "x")], cost(16), NOW).into_result().unwrap_err();
    assert_eq!(
        (refusal.reason(), refusal.violated[0].limit, refusal.remaining()),
        (Reason::CostExceedsLimit, 15, 10)
    );
    assert!(gate.check(&[("user", "x")], cost(15), NOW).is_admit());
    let refusal = gate.check(&[("user", "x")], Cost::ONE, NOW).into_result().unwrap_err();
    assert_eq!(
        (refusal.reason(), refusal.violated[0].limit),
        (Reason::RateExceeded, 10),
        "what the bucket holds"
    );
}
