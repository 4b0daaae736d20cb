//! The words of the table: where a key stands, and the parts of a word.

use super::specs::{SPEC_BITS, SpecNumber};
use crate::algorithm::State;
use crate::time::Timestamp;

/// Words in a line; a line is one cache line of 64 bytes.
pub(super) const LINE: usize = 4;
/// Bits of a word that hold the state.
pub(super) const STATE_BITS: u32 = 64;
pub(super) const SPEC_MASK: u128 = ((1 << SPEC_BITS) - 1) << STATE_BITS;
pub(super) const TAG_SHIFT: u32 = STATE_BITS + SPEC_BITS;

/// The hash of a key: where it may stand, and its tag there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;

    /// The key under which the block of this key is kept.
    pub(crate) const fn of_block(self) -> Self {
        Self((self.0 ^ 0xB10C).wrapping_mul(Self::MIX).rotate_left(29))
    }

    pub(super) const fn tag(self) -> u128 {
        (self.0 & ((1 << (128 - TAG_SHIFT)) - 1)) as u128
    }

    /// Another hash made of this one: where one line is must say nothing of where the next is.
    pub(super) const fn next(self) -> Self {
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(Self::MIX);
        Self((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }
}

/// Where the first line of a key begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstLine(pub(super) u32);

/// Where a key stands, and the word that was read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(super) slot: u32,
    pub(super) word: u128,
}

impl Entry {
    const ABSENT: u32 = u32::MAX;
    pub(crate) const NONE: Self = Self { slot: Self::ABSENT, word: 0 };

    /// The state of the key, or the empty one if it is absent.
    pub(crate) const fn state(self) -> State {
        State::from_bits(self.word as u64)
    }

    /// The number of the spec that reads the state; `None` for an absent key.
    #[inline]
    pub(crate) const fn spec(self) -> Option<SpecNumber> {
        SpecNumber::new(self.spec_bits())
    }

    /// The number of the spec; 0 for an absent key.
    #[inline]
    pub(crate) const fn spec_bits(self) -> u32 {
        (self.word >> STATE_BITS) as u32 & (SPEC_MASK >> STATE_BITS) as u32
    }

    pub(crate) const fn is_absent(self) -> bool {
        self.slot == Self::ABSENT
    }
}

/// Why a word was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// The key is not where it was or no longer says what it said: look again.
    Moved,
    /// There is no room for a new key before this instant.
    Full {
        /// When the first of the words it may take drains.
        until: Timestamp,
    },
}
