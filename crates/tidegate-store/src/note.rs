//! Small named facts that outlive a process: overrides, blocks, refund keys, reservations, the
//! lineage of limits, members, pins of features, the key of tickets.
//!
//! A store keeps them beside its counters and changes both in the same step, so that a refund and
//! the memory that it was given, or a reservation and the charge it stands for, are never torn
//! apart by a crash. The meaning of a value is up to its writer; a store only keeps it, and
//! forgets it when its time has come.

use core::fmt;
use core::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::algorithm::WINDOW_MAX;

use crate::StoreError;

/// The subject of a note. Notes of different kinds never share a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum NoteKind {
    /// The numbers of one key, set while running.
    Override = 1,
    /// A key that is refused until an instant, of a limit that the member decides itself.
    Block = 2,
    /// A refund that was given.
    Refund = 3,
    /// A permit kept for a caller that settles later.
    Permit = 4,
    /// Under which identity a limit counts, after it was renamed.
    Lineage = 5,
    /// The audit record of an override: its author, time and reason.
    Audit = 6,
    /// A member that is there, as long as it says so again in time.
    Member = 7,
    /// The level of a feature that an operator pins until an instant.
    FeaturePin = 8,
    /// The key that deferral tickets are signed with. It is secret.
    TicketKey = 9,
    /// A key whose block was lifted by an operator, of a limit that members decide themselves.
    LiftedBlock = 10,
}

impl NoteKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Override,
        Self::Block,
        Self::Refund,
        Self::Permit,
        Self::Lineage,
        Self::Audit,
        Self::Member,
        Self::FeaturePin,
        Self::TicketKey,
        Self::LiftedBlock,
    ];

    /// The longest pin of a feature: 30 days.
    pub const FEATURE_PIN_KEPT: Duration = Duration::from_hours(30 * 24);

    /// How long members can learn that a block was lifted: an hour.
    pub const LIFTED_BLOCK_KEPT: Duration = Duration::from_hours(1);

    /// How long a refund is remembered: an hour.
    pub const REFUND_KEPT: Duration = Duration::from_hours(1);

    /// The longest life of a note of this kind from when it is written; `None` if there is no
    /// bound. A note that lasts longer was written under a clock that was ahead.
    pub const fn longest(self) -> Option<Duration> {
        match self {
            Self::Refund => Some(Self::REFUND_KEPT),
            Self::Block => Some(WINDOW_MAX),
            Self::LiftedBlock => Some(Self::LIFTED_BLOCK_KEPT),
            Self::FeaturePin => Some(Self::FEATURE_PIN_KEPT),
            Self::Override | Self::Permit | Self::Lineage | Self::Audit | Self::Member | Self::TicketKey => {
                None
            }
        }
    }

    /// The number that stores write; never reused for another kind.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Override => "override",
            Self::Block => "block",
            Self::Refund => "refund",
            Self::Permit => "permit",
            Self::Lineage => "lineage",
            Self::Audit => "audit",
            Self::Member => "member",
            Self::FeaturePin => "pin of a feature",
            Self::TicketKey => "key of tickets",
            Self::LiftedBlock => "lifted block",
        })
    }
}

/// One fact.
///
/// ```
/// # use tidegate_core::Timestamp;
/// # use tidegate_store::{Batch, MemoryConfig, MemoryStore, Note, NoteChange, NoteKind, RequestId};
/// # let clock = || Timestamp::from_secs(1_800_000_000);
/// # let store = MemoryStore::new(MemoryConfig::new([1, 2, 3, 4]), clock);
/// let (name, value) = (b"refund-7".as_slice().into(), [].into());
/// let until = Timestamp::from_secs(1_800_086_400);
/// let note = Note { kind: NoteKind::Refund, name, value, until };
/// let refund = |id| Batch::each(RequestId(id), []).with_notes([NoteChange::Create(note.clone())]);
/// assert!(!store.run_now(&refund(1))?.refused);
/// // The note is there, so a second refund of that name is refused.
/// assert!(store.run_now(&refund(2))?.refused);
/// assert_eq!(store.notes_now(NoteKind::Refund), [note]);
/// # Ok::<(), tidegate_store::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The subject.
    pub kind: NoteKind,
    /// The name, unique within its kind, 1 to [`Note::NAME_BYTES_MAX`] bytes.
    pub name: Box<[u8]>,
    /// The value, at most [`Note::VALUE_BYTES_MAX`] bytes.
    pub value: Box<[u8]>,
    /// The first instant, on the store's clock, at which it is as good as absent;
    /// [`Timestamp::MAX`] never comes.
    pub until: Timestamp,
}

impl Note {
    /// The longest name in bytes.
    pub const NAME_BYTES_MAX: usize = 1 << 10;
    /// The longest value in bytes.
    pub const VALUE_BYTES_MAX: usize = 64 << 10;
}

/// A change of a note by a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NoteChange {
    /// Writes it, over one of the same kind and name if there is one.
    Put(Note),
    /// Writes the note if no note of that kind and name exists before the batch. If one exists, the
    /// whole batch is refused, also one of each: so what the note is about is done once, however
    /// long ago that was.
    Create(Note),
    /// Removes the note; nothing if it is absent.
    Remove {
        /// The subject.
        kind: NoteKind,
        /// Its name.
        name: Box<[u8]>,
    },
}

impl NoteChange {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let (name, value) = match self {
            Self::Put(note) | Self::Create(note) => (&note.name, note.value.len()),
            Self::Remove { name, .. } => (name, 0),
        };
        let too_large = |what, size, max| Err(StoreError::TooLarge { what, size, max });
        if name.is_empty() || name.len() > Note::NAME_BYTES_MAX {
            return too_large("bytes in the name of a note", name.len(), Note::NAME_BYTES_MAX);
        }
        if value > Note::VALUE_BYTES_MAX {
            return too_large("bytes in a note", value, Note::VALUE_BYTES_MAX);
        }
        Ok(())
    }
}
