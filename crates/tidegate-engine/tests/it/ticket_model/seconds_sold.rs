//! The seconds that a resource has sold since its start, as the model counts them: in tickets, of
//! which each weighs at least one request.

use std::collections::BTreeMap;

use super::known_ticket::Caller;

/// The tickets of one second.
#[derive(Clone, Debug, Default)]
struct SecondSold {
    tickets: u32,
    by_tenant: BTreeMap<(&'static str, &'static str), u32>,
    by_tenant_beyond: BTreeMap<(&'static str, &'static str), u32>,
    by_namespace: BTreeMap<&'static str, u32>,
    /// The most quarters of a request for which a ticket was sold here.
    largest_room: u32,
}

/// The seconds that one resource has sold.
#[derive(Clone, Debug, Default)]
pub(crate) struct SecondsSold {
    seconds: BTreeMap<u64, SecondSold>,
    /// The second in which each namespace asked last.
    asked: BTreeMap<&'static str, u64>,
}

impl SecondsSold {
    /// A namespace asks for a ticket, whether or not it gets one.
    pub(crate) fn ask(&mut self, namespace: &'static str, now: u64) {
        self.asked.insert(namespace, now);
        self.asked.retain(|_, asked| now.abs_diff(*asked) <= 10);
    }

    /// A ticket is sold of a second of which at most so many quarters of a request are for sale.
    /// `is_unit`: all tickets cost the same. Returns whether it was sold beyond the room.
    pub(crate) fn sell(&mut self, slot: u64, caller: &Caller, room: u32, is_unit: bool) -> bool {
        let asking = self.asked.len() as u32;
        let second = self.seconds.entry(slot).or_default();
        second.largest_room = second.largest_room.max(room);
        second.tickets += 1;
        let tenant = (caller.namespace, caller.tenant[0].1);
        let of_tenant = second.by_tenant.entry(tenant).or_default();
        *of_tenant += 4;
        let of_tenant = *of_tenant;
        let of_namespace = second.by_namespace.entry(caller.namespace).or_default();
        *of_namespace += 4;
        let of_namespace = *of_namespace;
        let weight = 4 * second.tickets;
        let heaviest = if is_unit { 4 } else { 32 };
        assert!(weight <= 2 * second.largest_room + heaviest, "{second:?} is sold more than twice");
        let is_beyond = is_unit && second.tickets > 1 && weight > room;
        if is_beyond {
            let beyond = second.by_tenant_beyond.entry(tenant).or_default();
            *beyond += 4;
            let is_part = |held: u32| held == 4 || held <= 4.max(room / 20);
            let is_shared = asking > 1 || second.by_namespace.len() > 1;
            let is_in_tenant_part = is_part(of_tenant) || (is_shared && is_part(*beyond));
            let is_in_namespace_part = of_namespace == 4 || of_namespace <= 4.max(room / asking.max(1));
            assert!(
                is_in_tenant_part || (is_shared && is_in_namespace_part),
                "{second:?}: {tenant:?} has more than its part of {room} beyond the room"
            );
        }
        is_beyond
    }

    /// Lets go of seconds that are long over.
    pub(crate) fn forget(&mut self, now: u64) {
        self.seconds = self.seconds.split_off(&now.saturating_sub(2 * 3_600));
    }
}
