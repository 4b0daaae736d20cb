//! The algorithms a limit may use, and what they have in common.
//!
//! An algorithm is an immutable value made of checked numbers. Those whose state fits one 64-bit
//! word ([`Bucket`], [`Fixed`], [`Calendar`], [`SlidingCounter`]) implement [`Counter`]: pure
//! functions from a state and an instant to an answer and the next state. [`Rolling`] and
//! [`Concurrency`] keep more than a word for each key, in [`crate::ring`] and [`crate::permits`];
//! here they are only their numbers.

mod bucket;
#[cfg(feature = "calendar")]
mod calendar;
mod counter;
mod error;
mod fixed;
mod ratio;
mod rolling_window;
mod sliding_counter;

#[cfg(test)]
#[cfg(not(tidegate_loom))]
mod oracle;

use core::time::Duration;

pub use bucket::Bucket;
pub(crate) use bucket::Clock as BucketClock;
#[cfg(feature = "calendar")]
pub use calendar::{Calendar, CivilUnit, Weekday};
pub(crate) use counter::Room;
pub use counter::{Charged, Counter, REPORT_DEBT_LIMITS, State, Verdict};
use error::saturating;
pub use error::{AlgorithmError, WINDOW_MAX, WINDOW_MIN};
pub use fixed::{Fixed, WindowStart};
pub use rolling_window::{Concurrency, Rolling};
pub use sliding_counter::SlidingCounter;

use crate::rate::Rate;
use crate::time::Timestamp;

/// An algorithm with its numbers.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate_core::{Algorithm, Rate};
/// let whole = Algorithm::bucket(Rate::per_minute(6_000)?)?;
/// assert_eq!((whole.limit(), whole.window()), (6_000, Some(Duration::from_mins(1))));
/// // Each of three members decides by an equal part.
/// assert_eq!(whole.divided(3).limit(), 2_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// Token bucket (GCRA): a rate and a burst.
    Bucket(Bucket),
    /// Exact sliding window: never more than N in *any* window.
    Rolling(Rolling),
    /// Sliding counter: approximates the sliding window in one word.
    SlidingCounter(SlidingCounter),
    /// Windows of one length, aligned to the epoch or to the first hit.
    Fixed(Fixed),
    /// Civil minutes, hours, days, weeks, months or years in a time zone.
    #[cfg(feature = "calendar")]
    Calendar(Calendar),
    /// Permits that are held and given back.
    Concurrency(Concurrency),
}

impl Algorithm {
    /// A bucket that refills at `rate` and holds as much as the rate gives in its own span.
    pub fn bucket(rate: Rate) -> Result<Self, AlgorithmError> {
        Bucket::new(rate, rate.units()).map(Self::Bucket)
    }

    /// The largest number of units it admits at once.
    pub fn limit(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.limit(),
            Self::Rolling(rolling) => rolling.limit(),
            Self::SlidingCounter(counter) => counter.limit(),
            Self::Fixed(fixed) => fixed.limit(),
            #[cfg(feature = "calendar")]
            Self::Calendar(calendar) => calendar.limit(),
            Self::Concurrency(concurrency) => concurrency.limit(),
        }
    }

    /// The span it counts over: the window, or for a bucket the time in which it refills from empty
    /// to full. `None` for concurrency.
    pub fn window(&self) -> Option<Duration> {
        match self {
            Self::Bucket(bucket) => Some(bucket.full_drain()),
            Self::Rolling(rolling) => Some(rolling.window()),
            Self::SlidingCounter(counter) => Some(counter.window()),
            Self::Fixed(fixed) => Some(fixed.window()),
            #[cfg(feature = "calendar")]
            Self::Calendar(calendar) => Some(calendar.unit().nominal()),
            Self::Concurrency(_) => None,
        }
    }

    /// Units left at `now` in a state that is one word; [`Algorithm::limit`] for an algorithm that
    /// keeps more.
    pub(crate) fn remaining(&self, state: State, now: Timestamp) -> u64 {
        match self {
            Self::Bucket(counter) => counter.remaining(state, now),
            Self::SlidingCounter(counter) => counter.remaining(state, now),
            Self::Fixed(counter) => counter.remaining(state, now),
            #[cfg(feature = "calendar")]
            Self::Calendar(counter) => counter.remaining(state, now),
            Self::Rolling(_) | Self::Concurrency(_) => self.limit(),
        }
    }

    /// The IANA name of the time zone whose civil windows it counts in; `None` for all but calendar
    /// limits.
    pub fn civil_zone(&self) -> Option<&str> {
        match self {
            #[cfg(feature = "calendar")]
            Self::Calendar(calendar) => Some(calendar.zone()),
            _ => None,
        }
    }

    /// One of `members` equal parts of it: the rate exactly, as long as it is at least one unit in
    /// a year, everything else rounded down, and never less than one unit. 0 members count as 1.
    #[must_use]
    pub fn divided(&self, members: u32) -> Self {
        let members = members.max(1);
        let part = |whole: u64| if whole == 0 { 0 } else { (whole / u64::from(members)).max(1) };
        let divided = match self {
            _ if members == 1 => None,
            Self::Bucket(bucket) => {
                let whole = bucket.rate();
                let rate =
                    slower(whole, members).or_else(|| Rate::new(part(whole.units()), whole.per()).ok());
                let divided = rate.and_then(|rate| Bucket::new(rate, part(bucket.burst())).ok());
                divided.and_then(|one| one.with_debt(bucket.debt()).ok()).map(Self::Bucket)
            }
            _ => self.with_limit(part).ok(),
        };
        divided.unwrap_or_else(|| self.clone())
    }

    /// The part by which one of several members decides alone: the rate divided by `holders`, the
    /// burst or the limit of a window by `members`, but at least 10 units or the whole limit if
    /// that is less. 0 counts as 1.
    ///
    /// Above 64 both numbers are rounded up to four significant bits, so that members that come and
    /// go make few different parts.
    #[must_use]
    pub fn alone(&self, holders: u32, members: u32) -> Self {
        let (holders, members) = (rounded(holders), rounded(members));
        if (holders, members) == (1, 1) {
            return self.clone();
        }
        let part = |whole: u64| (whole / u64::from(members)).max(whole.min(ALONE_MIN));
        let part = match self {
            Self::Bucket(bucket) => slower(bucket.rate(), holders)
                .and_then(|rate| Bucket::new(rate, part(bucket.burst())).ok())
                .map(Self::Bucket),
            _ => self.with_limit(part).ok(),
        };
        // A rate so slow that it cannot be counted is divided as far as it can be.
        part.unwrap_or_else(|| self.divided(members))
    }

    /// The same window or hold with another limit; a bucket stays as it is. An error for a limit
    /// that there cannot be.
    fn with_limit(&self, limit: impl FnOnce(u64) -> u64) -> Result<Self, AlgorithmError> {
        match self {
            Self::Bucket(_) => Ok(self.clone()),
            Self::Rolling(one) => Rolling::new(limit(one.limit()), one.window()).map(Self::Rolling),
            Self::SlidingCounter(one) => {
                SlidingCounter::new(limit(one.limit()), one.window()).map(Self::SlidingCounter)
            }
            Self::Fixed(one) => Fixed::new(limit(one.limit()), one.window(), one.start()).map(Self::Fixed),
            #[cfg(feature = "calendar")]
            Self::Calendar(one) => Calendar::new(limit(one.limit()), one.unit(), one.zone())
                .map(|other| Self::Calendar(other.with_week_start(one.week_start()))),
            Self::Concurrency(one) => Concurrency::new(limit(one.limit()), one.hold()).map(Self::Concurrency),
        }
    }

    /// The algorithm that keeps states of this one after its spec is retired: see
    /// `at_rest` of each. A fixed window, a calendar window and a sliding counter keep the length
    /// of the window, since the length says where windows begin, and have the largest limit that
    /// their states can count.
    pub(crate) fn at_rest(&self) -> Self {
        match self {
            Self::Bucket(bucket) => Self::Bucket(bucket.at_rest()),
            Self::Rolling(rolling) => Self::Rolling(rolling.at_rest()),
            Self::Concurrency(_) => Self::Concurrency(Concurrency::AT_REST),
            _ => {
                let largest = saturating(u64::MAX, |limit| self.with_limit(|_| limit));
                largest.unwrap_or_else(|_| self.clone())
            }
        }
    }

    /// The largest cost that it ever admits at once: its limit, and of a bucket its burst with its
    /// debt.
    pub fn largest_cost(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.burst().saturating_add(bucket.debt()),
            other => other.limit(),
        }
    }

    /// When all of it is there again at the latest, if nothing else is charged after `now`: the end
    /// of a window, a full drain for everything else. `now` for concurrency.
    pub fn full_again(&self, now: Timestamp) -> Timestamp {
        match self {
            #[cfg(feature = "calendar")]
            Self::Calendar(calendar) => calendar.window_bounds(now).1,
            Self::Fixed(fixed) if fixed.start() == WindowStart::Epoch => {
                let window = u64::try_from(fixed.window().as_nanos()).unwrap_or(u64::MAX).max(1);
                Timestamp::from_nanos(now.as_nanos().saturating_add(window - now.as_nanos() % window))
            }
            other => other.window().map_or(now, |window| now.saturating_add(window)),
        }
    }

    /// When `cost` units fit, given that nothing is used any more at `reset_at` and nothing is
    /// charged before. Of windows nothing is known but their end.
    pub fn room_at(&self, cost: u64, reset_at: Timestamp) -> Timestamp {
        match self {
            Self::Bucket(bucket) => bucket.room_at(cost, reset_at),
            _ => reset_at,
        }
    }

    /// The name in policies: `rate`, `rolling`, `fixed`, `calendar`, `concurrency`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Bucket(_) => "rate",
            Self::Rolling(_) | Self::SlidingCounter(_) => "rolling",
            Self::Fixed(_) => "fixed",
            #[cfg(feature = "calendar")]
            Self::Calendar(_) => "calendar",
            Self::Concurrency(_) => "concurrency",
        }
    }

    /// Whether its whole state is one word: it is a [`Counter`].
    pub(crate) const fn is_counter(&self) -> bool {
        !matches!(self, Self::Rolling(_) | Self::Concurrency(_))
    }

    /// The span it counts over as it is written: its window, of a rate the span of the rate. `None`
    /// for concurrency.
    pub fn counts_over(&self) -> Option<Duration> {
        match self {
            Self::Bucket(bucket) => Some(bucket.rate().per()),
            _ => self.window(),
        }
    }

    /// Whether it counts over an hour or longer: a *quota* rather than a *rate*.
    pub fn is_quota(&self) -> bool {
        self.counts_over().is_some_and(|span| span >= Duration::from_hours(1))
    }
}

/// The least that a member admits at once while it decides alone, if the limit is not less.
const ALONE_MIN: u64 = 10;

/// One of `parts` equal parts of a rate, exactly; `None` if that is less than a unit in a year.
fn slower(rate: Rate, parts: u32) -> Option<Rate> {
    rate.per().checked_mul(parts).and_then(|per| Rate::new(rate.units(), per).ok())
}

/// A number of members as [`Algorithm::alone`] counts it.
fn rounded(members: u32) -> u32 {
    let shift = (u32::BITS - members.leading_zeros()).saturating_sub(4);
    if members <= 64 { members.max(1) } else { members.div_ceil(1 << shift).saturating_mul(1 << shift) }
}
