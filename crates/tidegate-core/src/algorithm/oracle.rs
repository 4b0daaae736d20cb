//! Oracles: the answer each algorithm owes, found another way.
//!
//! Each keeps the whole history instead of a word of state and answers from the definition: an
//! arrival envelope over all pairs of charges, sums over a log, labels as text. Every short
//! sequence of operations is tried, and long ones at random, with clocks that step and limits that
//! change.

mod bucket;
mod calendar;
mod daily_queue;
mod fixed;
mod sliding_counter;

use super::*;
use crate::cost::Cost;

const HOUR: i64 = 3_600_000_000_000;
const TEN_YEARS: i64 = 3_653 * 24 * HOUR;

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// Takes every sequence of up to `length` letters, starting each from `world`.
fn every_sequence<World: Clone, Letter: Copy>(
    world: &World,
    letters: &[Letter],
    length: usize,
    take: &impl Fn(&mut World, Letter),
) {
    if length == 0 {
        return;
    }
    for &letter in letters {
        let mut next = world.clone();
        take(&mut next, letter);
        every_sequence(&next, letters, length - 1, take);
    }
}

/// Decides, and checks the properties of every answer. A refusal changes nothing. Waiting until the
/// returned instant is enough, and one nanosecond less is not. The remaining units are admitted,
/// and one unit more is not. At the reset instant nothing is used. An earlier instant admits no
/// more.
fn decide_and_check(counter: &impl Counter, state: State, units: u64, now: Timestamp) -> (bool, State) {
    let (verdict, next) = counter.decide(state, cost(units), now);
    let admits = |units, at| counter.decide(state, cost(units), at).0 == Verdict::Admit;
    match verdict {
        Verdict::Admit => {}
        Verdict::Wait { until } => {
            assert_eq!(next, state, "a refusal wrote");
            assert!(until > now, "told to wait until {until} at {now}");
            assert!(admits(units, until), "not admitted at {until} as told at {now}");
            assert!(!admits(units, at(until.as_nanos() - 1)), "admitted before {until}");
        }
        Verdict::Never { largest } => {
            assert_eq!(next, state, "a refusal wrote");
            assert!(units > largest);
        }
    }
    let remaining = counter.remaining(state, now);
    assert!(remaining == 0 || admits(remaining, now), "{remaining} remain but are refused");
    let used = counter.used(state, now);
    assert_eq!(used.saturating_add(remaining).max(counter.limit()), used.max(counter.limit()));
    let reset = counter.reset_at(state, now);
    assert_eq!(counter.used(state, reset), 0);
    assert!(reset == now || counter.used(state, at(reset.as_nanos() - 1)) > 0);
    if verdict != Verdict::Admit {
        for back in [1, 500, HOUR.unsigned_abs()] {
            assert!(!admits(units, at(now.as_nanos().saturating_sub(back))), "a step back admits more");
        }
    }
    (verdict == Verdict::Admit, next)
}

/// `now` moved by `by` nanoseconds, which may be negative.
fn moved(now: u64, by: i64) -> u64 {
    now.saturating_add_signed(by)
}
