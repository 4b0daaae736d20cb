//! The tables whose tokens this member leases: those with global admission and provisioned
//! throughput.
//!
//! The limits of a table on demand follow the units that this member admits, so each member counts
//! such a table by itself.

use std::collections::{HashMap, HashSet};

use tidegate_capacity::{AccessOperation, Capacity, TableMode, TokenTerms, Units};
use tidegate_core::algorithm::Bucket;
use tidegate_core::lease::Terms;
use tidegate_core::{Algorithm, Cost, Rate};
use tidegate_store::Key;

use crate::leases::{LeaseSubject, LeasedKey, TermsId};

/// Leases count halves of units, the least that an access weighs, in whole numbers.
const HALF: i64 = 500;

/// Sets the terms of tables apart from those of limits, which are 32 bits.
const TABLE_TERMS: u64 = 1 << 63;

/// How each table is leased, by its position among the tables.
#[derive(Debug, Default)]
pub(crate) struct TableLeases {
    leases: Box<[Option<[TableLease; 2]>]>,
    /// The position and the direction of each leased table by the fingerprint of its key.
    by_number: HashMap<u64, (u32, AccessOperation)>,
    /// The namespaces with leased tables.
    namespaces: HashSet<Box<str>>,
}

/// How one direction of a table is leased.
#[derive(Debug)]
pub(crate) struct TableLease {
    /// The fingerprint of the key.
    number: u64,
    namespace: Box<str>,
    /// The full name.
    table: Box<str>,
    operation: AccessOperation,
    key: Key,
    algorithm: Algorithm,
    terms: TermsId,
}

impl TableLeases {
    pub(crate) fn from_capacity(capacity: &Capacity, hasher: &ahash::RandomState) -> Self {
        let leases = capacity.tables().map(|(namespace, table)| {
            let is_leased = capacity.mode(namespace, table) == Some(TableMode::Global)
                && capacity.demand_status(namespace, table).is_ok_and(|demand| !demand.is_on_demand);
            let [read, write] = [AccessOperation::Read, AccessOperation::Write].map(|operation| {
                let rate = capacity.token_rate(namespace, table, operation).ok().filter(|_| is_leased)?;
                TableLease::new(namespace, table, operation, rate, hasher)
            });
            Some([read?, write?])
        });
        let leases: Box<[_]> = leases.collect();
        let of_directions = (0_u32..)
            .zip(&leases)
            .flat_map(|(table, pair)| pair.iter().flatten().map(move |one| (table, one)));
        let by_number =
            of_directions.map(|(table, lease)| (lease.number, (table, lease.operation))).collect();
        let namespaces = leases.iter().flatten().map(|[read, _]| read.namespace.clone()).collect();
        Self { leases, by_number, namespaces }
    }

    /// Whether any table of a namespace is leased.
    pub(crate) fn has_any_of(&self, namespace: &str) -> bool {
        self.namespaces.contains(namespace)
    }

    /// The position of the table that this key belongs to, and its direction; `None` for the key of
    /// a limit.
    pub(crate) fn find(&self, number: u64) -> Option<(u32, AccessOperation)> {
        self.by_number.get(&number).copied()
    }

    /// How this direction of the table at this position is leased; `None` if it is not.
    pub(crate) fn get(&self, table: u32, operation: AccessOperation) -> Option<&TableLease> {
        let [read, write] = self.leases.get(table as usize)?.as_ref()?;
        Some(if operation == AccessOperation::Read { read } else { write })
    }
}

impl TableLease {
    /// `None` for a rate that cannot be counted or a name that no key can hold, which no
    /// configuration has.
    fn new(
        namespace: &str,
        table: &str,
        operation: AccessOperation,
        rate: Units,
        hasher: &ahash::RandomState,
    ) -> Option<Self> {
        let terms = TokenTerms::from_rate(rate);
        let rate = half_units(rate).units();
        let bucket = Bucket::new(Rate::per_second(rate).ok()?, half_units(terms.depth).units()).ok()?;
        // Four parts, where the key of a limit has three.
        let parts = [namespace, "table", table, operation.as_str()];
        let key = Key::from_parts(parts.map(|part| Some(part.as_bytes()))).ok()?;
        Some(Self {
            number: hasher.hash_one(key.as_bytes()),
            namespace: namespace.into(),
            table: table.into(),
            operation,
            key,
            algorithm: Algorithm::Bucket(bucket),
            terms: TermsId { algorithm: TABLE_TERMS | rate, period: Terms::PERIOD },
        })
    }

    pub(crate) fn subject(&self) -> LeaseSubject<'_> {
        LeaseSubject {
            key: self.number,
            name: &self.table,
            algorithm: &self.algorithm,
            terms: self.terms,
            is_table: true,
        }
    }

    pub(crate) fn leased_key(&self) -> LeasedKey {
        let scope = ("operation", self.operation.as_str());
        let names = [(&*self.namespace, &*self.table), scope].into_iter();
        LeasedKey::new(&self.subject(), self.key.clone(), &names)
    }
}

/// Units in halves, rounded up; at least one.
pub(crate) fn half_units(units: Units) -> Cost {
    let halves = units.as_thousandths().max(1).cast_unsigned().div_ceil(HALF.cast_unsigned());
    Cost::new(halves).unwrap_or(Cost::ONE)
}

/// The true weight of an access in halves, rounded up; nothing at all weighs 0.
pub(crate) fn true_half_units(units: Units) -> u64 {
    if units > Units::ZERO { half_units(units).units() } else { 0 }
}

/// Units from halves.
pub(crate) fn units_of(halves: u64) -> Units {
    Units::from_thousandths(i64::try_from(halves).unwrap_or(i64::MAX).saturating_mul(HALF))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn every_weight_of_an_access_is_counted_exactly_and_others_are_rounded_up() {
        for thousandths in [500, 1000, 1500, 40_000, 800_000] {
            let units = Units::from_thousandths(thousandths);
            assert_eq!(units_of(half_units(units).units()), units);
        }
        for (thousandths, halves) in [(0, 1), (1, 1), (499, 1), (501, 2), (1001, 3)] {
            assert_eq!(half_units(Units::from_thousandths(thousandths)).units(), halves, "{thousandths}");
        }
    }
}
