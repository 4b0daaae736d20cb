//! The plane: what it decides on each request, and how a tick moves what it decides by.

use core::time::Duration;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate::{Class, Cost, Timestamp};

use crate::backoff::Backoff;
use crate::cursor::{Cursor, LEVELS, level_of};
use crate::in_flight::{InFlight, InFlightPermit};

/// The time between two ticks.
pub const TICK: Duration = Duration::from_millis(100);

/// How much of what is over target one tick takes away; Breakwater's proportional decrease.
const DECREASE: f64 = 0.5;
/// The most that one tick takes away.
const DECREASE_MAX: f64 = 0.5;
/// After so many ticks without pressure the cursor opens in one step.
const CALM_TICKS: u32 = 2;
/// A signal that is older than so many ticks no longer counts.
const SIGNAL_TICKS: u32 = 3;

/// How the plane is set.
#[derive(Clone, Copy, Debug)]
pub struct OverloadConfig {
    /// The most requests in flight at once, 1 to [`OverloadConfig::IN_FLIGHT_MAX`].
    pub in_flight_max: u64,
    /// Seeds the cohorts. Random where strangers choose tenants.
    pub seed: u64,
}

impl OverloadConfig {
    /// The largest bound: a million requests in flight.
    pub const IN_FLIGHT_MAX: u64 = 1_000_000;
}

/// Why numbers make no overload plane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverloadError {
    /// The bound on work in flight is zero or too large.
    #[error(
        "in_flight_max {0} is not between 1 and 1000000; use how many requests the system works on at once"
    )]
    InFlightMax(u64),
}

/// How hard pressed the system is, as measured outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signal {
    /// 1.0 is as much as the system should bear. Counts as 0 if it is negative or not a number.
    pub pressure: f64,
}

/// Why a request is not served now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shed {
    /// Its level is below the cursor.
    BelowCursor {
        /// Where the cursor stands.
        cursor: Cursor,
        /// How long to stay away at least.
        retry_after_hint: Duration,
    },
    /// All places in flight are taken.
    NoPlace {
        /// How many there are.
        max: u64,
        /// How long to stay away at least.
        retry_after_hint: Duration,
    },
}

impl Shed {
    /// What shed the request: `admission_cursor` or `in_flight`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BelowCursor { .. } => "admission_cursor",
            Self::NoPlace { .. } => "in_flight",
        }
    }

    /// The places in flight, or the level of the cursor.
    pub fn limit(&self) -> u64 {
        match self {
            Self::BelowCursor { cursor, .. } => u64::from(cursor.level()),
            Self::NoPlace { max, .. } => *max,
        }
    }

    /// How long to stay away at least: 1 to 32 seconds.
    pub const fn retry_after_hint(&self) -> Duration {
        match self {
            Self::BelowCursor { retry_after_hint, .. } | Self::NoPlace { retry_after_hint, .. } => {
                *retry_after_hint
            }
        }
    }
}

/// The overload plane. All methods take `&self`; any number of threads may call them at once.
#[derive(Debug)]
pub struct Overload {
    in_flight: InFlight,
    cohort_seed: u64,
    cursor: AtomicU16,
    retry_seconds: AtomicU64,
    /// The cost offered at each level since the last tick: what was shed counts as what was served
    /// does.
    offered: Box<[AtomicU64; LEVELS]>,
    shed: AtomicU64,
    control: Mutex<Control>,
}

#[derive(Debug)]
struct Control {
    /// When the next tick is due; `None` before the first.
    due: Option<Timestamp>,
    signal: f64,
    signal_age: u32,
    calm: u32,
    /// What is served of the offered cost, 1.0 when the cursor is open.
    share: f64,
    cursor: Cursor,
    backoff: Backoff,
}

impl Overload {
    /// The most of one request's cost that counts as offered: 2^32, so that no number of requests
    /// in a tick can wrap a sum of them.
    pub const OFFERED_COST_MAX: u64 = 1 << 32;

    /// A plane with these settings: no pressure, the cursor open.
    pub fn new(config: OverloadConfig) -> Result<Self, OverloadError> {
        if !(1..=OverloadConfig::IN_FLIGHT_MAX).contains(&config.in_flight_max) {
            return Err(OverloadError::InFlightMax(config.in_flight_max));
        }
        let control = Control {
            due: None,
            signal: 0.0,
            signal_age: SIGNAL_TICKS,
            calm: 0,
            share: 1.0,
            cursor: Cursor::OPEN,
            backoff: Backoff::new(),
        };
        Ok(Self {
            in_flight: InFlight::new(config.in_flight_max),
            cohort_seed: config.seed,
            cursor: AtomicU16::new(Cursor::OPEN.level()),
            retry_seconds: AtomicU64::new(Backoff::new().hint().as_secs()),
            offered: Box::new([const { AtomicU64::new(0) }; LEVELS]),
            shed: AtomicU64::new(0),
            control: Mutex::new(control),
        })
    }

    /// Whether the cursor sheds a request, charging nothing. Its cost counts as offered either way,
    /// at most [`Overload::OFFERED_COST_MAX`] of it; [`Overload::withdraw`] when it turns out to be
    /// no demand.
    pub fn admit_read_only(
        &self,
        class: Class,
        tenant: Option<&str>,
        cost: Cost,
        now: Timestamp,
    ) -> Option<Shed> {
        let level = level_of(class, tenant, self.cohort_seed, now);
        // Relaxed, here and below: sums for the next tick, ordered with nothing.
        self.offered[usize::from(level)].fetch_add(offered_cost(cost), Ordering::Relaxed);
        let cursor = self.cursor();
        if level >= cursor.level() {
            return None;
        }
        self.shed.fetch_add(1, Ordering::Relaxed);
        Some(Shed::BelowCursor { cursor, retry_after_hint: self.retry_after_hint() })
    }

    /// Takes back that a request was offered: it passed the cursor and then was denied by a limit
    /// or throttled by the capacity plane, which is no demand on the system. Called with what
    /// [`Overload::admit_read_only`] was called with.
    ///
    /// Without it, a caller that is far over its limits would take up the cursor's allowance for
    /// its class, and lower classes would be shed for work that is never done. After a tick in
    /// between there is nothing to take back.
    pub fn withdraw(&self, class: Class, tenant: Option<&str>, cost: Cost, now: Timestamp) {
        let offered = &self.offered[usize::from(level_of(class, tenant, self.cohort_seed, now))];
        let cost = offered_cost(cost);
        // Never below zero: the tick that took the sum has taken this cost along.
        let _ =
            offered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_sub(cost)));
    }

    /// Takes a place in flight.
    pub fn acquire(&self, _now: Timestamp) -> Result<InFlightPermit, Shed> {
        self.in_flight.acquire().ok_or_else(|| {
            self.shed.fetch_add(1, Ordering::Relaxed);
            Shed::NoPlace { max: self.in_flight.max(), retry_after_hint: self.retry_after_hint() }
        })
    }

    /// Gives a place in flight back.
    pub fn give_back(&self, permit: InFlightPermit) {
        self.in_flight.give_back(permit);
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.count()
    }

    /// Where the cursor stands.
    pub fn cursor(&self) -> Cursor {
        Cursor::at(self.cursor.load(Ordering::Relaxed))
    }

    /// How long those who are shed are told to stay away.
    pub fn retry_after_hint(&self) -> Duration {
        Duration::from_secs(self.retry_seconds.load(Ordering::Relaxed))
    }

    /// Takes in how hard pressed the system is; counts until a newer one comes, for three ticks at
    /// most.
    pub fn event(&self, signal: Signal, _now: Timestamp) {
        let mut control = self.control();
        control.signal = if signal.pressure.is_finite() { signal.pressure.max(0.0) } else { 0.0 };
        control.signal_age = 0;
    }

    /// Moves the cursor by what was offered since the last tick. When the next tick is due; early
    /// calls change nothing.
    ///
    /// A clock that steps back delays nothing: the tick is then due again from where the clock
    /// stands.
    pub fn tick(&self, now: Timestamp) -> Timestamp {
        let mut control = self.control();
        let next = now.saturating_add(TICK);
        match control.due {
            Some(due) if now < due && due <= next => return due,
            _ => control.due = Some(next),
        }
        let offered: [u64; LEVELS] =
            core::array::from_fn(|level| self.offered[level].swap(0, Ordering::Relaxed));
        let shed = self.shed.swap(0, Ordering::Relaxed);
        control.backoff.observe(shed, TICK);
        self.retry_seconds.store(control.backoff.hint().as_secs(), Ordering::Relaxed);
        let measured = self.in_flight.take_pressure();
        let signal = if control.signal_age < SIGNAL_TICKS { control.signal } else { 0.0 };
        control.signal_age = control.signal_age.saturating_add(1);
        let cursor = control.steer(measured.max(signal), &offered);
        self.cursor.store(cursor.level(), Ordering::Relaxed);
        next
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        // A panic elsewhere leaves numbers, none of which depend on each other.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// The next position of the cursor under this pressure, given what was offered.
    fn steer(&mut self, pressure: f64, offered: &[u64; LEVELS]) -> Cursor {
        if pressure > 1.0 {
            self.calm = 0;
            let cut = (DECREASE * (pressure - 1.0)).min(DECREASE_MAX);
            self.share *= 1.0 - cut;
        } else {
            self.calm += 1;
            if self.calm >= CALM_TICKS {
                // Not step by step: capacity that is there again must not stand idle.
                self.share = 1.0;
            }
        }
        let total: u64 = offered.iter().fold(0, |sum, cost| sum.saturating_add(*cost));
        self.cursor = match total {
            _ if self.share >= 1.0 => Cursor::OPEN,
            // A tick in which nobody came says nothing about who may.
            0 => self.cursor,
            _ => Cursor::for_allowance(offered, share_of(total, self.share)),
        };
        self.cursor
    }
}

fn offered_cost(cost: Cost) -> u64 {
    cost.units().min(Overload::OFFERED_COST_MAX)
}

/// So much of `total`, to a thousandth.
#[expect(clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
fn share_of(total: u64, share: f64) -> u64 {
    let thousandths = (share * 1000.0) as u64;
    u64::try_from(u128::from(total) * u128::from(thousandths) / 1000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
