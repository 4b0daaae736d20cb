//! The demand of one namespace at a resource, and its cursor.
//!
//! A request counts by its place time: how long the requests of its class and namespace keep a
//! place, relative to all. The time of places is shared, not the number of requests.

use tidegate_core::Class;

use crate::cursor::fair_demand::{ClassDemand, FairDemand};
use crate::cursor::marginal_rank::MARGINAL_PART;
use crate::cursor::namespace_cursor::NamespaceCursor;
use crate::cursor::namespace_slots::NamespaceTick;
use crate::cursor::{COHORTS, LEVELS};
use crate::namespaces::NamespaceKey;
use crate::places::held_times::HeldTimes;

/// The weight of one tick in the smoothed demand: a time constant of a second.
const DEMAND_GAIN: f32 = 1.0 / 11.0;
/// The newest demand is the mean of so many ticks.
const NEWEST_TICKS: usize = 3;
/// A change of the position up to so many levels is taken as chance, and followed slowly.
const NEAR_LEVELS: u16 = 64;
/// A larger one after so many ticks in a row.
const FAR_TICKS: u32 = 5;
/// By so many levels a tick.
const STEP_LEVELS: u16 = 3;
/// The requests that must have ended lately for their time to count.
const HELD_SAMPLES: f64 = 5.0;
/// A request counts at most as much as so many of all.
const WEIGHT_MAX: f64 = 1_000.0;
/// A namespace that has asked for nothing for so many ticks is forgotten.
const FORGET_TICKS: u32 = 100;

/// Requests of a class wait if none of them found no place and left in so many ticks.
const QUEUED_TICKS: u32 = 10;

/// The demand of one namespace.
#[derive(Debug)]
pub(crate) struct NamespaceDemand {
    pub(crate) namespace: NamespaceKey,
    fair: FairDemand,
    /// The part of `fair` that is still the 0 that it began with.
    unknown: f64,
    /// The demand that counts of each of the last ticks, the newest first.
    recent: [ClassDemand; NEWEST_TICKS],
    cursor: NamespaceCursor,
    /// The ticks in a row in which the position in each class was far from where it should be.
    far: [u32; Class::ALL.len()],
    /// The ticks in a row without a request.
    silent: u32,
    /// The ticks since requests of each class found no place and did not wait for one.
    queued: [u32; Class::ALL.len()],
    /// For how long its requests kept their places.
    held: HeldTimes,
    /// The time for which a request of each class keeps a place, relative to that of all.
    weights: ClassDemand,
}

impl NamespaceDemand {
    pub(crate) fn new(namespace: NamespaceKey) -> Self {
        Self {
            namespace,
            fair: FairDemand::new(),
            unknown: 1.0,
            recent: [[0.0; Class::ALL.len()]; NEWEST_TICKS],
            cursor: NamespaceCursor::OPEN,
            far: [0; Class::ALL.len()],
            silent: 0,
            queued: [QUEUED_TICKS; Class::ALL.len()],
            held: HeldTimes::default(),
            weights: [1.0; Class::ALL.len()],
        }
    }

    /// Takes in the requests of one tick; `None`: there were none.
    pub(crate) fn learn(&mut self, tick: Option<&NamespaceTick>) {
        let offered = tick.and_then(|tick| tick.offered.as_deref());
        self.silent = if tick.is_some() { 0 } else { self.silent.saturating_add(1) };
        self.held.fade();
        if let Some(tick) = tick {
            self.held.add(tick);
        }
        for (class, queued) in self.queued.iter_mut().enumerate() {
            let is_unplaced = tick.is_some_and(|tick| tick.unplaced[class] > 0);
            *queued = if is_unplaced { 0 } else { queued.saturating_add(1) };
        }
        let newest = self.fair.learn(offered.unwrap_or(&[0; LEVELS]), DEMAND_GAIN);
        self.unknown *= 1.0 - f64::from(DEMAND_GAIN);
        self.recent.rotate_right(1);
        self.recent[0] = newest;
    }

    /// For how long its requests kept their places.
    pub(crate) const fn held(&self) -> &HeldTimes {
        &self.held
    }

    /// Sets the time for which a request of all namespaces keeps a place on average, in
    /// microseconds; 0: it is not known. A class of which few requests have ended lately has the
    /// time of all its namespace's.
    pub(crate) fn weigh(&mut self, mean_us: f64) {
        self.weights = core::array::from_fn(|class| {
            let own = self.held.average_us(class, HELD_SAMPLES).filter(|_| mean_us > 0.0);
            own.map_or(1.0, |own| own / mean_us).clamp(1.0 / WEIGHT_MAX, WEIGHT_MAX)
        });
    }

    /// The weight of one of its requests in each class: the time for which it keeps a place,
    /// relative to all.
    pub(crate) const fn weights(&self) -> ClassDemand {
        self.weights
    }

    /// Whether its requests of a class wait where no place is free, as far as was seen lately.
    pub(crate) const fn waits(&self, class: usize) -> bool {
        self.queued[class] >= QUEUED_TICKS
    }

    /// Whether it has asked for nothing for so long that it is forgotten.
    pub(crate) const fn is_over(&self) -> bool {
        self.silent >= FORGET_TICKS
    }

    /// The demand that counts at a level.
    pub(crate) fn at(&self, level: usize) -> f64 {
        self.fair.at(level) * self.weights[level / usize::from(COHORTS)] / (1.0 - self.unknown)
    }

    /// The smoothed demand that counts.
    pub(crate) fn smoothed(&self) -> f64 {
        (0..LEVELS).map(|level| self.at(level)).sum()
    }

    /// The demand of the last tick.
    pub(crate) fn last(&self) -> ClassDemand {
        self.weighed(self.recent[0])
    }

    /// The mean demand of the last ticks.
    pub(crate) fn newest(&self) -> f64 {
        let sum: f64 = self.recent.iter().flat_map(|tick| self.weighed(*tick)).sum();
        sum / NEWEST_TICKS as f64
    }

    fn weighed(&self, demand: ClassDemand) -> ClassDemand {
        core::array::from_fn(|class| demand[class] * self.weights[class])
    }

    pub(crate) const fn cursor(&self) -> NamespaceCursor {
        self.cursor
    }

    /// Moves the cursor towards a position.
    pub(crate) fn follow(&mut self, target: NamespaceCursor) {
        self.cursor = NamespaceCursor::new(Class::ALL.map(|of| {
            let (class, from, to) = (of as usize, self.cursor.cohort(of), target.cohort(of));
            self.far[class] = if from.abs_diff(to) > NEAR_LEVELS { self.far[class] + 1 } else { 0 };
            let is_jump = from == 0 || to == 0 || self.far[class] >= FAR_TICKS;
            let near = to.clamp(from.saturating_sub(STEP_LEVELS), from + STEP_LEVELS);
            if is_jump { to } else { near }
        }));
    }

    /// The cohort of a class below which the requests that a cursor lets in are marginal: after the
    /// one in which the least important [`MARGINAL_PART`] of them ends.
    pub(crate) fn marginal_end(&self, class: Class, cursor: u16) -> u16 {
        let first = class as usize * usize::from(COHORTS);
        let cohorts = || usize::from(cursor)..usize::from(COHORTS);
        let let_in: f64 = cohorts().map(|cohort| self.fair.at(first + cohort)).sum();
        let kept = let_in * (1.0 - MARGINAL_PART);
        let mut more_important = 0.0;
        let last = cohorts().rev().find(|cohort| {
            more_important += self.fair.at(first + cohort);
            more_important >= kept && kept > 0.0
        });
        last.map_or(0, |last| last as u16 + 1)
    }
}
