//! The spent tickets that other calendars sold: other members, and earlier starts of this one.

use std::collections::BTreeMap;

use tidegate_core::Timestamp;

use super::forgotten_slots::ForgottenSlots;
use super::spent_bits::SpentBits;
use super::ticket_number::{SLOT_TICKETS_MAX, TicketIssuer, TicketNumber, is_slot_over};

/// The bytes of an entry for one slot of one issuer beside its bits, with the slack of the tree.
const ENTRY_BYTES: usize = 96;

/// The bits of spent foreign tickets. Which tickets their issuers sold is not known here; the
/// signature of a ticket vouches for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignTickets {
    bits: BTreeMap<(u64, TicketIssuer), SpentBits>,
    bytes: usize,
    spent: usize,
    /// The first and the last second of which bits were dropped before their end.
    dropped: Option<(u64, u64)>,
}

impl ForeignTickets {
    /// Whether the ticket was spent here.
    pub(crate) fn is_spent(&self, number: TicketNumber) -> bool {
        self.bits.get(&key_of(number)).is_some_and(|bits| bits.contains(number.sequence))
    }

    /// The bytes that remembering this ticket as spent would add; `None` if it cannot be
    /// remembered, because bits of its slot were dropped or no issuer gives such a number.
    pub(crate) fn growth(&self, number: TicketNumber) -> Option<usize> {
        let growth = match self.bits.get(&key_of(number)) {
            Some(bits) => bits.growth(number.sequence),
            None => ENTRY_BYTES + SpentBits::default().growth(number.sequence),
        };
        let is_refused = number.sequence >= SLOT_TICKETS_MAX || self.is_dropped(number.slot);
        (!is_refused).then_some(growth)
    }

    /// Whether bits of the slot were dropped, so that none of its tickets can be admitted here.
    pub(crate) fn is_dropped(&self, slot: u64) -> bool {
        self.dropped.is_some_and(|(from, to)| (from..=to).contains(&slot))
    }

    /// Marks a ticket as spent; false if it was spent already.
    pub(crate) fn spend(&mut self, number: TicketNumber) -> bool {
        let Some(growth) = self.growth(number) else { return false };
        let is_new = self.bits.entry(key_of(number)).or_default().insert(number.sequence);
        self.bytes += growth;
        self.spent += usize::from(is_new);
        is_new
    }

    /// Marks a ticket as good again.
    pub(crate) fn give_back(&mut self, number: TicketNumber) {
        let was_spent = self.bits.get_mut(&key_of(number)).is_some_and(|bits| bits.remove(number.sequence));
        self.spent -= usize::from(was_spent);
    }

    /// Forgets the slots that are over.
    pub(crate) fn forget(&mut self, forgotten: &mut ForgottenSlots, now: Timestamp) {
        while let Some(first) = self.bits.first_entry().filter(|entry| is_slot_over(entry.key().0, now)) {
            let ((second, _), bits) = first.remove_entry();
            forgotten.add_past(second);
            self.let_go(&bits);
        }
        if let Some((_, to)) = self.dropped.filter(|(_, to)| is_slot_over(*to, now)) {
            // The clock may step back, and what was dropped is not good again then.
            forgotten.add_past(to);
            self.dropped = None;
        }
    }

    /// Drops the bits of the latest slot, of all its issuers; false if there are none. No foreign
    /// ticket of the slot can be spent here after that.
    pub(crate) fn drop_last(&mut self) -> bool {
        let Some(last) = self.bits.last_key_value().map(|((second, _), _)| *second) else { return false };
        let (from, to) = self.dropped.unwrap_or((last, last));
        self.dropped = Some((from.min(last), to.max(last)));
        while let Some(entry) = self.bits.last_entry().filter(|entry| entry.key().0 == last) {
            let bits = entry.remove();
            self.let_go(&bits);
        }
        true
    }

    /// The bytes of the bits and of what keeps them in order.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of spent tickets that are remembered.
    pub(crate) const fn spent(&self) -> usize {
        self.spent
    }

    fn let_go(&mut self, bits: &SpentBits) {
        self.bytes -= ENTRY_BYTES + bits.bytes();
        self.spent -= bits.count();
    }
}

const fn key_of(number: TicketNumber) -> (u64, TicketIssuer) {
    (number.slot, number.issuer)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    fn number(member: u64, slot: u64, sequence: u16) -> TicketNumber {
        TicketNumber { issuer: TicketIssuer { member, start: 1 }, slot, sequence }
    }

    #[test]
    fn tickets_of_two_issuers_with_one_slot_and_sequence_are_two_tickets() {
        let mut foreign = ForeignTickets::default();
        assert!(foreign.spend(number(1, 100, 3)) && foreign.spend(number(2, 100, 3)));
        assert!(!foreign.spend(number(1, 100, 3)));
        foreign.give_back(number(1, 100, 3));
        foreign.give_back(number(3, 100, 3));
        assert!(!foreign.is_spent(number(1, 100, 3)) && foreign.is_spent(number(2, 100, 3)));
        assert_eq!((foreign.spent(), foreign.bytes()), (1, 2 * (ENTRY_BYTES + 8)));
    }

    #[test]
    fn bytes_are_those_of_the_bits_until_their_slot_is_over() {
        let mut foreign = ForeignTickets::default();
        for (slot, sequence) in [(100, 0), (100, 999), (101, 64), (101, 2)] {
            let before = foreign.bytes();
            let growth = foreign.growth(number(1, slot, sequence)).unwrap();
            foreign.spend(number(1, slot, sequence));
            assert_eq!(foreign.bytes(), before + growth);
        }
        assert_eq!(foreign.growth(number(1, 100, SLOT_TICKETS_MAX)), None);
        assert!(!foreign.spend(number(1, 100, SLOT_TICKETS_MAX)));
        let mut forgotten = ForgottenSlots::default();
        foreign.forget(&mut forgotten, Timestamp::from_millis(108_001));
        assert!(forgotten.contains(100) && !forgotten.contains(101));
        assert_eq!((foreign.bytes(), foreign.spent()), (ENTRY_BYTES + 16, 2));
        assert!(foreign.drop_last() && !foreign.drop_last());
        assert_eq!((foreign.bytes(), foreign.spent()), (0, 0));
    }

    #[test]
    fn no_ticket_is_spent_in_a_slot_whose_bits_were_dropped_until_the_slot_is_over() {
        let mut foreign = ForeignTickets::default();
        assert!(foreign.spend(number(1, 100, 0)) && foreign.spend(number(2, 101, 0)));
        foreign.drop_last();
        assert!(!foreign.spend(number(2, 101, 0)) && !foreign.spend(number(3, 101, 9)));
        assert!(foreign.spend(number(1, 100, 1)));
        let mut forgotten = ForgottenSlots::default();
        foreign.forget(&mut forgotten, Timestamp::from_secs(110));
        assert!(!foreign.is_dropped(101) && forgotten.contains(101));
    }
}
