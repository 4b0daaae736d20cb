//! How much of a slot namespaces hold, in a fixed number of counters.

use crate::cursor::hash::keyed_hash;

/// The counters of a slot.
const BUCKETS: usize = 16;

/// The weights that the namespaces of a slot hold, in quarters of a request: the namespaces of a
/// bucket share a counter.
///
/// The bucket of a namespace depends on the slot, so two namespaces that share a counter in one
/// slot are apart in the next. Beside the weight of all tickets in a bucket stands the weight of
/// its tenants, each counted up to its part: that much of the namespace's part is really taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamespaceWeights {
    held: [u16; BUCKETS],
    by_tenants: [u16; BUCKETS],
}

impl NamespaceWeights {
    /// The counters of a slot of which no ticket is sold.
    pub(crate) const fn new() -> Self {
        Self { held: [0; BUCKETS], by_tenants: [0; BUCKETS] }
    }

    /// The weight in the bucket of the namespace, of all tickets, and of tenants up to their parts.
    pub(crate) fn weights(&self, namespace: u32, slot: u64) -> (u16, u16) {
        let bucket = bucket_of(namespace, slot);
        (self.held[bucket], self.by_tenants[bucket])
    }

    /// Adds a ticket of the namespace, of which this much lies in the part of its tenant.
    pub(crate) fn add(&mut self, namespace: u32, slot: u64, weight: u16, in_part: u16) {
        let bucket = bucket_of(namespace, slot);
        let (held, by_tenants) = (&mut self.held[bucket], &mut self.by_tenants[bucket]);
        *held = held.saturating_add(weight);
        *by_tenants = by_tenants.saturating_add(in_part);
    }

    /// The number of buckets that hold tickets, and that of the namespace.
    pub(crate) fn holders_with(&self, namespace: u32, slot: u64) -> u16 {
        let holders: u16 = self.held.iter().map(|held| u16::from(*held > 0)).sum();
        holders + u16::from(self.held[bucket_of(namespace, slot)] == 0)
    }

    /// The sum of all buckets, each counted up to `part`.
    pub(crate) fn effective(&self, part: u16) -> u16 {
        self.held.iter().map(|held| *held.min(&part)).fold(0, u16::saturating_add)
    }
}

/// The bucket of a namespace in a slot.
fn bucket_of(namespace: u32, slot: u64) -> usize {
    keyed_hash([namespace.into(), slot], None) as usize % BUCKETS
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn two_namespaces_that_share_a_bucket_in_one_slot_seldom_share_it_in_another() {
        let shared = (0..1_600).filter(|slot| bucket_of(1, *slot) == bucket_of(2, *slot)).count();
        assert!((60..140).contains(&shared), "{shared} of 1600 slots, a sixteenth is 100");
    }

    #[test]
    fn a_bucket_counts_up_to_the_part_and_its_namespace_is_a_holder_before_it_holds_anything() {
        let slot = (0..9).find(|slot| bucket_of(1, *slot) != bucket_of(2, *slot)).unwrap();
        let mut sketch = NamespaceWeights::new();
        assert_eq!((sketch.effective(100), sketch.holders_with(1, slot)), (0, 1));
        (0..100).for_each(|_| sketch.add(1, slot, 8, 3));
        assert_eq!((sketch.weights(1, slot), sketch.weights(2, slot)), ((800, 300), (0, 0)));
        assert_eq!((sketch.effective(400), sketch.effective(u16::MAX)), (400, 800));
        assert_eq!((sketch.holders_with(1, slot), sketch.holders_with(2, slot)), (1, 2));
        sketch.add(2, slot, 8, 8);
        assert_eq!((sketch.effective(400), sketch.holders_with(1, slot)), (408, 2));
    }
}
