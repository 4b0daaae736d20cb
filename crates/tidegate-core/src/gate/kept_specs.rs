//! Specs that a gate needs only once a request asks for them, kept in use as long as the gate: the
//! shares by which a member decides alone, and the calendars of time zones that requests name.

use std::sync::OnceLock;

use crate::algorithm::Algorithm;
use crate::sync::{AtomicUsize, Ordering};
use crate::table::SpecPin;

/// Specs found by a key without a lock, in `LISTS` lists.
///
/// Nothing is taken out, so each spec lends its algorithm as long as the gate is there.
#[derive(Debug)]
pub(crate) struct KeptSpecs<K, const LISTS: usize> {
    lists: [OnceLock<Box<KeptSpec<K>>>; LISTS],
    kept: AtomicUsize,
}

#[derive(Debug)]
struct KeptSpec<K> {
    key: K,
    pin: SpecPin,
    next: OnceLock<Box<KeptSpec<K>>>,
}

/// A key, and the hash that selects its list.
pub(super) struct HashedKey<K> {
    pub(super) key: K,
    pub(super) hash: u64,
}

impl<K, const LISTS: usize> Default for KeptSpecs<K, LISTS> {
    fn default() -> Self {
        Self { lists: [const { OnceLock::new() }; LISTS], kept: AtomicUsize::new(0) }
    }
}

impl<K: Eq, const LISTS: usize> KeptSpecs<K, LISTS> {
    /// How many specs are kept. Threads that come at once may each add one above a bound that they
    /// hold this number against.
    pub(super) fn len(&self) -> usize {
        // Relaxed: a bound on memory orders nothing.
        self.kept.load(Ordering::Relaxed)
    }

    /// Keeps the spec with this pin, unless one is kept under this key.
    pub(super) fn keep(&self, HashedKey { key, hash }: HashedKey<K>, pin: SpecPin) {
        let mut one = Box::new(KeptSpec { key, pin, next: OnceLock::new() });
        let mut at = self.list(hash);
        loop {
            match at.get() {
                Some(known) if known.key == one.key => return,
                Some(known) => at = &known.next,
                None => match at.set(one) {
                    Ok(()) => {
                        self.kept.fetch_add(1, Ordering::Relaxed);
                        return;
                    }
                    // Another thread was first: it has put the same spec here, or the list
                    // continues behind it.
                    Err(own) => one = own,
                },
            }
        }
    }

    /// The spec under the key with this hash that `is_meant` accepts.
    pub(super) fn find(&self, hash: u64, is_meant: impl Fn(&K) -> bool) -> Option<&SpecPin> {
        let mut at = self.list(hash).get();
        while let Some(one) = at {
            if is_meant(&one.key) {
                return Some(&one.pin);
            }
            at = one.next.get();
        }
        None
    }

    fn list(&self, hash: u64) -> &OnceLock<Box<KeptSpec<K>>> {
        &self.lists[(hash % LISTS as u64) as usize]
    }
}

/// Shares of limits, found by their own spec.
pub(crate) type AloneSpecs = KeptSpecs<crate::table::SpecId, 64>;

/// The most shares of a gate. Beyond it, a member that decides alone counts by the undivided
/// numbers.
pub(super) const ALONE_SPECS_MAX: usize = 1 << 14;

impl AloneSpecs {
    /// Keeps the share with this pin; `false` if there are too many.
    pub(super) fn keep_share(&self, pin: SpecPin) -> bool {
        let spec = pin.id();
        if self.len() >= ALONE_SPECS_MAX {
            return self.share(spec).is_some();
        }
        self.keep(HashedKey { key: spec, hash: u64::from(spec.get()) }, pin);
        true
    }

    /// The algorithm of the share with this spec.
    pub(super) fn share(&self, spec: crate::table::SpecId) -> Option<&Algorithm> {
        self.find(u64::from(spec.get()), |key| *key == spec).and_then(SpecPin::algorithm)
    }
}
