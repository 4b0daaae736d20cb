//! One sub-queue of a namespace: the requests of a tenant, or of the tenants that share it.

use crate::cursor::hash::keyed_hash;

/// The sub-queues of a namespace in a class for the tenants beyond the bound.
pub(super) const SHARED_FLOWS: u8 = 128;

/// The shared sub-queues that a tenant may use, of which it joins the shortest.
const HAND: usize = 6;

/// A tenant, within a namespace. Requests without a tenant are those of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TenantKey {
    pub(super) namespace: u32,
    pub(super) tenant: Option<u64>,
}

impl TenantKey {
    /// Its keyed hash.
    fn hash(self) -> u64 {
        keyed_hash([u64::from(self.namespace), self.tenant.unwrap_or(0)], self.tenant.map(|_| ""))
    }
}

/// Whose sub-queue it is: a tenant's own, by the hash of the tenant, or one of [`SHARED_FLOWS`].
/// Two tenants have the same hash with a chance of 2^-64, and share a sub-queue then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey(u64);

impl FlowKey {
    /// The first one of those that tenants share, which are above all others.
    pub(super) const SHARED_FIRST: Self = Self(u64::MAX - SHARED_FLOWS as u64 + 1);

    /// A tenant's own.
    pub(super) fn exact(tenant: TenantKey) -> Self {
        Self(tenant.hash().min(Self::SHARED_FIRST.0 - 1))
    }

    /// One of those that tenants share, by its number.
    pub(super) const fn shared(card: u8) -> Self {
        Self(Self::SHARED_FIRST.0 + card as u64)
    }
}

/// The requests of a sub-queue. They are in an index of the whole namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TenantFlow {
    /// The requests that wait in it.
    pub(super) waiting: u32,
    /// Their cost.
    pub(super) backlog: u64,
}

/// The shared sub-queues that a tenant may use: as many different cards as a hand holds, dealt from
/// the whole deck by the hash of the tenant.
///
/// A tenant joins the shortest sub-queue of its hand, so that it shares one with a tenant that
/// fills all of its own only if its whole hand is taken. With `n` such tenants, whose hands take at
/// most `6n` of the 128, the chance is at most `C(6n, 6) / C(128, 6)`: 2e-10 for one, 2e-7 for two,
/// 2.5e-5 for four and 0.0023 for eight. Such a tenant waits behind a whole sub-queue; the bound of
/// the delay, [`DelayControl`](super::DelayControl), is all that it is promised.
///
/// Source: shuffle sharding as in Kubernetes API Priority and Fairness.
pub(super) fn hand_of(key: TenantKey) -> [u8; HAND] {
    let mut hash = key.hash();
    let mut hand = [0; HAND];
    for dealt in 0..HAND {
        let left = u64::from(SHARED_FLOWS) - dealt as u64;
        let mut card = (hash % left) as u8;
        hash /= left;
        // The card counts those that are left; each dealt one at or before it moves it on.
        let mut before = hand;
        before[..dealt].sort_unstable();
        for other in &before[..dealt] {
            card += u8::from(card >= *other);
        }
        hand[dealt] = card;
    }
    hand
}
