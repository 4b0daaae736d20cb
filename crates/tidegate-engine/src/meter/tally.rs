//! The rows that are never removed: of namespaces, features and resources.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use tidegate_core::shares::{Namespaces, Owner};
use tidegate_core::{Class, Timestamp};

use super::in_flight_sum::{InFlightWork, ShareLook};
use super::metered_rows::TenantPart;
use super::resource_shares::{ResourceShare, ResourceShares};
use super::row_columns::{ClassColumns, RowColumns};
use super::usage::RowName;
use crate::sync::lock_plain;

/// The most names of features, and of resources, that have a row of their own; all further ones
/// count in one row, [`RowName::Other`].
const NAMES_MAX: usize = 10_000;

/// The row of a feature or of a resource.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) name: RowName,
    pub(crate) since: Timestamp,
    columns: Mutex<ClassColumns>,
    /// Of a resource: by whose work.
    shares: Mutex<ResourceShares>,
}

impl Tally {
    fn new(name: RowName, since: Timestamp) -> Arc<Self> {
        Arc::new(Self { name, since, columns: Mutex::default(), shares: Mutex::default() })
    }

    /// Adds to the columns of a resource, and to the shares of a feature and a namespace in it.
    pub(crate) fn add_work(&self, of: (&RowName, &RowName), class: Class, more: &RowColumns) {
        self.add(class, more);
        lock_plain(&self.shares).add(of, class, more);
    }

    /// Adds requests that are in flight to the shares of a resource.
    pub(crate) fn add_in_flight(&self, of: (&RowName, &RowName), class: Class, seen: InFlightWork) {
        lock_plain(&self.shares).add_in_flight(of, class, seen);
    }

    /// The shares of a resource since the last call, and their memory; nothing before they have
    /// begun.
    pub(crate) fn take_shares(&self, look: &ShareLook) -> (Vec<ResourceShare>, usize) {
        lock_plain(&self.shares).take(look)
    }

    /// Begins the shares of a resource, if nobody has yet.
    pub(crate) fn begin_shares(&self) {
        lock_plain(&self.shares).begin();
    }

    pub(crate) fn add(&self, class: Class, more: &RowColumns) {
        lock_plain(&self.columns).add(class, more);
    }

    pub(crate) fn read(&self) -> [RowColumns; 4] {
        let columns = lock_plain(&self.columns);
        Class::ALL.map(|class| columns.of_class(class))
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + lock_plain(&self.columns).bytes() + lock_plain(&self.shares).bytes()
    }
}

/// The row of a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceTally {
    pub(crate) name: RowName,
    pub(crate) number: u16,
    pub(crate) owner: Owner,
    pub(crate) since: Timestamp,
    columns: Mutex<NamespaceColumns>,
}

/// The columns of a namespace: its total, and the parts of it that belong to no tenant's row.
#[derive(Debug, Default)]
pub(crate) struct NamespaceColumns {
    pub(crate) total: ClassColumns,
    pub(crate) no_tenant: ClassColumns,
    pub(crate) other: ClassColumns,
}

impl NamespaceTally {
    fn new(name: RowName, owner: Owner, since: Timestamp) -> Arc<Self> {
        Arc::new(Self { name, number: owner.get(), owner, since, columns: Mutex::default() })
    }

    /// Counts in the total, and in the part that a request without a row of a tenant belongs to.
    pub(crate) fn add(&self, part: TenantPart, class: Class, more: &RowColumns) {
        let mut columns = lock_plain(&self.columns);
        columns.total.add(class, more);
        match part {
            TenantPart::Absent => columns.no_tenant.add(class, more),
            TenantPart::Other => columns.other.add(class, more),
            TenantPart::Tracked => {}
        }
    }

    /// Counts what an evicted row of a tenant would have counted; it is in the total already.
    pub(crate) fn add_evicted(&self, class: Class, more: &RowColumns) {
        lock_plain(&self.columns).other.add(class, more);
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&NamespaceColumns) -> T) -> T {
        read(&lock_plain(&self.columns))
    }

    fn bytes(&self) -> usize {
        let parts = |columns: &NamespaceColumns| {
            columns.total.bytes() + columns.no_tenant.bytes() + columns.other.bytes()
        };
        size_of::<Self>() + self.read(parts)
    }
}

/// The rows of features or resources by name: "none", "other", and one for each name.
#[derive(Debug)]
pub(crate) struct NamedTallies(RwLock<TalliesByName>);

#[derive(Debug)]
struct TalliesByName {
    numbers: HashMap<Box<str>, u16, ahash::RandomState>,
    rows: Vec<Arc<Tally>>,
}

impl NamedTallies {
    pub(crate) fn new(hasher: ahash::RandomState, since: Timestamp) -> Self {
        let rows = vec![Tally::new(RowName::None, since), Tally::new(RowName::Other, since)];
        Self(RwLock::new(TalliesByName { numbers: HashMap::with_hasher(hasher), rows }))
    }

    /// The number of a name, a new one at its first mention.
    pub(crate) fn number(&self, name: &str, now: Timestamp) -> u16 {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = all.numbers.get(name) {
            return *number;
        }
        if all.numbers.len() == NAMES_MAX {
            return 1;
        }
        let number = all.rows.len() as u16;
        all.rows.push(Tally::new(RowName::Named(name.into()), now));
        all.numbers.insert(name.into(), number);
        number
    }

    pub(crate) fn row(&self, number: u16) -> Arc<Tally> {
        Arc::clone(&self.read().rows[usize::from(number)])
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tally>> {
        self.read().rows.clone()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.all().iter().map(|row| row.bytes()).sum()
    }

    fn read(&self) -> RwLockReadGuard<'_, TalliesByName> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows of namespaces by number: 0 for those that no policy has, the last one for those beyond
/// [`Owner::MAX`], and one for each name between them.
#[derive(Debug)]
pub(crate) struct NamespaceTallies {
    numbers: Namespaces,
    rows: RwLock<Vec<Arc<NamespaceTally>>>,
}

impl NamespaceTallies {
    pub(crate) fn new(seed: u64, since: Timestamp) -> Self {
        let none = NamespaceTally::new(RowName::None, Owner::NONE, since);
        Self { numbers: Namespaces::new(seed), rows: RwLock::new(vec![none]) }
    }

    /// The number of a namespace, a new one at its first mention.
    pub(crate) fn number(&self, name: &str, now: Timestamp) -> u16 {
        // The lock is held while the number is drawn, so that rows stand in the order of numbers.
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let owner = self.numbers.owner(name);
        if rows.len() == usize::from(owner.get()) {
            let is_last = owner.get() == u16::MAX;
            let name = if is_last { RowName::Other } else { RowName::Named(name.into()) };
            rows.push(NamespaceTally::new(name, owner, now));
        }
        owner.get()
    }

    /// The number of a namespace that has a row, else 0.
    pub(crate) fn known(&self, name: &str) -> u16 {
        self.numbers.known(name).map_or(0, Owner::get)
    }

    /// The row of a namespace, if it has one.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<NamespaceTally>> {
        self.numbers.known(name).map(|owner| self.row(owner.get()))
    }

    pub(crate) fn row(&self, number: u16) -> Arc<NamespaceTally> {
        Arc::clone(&self.read()[usize::from(number)])
    }

    pub(crate) fn all(&self) -> Vec<Arc<NamespaceTally>> {
        self.read().clone()
    }

    /// How many namespaces have a row, not counting the one for those that no policy has.
    pub(crate) fn count(&self) -> usize {
        self.read().len() - 1
    }

    pub(crate) fn bytes(&self) -> usize {
        self.all().iter().map(|row| row.bytes()).sum()
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<Arc<NamespaceTally>>> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}
