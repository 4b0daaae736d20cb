//! A ticket for which a second is looked for, and the parts of a second.

use super::slot_room::tenant_part_of;
use super::typical_cost::QUARTERS;

/// A ticket for which a second is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TicketSale {
    pub(crate) namespace: u32,
    pub(crate) tenant: u64,
    /// The weight of the ticket, in quarters of a request.
    pub(crate) weight: u16,
    /// The room of the second, in quarters of a request.
    pub(crate) room: u16,
    /// The number of namespaces that asked for tickets within the last 10 s.
    pub(crate) asking: u16,
}

/// The parts of a second that is divided between so many namespaces, in quarters of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotParts {
    /// A namespace's part of the room: at least one request.
    pub(crate) namespace: u16,
    /// A tenant's part: a twentieth of that of its namespace, at least one request.
    pub(crate) tenant: u16,
}

impl SlotParts {
    /// The parts of a room between so many namespaces; 0 counts as one.
    pub(crate) fn new(room: u16, namespaces: u16) -> Self {
        let namespace = (room / namespaces.max(1)).max(QUARTERS);
        Self { namespace, tenant: tenant_part_of(namespace) }
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn namespaces_have_equal_parts_and_tenants_a_twentieth_of_them_and_both_at_least_a_request() {
        for (room, namespaces, namespace, tenant) in
            [(400, 1, 400, 20), (400, 0, 400, 20), (400, 2, 200, 10), (400, 3, 133, 6), (40, 64, 4, 4)]
        {
            let parts = SlotParts::new(room, namespaces);
            assert_eq!(parts, SlotParts { namespace, tenant }, "{room} between {namespaces}");
        }
    }
}
