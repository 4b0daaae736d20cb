//! Permits kept for callers that settle by name: bounded, expiring, settled at most once.

use core::fmt;
use core::str::FromStr;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::Timestamp;

use crate::decision::Permit;

/// The name of a kept permit: 128 bits that cannot be guessed, written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermitId(u128);

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Text that is no permit's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("permit \"{0}\" is not 32 hexadecimal digits; send it as the check gave it")]
pub struct NotAPermitId(pub String);

impl FromStr for PermitId {
    type Err = NotAPermitId;

    fn from_str(text: &str) -> Result<Self, NotAPermitId> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let parsed = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        parsed.map(Self).ok_or_else(|| NotAPermitId(text.chars().take(64).collect()))
    }
}

/// All kept permits.
///
/// At most `max` at a time; one more is not kept. Each is dropped when it expires, which gives back what it lent and
/// leaves its charges as they are.
#[derive(Debug)]
pub(crate) struct KeptPermits {
    names: ahash::RandomState,
    max: usize,
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    issued: u64,
    permits: HashMap<PermitId, Permit, ahash::RandomState>,
    /// When each expires, the next one first. Settled permits stay here until then, as names of nothing.
    expiries: BinaryHeap<Reverse<(Timestamp, u128)>>,
}

impl KeptPermits {
    pub(crate) fn new(max: usize, seed: [u64; 4]) -> Self {
        // Not the seed of the key table: a permit's name must not say anything about where keys stand.
        let names =
            ahash::RandomState::with_seeds(!seed[3], !seed[2], seed[1] ^ seed[0], seed[0].rotate_left(17));
        let permits =
            HashMap::with_hasher(ahash::RandomState::with_seeds(seed[1], seed[0], seed[3], seed[2]));
        Self { names, max, held: Mutex::new(Held { issued: 0, permits, expiries: BinaryHeap::new() }) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic elsewhere leaves the map whole: every change is one insertion or removal.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn len(&self) -> usize {
        self.held().permits.len()
    }

    /// Keeps a permit until `expires`; gives it back if there are too many.
    pub(crate) fn keep(&self, permit: Permit, expires: Timestamp) -> Result<PermitId, Box<Permit>> {
        let mut held = self.held();
        // Settled names waiting for their expiry are bounded like the permits themselves.
        if held.permits.len() >= self.max || held.expiries.len() >= self.max.saturating_mul(2) {
            return Err(Box::new(permit));
        }
        held.issued += 1;
        let high = self.names.hash_one((held.issued, 0_u8));
        let low = self.names.hash_one((held.issued, 1_u8));
        let id = PermitId(u128::from(high) << 64 | u128::from(low));
        held.expiries.push(Reverse((expires, id.0)));
        held.permits.insert(id, permit);
        Ok(id)
    }

    /// Takes a permit out: the first time only.
    pub(crate) fn take(&self, id: PermitId) -> Option<Permit> {
        self.held().permits.remove(&id)
    }

    /// Takes out all permits that have expired by `now`.
    pub(crate) fn expire(&self, now: Timestamp) -> Vec<Permit> {
        let mut held = self.held();
        let mut expired = Vec::new();
        while let Some(Reverse((expires, id))) = held.expiries.peek().copied() {
            if expires > now {
                break;
            }
            held.expiries.pop();
            expired.extend(held.permits.remove(&PermitId(id)));
        }
        expired
    }

    pub(crate) fn next_expiry(&self) -> Option<Timestamp> {
        self.held().expiries.peek().map(|Reverse((expires, _))| *expires)
    }
}
