//! Batches: all or nothing, each by itself, once.

use tidegate_core::algorithm::{Rolling, Verdict};
use tidegate_core::{Algorithm, Cost};

use super::harness::ConformanceStore;
use super::trial::{LIMIT, Passed, Stopped, Trial, WINDOW, cost, ensure, key};
use crate::{Batch, HolderId, Key, Kind, Operation, Operations, Store, StoreError};

/// A key with a counter of `algorithm` that is used up.
fn used_up<H: ConformanceStore>(
    trial: &Trial<'_, H>,
    name: &str,
    algorithm: &Algorithm,
) -> Result<Operation, Stopped> {
    let key = key(name);
    trial.spend(&key, algorithm, algorithm.limit())?;
    Ok(trial.admit(&key, algorithm))
}

/// Whichever operation refuses, at whichever position, with whatever other operations around it.
pub fn a_refused_batch_leaves_every_counter_as_it_was<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let algorithms = trial.algorithms();
    for (at, refusing) in algorithms.iter().enumerate() {
        let refuses = used_up(trial, &format!("full {at}"), refusing)?;
        for position in 0..=algorithms.len() {
            let mut others = Vec::new();
            for (index, algorithm) in algorithms.iter().enumerate() {
                let key = key(&format!("other {at} {position} {index}"));
                // One that is in use and one that never was.
                trial.spend(&key, algorithm, 1 + index as u64 % 3)?;
                others.push(trial.admit(&key, algorithm));
            }
            others.push(trial.admit(&key(&format!("new {at} {position}")), refusing));
            let mut operations = others.clone();
            operations.insert(position, refuses.clone());
            // An operation that is never refused by itself does not take effect either.
            let held = &others[0];
            let until = trial.now().saturating_add(WINDOW);
            operations.push(Operation { kind: Kind::Reset, ..held.clone() });
            operations.push(Operation { kind: Kind::Block { until }, ..others[others.len() - 1].clone() });
            if let Kind::Check { .. } = held.kind {
                operations.push(Operation { kind: Kind::Refund { cost: Cost::ONE }, ..held.clone() });
                operations.push(Operation { kind: Kind::Report { cost: cost(5) }, ..held.clone() });
            }

            let (usage, dump) = (trial.usage(&others)?, trial.harness.dump(&trial.store));
            let answer = trial.all(operations)?;
            let name = refusing.name();
            ensure!(answer.refused, "a batch was admitted though {name} was used up at position {position}");
            let verdict = answer.outcomes[position].verdict;
            ensure!(
                verdict != Verdict::Admit,
                "the refused batch does not say that {name} refused: {verdict:?}"
            );
            let violated: Vec<_> = answer.violated().map(|(index, _)| index).collect();
            ensure!(violated == [position], "only {position} refuses, the answer says {violated:?}");
            for (outcome, before) in answer.outcomes[..=others.len()].iter().zip(&usage) {
                ensure!(
                    outcome.units == 0,
                    "a refused batch says that it moved units: {outcome:?}, before {before:?}"
                );
            }
            let after = trial.usage(&others)?;
            ensure!(
                after == usage,
                "a batch refused by {name} at {position} left {after:?}, before {usage:?}"
            );
            let after = trial.harness.dump(&trial.store);
            ensure!(after == dump, "a batch refused by {name} at {position} changed {dump:?} into {after:?}");
        }
    }
    Ok(())
}

/// A batch of each goes on after an operation that is refused.
pub fn a_batch_of_each_charges_what_is_admitted<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let refuses = used_up(trial, &format!("full {at}"), algorithm)?;
        let (first, last) = (key(&format!("first {at}")), key(&format!("last {at}")));
        let operations = [trial.admit(&first, algorithm), refuses, trial.admit(&last, algorithm)];
        let answer = trial.run(&Batch::each(trial.id(), operations.clone()))?;
        let admitted: Vec<_> =
            answer.outcomes.iter().map(|outcome| outcome.verdict == Verdict::Admit).collect();
        ensure!(
            admitted == [true, false, true] && !answer.refused,
            "of each {}: {answer:?}",
            algorithm.name()
        );
        let used: Vec<_> = trial.usage(&operations)?.iter().map(|outcome| outcome.used).collect();
        ensure!(used == [1, LIMIT, 1], "a batch of each of {} left {used:?} used", algorithm.name());
    }
    Ok(())
}

/// Each operation on a key is decided on what those before it left.
pub fn a_key_that_stands_twice_is_charged_twice_in_order<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("twice {at}"));
        let between = super::trial::key(&format!("between {at}"));
        let batch =
            [trial.admit(&key, algorithm), trial.admit(&between, algorithm), trial.admit(&key, algorithm)];
        let answer = trial.all(batch.clone())?;
        let used: Vec<_> = answer.outcomes.iter().map(|outcome| outcome.used).collect();
        ensure!(used == [1, 1, 2] && !answer.refused, "{} twice in a batch: {answer:?}", algorithm.name());
        let used = trial.peek(&batch[0])?.used;
        ensure!(used == 2, "{} twice in a batch left {used} used", algorithm.name());
    }
    Ok(())
}

/// The last unit cannot be had twice in one batch.
pub fn a_key_that_stands_twice_is_refused_as_a_whole<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("twice {at}"));
        trial.spend(&key, algorithm, LIMIT - 1)?;
        let before = trial.peek(&trial.admit(&key, algorithm))?;
        let answer = trial.all([trial.admit(&key, algorithm), trial.admit(&key, algorithm)])?;
        let name = algorithm.name();
        ensure!(answer.refused, "the last unit of {name} was had twice: {answer:?}");
        let verdicts = (answer.outcomes[0].verdict, answer.outcomes[1].verdict);
        ensure!(verdicts.0 == Verdict::Admit && verdicts.1 != Verdict::Admit, "{name} refused {verdicts:?}");
        let after = trial.peek(&trial.admit(&key, algorithm))?;
        ensure!(after == before, "a refused batch with {name} twice left {after:?}, before {before:?}");
        let answer = trial
            .run(&Batch::each(trial.id(), [trial.admit(&key, algorithm), trial.admit(&key, algorithm)]))?;
        let used = answer.outcomes[1].used;
        ensure!(used == LIMIT, "the last unit of {name} asked for twice, each by itself, left {used} used");
    }
    Ok(())
}

/// A shadow operation is charged if there is room, and otherwise only reports that there is no
/// room.
pub fn shadow_operations_refuse_nothing<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let refuses = used_up(trial, &format!("full {at}"), algorithm)?.shadow();
        let open = trial.admit(&key(&format!("open {at}")), algorithm).shadow();
        let binds = trial.admit(&key(&format!("binds {at}")), algorithm);
        let operations = [refuses, open, binds];
        let answer = trial.all(operations.clone())?;
        ensure!(!answer.refused, "a shadow of {} refused a batch", algorithm.name());
        ensure!(
            answer.outcomes[0].verdict != Verdict::Admit,
            "a shadow does not say that it would have refused"
        );
        let used: Vec<_> = trial.usage(&operations)?.iter().map(|outcome| outcome.used).collect();
        ensure!(used == [LIMIT, 1, 1], "shadows of {} left {used:?} used", algorithm.name());
    }
    Ok(())
}

/// The same id again is the same answer, also after other traffic and after time has passed.
pub fn a_batch_sent_again_gives_the_same_answer_and_charges_once<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let (once, other) = (key(&format!("once {at}")), key(&format!("other {at}")));
        let batch = Batch::all_or_nothing(
            trial.id(),
            [trial.admit(&once, algorithm), trial.admit(&other, algorithm)],
        );
        let first = trial.run(&batch)?;
        let again = trial.run(&batch)?;
        ensure!(again == first, "{} sent again: {again:?}, first {first:?}", algorithm.name());
        trial.spend(&once, algorithm, 2)?;
        trial.advance(WINDOW / 60);
        trial.spend(&other, algorithm, 5)?;
        let again = trial.run(&batch)?;
        ensure!(again == first, "{} sent again after others: {again:?}, first {first:?}", algorithm.name());
        trial.set_now(super::trial::START);
        let used: Vec<_> = trial.usage(&batch.operations)?.iter().map(|outcome| outcome.used).collect();
        ensure!(used == [3, 6], "{} sent three times left {used:?} used, not [3, 6]", algorithm.name());
    }
    Ok(())
}

/// A refusal is remembered like an admission: the caller may have acted on it.
pub fn a_refused_batch_sent_again_is_refused_again<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let refuses = used_up(trial, &format!("full {at}"), algorithm)?;
        let other = trial.admit(&key(&format!("other {at}")), algorithm);
        let batch = Batch::all_or_nothing(trial.id(), [other.clone(), refuses.clone()]);
        let first = trial.run(&batch)?;
        ensure!(first.refused, "{} admitted more than its limit", algorithm.name());
        trial.one(Operation { kind: Kind::Reset, ..refuses.clone() })?;
        let again = trial.run(&batch)?;
        ensure!(again == first, "{} refused, then sent again: {again:?}, first {first:?}", algorithm.name());
        let used: Vec<_> = trial.usage(&[other, refuses])?.iter().map(|outcome| outcome.used).collect();
        ensure!(used == [0, 0], "a refusal of {} sent again left {used:?} used", algorithm.name());
    }
    Ok(())
}

/// Using an id twice is a mistake of the caller, which must not cost anyone else: the store says
/// so, or repeats the first answer.
pub fn an_id_used_for_another_batch_charges_nothing<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let (first, second) = (key(&format!("first {at}")), key(&format!("second {at}")));
        let id = trial.id();
        let answer = trial.run(&Batch::all_or_nothing(id, [trial.admit(&first, algorithm)]))?;
        let other = Batch::all_or_nothing(id, [trial.admit(&second, algorithm)]);
        match trial.ask(&other) {
            Err(StoreError::IdReused { .. }) => {}
            Ok(again) => ensure!(again == answer, "another batch under a known id got {again:?}"),
            Err(error) => return Err(error.into()),
        }
        let used = trial.peek(&other.operations[0])?.used;
        ensure!(used == 0, "another batch under a known id charged {used}");
    }
    Ok(())
}

/// [`Batch::OPERATIONS_MAX`] is a bound on both sides.
pub fn the_largest_batch_is_taken_and_one_more_operation_is_an_error<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let algorithms = trial.algorithms();
    let mut operations = Operations::new();
    for index in 0..Batch::OPERATIONS_MAX {
        operations.push(trial.admit(&key(&format!("many {index}")), &algorithms[index % algorithms.len()]));
    }
    let answer = trial.all(operations.clone())?;
    ensure!(!answer.refused, "a batch of {} operations was refused", operations.len());
    let one_more = trial.admit(&key("one more"), &algorithms[0]);
    operations.push(one_more.clone());
    match trial.ask(&Batch::all_or_nothing(trial.id(), operations.clone())) {
        Err(StoreError::TooLarge { .. }) => {}
        other => ensure!(false, "a batch over the maximum was answered {other:?}"),
    }
    for operation in &operations {
        let used = trial.peek(operation)?.used;
        let expected = u64::from(*operation != one_more);
        ensure!(used == expected, "a batch over the maximum left {used} used, not {expected}");
    }
    let answer = trial.all([])?;
    ensure!(!answer.refused && answer.store_now == trial.now(), "an empty batch was answered {answer:?}");
    Ok(())
}

/// Permits are not units, and what a store cannot decide it says.
pub fn what_does_not_go_with_an_algorithm_is_an_error<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let (cost, holder) = (Cost::ONE, HolderId(7));
    for algorithm in super::trial::every_algorithm(LIMIT) {
        let permits = matches!(algorithm, Algorithm::Concurrency(_));
        let supported = trial.store.supports(&algorithm);
        let wrong: &[Kind] = match (supported, permits) {
            (true, true) => &[Kind::Check { cost }, Kind::Report { cost }, Kind::Refund { cost }],
            (true, false) => &[Kind::Acquire { holder }, Kind::Release { holder }],
            (false, true) => &[Kind::Acquire { holder }, Kind::Peek { cost }],
            (false, false) => &[Kind::Check { cost }, Kind::Peek { cost }],
        };
        for kind in wrong {
            let name: Key = key(&format!("wrong {}", algorithm.name()));
            let beside = trial.algorithms().first().map(|other| trial.admit(&key("beside"), other));
            let wrong = Operation::new(name, algorithm.clone(), *kind);
            let batch = Batch::each(trial.id(), beside.iter().cloned().chain([wrong]));
            match trial.ask(&batch) {
                Err(StoreError::Unsupported { .. }) => {}
                other => ensure!(false, "{kind:?} of {} was answered {other:?}", algorithm.name()),
            }
            if let Some(beside) = &beside {
                let used = trial.peek(beside)?.used;
                ensure!(used == 0, "a batch that is an error charged {used} beside it");
            }
        }
    }
    // The numbers at their ends are no reason to fail.
    for limit in [0, Rolling::LIMIT_MAX] {
        let algorithm = Algorithm::Rolling(Rolling::new(limit, WINDOW).expect("the largest limit is one"));
        if trial.store.supports(&algorithm) {
            let outcome = trial.one(trial.admit(&key(&format!("ends {limit}")), &algorithm))?;
            let expected = if limit == 0 { Verdict::Never { largest: 0 } } else { Verdict::Admit };
            ensure!(outcome.verdict == expected, "a rolling limit of {limit} answered {outcome:?}");
        }
    }
    Ok(())
}
