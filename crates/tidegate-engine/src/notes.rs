//! The notes that outlive the engine: their format, and how the engine reads them at its next
//! start.

use core::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
pub(crate) use tidegate_core::hex::encode as hex;
use tidegate_core::limit::RefundOn;
use tidegate_core::{Cost, Timestamp};
use tidegate_store::{HolderId, Key, Kind, Note, NoteChange, NoteKind, Operation};

use crate::numbers::Numbers;

/// A note that cannot be read: it was not written by this engine, or by a later version of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored {kind} cannot be read: {why}; start the version that wrote it, or remove it")]
pub struct NoteError {
    /// The kind of the note.
    pub kind: NoteKind,
    /// The error in the note.
    pub why: String,
}

impl NoteError {
    pub(crate) fn new(kind: NoteKind, why: impl fmt::Display) -> Self {
        Self { kind, why: format!("{why}") }
    }
}

/// A note of this kind with `value` as JSON.
pub(crate) fn note(kind: NoteKind, name: u128, value: &impl Serialize, until: Timestamp) -> Note {
    let value = serde_json::to_vec(value).expect("strings, numbers and lists are always JSON");
    Note { kind, name: name.to_be_bytes().into(), value: value.into(), until }
}

pub(crate) fn remove(kind: NoteKind, name: u128) -> NoteChange {
    NoteChange::Remove { kind, name: name.to_be_bytes().into() }
}

/// The name of a note of the kind that is expected.
pub(crate) fn name(kind: NoteKind, note: &Note) -> Result<u128, NoteError> {
    if note.kind != kind {
        return Err(NoteError::new(note.kind, format_args!("it is not about a {kind}")));
    }
    let bytes: Result<[u8; 16], _> = (*note.name).try_into();
    bytes.map(u128::from_be_bytes).map_err(|_| NoteError::new(kind, "its name has not 16 bytes"))
}

/// The value of a note of the kind that is expected.
pub(crate) fn value<T: DeserializeOwned>(kind: NoteKind, note: &Note) -> Result<T, NoteError> {
    name(kind, note)?;
    serde_json::from_slice(&note.value).map_err(|error| NoteError::new(kind, error))
}

/// The bytes that [`hex`] encoded.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    tidegate_core::hex::decode(text.as_bytes())
}

/// A permit kept for a caller that settles later: what the store holds for it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptNote {
    pub(crate) namespace: String,
    pub(crate) cost: u64,
    pub(crate) operations: Vec<OperationNote>,
}

/// A block on a key that this member decides itself, or the end that an operator made of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BlockNote {
    pub(crate) namespace: String,
    pub(crate) identity: String,
    pub(crate) attributes: Vec<(String, String)>,
}

/// A refund that was given; for people only, the name says which.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefundNote {
    pub(crate) namespace: String,
    pub(crate) key: String,
}

impl RefundNote {
    /// So much of a key is written for people.
    pub(crate) const KEY_CHARS_MAX: usize = 64;
}

/// A charge in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OperationNote {
    /// The parts of the key in hexadecimal digits.
    key: Vec<Option<String>>,
    numbers: Numbers,
    /// The holder of a permit of a concurrency limit; `None` where units are charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The endings of work on which the charge is given back, as [`RefundOn`] writes them; `None`
    /// for none, and in notes of versions that knew none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refund_on: Option<String>,
}

impl OperationNote {
    /// `None` for an operation that holds nothing, or with an algorithm that this version cannot
    /// store.
    pub(crate) fn from_operation(operation: &Operation, refund_on: Option<&RefundOn>) -> Option<Self> {
        let holder = match operation.kind {
            Kind::Check { .. } => None,
            Kind::Acquire { holder } => Some(format!("{:032x}", holder.0)),
            _ => return None,
        };
        let key = operation.key.parts().map(|part| part.map(hex)).collect();
        let refund_on = refund_on.map(RefundOn::to_string);
        Some(Self { key, numbers: Numbers::from_algorithm(&operation.algorithm)?, holder, refund_on })
    }

    /// The endings of work on which the charge is given back.
    pub(crate) fn refund_on(&self) -> Result<RefundOn, NoteError> {
        let endings = self.refund_on.iter().flat_map(|text| text.split(", "));
        RefundOn::parse(endings).map_err(|error| NoteError::new(NoteKind::Permit, error))
    }

    pub(crate) fn operation(&self, cost: Cost) -> Result<Operation, NoteError> {
        let wrong = |why: &str| NoteError::new(NoteKind::Permit, why);
        let mut parts = Vec::with_capacity(self.key.len());
        for part in &self.key {
            parts.push(match part {
                Some(text) => Some(unhex(text).ok_or_else(|| wrong("a key is not in hexadecimal digits"))?),
                None => None,
            });
        }
        let key = Key::from_parts(parts.iter().map(Option::as_deref))
            .map_err(|error| NoteError::new(NoteKind::Permit, error))?;
        let algorithm = self.numbers.algorithm().map_err(|error| NoteError::new(NoteKind::Permit, error))?;
        let kind = match &self.holder {
            None => Kind::Check { cost },
            Some(text) => {
                let holder = u128::from_str_radix(text, 16).map_err(|_| wrong("a holder is no number"))?;
                Kind::Acquire { holder: HolderId(holder) }
            }
        };
        Ok(Operation::new(key, algorithm, kind))
    }
}
