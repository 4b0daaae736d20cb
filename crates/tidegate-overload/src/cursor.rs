//! The admission cursor: the least important request that is still served.
//!
//! A request's level is its class times [`COHORTS`] plus its cohort, a keyed hash of the tenant
//! that changes every hour. Each namespace has a cursor in each class, and the levels of the class
//! below it are shed. A class or a namespace is shed only for what it asks for beyond its part of
//! the capacity (`capacity_parts`), and within it whole
//! tenants are, rather than a part of each tenant's requests: a task of many calls is served wholly
//! or not at all.
//!
//! Source: the compound priorities of DAGOR (`WeChat`, `SoCC`'18), with its step rule replaced by a
//! decrease in proportion to how far pressure is over target (Breakwater, OSDI'20) and an opening
//! in one step.

#![expect(
    clippy::cast_precision_loss,
    reason = "costs and microseconds are far below 2^53, and their means are rough numbers"
)]

pub(crate) mod allowance;
pub(crate) mod capacity_parts;
pub(crate) mod cursor_control;
pub(crate) mod cursor_positions;
pub(crate) mod fair_demand;
pub(crate) mod hash;
pub(crate) mod marginal_rank;
pub(crate) mod namespace_cursor;
pub(crate) mod namespace_demand;
pub(crate) mod namespace_slots;

use tidegate_core::{Class, Timestamp};

use crate::cursor::hash::keyed_hash;

/// Cohorts of each class.
pub const COHORTS: u16 = 128;
/// Levels of all classes.
pub(crate) const LEVELS: usize = Class::ALL.len() * COHORTS as usize;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A position between "all requests are served" and "only the most important class is", for the
/// requests of one namespace and class: those of the class at levels below it are shed. A position
/// that an operator [pins](crate::Resource::pin) holds for all namespaces and classes.
///
/// ```
/// # use tidegate_core::Class;
/// # use tidegate_overload::{COHORTS, Cursor};
/// // All classes below critical are shed, and half of the tenants of that class.
/// let cursor = Cursor::at(Class::Critical as u16 * COHORTS + COHORTS / 2);
/// assert_eq!((cursor.class(), cursor.cohort()), (Class::Critical, 64));
/// assert!(Cursor::OPEN < cursor && cursor < Cursor::CLOSED);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(u16);

impl Cursor {
    /// All requests are served.
    pub const OPEN: Self = Self(0);
    /// Only [`Class::CriticalPlus`] is served; the cursor sheds none of it.
    pub const CLOSED: Self = Self((Class::ALL.len() as u16 - 1) * COHORTS);

    /// The position at `level`, at most [`Cursor::CLOSED`].
    pub fn at(level: u16) -> Self {
        Self(level.min(Self::CLOSED.0))
    }

    /// The position as a number: 0 is open.
    pub const fn level(self) -> u16 {
        self.0
    }

    /// The class of the least important request that is still served.
    pub fn class(self) -> Class {
        Class::ALL[usize::from(self.0 / COHORTS)]
    }

    /// The lowest cohort of that class that is still served.
    pub const fn cohort(self) -> u16 {
        self.0 % COHORTS
    }
}

/// The level of a request: its class, and within it the cohort of its tenant in one hour; and the
/// namespace, whose cursor it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLevel {
    namespace: u32,
    class: Class,
    /// Below [`COHORTS`].
    cohort: u8,
}

impl RequestLevel {
    /// The level of a request at `now`; planes of one seed agree on it.
    #[inline]
    pub(crate) fn new(namespace: u32, class: Class, tenant: Option<&str>, seed: u64, now: Timestamp) -> Self {
        Self { namespace, class, cohort: (level_of(class, tenant, seed, now) % COHORTS) as u8 }
    }

    /// The level of a request of the same class that is so many cohorts higher, at most the highest
    /// one of the class.
    #[must_use]
    pub fn raised_by(self, cohorts: u8) -> Self {
        let highest = COHORTS as u8 - 1;
        Self { cohort: self.cohort.saturating_add(cohorts).min(highest), ..self }
    }

    /// The number of the namespace of the request.
    pub const fn namespace(self) -> u32 {
        self.namespace
    }

    /// The cohort of its tenant, below [`COHORTS`].
    pub const fn cohort(self) -> u16 {
        self.cohort as u16
    }

    /// The class of the request.
    pub const fn class(self) -> Class {
        self.class
    }

    /// The level as a number, which compares with that of a [`Cursor`].
    pub const fn number(self) -> u16 {
        self.class as u16 * COHORTS + self.cohort as u16
    }
}

/// The number of a [`RequestLevel`].
#[inline]
pub(crate) fn level_of(class: Class, tenant: Option<&str>, seed: u64, now: Timestamp) -> u16 {
    let hour = now.as_nanos() / HOUR_NS;
    let cohort = (keyed_hash([seed, hour], tenant) >> 32) as u16 % COHORTS;
    class as u16 * COHORTS + cohort
}

/// When the tenants change their cohorts next: at the full hour.
pub fn cohorts_change(now: Timestamp) -> Timestamp {
    Timestamp::from_nanos((now.as_nanos() / HOUR_NS).saturating_add(1).saturating_mul(HOUR_NS))
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_changes_its_cohort_every_hour_and_not_within_it() {
        let at = |hour: u64, minute: u64| {
            level_of(Class::Critical, Some("t"), 1, Timestamp::from_secs(hour * 3600 + minute * 60))
        };
        assert_eq!(at(10, 0), at(10, 59));
        let distinct: std::collections::BTreeSet<_> = (0..24).map(|hour| at(hour, 0)).collect();
        assert!(distinct.len() > 12, "{} cohorts in 24 hours", distinct.len());
        assert!(distinct.iter().all(|level| level / COHORTS == Class::Critical as u16));
    }

    #[test]
    fn tenants_spread_over_the_cohorts_and_another_seed_spreads_them_otherwise() {
        let now = Timestamp::from_secs(1_800_000_000);
        let cohort = |tenant: u32, seed| level_of(Class::Sheddable, Some(&tenant.to_string()), seed, now);
        let mut counts = [0_u32; COHORTS as usize];
        for tenant in 0..12_800 {
            counts[usize::from(cohort(tenant, 7))] += 1;
        }
        // 100 expected; six standard deviations either side.
        assert!(counts.iter().all(|count| (40..=160).contains(count)), "{counts:?}");
        let same = (0..12_800).filter(|tenant| cohort(*tenant, 7) == cohort(*tenant, 8)).count();
        assert!(same < 200, "{same} of 12800 tenants, where chance has 100");
    }
}
