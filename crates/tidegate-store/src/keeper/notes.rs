//! The notes of a store: by kind and name, and by when each is as good as absent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::step::OpVec;
use crate::{Batch, Note, NoteChange, NoteKind, StoreError};

/// How many expired notes one batch forgets, so that none takes long.
const FORGET_MAX: usize = 256;

/// The identity of a note.
pub(super) type Name = (NoteKind, Arc<[u8]>);

/// Notes within a number of them and of their bytes.
#[derive(Debug)]
pub(super) struct Notes {
    bounds: Room,
    used: Room,
    kept: BTreeMap<Name, (Timestamp, Box<[u8]>)>,
    /// Every note, the one that expires first at the front.
    expiries: BTreeSet<(Timestamp, Name)>,
    /// Where notes are written elsewhere.
    saving: Option<UnsavedNotes>,
}

/// Names of what is not written yet.
#[derive(Debug, Default)]
struct UnsavedNotes {
    /// Changes that were not handed out yet.
    changed: BTreeSet<Name>,
    /// Changes that were handed out to be written.
    handed: Vec<Name>,
}

/// How many notes there are, or may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) notes: usize,
    pub(super) bytes: usize,
}

impl Notes {
    /// No notes yet. `written` says whether changes are to be known, for a store that writes them
    /// down.
    pub(super) fn new(bounds: Room, written: bool) -> Self {
        let saving = written.then(UnsavedNotes::default);
        Self { bounds, used: Room::default(), kept: BTreeMap::new(), expiries: BTreeSet::new(), saving }
    }

    /// How many there are, with those that have expired and are not forgotten yet.
    pub(super) fn used(&self) -> Room {
        self.used
    }

    /// Those of a kind that have not expired, in the order of their names.
    pub(super) fn of_kind(&self, kind: NoteKind, now: Timestamp) -> Vec<Note> {
        let from: Name = (kind, Arc::new([]));
        let of_kind = self.kept.range(from..).take_while(|((of, _), _)| *of == kind);
        let live = of_kind.filter(|(_, (until, _))| *until > now);
        live.map(|((kind, name), (until, value))| Note {
            kind: *kind,
            name: name.as_ref().into(),
            value: value.clone(),
            until: *until,
        })
        .collect()
    }

    /// Forgets some of what has expired.
    pub(super) fn forget_expired(&mut self, now: Timestamp) {
        for _ in 0..FORGET_MAX {
            match self.expiries.first() {
                Some((until, name)) if *until <= now => {
                    let name = name.clone();
                    self.remove(&name);
                }
                _ => return,
            }
        }
    }

    /// Whether there is room for what a batch writes. If not, an error that says when some may be
    /// free.
    pub(super) fn has_room(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut after = self.used;
        // The changes that the batch itself has made so far: the bytes of a note, if it is there. A
        // batch has at most 64 changes.
        let mut met = OpVec::<(NoteKind, &[u8], Option<usize>)>::new();
        for change in &batch.notes {
            let (kind, name, value) = match change {
                NoteChange::Put(note) | NoteChange::Create(note) => {
                    (note.kind, &*note.name, Some(note.value.len()))
                }
                NoteChange::Remove { kind, name } => (*kind, &**name, None),
            };
            let place = met.iter().position(|(of, known, _)| *of == kind && *known == name);
            let before = match place {
                Some(place) => met[place].2,
                None => self.kept.get(&(kind, Arc::from(name))).map(|(_, value)| value.len()),
            };
            let size = |value: Option<usize>| value.map_or(0, |value| bytes_of(name, value));
            after.notes = after.notes + usize::from(value.is_some()) - usize::from(before.is_some());
            after.bytes = after.bytes + size(value) - size(before);
            match place {
                Some(place) => met[place].2 = value,
                None => met.push((kind, name, value)),
            }
        }
        let grows = after.notes > self.used.notes || after.bytes > self.used.bytes;
        if grows && (after.notes > self.bounds.notes || after.bytes > self.bounds.bytes) {
            let until = self.expiries.first().map_or(Timestamp::MAX, |(until, _)| *until);
            return Err(StoreError::Full { until });
        }
        Ok(())
    }

    /// Whether a note that a batch would create is there already.
    pub(super) fn refuses(&self, batch: &Batch, now: Timestamp) -> bool {
        batch.notes.iter().any(|change| match change {
            NoteChange::Create(note) => {
                let known = self.kept.get(&(note.kind, Arc::from(&*note.name)));
                known.is_some_and(|(until, _)| *until > now)
            }
            NoteChange::Put(_) | NoteChange::Remove { .. } => false,
        })
    }

    /// Lets a note that keeps another of its name from being created end when that would, if it
    /// lasts longer than its kind does: its clock was ahead.
    pub(super) fn bring_back(&mut self, batch: &Batch, now: Timestamp) {
        for change in &batch.notes {
            let NoteChange::Create(note) = change else { continue };
            if note.kind != NoteKind::Refund || note.until <= now {
                continue;
            }
            let name: Name = (note.kind, note.name.as_ref().into());
            let Some((until, value)) = self.kept.get(&name) else { continue };
            if *until > note.until.max(now.saturating_add(NoteKind::REFUND_KEPT)) {
                let value = value.clone();
                self.mark_changed(&name);
                self.put(name, value, note.until);
            }
        }
    }

    /// Makes one change of a batch that [has room](Notes::has_room).
    pub(super) fn apply(&mut self, change: &NoteChange, now: Timestamp) {
        match change {
            NoteChange::Put(note) | NoteChange::Create(note) if note.until > now => {
                let name = (note.kind, note.name.as_ref().into());
                self.mark_changed(&name);
                self.put(name, note.value.clone(), note.until);
            }
            // As good as absent from the start, and what it would replace is gone.
            NoteChange::Put(Note { kind, name, .. })
            | NoteChange::Create(Note { kind, name, .. })
            | NoteChange::Remove { kind, name } => {
                self.remove(&(*kind, name.as_ref().into()));
            }
        }
    }

    fn put(&mut self, name: Name, value: Box<[u8]>, until: Timestamp) {
        self.take_out(&name);
        self.used.notes += 1;
        self.used.bytes += bytes_of(&name.1, value.len());
        self.expiries.insert((until, name.clone()));
        self.kept.insert(name, (until, value));
    }

    fn remove(&mut self, name: &Name) {
        if self.take_out(name) {
            self.mark_changed(name);
        }
    }

    fn mark_changed(&mut self, name: &Name) {
        if let Some(saving) = &mut self.saving {
            saving.changed.insert(name.clone());
        }
    }

    /// Takes up a note as it is written.
    pub(super) fn load(&mut self, note: Note, now: Timestamp) {
        let name = (note.kind, note.name.into());
        let latest = note.kind.longest().map_or(Timestamp::MAX, |longest| now.saturating_add(longest));
        if note.until > latest {
            // Written anew, so that it ends then whatever is restarted.
            self.mark_changed(&name);
            self.put(name, note.value, latest);
        } else if note.until > now {
            self.put(name, note.value, note.until);
        } else {
            self.mark_changed(&name);
        }
    }

    /// How many have changed and are not written yet.
    pub(super) fn unsaved(&self) -> usize {
        self.saving.as_ref().map_or(0, |saving| saving.changed.len() + saving.handed.len())
    }

    /// Hands out all that has changed, to be written.
    pub(super) fn hand_out(&mut self) -> Vec<(NoteKind, Arc<[u8]>, Option<Note>)> {
        let Some(saving) = &mut self.saving else { return Vec::new() };
        assert!(saving.handed.is_empty(), "what was handed out before is neither written nor taken back");
        saving.handed = core::mem::take(&mut saving.changed).into_iter().collect();
        let kept = &self.kept;
        let as_kept = |name: &Name| {
            let (until, value) = kept.get(name)?;
            let (kind, until) = (name.0, *until);
            Some(Note { kind, name: name.1.as_ref().into(), value: value.clone(), until })
        };
        saving.handed.iter().map(|name| (name.0, Arc::clone(&name.1), as_kept(name))).collect()
    }

    /// The changes that were handed out are written.
    pub(super) fn written(&mut self) {
        if let Some(saving) = &mut self.saving {
            saving.handed.clear();
        }
    }

    /// The changes that were handed out could not be written, and are to be handed out again.
    pub(super) fn not_written(&mut self) {
        if let Some(saving) = &mut self.saving {
            saving.changed.extend(saving.handed.drain(..));
        }
    }

    /// Takes a note out; whether it was there.
    fn take_out(&mut self, name: &Name) -> bool {
        let Some((until, value)) = self.kept.remove(name) else { return false };
        self.used.notes -= 1;
        self.used.bytes -= bytes_of(&name.1, value.len());
        self.expiries.remove(&(until, name.clone()));
        true
    }

    #[cfg(any(test, feature = "conformance"))]
    pub(super) fn dump(&self) -> String {
        use core::fmt::Write;

        let mut text = String::new();
        for ((kind, name), (until, value)) in &self.kept {
            let (name, value) = (name.escape_ascii(), value.escape_ascii());
            writeln!(text, "{kind} {name} {value} until {until:?}").expect("text always takes more");
        }
        text
    }
}

/// Bytes of a note: its name once with its counts, its value, an entry of each table with the room
/// that tables keep free.
fn bytes_of(name: &[u8], value: usize) -> usize {
    const TABLES: usize = 2 * (size_of::<(Name, (Timestamp, Box<[u8]>))>() + size_of::<(Timestamp, Name)>());
    TABLES + 2 * size_of::<usize>() + name.len().next_multiple_of(16) + value.next_multiple_of(16)
}
