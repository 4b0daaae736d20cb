//! The identity of a ticket, and its state when it is presented.

use core::time::Duration;

use tidegate_core::Timestamp;

/// How long a ticket is valid after its [`Booking::not_before`].
pub const TICKET_VALID: Duration = Duration::from_secs(5);
/// The largest number of tickets that one issuer sells for one second.
pub const SLOT_TICKETS_MAX: u16 = 1_000;

/// How long after its expiry a spent ticket is remembered: the clocks of two members may differ by
/// so much.
const MEMBERS_APART: Duration = Duration::from_secs(2);
/// How long after the beginning of its second a slot is remembered. A ticket becomes valid within
/// the second.
const SLOT_REMEMBERED: Duration =
    Duration::from_secs(1).saturating_add(TICKET_VALID).saturating_add(MEMBERS_APART);

/// Which calendar sold a ticket: a member of a fleet, since one start of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketIssuer {
    /// The member of the fleet.
    pub member: u64,
    /// The start of the member. A later calendar of the same member has another start.
    pub start: u64,
}

/// The identity of a ticket: no two tickets have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketNumber {
    /// The calendar that sold the ticket.
    pub issuer: TicketIssuer,
    /// The second for which the ticket was sold, in whole seconds since the Unix epoch.
    pub slot: u64,
    /// The number of the ticket among the tickets of its issuer and slot, 0 to
    /// [`SLOT_TICKETS_MAX`] - 1.
    pub sequence: u16,
}

/// One return that is booked: a ticket was sold for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The identity of the ticket.
    pub number: TicketNumber,
    /// The instant from which the ticket is due. It lies in the second of the slot.
    pub not_before: Timestamp,
    /// The instant from which the ticket is worth nothing: [`TICKET_VALID`] after `not_before`.
    pub expires: Timestamp,
}

/// A refused request that asks for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketAsk {
    /// The number of the namespace, as [`RequestLevel::namespace`](crate::RequestLevel::namespace).
    pub namespace: u32,
    /// The hash of the tenant and its namespace; one and the same for all requests of a namespace
    /// without a tenant, which share the part of one.
    pub tenant: u64,
    /// The cost of the request, in the units of its caller. Only its ratio to the typical cost at
    /// this calendar counts, from 1 to 8.
    pub cost: u64,
}

/// The state of a ticket when it is presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// The request of the bearer may be admitted now.
    Due,
    /// The bearer must wait.
    Early {
        /// When the bearer should come back: the `not_before` of the ticket, or earlier while the
        /// calendar is pulled forward.
        come_back: Timestamp,
    },
    /// The ticket is over, or the calendar had to forget its slot.
    Expired,
    /// The ticket was spent at this calendar.
    Spent,
    /// The ticket comes from another issuer, and cannot be remembered as spent: the memory for
    /// spent tickets of other issuers is full, or bits of the slot were dropped for own tickets.
    NoRoom,
}

/// Whether every ticket of a slot has expired at `now`, also by the clock of another member.
pub(crate) fn is_slot_over(slot: u64, now: Timestamp) -> bool {
    Timestamp::from_secs(slot).saturating_add(SLOT_REMEMBERED) < now
}
