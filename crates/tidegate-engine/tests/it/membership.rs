//! An override that one member sets is in force at the others that share its store.

use tidegate_engine::{Engine, Lineage, RuntimeOverride};
use tidegate_store::NoteChange;

use crate::reload::{MINUTE, admit, engine, left, limit};
use crate::world::{NOW, bucket};

fn raised(units: u64) -> RuntimeOverride {
    let when = vec![("user".to_owned(), "ada".to_owned())];
    RuntimeOverride::new("api", "a", when, bucket(units, MINUTE), NOW)
}

/// The override as a store hands it back after it was written.
fn read_back(change: &NoteChange) -> RuntimeOverride {
    match change {
        NoteChange::Put(note) => RuntimeOverride::from_note(note).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn join(engine: &Engine, overrides: impl IntoIterator<Item = RuntimeOverride>) -> Option<Engine> {
    let joined = engine.joined(engine.lineage(), overrides).unwrap();
    joined.map(|(engine, notes)| {
        assert_eq!(notes, [], "the store has all of it");
        engine
    })
}

#[test]
fn an_override_of_another_member_applies_here_and_goes_when_it_takes_it_away() {
    let there = engine([limit("a", bucket(10, MINUTE))]);
    let here = engine([limit("a", bucket(10, MINUTE))]);
    drop(admit(&here, 4, NOW));
    let (_, note) = there.with_override(raised(25), NOW).unwrap();
    let stored = read_back(&note);
    let raised = join(&here, [stored.clone()]).unwrap();
    assert_eq!(left(&raised, NOW), [21], "what was used stays used");
    assert!(join(&raised, [stored]).is_none(), "nothing new, nothing to do");
    let lowered = join(&raised, []).unwrap();
    assert_eq!((left(&lowered, NOW), lowered.overrides(NOW).count()), (vec![6], 0));
}

#[test]
fn a_limit_goes_on_under_the_name_that_the_store_knows_it_by() {
    let old = engine([limit("a", bucket(10, MINUTE))]);
    let (renamed, report) =
        old.reconfigured(crate::reload::namespace([limit("b", bucket(10, MINUTE)).was("a")])).unwrap();
    assert!(!report.notes.is_empty());
    // Another member with the new policy, which was never told of the old name's counters.
    let fresh = engine([limit("b", bucket(10, MINUTE))]);
    assert_ne!(fresh.lineage().counts_as("api", "b"), renamed.lineage().counts_as("api", "b"));
    let (joined, notes) = fresh.joined(renamed.lineage(), []).unwrap().unwrap();
    assert_eq!(joined.lineage().counts_as("api", "b"), Some("a"));
    let stays = notes.iter().all(|note| !matches!(note, NoteChange::Remove { .. }));
    assert!(stays, "{notes:?}");
    let (unchanged, _) = joined.joined(&Lineage::default(), []).unwrap().unwrap();
    assert_eq!(unchanged.lineage().counts_as("api", "b"), fresh.lineage().counts_as("api", "b"));
}
