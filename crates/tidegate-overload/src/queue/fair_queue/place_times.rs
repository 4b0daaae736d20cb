//! How long requests keep a place: what a request is charged when its work begins.
//!
//! A queue shares the time of places, not the units of a limit, which are whatever the caller or
//! its upstream says. A request is charged the recent average of its tenant, or else the typical
//! time of the resource, and the difference once its work has ended.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Cost, Timestamp};

use crate::namespaces::{NAMESPACES_MAX, NamespaceKey};
use crate::places::service_times::ServiceTimes;

/// The tenants of a namespace whose averages are kept. Of two tenants of one place in the table the
/// one whose work takes more time in all keeps it: each time of the other takes as much away.
const TENANTS: usize = 64;
/// The last so many times of a tenant count in its average.
const TIMES: f64 = 64.0;
/// The times after which an average is more than chance.
const TIMES_MIN: f64 = 8.0;
/// An average that is off the typical time by no more than this factor is off by chance.
const CHANCE: f64 = 1.5;
/// A charge is never below this part of the typical time, so that settling at once is not free.
const LEAST_PART: u64 = 10;
/// The typical time before one is known.
const UNKNOWN: Duration = Duration::from_millis(1);
/// Averages of a namespace that were not asked for or changed for so long are forgotten.
const FORGET_AFTER: Duration = Duration::from_mins(1);

/// The typical time of a resource, and the recent averages of its tenants.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceTimes {
    service: ServiceTimes,
    by_namespace: BTreeMap<u32, NamespaceTimes>,
    by_class: [Option<RecentTime>; Class::ALL.len()],
}

#[derive(Clone, Debug)]
struct NamespaceTimes {
    tenants: Box<[Option<TenantTime>; TENANTS]>,
    changed_at: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct TenantTime {
    tenant: Option<u64>,
    time: RecentTime,
}

/// A recent average.
#[derive(Clone, Copy, Debug)]
struct RecentTime {
    micros: f64,
    /// The times in the average, at most [`TIMES`].
    count: f64,
}

impl RecentTime {
    /// The average with one more time.
    fn with(before: Option<Self>, micros: f64) -> Self {
        let before = before.unwrap_or(Self { micros: 0.0, count: 0.0 });
        let count = (before.count + 1.0).min(TIMES);
        Self { micros: before.micros + (micros - before.micros) / count, count }
    }
}

/// The charges of a request whose work has ended, in microseconds of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaceCharge {
    /// That of its tenant and that of its class: the average of each, so that one request that
    /// takes long by chance is not held against them.
    pub(super) tenant: Cost,
    pub(super) class: Cost,
    /// That of its namespace: the time itself, which no change of names hides.
    pub(super) namespace: Cost,
}

impl PlaceTimes {
    /// Sets how long the resource takes for one request.
    pub(super) fn set_typical(&mut self, times: ServiceTimes) {
        self.service = times;
    }

    /// The typical time; zero: it is not known.
    pub(super) const fn typical(&self) -> Duration {
        self.service.typical()
    }

    /// The typical time of the requests of a namespace; zero: it is not known.
    pub(super) fn typical_of(&self, namespace: NamespaceKey) -> Duration {
        self.service.of(namespace)
    }

    /// The charge of a request of the typical time, in microseconds of a place.
    pub(super) fn typical_charge(&self) -> u64 {
        let typical = if self.typical().is_zero() { UNKNOWN } else { self.typical() };
        micros(typical)
    }

    /// The charge of a request of a tenant when its work begins.
    pub(super) fn estimate(&self, namespace: u32, tenant: Option<u64>) -> Cost {
        let times = self.by_namespace.get(&namespace);
        self.average_charge(times.and_then(|times| times.of(tenant)).map(|known| known.time))
    }

    /// The charges of a request whose work took so long. The averages of its tenant and class learn
    /// it.
    pub(super) fn learn(
        &mut self,
        namespace: u32,
        tenant: Option<u64>,
        class: Class,
        held: Duration,
        now: Timestamp,
    ) -> PlaceCharge {
        let micros = micros(held).min(u64::from(u32::MAX));
        let mut known = None;
        if self.by_namespace.len() < NAMESPACES_MAX || self.by_namespace.contains_key(&namespace) {
            let new = || NamespaceTimes { tenants: Box::new([None; TENANTS]), changed_at: now };
            let times = self.by_namespace.entry(namespace).or_insert_with(new);
            times.changed_at = now;
            known = times.learn(tenant, micros as f64);
        }
        let actual = cost_of(micros.max(self.typical_charge() / LEAST_PART));
        let of_class = &mut self.by_class[class as usize];
        *of_class = Some(RecentTime::with(*of_class, micros as f64));
        let class = self.average_charge(self.by_class[class as usize]);
        let tenant = self.average_charge(known.map(|known| known.time));
        PlaceCharge { tenant, class, namespace: actual }
    }

    fn average_charge(&self, known: Option<RecentTime>) -> Cost {
        let typical = self.typical_charge();
        let Some(known) = known.filter(|known| known.count >= TIMES_MIN) else { return cost_of(typical) };
        let factor = known.micros / typical as f64;
        let is_chance = (1.0 / CHANCE..=CHANCE).contains(&factor);
        cost_of(if is_chance { typical } else { (known.micros as u64).max(typical / LEAST_PART) })
    }

    /// Forgets namespaces of which no work has ended for a while.
    pub(super) fn forget(&mut self, now: Timestamp) {
        self.by_namespace.retain(|_, times| now.saturating_since(times.changed_at) < FORGET_AFTER);
    }
}

impl NamespaceTimes {
    /// Adds a time of a tenant; its average, unless another tenant has its place in the table.
    fn learn(&mut self, tenant: Option<u64>, micros: f64) -> Option<TenantTime> {
        let place = &mut self.tenants[place_of(tenant)];
        let other = place.as_mut().filter(|known| known.tenant != tenant && known.time.count > 0.0);
        if let Some(other) = other {
            other.time.count -= micros / other.time.micros.max(1.0);
            return None;
        }
        let before = place.filter(|known| known.tenant == tenant).map(|known| known.time);
        *place = Some(TenantTime { tenant, time: RecentTime::with(before, micros) });
        *place
    }

    /// The average of a tenant.
    fn of(&self, tenant: Option<u64>) -> Option<TenantTime> {
        self.tenants[place_of(tenant)].filter(|known| known.tenant == tenant)
    }
}

fn cost_of(micros: u64) -> Cost {
    Cost::new(micros.min(u64::from(u32::MAX))).unwrap_or(Cost::ONE)
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
    const CLASS: Class = Class::Critical;

    fn units(cost: Cost) -> u64 {
        cost.units()
    }

    #[test]
    fn a_tenant_is_charged_its_recent_average_and_an_unknown_one_the_typical_time() {
        let mut times = PlaceTimes::default();
        assert_eq!(units(times.estimate(1, Some(7))), 1_000, "nothing is known");
        times.set_typical(ServiceTimes::typical_of_all(20 * MS));
        assert_eq!(units(times.estimate(1, Some(7))), 20_000);
        for _ in 0..20 {
            times.learn(1, Some(7), CLASS, 80 * MS, NOW);
        }
        assert_eq!(units(times.estimate(1, Some(7))), 80_000);
        assert_eq!(units(times.estimate(1, Some(8))), 20_000, "another tenant");
        assert_eq!(units(times.estimate(2, Some(7))), 20_000, "the tenant of another namespace");
        times.forget(NOW.saturating_add(FORGET_AFTER));
        assert_eq!(units(times.estimate(1, Some(7))), 20_000);
    }

    #[test]
    fn among_more_tenants_than_averages_one_that_takes_long_is_charged_for_it() {
        let mut times = PlaceTimes::default();
        times.set_typical(ServiceTimes::typical_of_all(10 * MS));
        let mut charged = 0;
        for round in 0..40 {
            for tenant in 0..300_u64 {
                let held = if tenant == 7 { 500 * MS } else { 10 * MS };
                let charge =
                    times.learn(1, Some(tenant.wrapping_mul(0x9e37_79b9_7f4a_7c15)), CLASS, held, NOW);
                if tenant == 7 && round >= 20 {
                    charged += units(charge.tenant);
                }
            }
        }
        assert!(charged >= 20 * 400_000, "{charged} of 20 times 500 ms");
    }

    #[test]
    fn a_class_whose_work_takes_long_is_charged_for_it_whatever_its_tenants_are_called() {
        let mut times = PlaceTimes::default();
        times.set_typical(ServiceTimes::typical_of_all(10 * MS));
        let charges: Vec<_> =
            (0..100).map(|tenant| units(times.learn(1, Some(tenant), CLASS, 30 * MS, NOW).class)).collect();
        assert_eq!((charges[0], charges[99]), (10_000, 30_000));
        let other = times.learn(1, Some(7), Class::Sheddable, 10 * MS, NOW);
        assert_eq!(units(other.class), 10_000);
    }

    #[test]
    fn a_few_long_requests_of_a_tenant_are_chance_and_charged_to_its_namespace_alone() {
        let mut times = PlaceTimes::default();
        times.set_typical(ServiceTimes::typical_of_all(20 * MS));
        let first = times.learn(1, Some(7), CLASS, 100 * MS, NOW);
        assert_eq!((units(first.tenant), units(first.namespace)), (20_000, 100_000));
        (0..40).for_each(|_| _ = times.learn(1, Some(7), CLASS, 28 * MS, NOW));
        assert_eq!(units(times.estimate(1, Some(7))), 20_000, "less than half more is chance");
    }

    #[test]
    fn work_that_ends_at_once_is_charged_a_tenth_of_the_typical_time_and_the_longest_fits() {
        let mut times = PlaceTimes::default();
        times.set_typical(ServiceTimes::typical_of_all(20 * MS));
        let mut ends = |held| (0..8).map(|_| times.learn(1, None, CLASS, held, NOW)).last().unwrap();
        let ended = ends(Duration::ZERO);
        assert_eq!((ended.tenant, ended.namespace), (cost_of(2_000), cost_of(2_000)));
        let longest = ends(Duration::MAX);
        assert_eq!(units(longest.namespace), u64::from(u32::MAX));
        assert!(units(longest.tenant) > u64::from(u32::MAX) / 3, "{longest:?}");
    }
}
