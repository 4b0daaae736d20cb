//! A deferral ticket: what selling it, taking it back and refusing a forged one cost.

use std::hint::black_box;
use std::time::Duration;

use tidegate_core::{Class, Cost};
use tidegate_engine::{TicketIssuer, TicketKeys, TicketNumber, TicketSubject, TicketTerms};

use crate::workload::START;

/// A ticket of a tenant with a name of 20 bytes, and the key that signed it.
#[derive(Debug)]
pub struct SoldTicket {
    keys: TicketKeys,
    terms: TicketTerms,
    text: String,
}

const SUBJECT: TicketSubject<'static> = TicketSubject {
    namespace: "bench",
    resource: Some("database"),
    operation: Some("export"),
    tenant: Some("tenant-0000000000042"),
};

impl SoldTicket {
    /// A ticket that counts.
    pub fn new() -> Self {
        let keys = TicketKeys::new(&[42; TicketKeys::KEY_BYTES_MIN]).expect("the key is long enough");
        let not_before = START.saturating_add(Duration::from_mins(3));
        let terms = TicketTerms {
            class: Class::SheddablePlus,
            cost: Cost::ONE,
            number: TicketNumber {
                issuer: TicketIssuer { member: 0x0123_4567_89ab_cdef, start: START.as_nanos() },
                slot: not_before.as_secs(),
                sequence: 41,
            },
            not_before,
            expires: not_before.saturating_add(Duration::from_secs(5)),
            deferrals: 1,
        };
        let text = keys.seal(&SUBJECT, &terms);
        Self { keys, terms, text }
    }

    /// The same ticket with another last byte of the signature.
    #[must_use]
    pub fn forged(mut self) -> Self {
        // The last character has two bits of the signature, the one before it has six.
        let at = self.text.len() - 2;
        let digit = if self.text[at..].starts_with('A') { "B" } else { "A" };
        self.text.replace_range(at..=at, digit);
        self
    }

    /// Sells another ticket of the same slot; always true.
    pub fn seals(&self, call: u64) -> bool {
        let number = TicketNumber { sequence: call as u16, ..self.terms.number };
        let terms = TicketTerms { number, ..self.terms };
        !self.keys.seal(black_box(&SUBJECT), black_box(&terms)).is_empty()
    }

    /// Whether the ticket counts for its request.
    pub fn opens(&self) -> bool {
        let asked = (self.terms.class, self.terms.cost);
        self.keys.open(black_box(&self.text), black_box(&SUBJECT), asked).is_ok()
    }
}

impl Default for SoldTicket {
    fn default() -> Self {
        Self::new()
    }
}
