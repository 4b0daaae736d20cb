use core::time::Duration;
use std::collections::HashSet;
use std::thread;

use proptest::prelude::*;

use super::*;

fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}

fn concurrency(limit: u64, hold_ns: u64) -> Concurrency {
    Concurrency::new(limit, Duration::from_nanos(hold_ns)).unwrap()
}

const HOLD: u64 = 1_000;

fn set_of(bytes: usize) -> (Permits, PermitsHandle) {
    let permits = Permits::new(bytes);
    let set = permits.create().unwrap();
    (permits, set)
}

#[test]
fn waiting_exactly_as_told_is_enough_and_one_nanosecond_less_is_not() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(2, HOLD);
    permits.acquire(set, &limit, at(100)).unwrap();
    permits.acquire(set, &limit, at(300)).unwrap();
    let until = Verdict::Wait { until: at(1_100) };
    assert_eq!(permits.decide(set, &limit, at(300)), Some(until));
    assert_eq!(permits.acquire(set, &limit, at(1_099)), Err(PermitsRefusal::Verdict(until)));
    assert_eq!(permits.acquire(set, &limit, at(1_100)).unwrap().expires(), at(2_100));
    assert_eq!(permits.held(set, at(1_100)), Some(2));
    assert_eq!(permits.reset_at(set, at(1_100)), Some(at(2_100)));
    assert_eq!(permits.reset_at(set, at(2_100)), Some(at(2_100)));
}

#[test]
fn the_time_between_releases_follows_from_the_median_age_and_a_leaked_permit_hardly_moves_it() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(8, HOLD);
    assert_eq!(permits.release_interval(set, &limit, at(0)), None);
    permits.acquire(set, &limit, at(0)).unwrap();
    for step in 0..7 {
        permits.acquire(set, &limit, at(600 + 40 * step)).unwrap();
    }
    // Seven permits of at most 280 ns, of which one ends every 40 ns, and one that is never given
    // back.
    let interval = permits.release_interval(set, &limit, at(880)).unwrap();
    assert!((30..=50).contains(&interval.as_nanos()), "{interval:?}");
    assert_eq!(permits.release_interval(set, &limit, at(2_000)), None, "all have expired");
}

#[test]
fn a_limit_of_zero_never_hands_out() {
    let (permits, set) = set_of(1 << 16);
    assert_eq!(permits.decide(set, &concurrency(0, HOLD), at(0)), Some(Verdict::Never { largest: 0 }));
}

#[test]
fn a_permit_is_given_back_once_and_never_frees_somebody_elses() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(1, HOLD);
    let first = permits.acquire(set, &limit, at(0)).unwrap();
    assert!(permits.release(set, first, at(10)));
    assert!(!permits.release(set, first, at(10)));
    let second = permits.acquire(set, &limit, at(10)).unwrap();
    assert!(!permits.release(set, first, at(10)));
    assert_eq!(permits.held(set, at(10)), Some(1));

    // The second expires and its place is taken by a third.
    let third = permits.acquire(set, &limit, at(1_010)).unwrap();
    assert!(!permits.release(set, second, at(1_010)));
    assert_eq!(permits.held(set, at(1_010)), Some(1));
    assert!(permits.release(set, third, at(9_999)), "expired, and nobody has the place");
    assert!(!permits.release(set, third, at(9_999)));
}

#[test]
fn a_raised_limit_hands_out_at_once_and_a_lowered_one_waits_until_enough_came_back() {
    let (permits, set) = set_of(1 << 16);
    let (high, low) = (concurrency(8, HOLD), concurrency(3, HOLD));
    let held: Vec<PermitSlot> = (0..8).map(|now| permits.acquire(set, &high, at(now)).unwrap()).collect();
    assert_eq!(permits.decide(set, &low, at(8)), Some(Verdict::Wait { until: at(5 + HOLD) }));
    for permit in &held[..5] {
        assert!(permits.acquire(set, &low, at(8)).is_err());
        assert!(permits.release(set, *permit, at(8)));
    }
    assert!(permits.acquire(set, &low, at(8)).is_err());
    assert!(permits.release(set, held[7], at(8)));
    assert!(permits.acquire(set, &low, at(8)).is_ok());
    assert!(permits.acquire(set, &low, at(8)).is_err());
    assert!(permits.acquire(set, &high, at(8)).is_ok());
}

#[test]
fn a_changed_hold_changes_later_permits_only() {
    let (permits, set) = set_of(1 << 16);
    permits.acquire(set, &concurrency(2, 10 * HOLD), at(0)).unwrap();
    permits.acquire(set, &concurrency(2, HOLD), at(1)).unwrap();
    let limit = concurrency(2, HOLD);
    assert_eq!(permits.decide(set, &limit, at(2)), Some(Verdict::Wait { until: at(1 + HOLD) }));
    permits.acquire(set, &limit, at(1 + HOLD)).unwrap();
    assert_eq!(permits.held(set, at(9 * HOLD)), Some(1));
    assert_eq!(permits.held(set, at(10 * HOLD)), Some(0));
}

#[test]
fn a_step_back_hands_out_nothing_more() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(1, HOLD);
    permits.acquire(set, &limit, at(0)).unwrap();
    permits.acquire(set, &limit, at(5_000)).unwrap();
    for now in [0, 999, 1_000, 5_999] {
        assert_eq!(permits.decide(set, &limit, at(now)), Some(Verdict::Wait { until: at(6_000) }));
        assert_eq!(permits.held(set, at(now)), Some(1));
    }
    assert!(!permits.is_drained(set, at(0)));
    assert!(permits.is_drained(set, at(6_000)));
}

#[test]
fn at_the_end_of_time_permits_are_held_for_good() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(1, HOLD);
    permits.acquire(set, &limit, at(u64::MAX)).unwrap();
    assert!(matches!(permits.decide(set, &limit, at(u64::MAX)), Some(Verdict::Wait { .. })));
}

#[test]
fn only_a_drained_set_is_reclaimed_and_its_handle_is_stale_from_then_on() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(3, HOLD);
    let permit = permits.acquire(set, &limit, at(0)).unwrap();
    assert!(!permits.reclaim_if_drained(set, at(HOLD - 1)));
    assert!(permits.reclaim_if_drained(set, at(HOLD)));
    assert_eq!(permits.bytes_used(), 0);
    let again = permits.create().unwrap();
    let twin = permits.acquire(again, &limit, at(0)).unwrap();
    assert_eq!(twin, permit, "the same place, the same stamp, another set");
    assert!(!permits.release(set, permit, at(0)));
    assert_eq!(permits.acquire(set, &limit, at(0)), Err(PermitsRefusal::Stale));
    assert_eq!(permits.decide(set, &limit, at(0)), None);
    assert_eq!(permits.held(set, at(0)), None);
    assert!(permits.is_drained(set, at(0)));
    permits.reclaim(set);
    assert_eq!(permits.held(again, at(0)), Some(1));
    permits.reclaim(again);
    assert_eq!(permits.bytes_used(), 0);
}

#[test]
fn the_budget_is_never_passed_and_refused_as_full_is_unchanged() {
    for bytes in [0, 200, 1_000, 100_000] {
        let permits = Permits::new(bytes);
        let limit = concurrency(100, HOLD);
        let (mut sets, mut full) = (Vec::new(), 0);
        while let Some(set) = permits.create() {
            for _ in 0..100 {
                let held = permits.held(set, at(0));
                if permits.acquire(set, &limit, at(0)) == Err(PermitsRefusal::Full) {
                    full += 1;
                    assert_eq!(permits.held(set, at(0)), held);
                }
            }
            sets.push(set);
            assert!(permits.bytes_used() <= bytes);
        }
        assert!(bytes < 1_000 || full > 0);
        assert!(sets.len() <= bytes / 2 / 112);
        for set in sets {
            assert!(permits.reclaim_if_drained(set, at(HOLD)));
        }
        assert_eq!(permits.bytes_used(), 0);
    }
}

#[test]
fn a_set_that_has_drained_gives_back_memory_when_it_is_used_again() {
    let (permits, set) = set_of(1 << 22);
    let limit = concurrency(Concurrency::LIMIT_MAX, HOLD);
    let bare = permits.bytes_used();
    for _ in 0..Concurrency::LIMIT_MAX {
        permits.acquire(set, &limit, at(0)).unwrap();
    }
    assert!(permits.acquire(set, &limit, at(999)).is_err());
    assert_eq!(permits.bytes_used() - bare, Concurrency::LIMIT_MAX as usize * 24);
    permits.acquire(set, &limit, at(HOLD)).unwrap();
    assert!(permits.bytes_used() - bare <= 4 * 24);
}

#[test]
fn the_tree_stays_shallow_in_any_order() {
    for step in [1, 7_919, 65_535] {
        let mut expiries = Expiries::default();
        expiries.reserve(1 << 16);
        for n in 0_u64..1 << 16 {
            expiries.insert(n * step % (1 << 16));
        }
        assert!(expiries.depth() <= 64, "{}", expiries.depth());
        assert_eq!(expiries.nth(12_345), Some(12_345));
    }
}

#[test]
fn threads_never_hold_more_than_the_limit_and_nothing_is_lost() {
    let (permits, set) = set_of(1 << 16);
    let limit = concurrency(5, HOLD);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50_000 {
                    if let Ok(permit) = permits.acquire(set, &limit, at(0)) {
                        assert!(permits.held(set, at(0)).unwrap() <= 5);
                        assert!(permits.release(set, permit, at(0)));
                    }
                }
            });
        }
    });
    assert_eq!(permits.held(set, at(0)), Some(0));
}

/// A list of permits that is only ever searched from end to end.
#[derive(Default)]
struct List {
    held: Vec<PermitSlot>,
    /// Expired and possibly reused: giving these back may say either.
    doubtful: HashSet<PermitSlot>,
    last: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire,
    /// Of all permits ever handed out, counted from the first, and again from there if there are
    /// fewer.
    Release(usize),
    Limit(u64),
    Hold(u64),
}

fn run(steps: &[(i64, Step)]) {
    let (permits, set) = set_of(1 << 16);
    let (mut limit, mut hold, mut now) = (3, HOLD, 5_000_u64);
    let (mut list, mut all) = (List::default(), Vec::new());
    for &(gap, step) in steps {
        now = now.saturating_add_signed(gap);
        let numbers = concurrency(limit, hold);
        let eff = now.max(list.last);
        let expiries = |list: &List| {
            let mut expiries: Vec<u64> = list.held.iter().map(|permit| permit.expires).collect();
            expiries.retain(|&expires| expires > eff);
            expiries.sort_unstable();
            expiries
        };
        let live = expiries(&list);
        match step {
            Step::Acquire => match permits.acquire(set, &numbers, at(now)) {
                Ok(permit) => {
                    assert!((live.len() as u64) < limit);
                    assert_eq!(permit.expires, eff + hold);
                    let (stay, gone): (Vec<_>, Vec<_>) =
                        list.held.iter().partition(|held| held.expires > eff);
                    list.held = stay;
                    list.doubtful.extend(gone);
                    assert!(!list.held.contains(&permit));
                    list.held.push(permit);
                    list.last = eff;
                    all.push(permit);
                }
                Err(PermitsRefusal::Verdict(Verdict::Wait { until })) => {
                    assert_eq!(until.as_nanos(), live[live.len() - limit as usize]);
                }
                Err(refusal) => {
                    assert_eq!((refusal, limit), (PermitsRefusal::Verdict(Verdict::Never { largest: 0 }), 0));
                }
            },
            Step::Release(which) if !all.is_empty() => {
                let permit = all[which % all.len()];
                let released = permits.release(set, permit, at(now));
                let was_held = list.held.iter().position(|&held| held == permit);
                if let Some(index) = was_held {
                    assert!(released);
                    list.held.swap_remove(index);
                } else if !list.doubtful.remove(&permit) {
                    assert!(!released);
                }
            }
            Step::Release(_) => {}
            Step::Limit(to) => limit = to,
            Step::Hold(to) => hold = to,
        }
        let live = expiries(&list);
        let eff = now.max(list.last);
        let live: Vec<u64> = live.into_iter().filter(|&expires| expires > eff).collect();
        assert_eq!(permits.held(set, at(now)), Some(live.len() as u64));
        let reset = live.last().map_or(at(now), |&last| at(last));
        assert_eq!(permits.reset_at(set, at(now)), Some(reset));
        assert_eq!(permits.is_drained(set, at(now)), live.is_empty() && now >= list.last);
    }
}

#[test]
fn every_short_sequence_agrees_with_a_list() {
    let steps = [
        Step::Acquire,
        Step::Release(0),
        Step::Release(1),
        Step::Limit(1),
        Step::Limit(2),
        Step::Hold(2_000),
    ];
    let gaps = [0, 1, 999, 1_000, -500];
    let choices = steps.len() * gaps.len();
    for sequence in 0..choices.pow(4) {
        let mut rest = sequence;
        let chosen = core::iter::repeat_with(|| {
            let choice = rest % choices;
            rest /= choices;
            (gaps[choice % gaps.len()], steps[choice / gaps.len()])
        });
        let acquired = [(0, Step::Acquire), (1, Step::Acquire)];
        run(&acquired.into_iter().chain(chosen.take(4)).collect::<Vec<_>>());
    }
}

proptest! {
    #[test]
    fn long_sequences_agree_with_a_list(steps in prop::collection::vec(
        (
            prop_oneof![4 => 0_i64..=300, 1 => 300_i64..=3_000, 1 => -700_i64..=0],
            prop_oneof![
                6 => Just(Step::Acquire),
                3 => any::<usize>().prop_map(Step::Release),
                1 => (0_u64..=30).prop_map(Step::Limit),
                1 => (1_000_u64..=4_000).prop_map(Step::Hold),
            ],
        ),
        1..300,
    )) {
        run(&steps);
    }
}
