//! The counts behind [`Shares`](super::Shares): the places of each owner, and those beyond shares.
//!
//! Every method takes the counter of the owner. The counters are generic, so that `shares/loom.rs`
//! explores the same code with loom's atomics; the ones of portable-atomic are always used in the
//! tables themselves, whose models would otherwise explore these counters too.

use portable_atomic::{AtomicU64, Ordering};

/// An atomic number. Relaxed in every operation: these counters guard no other data. A place is
/// only ever held with the table's own means, a lock or a compare-and-swap.
pub(super) trait AtomicCount {
    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn swap(&self, value: u64) -> u64;
    /// Adds, wrapping, and returns the value before.
    fn add(&self, value: u64) -> u64;
    /// Subtracts, wrapping, and returns the value before.
    fn subtract(&self, value: u64) -> u64;
    /// Replaces `current` by `new`; the value that is there instead if it is another.
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64>;
}

/// Implements [`AtomicCount`] for an atomic of the usual interface.
macro_rules! atomic_count {
    ($atomic:ty, $ordering:ty) => {
        impl AtomicCount for $atomic {
            fn new(value: u64) -> Self {
                <$atomic>::new(value)
            }

            #[inline]
            fn load(&self) -> u64 {
                <$atomic>::load(self, <$ordering>::Relaxed)
            }

            #[inline]
            fn store(&self, value: u64) {
                <$atomic>::store(self, value, <$ordering>::Relaxed);
            }

            #[inline]
            fn swap(&self, value: u64) -> u64 {
                <$atomic>::swap(self, value, <$ordering>::Relaxed)
            }

            #[inline]
            fn add(&self, value: u64) -> u64 {
                self.fetch_add(value, <$ordering>::Relaxed)
            }

            #[inline]
            fn subtract(&self, value: u64) -> u64 {
                self.fetch_sub(value, <$ordering>::Relaxed)
            }

            #[inline]
            fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
                self.compare_exchange(current, new, <$ordering>::Relaxed, <$ordering>::Relaxed).map(|_| ())
            }
        }
    };
}

atomic_count!(AtomicU64, Ordering);
#[cfg(all(test, tidegate_loom))]
atomic_count!(::loom::sync::atomic::AtomicU64, ::loom::sync::atomic::Ordering);

/// The places of one table: the share of each owner, and the pool that all owners borrow from.
pub(super) struct Pool<C> {
    pub(super) places: u64,
    /// The share of one namespace.
    guaranteed: C,
    /// Places that are held beyond shares; a two's complement number, since a changed share is
    /// counted while others take places.
    borrowed: C,
}

impl<C: AtomicCount> Pool<C> {
    /// All places are the pool's.
    pub(super) fn new(places: u64) -> Self {
        Self { places, guaranteed: C::new(0), borrowed: C::new(0) }
    }

    #[inline]
    pub(super) fn guaranteed(&self) -> u64 {
        self.guaranteed.load()
    }

    /// The places that go to the first that asks.
    fn size(&self) -> u64 {
        if self.guaranteed() == 0 { self.places } else { self.places - self.places / 2 }
    }

    /// Makes `share` the share of each owner. `held` are the counters of all owners.
    pub(super) fn divide<'c>(&self, share: u64, held: impl Iterator<Item = &'c C>)
    where
        C: 'c,
    {
        let before = self.guaranteed.swap(share);
        if before == share {
            return;
        }
        // Places that are taken meanwhile are counted by the new share, which is in force already;
        // so the sum may be off by as many as were taken during these lines, until the next
        // division.
        self.borrowed.store(held.map(|held| held.load().saturating_sub(share)).sum());
    }

    /// Takes `count` places for the owner of `held`; whether it may have them.
    #[inline]
    pub(super) fn take(&self, held: &C, count: u64) -> bool {
        let share = self.guaranteed();
        let before = held.add(count);
        let wanted = (before + count).saturating_sub(share) - before.saturating_sub(share);
        if wanted == 0 || self.borrow(wanted) {
            return true;
        }
        let now = held.subtract(count);
        // Others of this owner may have come in between: what this call changed is not what it
        // wanted.
        let changed = now.saturating_sub(share) - (now - count).saturating_sub(share);
        self.borrowed.add(wanted.wrapping_sub(changed));
        false
    }

    /// Takes `count` places for the owner of `held` also where it may not have them.
    #[inline]
    pub(super) fn take_anyway(&self, held: &C, count: u64) {
        let share = self.guaranteed();
        let before = held.add(count);
        let beyond = (before + count).saturating_sub(share) - before.saturating_sub(share);
        self.borrowed.add(beyond);
    }

    /// Gives `count` places of the owner of `held` back.
    #[inline]
    pub(super) fn give_back(&self, held: &C, count: u64) {
        let share = self.guaranteed();
        let before = held.subtract(count);
        debug_assert!(before >= count, "more places are given back than were taken");
        let beyond = before.saturating_sub(share) - before.wrapping_sub(count).saturating_sub(share);
        self.borrowed.subtract(beyond);
    }

    fn borrow(&self, wanted: u64) -> bool {
        let size = self.size();
        let mut borrowed = self.borrowed.load();
        loop {
            let after = borrowed.wrapping_add(wanted);
            // A sum below zero is a division that raced with a place given back.
            if after.cast_signed() > size.cast_signed() {
                return false;
            }
            match self.borrowed.exchange(borrowed, after) {
                Ok(()) => return true,
                Err(seen) => borrowed = seen,
            }
        }
    }

    /// Places that are held beyond shares.
    #[cfg(all(test, tidegate_loom))]
    pub(super) fn borrowed(&self) -> u64 {
        self.borrowed.load()
    }
}
