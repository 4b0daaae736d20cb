//! The acts of operators on limits that are lent by the process itself.

use tidegate_core::error_chain;
use tidegate_engine::{Asking, Completion, Outcome, OverrideState, Progress, Refunded, RuntimeOverride};
use tidegate_store::{MemoryConfig, MemoryStore};

use super::*;

/// Engines without a shared store: one that decides everything itself, and one with a store for
/// exact limits.
fn engines() -> [Engine; 2] {
    [config(), store_config()].map(|config| lent(&engine_by(config, [open("rate", rate(1, 20))])))
}

fn left(engine: &Engine) -> u64 {
    done(engine.peek(&request(1), NOW)).limits[0].remaining
}

#[test]
fn a_report_is_charged_to_the_ledger() {
    for engine in engines() {
        let report = done(engine.report(&request(15), NOW));
        assert_eq!((report[0].name.as_str(), report[0].remaining), ("rate", 5));
        assert_eq!(burst(&engine, NOW), 5);
    }
}

#[test]
fn a_report_that_leaves_nothing_blocks_where_the_limit_blocks() {
    let limit = open("rate", rate(1, 20)).block_on_exceed(Duration::from_mins(1));
    let engine = lent(&engine([limit]));
    let until = NOW.saturating_add(Duration::from_mins(1));
    assert_eq!(done(engine.report(&request(25), NOW))[0].blocked_until, Some(until));
    let Step::Decided(Decision::Refuse(refused)) = engine.admit(&request(1), NOW).unwrap() else {
        panic!("it is blocked")
    };
    let refusal = refused.into_refusal();
    assert_eq!((refusal.reason(), refusal.retry()), (Reason::Blocked, Retry::At(until)));
    assert_eq!(engine.blocks(NOW).len(), 1);
}

#[test]
fn a_refund_is_given_once_for_each_key() {
    let engine = lent(&engine([open("rate", rate(1, 20))]));
    assert!(admits(&engine, 20, NOW));
    assert_eq!(done(engine.refund(&request(8), "once", NOW)), Refunded::Applied);
    assert_eq!(done(engine.refund(&request(8), "once", NOW)), Refunded::AlreadyApplied);
    assert_eq!(left(&engine), 8);
    done(engine.give_back(&request(4), NOW));
    assert_eq!(left(&engine), 12);
    assert_eq!(burst(&engine, NOW), 12);
}

/// A refund that waits for the answer of a store, which is asked about the key of the refund alone.
fn begun_refund(engine: &Engine) -> Box<Asking<Refunded>> {
    match engine.refund(&request(8), "once", NOW).unwrap() {
        Progress::Ask(asking) => {
            assert!(asking.batch().operations.is_empty(), "the store has no ledgers");
            asking
        }
        Progress::Done(refunded) => panic!("{refunded:?}"),
    }
}

#[test]
fn a_refund_with_a_durable_store_is_given_when_the_store_has_its_key() {
    let engine = lent(&engine_by(store_config(), [open("rate", rate(1, 20))]));
    assert!(admits(&engine, 20, NOW));
    let store = MemoryStore::new(MemoryConfig::new([1; 4]), || NOW);
    let asking = begun_refund(&engine);
    assert_eq!(left(&engine), 0, "nothing is given before the store answers");
    let answer = store.run_now(asking.batch());
    assert_eq!(done(asking.resume(&engine, answer, NOW)), Refunded::Applied);
    assert_eq!(left(&engine), 8);
    assert_eq!(done(engine.refund(&request(8), "once", NOW)), Refunded::AlreadyApplied);
    assert_eq!(left(&engine), 8);
}

#[test]
fn two_refunds_of_one_key_at_the_same_time_give_back_once() {
    let engine = lent(&engine_by(store_config(), [open("rate", rate(1, 20))]));
    assert!(admits(&engine, 20, NOW));
    let store = MemoryStore::new(MemoryConfig::new([1; 4]), || NOW);
    let begun = [begun_refund(&engine), begun_refund(&engine)];
    let answered = begun.map(|asking| (store.run_now(asking.batch()), asking));
    let ended = answered.map(|(answer, asking)| done(asking.resume(&engine, answer, NOW)));
    assert_eq!(ended, [Refunded::Applied, Refunded::AlreadyApplied]);
    assert_eq!(left(&engine), 8);
}

#[test]
fn work_that_cost_less_or_more_or_was_cancelled_is_corrected_at_once() {
    for engine in engines() {
        for (cost, completion, expected) in [
            (10, Completion::from_cost(4), 16),
            (3, Completion::from_cost(9), 7),
            (5, Outcome::Cancelled.into(), 7),
        ] {
            let Step::Decided(Decision::Admit(permit)) = engine.admit(&request(cost), NOW).unwrap() else {
                panic!("there is room for {cost}")
            };
            let settled = engine.settle(permit, completion, NOW);
            assert!(settled.batches.is_empty(), "the store has no ledgers");
            assert_eq!(left(&engine), expected, "after {cost}");
        }
    }
}

#[test]
fn a_reset_forgets_what_is_used_and_lifts_a_block() {
    let engine = lent(&engine([open("rate", rate(1, 20))]));
    assert!(admits(&engine, 20, NOW));
    let until = NOW.saturating_add(Duration::from_mins(1));
    done(engine.block(&request(1), "rate", until, NOW));
    assert!(!admits(&engine, 1, NOW));
    assert_eq!(done(engine.reset(&request(1), Some("rate"), NOW)), 1);
    assert_eq!((engine.blocks(NOW).len(), burst(&engine, NOW)), (0, 20));
    assert_eq!(done(engine.reset(&request(1), None, NOW)), 1);
    assert_eq!(burst(&engine, NOW), 20);
}

#[test]
fn a_reset_ahead_of_the_first_ask_forgets_what_the_table_of_keys_has_counted() {
    let before = engine([open("rate", rate(1, 20))]);
    assert!(admits(&before, 20, NOW));
    let engine = lent(&before);
    assert_eq!(done(engine.reset(&request(1), None, NOW)), 1);
    assert_eq!(burst(&engine, NOW), 20);
}

#[test]
fn a_block_refuses_the_key_until_then_and_outlives_the_switch() {
    let before = engine([open("rate", rate(1, 20))]);
    let until = NOW.saturating_add(Duration::from_mins(1));
    done(before.block(&request(1), "rate", until, NOW));
    let engine = lent(&before);
    assert!(!admits(&engine, 1, after(59.0)));
    assert!(admits(&engine, 1, after(60.0)));
    done(engine.block(&request(1), "rate", after(90.0), after(60.0)));
    assert!(!admits(&engine, 1, after(60.0)));
    done(engine.block(&request(1), "rate", after(0.0), after(60.0)));
    assert!(admits(&engine, 1, after(60.0)));
}

fn override_of(algorithm: Algorithm) -> RuntimeOverride {
    RuntimeOverride::new("api", "rate", [("user".to_owned(), "ada".to_owned())], algorithm, NOW)
}

#[test]
fn an_override_applies_at_once_and_keeps_what_is_used() {
    let engine = lent(&engine([open("rate", rate(1, 20))]));
    assert!(admits(&engine, 15, NOW));
    let (engine, _) = engine.with_override(override_of(rate(10, 50)), NOW).unwrap();
    assert_eq!(burst(&engine, NOW), 35);
    let (engine, _) = engine.without_override("api", "rate", &[("user".into(), "ada".into())]).unwrap();
    assert!(!admits(&engine, 1, after(1.0)), "50 of 20 are used");
    assert_eq!(leased(&engine), ["rate"]);
}

#[test]
fn numbers_that_cannot_be_leased_keep_a_limit_from_being_lent_and_are_refused_afterwards() {
    let before = engine([open("rate", rate(1, 20))]);
    let too_fast = || override_of(rate(1_000_000_000, 1_000));
    let error = lent(&before).with_override(too_fast(), NOW).unwrap_err();
    assert!(error_chain(&error).contains("are more than"), "{error:?}");

    let before = engine([open("rate", rate(1, 20))]);
    let (before, _) = before.with_override(too_fast(), NOW).unwrap();
    let engine = lent(&before);
    assert_eq!(leased(&engine), [""; 0], "the override goes on to apply");
    assert_eq!(engine.overrides(NOW).next().unwrap().1, OverrideState::Active);
    assert_eq!(burst(&engine, NOW), 1_000);
    // Without it the limit is lent, and what it has used is used.
    let (engine, _) = engine.without_override("api", "rate", &[("user".into(), "ada".into())]).unwrap();
    assert_eq!((leased(&engine), burst(&engine, NOW)), (vec!["rate".to_owned()], 0));
}

#[test]
fn an_explanation_and_the_list_of_leases_show_what_is_lent() {
    let engine = lent(&engine([open("rate", rate(100, 100))]));
    for step in 0..100 {
        assert!(admits(&engine, 1, after(f64::from(step) / 50.0)));
    }
    let now = after(2.0);
    let view = engine.leases(10, now);
    let lease = &view.leases[0];
    assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("api", "rate"));
    assert!(lease.rate > 0 && lease.demand > 0 && lease.until > now && !lease.is_unanswered, "{lease:?}");
    let explained = done(engine.explain(&request(1), now));
    let Standing::Counts(counting) = &explained.limits[0].standing else { panic!("it counts") };
    let level = counting.level.as_ref().expect("the ledger is here");
    assert_eq!(level.limit, 100);
    assert!(level.remaining > 0 && explained.store_failure.is_none(), "{level:?}");
}

#[test]
fn more_limits_than_a_batch_of_a_store_has_room_for_are_one_operation() {
    let limits: Vec<Limit> = (0..150).map(|number| open(&format!("rate-{number}"), rate(1, 20))).collect();
    for config in [config(), store_config()] {
        let engine = lent(&engine_by(config, limits.clone()));
        assert!(admits(&engine, 12, NOW));
        let left = || {
            let mut left: Vec<u64> =
                done(engine.peek(&request(1), NOW)).limits.iter().map(|one| one.remaining).collect();
            left.dedup();
            left
        };
        assert_eq!(left(), [8]);
        assert_eq!(done(engine.report(&request(3), NOW)).len(), 150);
        assert_eq!(left(), [5]);
        done(engine.give_back(&request(1), NOW));
        assert_eq!(left(), [6]);
        assert_eq!(done(engine.explain(&request(1), NOW)).limits.len(), 150);
    }
    let engine = lent(&engine(limits));
    assert!(admits(&engine, 12, NOW));
    assert_eq!(done(engine.reset(&request(1), None, NOW)), 150);
    assert_eq!(burst(&engine, NOW), 20);
}

#[test]
fn a_batch_of_requests_takes_of_what_is_lent_for_all_or_none() {
    let engine = lent(&engine([open("rate", rate(1, 20))]));
    let decide = |units: [u64; 2]| match engine.admit_all(&units.map(request), NOW).unwrap() {
        Step::Decided(Decision::Admit(_)) => true,
        Step::Decided(Decision::Refuse(_)) => false,
        Step::Ask(pending) => panic!("nothing is to be waited for: {pending:?}"),
    };
    assert!(decide([7, 8]));
    assert!(!decide([3, 4]));
    assert_eq!(left(&engine), 5);
    assert!(decide([1, 4]));
}
#[test]
fn a_batch_that_is_refused_leaves_nothing_charged_of_what_was_in_hand() {
    let engine = lent(&engine([open("rate", rate(1000, 100))]));
    let mut refused = 0;
    for step in 0..3000 {
        let now = after(f64::from(step) / 1000.0);
        let _ = engine.tick(now);
        let left = || done(engine.peek(&request(1), now)).limits[0].remaining;
        let before = left();
        // The first is in hand, and for the second the ledger is asked.
        let step = engine.admit_all(&[1, 90].map(request), now).unwrap();
        if let Step::Decided(Decision::Refuse(_)) = step {
            assert!(left() >= before, "{before} were left, and {} are after a refusal", left());
            refused += 1;
        }
        let _ = admits(&engine, 1, now);
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn a_request_that_is_refused_leaves_nothing_charged() {
    for cost in 1..=20 {
        let engine = lent(&engine([open("rate", rate(1, 20))]));
        for units in [7, 8] {
            assert!(admits(&engine, units, NOW));
        }
        assert_eq!(
            (admits(&engine, cost, NOW), left(&engine)),
            (cost <= 5, if cost <= 5 { 5 - cost } else { 5 })
        );
    }
}
