//! The key of tickets as a store keeps it, so that restarts and members share it.

use core::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use tidegate_core::Timestamp;
use tidegate_store::{Note, NoteKind};

use super::keys::TicketKeys;
use crate::notes::{self, NoteError};
use crate::stable_hash::name_of;

/// A key of tickets that a store keeps. [`Debug`](fmt::Debug) shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTicketKey([u8; TicketKeys::KEY_BYTES_MIN]);

/// The value of a note.
#[derive(Serialize, Deserialize)]
struct TicketKeyNote {
    /// In base64.
    key: String,
}

impl StoredTicketKey {
    /// A key of these bytes, which must be random.
    pub const fn new(bytes: [u8; TicketKeys::KEY_BYTES_MIN]) -> Self {
        Self(bytes)
    }

    /// Its note, which lasts. It is to be created, so that the first of several members decides
    /// which key all of them use.
    pub fn to_note(&self) -> Note {
        let value = TicketKeyNote { key: BASE64_STANDARD.encode(self.0) };
        notes::note(NoteKind::TicketKey, name_of([&b"ticket key"[..]]), &value, Timestamp::MAX)
    }

    /// The key in the notes of [`NoteKind::TicketKey`]; `None` before a daemon has made one. A note
    /// that cannot be read is an error.
    pub fn from_notes(all: &[Note]) -> Result<Option<Self>, NoteError> {
        let Some(note) = all.first() else { return Ok(None) };
        let TicketKeyNote { key } = notes::value(NoteKind::TicketKey, note)?;
        let bytes = BASE64_STANDARD.decode(key).ok().and_then(|bytes| bytes.try_into().ok());
        let wrong = || NoteError::new(NoteKind::TicketKey, "it has not 32 bytes in base64");
        bytes.map(|bytes| Some(Self(bytes))).ok_or_else(wrong)
    }

    /// The keys with which it alone signs and verifies.
    pub fn keys(&self) -> TicketKeys {
        TicketKeys::new(&self.0).expect("the key has the fewest bytes that a key may have")
    }
}

impl fmt::Debug for StoredTicketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredTicketKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_note_and_a_note_that_is_none_says_so_without_the_key() {
        let key = StoredTicketKey::new([7; 32]);
        let note = key.to_note();
        assert_eq!(StoredTicketKey::from_notes(&[]), Ok(None));
        assert_eq!(StoredTicketKey::from_notes(std::slice::from_ref(&note)), Ok(Some(key.clone())));
        assert_eq!(format!("{key:?}"), "StoredTicketKey { .. }");
        let short = BASE64_STANDARD.encode([7; 31]);
        let wrong = Note { value: format!("{{\"key\":\"{short}\"}}").into_bytes().into(), ..note };
        let error = StoredTicketKey::from_notes(&[wrong]).unwrap_err().to_string();
        assert!(error.starts_with("a stored key of tickets cannot be read"), "{error}");
        assert!(!error.contains(&short), "{error}");
    }
}
