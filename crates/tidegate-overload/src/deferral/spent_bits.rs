//! One bit for each ticket of a slot and an issuer: whether the ticket was spent.

use super::ticket_number::SLOT_TICKETS_MAX;

/// The bytes by which bits grow: one word.
pub(crate) const WORD_BYTES: usize = size_of::<u64>();

/// The bits, which take no memory before the first ticket is spent, and then one word for every 64
/// tickets up to the last one that was spent.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpentBits(Box<[u64]>);

/// The bytes of the bits of so many tickets.
pub(crate) const fn bytes_of_tickets(tickets: u16) -> usize {
    tickets.div_ceil(64) as usize * WORD_BYTES
}

impl SpentBits {
    /// Whether the ticket of this sequence was spent.
    pub(crate) fn contains(&self, sequence: u16) -> bool {
        self.0.get(word_of(sequence)).is_some_and(|word| word & mask_of(sequence) != 0)
    }

    /// Marks a ticket as spent; false if it is marked already, or is beyond [`SLOT_TICKETS_MAX`].
    pub(crate) fn insert(&mut self, sequence: u16) -> bool {
        if sequence >= SLOT_TICKETS_MAX || self.contains(sequence) {
            return false;
        }
        let word = word_of(sequence);
        if word >= self.0.len() {
            let mut words = core::mem::take(&mut self.0).into_vec();
            // Memory is bounded exactly, so that no word is allocated in advance.
            words.reserve_exact(word + 1 - words.len());
            words.resize(word + 1, 0);
            self.0 = words.into_boxed_slice();
        }
        self.0[word] |= mask_of(sequence);
        true
    }

    /// Marks a ticket as good again; false if it was not spent.
    pub(crate) fn remove(&mut self, sequence: u16) -> bool {
        let is_spent = self.contains(sequence);
        if is_spent {
            self.0[word_of(sequence)] &= !mask_of(sequence);
        }
        is_spent
    }

    /// The number of spent tickets.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The bytes of the bits.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[u64]>(&self.0)
    }

    /// The bytes that marking this ticket would add.
    pub(crate) fn growth(&self, sequence: u16) -> usize {
        bytes_of_tickets(sequence.saturating_add(1)).saturating_sub(self.bytes())
    }
}

const fn word_of(sequence: u16) -> usize {
    sequence as usize / 64
}

const fn mask_of(sequence: u16) -> u64 {
    1 << (sequence % 64)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_spent_once_until_it_is_given_back() {
        let mut bits = SpentBits::default();
        for sequence in [0, 63, 64, 999] {
            assert!(!bits.contains(sequence));
            assert!(bits.insert(sequence));
            assert!(bits.contains(sequence) && !bits.insert(sequence));
        }
        assert_eq!(bits.count(), 4);
        assert!(bits.remove(64) && !bits.remove(64) && !bits.remove(65));
        assert_eq!(bits.count(), 3);
        assert!(bits.insert(64));
    }

    #[test]
    fn bits_of_a_thousand_tickets_take_128_bytes_and_fewer_take_less() {
        let mut bits = SpentBits::default();
        assert_eq!((bits.bytes(), bits.growth(0)), (0, 8));
        bits.insert(0);
        assert_eq!((bits.bytes(), bits.growth(63), bits.growth(64), bits.growth(999)), (8, 0, 8, 120));
        bits.insert(SLOT_TICKETS_MAX - 1);
        assert_eq!(bits.bytes(), 128);
        assert!(!bits.insert(SLOT_TICKETS_MAX) && !bits.contains(u16::MAX));
    }
}
