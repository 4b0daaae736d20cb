//! The controller of the admission cursor: pressure and demand in, a position out.

use core::time::Duration;

use tidegate_core::{BindingSignal, Timestamp};

use crate::allowance::{Allowance, TickLoad};
use crate::cursor::{Cursor, LEVELS};
use crate::queue_observation::QueueObservation;

/// The time between two ticks.
pub const TICK: Duration = Duration::from_millis(100);

/// The part of the excess over the target that one tick takes away; Breakwater's proportional
/// decrease.
const DECREASE: f64 = 0.5;
/// The most that one tick takes away.
const DECREASE_MAX: f64 = 0.5;
/// After so many ticks without pressure the cursor opens in one step.
const CALM_TICKS: u32 = 2;
/// A signal that is older than so many ticks no longer counts.
const SIGNAL_TICKS: u32 = 3;

/// A queue that was not observed for so many ticks counts as gone.
const UNOBSERVED_TICKS: u32 = 10;

/// The measures of one tick besides the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickMeasures<'a> {
    /// The cost offered at each level.
    pub(crate) offered: &'a [u64; LEVELS],
    /// The places wanted at the peak, those of requests turned away included, divided by all.
    pub(crate) wanted: f64,
    /// The average of the places in use, as a part of all.
    pub(crate) utilization: f64,
    /// The places.
    pub(crate) places: u64,
    /// The requests that were shed or found no place.
    pub(crate) turned_away: u64,
    /// The report of the queue; `None`: it was not observed.
    pub(crate) queue: Option<QueueObservation>,
}

/// The state of the controller of one resource.
///
/// Where the queue is observed, its delay alone moves the cursor. A resource without a queue has
/// no delay: there the places wanted over those that exist, and pressure that is pushed, do.
#[derive(Debug)]
pub(crate) struct CursorControl {
    signal: f64,
    /// The ticks since the signal came.
    signal_age: u32,
    /// The ticks in a row without pressure.
    calm: u32,
    /// The part of the offered cost that is served, 1.0 when the cursor is open.
    share: f64,
    cursor: Cursor,
    /// The signal whose pressure was the highest at the last cut.
    binding: BindingSignal,
    pin: Option<Pin>,
    /// `None`: no queue is observed.
    allowance: Option<Allowance>,
    /// The ticks since the queue was observed.
    unobserved: u32,
}

/// A position that an operator has set.
#[derive(Clone, Copy, Debug)]
struct Pin {
    cursor: Cursor,
    until: Timestamp,
}

impl CursorControl {
    /// No signal yet, the cursor open.
    pub(crate) const fn new() -> Self {
        Self {
            signal: 0.0,
            signal_age: SIGNAL_TICKS,
            calm: 0,
            share: 1.0,
            cursor: Cursor::OPEN,
            binding: BindingSignal::InFlight,
            pin: None,
            allowance: None,
            unobserved: 0,
        }
    }

    /// Replaces the signal; it counts for [`SIGNAL_TICKS`] ticks. A negative or undefined pressure
    /// counts as 0.
    pub(crate) const fn signal(&mut self, pressure: f64) {
        self.signal = if pressure.is_finite() { pressure.max(0.0) } else { 0.0 };
        self.signal_age = 0;
    }

    /// Pins the position until an instant, or removes the pin.
    pub(crate) fn pin(&mut self, cursor: Option<Cursor>, until: Timestamp) {
        self.pin = cursor.map(|cursor| Pin { cursor, until });
    }

    /// The end of the pin in force.
    pub(crate) fn pinned_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.pin.map(|pin| pin.until).filter(|until| now < *until)
    }

    /// The position at `now`.
    pub(crate) fn position(&self, now: Timestamp) -> Cursor {
        self.pin.filter(|pin| now < pin.until).map_or(self.cursor, |pin| pin.cursor)
    }

    /// The level below which the requests that a cursor lets in are marginal; 0 where no queue is
    /// observed.
    pub(crate) fn marginal_end(&self, cursor: Cursor) -> u16 {
        self.allowance.as_ref().map_or(0, |allowance| allowance.marginal_end(cursor))
    }

    /// The signal that put the cursor where it is at `now`.
    pub(crate) fn binding_signal(&self, now: Timestamp) -> BindingSignal {
        if self.pinned_until(now).is_some() { BindingSignal::Pin } else { self.binding }
    }

    /// The position after a tick.
    ///
    /// The controller stands still while the cursor is pinned: it would otherwise cut again at each
    /// tick, without seeing an effect, and shed everything as soon as the pin ends.
    pub(crate) fn tick(&mut self, measures: &TickMeasures<'_>, now: Timestamp) -> Cursor {
        let may_move = self.pinned_until(now).is_none();
        if may_move {
            self.pin = None;
        }
        let pushed = if self.signal_age < SIGNAL_TICKS { self.signal } else { 0.0 };
        self.signal_age = self.signal_age.saturating_add(1);
        if measures.queue.is_some() {
            self.unobserved = 0;
        } else {
            self.unobserved = self.unobserved.saturating_add(1);
            if self.unobserved > UNOBSERVED_TICKS {
                self.allowance = None;
            }
        }
        match (measures.queue, &mut self.allowance) {
            (Some(queue), allowance) => {
                let allowance = allowance.get_or_insert_with(Allowance::new);
                let load = TickLoad {
                    offered: measures.offered,
                    queue,
                    turned_away: measures.turned_away,
                    utilization: measures.utilization,
                    places: measures.places,
                };
                let cursor = allowance.tick(&load, may_move);
                if may_move {
                    self.cursor = cursor;
                    if queue.is_overloaded() {
                        self.binding = BindingSignal::QueueDelay;
                    }
                }
            }
            (None, None) if may_move => {
                let pressure = measures.wanted.max(pushed);
                if pressure > 1.0 {
                    self.binding = if pushed > measures.wanted {
                        BindingSignal::Pressure
                    } else {
                        BindingSignal::InFlight
                    };
                }
                self.steer(pressure, measures.offered);
            }
            // A pin holds, or one observation is late: nothing moves.
            (None, _) => {}
        }
        self.position(now)
    }

    /// The rule of a resource without a queue.
    fn steer(&mut self, pressure: f64, offered: &[u64; LEVELS]) {
        if pressure > 1.0 {
            self.calm = 0;
            let cut = (DECREASE * (pressure - 1.0)).min(DECREASE_MAX);
            self.share *= 1.0 - cut;
        } else {
            self.calm = self.calm.saturating_add(1);
            if self.calm >= CALM_TICKS {
                // In one step: capacity that has returned must not stay idle.
                self.share = 1.0;
            }
        }
        let total: f64 = offered.iter().map(|cost| *cost as f64).sum();
        self.cursor = if self.share >= 1.0 {
            Cursor::OPEN
        } else if total > 0.0 {
            Cursor::within_allowance(|level| offered[level] as f64, total * self.share)
        } else {
            // A tick without demand is no reason to move.
            self.cursor
        };
    }
}
