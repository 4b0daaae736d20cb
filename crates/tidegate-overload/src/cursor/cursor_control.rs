//! The controller of the admission cursor: pressure and demand in, a position out.

use tidegate_core::{BindingSignal, Class, Timestamp};

use crate::cursor::Cursor;
use crate::cursor::allowance::{Allowance, TickLoad};
use crate::cursor::cursor_positions::{LastLevel, PromisedParts, UNQUEUED_KEPT, cohorts_of};
use crate::cursor::namespace_cursor::{NamespaceCursor, NamespacePosition};
use crate::cursor::namespace_slots::NamespaceTick;
use crate::queue::queue_observation::QueueObservation;

/// The part of the excess over the target that one tick takes away; Breakwater's proportional
/// decrease.
const DECREASE: f64 = 0.5;
/// The most that one tick takes away.
const DECREASE_MAX: f64 = 0.5;
/// So much of what was served in a tick counts in the next.
const SERVED_KEPT: f64 = 0.9;
/// After so many ticks without pressure the cursor opens in one step.
const CALM_TICKS: u32 = 2;
/// A signal that is older than so many ticks no longer counts.
const SIGNAL_TICKS: u32 = 3;

/// A queue that was not observed for so many ticks counts as gone.
const UNOBSERVED_TICKS: u32 = 10;

/// The measures of one tick besides the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickMeasures<'a> {
    /// The requests of each namespace.
    pub(crate) namespaces: &'a [NamespaceTick],
    /// The parts of the classes and namespaces.
    pub(crate) parts: PromisedParts<'a>,
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
    /// The most requests that a resource without a queue has begun to serve in one of the last
    /// ticks; older ones count less.
    served: f64,
    /// The cursors of a resource without a queue.
    unqueued: Vec<NamespacePosition>,
    is_at_end: bool,
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
            served: 0.0,
            unqueued: Vec::new(),
            is_at_end: false,
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

    /// The position that an operator has pinned for all namespaces.
    pub(crate) fn pinned(&self, now: Timestamp) -> Option<Cursor> {
        self.pin.filter(|pin| now < pin.until).map(|pin| pin.cursor)
    }

    /// The cursors of the namespaces, but for a pin.
    pub(crate) fn positions(&self, parts: PromisedParts<'_>) -> Vec<NamespacePosition> {
        match &self.allowance {
            Some(allowance) => allowance.positions(parts),
            None => self.unqueued.clone(),
        }
    }

    /// Whether the cursor has nothing left that it could shed.
    pub(crate) fn is_at_end(&self, now: Timestamp) -> bool {
        let is_at_end = self.allowance.as_ref().map_or(self.is_at_end, Allowance::is_at_end);
        self.pinned(now).map_or(is_at_end, |cursor| cursor == Cursor::CLOSED)
    }

    /// The signal that put the cursor where it is at `now`.
    pub(crate) fn binding_signal(&self, now: Timestamp) -> BindingSignal {
        if self.pinned_until(now).is_some() { BindingSignal::Pin } else { self.binding }
    }

    /// Moves the cursors after a tick. The slots of namespaces that are forgotten.
    ///
    /// The controller stands still while the cursor is pinned: it would otherwise cut again at each
    /// tick, without seeing an effect, and shed everything as soon as the pin ends.
    pub(crate) fn tick(&mut self, measures: &TickMeasures<'_>, now: Timestamp) -> Vec<usize> {
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
                let allowance = allowance.get_or_insert_default();
                let load = TickLoad {
                    namespaces: measures.namespaces,
                    parts: measures.parts,
                    queue,
                    turned_away: measures.turned_away,
                    utilization: measures.utilization,
                    places: measures.places,
                };
                let forgotten = allowance.tick(&load, may_move);
                if may_move && queue.is_overloaded() {
                    self.binding = BindingSignal::QueueDelay;
                }
                forgotten
            }
            (None, None) if may_move => {
                let pressure = measures.wanted.max(pushed);
                let is_pushed = pushed > measures.wanted;
                if pressure > 1.0 {
                    self.binding = if is_pushed { BindingSignal::Pressure } else { BindingSignal::InFlight };
                }
                self.steer(pressure, is_pushed, measures)
            }
            // A pin holds, or one observation is late: nothing moves.
            (None, _) => Vec::new(),
        }
    }

    /// The rule of a resource without a queue. The slots of namespaces that are forgotten: all that
    /// have asked for nothing since the cursor opened.
    ///
    /// Where all ask in one class, and places are what lacks, no less is let in than they serve,
    /// and what few tenants ask for is left to them: they bound it. The cursor puts classes in
    /// order, and nothing else bounds what presses upon a signal that is pushed.
    fn steer(&mut self, pressure: f64, is_pushed: bool, measures: &TickMeasures<'_>) -> Vec<usize> {
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
        let served: u64 = measures.namespaces.iter().flat_map(|one| one.served).sum();
        self.served = (served as f64).max(SERVED_KEPT * self.served);
        let offers = measures.namespaces.iter();
        let offers: Vec<_> = offers.filter_map(|one| Some((one, one.offered.as_ref()?))).collect();
        let total: u64 = offers.iter().flat_map(|(_, levels)| levels.iter()).sum();
        let asks = |class: &Class| {
            let levels = cohorts_of(*class as usize);
            offers.iter().any(|(_, offered)| offered[levels.clone()].iter().any(|count| *count > 0))
        };
        let is_left_to_places = !is_pushed && Class::ALL.iter().filter(|class| asks(class)).count() == 1;
        if is_left_to_places {
            self.share = self.share.max(UNQUEUED_KEPT * self.served / total as f64).min(1.0);
        }
        if self.share >= 1.0 {
            self.is_at_end = false;
            let before = core::mem::take(&mut self.unqueued);
            self.unqueued = offers.iter().map(|(one, _)| open(one.slot)).collect();
            let is_silent = |slot: &usize| offers.iter().all(|(one, _)| one.slot != *slot);
            return before.into_iter().map(|one| one.slot).filter(is_silent).collect();
        }
        if offers.is_empty() {
            // A tick without demand is no reason to move.
            return Vec::new();
        }
        let names: Vec<_> = offers.iter().map(|(one, _)| one.namespace).collect();
        let at = |index: usize, level: usize| offers[index].1[level] as f64;
        let capacity = total as f64 * self.share;
        // Where next to nothing is served, no place is idle because of the cursor.
        let last =
            if is_left_to_places && capacity >= 1.0 { LastLevel::ShedIfSmall } else { LastLevel::Shed };
        let positions = measures.parts.cursors(&names, at, |_, _| true, capacity, last);
        self.is_at_end = positions.is_at_end;
        for ((one, _), cursor) in offers.iter().zip(positions.cursors) {
            match self.unqueued.iter_mut().find(|known| known.slot == one.slot) {
                Some(known) => known.cursor = cursor,
                None => self.unqueued.push(NamespacePosition { cursor, ..open(one.slot) }),
            }
        }
        Vec::new()
    }
}

const fn open(slot: usize) -> NamespacePosition {
    NamespacePosition { slot, cursor: NamespaceCursor::OPEN, marginal: NamespaceCursor::OPEN }
}

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests {
    use super::*;
    use crate::cursor::LEVELS;
    use crate::namespaces::{NamespaceKey, NamespaceShares};
    use crate::queue::fair_queue::QueueConfig;

    /// The cursor of a namespace after a tick in which twice the places were wanted. Each class
    /// makes so many requests, all of one tenant, and twenty were served.
    fn cursor_after(asked: &[(Class, u64)]) -> NamespaceCursor {
        let mut offered = Box::new([0; LEVELS]);
        for (class, requests) in asked {
            offered[cohorts_of(*class as usize)][50] = *requests;
        }
        let mut tick = NamespaceTick::idle(0, NamespaceKey::Exact(1));
        tick.offered = Some(offered);
        tick.served[asked[0].0 as usize] = 20;
        let (config, shares) = (QueueConfig::default(), NamespaceShares::default());
        let measures = TickMeasures {
            namespaces: &[tick],
            parts: PromisedParts { config: &config, shares: &shares },
            wanted: 2.0,
            utilization: 1.0,
            places: 20,
            turned_away: 0,
            queue: None,
        };
        let mut control = CursorControl::new();
        let now = Timestamp::from_nanos(1);
        let _ = control.tick(&measures, now);
        let [position] = control.positions(measures.parts)[..] else { panic!("one namespace") };
        position.cursor
    }

    #[test]
    fn one_large_tenant_is_left_to_the_places_where_all_ask_in_one_class() {
        assert_eq!(cursor_after(&[(Class::Sheddable, 100)]), NamespaceCursor::OPEN);
        let of_two = cursor_after(&[(Class::Sheddable, 100), (Class::Critical, 10)]);
        assert_eq!(of_two, NamespaceCursor::new([51, 0, 0, 0]), "the lower class is shed");
    }
}
