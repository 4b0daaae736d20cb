//! The admission cursor: the least important request that is still served.
//!
//! A request's level is its class times [`COHORTS`] plus its cohort, a keyed hash of the tenant
//! that changes every hour. Levels below the cursor are shed. A class is therefore shed only after
//! all lower ones are, and within a class whole tenants are, rather than a part of each tenant's
//! requests: a task of many calls is served wholly or not at all.
//!
//! Source: the compound priorities of DAGOR (`WeChat`, `SoCC`'18), with its step rule replaced by a
//! decrease in proportion to how far pressure is over target (Breakwater, OSDI'20) and an opening
//! in one step.

use tidegate_core::{Class, Timestamp};

use crate::hash::keyed_hash;

/// Cohorts of each class.
pub const COHORTS: u16 = 128;
/// Levels of all classes.
pub(crate) const LEVELS: usize = Class::ALL.len() * COHORTS as usize;

const HOUR_NS: u64 = 3_600_000_000_000;

/// A position between "all requests are served" and "only the most important class is".
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

    /// The lowest position that takes in no more than `allowed` of the offered cost (by level), and
    /// the rest of the level in which this amount ends.
    ///
    /// Rounded toward open: a class in which one tenant makes all the demand is then bounded by the
    /// queue, never shed as a whole while places are idle.
    pub(crate) fn for_allowance(offered: impl Fn(usize) -> f64, allowed: f64) -> Self {
        let mut served = 0.0;
        for level in (0..LEVELS).rev() {
            let cost = offered(level);
            if cost > 0.0 && served >= allowed {
                return Self::at(level as u16 + 1);
            }
            served += cost;
        }
        Self::OPEN
    }

    /// The lowest position that takes in no more than `allowed` of the offered cost (by level): the
    /// level that no longer fits is shed whole. For a resource without a queue, where nothing else
    /// bounds that level.
    pub(crate) fn within_allowance(offered: impl Fn(usize) -> f64, allowed: f64) -> Self {
        let mut served = 0.0;
        for level in (0..LEVELS).rev() {
            served += offered(level);
            if served > allowed {
                return Self::at(level as u16 + 1);
            }
        }
        Self::OPEN
    }
}

/// The level of a request: its class, and within it the cohort of its tenant in one hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLevel {
    class: Class,
    /// Below [`COHORTS`].
    cohort: u8,
}

impl RequestLevel {
    /// The level of a request at `now`; planes of one seed agree on it.
    #[inline]
    pub(crate) fn of(class: Class, tenant: Option<&str>, seed: u64, now: Timestamp) -> Self {
        Self { class, cohort: (level_of(class, tenant, seed, now) % COHORTS) as u8 }
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

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    #[test]
    fn the_most_important_levels_are_served_first() {
        // Ten units in the first cohort of each of the four classes.
        let offered = |level: usize| if level.is_multiple_of(usize::from(COHORTS)) { 10.0 } else { 0.0 };
        let for_allowance = |allowed: f64| Cursor::for_allowance(offered, allowed);
        assert_eq!(for_allowance(40.0), Cursor::OPEN);
        assert_eq!(for_allowance(31.0), Cursor::OPEN, "the level that fits in part is served");
        assert_eq!(for_allowance(30.0).level(), 1);
        assert_eq!(for_allowance(20.0).level(), COHORTS + 1);
        assert_eq!(for_allowance(0.5).level(), 2 * COHORTS + 1);
        assert_eq!(for_allowance(0.0), Cursor::CLOSED, "the most important class stays");
    }

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
