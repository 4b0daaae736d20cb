//! An access that is weighed and located, before it is decided.
//!
//! A router with leases spends the tokens of a table before it asks the plane, so it has to know
//! first which tables an access is charged to, and with how many units: the table of the access,
//! and for a write each index that it changes.

use tidegate_core::{AccessOperation, Timestamp};

use crate::access::Access;
use crate::admission::IndexCharge;
use crate::admission::throttled::Throttled;
use crate::admission::token_source::TokenSource;
use crate::capacity::{Admission, Capacity};
use crate::error::CapacityError;
use crate::status::CapacityStatus;
use crate::units::Units;

/// An access with the tables that it is charged to.
///
/// ```
/// # use tidegate_capacity::{Access, Admission, Capacity, TableConfig, TableMode, TokenSource};
/// # use tidegate_core::{Reason, Timestamp};
/// # let now = Timestamp::from_secs(1_800_000_000);
/// let orders = TableConfig::new("shop", "orders", 400, 100).nodes(["node-a"]);
/// let orders = orders.mode(TableMode::Global);
/// let capacity = Capacity::builder().node("node-a", 10_000).table(orders).build()?;
/// let write = Access::write("orders", b"order-7", 2_048);
/// let located = capacity.locate("shop", &write)?;
/// let charges: Vec<_> = located.charges().map(|(table, units)| (table, units.to_string())).collect();
/// assert_eq!(charges, [(0, "2".to_owned())]);
/// // The lease of the table has no token before then.
/// let short = TokenSource::Short { left: Default::default(), until: now };
/// let Admission::Throttle(throttled) = located.admit(&[short], now) else { panic!() };
/// assert_eq!(throttled.reason, Reason::TableThroughputExceeded);
/// assert!(matches!(located.admit(&[TokenSource::Spent], now), Admission::Admit(_)));
/// # Ok::<(), tidegate_capacity::CapacityError>(())
/// ```
#[derive(Debug)]
pub struct LocatedAccess<'c, 'a> {
    capacity: &'c Capacity,
    access: Access<'a>,
    /// The position of the table among the tables.
    table: u32,
    units: Units,
    indexes: Vec<IndexCharge<'a>>,
}

impl Capacity {
    /// Weighs and locates an access of a request of `namespace`; charges nothing.
    ///
    /// Fails when the namespace has no such table or index, and when the access is larger than one
    /// may be.
    #[inline]
    pub fn locate<'a>(
        &self,
        namespace: &str,
        access: &Access<'a>,
    ) -> Result<LocatedAccess<'_, 'a>, CapacityError> {
        access.check_key()?;
        let (table, entry) = self.entry(namespace, access.table)?;
        let units = entry.units(access.kind, access.size)?;
        let changes_none = access.index_writes.map_or(entry.indexes.is_empty(), <[_]>::is_empty);
        let indexes = if access.kind.is_read() || changes_none {
            Vec::new()
        } else {
            self.index_writes(namespace, entry, access)?
        };
        Ok(LocatedAccess { capacity: self, access: *access, table, units, indexes })
    }
}

impl<'c> LocatedAccess<'c, '_> {
    /// The tables that it is charged to, as their positions in [`Capacity::tables`], with the
    /// units: the table of the access, then the indexes that a write changes, in the order in which
    /// they are charged.
    pub fn charges(&self) -> impl Iterator<Item = (u32, Units)> + '_ {
        let indexes = self.indexes.iter().map(|charge| (charge.index, charge.units));
        core::iter::once((self.table, self.units)).chain(indexes)
    }

    /// Read or write.
    pub const fn operation(&self) -> AccessOperation {
        self.access.kind.operation()
    }

    /// Decides it at `now`, as [`Capacity::admit`] does, with the tokens of each of its
    /// [charges](LocatedAccess::charges) taken from where `sources` say, in their order;
    /// [`TokenSource::Table`] where they say nothing.
    #[inline]
    pub fn admit(&self, sources: &[TokenSource], now: Timestamp) -> Admission<'c> {
        let Self { capacity, access, table, units, indexes } = self;
        let source = |at: usize| sources.get(at).copied().unwrap_or_default();
        let first = capacity.admit_one(*table, access, access.key, *units, source(0), now);
        if indexes.is_empty() {
            return first;
        }
        let mut hold = match first {
            Admission::Admit(hold) => hold,
            refusal @ Admission::Throttle(_) => return refusal,
        };
        let mut holds = Vec::with_capacity(indexes.len());
        for (at, IndexCharge { index, key, units }) in (1..).zip(indexes) {
            match capacity.admit_one(*index, access, key, *units, source(at), now) {
                Admission::Admit(one) => holds.push(one),
                refusal @ Admission::Throttle(_) => {
                    for one in holds.into_iter().rev() {
                        capacity.take_back(&one, one.units(), now);
                    }
                    capacity.take_back(&hold, hold.units(), now);
                    return refusal;
                }
            }
        }
        hold.indexes = Some(holds.into());
        Admission::Admit(hold)
    }

    /// The refusal of the access at `now` by [`LocatedAccess::admit`] without sources. The access
    /// counts as offered, but one that would be admitted (`None`) is charged nothing. For an access
    /// whose request is refused by another plane unless this one refuses it.
    pub fn find_refusal(&self, now: Timestamp) -> Option<Throttled<'c>> {
        let Self { capacity, access, table, units, indexes } = self;
        if indexes.is_empty() {
            return capacity.refusal_of_one(*table, access, *units, now);
        }
        // The entries of one access may share a partition, so they are decided one after the other.
        match self.admit(&[], now) {
            Admission::Admit(hold) => {
                capacity.give_back(hold, now);
                None
            }
            Admission::Throttle(throttled) => Some(throttled),
        }
    }

    /// The partition of each of its [charges](LocatedAccess::charges) as it is at `now`, with the
    /// refusal that it would get. The access would be admitted if none of them would refuse it;
    /// entries of one partition of an index are looked at one by one. Charges and changes nothing.
    pub fn peek(&self, sources: &[TokenSource], now: Timestamp) -> Vec<CapacityStatus<'c>> {
        let keys = core::iter::once(self.access.key).chain(self.indexes.iter().map(|index| index.key));
        let charges = self.charges().zip(keys).enumerate();
        let look = |(at, ((table, units), key)): (usize, ((u32, Units), &[u8]))| {
            let source = sources.get(at).copied().unwrap_or_default();
            self.capacity.peek_one(table, &self.access, key, units, source, now)
        };
        charges.map(look).collect()
    }
}
