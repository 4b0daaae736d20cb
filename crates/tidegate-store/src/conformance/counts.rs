//! That what is counted is right: waiting, changed numbers, permits.

use core::time::Duration;

use tidegate_core::algorithm::{Bucket, Concurrency, Rolling, Verdict};
use tidegate_core::{Algorithm, Cost, Rate};

use super::harness::ConformanceStore;
use super::trial::{LIMIT, Passed, START, Trial, WINDOW, cost, ensure, every_algorithm, key};
use crate::{Batch, Kind, Operation, Store};

/// The instant a refusal names is the first at which the same is admitted.
pub fn waiting_as_told_is_enough_and_no_less_is<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        trial.set_now(START.saturating_add(Duration::from_millis(700)));
        let key = key(&format!("waiting {at}"));
        let name = algorithm.name();
        let mut waits = 0;
        for _ in 0..3 * LIMIT {
            let outcome = trial.one(trial.admit(&key, algorithm))?;
            let Verdict::Wait { until } = outcome.verdict else {
                ensure!(outcome.verdict == Verdict::Admit, "one unit of {name}: {outcome:?}");
                trial.advance(Duration::from_millis(100));
                continue;
            };
            waits += 1;
            ensure!(until > trial.now(), "{name} refuses until {until}, which has passed at {}", trial.now());
            let told = trial.told(until);
            ensure!(until == told, "{name} waits until {until}, between two steps of the store's clock");
            trial.set_now(told.saturating_sub(Duration::from_nanos(trial.step())));
            let early = trial.one(trial.admit(&key, algorithm))?;
            ensure!(early.verdict == outcome.verdict, "{name} one step before {until}: {early:?}");
            trial.set_now(told);
            let outcome = trial.one(trial.admit(&key, algorithm))?;
            ensure!(outcome.verdict == Verdict::Admit, "{name} at {until} as told: {outcome:?}");
        }
        ensure!(waits > 1, "{name} admitted three times its limit in {waits} waits");
    }
    Ok(())
}

/// A raised limit admits the difference at once, a lowered one refuses at once, and what is used
/// stays used.
pub fn changed_numbers_keep_what_is_used<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let (double, half) = (every_algorithm(2 * LIMIT), every_algorithm(LIMIT / 2));
    for (at, algorithm) in every_algorithm(LIMIT).iter().enumerate() {
        if [algorithm, &double[at], &half[at]].iter().any(|algorithm| !trial.store.supports(algorithm)) {
            continue;
        }
        let key = key(&format!("changed {at}"));
        let name = algorithm.name();
        trial.spend(&key, algorithm, LIMIT)?;
        let peeked = trial.peek(&trial.admit(&key, &double[at]))?;
        ensure!(peeked.used == LIMIT && peeked.remaining == LIMIT, "{name} doubled: {peeked:?}");
        trial.spend(&key, &double[at], LIMIT)?;
        let outcome = trial.one(trial.admit(&key, &double[at]))?;
        ensure!(outcome.verdict != Verdict::Admit, "{name} doubled admits more than that: {outcome:?}");
        let outcome = trial.one(trial.admit(&key, &half[at]))?;
        ensure!(outcome.verdict != Verdict::Admit, "{name} lowered admits at once: {outcome:?}");
        ensure!(outcome.used == 2 * LIMIT && outcome.remaining == 0, "{name} lowered: {outcome:?}");
    }
    Ok(())
}

/// A bucket that keeps its instant is full again when it would have been, whatever its numbers are
/// now, and an undo takes back the time that its charge took.
pub fn changed_numbers_keep_the_instant_where_that_is_asked_for<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let every = |seconds| {
        let rate = Rate::new(1, Duration::from_secs(seconds)).expect("a rate");
        Algorithm::Bucket(Bucket::new(rate, 5).expect("a bucket"))
    };
    let (fast, slow) = (every(12), every(720));
    trial.needs(&fast)?;
    trial.needs_answers(100)?;
    let name = key("kept instant");
    let check = |algorithm: &Algorithm, units| {
        let kind = Kind::Check { cost: cost(units) };
        Operation::new(name.clone(), algorithm.clone(), kind).keeping_instant()
    };
    let begun = trial.now();
    let full = Batch::all_or_nothing(trial.id(), [check(&fast, 5)]);
    let outcome = trial.run(&full)?.outcomes[0];
    let after = |seconds| begun.saturating_add(Duration::from_secs(seconds));
    ensure!(outcome.reset_at == after(60), "five units of 12 s: {outcome:?}");
    let outcome = trial.peek(&check(&slow, 1))?;
    ensure!(
        outcome.verdict == Verdict::Admit && outcome.reset_at == after(60) && outcome.remaining == 4,
        "a minute of a bucket that takes an hour: {outcome:?}"
    );
    let outcome = trial.one(check(&slow, 4))?;
    ensure!(outcome.verdict == Verdict::Admit && outcome.reset_at == after(60 + 4 * 720), "{outcome:?}");
    let outcome = trial.one(check(&fast, 1))?;
    let until = after(60 + 4 * 720 - 4 * 12);
    ensure!(outcome.verdict == Verdict::Wait { until }, "the fast bucket again: {outcome:?}, not {until}");
    let undone = trial.run(&Batch::undo_of(&full, trial.id()))?.outcomes[0];
    ensure!(undone.reset_at == after(4 * 720), "a minute taken back: {undone:?}");
    Ok(())
}

/// An instant that lies further ahead of a clock than a new, shorter window is brought back to now.
pub fn a_shorter_window_reaches_no_further_ahead_of_a_clock_that_stepped_back<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let rolling = |window| Algorithm::Rolling(Rolling::new(LIMIT, window).expect("a window"));
    let (long, short) = (rolling(WINDOW), rolling(WINDOW / 2));
    trial.needs(&long)?;
    let key = key("shorter window");
    trial.advance(2 * WINDOW);
    trial.one(trial.admit(&key, &long))?;
    trial.set_now(trial.now().saturating_sub(WINDOW * 3 / 4));
    let outcome = trial.one(trial.admit(&key, &short))?;
    let until = trial.now().saturating_add(WINDOW / 2);
    ensure!(outcome.used == 2 && outcome.reset_at == until, "{outcome:?}, not free at {until}");
    Ok(())
}

/// A holder has one permit however often it asks, and only it gives that one back.
pub fn permits_are_counted_by_holder<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let algorithm = Algorithm::Concurrency(Concurrency::new(2, WINDOW).expect("a minute is a hold"));
    trial.needs(&algorithm)?;
    let (first, second, third) = (trial.holder(), trial.holder(), trial.holder());
    let on = |kind| Operation::new(key("permits"), algorithm.clone(), kind);
    let acquire = |holder| on(Kind::Acquire { holder });
    let release = |holder| on(Kind::Release { holder });
    for (operation, admitted, units, used) in [
        (release(first), true, 0, 0),
        (acquire(first), true, 1, 1),
        (acquire(first), true, 0, 1),
        (acquire(second), true, 1, 2),
        (acquire(third), false, 0, 2),
        (acquire(second), true, 0, 2),
        (release(third), true, 0, 2),
        (release(first), true, 1, 1),
        (release(first), true, 0, 1),
        (acquire(third), true, 1, 2),
        (on(Kind::Block { until: trial.now().saturating_add(WINDOW) }), true, 0, 2),
        (acquire(third), true, 0, 2),
        (release(second), true, 1, 1),
        (acquire(first), false, 0, 1),
    ] {
        let outcome = trial.one(operation.clone())?;
        let seen = (outcome.verdict == Verdict::Admit, outcome.units, outcome.used);
        ensure!(seen == (admitted, units, used), "{:?}: {outcome:?}", operation.kind);
    }
    // A batch that took a permit takes back that one, not the one its holder took later.
    trial.needs_answers(100)?;
    let again = |kind| Operation::new(key("permits taken again"), algorithm.clone(), kind);
    let batch = Batch::all_or_nothing(trial.id(), [again(Kind::Acquire { holder: first })]);
    trial.run(&batch)?;
    trial.one(again(Kind::Release { holder: first }))?;
    trial.one(again(Kind::Acquire { holder: first }))?;
    let outcome = trial.run(&Batch::undo_of(&batch, trial.id()))?.outcomes[0];
    ensure!(
        outcome.units == 0 && outcome.used == 1,
        "a permit that was given back and taken again: {outcome:?}"
    );
    Ok(())
}

/// A permit that nobody gives back ends with its hold; asking again makes the hold begin anew.
pub fn permits_expire<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let algorithm = Algorithm::Concurrency(Concurrency::new(1, WINDOW).expect("a minute is a hold"));
    trial.needs(&algorithm)?;
    let (first, second) = (trial.holder(), trial.holder());
    let acquire = |holder| Operation::new(key("expiring"), algorithm.clone(), Kind::Acquire { holder });
    trial.one(acquire(first))?;
    trial.advance(WINDOW / 2);
    trial.one(acquire(first))?;
    let until = trial.now().saturating_add(WINDOW);
    let outcome = trial.one(acquire(second))?;
    ensure!(outcome.verdict == Verdict::Wait { until }, "a renewed permit: {outcome:?}, not until {until}");
    ensure!(outcome.reset_at == until, "a renewed permit: {outcome:?}, not until {until}");
    trial.set_now(until.saturating_sub(Duration::from_nanos(trial.step())));
    ensure!(trial.one(acquire(second))?.verdict != Verdict::Admit, "a permit ended before {until}");
    trial.set_now(until);
    let outcome = trial.one(acquire(second))?;
    ensure!(outcome.units == 1 && outcome.used == 1, "when a permit has expired: {outcome:?}");
    let outcome = trial.one(Operation { kind: Kind::Release { holder: first }, ..acquire(first) })?;
    ensure!(outcome.units == 0 && outcome.used == 1, "an expired permit given back: {outcome:?}");
    // The cost of a peek at permits does not matter.
    let peek = Operation { kind: Kind::Peek { cost: cost(1 << 40) }, ..acquire(first) };
    let small = Operation { kind: Kind::Peek { cost: Cost::ONE }, ..acquire(first) };
    let (peek, small) = (trial.one(peek)?, trial.one(small)?);
    ensure!(peek == small, "a costly peek at permits: {peek:?}, a cheap one {small:?}");
    Ok(())
}
