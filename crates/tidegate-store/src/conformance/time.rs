//! The store's clock, also when it is wrong.

use core::time::Duration;

use tidegate_core::Algorithm;
use tidegate_core::algorithm::Verdict;

use super::harness::ConformanceStore;
use super::trial::{LIMIT, Passed, START, Trial, WINDOW, ensure, key};

/// Callers learn the time of the store from its answers.
pub fn the_clock_of_the_answer_is_the_clock_of_the_store<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for algorithm in trial.algorithms() {
        for _ in 0..3 {
            trial.advance(Duration::from_millis(1500));
            let answer = trial.all([trial.admit(&key("clock"), &algorithm)])?;
            let now = trial.now();
            ensure!(answer.store_now == now, "at {now} the store says it is {}", answer.store_now);
        }
    }
    Ok(())
}

/// A step back by anything from one step of the clock to a day makes no room, and after one of less
/// than a window everything is as if it had not stepped once the time of the last charge has come
/// again.
pub fn a_clock_that_steps_back_never_admits_more<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let steps = [
        Duration::from_nanos(trial.step()),
        Duration::from_millis(1),
        WINDOW / 2,
        WINDOW,
        WINDOW * 3 / 2,
        WINDOW * 10,
        Duration::from_hours(24),
    ];
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let name = algorithm.name();
        for (index, step) in steps.into_iter().enumerate() {
            let charged_at = START.saturating_add(Duration::from_hours(48) + WINDOW / 3);
            trial.set_now(charged_at);
            let key = key(&format!("back {at} {index}"));
            trial.spend(&key, algorithm, LIMIT)?;
            trial.set_now(charged_at.saturating_sub(step));
            for _ in 0..3 {
                let outcome = trial.one(trial.admit(&key, algorithm))?;
                ensure!(
                    outcome.verdict != Verdict::Admit,
                    "{name} admits after a step back of {step:?}: {outcome:?}"
                );
            }
            if step >= WINDOW {
                // Usage that lies so far ahead may have been brought back to where the clock was.
                continue;
            }
            trial.set_now(charged_at);
            let outcome = trial.one(trial.admit(&key, algorithm))?;
            ensure!(outcome.verdict != Verdict::Admit, "{name} admits when time has come again: {outcome:?}");
        }
        zigzag(trial, algorithm)?;
    }
    Ok(())
}

/// However the clock wanders within a span, no more is admitted than in that span by a clock that
/// does not.
fn zigzag<H: ConformanceStore>(trial: &Trial<'_, H>, algorithm: &Algorithm) -> Passed {
    let mut random = trial.random();
    let key = key(&format!("zigzag {}", algorithm.name()));
    let begin = START.saturating_add(Duration::from_hours(100));
    let windows = 5;
    let mut admitted = 0;
    let turns = (trial.can.operations / 20).clamp(100, 1000) as u64;
    for turn in 0..turns {
        let span = WINDOW.as_nanos() as u64 * windows;
        let forward = turn * span / turns;
        let back = random.below((forward / 3).min(WINDOW.as_nanos() as u64) + 1);
        let step = trial.step();
        trial.set_now(begin.saturating_add(Duration::from_nanos((forward - back) / step * step)));
        admitted += u64::from(trial.one(trial.admit(&key, algorithm))?.verdict == Verdict::Admit);
    }
    // A full limit at the beginning, and one for each window; a sliding counter may double one.
    let most = LIMIT * (windows + 2);
    ensure!(
        admitted <= most,
        "{} admitted {admitted} in {windows} windows of a clock that wanders",
        algorithm.name()
    );
    Ok(())
}

/// A clock that jumps far ahead drains a limit once, not once for each window it skipped.
pub fn a_clock_that_jumps_ahead_ten_years_grants_one_burst<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        trial.set_now(START);
        let key = key(&format!("ahead {at}"));
        trial.spend(&key, algorithm, LIMIT)?;
        trial.advance(Duration::from_hours(24 * 3653));
        trial.spend(&key, algorithm, LIMIT)?;
        let outcome = trial.one(trial.admit(&key, algorithm))?;
        let name = algorithm.name();
        ensure!(
            outcome.verdict != Verdict::Admit,
            "{name} grants more than a burst after ten years: {outcome:?}"
        );
    }
    Ok(())
}
