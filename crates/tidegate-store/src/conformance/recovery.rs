//! The knowledge that a durable store keeps across a restart.

use tidegate_core::algorithm::Verdict;

use super::harness::ConformanceStore;
use super::trial::{LIMIT, Passed, Stopped, Trial, WINDOW, ensure, key};
use crate::{Batch, Kind, Note, NoteChange, NoteKind, Operation};

/// Counters and blocks are as they were.
pub fn what_was_counted_survives_a_restart<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let trial = Trial::new(trial.harness);
    let algorithms = trial.algorithms();
    let mut known = Vec::new();
    for (index, algorithm) in algorithms.iter().enumerate() {
        let (used, blocked) = (key(&format!("used {index}")), key(&format!("blocked {index}")));
        trial.spend(&used, algorithm, LIMIT - 1)?;
        let until = trial.now().saturating_add(WINDOW * 2);
        trial.one(Operation { kind: Kind::Block { until }, ..trial.admit(&blocked, algorithm) })?;
        known.extend([trial.admit(&used, algorithm), trial.admit(&blocked, algorithm)]);
    }
    let before = trial.usage(&known)?;
    let trial = trial.reopened()?;
    let after = trial.usage(&known)?;
    ensure!(after == before, "after a restart {after:?}, before {before:?}");
    for (index, algorithm) in algorithms.iter().enumerate() {
        let key = key(&format!("used {index}"));
        trial.spend(&key, algorithm, 1)?;
        let outcome = trial.one(trial.admit(&key, algorithm))?;
        ensure!(outcome.verdict != Verdict::Admit, "{} after a restart: {outcome:?}", algorithm.name());
    }
    Ok(())
}

/// A batch whose answer was lost in the crash is not charged twice, and can be undone.
pub fn what_was_answered_survives_a_restart<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(100)?;
    if !trial.can.answers_survive {
        return Err(Stopped::Skipped("it remembers answers only while it is open".to_owned()));
    }
    let trial = Trial::new(trial.harness);
    let mut sent = Vec::new();
    for (index, algorithm) in trial.algorithms().iter().enumerate() {
        let key = key(&format!("answered {index}"));
        trial.spend(&key, algorithm, LIMIT - 1)?;
        let admitted = Batch::all_or_nothing(trial.id(), [trial.admit(&key, algorithm)]);
        let refused = Batch::all_or_nothing(trial.id(), [trial.admit(&key, algorithm)]);
        let answers = (trial.run(&admitted)?, trial.run(&refused)?);
        sent.push((admitted, refused, answers));
    }
    let trial = trial.reopened()?;
    for (admitted, refused, answers) in sent {
        let again = (trial.run(&admitted)?, trial.run(&refused)?);
        ensure!(again == answers, "sent again after a restart: {again:?}, before {answers:?}");
        let outcome = trial.run(&Batch::undo_of(&admitted, trial.id()))?.outcomes[0];
        ensure!(outcome.units == 1 && outcome.used == LIMIT - 1, "undone after a restart: {outcome:?}");
    }
    Ok(())
}

/// Notes are as they were, and what was removed or has expired stays so.
pub fn what_was_noted_survives_a_restart<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let trial = Trial::new(trial.harness);
    let until = trial.now().saturating_add(WINDOW * 3);
    let note = |kind, name: u32, until| {
        let (name, value) = (name.to_be_bytes().into(), [kind as u8; 300].into());
        Note { kind, name, value, until }
    };
    let mut changes = Vec::new();
    for kind in NoteKind::ALL {
        changes.extend((0..4).map(|name| NoteChange::Put(note(kind, name, until))));
        changes.push(NoteChange::Put(note(kind, 4, trial.now().saturating_add(WINDOW))));
        changes.push(NoteChange::Remove { kind, name: 1u32.to_be_bytes().into() });
    }
    trial.run(&Batch::each(trial.id(), []).with_notes(changes))?;
    trial.advance(WINDOW);
    let trial = trial.reopened()?;
    for kind in NoteKind::ALL {
        let expected: Vec<_> = [0, 2, 3].into_iter().map(|name| note(kind, name, until)).collect();
        let found = trial.notes(kind)?;
        ensure!(found == expected, "notes of kind {kind} after a restart: {found:?}, before {expected:?}");
    }
    Ok(())
}
