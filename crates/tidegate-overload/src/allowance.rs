//! How much of the offered cost a resource with a queue takes in: the delay of its queue in, a
//! position of the cursor out.
//!
//! A queue that stands longer than its target cuts the allowance in proportion to the excess
//! (Breakwater, OSDI'20). Three rules keep a steady overload steady:
//!
//! - the first cut starts from what was served in the last second. Demand says nothing about
//!   capacity, and from "all of it" the cuts would need a second to have an effect;
//! - no cut goes below [`SERVED_KEPT`] of what was served. The served cost is what the resource is
//!   known to bear. `CoDel` bounds the delay meanwhile, so cutting deeper only idles places;
//! - the cursor opens in one step only if the demand fits what was served, if capacity grew, or if
//!   the queue was empty and nobody was shed. An empty queue alone is what a cursor that works
//!   looks
//!   like: opening then floods the queue, and the cursor cycles twice a second.

use crate::cursor::{Cursor, LEVELS};
use crate::queue_observation::QueueObservation;

/// The part of the excess over the target that one tick takes away; Breakwater's proportional
/// decrease.
const DECREASE: f64 = 0.5;
/// The least factor of one tick.
const FACTOR_MIN: f64 = 0.5;
/// No cut goes below this part of what was served.
const SERVED_KEPT: f64 = 0.95;
/// Nor below this part of what was served in better times, so that a resource that hung for a
/// second is not closed to all but the highest class for many more.
const BEST_KEPT: f64 = 0.1;
/// The part that a tick leaves of the memory of better times: a tenth after 23 s.
const BEST_DECAY: f64 = 0.99;
/// The most by which one tick raises the allowance.
const RAISE_MAX: f64 = 0.1;
/// No raise goes above this multiple of what was served, so that a pause of the overload by chance
/// does not swing the cursor; the served cost follows the allowance where there is capacity.
const SERVED_OVER: f64 = 1.15;
/// Newer demand counts as a surge from this multiple of the smoothed demand on.
const SURGE: f64 = 1.25;
/// A change of the position up to so many levels is taken as chance, and followed slowly.
const NEAR_LEVELS: u16 = 64;
/// A larger one after so many ticks in a row.
const FAR_TICKS: u32 = 5;
/// By so many levels a tick.
const STEP_LEVELS: u16 = 3;
/// The ticks of a second.
const SECOND_TICKS: usize = 10;
/// The weight of one tick in the smoothed demand: a time constant of a second.
const DEMAND_GAIN: f32 = 1.0 / 11.0;
/// Demand is compared with the served cost over at least so many units, or a second. Half of twice
/// as much is five standard deviations away, so chance does not open the cursor.
const COMPARED_UNITS: f64 = 50.0;
/// After so many ticks with an empty queue in which nobody was shed the cursor opens.
const CALM_TICKS: u32 = 2;
/// The limit that counts as more capacity, relative to that of the last overloaded tick.
const GROWTH: f64 = 1.1;

/// The input of the allowance of one tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickLoad<'a> {
    /// The cost offered at each level.
    pub(crate) offered: &'a [u64; LEVELS],
    pub(crate) queue: QueueObservation,
    /// The requests that the cursor shed or that found no place, repeated attempts included.
    pub(crate) turned_away: u64,
    /// The average of the places in use, as a part of all.
    pub(crate) utilization: f64,
    /// The places.
    pub(crate) places: u64,
}

/// The allowance of one resource, and the demand that it is compared with.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// The cost that one tick may take in; `None`: all that is offered.
    allowed: Option<f64>,
    /// The offered cost of each level per tick, smoothed.
    demand: Box<[f32; LEVELS]>,
    /// The offered and the served cost of the last ticks, the newest first.
    recent: [(f64, f64); SECOND_TICKS],
    /// How many of those have happened.
    ticks: usize,
    /// The most that was served per tick, fading.
    best: f64,
    /// The places at the last overloaded tick.
    places: u64,
    calm: u32,
    /// The position after the last tick.
    cursor: Cursor,
    /// The ticks in a row in which the position was far from where it should be.
    far: u32,
}

impl Allowance {
    pub(crate) fn new() -> Self {
        Self {
            allowed: None,
            demand: Box::new([0.0; LEVELS]),
            recent: [(0.0, 0.0); SECOND_TICKS],
            ticks: 0,
            best: 0.0,
            places: 0,
            calm: 0,
            cursor: Cursor::OPEN,
            far: 0,
        }
    }

    /// Takes a tick in, and answers with the position that follows from it. Without `may_move`
    /// it only learns what was offered and served.
    pub(crate) fn tick(&mut self, load: &TickLoad<'_>, may_move: bool) -> Cursor {
        self.learn(load);
        if !may_move {
            return self.cursor;
        }
        if load.queue.is_overloaded() {
            self.calm = 0;
            self.places = load.places;
            self.cut(load.queue.delay_ratio);
        } else if let Some(allowed) = self.allowed {
            let is_calm = load.queue.is_empty && load.queue.shed == 0 && load.turned_away == 0;
            self.calm = if is_calm { self.calm.saturating_add(1) } else { 0 };
            let has_grown = load.places as f64 >= self.places as f64 * GROWTH;
            if self.fits() || has_grown || self.calm >= CALM_TICKS {
                self.allowed = None;
            } else {
                let spare = (1.0 - load.utilization).clamp(0.0, RAISE_MAX);
                let served = self.served();
                // Already above it after a cut: it stays.
                let most = allowed.max(SERVED_OVER * served);
                self.allowed = Some((allowed * (1.0 + spare)).min(most).max(SERVED_KEPT * served));
            }
        }
        let position = self.position();
        if position == Cursor::OPEN && !load.queue.is_overloaded() {
            self.allowed = None;
        }
        let (from, to) = (self.cursor.level(), position.level());
        self.far = if from.abs_diff(to) > NEAR_LEVELS { self.far + 1 } else { 0 };
        self.cursor = if from == 0 || to == 0 || self.far >= FAR_TICKS {
            position
        } else {
            Cursor::at(to.clamp(from.saturating_sub(STEP_LEVELS), from + STEP_LEVELS))
        };
        self.cursor
    }

    fn learn(&mut self, load: &TickLoad<'_>) {
        let mut total = 0.0;
        for (smooth, cost) in self.demand.iter_mut().zip(load.offered) {
            *smooth += (*cost as f32 - *smooth) * DEMAND_GAIN;
            total += *cost as f64;
        }
        self.recent.rotate_right(1);
        self.recent[0] = (total, load.queue.served as f64);
        self.ticks = (self.ticks + 1).min(SECOND_TICKS);
        self.best = (self.best * BEST_DECAY).max(self.served());
    }

    /// The cost served per tick, in the last second.
    fn served(&self) -> f64 {
        let sum: f64 = self.recent.iter().map(|(_, served)| served).sum();
        sum / self.ticks.max(1) as f64
    }

    fn cut(&mut self, delay_ratio: f64) {
        let factor = (1.0 - DECREASE * (delay_ratio - 1.0)).max(FACTOR_MIN);
        let served = self.served();
        let from = self.allowed.unwrap_or(served);
        // At least one unit: the most important level that is offered is never shed by chance.
        let least = (SERVED_KEPT * served).max(BEST_KEPT * self.best).max(1.0);
        self.allowed = Some((from * factor).max(least));
    }

    /// Whether the newest demand fits what was served in the last second.
    fn fits(&self) -> bool {
        let served = self.served();
        let needed = (1..SECOND_TICKS).find(|ticks| served * *ticks as f64 >= COMPARED_UNITS);
        let ticks = needed.unwrap_or(SECOND_TICKS);
        let offered: f64 = self.recent[..ticks].iter().map(|(offered, _)| offered).sum();
        offered <= served * ticks as f64
    }

    fn position(&self) -> Cursor {
        let Some(allowed) = self.allowed else { return Cursor::OPEN };
        let smooth: f64 = self.demand.iter().map(|cost| f64::from(*cost)).sum();
        // A surge is in the last ticks before it is in the smoothed demand.
        let newest = self.recent[..3].iter().map(|(offered, _)| offered).sum::<f64>() / 3.0;
        let scale = if newest > SURGE * smooth && smooth > 0.0 { newest / smooth } else { 1.0 };
        Cursor::for_allowance(|level| f64::from(self.demand[level]) * scale, allowed)
    }
}
