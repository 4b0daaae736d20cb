//! How keys are named in the engine, and in which slot of a cluster they fall.
//!
//! Every name begins with the prefix and, in braces, the tag of a slot: all that belongs to the
//! counters of one slot falls into that slot, so that one script call may touch it. A single server
//! does not look at slots, but counters are named the same there, so that they can be moved to a
//! cluster as they are.

use std::sync::LazyLock;

use tidegate_store::{Key, NoteKind, RequestId};

/// How many slots a cluster has.
const SLOTS: u16 = 1 << 14;

/// For each slot the shortest text that falls into it.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tags = vec![String::new(); usize::from(SLOTS)];
    let mut missing = tags.len();
    for number in 0_u32.. {
        let text = format!("{number:x}");
        let tag = &mut tags[usize::from(slot_of(text.as_bytes()))];
        if tag.is_empty() {
            *tag = text;
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    tags
});

/// CRC-16/XMODEM of `bytes`, within the number of slots: what the cluster specification says.
fn slot_of(bytes: &[u8]) -> u16 {
    let crc =
        bytes.iter().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            })
        });
    crc % SLOTS
}

/// The slot of a counter.
pub(crate) fn slot(key: &Key) -> u16 {
    slot_of(key.as_bytes())
}

/// The slot of all notes.
pub(crate) fn note_slot() -> u16 {
    slot_of(b"notes")
}

/// Where the keys of one call live: on the only server, or in one slot of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Server,
    Slot(u16),
}

/// Names under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    fn in_slot(&self, slot: u16, what: &str, rest: &[u8]) -> Vec<u8> {
        let tag = &TAGS[usize::from(slot)];
        let mut name = Vec::with_capacity(self.prefix.len() + tag.len() + what.len() + rest.len() + 2);
        for part in [self.prefix.as_bytes(), b"{", tag.as_bytes(), b"}", what.as_bytes(), rest] {
            name.extend_from_slice(part);
        }
        name
    }

    fn at(&self, place: Place, what: &str, rest: &[u8]) -> Vec<u8> {
        match place {
            Place::Server => [self.prefix.as_bytes(), what.as_bytes(), rest].concat(),
            Place::Slot(slot) => self.in_slot(slot, what, rest),
        }
    }

    /// The counter of a key: a string.
    pub(crate) fn counter(&self, key: &Key) -> Vec<u8> {
        self.in_slot(slot(key), "c:", key.as_bytes())
    }

    /// The ledger of a key: a string.
    pub(crate) fn ledger(&self, key: &Key) -> Vec<u8> {
        self.in_slot(slot(key), "g:", key.as_bytes())
    }

    /// The instants of a rolling limit: a list.
    pub(crate) fn instants(&self, key: &Key) -> Vec<u8> {
        self.in_slot(slot(key), "l:", key.as_bytes())
    }

    /// When permits expire: a sorted set.
    pub(crate) fn expiries(&self, key: &Key) -> Vec<u8> {
        self.in_slot(slot(key), "e:", key.as_bytes())
    }

    /// The holders of permits: a hash.
    pub(crate) fn holders(&self, key: &Key) -> Vec<u8> {
        self.in_slot(slot(key), "h:", key.as_bytes())
    }

    /// The answer to a batch: a string.
    pub(crate) fn answer(&self, place: Place, id: RequestId) -> Vec<u8> {
        self.at(place, "a:", &id.0.to_be_bytes())
    }

    /// The marker of the epoch: a string.
    pub(crate) fn marker(&self, place: Place) -> Vec<u8> {
        self.at(place, "epoch", b"")
    }

    /// The notes of a kind: a hash.
    pub(crate) fn notes(&self, kind: NoteKind) -> Vec<u8> {
        self.in_slot(note_slot(), "n:", &[b'0' + kind.number()])
    }

    /// When notes of a kind end: a sorted set.
    pub(crate) fn note_ends(&self, kind: NoteKind) -> Vec<u8> {
        self.in_slot(note_slot(), "z:", &[b'0' + kind.number()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn every_tag_falls_into_its_slot() {
        for (slot, tag) in TAGS.iter().enumerate() {
            assert_eq!(usize::from(slot_of(tag.as_bytes())), slot, "{tag}");
        }
    }

    #[test]
    fn all_that_belongs_to_a_counter_has_the_tag_of_its_slot() {
        let names = Names::new("tg:");
        let key = Key::new("api", b"}{", b"\xff{}").unwrap();
        let tag = format!("tg:{{{}}}", TAGS[usize::from(slot(&key))]);
        let place = Place::Slot(slot(&key));
        for name in [
            names.counter(&key),
            names.ledger(&key),
            names.instants(&key),
            names.expiries(&key),
            names.holders(&key),
            names.answer(place, RequestId(7)),
            names.marker(place),
        ] {
            assert!(name.starts_with(tag.as_bytes()), "{}", name.escape_ascii());
        }
        assert_eq!(names.marker(Place::Server), b"tg:epoch");
    }
}
