//! The store's clock, also when it is wrong.

use core::time::Duration;

use tidegate_core::algorithm::Verdict;
use tidegate_core::{Algorithm, Timestamp};

use super::harness::ConformanceStore;
use super::trial::{LIMIT, Passed, START, Stopped, Trial, WINDOW, cost, ensure, key};
use crate::{Key, Kind, Operation};

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
/// does not. A bucket is brought back where the next unit would take longer than a drain.
fn zigzag<H: ConformanceStore>(trial: &Trial<'_, H>, algorithm: &Algorithm) -> Passed {
    let mut random = trial.random();
    let key = key(&format!("zigzag {}", algorithm.name()));
    let begin = START.saturating_add(Duration::from_hours(100));
    let windows = 5;
    let unit = WINDOW / LIMIT as u32;
    let farthest =
        if matches!(algorithm, Algorithm::Bucket(_)) { WINDOW.saturating_sub(unit) } else { WINDOW };
    let mut admitted = 0;
    let turns = (trial.can.operations / 20).clamp(100, 1000) as u64;
    for turn in 0..turns {
        let span = WINDOW.as_nanos() as u64 * windows;
        let forward = turn * span / turns;
        let back = random.below((forward / 3).min(farthest.as_nanos() as u64) + 1);
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

/// How far the clock was ahead: an hour, 40 days, four years.
const AHEAD: [Duration; 3] =
    [Duration::from_hours(1), Duration::from_hours(40 * 24), Duration::from_hours(1461 * 24)];

/// Usage of a clock that went ahead and came back locks nobody for more than two windows or a
/// drain, and the wait that is told is the wait that is kept.
pub fn a_clock_that_was_ahead_locks_nobody_for_long<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, ahead) in AHEAD.into_iter().enumerate() {
        for (index, used) in used_ahead(trial, at, ahead)?.iter().enumerate() {
            let until = used.told_wait(trial)?;
            used.keeps_wait(trial, until, index as u32)?;
        }
    }
    Ok(())
}

/// The same over three restarts: each tells the wait that was told before it.
pub fn the_wait_after_a_clock_that_was_ahead_outlives_restarts<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let mut trial = Trial::new(trial.harness);
    for (at, ahead) in AHEAD.into_iter().enumerate() {
        let all = used_ahead(&trial, at, ahead)?;
        let back = trial.now();
        let mut told = Vec::new();
        for restart in 0..3_u32 {
            trial = trial.reopened()?;
            for (index, used) in all.iter().enumerate() {
                let until = used.told_wait(&trial)?;
                match told.get(index) {
                    None => told.push(until),
                    Some(before) => {
                        let name = used.algorithm.name();
                        ensure!(
                            until == *before,
                            "{name}, restart {restart}: wait until {until}, told {before}"
                        );
                    }
                }
            }
            trial.advance(Duration::from_secs(2));
        }
        for (used, until) in all.iter().zip(told) {
            trial.set_now(back.saturating_add(Duration::from_secs(6)));
            used.keeps_wait(&trial, until, 0)?;
        }
    }
    Ok(())
}

/// A block that was set while the clock was ahead lasts for as long as it was set, from when it is
/// met again.
pub fn a_block_of_a_clock_that_was_ahead_lasts_as_long_as_it_was_set_for<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    blocks_last_as_long_as_set(trial, false)
}

/// The same, however often the store is opened meanwhile.
pub fn a_block_of_a_clock_that_was_ahead_ends_over_restarts<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    blocks_last_as_long_as_set(trial, true)
}

fn blocks_last_as_long_as_set<H: ConformanceStore>(trial: &Trial<'_, H>, is_reopened: bool) -> Passed {
    const LENGTH: Duration = Duration::from_mins(10);
    let mut trial = Trial::new(trial.harness);
    for (round, ahead) in AHEAD.into_iter().enumerate() {
        let back = START.saturating_add(Duration::from_hours(1000 * (round as u64 + 1)));
        trial.set_now(back.saturating_add(ahead));
        let mut all = Vec::new();
        for (index, algorithm) in trial.algorithms().into_iter().enumerate() {
            let admit = trial.admit(&key(&format!("blocked ahead {round} {index}")), &algorithm);
            let until = trial.now().saturating_add(LENGTH);
            trial.one(Operation { kind: Kind::Block { until }, ..admit.clone() })?;
            all.push(admit);
        }
        let until = back.saturating_add(LENGTH);
        let last = until.saturating_sub(Duration::from_nanos(trial.step()));
        for at in [back, back.saturating_add(LENGTH / 2), last] {
            trial.set_now(at);
            for admit in &all {
                let outcome = trial.one(admit.clone())?;
                let seen = (outcome.verdict, outcome.blocked_until);
                ensure!(
                    seen == (Verdict::Wait { until }, Some(until)),
                    "{}, blocked {ahead:?} ahead, at {at}: {seen:?}, not until {until}",
                    admit.algorithm.name()
                );
            }
            if is_reopened {
                trial = trial.reopened()?;
            }
        }
        trial.set_now(until);
        for admit in all {
            let outcome = trial.one(admit.clone())?;
            let name = admit.algorithm.name();
            ensure!(outcome.verdict == Verdict::Admit, "{name} when its block has ended: {outcome:?}");
        }
    }
    Ok(())
}

/// A key that was used while the clock was ahead.
struct UsedAhead {
    algorithm: Algorithm,
    key: Key,
    /// Units in use.
    used: u64,
    back: Timestamp,
}

/// Uses keys of every algorithm, one unit and all of them, under a clock that is ahead, and sets it
/// back.
fn used_ahead<H: ConformanceStore>(
    trial: &Trial<'_, H>,
    round: usize,
    ahead: Duration,
) -> Result<Vec<UsedAhead>, Stopped> {
    let back = START.saturating_add(Duration::from_hours(1000 * (round as u64 + 1)) + WINDOW / 3);
    trial.set_now(back.saturating_add(ahead));
    let mut all = Vec::new();
    for (index, algorithm) in trial.algorithms().into_iter().enumerate() {
        for used in [1, LIMIT] {
            let key = key(&format!("used ahead {round} {index} {used}"));
            trial.spend(&key, &algorithm, used)?;
            all.push(UsedAhead { algorithm: algorithm.clone(), key, used, back });
        }
    }
    trial.set_now(back);
    Ok(all)
}

impl UsedAhead {
    /// As much as fits only when nothing is used; of permits one.
    fn ask<H: ConformanceStore>(&self, trial: &Trial<'_, H>) -> Operation {
        let admit = trial.admit(&self.key, &self.algorithm);
        match admit.kind {
            Kind::Check { .. } => Operation { kind: Kind::Check { cost: cost(LIMIT) }, ..admit },
            _ => admit,
        }
    }

    /// Whether some permits are free, so that there is nothing to wait for.
    fn has_room(&self) -> bool {
        matches!(self.algorithm, Algorithm::Concurrency(_)) && self.used < LIMIT
    }

    /// Until when it is told to wait: no longer than two windows from when the clock was set back,
    /// or than a drain.
    fn told_wait<H: ConformanceStore>(&self, trial: &Trial<'_, H>) -> Result<Timestamp, Stopped> {
        let (name, used) = (self.algorithm.name(), self.used);
        if self.has_room() {
            return Ok(self.back);
        }
        let outcome = trial.one(self.ask(trial))?;
        let Verdict::Wait { until } = outcome.verdict else {
            return Err(Stopped::Failed(format!("{name} forgets {used} units: {outcome:?}")));
        };
        let wait = until.saturating_since(self.back);
        let most = if matches!(self.algorithm, Algorithm::Bucket(_)) { WINDOW } else { 2 * WINDOW };
        ensure!(wait <= most, "{name} with {used} units used ahead tells to wait {wait:?}");
        Ok(until)
    }

    /// Refused a step before, admitted then.
    fn keeps_wait<H: ConformanceStore>(&self, trial: &Trial<'_, H>, until: Timestamp, parts: u32) -> Passed {
        if self.has_room() {
            return Ok(());
        }
        let name = self.algorithm.name();
        let step = Duration::from_nanos(trial.step());
        let wait = until.saturating_since(trial.now());
        for instant in [
            trial.now().saturating_add(wait / (parts + 2)),
            until.saturating_sub(step + Duration::from_millis(1)),
        ] {
            let nanos = instant.as_nanos() / trial.step() * trial.step();
            trial.set_now(Timestamp::from_nanos(nanos));
            let outcome = trial.one(self.ask(trial))?;
            let Verdict::Wait { until: again } = outcome.verdict else {
                return Err(Stopped::Failed(format!("{name} admits before {until}: {outcome:?}")));
            };
            ensure!(again == until, "{name} tells {again} after {until}");
        }
        trial.set_now(until);
        let outcome = trial.one(self.ask(trial))?;
        ensure!(outcome.verdict == Verdict::Admit, "{name} refuses when the wait is over: {outcome:?}");
        trial.set_now(self.back);
        Ok(())
    }
}
