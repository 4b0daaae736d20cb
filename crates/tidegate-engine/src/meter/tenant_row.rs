//! The row of a tenant, and the names by which tenants are told apart.

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use siphasher::sip::SipHasher24;
use tidegate_core::{Class, Timestamp};

use super::row_columns::{ClassColumns, RowColumns};
use super::second_order::SecondOrder;
use super::tally::NamespaceTally;
use crate::fault::Fault;
use crate::sync::lock_plain;

/// The bytes of a name that are kept and shown.
pub(crate) const TENANT_NAME_BYTES_MAX: usize = 128;

/// The name of a tenant: up to 128 bytes of it, and a keyed hash of the whole where there are more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantName<'a> {
    namespace: u16,
    shown: &'a str,
    /// Zero for a name that is shown in full.
    whole: u64,
    pub(crate) hash: u64,
}

impl TenantName<'_> {
    /// Whether two names are the same name.
    #[inline]
    fn is_same(&self, other: &TenantName<'_>) -> bool {
        self.hash == other.hash
            && self.namespace == other.namespace
            && self.whole == other.whole
            && self.shown == other.shown
    }
}

/// Hashes the names of tenants with a seed.
#[derive(Clone, Debug)]
pub(crate) struct TenantNames {
    hasher: ahash::RandomState,
    long_names: [u64; 2],
}

impl TenantNames {
    pub(crate) fn new(seed: [u64; 4]) -> Self {
        let hasher = ahash::RandomState::with_seeds(seed[1], !seed[2], seed[0], !seed[3]);
        Self { hasher, long_names: [seed[2] ^ seed[0].rotate_left(32), seed[3]] }
    }

    /// The name of a tenant of a namespace.
    #[inline]
    pub(crate) fn name<'a>(&self, namespace: u16, name: &'a str) -> TenantName<'a> {
        let (shown, whole) = if name.len() > TENANT_NAME_BYTES_MAX { self.cut(name) } else { (name, 0) };
        let mut hasher = self.hasher.build_hasher();
        hasher.write(shown.as_bytes());
        let spread = (u64::from(namespace) ^ whole).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        TenantName { namespace, shown, whole, hash: hasher.finish() ^ spread }
    }

    /// The hash of the names of a request: a tenant, a feature or both.
    #[expect(clippy::inline_always, reason = "a call would be a fifth of counting a request")]
    #[inline(always)]
    pub(crate) fn hash_of(&self, tenant: Option<&str>, feature: Option<&str>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        // A loop over both would put them into memory first.
        if let Some(tenant) = tenant {
            hasher.write(tenant.as_bytes());
        }
        if let Some(feature) = feature {
            hasher.write(feature.as_bytes());
        }
        hasher.finish()
    }

    #[cold]
    fn cut<'a>(&self, name: &'a str) -> (&'a str, u64) {
        let end = name.floor_char_boundary(TENANT_NAME_BYTES_MAX);
        let [k0, k1] = self.long_names;
        (&name[..end], SipHasher24::new_with_keys(k0, k1).hash(name.as_bytes()) | 1)
    }
}

/// The second of a row that made room for another tenant. No request comes in it.
const EVICTED: u32 = SecondOrder::LAST + 1;

/// The row of a tenant that is tracked, or was.
#[derive(Debug)]
pub(crate) struct TenantRow {
    namespace: Arc<NamespaceTally>,
    name: Box<str>,
    whole: u64,
    pub(super) hash: u64,
    pub(crate) since: Timestamp,
    /// Its number among all rows in the order in which they were made; modulo 2^32.
    pub(super) number: u32,
    /// The number of the last second in which it was used, or [`EVICTED`], which is written under
    /// the lock of `columns` and stays.
    ///
    /// Relaxed: it orders rows, and publishes nothing. A request that sees an eviction late counts
    /// in `other`, as one that came just before the eviction.
    touched: AtomicU32,
    columns: Mutex<ClassColumns>,
}

impl TenantRow {
    pub(crate) fn new(
        namespace: &Arc<NamespaceTally>,
        name: &TenantName<'_>,
        number: u32,
        since: Timestamp,
        second: u32,
    ) -> Arc<Self> {
        Arc::new(Self {
            namespace: Arc::clone(namespace),
            name: name.shown.into(),
            whole: name.whole,
            hash: name.hash,
            since,
            number,
            touched: AtomicU32::new(second),
            columns: Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> TenantName<'_> {
        let Self { whole, hash, .. } = *self;
        TenantName { namespace: self.namespace.number, shown: &self.name, whole, hash }
    }

    /// Its name, cut to [`TENANT_NAME_BYTES_MAX`].
    pub(crate) fn shown(&self) -> &str {
        &self.name
    }

    /// Whether its name is longer than shown.
    pub(crate) fn is_cut(&self) -> bool {
        self.whole != 0
    }

    /// Whether it made room for another tenant.
    pub(crate) fn is_evicted(&self) -> bool {
        self.touched() == EVICTED
    }

    /// Whether it still counts; it is then used in this second.
    #[inline]
    pub(crate) fn is_used_in(&self, second: u32) -> bool {
        self.touched() == second || self.touch(second)
    }

    #[cold]
    fn touch(&self, second: u32) -> bool {
        let unless_evicted = |touched| (touched != EVICTED).then_some(second);
        self.touched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, unless_evicted).is_ok()
    }

    #[inline]
    pub(crate) fn touched(&self) -> u32 {
        self.touched.load(Ordering::Relaxed)
    }

    pub(crate) fn namespace(&self) -> &Arc<NamespaceTally> {
        &self.namespace
    }

    /// Counts in the row, or in `other` of its namespace once it is evicted.
    pub(crate) fn add(&self, class: Class, more: &RowColumns) {
        let mut columns = lock_plain(&self.columns);
        if !self.is_evicted() {
            return columns.add(class, more);
        }
        drop(columns);
        self.namespace.add_evicted(class, more);
    }

    /// Moves all it has counted to `other` of its namespace, and whatever it will count.
    pub(crate) fn evict(&self) {
        let mut columns = lock_plain(&self.columns);
        self.touched.store(EVICTED, Ordering::Relaxed);
        let counted = std::mem::take(&mut *columns);
        drop(columns);
        if Fault::EvictionForgets.is_planted() {
            return;
        }
        for (class, columns) in counted.all() {
            self.namespace.add_evicted(class, &columns);
        }
    }

    pub(crate) fn read(&self) -> [RowColumns; 4] {
        let columns = lock_plain(&self.columns);
        Class::ALL.map(|class| columns.of_class(class))
    }

    /// The bytes it takes, with the two counts of its `Arc`.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + 2 * size_of::<usize>() + self.name.len() + lock_plain(&self.columns).bytes()
    }
}

/// A row in a set by name.
#[derive(Clone, Debug)]
pub(crate) struct RowByName(pub(crate) Arc<TenantRow>);

/// The number of a row that is looked up in a set by name, with the hash of the name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberedRow {
    pub(crate) hash: u64,
    pub(crate) number: u32,
}

/// A row in such a set, or what is looked up: a name, or the number of a row.
pub(crate) trait SetName {
    fn hash(&self) -> u64;

    /// `None` if only the number is known.
    fn name(&self) -> Option<TenantName<'_>>;

    /// `None` if only the name is known.
    fn number(&self) -> Option<u32>;
}

impl SetName for RowByName {
    fn hash(&self) -> u64 {
        self.0.hash
    }

    fn name(&self) -> Option<TenantName<'_>> {
        Some(self.0.name())
    }

    fn number(&self) -> Option<u32> {
        Some(self.0.number)
    }
}

impl SetName for TenantName<'_> {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn name(&self) -> Option<TenantName<'_>> {
        Some(*self)
    }

    fn number(&self) -> Option<u32> {
        None
    }
}

impl SetName for NumberedRow {
    fn hash(&self) -> u64 {
        self.hash
    }

    fn name(&self) -> Option<TenantName<'_>> {
        None
    }

    fn number(&self) -> Option<u32> {
        Some(self.number)
    }
}

impl<'a> Borrow<dyn SetName + 'a> for RowByName {
    fn borrow(&self) -> &(dyn SetName + 'a) {
        self
    }
}

impl Hash for dyn SetName + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(SetName::hash(self));
    }
}

impl PartialEq for dyn SetName + '_ {
    fn eq(&self, other: &Self) -> bool {
        match (self.name(), other.name()) {
            (Some(one), Some(other)) => one.is_same(&other),
            _ => SetName::hash(self) == SetName::hash(other) && self.number() == other.number(),
        }
    }
}

impl Eq for dyn SetName + '_ {}

impl Hash for RowByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl PartialEq for RowByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name().is_same(&other.0.name())
    }
}

impl Eq for RowByName {}

/// The hasher of such a set: a name brings its hash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BroughtHash(u64);

impl Hasher for BroughtHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a name writes one number");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
