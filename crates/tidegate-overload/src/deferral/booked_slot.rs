//! One second of the calendar for which tickets were sold.

use core::time::Duration;

use tidegate_core::Timestamp;

use super::namespace_weights::NamespaceWeights;
use super::spent_bits::{SpentBits, bytes_of_tickets};
use super::tenant_sketch::TenantSketch;
use super::ticket_number::{Booking, SLOT_TICKETS_MAX, TICKET_VALID, TicketIssuer, TicketNumber};
use super::ticket_sale::{SlotParts, TicketSale};
use super::typical_cost::QUARTERS;
use crate::cursor::hash::keyed_hash;

const SECOND_NANOS: u64 = 1_000_000_000;
const MILLI_NANOS: u64 = 1_000_000;
/// The golden ratio of a second: its multiples are spread evenly over the second, however many.
const GOLDEN_NANOS: u64 = 618_033_989;

/// A second and the tickets that were sold for it. Weights are in quarters of a request.
#[derive(Clone, Debug)]
pub(crate) struct BookedSlot {
    second: u64,
    tenants: TenantSketch,
    /// The weights that tenants were sold beyond the room. They count where namespaces share the
    /// slot: a namespace that invents tenants fills fewer of these counters for the others.
    tenants_beyond: TenantSketch,
    namespaces: NamespaceWeights,
    spent_bits: SpentBits,
    tickets: u16,
    spent: u16,
    sold: u16,
    beyond: u16,
    /// The part of the second that belongs to tickets which return in order, in milliseconds.
    reach_millis: u16,
}

impl BookedSlot {
    /// A second without tickets.
    pub(crate) fn new(second: u64) -> Self {
        Self {
            second,
            tenants: TenantSketch::new(),
            tenants_beyond: TenantSketch::new(),
            namespaces: NamespaceWeights::new(),
            spent_bits: SpentBits::default(),
            tickets: 0,
            spent: 0,
            sold: 0,
            beyond: 0,
            reach_millis: 0,
        }
    }

    /// The second, since the Unix epoch.
    pub(crate) const fn second(&self) -> u64 {
        self.second
    }

    /// The number of tickets sold.
    pub(crate) const fn tickets(&self) -> u16 {
        self.tickets
    }

    /// Whether no further ticket has a number.
    pub(crate) const fn is_full(&self) -> bool {
        self.tickets >= SLOT_TICKETS_MAX
    }

    /// The weight of all tickets sold.
    pub(crate) const fn sold(&self) -> u16 {
        self.sold
    }

    /// The weight of the tickets that were sold beyond the room.
    pub(crate) const fn beyond(&self) -> u16 {
        self.beyond
    }

    /// The weight of all tickets sold, each bucket of tenants counted up to `part`.
    pub(crate) fn effective(&self, part: u16) -> u16 {
        self.tenants.effective(part)
    }

    /// The weight that the bucket of a tenant holds.
    pub(crate) fn held_by(&self, tenant: u64) -> u16 {
        self.tenants.weight(tenant, self.second)
    }

    /// The bytes of the bits of all tickets sold, allocated or not.
    pub(crate) const fn reserved_bytes(&self) -> usize {
        bytes_of_tickets(self.tickets)
    }

    /// The bytes of the bits that are allocated.
    pub(crate) fn bits_bytes(&self) -> usize {
        self.spent_bits.bytes()
    }

    /// Whether the slot may have room for a ticket by the part of its namespace: for one of some
    /// tenant. `false` holds for all tenants, and until the room or the parts grow.
    pub(crate) fn has_namespace_room(&self, sale: &TicketSale) -> bool {
        let TicketSale { weight, room, .. } = *sale;
        if self.is_full() || self.beyond + weight > room {
            return false;
        }
        let (namespaces, parts) = self.parts(sale);
        if namespaces == 1 {
            return self.effective(parts.tenant) + weight <= room;
        }
        self.is_in_namespace_part(sale, parts) || self.is_in_tenants_parts(sale, parts)
    }

    /// Whether the slot has room for the ticket by the part of its namespace, or by that of its
    /// tenant in the part of its namespace.
    pub(crate) fn has_part_room(&self, sale: &TicketSale) -> bool {
        if !self.has_namespace_room(sale) {
            return false;
        }
        let (namespaces, parts) = self.parts(sale);
        let tenants = if namespaces == 1 { &self.tenants } else { &self.tenants_beyond };
        let held = tenants.weight(sale.tenant, self.second);
        let is_in_part = held == 0 || held + sale.weight <= parts.tenant;
        is_in_part || (namespaces > 1 && self.is_in_namespace_part(sale, parts))
    }

    /// Whether the namespace holds no more than its part with the ticket, or nothing without it.
    ///
    /// The parts of all namespaces here fit into the room, unless it is smaller than one request
    /// for each. Then what is sold beyond the room is the bound.
    fn is_in_namespace_part(&self, sale: &TicketSale, parts: SlotParts) -> bool {
        let (held, _) = self.namespaces.weights(sale.namespace, self.second);
        held == 0 || held + sale.weight <= parts.namespace
    }

    /// Whether the tenants of the namespace, each counted up to its part, leave room for the ticket
    /// in the part of the namespace. Sales beyond the room must not take the parts of other
    /// namespaces then.
    fn is_in_tenants_parts(&self, sale: &TicketSale, parts: SlotParts) -> bool {
        let all = self.namespaces.effective(parts.namespace);
        let (_, by_tenants) = self.namespaces.weights(sale.namespace, self.second);
        by_tenants + sale.weight <= parts.namespace && self.beyond + sale.weight <= all
    }

    /// The number of namespaces between which the slot is divided, and their parts: those that ask,
    /// or that of the ticket and those that hold tickets here if they are more.
    fn parts(&self, sale: &TicketSale) -> (u16, SlotParts) {
        let namespaces = self.namespaces.holders_with(sale.namespace, self.second).max(sale.asking);
        (namespaces, SlotParts::new(sale.room, namespaces))
    }

    /// Sells a ticket.
    ///
    /// In a free part of the room the ticket returns behind all that is sold. If the room has grown
    /// since, the part behind is too small for as much as the room that is free, and such tickets
    /// are spread evenly over the second. Beyond the room it returns where it would if no tenant
    /// and no namespace held more than its part. The ticket owns a part of the second as large as
    /// its part of the room, and returns at an instant in it that depends on its number alone.
    pub(crate) fn sell(&mut self, issuer: TicketIssuer, sale: &TicketSale) -> Booking {
        let TicketSale { namespace, tenant, weight, room, .. } = *sale;
        let is_free = self.sold.saturating_add(weight) <= room || self.tickets == 0;
        let (namespaces, parts) = self.parts(sale);
        let before = if is_free {
            self.sold
        } else {
            self.effective(parts.tenant).min(self.namespaces.effective(parts.namespace))
        };
        self.beyond += if is_free { 0 } else { weight };
        let number = TicketNumber { issuer, slot: self.second, sequence: self.tickets };
        self.tickets += 1;
        self.sold = self.sold.saturating_add(weight);
        // A tenant counts up to its part and one request: two tenants that share a counter mostly
        // count in full, and the namespace is sold little beyond its part.
        let counted_max = parts.tenant + QUARTERS;
        let mut in_part = self.tenants.add(tenant, self.second, weight, counted_max);
        if !is_free {
            // Also of a namespace alone: another one may ask later.
            let in_part_beyond = self.tenants_beyond.add(tenant, self.second, weight, counted_max);
            in_part = if namespaces > 1 { in_part_beyond } else { in_part };
        }
        self.namespaces.add(namespace, self.second, weight, in_part);
        let nanos_of = |weight: u16| u64::from(weight) * SECOND_NANOS / u64::from(room.max(1));
        let scatter = scatter_of(number) % nanos_of(weight.min(room)).max(1);
        let begin = nanos_of(before);
        let nanos = if is_free && begin + MILLI_NANOS < u64::from(self.reach_millis) * MILLI_NANOS {
            u64::from(number.sequence) * GOLDEN_NANOS % SECOND_NANOS
        } else {
            let end = begin + nanos_of(weight.min(room));
            self.reach_millis = self.reach_millis.max((end.min(SECOND_NANOS) / MILLI_NANOS) as u16);
            (begin + scatter).min(SECOND_NANOS - 1)
        };
        let not_before = Timestamp::from_secs(self.second).saturating_add(Duration::from_nanos(nanos));
        Booking { number, not_before, expires: not_before.saturating_add(TICKET_VALID) }
    }

    /// Whether a ticket of this sequence was sold.
    pub(crate) const fn has_sold(&self, sequence: u16) -> bool {
        sequence < self.tickets
    }

    /// Whether the ticket was spent.
    pub(crate) fn is_spent(&self, sequence: u16) -> bool {
        self.spent_bits.contains(sequence)
    }

    /// Marks a ticket as spent; false if it was spent already or never sold.
    pub(crate) fn spend(&mut self, sequence: u16) -> bool {
        let is_new = self.has_sold(sequence) && self.spent_bits.insert(sequence);
        self.spent += u16::from(is_new);
        is_new
    }

    /// Marks a ticket as good again.
    pub(crate) fn give_back(&mut self, sequence: u16) {
        self.spent -= u16::from(self.spent_bits.remove(sequence));
    }

    /// The number of tickets that were spent.
    pub(crate) const fn spent(&self) -> u16 {
        self.spent
    }

    /// The weight of the tickets that were not spent. The weight of each ticket is not kept, so a
    /// spent one counts as the average of the slot; rounded up.
    pub(crate) fn unspent(&self) -> u32 {
        let left = u32::from(self.tickets - self.spent);
        (u32::from(self.sold) * left).div_ceil(u32::from(self.tickets.max(1)))
    }
}

/// A number that scatters the return of a ticket. Two members that sell the same part of the same
/// second scatter their tickets differently.
fn scatter_of(number: TicketNumber) -> u64 {
    let TicketNumber { issuer, slot, sequence } = number;
    let issuer = issuer.member ^ issuer.start.rotate_left(32);
    keyed_hash([issuer, slot << 10 | u64::from(sequence)], None)
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const ISSUER: TicketIssuer = TicketIssuer { member: 1, start: 2 };

    /// A ticket of the only namespace.
    const fn sale(tenant: u64, weight: u16, room: u16) -> TicketSale {
        TicketSale { namespace: 0, tenant, weight, room, asking: 1 }
    }

    #[test]
    fn tickets_return_in_order_of_sale_each_in_its_own_part_of_the_second() {
        let mut slot = BookedSlot::new(1_800_000_000);
        for count in 0..100_u64 {
            let sold = slot.sell(ISSUER, &sale(count, 4, 400));
            let nanos = sold.not_before.saturating_since(Timestamp::from_secs(1_800_000_000)).as_nanos();
            assert_eq!(nanos as u64 / 10_000_000, count);
            assert_eq!(sold.expires.saturating_since(sold.not_before), TICKET_VALID);
        }
        assert_eq!((slot.tickets(), slot.sold()), (100, 400));
    }

    #[test]
    fn tickets_that_are_out_of_order_return_evenly_spread_over_their_second() {
        let mut slot = BookedSlot::new(9);
        (0..100).for_each(|count| _ = slot.sell(ISSUER, &sale(count, 4, 400)));
        let late = sale(1, 4, 800);
        let tenths: Vec<u64> = (0..100)
            .map(|_| slot.sell(ISSUER, &late).not_before.saturating_since(Timestamp::from_secs(9)))
            .map(|after| after.as_nanos() as u64 / 100_000_000)
            .collect();
        for tenth in 0..10 {
            let count = tenths.iter().filter(|one| **one == tenth).count();
            assert!((9..=11).contains(&count), "{count} in tenth {tenth}");
        }
    }

    #[test]
    fn a_ticket_heavier_than_the_room_stays_in_its_second() {
        for second in 0..1_000 {
            let sold = BookedSlot::new(second).sell(ISSUER, &sale(1, 32, 4));
            assert_eq!(sold.not_before.as_secs(), second);
        }
    }

    #[test]
    fn unspent_weight_falls_with_each_ticket_that_is_spent_and_rises_when_one_is_given_back() {
        let mut slot = BookedSlot::new(9);
        for weight in [4, 4, 12, 4] {
            slot.sell(ISSUER, &sale(1, weight, 400));
        }
        assert_eq!(slot.unspent(), 24);
        assert!(slot.spend(0) && !slot.spend(0) && !slot.spend(4));
        assert_eq!(slot.unspent(), 18);
        slot.give_back(3);
        slot.give_back(0);
        assert_eq!((slot.unspent(), slot.spent()), (24, 0));
    }

    #[test]
    fn a_slot_takes_232_bytes_beside_its_bits() {
        assert_eq!(size_of::<BookedSlot>(), 232);
    }
}
