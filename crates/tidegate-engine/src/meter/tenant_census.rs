//! The tenants that are tracked: a bounded number of rows, divided among namespaces.
//!
//! Places are divided by [`Shares`], as those of every bounded table: half of them are guaranteed
//! in equal shares, the other half goes to the first namespace that asks. A newcomer that finds no
//! place evicts one row: of all rows of namespaces above their share the one that was used longest
//! ago, in whole seconds, and of several the one that was made first. So a namespace keeps the rows
//! of its share whatever the others do.
//!
//! Rows are found under the lock of one of many shards. Only a newcomer takes the lock of the
//! census. A row that is used writes the second into itself; the order of the rows is put right
//! when an eviction looks at it.

use core::cmp::Reverse;
use core::hash::BuildHasherDefault;
use std::collections::{BTreeSet, BinaryHeap, HashSet};
use std::sync::{Arc, Mutex};

use tidegate_core::Timestamp;
use tidegate_core::shares::Shares;

use super::tally::NamespaceTally;
use super::tenant_row::{BroughtHash, NumberedRow, RowByName, SetName, TenantName, TenantNames, TenantRow};
use crate::sync::lock_plain;

/// The parts of the set of rows, each with its own lock. A power of two.
const SHARDS: usize = 64;

type RowSet = HashSet<RowByName, BuildHasherDefault<BroughtHash>>;

/// The tracked tenants of all namespaces.
#[derive(Debug)]
pub(crate) struct TenantCensus {
    pub(crate) names: TenantNames,
    shards: Box<[TenantShard]>,
    places: u64,
    shares: Shares,
    order: Mutex<CensusOrder>,
}

/// Aligned, so that threads that look tenants up share no cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct TenantShard(Mutex<RowSet>);

/// The order in which rows are evicted.
#[derive(Debug, Default)]
struct CensusOrder {
    tracked: u64,
    /// The number of the next row.
    made: u64,
    /// The owners that places are divided among.
    owners: usize,
    /// Whether a tenant of a namespace that no policy has was tracked, which is one owner more.
    has_unnamed: bool,
    /// By the number of the namespace.
    namespaces: Vec<NamespaceRanks>,
    /// The first row of each namespace above its share, with the number of the namespace.
    firsts: BTreeSet<(RowAge, u16)>,
}

/// When a row was last seen to be used, and its number: the smaller, the sooner it is evicted.
type RowAge = (u32, u64);

/// The rows of one namespace, longest idle first by what is known of their use.
#[derive(Debug, Default)]
struct NamespaceRanks {
    rows: BinaryHeap<Reverse<RankedRow>>,
    /// Its entry in [`CensusOrder::firsts`].
    listed: Option<RowAge>,
}

#[derive(Debug)]
struct RankedRow {
    age: RowAge,
    row: Arc<TenantRow>,
}

impl PartialEq for RankedRow {
    fn eq(&self, other: &Self) -> bool {
        self.age == other.age
    }
}

impl Eq for RankedRow {}

impl PartialOrd for RankedRow {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RankedRow {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.age.cmp(&other.age)
    }
}

impl TenantCensus {
    /// Room for so many rows.
    pub(crate) fn new(places: u32, seed: [u64; 4]) -> Self {
        Self {
            names: TenantNames::new(seed),
            shards: (0..SHARDS).map(|_| TenantShard::default()).collect(),
            places: u64::from(places),
            shares: Shares::new(u64::from(places)),
            order: Mutex::default(),
        }
    }

    /// Whether any tenant is tracked.
    #[inline]
    pub(crate) fn has_places(&self) -> bool {
        self.places > 0
    }

    /// The row of a tenant, made where it is absent. `namespaces` have rows of their own.
    pub(crate) fn row(
        &self,
        name: &TenantName<'_>,
        namespace: &Arc<NamespaceTally>,
        namespaces: usize,
        second: u32,
        now: Timestamp,
    ) -> Arc<TenantRow> {
        let row = self.find(name).unwrap_or_else(|| self.make(name, namespace, namespaces, second, now));
        row.is_used_in(second);
        row
    }

    /// The row of a tenant that is tracked.
    pub(crate) fn find(&self, name: &TenantName<'_>) -> Option<Arc<TenantRow>> {
        self.find_by(name)
    }

    /// The row with this number, which was not evicted.
    pub(crate) fn find_numbered(&self, hash: u64, number: u32) -> Option<Arc<TenantRow>> {
        self.find_by(&NumberedRow { hash, number })
    }

    fn find_by(&self, name: &dyn SetName) -> Option<Arc<TenantRow>> {
        let rows = lock_plain(&self.shard(name.hash()).0);
        rows.get(name).map(|found| Arc::clone(&found.0))
    }

    /// The tracked tenants of a namespace. No row is made or evicted while `read` runs.
    pub(crate) fn read<T>(
        &self,
        namespace: u16,
        read: impl FnOnce(&mut dyn ExactSizeIterator<Item = &Arc<TenantRow>>) -> T,
    ) -> T {
        let order = lock_plain(&self.order);
        match order.namespaces.get(usize::from(namespace)) {
            Some(ranks) => read(&mut ranks.rows.iter().map(|ranked| &ranked.0.row)),
            None => read(&mut core::iter::empty()),
        }
    }

    /// The bytes of all rows, and of what finds and orders them.
    pub(crate) fn bytes(&self) -> usize {
        let order = lock_plain(&self.order);
        let of_ranks = |ranks: &NamespaceRanks| {
            let rows: usize = ranks.rows.iter().map(|ranked| ranked.0.row.bytes()).sum();
            rows + ranks.rows.capacity() * size_of::<RankedRow>()
        };
        let ranks: usize = order.namespaces.iter().map(of_ranks).sum();
        // A set has one byte for each place beside the entry, and one place in eight stays free.
        let of_shard = |shard: &TenantShard| lock_plain(&shard.0).capacity() * 8 / 7 * 9;
        let shards: usize = self.shards.iter().map(of_shard).sum();
        ranks + shards + order.namespaces.capacity() * size_of::<NamespaceRanks>()
    }

    fn shard(&self, hash: u64) -> &TenantShard {
        // Sets use the low and the highest bits of a hash.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    #[cold]
    fn make(
        &self,
        name: &TenantName<'_>,
        namespace: &Arc<NamespaceTally>,
        namespaces: usize,
        second: u32,
        now: Timestamp,
    ) -> Arc<TenantRow> {
        let mut order = lock_plain(&self.order);
        // Another thread may have made it since.
        if let Some(row) = self.find(name) {
            return row;
        }
        let number = usize::from(namespace.number);
        order.has_unnamed |= number == 0;
        let owners = namespaces + usize::from(order.has_unnamed);
        if order.namespaces.len() <= number {
            order.namespaces.resize_with(number + 1, NamespaceRanks::default);
        }
        if order.owners != owners {
            order.owners = owners;
            self.shares.divide(owners);
            (0..order.namespaces.len() as u16).for_each(|number| self.list(&mut order, number));
        }
        if !self.shares.take(namespace.owner, 1) {
            self.evict(&mut order);
            self.shares.take_anyway(namespace.owner, 1);
        } else if order.tracked == self.places {
            self.evict(&mut order);
        }
        order.tracked += 1;
        order.made += 1;
        let row = TenantRow::new(namespace, name, order.made as u32, now, second);
        lock_plain(&self.shard(name.hash).0).insert(RowByName(Arc::clone(&row)));
        let ranked = RankedRow { age: (second, order.made), row: Arc::clone(&row) };
        order.namespaces[number].rows.push(Reverse(ranked));
        self.list(&mut order, namespace.number);
        row
    }

    /// Evicts the row that was used longest ago of a namespace above its share. There is one: all
    /// shares together are at most half of the places.
    fn evict(&self, order: &mut CensusOrder) {
        let row = loop {
            let (age, number) = *order.firsts.first().expect("a full census has a namespace above its share");
            let ranks = &mut order.namespaces[usize::from(number)];
            let mut first = ranks.rows.peek_mut().expect("a namespace that is listed has a row");
            let touched = first.0.row.touched();
            if touched == age.0 {
                drop(first);
                let Reverse(first) = ranks.rows.pop().expect("it was there a line before");
                self.shares.give_back(first.row.namespace().owner, 1);
                self.list(order, number);
                break first.row;
            }
            first.0.age.0 = touched;
            drop(first);
            self.list(order, number);
        };
        order.tracked -= 1;
        let name = row.name();
        lock_plain(&self.shard(name.hash).0).remove(&name as &dyn SetName);
        row.evict();
    }

    /// Lists the first row of a namespace if it is above its share now, in place of what was listed
    /// before.
    fn list(&self, order: &mut CensusOrder, number: u16) {
        let ranks = &mut order.namespaces[usize::from(number)];
        let first = ranks
            .rows
            .peek()
            .filter(|first| self.shares.held(first.0.row.namespace().owner) > self.shares.guaranteed());
        let age = first.map(|first| first.0.age);
        if ranks.listed == age {
            return;
        }
        if let Some(before) = std::mem::replace(&mut ranks.listed, age) {
            order.firsts.remove(&(before, number));
        }
        order.firsts.extend(age.map(|age| (age, number)));
    }
}
