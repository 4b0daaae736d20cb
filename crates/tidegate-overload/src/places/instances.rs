//! The instances of one resource that report themselves, and the places they are worth.
//!
//! An instance is one copy of what a resource protects, such as a server behind a load balancer.
//! Without an instance that is alive nothing is known about the resource, and its configured bound
//! holds. The same bound holds for one [`INSTANCE_TTL`] after the first report, because the others
//! have not had the time to report: a daemon that restarts in front of fifty instances must not
//! shed as if there were one.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::Timestamp;

/// An instance that has not reported for so long counts as gone. Instances report about three times
/// as often.
pub const INSTANCE_TTL: Duration = Duration::from_secs(30);
/// The most instances of one resource that are alive at once. A report of one more is an error, and
/// the instance gets no places.
pub const INSTANCES_MAX: usize = 1024;
/// The longest name of an instance in bytes; a longer one is an error.
pub const INSTANCE_NAME_BYTES_MAX: usize = 128;

/// The state that an instance reports of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InstanceState {
    /// It serves requests, for [`INSTANCE_TTL`] unless it reports again.
    Alive,
    /// It is going away: its places are gone at once.
    Gone,
}

/// A report of an instance that cannot be taken in. It changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InstanceError {
    /// The bound of the resource does not depend on instances.
    #[error(
        "{} does not scale with its instances; configure it with `ResourceConfig::places_per_instance`, or do not \
         report instances of it",
        shown(resource.as_deref())
    )]
    NotScaled {
        /// The name of the resource; `None` for the default resource.
        resource: Option<Arc<str>>,
    },
    /// As many instances are alive as may be.
    #[error(
        "{} has {max} instances already; report at most so many, each for more places",
        shown(resource.as_deref()),
        max = INSTANCES_MAX
    )]
    TooManyInstances {
        /// The name of the resource; `None` for the default resource.
        resource: Option<Arc<str>>,
    },
    /// The name of the instance is empty or too long.
    #[error("the name of an instance has {bytes} bytes; use 1 to {max}", max = INSTANCE_NAME_BYTES_MAX)]
    Name {
        /// The length of the name.
        bytes: usize,
    },
}

fn shown(resource: Option<&str>) -> String {
    resource.map_or_else(|| "the default resource".to_owned(), |name| format!("resource \"{name}\""))
}

/// The instances of one resource.
#[derive(Debug)]
pub(crate) struct InstanceSet {
    places_each: u64,
    places_max: u64,
    /// Each instance that is alive, with the end of its time.
    alive: BTreeMap<Box<str>, Timestamp>,
    /// No instance expires before.
    first_expiry: Timestamp,
    /// The end of the time in which instances that have not reported may exist.
    learning_until: Timestamp,
}

impl InstanceSet {
    /// No instance yet. Each one is worth `places_each`; all of them at most `places_max`.
    pub(crate) const fn new(places_each: u64, places_max: u64) -> Self {
        Self {
            places_each,
            places_max,
            alive: BTreeMap::new(),
            first_expiry: Timestamp::MAX,
            learning_until: Timestamp::MIN,
        }
    }

    /// The places that one instance is worth, and the places that all of them are worth at most.
    pub(crate) const fn settings(&self) -> (u64, u64) {
        (self.places_each, self.places_max)
    }

    /// Takes in a report; `resource` is for the error.
    pub(crate) fn report(
        &mut self,
        resource: Option<&Arc<str>>,
        name: &str,
        state: InstanceState,
        now: Timestamp,
    ) -> Result<(), InstanceError> {
        if !(1..=INSTANCE_NAME_BYTES_MAX).contains(&name.len()) {
            return Err(InstanceError::Name { bytes: name.len() });
        }
        self.expire(now);
        if state == InstanceState::Gone {
            self.alive.remove(name);
            return Ok(());
        }
        let until = now.saturating_add(INSTANCE_TTL);
        if let Some(known) = self.alive.get_mut(name) {
            *known = until;
            return Ok(());
        }
        if self.alive.len() >= INSTANCES_MAX {
            return Err(InstanceError::TooManyInstances { resource: resource.cloned() });
        }
        if self.alive.is_empty() {
            self.learning_until = until;
        }
        self.first_expiry = self.first_expiry.min(until);
        self.alive.insert(name.into(), until);
        Ok(())
    }

    /// The places of all instances at `now`, 1 to the configured bound.
    pub(crate) fn places(&mut self, now: Timestamp) -> u64 {
        self.expire(now);
        if self.alive.is_empty() || now < self.learning_until {
            return self.places_max;
        }
        self.places_each.saturating_mul(self.alive.len() as u64).clamp(1, self.places_max)
    }

    /// The number of instances that were alive at the last report or tick.
    pub(crate) fn count(&self) -> usize {
        self.alive.len()
    }

    /// Forgets the instances whose time is up.
    fn expire(&mut self, now: Timestamp) {
        // An end later than this was computed before the clock stepped back.
        let latest = now.saturating_add(INSTANCE_TTL);
        self.learning_until = self.learning_until.min(latest);
        if now < self.first_expiry && self.first_expiry <= latest {
            return;
        }
        self.alive.retain(|_, until| {
            *until = (*until).min(latest);
            now < *until
        });
        self.first_expiry = self.alive.values().copied().min().unwrap_or(Timestamp::MAX);
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_800_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn set() -> InstanceSet {
        InstanceSet::new(10, 100)
    }

    fn alive(set: &mut InstanceSet, name: &str, now: Timestamp) {
        set.report(None, name, InstanceState::Alive, now).unwrap();
    }

    fn after(seconds: u32) -> Timestamp {
        START.saturating_add(seconds * SECOND)
    }

    #[test]
    fn the_places_follow_the_instances_once_all_have_had_the_time_to_report() {
        let mut set = set();
        assert_eq!(set.places(START), 100, "nothing is known");
        for seconds in [0, 10, 20, 30] {
            for name in ["a", "b", "c"] {
                alive(&mut set, name, after(seconds));
            }
            let expected = if seconds < 30 { 100 } else { 30 };
            assert_eq!(set.places(after(seconds)), expected, "after {seconds} s");
        }
        set.report(None, "b", InstanceState::Gone, after(31)).unwrap();
        assert_eq!((set.places(after(31)), set.count()), (20, 2), "a goodbye counts at once");
        alive(&mut set, "a", after(40));
        assert_eq!(set.places(after(59)), 20);
        assert_eq!(set.places(after(60)), 10, "c has been silent for 30 s");
        assert_eq!((set.places(after(70)), set.count()), (100, 0), "again nothing is known");
        alive(&mut set, "a", after(80));
        assert_eq!((set.places(after(109)), set.places(after(110))), (100, 100), "a has expired as well");
    }

    #[test]
    fn all_instances_are_worth_at_most_the_configured_bound() {
        let mut set = set();
        for seconds in [0, 15, 30] {
            (0..50).for_each(|number| alive(&mut set, &number.to_string(), after(seconds)));
        }
        assert_eq!((set.places(after(31)), set.count()), (100, 50));
    }

    #[test]
    fn one_instance_too_many_and_a_name_too_long_are_errors_that_change_nothing() {
        let mut set = set();
        (0..INSTANCES_MAX).for_each(|number| alive(&mut set, &number.to_string(), START));
        let more = set.report(Some(&"app".into()), "more", InstanceState::Alive, START).unwrap_err();
        assert_eq!(
            more.to_string(),
            "resource \"app\" has 1024 instances already; report at most so many, each for more places"
        );
        alive(&mut set, "0", after(1));
        set.report(None, "1", InstanceState::Gone, after(1)).unwrap();
        alive(&mut set, "more", after(1));
        for name in [String::new(), "x".repeat(129)] {
            let error = set.report(None, &name, InstanceState::Alive, after(1)).unwrap_err();
            assert_eq!(error, InstanceError::Name { bytes: name.len() });
        }
        assert_eq!(set.count(), INSTANCES_MAX);
        alive(&mut set, "later", after(31));
        assert_eq!(set.count(), 1, "those that have expired make room");
    }

    #[test]
    fn a_clock_that_steps_back_keeps_no_instance_alive_for_longer_than_its_time() {
        let mut set = set();
        alive(&mut set, "a", after(100_000));
        assert_eq!(set.places(START), 100);
        assert_eq!((set.places(after(29)), set.count()), (100, 1));
        assert_eq!((set.places(after(30)), set.count()), (100, 0));
    }
}
