//! The key in the store that a lease belongs to.

use core::time::Duration;

use tidegate_core::Algorithm;
use tidegate_store::{Key, Kind, OnLedger, Operation};

use super::subject::LeaseSubject;
use crate::request::{OwnedPairs, Pairs};

/// A key that is leased.
#[derive(Debug)]
pub(crate) struct LeasedKey {
    /// The fingerprint of the key, by which this member finds it.
    pub(crate) number: u64,
    /// The key in the store.
    pub(crate) key: Key,
    pub(crate) algorithm: Algorithm,
    /// How long a lease of it lasts.
    pub(crate) period: Duration,
    /// Whether it is a table, whose leases count halves of units.
    pub(crate) is_table: bool,
    /// The namespace and the limit or table, and after those the attributes of the key with their
    /// values, of a table the operation.
    names: OwnedPairs,
}

impl LeasedKey {
    /// The key of a subject in the store; `names` are its namespace, its name, and after those the
    /// attributes that tell it from others of that name.
    pub(crate) fn new<'n>(
        subject: &LeaseSubject<'_>,
        key: Key,
        names: &(impl Iterator<Item = (&'n str, &'n str)> + Clone),
    ) -> Self {
        let (algorithm, period) = (subject.algorithm.clone(), subject.terms.period);
        let (number, is_table) = (subject.key, subject.is_table);
        Self { number, key, algorithm, period, is_table, names: OwnedPairs::new(names) }
    }

    /// A key of a limit of 10 units a second.
    #[cfg(all(test, tidegate_loom))]
    pub(super) fn for_loom(number: u64) -> Self {
        let rate = tidegate_core::Rate::per_second(10).expect("a rate");
        let algorithm = Algorithm::bucket(rate).expect("a bucket");
        let names = OwnedPairs::new(&core::iter::once(("api", "rate")));
        let (key, period) =
            (Key::new("api", b"rate", b"").expect("short"), tidegate_core::lease::Terms::PERIOD);
        Self { number, key, algorithm, period, is_table: false, names }
    }

    /// The namespace and the limit or table, and after those the attributes of the key with their
    /// values, of a table the operation.
    pub(crate) fn names(&self) -> Pairs<'_> {
        self.names.pairs()
    }

    /// The count of a lease in whole units.
    pub(crate) const fn whole(&self, count: u64) -> u64 {
        if self.is_table { count / 2 } else { count }
    }

    /// The same key with the name and the terms that its subject has after a reload.
    pub(super) fn renumbered(&self, subject: &LeaseSubject<'_>) -> Self {
        let old = self.names();
        let pairs = core::iter::once((old[0].0, subject.name)).chain(old[1..].iter().copied());
        Self::new(subject, self.key.clone(), &pairs)
    }

    /// The operation `what` on the ledger of the key.
    pub(crate) fn operation(&self, what: OnLedger) -> Operation {
        let operation = Operation::new(self.key.clone(), self.algorithm.clone(), Kind::Ledger(what));
        operation.with_lease_period(self.period)
    }
}
