//! How many of the offered requests a resource with a queue takes in: the delay of its queue in, a
//! cursor for each namespace and class out.
//!
//! A queue that stands longer than its target cuts the allowance in proportion to the excess
//! (Breakwater, OSDI'20). The rules that keep a steady overload steady compare it with the
//! *capacity*: what was served in the last second, divided by the part of the places that were in
//! use for it. Divided, because a second in which some places were idle by chance would otherwise
//! lower the allowance, and so idle more of them in the next one.
//!
//! - The first cut starts from the capacity. Demand says nothing about it, and from "all of it" the
//!   cuts would need a second to have an effect.
//! - No cut goes below the capacity and a little more ([`CAPACITY_KEPT`]): of exactly the capacity,
//!   arriving by chance, some is always missing where a place is free. The queue that this builds
//!   up sheds by itself, and so stays short.
//! - No raise goes above the capacity and some room, which shrinks with the delay of the queue and
//!   by what the queue itself shed. A request that the queue sheds is one that the cursor let in by
//!   mistake: it takes a call of a task of several, whose other calls are then wasted.
//! - The cursor opens in one step only if the demand fits the capacity, if places were added, or if
//!   the queue was empty and nobody was shed. An empty queue alone is what a cursor that works
//!   looks like: opening then floods the queue, and the cursor cycles twice a second.

use std::collections::BTreeMap;

use tidegate_core::Class;

use crate::cursor::cursor_positions::{LastLevel, PromisedParts, UNQUEUED_KEPT};
use crate::cursor::fair_demand::ClassDemand;
use crate::cursor::namespace_cursor::{NamespaceCursor, NamespacePosition};
use crate::cursor::namespace_demand::NamespaceDemand;
use crate::cursor::namespace_slots::NamespaceTick;
use crate::namespaces::NamespaceKey;
use crate::queue::queue_observation::QueueObservation;

/// The part of the excess over the target that one tick takes away; Breakwater's proportional
/// decrease.
const DECREASE: f64 = 0.5;
/// The least factor of one tick.
const FACTOR_MIN: f64 = 0.5;
/// No cut goes below this multiple of the capacity.
const CAPACITY_KEPT: f64 = 1.05;
/// Nor below this part of the capacity in better times, so that a resource that hung for a
/// second is not closed to all but the highest class for many more.
const BEST_KEPT: f64 = 0.1;
/// The part that a tick leaves of the memory of better times: a tenth after 23 s.
const BEST_DECAY: f64 = 0.99;
/// The most by which one tick raises the allowance.
const RAISE_MAX: f64 = 0.1;
/// No raise goes above the capacity by more than this, so that a pause of the overload by chance
/// does not swing the cursor; the served cost follows the allowance where there is more capacity.
/// The room is less the longer the queue delay is.
const ROOM: f64 = 0.1;
/// The least use of the places from which a capacity is inferred: a resource that works on two
/// requests at a time may not be able to work on a hundred.
const UTILIZATION_MIN: f64 = 0.5;
/// Places of which this part is in use are full.
const FULL: f64 = 0.9;
/// Requests that find no place and do not wait cut as much as a queue that stands this much longer
/// than its target.
const UNQUEUED_RATIO: f64 = 2.0;
/// Newer demand counts as a surge from this multiple of the smoothed demand on.
const SURGE: f64 = 1.25;
/// The ticks of a second.
const SECOND_TICKS: usize = 10;
/// Demand fits the capacity if it does so by this many standard deviations of arrivals by
/// chance. Tasks of several calls whose first call is shed offer little more than that, and a
/// tenth of a second in which that fits by chance must not open the cursor to the calls withheld.
const DEVIATIONS: f64 = 3.0;
/// After so many ticks with an empty queue in which nobody was shed the cursor opens.
const CALM_TICKS: u32 = 2;
/// The limit that counts as more capacity, relative to that of the last overloaded tick.
const GROWTH: f64 = 1.1;

/// The input of the allowance of one tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickLoad<'a> {
    /// The requests of each namespace.
    pub(crate) namespaces: &'a [NamespaceTick],
    /// The parts of the classes and namespaces.
    pub(crate) parts: PromisedParts<'a>,
    pub(crate) queue: QueueObservation,
    /// The requests that the cursor shed or that found no place, repeated attempts included.
    pub(crate) turned_away: u64,
    /// The average of the places in use, as a part of all.
    pub(crate) utilization: f64,
    /// The places.
    pub(crate) places: u64,
}

/// The measures of a tick that are looked at for a second.
#[derive(Clone, Copy, Debug, Default)]
struct PastTick {
    /// The offered cost that counts.
    offered: f64,
    /// The served cost.
    served: f64,
    /// The average of the places in use, as a part of all.
    utilization: f64,
    /// The requests that the queue shed.
    queue_sheds: u64,
}

/// The allowance of one resource, and the demand that it is compared with.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    /// The cost that one tick may take in; `None`: all that is offered.
    allowed: Option<f64>,
    /// The demand of each namespace by its slot.
    namespaces: BTreeMap<usize, NamespaceDemand>,
    /// Whether only the highest class, which the cursor never sheds, is left to be shed.
    is_at_end: bool,
    /// The ticks of the last second, the newest first.
    recent: [PastTick; SECOND_TICKS],
    /// How many of those have happened.
    ticks: usize,
    /// The highest capacity, fading.
    best: f64,
    /// The places at the last overloaded tick.
    places: u64,
    calm: u32,
}

impl Allowance {
    /// Takes a tick in and moves the cursors. Without `may_move` it only learns what was offered
    /// and served. The slots of namespaces that are forgotten.
    pub(crate) fn tick(&mut self, load: &TickLoad<'_>, may_move: bool) -> Vec<usize> {
        let forgotten = self.learn(load);
        if !may_move {
            return forgotten;
        }
        if load.queue.is_overloaded() {
            self.calm = 0;
            self.places = load.places;
            self.cut(load.queue.delay_ratio, CAPACITY_KEPT);
        } else if load.queue.is_idle() && load.turned_away > 0 && load.utilization >= FULL {
            // Requests that do not wait find no place: who asks most often would have them all.
            self.calm = 0;
            self.places = load.places;
            self.cut(UNQUEUED_RATIO, UNQUEUED_KEPT);
        } else if let Some(allowed) = self.allowed {
            let is_calm = load.queue.is_empty && load.queue.shed == 0 && load.turned_away == 0;
            self.calm = if is_calm { self.calm.saturating_add(1) } else { 0 };
            let has_grown = load.places as f64 >= self.places as f64 * GROWTH;
            if self.fits() || has_grown || self.calm >= CALM_TICKS {
                self.allowed = None;
            } else {
                self.allowed = Some(self.raised(allowed, load));
            }
        }
        let is_open = self.follow_positions(load.parts);
        if is_open && !load.queue.is_overloaded() {
            self.allowed = None;
        }
        forgotten
    }

    /// The cursors after the last tick.
    pub(crate) fn positions(&self, parts: PromisedParts<'_>) -> Vec<NamespacePosition> {
        let marginal = self.marginal_ends(parts);
        let cursors = self.namespaces.iter().zip(marginal);
        cursors
            .map(|((slot, namespace), marginal)| NamespacePosition {
                slot: *slot,
                cursor: namespace.cursor(),
                marginal,
            })
            .collect()
    }

    /// Whether the cursor has nothing left that it could shed: the highest class alone asks for
    /// more than its part.
    pub(crate) const fn is_at_end(&self) -> bool {
        self.is_at_end
    }

    fn learn(&mut self, load: &TickLoad<'_>) -> Vec<usize> {
        for tick in load.namespaces {
            let known = self.namespaces.entry(tick.slot);
            let known = known.or_insert_with(|| NamespaceDemand::new(tick.namespace));
            if known.namespace != tick.namespace {
                *known = NamespaceDemand::new(tick.namespace);
            }
        }
        let tick_of = |slot: usize| load.namespaces.iter().find(|tick| tick.slot == slot);
        for (slot, namespace) in &mut self.namespaces {
            namespace.learn(tick_of(*slot));
        }
        let held = self.namespaces.values().map(|one| one.held().all());
        let (ended, held_us) = held.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let mean_us = if ended > 0.0 { held_us / ended } else { 0.0 };
        let (mut offered, mut served) = (0.0, 0.0);
        for (slot, namespace) in &mut self.namespaces {
            namespace.weigh(mean_us);
            offered += namespace.last().iter().sum::<f64>();
            let of_class = tick_of(*slot).map_or([0; Class::ALL.len()], |tick| tick.served);
            served += of_class.iter().zip(namespace.weights()).map(|(one, by)| *one as f64 * by).sum::<f64>();
        }
        self.recent.rotate_right(1);
        self.recent[0] =
            PastTick { offered, served, utilization: load.utilization, queue_sheds: load.queue.shed };
        self.ticks = (self.ticks + 1).min(SECOND_TICKS);
        self.best = (self.best * BEST_DECAY).max(self.capacity());
        let over: Vec<_> =
            self.namespaces.iter().filter(|(_, one)| one.is_over()).map(|(slot, _)| *slot).collect();
        self.namespaces.retain(|_, namespace| !namespace.is_over());
        over
    }

    /// The cost that the resource serves in a tick with all of its places in use, by the last
    /// second.
    fn capacity(&self) -> f64 {
        let served: f64 = self.recent.iter().map(|tick| tick.served).sum();
        let in_use: f64 = self.recent.iter().map(|tick| tick.utilization).sum();
        served / in_use.max(UTILIZATION_MIN * self.ticks.max(1) as f64)
    }

    fn cut(&mut self, delay_ratio: f64, kept: f64) {
        let factor = (1.0 - DECREASE * (delay_ratio - 1.0)).max(FACTOR_MIN);
        let capacity = self.capacity();
        let from = self.allowed.unwrap_or(capacity);
        // At least one unit: the most important level that is offered is never shed by chance.
        let least = (kept * capacity).max(BEST_KEPT * self.best).max(1.0);
        self.allowed = Some((from * factor).max(least));
    }

    /// The allowance after a tick without a standing queue: higher by the idle part of the places,
    /// within the room above the capacity.
    fn raised(&self, allowed: f64, load: &TickLoad<'_>) -> f64 {
        let (capacity, idle) = (self.capacity(), 1.0 - load.utilization);
        let room = ROOM * (1.0 - load.queue.delay_ratio.clamp(0.0, 1.0));
        let most = if load.utilization < FULL {
            // Already above it after a cut: it stays. Idle places say that what the queue shed is
            // over, and that the allowance is too little.
            allowed.max(capacity * (1.0 + room))
        } else {
            let shed: u64 = self.recent.iter().map(|tick| tick.queue_sheds).sum();
            let shed_share = shed as f64 / (capacity * self.ticks as f64).max(1.0);
            capacity * (1.0 + room - shed_share)
        };
        (allowed * (1.0 + idle.clamp(0.0, RAISE_MAX))).min(most).max(CAPACITY_KEPT * capacity)
    }

    /// Whether the newest demand fits the capacity.
    fn fits(&self) -> bool {
        let capacity = self.capacity();
        let mut offered = 0.0;
        (1..).zip(&self.recent[..self.ticks]).any(|(ticks, tick)| {
            offered += tick.offered;
            offered + DEVIATIONS * offered.sqrt() <= capacity * f64::from(ticks)
        })
    }

    /// The cohorts of each class below which the requests that the cursors let in are marginal:
    /// only of namespaces and classes that ask for more than their part, and only where more is
    /// offered than the capacity.
    fn marginal_ends(&self, parts: PromisedParts<'_>) -> Vec<NamespaceCursor> {
        let capacity = self.capacity();
        if self.recent[0].offered <= capacity {
            return vec![NamespaceCursor::OPEN; self.namespaces.len()];
        }
        let newest: Vec<(NamespaceKey, ClassDemand)> =
            self.namespaces.values().map(|one| (one.namespace, one.last())).collect();
        let parts = parts.divide(&newest, capacity);
        let ends = self.namespaces.values().zip(newest).zip(parts);
        ends.map(|((namespace, (_, asked)), parts)| {
            NamespaceCursor::new(Class::ALL.map(|class| {
                let index = class as usize;
                let is_over = asked[index] > parts[index];
                if is_over { namespace.marginal_end(class, namespace.cursor().cohort(class)) } else { 0 }
            }))
        })
        .collect()
    }

    /// Moves the cursors towards where the allowance puts them; whether all of these are open.
    fn follow_positions(&mut self, parts: PromisedParts<'_>) -> bool {
        let Some(allowed) = self.allowed else {
            self.is_at_end = false;
            self.namespaces.values_mut().for_each(|namespace| namespace.follow(NamespaceCursor::OPEN));
            return true;
        };
        let names: Vec<_> = self.namespaces.values().map(|namespace| namespace.namespace).collect();
        let smooth: Vec<_> = self.namespaces.values().map(NamespaceDemand::smoothed).collect();
        let newest: Vec<_> = self.namespaces.values().map(NamespaceDemand::newest).collect();
        // A surge is in the last ticks before it is in the smoothed demand.
        let is_surge = newest.iter().sum::<f64>() > SURGE * smooth.iter().sum::<f64>();
        let scales: Vec<_> = smooth
            .iter()
            .zip(&newest)
            .map(|(smooth, newest)| if is_surge && *smooth > 0.0 { (newest / smooth).max(1.0) } else { 1.0 })
            .collect();
        let demands: Vec<_> = self.namespaces.values().collect();
        let at = |index: usize, level: usize| demands[index].at(level) * scales[index];
        let waits = |index: usize, class: usize| demands[index].waits(class);
        let positions = parts.cursors(&names, at, waits, allowed, LastLevel::Served);
        self.is_at_end = positions.is_at_end;
        let is_open = positions.cursors.iter().all(|cursor| *cursor == NamespaceCursor::OPEN);
        for (namespace, cursor) in self.namespaces.values_mut().zip(positions.cursors) {
            namespace.follow(cursor);
        }
        is_open && !positions.is_at_end
    }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::cursor::{Cursor, LEVELS};
    use crate::namespaces::NamespaceShares;
    use crate::queue::fair_queue::QueueConfig;

    /// The cost that a full resource serves in a tick.
    const SERVED: u64 = 100;

    /// Requests spread over the lowest 100 levels.
    fn offered(requests: u64) -> [u64; LEVELS] {
        core::array::from_fn(|level| {
            if level < 100 { requests / 100 + u64::from((level as u64) < requests % 100) } else { 0 }
        })
    }

    const CONFIG: fn() -> QueueConfig = QueueConfig::default;

    /// One tick of one namespace; the position of its cursor.
    fn tick_of(
        allowance: &mut Allowance,
        levels: &[u64; LEVELS],
        queue: QueueObservation,
        served: u64,
        utilization: f64,
    ) -> Cursor {
        let (config, shares) = (CONFIG(), NamespaceShares::default());
        let parts = PromisedParts { config: &config, shares: &shares };
        let tick = NamespaceTick {
            offered: Some(Box::new(*levels)),
            served: [served, 0, 0, 0],
            ..NamespaceTick::idle(0, NamespaceKey::Exact(1))
        };
        let load = TickLoad { namespaces: &[tick], parts, queue, turned_away: 1, utilization, places: 10 };
        allowance.tick(&load, true);
        allowance.positions(parts)[0].cursor.highest()
    }

    /// The cohort of the lowest class below which its requests are marginal.
    fn marginal_end(allowance: &Allowance) -> u16 {
        let (config, shares) = (CONFIG(), NamespaceShares::default());
        allowance.positions(PromisedParts { config: &config, shares: &shares })[0]
            .marginal
            .cohort(Class::Sheddable)
    }

    fn tick(allowance: &mut Allowance, cost: u64, delay_ratio: f64, shed: u64, utilization: f64) -> Cursor {
        tick_serving(SERVED, allowance, cost, delay_ratio, shed, utilization)
    }

    fn tick_serving(
        served: u64,
        allowance: &mut Allowance,
        cost: u64,
        delay_ratio: f64,
        shed: u64,
        utilization: f64,
    ) -> Cursor {
        let queue = QueueObservation { delay_ratio, shed, ..QueueObservation::NONE };
        tick_of(allowance, &offered(cost), queue, served, utilization)
    }

    /// An allowance after two seconds of an overload of a quarter.
    fn overloaded() -> Allowance {
        let mut allowance = Allowance::default();
        for _ in 0..20 {
            tick(&mut allowance, 125, 1.5, 25, 1.0);
        }
        allowance
    }

    #[test]
    fn a_tick_whose_demand_fits_by_chance_does_not_open_the_cursor_and_a_fall_by_half_does() {
        let mut allowance = overloaded();
        assert_ne!(tick(&mut allowance, 95, 0.5, 0, 1.0), Cursor::OPEN);
        assert_eq!(tick(&mut allowance, 50, 0.5, 0, 1.0), Cursor::OPEN);
    }

    #[test]
    fn places_that_are_idle_by_chance_do_not_lower_the_allowance() {
        let mut allowance = overloaded();
        for _ in 0..10 {
            tick_serving(80, &mut allowance, 125, 1.5, 0, 0.8);
        }
        assert!(allowance.allowed.unwrap() >= SERVED as f64, "{:?}", allowance.allowed);
        // A service that is slower with all of its places in use is: its capacity has fallen.
        for _ in 0..10 {
            tick_serving(80, &mut allowance, 125, 1.5, 0, 1.0);
        }
        assert!(allowance.allowed.unwrap() < 90.0, "{:?}", allowance.allowed);
    }

    #[test]
    fn the_least_important_fifth_of_what_the_cursor_lets_in_is_marginal() {
        let mut allowance = Allowance::default();
        for _ in 0..50 {
            tick(&mut allowance, 200, 0.0, 0, 1.0);
        }
        assert_eq!(marginal_end(&allowance), 21);
        tick(&mut allowance, 100, 0.0, 0, 1.0);
        assert_eq!(marginal_end(&allowance), 0, "what is offered fits");
        // The demand of a tenant that is alone in its class ends in its own level.
        let mut offered = [0; LEVELS];
        (offered[50], offered[300]) = (160, 40);
        let mut allowance = Allowance::default();
        tick_of(&mut allowance, &offered, QueueObservation::NONE, SERVED, 1.0);
        assert_eq!(marginal_end(&allowance), 51);
    }

    #[test]
    fn a_tenant_far_above_all_others_does_not_move_the_cursor_that_sheds_the_others() {
        let mut offered = offered(80);
        offered[100] = 80;
        let mut allowance = Allowance::default();
        for _ in 0..30 {
            let queue = QueueObservation { delay_ratio: 1.5, ..QueueObservation::NONE };
            assert_eq!(tick_of(&mut allowance, &offered, queue, SERVED, 1.0), Cursor::OPEN);
            assert_eq!(marginal_end(&allowance), 0);
        }
    }

    #[test]
    fn requests_that_do_not_wait_and_find_no_place_close_the_cursor_down_to_half_more_than_the_capacity() {
        let idle = QueueObservation { is_empty: true, ..QueueObservation::NONE };
        let mut allowance = Allowance::default();
        for _ in 0..20 {
            tick_of(&mut allowance, &offered(300), idle, SERVED, 1.0);
        }
        let kept = allowance.allowed.unwrap() / SERVED as f64;
        assert!((1.4..1.6).contains(&kept), "{kept}");
        // Refusals by chance while places are idle say nothing.
        let mut allowance = Allowance::default();
        assert_eq!(tick_of(&mut allowance, &offered(80), idle, 80, 0.8), Cursor::OPEN);
    }

    #[test]
    fn the_first_ticks_of_an_overload_are_demand_enough_to_hold_the_cursor() {
        let mut allowance = Allowance::default();
        tick(&mut allowance, 140, 0.0, 0, 1.0);
        let first = tick(&mut allowance, 140, 1.5, 0, 1.0);
        assert_ne!(first, Cursor::OPEN);
        for number in 0..20 {
            assert_ne!(tick(&mut allowance, 140, 0.5, 5, 1.0), Cursor::OPEN, "tick {number}");
        }
    }

    #[test]
    fn what_the_queue_sheds_lowers_the_allowance_while_the_places_are_full() {
        let served = SERVED as f64;
        let mut calm = overloaded();
        for _ in 0..10 {
            tick(&mut calm, 125, 0.0, 0, 0.95);
        }
        let most = calm.allowed.unwrap();
        assert!((served * 1.05..=served * 1.16).contains(&most), "{most}");
        let mut full = overloaded();
        for _ in 0..10 {
            tick(&mut full, 125, 0.0, 20, 0.95);
        }
        assert!(full.allowed.unwrap() < most, "{:?} of {most}", full.allowed);
        let mut idle = overloaded();
        for _ in 0..10 {
            tick(&mut idle, 125, 0.0, 20, 0.5);
        }
        assert!(idle.allowed.is_none_or(|allowed| allowed > served * 1.1), "{:?}", idle.allowed);
    }
}
