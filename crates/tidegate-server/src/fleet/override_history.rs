//! The history of overrides: each change with its author and its reason.

use core::time::Duration;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate_core::Timestamp;
use tidegate_store::{Note, NoteChange, NoteKind};

/// How many changes are remembered. The oldest goes first.
pub const HISTORY_MAX: usize = 1000;

/// How long a change is remembered.
pub const HISTORY_KEPT: Duration = Duration::from_hours(24 * 400);

/// One change of an override.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct AuditEntry {
    /// When, as RFC 3339.
    pub(crate) at: String,
    /// `set` or `removed`.
    pub(crate) change: Cow<'static, str>,
    /// The namespace of the limit.
    pub(crate) namespace: String,
    /// The limit.
    pub(crate) limit: String,
    /// The attributes it is for, with their values.
    #[cfg_attr(test, schema(value_type = Object))]
    pub(crate) when: Map<String, Value>,
    /// The numbers it had before; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<String>,
    /// The numbers it has now; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
    /// Why.
    pub(crate) reason: String,
    /// The author, as the caller said. Nothing verified it.
    pub(crate) by: String,
    /// The name of the grant by which the caller was permitted; absent where callers are not
    /// authenticated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<String>,
}

impl AuditEntry {
    pub(crate) fn when_text(&self) -> String {
        Value::Object(self.when.clone()).to_string()
    }
}

/// The changes that are remembered.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<VecDeque<AuditEntry>>);

impl History {
    pub(crate) fn push(&self, entry: AuditEntry) {
        let mut entries = self.entries();
        if entries.len() >= HISTORY_MAX {
            entries.pop_front();
        }
        entries.push_back(entry);
    }

    /// Restores the entries that were written before a restart, in the order of its names, which is
    /// that of time.
    pub(crate) fn restore(&self, notes: &[Note]) {
        for note in notes.iter().skip(notes.len().saturating_sub(HISTORY_MAX)) {
            match serde_json::from_slice(&note.value) {
                Ok(entry) => self.push(entry),
                Err(error) => tracing::warn!(%error, "a stored change of an override cannot be read"),
            }
        }
    }

    pub(crate) fn entries(&self) -> MutexGuard<'_, VecDeque<AuditEntry>> {
        // One insertion at a time: a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn audit_note(entry: &AuditEntry, now: Timestamp) -> NoteChange {
    let value = serde_json::to_vec(entry).expect("strings are always JSON");
    // The instant first, so that names are in the order of time; then something that differs within
    // one instant.
    let what = format!(
        "{:020}-{}-{}-{}",
        now.as_nanos(),
        entry.namespace,
        entry.limit,
        Value::Object(entry.when.clone())
    );
    let name = what.into_bytes().into_iter().take(Note::NAME_BYTES_MAX).collect();
    let until = now.saturating_add(HISTORY_KEPT);
    NoteChange::Put(Note { kind: NoteKind::Audit, name, value: value.into(), until })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_change_is_forgotten_first_and_what_was_stored_comes_back() {
        let entry = |number: usize| AuditEntry {
            at: number.to_string(),
            change: Cow::Borrowed("set"),
            namespace: "api".into(),
            limit: "per-user".into(),
            when: Map::new(),
            before: None,
            after: Some("rate 1/s, burst 1".into()),
            reason: "because".into(),
            by: String::new(),
            grant: None,
        };
        let history = History::default();
        (0..=HISTORY_MAX).for_each(|number| history.push(entry(number)));
        assert_eq!(history.entries().len(), HISTORY_MAX);
        assert_eq!(history.entries()[0], entry(1));
        let NoteChange::Put(note) = audit_note(&entry(7), Timestamp::from_secs(7)) else { panic!() };
        let restored = History::default();
        restored.restore(&[note]);
        assert_eq!(restored.entries()[0], entry(7));
    }
}
