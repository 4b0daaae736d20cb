//! Deferral tickets: signed text that names the second reserved for its bearer.
//!
//! A ticket carries what was promised, so a member keeps nothing for a caller that was deferred.
//! HMAC-SHA256 over every byte before the signature makes it impossible to change a ticket or to
//! invent one without a key. A ticket is URL-safe base64 without padding, always 162 characters,
//! and there is one text for one ticket: padding and unused bits are refused.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version, 1 |
//! | 1 | 4 | number of the key that signed |
//! | 5 | 8 | hash of the namespace |
//! | 13 | 8 | hash of the resource |
//! | 21 | 8 | hash of the operation |
//! | 29 | 8 | hash of the tenant |
//! | 37 | 1 | class, 0 (`sheddable`) to 3 (`critical_plus`) |
//! | 38 | 8 | cost in units |
//! | 46 | 8 | member that sold the ticket |
//! | 54 | 8 | start of that member |
//! | 62 | 8 | slot |
//! | 70 | 2 | sequence within the slot |
//! | 72 | 8 | not before, in nanoseconds since 1970 |
//! | 80 | 8 | expiry, in nanoseconds since 1970 |
//! | 88 | 1 | deferrals so far |
//! | 89 | 32 | HMAC-SHA256 over the bytes 0 to 88 |
//!
//! Integers are big-endian. Every version begins with its version and a key number and ends with
//! the signature.
//!
//! **Names.** A name is HMAC-SHA256 over its kind, whether there is one, its length and its bytes,
//! cut to 8 bytes. Without the key a name can be neither read nor guessed. Two tickets of one
//! tenant, signed by one key, have the same hash of the tenant.
//!
//! **Keys.** A key signs nothing itself. HMAC-SHA256 over the label `tidegate ticket signatures`
//! derives the key for signatures, and over `tidegate ticket names` the key for names, so that no
//! hash of a name is ever a signature. The number of a key is the first 4 bytes of SHA-256 over the
//! label `tidegate ticket key number`, a zero byte and the key: members agree on the number in
//! whatever order their files list the keys.
//!
//! **Rotation.** A file with one new key keeps the former key valid until the process ends. To
//! rotate through restarts and between members, first list the new key as the second line
//! everywhere, then swap the lines, and remove the former key when its last ticket has expired.

mod fault;
mod key_file;
mod keys;
mod signed_text;
mod stored_key;
mod subject;
mod terms;
#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

pub use fault::TicketFault;
pub use keys::{TicketKeyError, TicketKeys};
pub use signed_text::TICKET_BYTES_MAX;
pub use stored_key::StoredTicketKey;
pub use subject::TicketSubject;
pub use terms::TicketTerms;
