//! The position of the cursor of each namespace in each class, from what they ask for and how much
//! there is.

use tidegate_core::Class;

use crate::cursor::capacity_parts::{divide_by_weight, divide_capacity};
use crate::cursor::fair_demand::ClassDemand;
use crate::cursor::namespace_cursor::NamespaceCursor;
use crate::cursor::{COHORTS, LEVELS};
use crate::namespaces::{NamespaceKey, NamespaceShares};
use crate::queue::fair_queue::QueueConfig;

/// The way in which a capacity is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromisedParts<'a> {
    pub(crate) config: &'a QueueConfig,
    pub(crate) shares: &'a NamespaceShares,
}

/// The fate of the level in which a part ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLevel {
    /// It is served: a namespace of which one tenant makes all the demand is then bounded by the
    /// queue, never shed as a whole while places are idle.
    Served,
    /// It is shed: nothing else bounds it.
    Shed,
    /// It is shed, unless less than half of the part would be served then: the places bound what
    /// few tenants ask for, and would be idle if these were shed as a whole.
    ShedIfSmall,
}

impl PromisedParts<'_> {
    /// The part of each namespace in each class, in the order of the demands.
    pub(crate) fn divide(&self, demands: &[(NamespaceKey, ClassDemand)], capacity: f64) -> Vec<ClassDemand> {
        let of_class = |class: usize| demands.iter().map(|(_, demand)| demand[class]).collect::<Vec<_>>();
        let all: ClassDemand = core::array::from_fn(|class| of_class(class).iter().sum());
        let parts = divide_capacity(all, capacity, self.config);
        let weights: Vec<f64> = demands.iter().map(|(key, _)| f64::from(self.shares.weight(*key))).collect();
        let mut divided = vec![[0.0; Class::ALL.len()]; demands.len()];
        for (class, part) in parts.into_iter().enumerate() {
            for (index, of_one) in divide_by_weight(&of_class(class), &weights, part).into_iter().enumerate()
            {
                divided[index][class] = of_one;
            }
        }
        divided
    }

    /// The cursor of each namespace that takes in no more than its parts of a capacity. `at` is the
    /// demand of the namespace with an index at a level; `waits` says whether its requests of a
    /// class wait for a place, those with the number of a class. No cursor sheds the highest class.
    pub(crate) fn cursors(
        &self,
        namespaces: &[NamespaceKey],
        at: impl Fn(usize, usize) -> f64,
        waits: impl Fn(usize, usize) -> bool,
        capacity: f64,
        last: LastLevel,
    ) -> CursorPositions {
        let demands: Vec<_> = namespaces
            .iter()
            .enumerate()
            .map(|(index, key)| {
                let of_class = |class: usize| cohorts_of(class).map(|level| at(index, level)).sum();
                (*key, core::array::from_fn::<f64, 4, _>(of_class))
            })
            .collect();
        let parts = self.divide(&demands, capacity);
        let cursors = parts.iter().enumerate().map(|(index, parts)| {
            let position = |class: usize| {
                let is_within = demands[index].1[class] <= parts[class] * (1.0 + ROUNDING);
                if is_within || class == Class::CriticalPlus as usize {
                    return 0;
                }
                let kept = if waits(index, class) { 1.0 } else { UNQUEUED_KEPT };
                let part = kept * parts[class] + allowance_for_chance(parts[class], capacity);
                position_for(|cohort| at(index, cohorts_of(class).start + cohort), part, last)
            };
            NamespaceCursor::new(core::array::from_fn(position))
        });
        let cursors = cursors.collect();
        let highest = Class::CriticalPlus as usize;
        let asked = |of: &dyn Fn(usize) -> f64| (0..demands.len()).map(of).sum::<f64>();
        let (demand, part) =
            (asked(&|index| demands[index].1[highest]), asked(&|index| parts[index][highest]));
        CursorPositions { cursors, is_at_end: demand > part * (1.0 + ROUNDING) }
    }
}

/// The result of [`PromisedParts::cursors`].
#[derive(Clone, Debug)]
pub(crate) struct CursorPositions {
    pub(crate) cursors: Vec<NamespaceCursor>,
    /// Whether the highest class, which no cursor sheds, asks for more than its part.
    pub(crate) is_at_end: bool,
}

/// Of requests that do not wait so many times the part is let in: of exactly the part, arriving by
/// chance, many would find no place, and others one that is free later.
pub(crate) const UNQUEUED_KEPT: f64 = 1.5;

/// By so much a demand may be above its part because of rounding.
const ROUNDING: f64 = 1e-9;

/// The levels of the class of a number.
pub(crate) const fn cohorts_of(class: usize) -> core::ops::Range<usize> {
    let first = class * COHORTS as usize;
    first..first + COHORTS as usize
}

const _: () = assert!(cohorts_of(Class::ALL.len() - 1).end == LEVELS);

/// By how much more than its part is let in of a namespace and class: of exactly its part, arriving
/// by chance, some is always missing at its turn, and others are served. One standard deviation of
/// what arrives in a second, and less for a part that is most of the capacity, for which the
/// allowance as a whole has such room. All of it for a tick.
fn allowance_for_chance(part: f64, capacity: f64) -> f64 {
    let others = (1.0 - part / capacity.max(part).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
    (part / SECOND_TICKS).sqrt() * others
}

/// The ticks of a second.
const SECOND_TICKS: f64 = 10.0;

/// The lowest cohort from which on the demand is no more than `part`; with [`LastLevel::Served`]
/// but for the level in which the part ends. 0 where [`LastLevel::ShedIfSmall`] leaves all of them
/// to the places.
fn position_for(at: impl Fn(usize) -> f64, part: f64, last: LastLevel) -> u16 {
    let mut served = 0.0;
    for cohort in (0..usize::from(COHORTS)).rev() {
        let cost = at(cohort);
        let is_over = match last {
            LastLevel::Served => cost > 0.0 && served >= part,
            LastLevel::Shed | LastLevel::ShedIfSmall => served + cost > part,
        };
        if is_over && last == LastLevel::ShedIfSmall && served < part / 2.0 {
            return 0;
        }
        if is_over {
            return cohort as u16 + 1;
        }
        served += cost;
    }
    0
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;

    const ONE: [NamespaceKey; 1] = [NamespaceKey::Exact(1)];

    fn parts() -> (QueueConfig, NamespaceShares) {
        (QueueConfig::default(), NamespaceShares::default())
    }

    fn cursors(
        namespaces: &[NamespaceKey],
        at: impl Fn(usize, usize) -> f64,
        capacity: f64,
    ) -> Vec<NamespaceCursor> {
        let (config, shares) = parts();
        PromisedParts { config: &config, shares: &shares }
            .cursors(namespaces, at, |_, _| true, capacity, LastLevel::Served)
            .cursors
    }

    #[test]
    fn the_most_important_cohorts_of_a_class_are_served_up_to_its_part() {
        let even = |_: usize, level: usize| if level < 128 { 1.0 } else { 0.0 };
        assert_eq!(cursors(&ONE, even, 128.0), [NamespaceCursor::OPEN]);
        assert_eq!(cursors(&ONE, even, 100.0), [NamespaceCursor::new([28, 0, 0, 0])]);
        assert_eq!(
            cursors(&ONE, even, 99.5),
            [NamespaceCursor::new([28, 0, 0, 0])],
            "the last level is served"
        );
        let alone = |_: usize, level: usize| if level == 50 { 200.0 } else { 0.0 };
        assert_eq!(cursors(&ONE, alone, 100.0), [NamespaceCursor::OPEN], "one tenant is for the queue");
        let (config, shares) = parts();
        let promised = PromisedParts { config: &config, shares: &shares };
        let shed = promised.cursors(&ONE, alone, |_, _| true, 100.0, LastLevel::Shed).cursors;
        assert_eq!(shed, [NamespaceCursor::new([51, 0, 0, 0])]);
    }

    #[test]
    fn a_class_within_its_part_is_open_beside_a_flood_of_a_higher_one_and_the_highest_is_never_shed() {
        // 8 of sheddable, 256 of critical, 512 of critical_plus.
        let at = |_: usize, level: usize| match level / 128 {
            0 => 8.0 / 128.0,
            2 => 2.0,
            3 => 4.0,
            _ => 0.0,
        };
        let [cursor] = cursors(&ONE, at, 250.0)[..] else { panic!("one namespace") };
        assert_eq!((cursor.cohort(Class::Sheddable), cursor.cohort(Class::CriticalPlus)), (0, 0));
        // 250 - 8 by 8 to 16: 80.7 of 256, 40 levels.
        // One level more for what is missing by chance.
        assert_eq!(cursor.cohort(Class::Critical), 128 - 42);
    }

    #[test]
    fn only_the_namespace_that_is_over_its_part_is_shed() {
        let namespaces = [NamespaceKey::Exact(1), NamespaceKey::Exact(2), NamespaceKey::Rest];
        let at = |index: usize, level: usize| match (level / 128, index) {
            (1, 0) => 3.0,
            (1, 1) => 0.5,
            (1, 2) => 0.25,
            _ => 0.0,
        };
        // 384, 64 and 32 where there are 288: 192 for the first, and some for chance.
        let cursors = cursors(&namespaces, at, 288.0);
        assert_eq!(
            cursors,
            [NamespaceCursor::new([0, 63, 0, 0]), NamespaceCursor::OPEN, NamespaceCursor::OPEN]
        );
    }
}
