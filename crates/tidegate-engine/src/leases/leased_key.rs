//! The limit and key that a lease belongs to.

use tidegate::Algorithm;
use tidegate::gate::LeasedLimit;
use tidegate::refusal::ScopeValues;
use tidegate_store::{Key, Kind, OnLedger, Operation};

use crate::request::{OwnedPairs, Pairs};

/// A key of a leased limit.
#[derive(Debug)]
pub(crate) struct LeasedKey {
    /// The fingerprint of the key, by which this member finds it.
    pub(crate) number: u64,
    /// The key in the store.
    pub(crate) key: Key,
    pub(crate) algorithm: Algorithm,
    /// The namespace and the limit, and after those the attributes of the key with their values.
    names: OwnedPairs,
}

impl LeasedKey {
    pub(crate) fn new(limit: &LeasedLimit<'_>, key: Key, namespace: &str, scope: &ScopeValues<'_>) -> Self {
        let scope = scope.iter().map(|(name, value)| (&**name, &**value));
        let names = OwnedPairs::new(&core::iter::once((namespace, limit.name)).chain(scope));
        Self { number: limit.key(), key, algorithm: limit.algorithm.clone(), names }
    }

    /// A key of a limit of 10 units a second.
    #[cfg(all(test, tidegate_loom))]
    pub(super) fn for_loom(number: u64) -> Self {
        let rate = tidegate::Rate::per_second(10).expect("a rate");
        let algorithm = Algorithm::bucket(rate).expect("a bucket");
        let names = OwnedPairs::new(&core::iter::once(("api", "rate")));
        Self { number, key: Key::new("api", b"rate", b"").expect("short"), algorithm, names }
    }

    /// The namespace and the limit, and after those the attributes of the key with their values.
    pub(crate) fn names(&self) -> Pairs<'_> {
        self.names.pairs()
    }

    /// The same key with the name and the numbers of `limit` after a reload.
    pub(super) fn renumbered(&self, limit: &LeasedLimit<'_>) -> Self {
        let old = self.names();
        let pairs = core::iter::once((old[0].0, limit.name)).chain(old[1..].iter().copied());
        let names = OwnedPairs::new(&pairs);
        Self { number: self.number, key: self.key.clone(), algorithm: limit.algorithm.clone(), names }
    }

    /// The operation `what` on the ledger of the key.
    pub(crate) fn operation(&self, what: OnLedger) -> Operation {
        Operation::new(self.key.clone(), self.algorithm.clone(), Kind::Ledger(what))
    }
}
