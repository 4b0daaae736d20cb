//! The combinations of rows that a thread has used lately, so that it finds them without a lock.
//!
//! A cache has one place for each combination, which another one may take. It belongs to a thread,
//! and serves all meters. Combinations of a meter that has ended stay until their place is taken.

use core::cell::RefCell;
use std::sync::Arc;

use super::row_combination::RowCombination;

/// The places for combinations without a tenant's row, as a power of two.
const BASE_BITS: u32 = 6;

/// The places for combinations with one, as a power of two.
const TENANT_BITS: u32 = 8;

/// The most combinations that the cache of a thread holds.
pub(crate) const CACHED_MAX: usize = (1 << BASE_BITS) + (1 << TENANT_BITS);

thread_local! {
    static CACHE: RefCell<ThreadCache> = const { RefCell::new(ThreadCache::EMPTY) };
}

/// The cache of one thread.
#[derive(Debug)]
struct ThreadCache {
    base: [CachePlace; 1 << BASE_BITS],
    /// Made at the first use.
    tenant: Vec<CachePlace>,
}

impl ThreadCache {
    const EMPTY: Self = Self { base: [const { CachePlace::FREE }; 1 << BASE_BITS], tenant: Vec::new() };

    fn tenant_places(&mut self) -> &mut [CachePlace] {
        if self.tenant.is_empty() {
            self.tenant = vec![CachePlace::FREE; 1 << TENANT_BITS];
        }
        &mut self.tenant
    }
}

#[derive(Clone, Debug)]
struct CachePlace {
    key: CacheKey,
    combination: Option<Arc<RowCombination>>,
}

impl CachePlace {
    const FREE: Self = Self { key: CacheKey { meter: 0, rows: 0 }, combination: None };
}

/// The name of a combination among those of all meters, but for the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey {
    /// The number of the meter, from 1.
    pub(crate) meter: u64,
    pub(crate) rows: u64,
}

impl CacheKey {
    #[inline]
    const fn spread(self) -> u64 {
        (self.rows ^ self.meter).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[inline]
    const fn base_place(self) -> usize {
        (self.spread() >> (64 - BASE_BITS)) as usize
    }

    #[inline]
    const fn tenant_place(self, hash: u64) -> usize {
        ((self.spread() ^ hash) >> (64 - TENANT_BITS)) as usize
    }
}

/// The cached combination of a key without a tenant's row.
///
/// The key is made once the cache is there: so it is in no register that the first use of the
/// thread must save.
#[inline]
pub(crate) fn base(key: impl FnOnce() -> CacheKey) -> Option<Arc<RowCombination>> {
    let find = |cache: &RefCell<ThreadCache>| {
        let key = key();
        let cache = cache.borrow();
        let place = &cache.base[key.base_place()];
        if place.key == key { place.combination.clone() } else { None }
    };
    // A thread that ends has no cache any more.
    CACHE.try_with(find).ok().flatten()
}

/// The cached combination of a key with the row of a tenant, by the hash of its name, if it
/// `is_current`.
#[inline]
pub(crate) fn tenant(
    key: CacheKey,
    hash: u64,
    is_current: impl FnOnce(&RowCombination) -> bool,
) -> Option<Arc<RowCombination>> {
    let find = |cache: &RefCell<ThreadCache>| {
        let cache = cache.borrow();
        let place = cache.tenant.get(key.tenant_place(hash)).filter(|place| place.key == key)?;
        place.combination.as_ref().filter(|combination| is_current(combination)).cloned()
    };
    CACHE.try_with(find).ok().flatten()
}

/// Keeps a combination without a tenant's row in the cache of this thread.
#[cold]
pub(crate) fn keep_base(key: CacheKey, combination: &Arc<RowCombination>) {
    keep(|cache| &mut cache.base[key.base_place()], key, combination);
}

/// Keeps a combination with the row of a tenant in the cache of this thread.
#[cold]
pub(crate) fn keep_tenant(key: CacheKey, hash: u64, combination: &Arc<RowCombination>) {
    keep(|cache| &mut cache.tenant_places()[key.tenant_place(hash)], key, combination);
}

fn keep(
    place: impl Fn(&mut ThreadCache) -> &mut CachePlace,
    key: CacheKey,
    combination: &Arc<RowCombination>,
) {
    let replace = |cache: &RefCell<ThreadCache>| {
        let mut cache = cache.borrow_mut();
        let kept = CachePlace { key, combination: Some(Arc::clone(combination)) };
        std::mem::replace(place(&mut cache), kept)
    };
    // The one that was there may end here, which adds to its rows: the cache is free again by then.
    drop(CACHE.try_with(replace));
}
