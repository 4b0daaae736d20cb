//! The controller of the admission cursor: pressure and demand in, a position out.

use core::time::Duration;

use tidegate_core::{BindingSignal, Timestamp};

use crate::cursor::{Cursor, LEVELS};

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

/// The state of the controller of one resource.
#[derive(Clone, Copy, Debug)]
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

    /// The signal that put the cursor where it is at `now`.
    pub(crate) fn binding_signal(&self, now: Timestamp) -> BindingSignal {
        if self.pinned_until(now).is_some() { BindingSignal::Pin } else { self.binding }
    }

    /// The position after a tick in which the bound in flight was under `measured` pressure.
    ///
    /// The controller stands still while the cursor is pinned: it would otherwise cut again at each
    /// tick, without seeing an effect, and shed everything as soon as the pin ends.
    pub(crate) fn tick(&mut self, measured: f64, offered: &[u64; LEVELS], now: Timestamp) -> Cursor {
        let signal = if self.signal_age < SIGNAL_TICKS { self.signal } else { 0.0 };
        self.signal_age = self.signal_age.saturating_add(1);
        if self.pinned_until(now).is_none() {
            self.pin = None;
            if measured.max(signal) > 1.0 {
                self.binding =
                    if signal > measured { BindingSignal::Pressure } else { BindingSignal::InFlight };
            }
            self.steer(measured.max(signal), offered);
        }
        self.position(now)
    }

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
        let total = offered.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        self.cursor = match total {
            _ if self.share >= 1.0 => Cursor::OPEN,
            // A tick without demand is no reason to move.
            0 => self.cursor,
            _ => Cursor::for_allowance(offered, share_of(total, self.share)),
        };
    }
}

/// This share of `total`, to a thousandth.
#[expect(clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
fn share_of(total: u64, share: f64) -> u64 {
    let thousandths = (share * 1000.0) as u64;
    u64::try_from(u128::from(total) * u128::from(thousandths) / 1000).unwrap_or(u64::MAX)
}
