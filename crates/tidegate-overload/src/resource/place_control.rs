//! Unsettled places that expire, and the bounds of the namespaces that are held back after it.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

use super::{ACTIVE, Resource, ResourceControl};
use crate::cursor::cursor_positions::PromisedParts;
use crate::cursor::namespace_slots::NamespaceTick;
use crate::namespaces::NamespaceKey;
use crate::places::place_bounds::PlaceBounds;
use crate::places::unsettled_places::{NamespaceClaim, OverduePlace, UnsettledPlaces};
use crate::queue::waiting_room::WaitingNamespaces;
use crate::sync::{MutexGuard, Ordering, lock};

/// For so long at least a namespace is held back to its part that has overstayed, or whose
/// unsettled place has expired.
const HELD_BACK: Duration = Duration::from_mins(1);
/// The same for one that has overstayed, in terms of how long that lasted: others lack places for
/// an eleventh of the time at most.
const OVERSTAY_TIMES: u32 = 10;

impl Resource {
    /// The places whose end only their callers tell.
    pub(crate) fn unsettled(&self) -> MutexGuard<'_, UnsettledPlaces> {
        lock(&self.unsettled)
    }

    /// Takes out the unsettled places of a resource that are to expire now, as many as `waiting`
    /// requests of namespaces below their part lack. Such a place belongs to a namespace beyond its
    /// part of the places, and is older than a second and than ten times the typical time of the
    /// work that this namespace has settled there. The owner of each gives its place back, and
    /// [counts](Self::count_expired_place) it.
    pub fn take_overdue_places(&self, waiting: &WaitingNamespaces, now: Timestamp) -> Vec<OverduePlace> {
        let mut by_key: BTreeMap<NamespaceKey, (u64, u64)> = BTreeMap::new();
        self.namespaces.places().for_each(|(_, key, places)| by_key.entry(key).or_default().0 += places);
        let control = lock(&self.control);
        for (key, refused) in &control.refused {
            by_key.entry(*key).or_default().1 += refused;
        }
        for (key, waiting) in waiting.iter() {
            let key = match key {
                NamespaceKey::Exact(number) => self.namespaces.key_of(number),
                NamespaceKey::Rest => NamespaceKey::Rest,
            };
            // A request that was refused, or found no place, may wait now.
            let claim = &mut by_key.entry(key).or_default().1;
            *claim = (*claim).max(waiting);
        }
        let claims = by_key.into_iter().map(|(namespace, (places, waiting))| {
            let weight = control.shares.weight(namespace);
            NamespaceClaim { namespace, places, waiting, weight }
        });
        let claims: Vec<_> = claims.collect();
        let typical = control.service_times.typical();
        drop(control);
        let key_of = |namespace| self.namespaces.key_of(namespace);
        let (mut unsettled, places) = (self.unsettled(), self.in_flight.max());
        for overstay in unsettled.overstays(&claims, key_of, places, now) {
            let held_back = overstay.lasted.saturating_mul(OVERSTAY_TIMES).max(HELD_BACK);
            self.namespaces.hold_back(overstay.namespace, now.saturating_add(held_back));
        }
        unsettled.take_overdue(&claims, key_of, places, typical, now)
    }

    /// Whether unsettled places of a resource may have to expire; `has_waiting`: requests wait for
    /// one.
    pub fn may_have_overdue(&self, has_waiting: bool) -> bool {
        (has_waiting || !lock(&self.control).refused.is_empty()) && !self.unsettled().is_empty()
    }

    /// Whether a namespace may have more places of a resource since the last call: the next request
    /// that waits for one is to be called.
    pub fn take_bound_raised(&self) -> bool {
        core::mem::take(&mut lock(&self.control).is_bound_raised)
    }

    /// The bounds on the places of the namespaces at a resource, for its fair queue.
    pub fn place_bounds(&self) -> PlaceBounds {
        PlaceBounds::new(Arc::clone(&self.namespaces))
    }

    /// Sets the most places of each namespace that is held back: its part among those that have
    /// places or have asked for one in the last second.
    pub(super) fn bound_places(&self, control: &mut ResourceControl, now: Timestamp) {
        if !self.namespaces.has_bounds(now) {
            return;
        }
        // Other lines have no order that could pass over a namespace.
        let has_queue = control.config.queue.is_some();
        let mut active: BTreeMap<usize, NamespaceKey> =
            self.namespaces.places().map(|(slot, key, _)| (slot, key)).collect();
        let is_recent = |at: &Timestamp| now.saturating_since(*at) <= ACTIVE;
        active.extend(
            control.asked.iter().filter(|(_, (_, at))| is_recent(at)).map(|(slot, (key, _))| (*slot, *key)),
        );
        let weight = |key: NamespaceKey| u64::from(control.shares.weight(key));
        let weights: u64 = active.values().map(|key| weight(*key)).sum();
        let places = self.in_flight.max();
        let is_raised = self.namespaces.bound_all_places(now, |slot, key| {
            // The slot may have got another namespace since it asked.
            let own = if active.contains_key(&slot) { weight(key) } else { 0 };
            let others = weights.saturating_sub(own);
            if others == 0 || !has_queue {
                u64::MAX
            } else {
                (places * weight(key) / (others + weight(key))).max(1)
            }
        });
        control.is_bound_raised |= is_raised;
    }

    /// Bounds the namespaces and classes to their parts of the places while one that does not wait
    /// lacks its part.
    pub(super) fn bound_parts(&self, control: &mut ResourceControl, ticks: &[NamespaceTick], now: Timestamp) {
        let config = control.config.queue.unwrap_or_default();
        let parts = PromisedParts { config: &config, shares: &control.shares };
        let typical = control.service_times.typical();
        let (in_use, places) = (|slot| self.namespaces.places_of(slot), self.in_flight.max());
        let bounds = control.place_parts.tick(ticks, in_use, parts, places, typical, now);
        if control.has_part_bounds || !bounds.is_empty() {
            control.is_bound_raised |= self.namespaces.bound_places(&bounds);
        }
        control.has_part_bounds = !bounds.is_empty();
    }

    /// Counts an unsettled place that has expired.
    pub fn count_expired_place(&self, namespace: u32, now: Timestamp) {
        self.namespaces.hold_back(namespace, now.saturating_add(HELD_BACK));
        self.places_expired.fetch_add(1, Ordering::Relaxed);
    }

    /// The unsettled places that have expired.
    pub(crate) fn places_expired(&self) -> u64 {
        self.places_expired.load(Ordering::Relaxed)
    }
}
