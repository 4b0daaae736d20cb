//! Notes: kept by kind and name, changed together with counters, gone when their time has come.

use tidegate_core::{Cost, Timestamp};

use super::harness::ConformanceStore;
use super::trial::{Passed, Stopped, Trial, WINDOW, ensure, key};
use crate::{Batch, Kind, Note, NoteChange, NoteKind, Operation, StoreError};

fn note(kind: NoteKind, name: &[u8], value: &[u8], until: Timestamp) -> Note {
    Note { kind, name: name.into(), value: value.into(), until }
}

fn put(kind: NoteKind, name: &[u8], value: &[u8]) -> NoteChange {
    NoteChange::Put(note(kind, name, value, Timestamp::MAX))
}

fn remove(kind: NoteKind, name: &[u8]) -> NoteChange {
    NoteChange::Remove { kind, name: name.into() }
}

impl<H: ConformanceStore> Trial<'_, H> {
    fn change(&self, notes: impl IntoIterator<Item = NoteChange>) -> Passed {
        let answer = self.run(&Batch::all_or_nothing(self.id(), []).with_notes(notes))?;
        let now = self.now();
        ensure!(!answer.refused && answer.store_now == now, "a batch of notes alone at {now}: {answer:?}");
        Ok(())
    }

    /// The names and values of a kind, in the order they are told.
    fn named(&self, kind: NoteKind) -> Result<Vec<Pair>, Stopped> {
        let notes = self.notes(kind)?;
        ensure!(notes.iter().all(|note| note.kind == kind), "asked for {kind} and told {notes:?}");
        Ok(notes.into_iter().map(|note| (note.name.into_vec(), note.value.into_vec())).collect())
    }
}

/// A name and a value.
type Pair = (Vec<u8>, Vec<u8>);

fn pair(name: &[u8], value: &[u8]) -> Pair {
    (name.to_vec(), value.to_vec())
}

/// Written, written over and removed, in the order of the batch; told in the order of their names.
pub fn notes_are_kept_by_kind_and_name<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    for (index, kind) in NoteKind::ALL.into_iter().enumerate() {
        let other = NoteKind::ALL[(index + 1) % NoteKind::ALL.len()];
        let nothing = trial.named(kind)?;
        ensure!(nothing.is_empty(), "{kind} of a store that never saw one: {nothing:?}");
        // Out of order, of any bytes, one the beginning of another.
        let names: [&[u8]; 5] = [b"b", b"\xff\x00", b"a", b"ab", b"\x00"];
        trial.change(names.map(|name| put(kind, name, b"first")))?;
        trial.change([put(kind, b"b", b"second"), put(kind, b"c", b""), remove(kind, b"a")])?;
        // Removing an absent note, or a note of another kind, does nothing.
        trial.change([remove(kind, b"nobody"), remove(other, b"b")])?;
        // Within one batch the last word counts.
        trial.change([
            put(kind, b"gone", b"1"),
            remove(kind, b"gone"),
            remove(kind, b"ab"),
            put(kind, b"ab", b"third"),
        ])?;
        let expected = [
            pair(b"\x00", b"first"),
            pair(b"ab", b"third"),
            pair(b"b", b"second"),
            pair(b"c", b""),
            pair(b"\xff\x00", b"first"),
        ];
        let found = trial.named(kind)?;
        ensure!(found == expected, "{kind}: {found:?}, expected {expected:?}");
        let found = trial.named(other)?;
        ensure!(found.is_empty(), "changing {kind} left {other} as {found:?}");
        trial.change(expected.map(|(name, _)| remove(kind, &name)))?;
    }
    Ok(())
}

/// With the operations, or not at all; a batch of each is never refused and writes them.
pub fn a_refused_batch_leaves_every_note_as_it_was<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let kind = NoteKind::Refund;
    trial.change([put(kind, b"kept", b"before"), put(kind, b"removed", b"before")])?;
    let changes = [put(kind, b"kept", b"after"), remove(kind, b"removed"), put(kind, b"new", b"after")];
    for (at, algorithm) in trial.algorithms().iter().enumerate() {
        let (full, free) = (key(&format!("full {at}")), key(&format!("free {at}")));
        trial.spend(&full, algorithm, algorithm.limit())?;
        let operations = [trial.admit(&free, algorithm), trial.admit(&full, algorithm)];
        let before = (trial.notes(kind)?, trial.harness.dump(&trial.store));
        let answer =
            trial.run(&Batch::all_or_nothing(trial.id(), operations.clone()).with_notes(changes.clone()))?;
        ensure!(answer.refused, "a batch over a limit that is used up was admitted: {answer:?}");
        let after = (trial.notes(kind)?, trial.harness.dump(&trial.store));
        ensure!(after == before, "a refused batch changed {before:?} into {after:?}");
    }
    let Some(algorithm) = trial.algorithms().into_iter().next() else { return Ok(()) };
    let operations = [trial.admit(&key("free 0"), &algorithm), trial.admit(&key("full 0"), &algorithm)];
    trial.run(&Batch::each(trial.id(), operations).with_notes(changes))?;
    let (found, expected) = (trial.named(kind)?, [pair(b"kept", b"after"), pair(b"new", b"after")]);
    ensure!(found == expected, "a batch of each left {found:?}, expected {expected:?}");
    Ok(())
}

/// Also a batch of each, also long after the id of the batch that wrote the note is forgotten; and
/// no longer than the note.
pub fn a_note_is_created_once<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let kind = NoteKind::Refund;
    let until = trial.now().saturating_add(WINDOW);
    let create = |value: &[u8]| NoteChange::Create(note(kind, b"order", value, until));
    trial.change([create(b"first"), put(kind, b"other", b"first")])?;
    let before = (trial.notes(kind)?, trial.harness.dump(&trial.store));
    let mut batches =
        vec![Batch::each(trial.id(), []).with_notes([put(kind, b"new", b""), create(b"second")])];
    if let Some(algorithm) = trial.algorithms().into_iter().next() {
        let admit = || [trial.admit(&key("counter"), &algorithm)];
        batches.push(Batch::each(trial.id(), admit()).with_notes([create(b"second")]));
        batches.push(Batch::all_or_nothing(trial.id(), admit()).with_notes([create(b"second")]));
    }
    for batch in &batches {
        let answer = trial.run(batch)?;
        ensure!(answer.refused, "a note that was there was created again: {answer:?}");
        ensure!(answer.outcomes.len() == batch.operations.len(), "not one outcome an operation: {answer:?}");
        let after = (trial.notes(kind)?, trial.harness.dump(&trial.store));
        ensure!(after == before, "a refused batch changed {before:?} into {after:?}");
    }
    trial.set_now(until);
    trial.change([NoteChange::Create(note(kind, b"order", b"third", Timestamp::MAX))])?;
    let (found, expected) = (trial.named(kind)?, [pair(b"order", b"third"), pair(b"other", b"first")]);
    ensure!(found == expected, "after it had ended {found:?}, expected {expected:?}");
    Ok(())
}

/// At its instant it is as good as absent, and not one step of the clock before.
pub fn a_note_ends_on_the_clock_of_the_store<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    let kind = NoteKind::Block;
    let until = trial.now().saturating_add(WINDOW);
    let ends = |name: &[u8], until| NoteChange::Put(note(kind, name, b"value", until));
    trial.change([
        ends(b"ends", until),
        ends(b"extended", until),
        put(kind, b"shortened", b"value"),
        put(kind, b"stays", b"value"),
        put(kind, b"over", b"value"),
        ends(b"never was", trial.now()),
        // An instant that has passed removes what it is written over.
        ends(b"over", trial.now()),
    ])?;
    trial.change([ends(b"extended", until.saturating_add(WINDOW)), ends(b"shortened", until)])?;
    let names = |expected: &[&str]| -> Passed {
        let found = trial.named(kind)?;
        let found: Vec<_> = found.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        ensure!(found == expected, "at {} there are {found:?}, expected {expected:?}", trial.now());
        Ok(())
    };
    let before = Timestamp::from_nanos(until.as_nanos() - trial.step());
    trial.set_now(before);
    names(&["ends", "extended", "shortened", "stays"])?;
    let told = trial.notes(kind)?;
    let told = told.iter().find(|note| &*note.name == b"ends").map(|note| note.until);
    ensure!(told == Some(until), "a note that ends at {until} says {told:?}");
    trial.set_now(until);
    names(&["extended", "stays"])?;
    trial.advance(WINDOW);
    names(&["stays"])?;
    // A note that has ended can be written again.
    trial.change([put(kind, b"ends", b"again")])?;
    names(&["ends", "stays"])
}

/// Once for an id, as operations are: what others wrote since is not written over.
pub fn a_batch_with_notes_sent_again_writes_them_once<H: ConformanceStore>(trial: &Trial<'_, H>) -> Passed {
    trial.needs_answers(10)?;
    let kind = NoteKind::Override;
    let first = Batch::each(trial.id(), []).with_notes([put(kind, b"name", b"first")]);
    let answer = trial.run(&first)?;
    trial.change([put(kind, b"name", b"second")])?;
    trial.advance(WINDOW / 100);
    let again = trial.run(&first)?;
    ensure!(again == answer, "sent again {again:?}, before {answer:?}");
    let found = trial.named(kind)?;
    ensure!(found == [pair(b"name", b"second")], "a batch sent again left {found:?}");
    for algorithm in trial.unit_algorithms() {
        let key = key(&format!("refunded {}", algorithm.name()));
        trial.spend(&key, &algorithm, 4)?;
        let refund = Operation { kind: Kind::Refund { cost: Cost::ONE }, ..trial.admit(&key, &algorithm) };
        let batch = Batch::all_or_nothing(trial.id(), [refund.clone()]).with_notes([put(
            NoteKind::Refund,
            algorithm.name().as_bytes(),
            b"",
        )]);
        let answers = [trial.run(&batch)?, trial.run(&batch)?];
        let used = trial.peek(&refund)?.used;
        ensure!(
            used == 3 && answers[0] == answers[1],
            "refunded once and sent twice: {used} used, {answers:?}"
        );
    }
    Ok(())
}

/// Names and values are as long as they may be, batches change as many as they may; one more is an
/// error.
pub fn a_note_out_of_bounds_is_an_error_that_changes_nothing<H: ConformanceStore>(
    trial: &Trial<'_, H>,
) -> Passed {
    let kind = NoteKind::Permit;
    let (name, value) = (vec![0xff; Note::NAME_BYTES_MAX], vec![7; Note::VALUE_BYTES_MAX]);
    trial.change([put(kind, &name, &value)])?;
    let found = trial.named(kind)?;
    ensure!(found == [(name.clone(), value.clone())], "the longest note was not kept");
    let many =
        |count: usize| (0..count).map(|index| put(kind, &index.to_be_bytes(), b"")).collect::<Vec<_>>();
    trial.change(many(Batch::NOTES_MAX))?;
    let before = trial.notes(kind)?;
    ensure!(before.len() == 1 + Batch::NOTES_MAX, "{} notes of {}", before.len(), 1 + Batch::NOTES_MAX);
    let (long_name, long_value) = ([&name[..], b"x"].concat(), [&value[..], b"x"].concat());
    let wrong = [
        many(Batch::NOTES_MAX + 1),
        vec![put(kind, b"fits", b""), put(kind, &long_name, b"")],
        vec![put(kind, b"fits", b""), put(kind, b"", b"")],
        vec![put(kind, b"fits", b""), put(kind, b"long", &long_value)],
        vec![put(kind, b"fits", b""), remove(kind, &long_name)],
        vec![remove(kind, &name), remove(kind, b"")],
    ];
    for changes in wrong {
        let Some(algorithm) = trial.algorithms().into_iter().next() else { return Ok(()) };
        let admit = trial.admit(&key("beside"), &algorithm);
        let answer = trial.ask(&Batch::each(trial.id(), [admit.clone()]).with_notes(changes));
        ensure!(matches!(answer, Err(StoreError::TooLarge { .. })), "what is out of bounds: {answer:?}");
        let used = trial.peek(&admit)?.used;
        ensure!(used == 0, "an error charged {used}");
    }
    ensure!(trial.notes(kind)? == before, "an error changed notes");
    Ok(())
}
