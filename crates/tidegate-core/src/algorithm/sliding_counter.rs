//! Sliding counter: approximates a sliding window by two counts.
//!
//! **Promise.** The units of the window aligned to the epoch that `now` lies in, plus those of the
//! window before it weighted by the part of it that a sliding window would still cover, rounded up,
//! are never more than `limit`.
//!
//! **Error.** The weight assumes that the units of the previous window arrived evenly. Let `p` be
//! those units and let `now` be a part `e` into its window. An admitted request leaves at most
//! `limit - p * (1 - e)` in the current window, so any span of the window's length holds at most
//! `limit + p * e`: with `p <= limit` and `e < 1`, at most `2 * limit - 1` units. That is reached,
//! by a client that spends everything in the last instant of a window and then spends the weight as
//! it fades until the last instant of the next. In the other direction, up to `limit` units are
//! refused that an exact window would admit, when the window before was spent at its very
//! beginning. Both vanish for even traffic; `docs/algorithms.md` has measurements.
//!
//! **State.** The number of the aligned window, then the count of the window before, then the
//! current one; the two counts share evenly what bits the number leaves: 4 each for a microsecond,
//! 14 for a second, 17 for a minute, 23 for a day.
//!
//! **Time.** With `now` before the stored window, that window is taken to have just begun, which is
//! when it counts most: a step back never admits more than no step. Further than one window ahead,
//! it is [brought back](Counter::brought_back).
//!
//! Reference: Cloudflare, "How we built rate limiting capable of scaling to millions of
//! domains", 2017.

use core::time::Duration;

use super::counter::{Charged, Counter, REPORT_DEBT_LIMITS, State, Verdict};
use super::error::{AlgorithmError, WINDOW_MAX, WINDOW_MIN};
use super::ratio::Ratio;
use crate::cost::Cost;
use crate::time::{Timestamp, duration_nanos};

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod tests;

/// About `limit` units in any `window`, in one word.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::algorithm::{Counter, SlidingCounter, State};
/// # use tidegate_core::{Cost, Timestamp};
/// let counter = SlidingCounter::new(100, Duration::from_mins(1))?;
/// let minute = Timestamp::from_secs(1_800_000_000); // a whole minute
/// let state = counter.charge(State::EMPTY, Cost::new(100).unwrap(), minute);
/// // A quarter into the next minute, three quarters of the units still count.
/// let later = minute.saturating_add(Duration::from_secs(75));
/// assert_eq!(counter.remaining(state, later), 25);
/// # Ok::<(), tidegate_core::AlgorithmError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingCounter {
    limit: u64,
    window_ns: u64,
    windows: Ratio,
    count_bits: u32,
    /// The most that is counted: what reports may add, or what the bits hold.
    count_max: u64,
}

/// The two counts, as of one aligned window.
#[derive(Clone, Copy)]
struct SlidingCount {
    window: u64,
    /// In the window before.
    previous: u64,
    current: u64,
}

impl SlidingCounter {
    /// About `limit` units in any `window`, from a microsecond to 366 days; limit 0 admits nothing.
    ///
    /// The largest limit is what half of the bits beside the window's number hold; reports into
    /// debt saturate there too.
    pub fn new(limit: u64, window: Duration) -> Result<Self, AlgorithmError> {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            return Err(AlgorithmError::Window(window));
        }
        let window_ns = duration_nanos(window);
        // The number alone does not distinguish a step back from a step forward, so all of it is
        // kept.
        let count_bits = (u64::MAX / window_ns).leading_zeros() / 2;
        let largest = (1 << count_bits) - 1;
        if limit > largest {
            return Err(AlgorithmError::LimitTooLarge { limit, largest });
        }
        let count_max = limit.saturating_mul(1 + REPORT_DEBT_LIMITS).min(largest);
        Ok(Self { limit, window_ns, windows: Ratio::new(1, window_ns), count_bits, count_max })
    }

    /// The most units in a window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of the window.
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window_ns)
    }

    #[inline]
    fn read(&self, state: State) -> SlidingCount {
        let bits = state.to_bits();
        let count = !(u64::MAX << self.count_bits);
        SlidingCount {
            window: bits >> (2 * self.count_bits),
            previous: (bits >> self.count_bits) & count,
            current: bits & count,
        }
    }

    #[inline]
    fn write(&self, counted: SlidingCount) -> State {
        let SlidingCount { window, previous, current } = counted;
        State::from_bits((window << self.count_bits | previous) << self.count_bits | current)
    }

    /// The counts for the window that `now` lies in, or for the stored one if that is later, and
    /// how much of that window is still to come, in nanoseconds: the weight of the window before.
    #[inline]
    fn in_force(&self, state: State, now: Timestamp) -> (SlidingCount, u64) {
        let counted = self.read(state);
        let window = self.windows.of(now.as_nanos());
        if window < counted.window {
            return (counted, self.window_ns);
        }
        let left = self.window_ns - (now.as_nanos() - window * self.window_ns);
        let counted = match window - counted.window {
            0 => counted,
            1 => SlidingCount { window, previous: counted.current, current: 0 },
            _ => SlidingCount { window, previous: 0, current: 0 },
        };
        (counted, left)
    }

    /// `count` weighted by `left` of the window, rounded up.
    fn weighted(&self, count: u64, left: u64) -> u64 {
        // At most `count`.
        (u128::from(count) * u128::from(left)).div_ceil(u128::from(self.window_ns)) as u64
    }

    /// The instant in `window` from which the weight of `previous`, rounded up, is at most `room`:
    /// its end if `room` is 0.
    fn weighs_at_most(&self, window: u64, previous: u64, room: u64) -> Timestamp {
        let left = (u128::from(room) * u128::from(self.window_ns))
            .checked_div(u128::from(previous))
            .map_or(self.window_ns, |left| u64::try_from(left).unwrap_or(u64::MAX).min(self.window_ns));
        let start = window.saturating_mul(self.window_ns);
        Timestamp::from_nanos(start.saturating_add(self.window_ns - left))
    }

    /// The first instant at which `cost`, which is at most the limit, is admitted.
    fn until(&self, counted: SlidingCount, cost: u64) -> Timestamp {
        let room = self.limit - cost;
        if counted.current <= room {
            self.weighs_at_most(counted.window, counted.previous, room - counted.current)
        } else {
            // Not while these units count in full; afterwards they are what fades.
            self.weighs_at_most(counted.window.saturating_add(1), counted.current, room)
        }
    }
}

impl Counter for SlidingCounter {
    #[inline]
    fn decide(&self, state: State, cost: Cost, now: Timestamp) -> (Verdict, State) {
        let (counted, left) = self.in_force(state, now);
        let current = counted.current.saturating_add(cost.units());
        // Compared as products, since only the answer is needed: previous * left / window <=
        // limit - current.
        let fits = current <= self.limit
            && u128::from(counted.previous) * u128::from(left)
                <= u128::from(self.limit - current) * u128::from(self.window_ns);
        if fits {
            (Verdict::Admit, self.write(SlidingCount { current, ..counted }))
        } else if cost.units() > self.limit {
            (Verdict::Never { largest: self.limit }, state)
        } else {
            (Verdict::Wait { until: self.until(counted, cost.units()) }, state)
        }
    }

    fn charge(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let (counted, _) = self.in_force(state, now);
        let current = counted.current.saturating_add(cost.units()).min(self.count_max).max(counted.current);
        self.write(SlidingCount { current, ..counted })
    }

    /// From the current window first, as most refunds follow soon, then from the one before.
    fn refund(&self, state: State, cost: Cost, now: Timestamp) -> State {
        let (counted, _) = self.in_force(state, now);
        if counted.current == 0 && counted.previous == 0 {
            return state;
        }
        let from_current = counted.current.min(cost.units());
        let from_previous = counted.previous.min(cost.units() - from_current);
        self.write(SlidingCount {
            previous: counted.previous - from_previous,
            current: counted.current - from_current,
            ..counted
        })
    }

    fn undo(&self, state: State, charged: &Charged, _now: Timestamp) -> State {
        if state == charged.after {
            return charged.before;
        }
        let (before, after, counted) =
            (self.read(charged.before), self.read(charged.after), self.read(state));
        // A report may have been booked only in part.
        let earlier = if before.window == after.window { before.current } else { 0 };
        let booked = after.current.saturating_sub(earlier).min(charged.cost.units());
        // A count knows nothing of instants within its window, so what remains is what would have
        // been without it.
        let (previous, current) =
            (counted.previous.saturating_sub(booked), counted.current.saturating_sub(booked));
        match counted.window.checked_sub(after.window) {
            Some(0) => self.write(SlidingCount { current, ..counted }),
            Some(1) => self.write(SlidingCount { previous, ..counted }),
            _ => state,
        }
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn used(&self, state: State, now: Timestamp) -> u64 {
        let (counted, left) = self.in_force(state, now);
        counted.current + self.weighted(counted.previous, left)
    }

    fn reset_at(&self, state: State, now: Timestamp) -> Timestamp {
        let (counted, _) = self.in_force(state, now);
        if counted.current > 0 {
            self.weighs_at_most(counted.window.saturating_add(1), counted.current, 0)
        } else if counted.previous > 0 {
            self.weighs_at_most(counted.window, counted.previous, 0)
        } else {
            now
        }
    }

    fn drained_at(&self, state: State, now: Timestamp) -> Timestamp {
        let (counted, _) = self.in_force(state, now);
        if counted.current > 0 || counted.previous > 0 {
            return self.reset_at(state, now);
        }
        Timestamp::from_nanos(counted.window.saturating_mul(self.window_ns)).max(now)
    }

    #[inline]
    fn is_drained(&self, state: State, now: Timestamp) -> bool {
        let (counted, _) = self.in_force(state, now);
        // An empty window that lies ahead still counts what comes before it as if it came in it.
        counted.current == 0 && counted.previous == 0 && counted.window <= self.windows.of(now.as_nanos())
    }

    fn brought_back(&self, state: State, _charged_at: Timestamp, now: Timestamp) -> State {
        let counted = self.read(state);
        let window = self.windows.of(now.as_nanos());
        if counted.window <= window.saturating_add(1) {
            return state;
        }
        if counted.current == 0 && counted.previous == 0 {
            return State::EMPTY;
        }
        self.write(SlidingCount { window, ..counted })
    }

    /// With another window, what is used at `now` counts as used in the new window that `now` lies
    /// in.
    fn carry_over(&self, state: State, from: &Self, now: Timestamp) -> State {
        // The bits depend on the window only, so another limit reads the same state.
        if self.window_ns == from.window_ns {
            return state;
        }
        match from.used(state, now) {
            0 => State::EMPTY,
            used => {
                let largest = !(u64::MAX << self.count_bits);
                let window = self.windows.of(now.as_nanos());
                self.write(SlidingCount { window, previous: 0, current: used.min(largest) })
            }
        }
    }
}
