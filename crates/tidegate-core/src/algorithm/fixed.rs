//! Fixed windows of one length, aligned to the epoch or opened by the first hit.
//!
//! **Promise.** At most `limit` units in each window. Two neighbouring windows may be used up one
//! right before and one right after their border, so any span of the window's length may hold up to
//! twice the limit; `bucket` and `rolling` have no such bursts.
//!
//! **State.** The window in the high bits and the units counted in it in the low bits. The longer
//! the window, the fewer bits its number needs and the more there are to count with: 9 for a
//! microsecond, 29 for a second, 35 for a minute, 46 for a day.
//!
//! * [`WindowStart::Epoch`]: the window is `floor(now / window)`, exact to the nanosecond.
//! * [`WindowStart::FirstHit`]: the window is the instant of the first hit, rounded up to a step of
//!   between a thousandth and a two-thousandth of the window. It is never shorter than promised,
//!   and longer by less than that step.
//!
//! **Time.** A window stays in force until its end is reached, also while `now` lies before its
//! start: a step back never admits more than no step. Further than one window ahead, it is
//! [brought back](Counter::brought_back).
//!
//! **Limit changes.** A new limit applies to what is already counted. A new window or alignment
//! starts fresh, since counts of one window say nothing about another.

use core::time::Duration;

use super::counter::{Charged, Counter, REPORT_DEBT_LIMITS, State, Verdict};
use super::error::{AlgorithmError, WINDOW_MAX, WINDOW_MIN, saturating};
use super::ratio::Ratio;
use crate::cost::Cost;
use crate::time::{Timestamp, duration_nanos};

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

/// Where a fixed window begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WindowStart {
    /// At whole multiples of its length since 1970-01-01T00:00:00Z.
    #[default]
    Epoch,
    /// At the first hit after the window before it has ended.
    FirstHit,
}

/// At most `limit` units in each window of one length.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::{Counter, Fixed, State, Verdict, WindowStart};
/// # use tidegate_core::{Cost, Timestamp};
/// let fixed = Fixed::new(5, Duration::from_mins(1), WindowStart::Epoch)?;
/// let minute = Timestamp::from_secs(1_800_000_000); // a whole minute
/// let last_second = minute.saturating_add(Duration::from_secs(59));
/// let (_, state) = fixed.decide(State::EMPTY, Cost::new(5).unwrap(), last_second);
/// // The next window begins a second later, whenever this one was used up.
/// let until = minute.saturating_add(Duration::from_mins(1));
/// assert_eq!(fixed.decide(state, Cost::ONE, last_second).0, Verdict::Wait { until });
/// assert_eq!(fixed.remaining(state, until), 5);
/// # Ok::<(), tidegate_core::AlgorithmError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fixed {
    limit: u64,
    window_ns: u64,
    start: WindowStart,
    /// One window a window's length, for aligned windows.
    windows: Ratio,
    /// The first hit is rounded up to a multiple of 2 to this power, in nanoseconds.
    step_bits: u32,
    count_bits: u32,
    /// The most that is counted: what reports may add, or what the bits hold.
    count_max: u64,
}

/// A window and what was counted in it.
#[derive(Clone, Copy)]
struct FixedCount {
    window: u64,
    count: u64,
}

impl Fixed {
    /// At most `limit` units in each `window`, from a microsecond to 366 days; limit 0 admits
    /// nothing.
    ///
    /// The largest limit is what the bits beside the window's number hold; reports into debt
    /// saturate there too.
    pub fn new(limit: u64, window: Duration, start: WindowStart) -> Result<Self, AlgorithmError> {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            return Err(AlgorithmError::Window(window));
        }
        let window_ns = duration_nanos(window);
        // The largest power of two that is at most a thousandth of the window, which is at least a
        // microsecond.
        let step_bits = (window_ns / 1000).ilog2();
        let last_window = match start {
            WindowStart::Epoch => u64::MAX / window_ns,
            WindowStart::FirstHit => u64::MAX >> step_bits,
        };
        let count_bits = last_window.leading_zeros();
        let largest = (1 << count_bits) - 1;
        if limit > largest {
            return Err(AlgorithmError::LimitTooLarge { limit, largest });
        }
        let count_max = limit.saturating_mul(1 + REPORT_DEBT_LIMITS).min(largest);
        let windows = Ratio::new(1, window_ns);
        Ok(Self { limit, window_ns, start, windows, step_bits, count_bits, count_max })
    }

    /// Like [`Fixed::new`], but a limit above the largest counts as the largest.
    pub fn saturating(limit: u64, window: Duration, start: WindowStart) -> Result<Self, AlgorithmError> {
        saturating(limit, |limit| Self::new(limit, window, start))
    }

    /// The most units in a window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of a window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window_ns)
    }

    /// Where a window begins.
    pub const fn start(&self) -> WindowStart {
        self.start
    }

    #[inline]
    fn read(&self, state: State) -> FixedCount {
        let bits = state.to_bits();
        FixedCount { window: bits >> self.count_bits, count: bits & !(u64::MAX << self.count_bits) }
    }

    #[inline]
    fn write(&self, counted: FixedCount) -> State {
        State::from_bits(counted.window << self.count_bits | counted.count)
    }

    /// The window that begins at `now`, or the aligned one that holds it.
    #[inline]
    fn window_at(&self, now: Timestamp) -> u64 {
        let nanos = now.as_nanos();
        match self.start {
            WindowStart::Epoch => self.windows.of(nanos),
            WindowStart::FirstHit => {
                let step = (1 << self.step_bits) - 1;
                nanos.checked_add(step).unwrap_or(nanos) >> self.step_bits
            }
        }
    }

    /// The first nanosecond after `window`. Wider than an instant, as the last window ends after
    /// all of them.
    #[inline]
    fn end_ns(&self, window: u64) -> u128 {
        match self.start {
            WindowStart::Epoch => (u128::from(window) + 1) * u128::from(self.window_ns),
            WindowStart::FirstHit => (u128::from(window) << self.step_bits) + u128::from(self.window_ns),
        }
    }

    /// The first instant whose window is `window` or a later one.
    fn begin(&self, window: u64) -> Timestamp {
        let nanos = match self.start {
            WindowStart::Epoch => window.saturating_mul(self.window_ns),
            // Instants are rounded up to a step.
            WindowStart::FirstHit => window.checked_sub(1).map_or(0, |last| (last << self.step_bits) + 1),
        };
        Timestamp::from_nanos(nanos)
    }

    /// The first instant after `window`, saturating.
    fn end(&self, window: u64) -> Timestamp {
        Timestamp::from_nanos(u64::try_from(self.end_ns(window)).unwrap_or(u64::MAX))
    }

    /// The count in force at `now`: that of the window in `state` until its end, afterwards an
    /// empty one for a new window.
    #[inline]
    fn in_force(&self, state: State, now: Timestamp) -> FixedCount {
        let counted = self.read(state);
        let holds = match self.start {
            WindowStart::Epoch => self.windows.of(now.as_nanos()) <= counted.window,
            // A window from which everything was given back counts as never opened.
            WindowStart::FirstHit => {
                counted.count > 0 && u128::from(now.as_nanos()) < self.end_ns(counted.window)
            }
        };
        if holds { counted } else { FixedCount { window: self.window_at(now), count: 0 } }
    }
}

impl Counter for Fixed {
    #[inline]
    fn decide(&self, state: State, cost: Cost, now: Timestamp) -> (Verdict, State) {
        let counted = self.in_force(state, now);
        let count = counted.count.saturating_add(cost.units());
        if count <= self.limit {
            (Verdict::Admit, self.write(FixedCount { count, ..counted }))
        } else if cost.units() > self.limit {
            (Verdict::Never { largest: self.limit }, state)
        } else {
            (Verdict::Wait { until: self.end(counted.window) }, state)
        }
    }

    fn charge(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let counted = self.in_force(state, now);
        let count = counted.count.saturating_add(cost.units()).min(self.count_max).max(counted.count);
        self.write(FixedCount { count, ..counted })
    }

    fn refund(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let counted = self.read(state);
        if self.in_force(state, now).window != counted.window {
            return state;
        }
        self.write(FixedCount { count: counted.count.saturating_sub(cost.units()), ..counted })
    }

    fn undo(&self, state: State, charged: &Charged, now: Timestamp) -> State {
        if state == charged.after {
            return charged.before;
        }
        let (before, after, counted) =
            (self.read(charged.before), self.read(charged.after), self.read(state));
        if counted.window != after.window {
            return state;
        }
        // A report may have been booked only in part; a charge that opened the window is all it
        // held.
        let opened = before.window != after.window || before.count == 0;
        let booked =
            after.count.saturating_sub(if opened { 0 } else { before.count }).min(charged.cost.units());
        let count = counted.count.saturating_sub(booked);
        match self.start {
            // Without the charge, one of those on top would have opened the window, no later than
            // now. A window that is over holds nothing: moved to now, it would hold again what has
            // gone.
            WindowStart::FirstHit
                if opened && count > 0 && u128::from(now.as_nanos()) < self.end_ns(counted.window) =>
            {
                self.write(FixedCount { window: self.window_at(now).max(counted.window), count })
            }
            _ => self.write(FixedCount { count, ..counted }),
        }
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: State, now: Timestamp) -> u64 {
        self.in_force(state, now).count
    }

    fn reset_at(&self, state: State, now: Timestamp) -> Timestamp {
        let counted = self.in_force(state, now);
        if counted.count == 0 { now } else { self.end(counted.window) }
    }

    fn drained_at(&self, state: State, now: Timestamp) -> Timestamp {
        let counted = self.in_force(state, now);
        if counted.count > 0 { self.end(counted.window) } else { self.begin(counted.window).max(now) }
    }

    #[inline]
    fn is_drained(&self, state: State, now: Timestamp) -> bool {
        let counted = self.in_force(state, now);
        // An empty window that lies ahead still keeps the windows before it from being used.
        counted.count == 0 && counted.window <= self.window_at(now)
    }

    fn brought_back(&self, state: State, _charged_at: Timestamp, now: Timestamp) -> State {
        let counted = self.read(state);
        let next = match self.start {
            WindowStart::Epoch => self.window_at(now).saturating_add(1),
            WindowStart::FirstHit => self.window_at(now.saturating_add(self.window())),
        };
        if counted.window <= next {
            return state;
        }
        if counted.count == 0 {
            return State::EMPTY;
        }
        self.write(FixedCount { window: self.window_at(now), ..counted })
    }

    fn carry_over(&self, state: State, from: &Self, _now: Timestamp) -> State {
        // The bits depend on the window only, so another limit reads the same state.
        if (self.window_ns, self.start) == (from.window_ns, from.start) { state } else { State::EMPTY }
    }
}
