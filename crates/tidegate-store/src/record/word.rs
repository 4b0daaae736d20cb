//! Usage that is one word: the pure functions of [`Counter`], for whichever algorithm it is.

use tidegate_core::algorithm::{Algorithm, Charged, Counter, State, Verdict};
use tidegate_core::{Cost, Timestamp};

use crate::CarryOver;

/// Evaluates `$body` with `$counter` bound to the word algorithm in `$algorithm`, or `$otherwise`.
macro_rules! with_counter {
    ($algorithm:expr, $counter:ident => $body:expr, $otherwise:expr) => {
        match $algorithm {
            Algorithm::Bucket($counter) => $body,
            Algorithm::Fixed($counter) => $body,
            Algorithm::Calendar($counter) => $body,
            Algorithm::SlidingCounter($counter) => $body,
            _ => $otherwise,
        }
    };
}

/// Whether the usage of `algorithm` is one word.
pub(super) fn counts(algorithm: &Algorithm) -> bool {
    with_counter!(algorithm, _counter => true, false)
}

pub(super) fn decide(algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> (Verdict, State) {
    with_counter!(algorithm, counter => counter.decide(state, cost, now), (Verdict::Admit, state))
}

pub(super) fn charge(algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> State {
    with_counter!(algorithm, counter => counter.charge(state, cost, now), state)
}

pub(super) fn refund(algorithm: &Algorithm, state: State, cost: Cost, now: Timestamp) -> State {
    with_counter!(algorithm, counter => counter.refund(state, cost, now), state)
}

pub(super) fn undo(algorithm: &Algorithm, state: State, charged: &Charged, now: Timestamp) -> State {
    with_counter!(algorithm, counter => counter.undo(state, charged, now), state)
}

pub(super) fn used(algorithm: &Algorithm, state: State, now: Timestamp) -> u64 {
    with_counter!(algorithm, counter => counter.used(state, now), 0)
}

pub(super) fn remaining(algorithm: &Algorithm, state: State, now: Timestamp) -> u64 {
    with_counter!(algorithm, counter => counter.remaining(state, now), algorithm.limit())
}

pub(super) fn reset_at(algorithm: &Algorithm, state: State, now: Timestamp) -> Timestamp {
    with_counter!(algorithm, counter => counter.reset_at(state, now), now)
}

pub(super) fn drained_at(algorithm: &Algorithm, state: State, now: Timestamp) -> Timestamp {
    with_counter!(algorithm, counter => counter.drained_at(state, now), now)
}

pub(super) fn is_drained(algorithm: &Algorithm, state: State, now: Timestamp) -> bool {
    with_counter!(algorithm, counter => counter.is_drained(state, now), true)
}

pub(super) fn brought_back(
    algorithm: &Algorithm,
    state: State,
    charged_at: Timestamp,
    now: Timestamp,
) -> State {
    with_counter!(algorithm, counter => counter.brought_back(state, charged_at, now), state)
}

/// The state under `to` of what was `state` under `from`, both the same algorithm, keeping what
/// `kept` says.
pub(super) fn carry_over(
    to: &Algorithm,
    state: State,
    from: &Algorithm,
    kept: CarryOver,
    now: Timestamp,
) -> State {
    match (to, from) {
        (Algorithm::Bucket(to), Algorithm::Bucket(from)) => match kept {
            CarryOver::Units => to.carry_over(state, from, now),
            CarryOver::Instant => to.carry_instant(state, from, now),
        },
        (Algorithm::Fixed(to), Algorithm::Fixed(from)) => to.carry_over(state, from, now),
        (Algorithm::Calendar(to), Algorithm::Calendar(from)) => to.carry_over(state, from, now),
        (Algorithm::SlidingCounter(to), Algorithm::SlidingCounter(from)) => to.carry_over(state, from, now),
        _ => State::EMPTY,
    }
}

/// The state under `to`, a bucket that keeps its instant, without a charge that was made under
/// `from`.
pub(super) fn undo_instant(
    to: &Algorithm,
    state: State,
    charged: &Charged,
    from: &Algorithm,
    now: Timestamp,
) -> State {
    match (to, from) {
        (Algorithm::Bucket(to), Algorithm::Bucket(from)) => to.undo_instant(state, charged, from, now),
        _ => state,
    }
}
