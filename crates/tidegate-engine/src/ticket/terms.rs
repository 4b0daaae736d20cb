//! The promise of a ticket, and its bytes.

use tidegate_core::{Class, Cost, Timestamp};
use tidegate_overload::{TicketIssuer, TicketNumber};

/// The promise of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketTerms {
    /// The highest class of a request that the ticket is good for.
    pub class: Class,
    /// The highest cost of a request that the ticket is good for; at least 1.
    pub cost: Cost,
    /// The identity of the ticket at the calendars.
    pub number: TicketNumber,
    /// The instant from which the ticket admits.
    pub not_before: Timestamp,
    /// The instant at which the ticket ends; not earlier than `not_before`.
    pub expires: Timestamp,
    /// How often the request was deferred, this ticket included; at most 255.
    pub deferrals: u8,
}

/// The bytes of the terms in a ticket.
pub(super) const TERMS_BYTES: usize = 52;

impl TicketTerms {
    /// The terms as a ticket has them.
    pub(super) fn to_bytes(self) -> [u8; TERMS_BYTES] {
        let mut bytes = [0; TERMS_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&[self.class as u8]);
        put(&self.cost.units().to_be_bytes());
        put(&self.number.issuer.member.to_be_bytes());
        put(&self.number.issuer.start.to_be_bytes());
        put(&self.number.slot.to_be_bytes());
        put(&self.number.sequence.to_be_bytes());
        put(&self.not_before.as_nanos().to_be_bytes());
        put(&self.expires.as_nanos().to_be_bytes());
        put(&[self.deferrals]);
        bytes
    }

    /// The terms in a ticket; `None` for a class that does not exist, a cost of 0, and an expiry
    /// before the first instant.
    pub(super) fn from_bytes(bytes: &[u8; TERMS_BYTES]) -> Option<Self> {
        let mut rest = &bytes[..];
        let [class] = take(&mut rest)?;
        let terms = Self {
            class: *Class::ALL.get(usize::from(class))?,
            cost: Cost::new(u64::from_be_bytes(take(&mut rest)?))?,
            number: TicketNumber {
                issuer: TicketIssuer {
                    member: u64::from_be_bytes(take(&mut rest)?),
                    start: u64::from_be_bytes(take(&mut rest)?),
                },
                slot: u64::from_be_bytes(take(&mut rest)?),
                sequence: u16::from_be_bytes(take(&mut rest)?),
            },
            not_before: Timestamp::from_nanos(u64::from_be_bytes(take(&mut rest)?)),
            expires: Timestamp::from_nanos(u64::from_be_bytes(take(&mut rest)?)),
            deferrals: u8::from_be_bytes(take(&mut rest)?),
        };
        (terms.not_before <= terms.expires).then_some(terms)
    }
}

/// Reads the beginning of `rest`, which is then what follows it.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (value, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*value)
}
