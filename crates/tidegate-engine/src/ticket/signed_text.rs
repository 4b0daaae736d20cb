//! A ticket as its bearer has it: the layout of its bytes, its signature, and its text.

use core::ops::Range;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use tidegate_core::{Class, Cost};

use super::fault::TicketFault;
use super::keys::{NUMBER_BYTES, SIGNATURE_BYTES, TicketKey, TicketKeys};
use super::subject::{NAMES_BYTES, TicketSubject};
use super::terms::{TERMS_BYTES, TicketTerms};

/// The most characters of the text of a ticket, in this version and later ones. A longer text is
/// refused before it is read.
pub const TICKET_BYTES_MAX: usize = 256;

const VERSION: u8 = 1;
const NUMBER: Range<usize> = 1..1 + NUMBER_BYTES;
const NAMES: Range<usize> = NUMBER.end..NUMBER.end + NAMES_BYTES;
const TERMS: Range<usize> = NAMES.end..NAMES.end + TERMS_BYTES;
/// The bytes that are signed, which are all before the signature.
pub(super) const SIGNED_BYTES: usize = TERMS.end;
pub(super) const TICKET_BYTES: usize = SIGNED_BYTES + SIGNATURE_BYTES;

/// The fewest bytes of a ticket of any version.
const FRAME_BYTES: usize = 1 + NUMBER_BYTES + SIGNATURE_BYTES;

const _: () = assert!((TICKET_BYTES * 8).div_ceil(6) <= TICKET_BYTES_MAX);

impl TicketKeys {
    /// The text of a ticket for `subject`, signed by the key that signs: URL-safe base64 without
    /// padding, at most [`TICKET_BYTES_MAX`] characters. The same arguments give the same text.
    ///
    /// `terms.expires` is not before `terms.not_before`; a ticket that expires earlier would never
    /// open.
    pub fn seal(&self, subject: &TicketSubject<'_>, terms: &TicketTerms) -> String {
        debug_assert!(terms.not_before <= terms.expires, "a ticket expires before its slot: {terms:?}");
        let key = self.signing();
        let mut signed = [0; SIGNED_BYTES];
        signed[0] = VERSION;
        signed[NUMBER].copy_from_slice(&key.number());
        signed[NAMES].copy_from_slice(&subject.hashes(key.names()));
        signed[TERMS].copy_from_slice(&terms.to_bytes());
        text_of(key, &signed)
    }

    /// The terms of a ticket that counts for a request on `subject` of the class and cost `asked`.
    ///
    /// Only the version and the number of the key are read before the signature is verified. A
    /// lower class and a lower cost than the ticket's are fine. The instants are not compared with
    /// any clock.
    ///
    /// Returns the first fault in the order of [`TicketFault::ALL`]. Values that no ticket has are
    /// [`TicketFault::Malformed`] and are found after the signature.
    pub fn open(
        &self,
        ticket: &str,
        subject: &TicketSubject<'_>,
        (class, cost): (Class, Cost),
    ) -> Result<TicketTerms, TicketFault> {
        if ticket.len() > TICKET_BYTES_MAX {
            return Err(TicketFault::Malformed);
        }
        let mut buffer = [0; TICKET_BYTES_MAX / 4 * 3];
        let decoded = BASE64_URL_SAFE_NO_PAD.decode_slice(ticket, &mut buffer);
        let bytes = decoded.ok().and_then(|length| buffer.get(..length)).ok_or(TicketFault::Malformed)?;
        if bytes.len() < FRAME_BYTES {
            return Err(TicketFault::Malformed);
        }
        if bytes[0] != VERSION {
            return Err(TicketFault::Version);
        }
        let bytes: &[u8; TICKET_BYTES] = bytes.try_into().map_err(|_| TicketFault::Malformed)?;
        let key = self.key_of(bytes)?;
        let names = bytes[NAMES].first_chunk().expect("the range has the length of all names");
        let terms = bytes[TERMS].first_chunk().expect("the range has the length of the terms");
        let terms = TicketTerms::from_bytes(terms).ok_or(TicketFault::Malformed)?;
        subject.compare(key.names(), names)?;
        if class > terms.class {
            return Err(TicketFault::Class);
        }
        if cost > terms.cost {
            return Err(TicketFault::Cost);
        }
        Ok(terms)
    }

    /// The key that signed a ticket.
    fn key_of(&self, bytes: &[u8; TICKET_BYTES]) -> Result<&TicketKey, TicketFault> {
        let (signed, signature) = bytes.split_last_chunk().expect("a ticket is longer than its signature");
        let mut fault = TicketFault::UnknownKey;
        for key in self.keys().filter(|key| key.number() == bytes[NUMBER]) {
            if key.verifies(signed, signature) {
                return Ok(key);
            }
            fault = TicketFault::Forged;
        }
        Err(fault)
    }
}

/// The signed bytes with their signature, as text.
pub(super) fn text_of(key: &TicketKey, signed: &[u8; SIGNED_BYTES]) -> String {
    let mut bytes = [0; TICKET_BYTES];
    let (place, signature) = bytes.split_at_mut(SIGNED_BYTES);
    place.copy_from_slice(signed);
    signature.copy_from_slice(&key.sign(signed));
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}
