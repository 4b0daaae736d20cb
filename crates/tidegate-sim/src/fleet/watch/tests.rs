//! Each rule, broken by hand.

use core::time::Duration;

use tidegate_core::Reason;
use tidegate_core::lease::HolderName;

use super::*;
use crate::fleet::observation::Attempt;
use crate::kit::WORLD_BEGIN;

fn watch(consistency: DecisionSite) -> Watch {
    let mut scenario = Scenario::new(9);
    scenario.consistency = consistency;
    scenario.members = 4;
    scenario.limit = Numbers::per_second(1000, 100);
    Watch::new(&scenario)
}

fn rules(watch: &Watch) -> Vec<Rule> {
    watch.findings.kept().iter().map(|violation| violation.rule).collect()
}

fn ask(member: u64) -> Ask {
    Ask::first(HolderName { member, incarnation: 1 }, 1)
}

fn grant(lump: u32, rate: u32, ttl: Duration) -> Grant {
    Grant {
        seq: 1,
        epoch: 1,
        lump,
        held: lump,
        rate,
        ttl,
        keep: lump,
        members: 1,
        is_scarce: false,
        is_lost: false,
        again: Duration::ZERO,
        gone: 0,
    }
}

const LEASE: Duration = Duration::from_secs(5);

fn admitted(run: u64, cost: u64) -> Admitted {
    let attempt = Attempt { key: 0, cost, made: 0, is_first: true, is_steady: true };
    Admitted { member: 0, run, cost, source: None, member_now: WORLD_BEGIN, attempt }
}

#[test]
fn a_charge_beyond_the_bound_is_seen_in_the_store_and_at_a_member() {
    let mut exact = watch(DecisionSite::Exact);
    exact.decided_in_store(0, 100, true, 0, 0);
    assert_eq!(rules(&exact), []);
    exact.decided_in_store(0, 1, true, 0, 0);
    assert_eq!(rules(&exact), [Rule::OverAdmission]);
    let mut local = watch(DecisionSite::Local);
    local.admitted(admitted(1, 25), 0, 0);
    assert_eq!(rules(&local), []);
    local.admitted(admitted(1, 1), 0, 0);
    assert_eq!(rules(&local), [Rule::OverAdmission]);
}

#[test]
fn a_refusal_while_there_is_room_is_seen_and_one_without_is_none() {
    let mut watch = watch(DecisionSite::Exact);
    watch.decided_in_store(0, 100, true, 0, 0);
    watch.decided_in_store(0, 1, false, 0, 0);
    assert_eq!(rules(&watch), []);
    // Units that the store has lost may be used again, and refusing them is not wrong either.
    watch.lost_charge(0, 50);
    watch.decided_in_store(0, 50, false, 0, 0);
    watch.decided_in_store(0, 50, true, 0, 0);
    assert_eq!(rules(&watch), []);
    watch.decided_in_store(0, 1, false, 10 * MS, 10 * MS);
    assert_eq!(rules(&watch), [Rule::RefusedWithRoom]);
}

#[test]
fn more_lent_than_there_is_is_seen() {
    let mut watch = watch(DecisionSite::Leased);
    watch.granted(0, &ask(1), &grant(100, 2500, LEASE), 0, 0);
    watch.granted(0, &ask(2), &grant(0, 2500, LEASE), 0, 0);
    assert_eq!(watch.out(0, 0), 5100);
    // The next takes its place a second later; until then a thousand were released, and now are
    // lent again.
    watch.granted(0, &ask(2), &grant(0, 2500, LEASE), SECOND, SECOND);
    assert_eq!(rules(&watch), []);
    watch.granted(0, &ask(3), &grant(501, 0, LEASE), SECOND, SECOND);
    assert_eq!(rules(&watch), [Rule::LeaseSum]);
}

#[test]
fn what_is_spent_after_its_end_is_seen_unless_the_store_is_silent() {
    let mut watch = watch(DecisionSite::Leased);
    let lent = grant(50, 0, LEASE);
    watch.granted(0, &ask(1), &lent, 0, 0);
    watch.answered(0, 1, Some(&lent), 0);
    watch.admitted(admitted(1, 1), 5 * SECOND, 5 * SECOND);
    assert_eq!(rules(&watch), []);
    watch.answered(0, 1, None, 6 * SECOND);
    watch.admitted(admitted(1, 1), 6 * SECOND, 6 * SECOND);
    assert_eq!(rules(&watch), []);
    watch.answered(0, 1, Some(&grant(0, 0, Duration::ZERO)), 7 * SECOND);
    watch.admitted(admitted(1, 1), 7 * SECOND, 7 * SECOND);
    assert_eq!(rules(&watch), [Rule::SpentAfterEnd]);
}

#[test]
fn a_member_that_decides_alone_is_seen_if_the_store_answers_it_or_its_lease_has_tokens() {
    let alone = |cost| Admitted { source: Some(Source::Alone), ..admitted(1, cost) };
    let mut watch = watch(DecisionSite::Leased);
    let lent = grant(10, 0, LEASE);
    watch.granted(0, &ask(1), &lent, 0, 0);
    watch.answered(0, 1, Some(&lent), 0);
    watch.admitted(alone(1), 0, 0);
    assert_eq!(rules(&watch), [Rule::AloneWhenAnswered]);
    watch.answered(0, 1, None, SECOND);
    watch.admitted(alone(11), SECOND, SECOND);
    watch.admitted(admitted(1, 1), SECOND, SECOND);
    watch.admitted(alone(10), SECOND, SECOND);
    assert_eq!(rules(&watch)[1..], []);
    watch.admitted(alone(1), SECOND, SECOND);
    assert_eq!(rules(&watch)[1..], [Rule::AloneWithTokens]);
    // When the lease has ended nothing is left of it.
    watch.admitted(alone(1), 6 * SECOND, 6 * SECOND);
    assert_eq!(watch.findings.counts()[&Rule::AloneWithTokens], 1);
}

#[test]
fn a_member_may_take_an_answer_for_none_when_its_clock_may_say_that_a_tenth_of_a_second_has_passed() {
    let alone = Admitted { source: Some(Source::Alone), ..admitted(1, 1) };
    for (after, is_seen) in [(94, true), (99, false), (101, false), (106, false)] {
        let mut watch = watch(DecisionSite::Leased);
        watch.asks(0, &ask(1), 0);
        watch.answered(0, 1, Some(&grant(8, 0, Duration::from_millis(12))), after * MS);
        watch.admitted(alone, after * MS, after * MS);
        assert_eq!(rules(&watch), if is_seen { &[Rule::AloneWhenAnswered][..] } else { &[] }, "{after}");
    }
}

#[test]
fn tokens_are_not_spent_once_their_member_has_heard_of_the_next_epoch() {
    let mut watch = watch(DecisionSite::Leased);
    let lent = grant(10, 0, LEASE);
    watch.granted(0, &ask(1), &lent, 0, 0);
    watch.answered(0, 1, Some(&lent), 0);
    watch.asks(0, &Ask { left: 10, ..ask(1) }, 0);
    // It ends while it is on its way, so it is taken for no answer.
    let next = Grant { epoch: 2, ..grant(10, 0, Duration::from_millis(300)) };
    watch.answered(0, 1, Some(&next), SECOND);
    watch.admitted(Admitted { source: Some(Source::Alone), ..admitted(1, 1) }, SECOND, SECOND);
    assert_eq!(rules(&watch), []);
}

#[test]
fn more_than_a_share_is_seen_of_a_leased_and_of_an_exact_limit() {
    // A burst of a hundred, four members.
    for consistency in [DecisionSite::Leased, DecisionSite::Exact] {
        let mut watch = watch(consistency);
        if consistency == DecisionSite::Leased {
            watch.answered(0, 1, None, 0);
        } else {
            watch.answered_request(0, 1, false, 0);
        }
        let alone = |cost| Admitted { source: Some(Source::Alone), ..admitted(1, cost) };
        watch.admitted(alone(25), 0, 0);
        assert_eq!(rules(&watch), []);
        watch.admitted(alone(1), 0, 0);
        assert_eq!(rules(&watch), [Rule::AloneBeyondShare]);
    }
}

#[test]
fn a_refusal_by_a_member_alone_is_excused_only_if_its_share_has_no_room() {
    let refusal = |made| {
        let attempt = Attempt { key: 0, cost: 1, made, is_first: true, is_steady: true };
        Refusal { member: 0, run: 1, reason: Reason::RateExceeded, member_now: WORLD_BEGIN + made, attempt }
    };
    for (spent, expected) in [(0, &[Rule::RefusedTooLong][..]), (25, &[][..])] {
        let mut watch = watch(DecisionSite::Leased);
        watch.answered(0, 1, None, 0);
        let alone = Admitted { source: Some(Source::Alone), ..admitted(1, 5) };
        for now in (0..12).map(|step| step * SECOND / 10) {
            // The share is kept full by others of the key.
            (0..spent / 5)
                .for_each(|_| watch.admitted(Admitted { member_now: WORLD_BEGIN + now, ..alone }, now, now));
            watch.asked_for(0, 1, true, now);
            watch.refused(refusal(now), now, now);
        }
        let found: Vec<Rule> =
            rules(&watch).into_iter().filter(|rule| *rule == Rule::RefusedTooLong).collect();
        assert_eq!(found, expected, "{spent}");
    }
}

#[test]
fn a_lease_of_an_epoch_that_ended_is_not_spent_for_long() {
    let mut watch = watch(DecisionSite::Leased);
    let lent = grant(50, 0, Duration::from_mins(1));
    watch.granted(0, &ask(1), &lent, 0, 0);
    watch.answered(0, 1, Some(&lent), 0);
    watch.epoch_began(2, SECOND);
    watch.admitted(admitted(1, 1), 6 * SECOND, 6 * SECOND);
    assert_eq!(rules(&watch), []);
    watch.admitted(admitted(1, 1), 7 * SECOND, 7 * SECOND);
    assert_eq!(rules(&watch), [Rule::SpentAfterEpoch]);
}

#[test]
fn a_second_burst_is_seen_within_an_epoch_and_expected_in_the_next() {
    for (epochs, expected) in [([1, 2], &[][..]), ([1, 1], &[Rule::OverAdmission][..])] {
        let mut watch = watch(DecisionSite::Leased);
        for (run, epoch) in (1..).zip(epochs) {
            if epoch == 2 {
                watch.epoch_began(2, 0);
            }
            let lent = Grant { epoch, ..grant(200, 0, LEASE) };
            watch.granted(0, &ask(run), &lent, 0, 0);
            watch.answered(0, run, Some(&lent), 0);
            watch.admitted(admitted(run, 150), 0, 0);
        }
        let found: Vec<Rule> = rules(&watch).into_iter().filter(|rule| *rule != Rule::LeaseSum).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn units_for_requests_that_wait_are_good_for_that_instant_only() {
    let mut watch = watch(DecisionSite::Leased);
    let spot = Grant { held: 0, ..grant(3, 0, LEASE) };
    watch.granted(0, &ask(1), &spot, 0, 0);
    watch.answered(0, 1, Some(&spot), MS);
    watch.admitted(admitted(1, 2), MS, MS);
    assert_eq!(rules(&watch), []);
    watch.admitted(admitted(1, 1), 2 * MS, 2 * MS);
    watch.admitted(admitted(1, 1), 2 * MS, 2 * MS);
    assert_eq!(rules(&watch), [Rule::NotGranted]);
}

#[test]
fn steady_callers_that_are_refused_more_than_one_in_a_hundred_first_attempts_are_seen() {
    for (refused, expected) in [(10, &[][..]), (11, &[Rule::FirstAttemptsRefused][..])] {
        let mut watch = watch(DecisionSite::Leased);
        for step in 0..1000 {
            let attempt = Attempt { key: 0, cost: 1, made: step * MS, is_first: true, is_steady: true };
            watch.asked_for(0, 1, true, step * MS);
            if step % 80 == 0 && step / 80 < refused {
                let reason = Reason::RateExceeded;
                let one = Refusal { member: 0, run: 1, reason, member_now: WORLD_BEGIN, attempt };
                watch.refused(one, step * MS, step * MS);
            } else {
                watch.liveness.admitted(attempt, step * MS);
            }
        }
        watch.finish(&measured(Used::default(), [2500.0; 4]), SECOND);
        assert_eq!(rules(&watch), expected);
    }
}

#[test]
fn what_is_spent_without_a_grant_is_seen() {
    let mut watch = watch(DecisionSite::Leased);
    let lent = grant(10, 500, LEASE);
    watch.granted(0, &ask(1), &lent, 0, 0);
    watch.answered(0, 1, Some(&lent), 0);
    // Ten at once; a hundred a second, of which a tenth of a second's gather beyond the ten; and
    // what rounding leaves.
    watch.admitted(admitted(1, 10), 0, 0);
    watch.admitted(admitted(1, 21), SECOND, SECOND);
    assert_eq!(rules(&watch), []);
    watch.admitted(admitted(1, 3), SECOND, SECOND);
    assert_eq!(rules(&watch), [Rule::NotGranted]);
}

fn measured(key: Used, members: [f64; 4]) -> Measured {
    let member = |admitted| Used { offered: 9000.0, admitted };
    Measured { from: SECOND, keys: vec![key], members: members.map(member).to_vec() }
}

#[test]
fn a_limit_that_is_asked_for_and_not_used_is_seen() {
    for (offered, admitted, expected) in [
        (20_000.0, 9_800.0, &[][..]),
        (20_000.0, 9_790.0, &[Rule::Stranded][..]),
        (12_000.0, 5_000.0, &[][..]),
    ] {
        let mut watch = watch(DecisionSite::Leased);
        watch.finish(&measured(Used { offered, admitted }, [2500.0; 4]), 11 * SECOND);
        assert_eq!(rules(&watch), expected);
    }
}

#[test]
fn a_member_that_gets_less_than_the_others_is_seen() {
    let all = Used { offered: 36_000.0, admitted: 10_000.0 };
    for (least, expected) in [(2_400.0, &[][..]), (1_200.0, &[Rule::Unfair][..])] {
        let mut watch = watch(DecisionSite::Leased);
        watch.finish(&measured(all, [least, 2800.0, 2800.0, 2800.0]), 11 * SECOND);
        assert_eq!(rules(&watch), expected);
    }
}

#[test]
fn violations_of_a_rule_beyond_five_are_only_counted() {
    let mut watch = watch(DecisionSite::Exact);
    (0..30).for_each(|_| watch.decided_in_store(0, 101, true, 0, 0));
    assert_eq!((watch.findings.kept().len(), watch.findings.counts()[&Rule::OverAdmission]), (5, 30));
    assert_eq!(watch.findings.kept()[0].seed, 9);
}
