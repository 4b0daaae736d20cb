//! Further operations on a counter: peek, report, refund, undo, reset, block.

use core::time::Duration;

use tidegate_core::Cost;
use tidegate_core::algorithm::{REPORT_DEBT_LIMITS, Verdict};

use super::harness::ConformanceStore;
use super::trial::{LIMIT, Passed, START, Trial, WINDOW, cost, ensure, key};
use crate::{Batch, Kind, Operation};

/// A peek says what a check would say, and nothing is different afterwards.
pub fn peeking_changes_nothing<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("peeked {at}"));
        let name = algorithm.name();
        for spent in 0..=LIMIT {
            let admit = trial.admit(&key, algorithm);
            let dump = trial.harness.dump(&trial.store);
            let first = trial.peek(&admit)?;
            let again = trial.peek(&admit)?;
            ensure!(first == again, "{name} peeked twice: {first:?}, then {again:?}");
            let after = trial.harness.dump(&trial.store);
            ensure!(after == dump, "peeking at {name} changed {dump:?} into {after:?}");
            ensure!(
                first.used == spent && first.units == 0,
                "{spent} of {name} are used, a peek says {first:?}"
            );
            let outcome = trial.one(admit)?;
            ensure!(
                outcome.verdict == first.verdict,
                "a check of {name} says {outcome:?}, the peek before {first:?}"
            );
        }
        // A peek that finds no room refuses nothing.
        let peek = Operation { kind: Kind::Peek { cost: Cost::ONE }, ..trial.admit(&key, algorithm) };
        let other = trial.admit(&super::trial::key(&format!("beside {at}")), algorithm);
        let answer = trial.all([peek, other])?;
        ensure!(!answer.refused, "a peek at {name} refused a batch: {answer:?}");
    }
    Ok(())
}

/// Work that is done is charged though there is no room, and refuses what comes after it.
pub fn a_report_is_charged_past_the_limit<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.unit_algorithms().iter().enumerate() {
        let key = key(&format!("reported {at}"));
        trial.spend(&key, algorithm, LIMIT)?;
        let admit = trial.admit(&key, algorithm);
        let until = trial.now().saturating_add(WINDOW);
        // A block refuses requests, not what has already happened.
        trial.one(Operation { kind: Kind::Block { until }, ..admit.clone() })?;
        let reported = trial.one(Operation { kind: Kind::Report { cost: cost(3) }, ..admit.clone() })?;
        let name = algorithm.name();
        ensure!(
            reported.verdict == Verdict::Admit && reported.units == 3,
            "a report of {name}: {reported:?}"
        );
        ensure!(
            reported.used == LIMIT + 3 && reported.remaining == 0,
            "after a report of {name}: {reported:?}"
        );
        ensure!(trial.one(admit)?.verdict != Verdict::Admit, "{name} admits in debt");
    }
    Ok(())
}

/// However much is reported, the debt and the waiting have an end.
pub fn debt_is_bounded<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.unit_algorithms().iter().enumerate() {
        let admit = trial.admit(&key(&format!("indebted {at}")), algorithm);
        let mut moved = 0_u64;
        for units in [u64::MAX, 1, u64::MAX] {
            let outcome =
                trial.one(Operation { kind: Kind::Report { cost: cost(units) }, ..admit.clone() })?;
            moved = moved.saturating_add(outcome.units);
            let most = LIMIT * (1 + REPORT_DEBT_LIMITS);
            ensure!(outcome.used <= most, "{} is {} deep in debt", algorithm.name(), outcome.used);
            ensure!(outcome.used >= LIMIT, "{} forgot what was reported: {outcome:?}", algorithm.name());
            ensure!(moved == outcome.used, "{} booked {moved} but says {outcome:?}", algorithm.name());
        }
    }
    Ok(())
}

/// A refund of more than is used gives back what is used, and makes no credit.
pub fn a_refund_gives_back_never_more_than_is_used<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.unit_algorithms().iter().enumerate() {
        let key = key(&format!("refunded {at}"));
        let name = algorithm.name();
        let refund =
            |units| Operation { kind: Kind::Refund { cost: cost(units) }, ..trial.admit(&key, algorithm) };
        let outcome = trial.one(refund(5))?;
        ensure!(outcome.units == 0 && outcome.used == 0, "a refund of unused {name}: {outcome:?}");
        trial.spend(&key, algorithm, 4)?;
        let outcome = trial.one(refund(1))?;
        ensure!(outcome.units == 1 && outcome.used == 3, "1 of 4 {name} refunded: {outcome:?}");
        let outcome = trial.one(refund(u64::MAX))?;
        ensure!(outcome.units == 3 && outcome.used == 0, "the rest of {name} refunded: {outcome:?}");
        trial.spend(&key, algorithm, LIMIT)?;
        let outcome = trial.one(trial.admit(&key, algorithm))?;
        ensure!(outcome.verdict != Verdict::Admit, "{name} admits more than its limit after refunds");
    }
    Ok(())
}

/// A reset key is as one that was never seen.
pub fn a_reset_forgets_usage_and_block<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("reset {at}"));
        trial.spend(&key, algorithm, LIMIT)?;
        let admit = trial.admit(&key, algorithm);
        let until = trial.now().saturating_add(WINDOW * 5);
        trial.one(Operation { kind: Kind::Block { until }, ..admit.clone() })?;
        let outcome = trial.one(Operation { kind: Kind::Reset, ..admit })?;
        let unused = crate::Outcome::unused(LIMIT, trial.now());
        ensure!(outcome == unused, "{} after a reset: {outcome:?}", algorithm.name());
        trial.spend(&key, algorithm, LIMIT)?;
    }
    Ok(())
}

/// The instant a block ends is the first one that is admitted again.
pub fn a_block_refuses_until_it_ends_and_no_longer<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        trial.set_now(START);
        let admit = trial.admit(&key(&format!("blocked {at}")), algorithm);
        let until = trial.now().saturating_add(Duration::from_secs(7));
        let name = algorithm.name();
        let outcome = trial.one(Operation { kind: Kind::Block { until }, ..admit.clone() })?;
        ensure!(outcome.blocked_until == Some(until), "{name} blocked: {outcome:?}");
        for before in [WINDOW / 10, Duration::from_nanos(trial.step())] {
            trial.set_now(until.saturating_sub(before));
            let outcome = trial.one(admit.clone())?;
            let expected = (Verdict::Wait { until }, Some(until), 0);
            let seen = (outcome.verdict, outcome.blocked_until, outcome.used);
            ensure!(seen == expected, "blocked {name}: {seen:?}, not {expected:?}");
        }
        trial.set_now(until);
        let outcome = trial.one(admit)?;
        let admitted = outcome.verdict == Verdict::Admit && outcome.blocked_until.is_none();
        ensure!(admitted, "{name} when its block has ended: {outcome:?}");
    }
    Ok(())
}

/// The latest block counts, and a block that has passed has no effect.
pub fn a_block_can_be_lifted<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let admit = trial.admit(&key(&format!("lifted {at}")), algorithm);
        let later = |by| trial.now().saturating_add(by);
        for until in [later(WINDOW * 9), later(WINDOW), later(Duration::ZERO)] {
            let blocked =
                trial.one(Operation { kind: Kind::Block { until }, ..admit.clone() })?.blocked_until;
            let expected = Some(until).filter(|until| *until > trial.now());
            ensure!(
                blocked == expected,
                "{} is blocked until {blocked:?}, not {expected:?}",
                algorithm.name()
            );
        }
        let outcome = trial.one(admit)?;
        ensure!(
            outcome.verdict == Verdict::Admit,
            "{} after its block was lifted: {outcome:?}",
            algorithm.name()
        );
    }
    Ok(())
}

/// An undo of the last charge is as if it had not been made, to the bit.
pub fn an_undone_batch_leaves_no_charge<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let name = algorithm.name();
        let (used, unused) = (key(&format!("used {at}")), key(&format!("unused {at}")));
        trial.spend(&used, algorithm, 2)?;
        trial.advance(Duration::from_secs(1));
        let operations =
            [trial.admit(&used, algorithm), trial.admit(&unused, algorithm), trial.admit(&used, algorithm)];
        let (before, dump) = (trial.usage(&operations)?, trial.harness.dump(&trial.store));
        let batch = Batch::all_or_nothing(trial.id(), operations.clone());
        ensure!(!trial.run(&batch)?.refused, "{name} refused within its limit");
        let undo = Batch::undo_of(&batch, trial.id());
        let answer = trial.run(&undo)?;
        let given_back: u64 = answer.outcomes.iter().map(|outcome| outcome.units).sum();
        ensure!(given_back == 3 && !answer.refused, "undoing 3 units of {name}: {answer:?}");
        let after = trial.usage(&operations)?;
        ensure!(after == before, "{name} charged and undone: {after:?}, before {before:?}");
        let after = trial.harness.dump(&trial.store);
        ensure!(after == dump, "{name} charged and undone: {after:?}, before {dump:?}");
        // The undone batch sent again is answered, not carried out.
        trial.run(&batch)?;
        let after = trial.usage(&operations)?;
        ensure!(after == before, "{name} undone and sent again: {after:?}, before {before:?}");
    }
    Ok(())
}

/// Later charges stay whole.
pub fn undoing_leaves_what_was_charged_on_top<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("undone {at}"));
        let name = algorithm.name();
        trial.spend(&key, algorithm, 1)?;
        let batch =
            Batch::all_or_nothing(trial.id(), [trial.admit(&key, algorithm), trial.admit(&key, algorithm)]);
        trial.run(&batch)?;
        trial.spend(&key, algorithm, 4)?;
        let outcome = trial.run(&Batch::undo_of(&batch, trial.id()))?.outcomes[0];
        ensure!(outcome.units == 2 && outcome.used == 5, "2 of 7 {name} undone: {outcome:?}");
        trial.spend(&key, algorithm, LIMIT - 5)?;
        let verdict = trial.one(trial.admit(&key, algorithm))?.verdict;
        ensure!(verdict != Verdict::Admit, "{name} admits more than its limit after an undo");
    }
    Ok(())
}

/// Neither the same undo again nor another one gives back more.
pub fn undoing_twice_gives_back_once<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("undone {at}"));
        trial.spend(&key, algorithm, 3)?;
        let batch = Batch::all_or_nothing(trial.id(), [trial.admit(&key, algorithm)]);
        trial.run(&batch)?;
        let undo = Batch::undo_of(&batch, trial.id());
        let first = trial.run(&undo)?;
        let again = trial.run(&undo)?;
        ensure!(first == again, "an undo of {} sent again: {again:?}, first {first:?}", algorithm.name());
        let twice = Batch::undo_of(&batch, trial.id()).operations[0].clone();
        let answer = trial.all([twice.clone(), twice])?;
        for outcome in &answer.outcomes {
            ensure!(
                outcome.units == 0 && outcome.used == 3,
                "{} undone twice: {outcome:?}",
                algorithm.name()
            );
        }
    }
    Ok(())
}

/// Batches that never arrived, that were refused, or that charged other keys.
pub fn undoing_what_was_not_charged_gives_nothing_back<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let (full, other) = (key(&format!("full {at}")), key(&format!("other {at}")));
        trial.spend(&full, algorithm, LIMIT)?;
        trial.spend(&other, algorithm, 2)?;
        let refused = Batch::all_or_nothing(
            trial.id(),
            [trial.admit(&other, algorithm), trial.admit(&full, algorithm)],
        );
        ensure!(trial.run(&refused)?.refused, "{} admits more than its limit", algorithm.name());
        let elsewhere =
            Batch::all_or_nothing(trial.id(), [trial.admit(&key(&format!("elsewhere {at}")), algorithm)]);
        trial.run(&elsewhere)?;
        let on_other = trial.admit(&other, algorithm);
        for batch in [trial.id(), refused.id, elsewhere.id] {
            let outcome = trial.one(Operation { kind: Kind::Undo { batch }, ..on_other.clone() })?;
            ensure!(
                outcome.units == 0 && outcome.used == 2,
                "{} not charged, undone: {outcome:?}",
                algorithm.name()
            );
        }
        let used = trial.peek(&trial.admit(&full, algorithm))?.used;
        ensure!(used == LIMIT, "undoing a refused batch of {} left {used} used", algorithm.name());
    }
    Ok(())
}

/// A reset drops earlier charges: undoing one of them must not give back a later charge.
pub fn nothing_is_given_back_for_charges_before_a_reset<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("reset {at}"));
        let batch = Batch::all_or_nothing(trial.id(), [trial.admit(&key, algorithm)]);
        trial.run(&batch)?;
        trial.one(Operation { kind: Kind::Reset, ..batch.operations[0].clone() })?;
        trial.advance(Duration::from_secs(1));
        trial.spend(&key, algorithm, 3)?;
        let outcome = trial.run(&Batch::undo_of(&batch, trial.id()))?.outcomes[0];
        ensure!(
            outcome.units == 0 && outcome.used == 3,
            "{} undone after a reset: {outcome:?}",
            algorithm.name()
        );

        // The same within one batch: only its charge after the reset is there to be undone.
        let key = super::trial::key(&format!("reset between {at}"));
        let admit = || trial.admit(&key, algorithm);
        let reset = Operation { kind: Kind::Reset, ..admit() };
        let batch = Batch::all_or_nothing(trial.id(), [admit(), reset, admit()]);
        trial.run(&batch)?;
        trial.spend(&key, algorithm, 3)?;
        let outcome = trial.run(&Batch::undo_of(&batch, trial.id()))?.outcomes[0];
        let name = algorithm.name();
        ensure!(
            outcome.units == 1 && outcome.used == 3,
            "{name} charged, reset, charged, undone: {outcome:?}"
        );
    }
    Ok(())
}

/// A cost of `u64::MAX` overflows nothing.
pub fn the_largest_cost_is_refused_for_good_and_breaks_nothing<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for (at, algorithm) in trial.unit_algorithms().iter().enumerate() {
        let key = key(&format!("huge {at}"));
        let name = algorithm.name();
        for spent in 0..2 {
            for units in [u64::MAX, u64::MAX - 1, 1 << 63, LIMIT + 1] {
                let huge =
                    Operation { kind: Kind::Check { cost: cost(units) }, ..trial.admit(&key, algorithm) };
                let outcome = trial.one(huge.clone())?;
                let never = outcome.verdict == Verdict::Never { largest: LIMIT };
                ensure!(never && outcome.used == spent, "{units} units of {name}: {outcome:?}");
                let peeked = trial.one(Operation { kind: Kind::Peek { cost: cost(units) }, ..huge })?;
                ensure!(peeked.verdict == outcome.verdict, "{units} units of {name} peeked: {peeked:?}");
            }
            trial.spend(&key, algorithm, 1)?;
        }
        // The whole limit at once is the largest that is admitted.
        let whole = super::trial::key(&format!("whole {at}"));
        let all = Operation { kind: Kind::Check { cost: cost(LIMIT) }, ..trial.admit(&whole, algorithm) };
        let outcome = trial.one(all)?;
        ensure!(
            outcome.verdict == Verdict::Admit && outcome.remaining == 0,
            "all of {name} at once: {outcome:?}"
        );
    }
    Ok(())
}
