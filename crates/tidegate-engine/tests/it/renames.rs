//! Limits that get another name.

use tidegate_core::Limit;
use tidegate_engine::{Change, Engine, Lineage, NamespaceConfig, ReloadReport};
use tidegate_store::{Note, NoteChange};

use crate::reload::{MINUTE, admit, engine, left, namespace};
use crate::world::{NOW, bucket, config};

fn limit(name: &str) -> Limit {
    Limit::new(name, bucket(10, MINUTE)).key(["user"])
}

fn reload(engine: &Engine, limits: impl IntoIterator<Item = Limit>) -> (Engine, ReloadReport) {
    engine.reconfigured(namespace(limits)).unwrap()
}

/// An engine of these limits, of which the user has used 1, 2, 3 and so on.
fn used(names: &[&str]) -> Engine {
    let mut each = engine([limit("nobody")]);
    for (units, name) in (1..).zip(names) {
        each = reload(&each, [limit(name)]).0;
        drop(admit(&each, units, NOW).unwrap());
    }
    reload(&each, names.iter().map(|name| limit(name))).0
}

fn ignored(report: &ReloadReport) -> Vec<Option<&str>> {
    report.limits.iter().map(|one| one.ignored.as_deref()).collect()
}

#[test]
fn a_renamed_limit_keeps_what_was_used_also_when_was_is_no_longer_written() {
    let first = used(&["a"]);
    let (second, report) = reload(&first, [limit("b").was("a")]);
    assert_eq!(left(&second, NOW), [9]);
    assert_eq!(report.limits.len(), 1);
    assert_eq!(report.limits[0].change, Change::Renamed { from: "a".into(), numbers: None });
    let (third, report) = reload(&second, [limit("b").was("a")]);
    assert_eq!((left(&third, NOW), &report.limits[0].change), (vec![9], &Change::Kept));
    assert!(report.notes.is_empty());
    let (fourth, _) = reload(&third, [limit("b")]);
    assert_eq!(left(&fourth, NOW), [9]);
}

#[test]
fn a_new_limit_of_the_old_name_counts_for_itself() {
    let first = used(&["a"]);
    let (second, _) = reload(&first, [limit("b").was("a")]);
    let (third, report) = reload(&second, [limit("b").was("a"), limit("a")]);
    assert_eq!(left(&third, NOW), [9, 10]);
    assert_eq!(report.limits[1].change, Change::Added);
    assert_eq!(third.lineage().counts_as("api", "b"), Some("a"));
    assert_eq!(third.lineage().counts_as("api", "a"), Some("a#2"));
    drop(admit(&third, 5, NOW));
    let (fourth, _) = reload(&third, [limit("a"), limit("b")]);
    assert_eq!(left(&fourth, NOW), [5, 4]);
}

#[test]
fn names_may_be_passed_on_and_swapped() {
    let (chain, report) = reload(&used(&["a", "b"]), [limit("b").was("a"), limit("c").was("b")]);
    assert_eq!(left(&chain, NOW), [9, 8]);
    assert_eq!(ignored(&report), [None, None]);
    let (later, _) = reload(&chain, [limit("c").was("b"), limit("d").was("c")]);
    // `c` is written as before, and is gone at the same time: `d` cannot have what `c` keeps.
    assert_eq!(left(&later, NOW), [8, 10]);
    let swap = [limit("a").was("b"), limit("b").was("a")];
    let (swapped, _) = reload(&used(&["a", "b"]), swap.clone());
    assert_eq!(left(&swapped, NOW), [8, 9]);
    let (again, report) = reload(&swapped, swap.clone());
    assert_eq!(left(&again, NOW), [8, 9], "obeyed once, not at every reload");
    assert_eq!(ignored(&report), [None, None]);
    let (without, _) = reload(&again, [limit("a"), limit("b")]);
    assert_eq!(left(&without, NOW), [8, 9]);
    let (back, _) = reload(&without, swap);
    assert_eq!(left(&back, NOW), [9, 8], "written anew, it swaps again");
    let ring = [limit("a").was("c"), limit("b").was("a"), limit("c").was("b")];
    assert_eq!(left(&reload(&used(&["a", "b", "c"]), ring).0, NOW), [7, 9, 8]);
}

#[test]
fn a_name_passed_on_step_by_step_keeps_the_first_identity() {
    let (b, _) = reload(&used(&["a"]), [limit("b").was("a")]);
    let (c, _) = reload(&b, [limit("c").was("b")]);
    assert_eq!(left(&c, NOW), [9]);
    assert_eq!(c.lineage().counts_as("api", "c"), Some("a"));
    assert_eq!(c.lineage().len(), 2, "c, and the one that nobody asked for");
}

#[test]
fn a_was_that_cannot_be_obeyed_is_ignored_and_said() {
    let (_, report) = reload(&used(&["a"]), [limit("b").was("x")]);
    assert_eq!(ignored(&report), [Some("`was: x` names a limit that was never counted"), None]);
    let (both, report) = reload(&used(&["a"]), [limit("a"), limit("b").was("a")]);
    assert_eq!(left(&both, NOW), [9, 10]);
    assert_eq!(ignored(&report), [None, Some("`was: a` names a limit that still exists under that name")]);
    let (own, report) = reload(&used(&["a", "b"]), [limit("b").was("a")]);
    assert_eq!(left(&own, NOW), [8]);
    assert_eq!(ignored(&report), [Some("`was: a`, but it has counted under its own name already"), None]);
    let (twice, report) = reload(&used(&["a"]), [limit("b").was("a"), limit("c").was("a")]);
    assert_eq!(left(&twice, NOW), [9, 10]);
    assert_eq!(ignored(&report), [None, Some("`was: a` is written by another limit before it")]);
    let (_, report) = reload(&used(&["a"]), [limit("a").was("a")]);
    assert_eq!(ignored(&report), [Some("`was: a` is its own name")]);
}

#[test]
fn a_rename_with_another_key_starts_fresh_and_says_so() {
    let renamed = Limit::new("b", bucket(10, MINUTE)).key(["user", "app"]).was("a");
    let (_, report) = reload(&used(&["a"]), [renamed]);
    assert_eq!(report.limits[0].change.to_string(), "starts fresh: its key was [user] and is [user, app]");
}

/// Applies changes as a store would.
fn stored(notes: &mut Vec<Note>, changes: &[NoteChange]) {
    for change in changes {
        match change {
            NoteChange::Put(note) | NoteChange::Create(note) => {
                notes.retain(|known| known.name != note.name);
                notes.push(note.clone());
            }
            NoteChange::Remove { name, .. } => notes.retain(|known| known.name != *name),
        }
    }
}

#[test]
fn the_lineage_is_the_same_after_a_restart() {
    let first = used(&["a", "b"]);
    let mut notes = Vec::new();
    stored(&mut notes, &first.lineage().changes_since(&Lineage::default()));
    let (second, report) = reload(&first, [limit("c").was("a"), limit("b")]);
    stored(&mut notes, &report.notes);
    let (third, report) = reload(&second, [limit("c"), limit("b"), limit("a")]);
    stored(&mut notes, &report.notes);
    let restored = Lineage::from_notes(&notes).unwrap();
    assert_eq!(&restored, third.lineage());
    let restarted = |limits: Vec<Limit>| {
        let api = NamespaceConfig::new("api", limits);
        Engine::builder(config()).namespace(api).lineage(restored.clone()).build().unwrap()
    };
    assert_eq!(restarted(vec![limit("c"), limit("b"), limit("a")]).lineage(), third.lineage());
    // A rename that was written while the daemon was down is obeyed at its start.
    let renamed = restarted(vec![limit("d").was("c"), limit("b"), limit("a")]);
    assert_eq!(renamed.lineage().counts_as("api", "d"), Some("a"));
    let notes = &mut notes[..1];
    notes[0].value = b"{}"[..].into();
    let error = Lineage::from_notes(&*notes).unwrap_err().to_string();
    assert!(
        error.starts_with("a stored lineage cannot be read: ") && error.ends_with("or remove it"),
        "{error}"
    );
}
