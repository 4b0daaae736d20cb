//! How much of a slot tenants hold, in a fixed number of counters.

use super::typical_cost::WEIGHT_MIN;
use crate::cursor::hash::keyed_hash;

/// The counters of a slot.
pub(crate) const BUCKETS: usize = 64;

/// The weights that the tenants of a slot hold, in quarters of a request: the tenants of a bucket
/// share a counter.
///
/// The bucket of a tenant depends on the slot, so two tenants that share a counter in one slot are
/// apart in the next. A counter stops at 255 quarters. That is exact for every question asked here:
/// a tenant's part is at most 200 quarters, and a counter matters only up to the part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TenantSketch([u8; BUCKETS]);

impl TenantSketch {
    /// The counters of a slot of which no ticket is sold.
    pub(crate) const fn new() -> Self {
        Self([0; BUCKETS])
    }

    /// The weight in the bucket of the tenant.
    pub(crate) fn weight(&self, tenant: u64, slot: u64) -> u16 {
        self.0[bucket_of(tenant, slot)].into()
    }

    /// Adds a ticket of the tenant; the weight by which its bucket grew, counted up to `part`.
    pub(crate) fn add(&mut self, tenant: u64, slot: u64, weight: u16, part: u16) -> u16 {
        let held = &mut self.0[bucket_of(tenant, slot)];
        let before = u16::from(*held).min(part);
        *held = held.saturating_add(u8::try_from(weight).unwrap_or(u8::MAX));
        u16::from(*held).min(part) - before
    }

    /// The sum of all buckets, each counted up to `part` quarters.
    pub(crate) fn effective(&self, part: u16) -> u16 {
        let part = u8::try_from(part).unwrap_or(u8::MAX);
        self.0.iter().map(|held| u16::from(*held.min(&part))).sum()
    }
}

/// The bucket of a tenant in a slot.
fn bucket_of(tenant: u64, slot: u64) -> usize {
    keyed_hash([tenant, slot], None) as usize % BUCKETS
}

// A bucket of one ticket of the least weight is not at its end.
const _: () = assert!(WEIGHT_MIN < u8::MAX as u16);

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn two_tenants_that_share_a_bucket_in_one_slot_seldom_share_it_in_another() {
        let shared = (0..6_400).filter(|slot| bucket_of(1, *slot) == bucket_of(2, *slot)).count();
        assert!((60..140).contains(&shared), "{shared} of 6400 slots, a 64th is 100");
    }

    #[test]
    fn a_bucket_counts_up_to_the_part() {
        let mut sketch = TenantSketch::new();
        assert_eq!([(); 3].map(|()| sketch.add(1, 7, 8, 20)), [8, 8, 4]);
        (3..100).for_each(|_| _ = sketch.add(1, 7, 8, 20));
        assert_eq!(sketch.weight(1, 7), 255);
        assert_eq!((sketch.effective(4), sketch.effective(200)), (4, 200));
        sketch.add(2, 7, 8, 20);
        assert_eq!((sketch.effective(4), sketch.effective(200)), (8, 208));
    }
}
