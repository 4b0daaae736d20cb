//! The combinations of rows that a thread has used lately, so that it finds them without a lock.
//!
//! A cache has one place for each combination, which another one may take. It belongs to a thread,
//! and serves all meters. Combinations of a meter that has ended stay until their place is taken.
//! No two caches have the same combination: its type stays in the thread that made it.
//!
//! A combination that is found is used in its place: a counted reference of it is one more number
//! that all threads with the same tenant would write.

use core::cell::RefCell;
use core::mem::ManuallyDrop;

use super::names_key::{BaseKey, NamesKey};
use super::row_combination::{OwnCombination, RowCombination};

/// The places for combinations of requests without names, as a power of two.
const BASE_BITS: u32 = 6;

/// The places for combinations of requests that name a tenant or a feature, as a power of two.
const NAMED_BITS: u32 = 8;

/// The most combinations that the cache of a thread holds.
pub(crate) const CACHED_MAX: usize = (1 << BASE_BITS) + (1 << NAMED_BITS);

thread_local! {
    /// Nothing is to be done for it when the thread ends, so that it is found without a look at
    /// whether it has ended.
    static CACHE: ManuallyDrop<RefCell<ThreadCache>> =
        const { ManuallyDrop::new(RefCell::new(ThreadCache::EMPTY)) };

    /// Empties the cache when the thread ends.
    static EMPTIED_AT_END: EmptiedAtEnd = const { EmptiedAtEnd };
}

struct EmptiedAtEnd;

impl Drop for EmptiedAtEnd {
    fn drop(&mut self) {
        // Combinations end outside of the borrow.
        drop(CACHE.with(|cache| cache.replace(ThreadCache::EMPTY)));
    }
}

/// The cache of one thread.
#[derive(Debug)]
struct ThreadCache {
    base: [CachePlace<BaseKey>; 1 << BASE_BITS],
    /// Made at the first use.
    named: Vec<CachePlace<NamesKey>>,
}

impl ThreadCache {
    const EMPTY: Self =
        Self { base: [const { CachePlace::free(BaseKey::NONE) }; 1 << BASE_BITS], named: Vec::new() };

    fn named_places(&mut self) -> &mut [CachePlace<NamesKey>] {
        if self.named.is_empty() {
            self.named = vec![CachePlace::free(NamesKey::NONE); 1 << NAMED_BITS];
        }
        &mut self.named
    }
}

#[derive(Clone, Debug)]
struct CachePlace<K> {
    key: K,
    combination: Option<OwnCombination>,
}

impl<K: PartialEq> CachePlace<K> {
    const fn free(key: K) -> Self {
        Self { key, combination: None }
    }

    #[inline]
    fn find(&self, key: &K) -> Option<&OwnCombination> {
        if self.key == *key { self.combination.as_ref() } else { None }
    }
}

/// Lets `act` have the cached combination of a key without names; `None` if it is not there. `act`
/// may not use the cache.
#[expect(clippy::inline_always, reason = "a few instructions, which the standard library keeps apart")]
#[inline(always)]
pub(crate) fn base<T>(key: BaseKey, act: impl FnOnce(&OwnCombination) -> T) -> Option<T> {
    CACHE.try_with(|cache| cache.borrow().base[key.place(BASE_BITS)].find(&key).map(act)).ok().flatten()
}

/// As [`base`], of a key with names, if the combination `is_current`.
#[expect(clippy::inline_always, reason = "as `base`")]
#[inline(always)]
pub(crate) fn named<T>(
    key: NamesKey,
    is_current: impl FnOnce(&RowCombination) -> bool,
    act: impl FnOnce(&OwnCombination) -> T,
) -> Option<T> {
    let find = |cache: &ManuallyDrop<RefCell<ThreadCache>>| {
        let cache = cache.borrow();
        let found = cache.named.get(key.place(NAMED_BITS))?.find(&key)?;
        is_current(found).then(|| act(found))
    };
    CACHE.try_with(find).ok().flatten()
}

/// Keeps a combination for [`base`] in the cache of this thread.
#[cold]
pub(crate) fn keep_base(key: BaseKey, combination: &OwnCombination) {
    keep(|cache| &mut cache.base[key.place(BASE_BITS)], key, combination);
}

/// Keeps a combination for [`named`] in the cache of this thread.
#[cold]
pub(crate) fn keep_named(key: NamesKey, combination: &OwnCombination) {
    keep(|cache| &mut cache.named_places()[key.place(NAMED_BITS)], key, combination);
}

fn keep<K>(place: impl Fn(&mut ThreadCache) -> &mut CachePlace<K>, key: K, combination: &OwnCombination) {
    if EMPTIED_AT_END.try_with(|_| ()).is_err() {
        // The thread ends.
        return;
    }
    let replaced = CACHE.with(|cache| {
        let mut cache = cache.borrow_mut();
        let kept = CachePlace { key, combination: Some(combination.clone()) };
        std::mem::replace(place(&mut cache), kept)
    });
    // It may end here, which adds to its rows: the cache is free again by then.
    drop(replaced);
}
