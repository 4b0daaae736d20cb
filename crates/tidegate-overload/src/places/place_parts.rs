//! The parts of the places that classes and namespaces have while requests that do not wait find
//! none.
//!
//! A request that waits has its turn by the fair queue. One that does not wait takes a free place
//! or is refused, so that who asks most often would have nearly all places. So once such requests
//! were refused of a class of a namespace that had less than its part, each other one that asks for
//! more than its part is bounded to it, for a minute.
//!
//! - A class of a namespace asks for its requests a second times the time for which they
//!   keep their places (Little's law), with room for arrivals by chance: a request that does not
//!   wait is lost if it comes a moment too early. Refused ones count with each attempt, whatever
//!   their callers call it.
//! - The parts are divided by the keys of the queue and the shares of the namespaces. The rest of a
//!   part that is not asked for goes to the others.
//! - A part of places is no whole number, and places that are idle by chance are lost. A class that
//!   had less than its part is owed the rest, which raises its bound until it was had: of one place
//!   two namespaces have half of the time each.

use core::time::Duration;
use std::collections::BTreeMap;

use tidegate_core::{Class, Timestamp};

use crate::cursor::COHORTS;
use crate::cursor::cursor_positions::PromisedParts;
use crate::cursor::fair_demand::ClassDemand;
use crate::cursor::namespace_slots::{CountByClass, NamespaceTick};
use crate::namespaces::NamespaceKey;
use crate::places::held_parts::{HeldParts, PartClaim};
use crate::places::held_times::HeldTimes;
use crate::tick::TICK;

/// The weight of one tick in what is asked for: a time constant of a second.
const GAIN: f64 = 1.0 / 11.0;
/// The requests that must have ended lately for their time to count.
const ENDED_MIN: f64 = 3.0;
/// A request counts as keeping its place for at least this part of the typical time.
const LEAST_PART: f64 = 0.1;
/// By so many standard deviations of the places in use more is kept free than is asked for.
const CHANCE: f64 = 1.5;
/// The refusals a tick that count.
const REFUSED_MIN: f64 = 0.02;
/// Less than this a tick is no demand any more.
const FORGOTTEN: f64 = 1e-3;
/// The part of what a tick had less than its part, or more, that is owed from then on.
const OWED_GAIN: f64 = 0.25;
/// The most places that are owed, or that were had in advance.
const OWED_MAX: f64 = 2.0;

/// The demand of each class of each namespace, by slot.
#[derive(Debug, Default)]
pub(crate) struct PlaceParts {
    demands: BTreeMap<usize, PlaceDemand>,
    held: HeldParts,
}

#[derive(Debug)]
struct PlaceDemand {
    namespace: NamespaceKey,
    /// New requests a tick; those that got a place; those that were refused for want of one; the
    /// places in use.
    offered: ClassDemand,
    served: ClassDemand,
    refused: ClassDemand,
    had: ClassDemand,
    /// The part of these that is still the 0 that they began with.
    unknown: f64,
    /// The places in use now.
    newest: ClassDemand,
    /// For how long its requests kept their places.
    held: HeldTimes,
    /// The places that it had less than its part.
    owed: ClassDemand,
}

/// The places that each class of a namespace asks for and has.
type PlaceClaims = [PartClaim; CLASSES];

impl PlaceParts {
    /// Takes in a tick. The most places of each slot in each class for the next one; empty: there
    /// is no bound. `in_use` are the places that each slot has now; `typical` is the typical time
    /// of the resource.
    pub(crate) fn tick(
        &mut self,
        ticks: &[NamespaceTick],
        in_use: impl Fn(usize) -> CountByClass,
        parts: PromisedParts<'_>,
        places: u64,
        typical: Duration,
        now: Timestamp,
    ) -> Vec<(usize, CountByClass)> {
        self.learn(ticks, in_use);
        if !self.held.may_hold(self.demands.values().any(PlaceDemand::is_refused)) {
            return Vec::new();
        }
        let typical_us = typical.as_secs_f64() * 1e6;
        let claims: Vec<(usize, PlaceClaims)> =
            self.demands.iter().map(|(slot, demand)| (*slot, demand.claims(typical_us))).collect();
        let asked: Vec<(NamespaceKey, ClassDemand)> = self
            .demands
            .values()
            .zip(&claims)
            .map(|(demand, (_, claims))| (demand.namespace, claims.map(with_chance)))
            .collect();
        let divided = parts.divide(&asked, places as f64);
        let of_all = claims.iter().zip(&divided).flat_map(|((_, claims), parts)| claims.iter().zip(parts));
        if !self.held.tick(of_all, now) {
            return Vec::new();
        }
        self.bounds(&claims, &divided)
    }

    fn learn(&mut self, ticks: &[NamespaceTick], in_use: impl Fn(usize) -> CountByClass) {
        self.demands.values_mut().for_each(PlaceDemand::fade);
        for tick in ticks {
            let known = self.demands.entry(tick.slot).or_insert_with(|| PlaceDemand::new(tick.namespace));
            if known.namespace != tick.namespace {
                *known = PlaceDemand::new(tick.namespace);
            }
            known.learn(tick);
        }
        for (slot, demand) in &mut self.demands {
            demand.newest = in_use(*slot).map(|places| places as f64);
            for (had, newest) in demand.had.iter_mut().zip(demand.newest) {
                *had += GAIN * newest;
            }
        }
        self.demands.retain(|_, demand| demand.asks());
    }

    /// The bounds of those that ask for more than their part: this and what they are owed, in whole
    /// places.
    #[expect(clippy::cast_sign_loss, reason = "a negative bound is 0")]
    fn bounds(
        &mut self,
        claims: &[(usize, PlaceClaims)],
        divided: &[ClassDemand],
    ) -> Vec<(usize, CountByClass)> {
        let demands = self.demands.iter_mut().zip(claims).zip(divided);
        let bounds = demands.map(|(((slot, demand), (_, claims)), parts)| {
            let bound = core::array::from_fn(|class| {
                let part = parts[class];
                if claims[class].wanted <= part {
                    demand.owed[class] = 0.0;
                    return u64::MAX;
                }
                let owed = demand.owed[class] + OWED_GAIN * (part - demand.newest[class]);
                demand.owed[class] = owed.clamp(-OWED_MAX, OWED_MAX);
                (part + demand.owed[class]).round().max(0.0) as u64
            });
            (*slot, bound)
        });
        bounds.collect()
    }
}

const CLASSES: usize = Class::ALL.len();

/// The places that are asked for, with room for arrivals by chance.
fn with_chance(claim: PartClaim) -> f64 {
    claim.wanted + CHANCE * claim.wanted.sqrt()
}

impl PlaceDemand {
    fn new(namespace: NamespaceKey) -> Self {
        let none = [0.0; CLASSES];
        Self {
            namespace,
            offered: none,
            served: none,
            refused: none,
            had: none,
            unknown: 1.0,
            newest: none,
            held: HeldTimes::default(),
            owed: none,
        }
    }

    fn fade(&mut self) {
        let rates = [&mut self.offered, &mut self.served, &mut self.refused, &mut self.had];
        rates.into_iter().flatten().for_each(|rate| *rate *= 1.0 - GAIN);
        self.unknown *= 1.0 - GAIN;
        self.held.fade();
    }

    fn learn(&mut self, tick: &NamespaceTick) {
        if self.unknown >= 1.0 {
            self.unknown *= 1.0 - GAIN;
        }
        let levels = tick.offered.as_deref().into_iter().flatten();
        for (level, offered) in levels.enumerate().filter(|(_, offered)| **offered > 0) {
            self.offered[level / usize::from(COHORTS)] += GAIN * *offered as f64;
        }
        for class in 0..CLASSES {
            self.served[class] += GAIN * tick.served[class] as f64;
            self.refused[class] += GAIN * tick.unplaced[class] as f64;
        }
        self.held.add(tick);
    }

    fn asks(&self) -> bool {
        [&self.offered, &self.served, &self.refused].into_iter().flatten().any(|rate| *rate > FORGOTTEN)
    }

    /// Whether enough requests were refused.
    fn is_refused(&self) -> bool {
        self.refused.iter().any(|refused| *refused > REFUSED_MIN)
    }

    /// The places that each class asks for and has.
    fn claims(&self, typical_us: f64) -> PlaceClaims {
        core::array::from_fn(|class| {
            let held_us = self.held.average_us(class, ENDED_MIN).unwrap_or(typical_us);
            let known = (1.0 - self.unknown).max(GAIN);
            let places = held_us.max(LEAST_PART * typical_us) / TICK.as_secs_f64() / 1e6 / known;
            let attempts = self.served[class] + self.refused[class];
            let had = self.had[class] / known;
            PartClaim {
                wanted: (self.offered[class].max(attempts) * places).max(had),
                had,
                is_refused: self.refused[class] > REFUSED_MIN,
            }
        })
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::namespaces::NamespaceShares;
    use crate::queue::fair_queue::QueueConfig;

    const START: Timestamp = Timestamp::from_secs(1_800_000_000);
    const MS: Duration = Duration::from_millis(1);
    const CLASS: usize = Class::Critical as usize;

    /// The requests of one class of a namespace in a tick: served and refused, each 40 ms long.
    fn tick(namespace: u32, class: usize, served: u64, refused: u64) -> NamespaceTick {
        let mut tick = NamespaceTick::idle(namespace as usize, NamespaceKey::Exact(namespace));
        tick.served[class] = served;
        tick.unplaced[class] = refused;
        tick.ended[class] = served;
        tick.held_us[class] = served * 40_000;
        tick
    }

    /// The bounds after each of these ticks, repeated, with so many places, of which each had those
    /// that it was served.
    fn after(
        parts: &mut PlaceParts,
        ticks: &[NamespaceTick],
        places: u64,
        count: u32,
    ) -> Vec<Vec<(usize, CountByClass)>> {
        let (config, shares) = (QueueConfig::default(), NamespaceShares::default());
        let promised = PromisedParts { config: &config, shares: &shares };
        let in_use = |slot| {
            let tick = ticks.iter().find(|tick| tick.slot == slot);
            tick.map_or([0; CLASSES], |tick| tick.served.map(|served| (served * 4).div_ceil(10)))
        };
        let tick = |number| {
            let now = START.saturating_add(TICK * number);
            parts.tick(ticks, in_use, promised, places, 40 * MS, now)
        };
        (0..count).map(tick).collect()
    }

    fn of(bounds: &[(usize, CountByClass)], slot: usize, class: usize) -> u64 {
        bounds.iter().find(|(of, _)| *of == slot).map_or(u64::MAX, |(_, bounds)| bounds[class])
    }

    #[test]
    fn a_namespace_that_has_nearly_all_places_is_bounded_once_another_is_refused_below_its_part() {
        // 19 of 20 places a tick are served to the first; the second has one and wants its half.
        let ticks = [tick(1, CLASS, 19, 180), tick(2, CLASS, 1, 29)];
        let bounds = after(&mut PlaceParts::default(), &ticks, 8, 20).pop().unwrap();
        assert!(of(&bounds, 1, CLASS) <= 4 && (4..=8).contains(&of(&bounds, 2, CLASS)), "{bounds:?}");
        assert_eq!(of(&bounds, 1, Class::Sheddable as usize), u64::MAX, "it asks for nothing there");
        // The second asks for less than its half: 1.6 places, and 1.9 for chance.
        let ticks = [tick(1, CLASS, 19, 180), tick(2, CLASS, 1, 3)];
        let bounds = after(&mut PlaceParts::default(), &ticks, 8, 50).pop().unwrap();
        assert!(of(&bounds, 1, CLASS) <= 5 && of(&bounds, 2, CLASS) == u64::MAX, "{bounds:?}");
    }

    #[test]
    fn nobody_is_bounded_where_nobody_lacks_its_part_and_not_for_longer_than_a_minute_after() {
        let mut parts = PlaceParts::default();
        let alone = [tick(1, CLASS, 20, 180)];
        assert!(after(&mut parts, &alone, 8, 50).iter().all(Vec::is_empty), "it is alone");
        let fair = [tick(1, CLASS, 10, 90), tick(2, CLASS, 10, 10)];
        assert!(after(&mut parts, &fair, 8, 50).iter().all(Vec::is_empty), "each has its half");
        let mut parts = PlaceParts::default();
        assert!(
            after(&mut parts, &[tick(1, CLASS, 19, 180), tick(2, CLASS, 1, 29)], 8, 20)
                .iter()
                .any(|one| !one.is_empty())
        );
        let later = after(&mut parts, &fair, 8, 900);
        assert!(!later[500].is_empty() && later[899].is_empty());
    }

    #[test]
    fn of_one_place_two_namespaces_have_half_of_the_time_each() {
        let (config, shares) = (QueueConfig::default(), NamespaceShares::default());
        let promised = PromisedParts { config: &config, shares: &shares };
        let (mut parts, mut had, mut owner) = (PlaceParts::default(), [0_u64; 3], 1);
        for number in 0..700 {
            let ticks = [1, 2].map(|namespace| {
                let served = if owner == namespace { 2 } else { 0 };
                tick(namespace as u32, CLASS, served, if namespace == 1 { 180 } else { 30 })
            });
            let in_use = |slot: usize| [0, 0, u64::from(slot == owner), 0];
            let now = START.saturating_add(TICK * number);
            let bounds = parts.tick(&ticks, in_use, promised, 1, 40 * MS, now);
            // The first asks more often, and has the place wherever it may.
            owner = if of(&bounds, 1, CLASS) > 0 { 1 } else { usize::from(of(&bounds, 2, CLASS) > 0) * 2 };
            if number >= 100 {
                had[owner] += 1;
            }
        }
        assert!(had[1].abs_diff(300) < 30 && had[2].abs_diff(300) < 60, "{had:?}");
    }

    #[test]
    fn a_higher_class_leaves_a_lower_one_its_part() {
        let plus = Class::CriticalPlus as usize;
        let ticks =
            [NamespaceTick { served: [0, 0, 1, 19], unplaced: [0, 0, 2, 11], ..tick(1, plus, 19, 0) }];
        let bounds = after(&mut PlaceParts::default(), &ticks, 8, 50).pop().unwrap();
        // 16 to 8 of 8 places: critical asks for 1.2 and has room for 2.67.
        assert_eq!(of(&bounds, 1, CLASS), u64::MAX);
        assert!(of(&bounds, 1, plus) <= 5, "{bounds:?}");
    }
}
