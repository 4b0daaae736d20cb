//! How long requests keep a place: what a request is charged when its work begins.
//!
//! A queue shares the time of places, not the units of a limit, which are whatever the caller or
//! its upstream says. A request is charged the recent average of its tenant, or else the typical
//! time of the resource, and the difference once its work has ended.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Cost, Timestamp};

use crate::namespaces::NAMESPACES_MAX;

/// The tenants of a namespace whose averages are kept; two tenants of one place in the table
/// replace each other.
const TENANTS: usize = 64;
/// A new time weighs so much in an average.
const GAIN: f64 = 0.25;
/// A charge is never below this part of the typical time, so that settling at once is not free.
const LEAST_PART: u32 = 10;
/// The typical time before one is known.
const UNKNOWN: Duration = Duration::from_millis(1);
/// Averages of a namespace that were not asked for or changed for so long are forgotten.
const FORGET_AFTER: Duration = Duration::from_mins(1);

/// The typical time of a resource, and the recent averages of its tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceTimes {
    typical: Duration,
    by_namespace: BTreeMap<u32, NamespaceTimes>,
}

#[derive(Clone, Debug)]
struct NamespaceTimes {
    tenants: Box<[Option<TenantTime>; TENANTS]>,
    changed_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct TenantTime {
    tenant: Option<u64>,
    micros: f64,
}

impl PlaceTimes {
    /// Sets the typical time that the resource takes for one request; zero: it is not known.
    pub(super) const fn set_typical(&mut self, time: Duration) {
        self.typical = time;
    }

    /// The typical time; zero: it is not known.
    pub(super) const fn typical(&self) -> Duration {
        self.typical
    }

    /// The charge of a request of the typical time, in microseconds of a place.
    pub(super) fn typical_charge(&self) -> u64 {
        let typical = if self.typical.is_zero() { UNKNOWN } else { self.typical };
        micros(typical)
    }

    /// The charge of a request of a tenant when its work begins.
    pub(super) fn estimate(&self, namespace: u32, tenant: Option<u64>) -> Cost {
        let times = self.by_namespace.get(&namespace);
        let known = times.and_then(|times| times.tenants[place_of(tenant)]);
        let known = known.filter(|known| known.tenant == tenant);
        self.charge(known.map_or(0, |known| known.micros as u64), known.is_none())
    }

    /// The charge of a request whose work took so long. Its tenant's average learns it.
    pub(super) fn learn(
        &mut self,
        namespace: u32,
        tenant: Option<u64>,
        held: Duration,
        now: Timestamp,
    ) -> Cost {
        let micros = micros(held);
        if self.by_namespace.len() < NAMESPACES_MAX || self.by_namespace.contains_key(&namespace) {
            let new = || NamespaceTimes { tenants: Box::new([None; TENANTS]), changed_at: now };
            let times = self.by_namespace.entry(namespace).or_insert_with(new);
            times.changed_at = now;
            let slot = &mut times.tenants[place_of(tenant)];
            let before = slot.filter(|known| known.tenant == tenant);
            let average =
                before.map_or(micros as f64, |known| known.micros + (micros as f64 - known.micros) * GAIN);
            *slot = Some(TenantTime { tenant, micros: average });
        }
        self.charge(micros, false)
    }

    /// Forgets namespaces of which no work has ended for a while.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.by_namespace.retain(|_, times| now.saturating_since(times.changed_at) < FORGET_AFTER);
    }

    fn charge(&self, micros: u64, is_unknown: bool) -> Cost {
        let typical = self.typical_charge();
        let charge = if is_unknown { typical } else { micros.max(typical / u64::from(LEAST_PART)) };
        Cost::new(charge.min(u64::from(u32::MAX))).unwrap_or(Cost::ONE)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The place of a tenant in the table of its namespace. The tenant is a keyed hash already.
const fn place_of(tenant: Option<u64>) -> usize {
    match tenant {
        Some(hash) => (hash >> 32) as usize % TENANTS,
        None => 0,
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);
    const MS: Duration = Duration::from_millis(1);

    fn units(cost: Cost) -> u64 {
        cost.units()
    }

    #[test]
    fn a_tenant_is_charged_its_recent_average_and_an_unknown_one_the_typical_time() {
        let mut times = PlaceTimes::default();
        assert_eq!(units(times.estimate(1, Some(7))), 1_000, "nothing is known");
        times.set_typical(20 * MS);
        assert_eq!(units(times.estimate(1, Some(7))), 20_000);
        for _ in 0..20 {
            times.learn(1, Some(7), 80 * MS, NOW);
        }
        assert_eq!(units(times.estimate(1, Some(7))), 80_000);
        assert_eq!(units(times.estimate(1, Some(8))), 20_000, "another tenant");
        assert_eq!(units(times.estimate(2, Some(7))), 20_000, "the tenant of another namespace");
        times.forget(NOW.saturating_add(FORGET_AFTER));
        assert_eq!(units(times.estimate(1, Some(7))), 20_000);
    }

    #[test]
    fn work_that_ends_at_once_is_charged_a_tenth_of_the_typical_time_and_the_longest_fits() {
        let mut times = PlaceTimes::default();
        times.set_typical(20 * MS);
        assert_eq!(units(times.learn(1, None, Duration::ZERO, NOW)), 2_000);
        assert_eq!(units(times.estimate(1, None)), 2_000);
        assert_eq!(units(times.learn(1, None, Duration::MAX, NOW)), u64::from(u32::MAX));
    }
}
