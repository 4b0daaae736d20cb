//! The names that a ticket is for, and the hashes that a ticket has in their place.

use ring::hmac::{self, Context};

use super::fault::TicketFault;

/// The names that a ticket is for. A name that is empty is not a name that is absent.
///
/// Names have no longest length here: a ticket has 8 bytes for each, whatever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketSubject<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The resource that deferred the request.
    pub resource: Option<&'a str>,
    /// The operation, as `defer.operation` names it.
    pub operation: Option<&'a str>,
    /// The tenant.
    pub tenant: Option<&'a str>,
}

/// The bytes of the hash of one name.
const HASH_BYTES: usize = 8;

/// The names of a subject, each with the fault of a ticket in which it is another one.
const FAULTS: [TicketFault; 4] =
    [TicketFault::Namespace, TicketFault::Resource, TicketFault::Operation, TicketFault::Tenant];

/// The bytes of the hashes of all names.
pub(super) const NAMES_BYTES: usize = FAULTS.len() * HASH_BYTES;

impl<'a> TicketSubject<'a> {
    fn names(&self) -> [Option<&'a str>; FAULTS.len()] {
        [Some(self.namespace), self.resource, self.operation, self.tenant]
    }

    /// The hashes of all names under the key for names.
    pub(super) fn hashes(&self, key: &hmac::Key) -> [u8; NAMES_BYTES] {
        let mut hashes = [0; NAMES_BYTES];
        let (places, _) = hashes.as_chunks_mut();
        for ((place, name), kind) in places.iter_mut().zip(self.names()).zip(0..) {
            *place = hash(key, kind, name);
        }
        hashes
    }

    /// Compares the names with the hashes in a ticket, in the order of [`FAULTS`].
    pub(super) fn compare(&self, key: &hmac::Key, hashes: &[u8; NAMES_BYTES]) -> Result<(), TicketFault> {
        let (hashes, _) = hashes.as_chunks();
        for (((of_ticket, name), kind), fault) in hashes.iter().zip(self.names()).zip(0..).zip(FAULTS) {
            if *of_ticket != hash(key, kind, name) {
                return Err(fault);
            }
        }
        Ok(())
    }
}

/// The hash of one name. `kind` tells a tenant from an operation of the same name.
fn hash(key: &hmac::Key, kind: u8, name: Option<&str>) -> [u8; HASH_BYTES] {
    let mut context = Context::with_key(key);
    context.update(&[kind, u8::from(name.is_some())]);
    if let Some(name) = name {
        context.update(&(name.len() as u64).to_be_bytes());
        context.update(name.as_bytes());
    }
    let tag = context.sign();
    *tag.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}
