//! The algorithms a limit may use, and what they have in common.
//!
//! An algorithm is an immutable value made of checked numbers. Those whose state fits one 64-bit
//! word ([`Bucket`], [`Fixed`], [`Calendar`], [`SlidingCounter`]) implement [`Counter`]: pure
//! functions from a state and an instant to an answer and the next state. [`Rolling`] and
//! [`Concurrency`] keep more than a word for each key, in [`crate::ring`] and [`crate::permits`];
//! here they are only their numbers.

mod bucket;
mod calendar;
mod fixed;
mod ratio;
mod rolling_window;
mod sliding_counter;

#[cfg(test)]
mod oracle;

use core::time::Duration;

pub use bucket::Bucket;
pub(crate) use bucket::Clock as BucketClock;
pub use calendar::{Calendar, CivilUnit, Weekday};
pub use fixed::{Fixed, WindowStart};
pub use rolling_window::{Concurrency, Rolling};
pub use sliding_counter::SlidingCounter;

use crate::cost::Cost;
use crate::rate::Rate;
use crate::time::{Timestamp, duration_nanos};

/// The usage of one key under one [`Counter`]: 64 bits whose meaning depends on the algorithm.
///
/// [`State::EMPTY`] (all zero) is the state of a key that was never seen, for every algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State(u64);

impl State {
    /// Nothing is used.
    pub const EMPTY: Self = Self(0);

    /// The state with these bits, as [`State::to_bits`] gave them.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits, for storing.
    pub const fn to_bits(self) -> u64 {
        self.0
    }
}

/// An algorithm's own answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is room.
    Admit,
    /// Not now. At `until`, the first such instant, the same cost is admitted if nothing else is
    /// charged before.
    Wait {
        /// The first instant at which it would be admitted.
        until: Timestamp,
    },
    /// Not ever: the cost is larger than the limit can hold.
    Never {
        /// The largest cost the limit ever admits; 0 if it admits nothing at all.
        largest: u64,
    },
}

/// A charge that was made, as the gate remembers it to be able to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The state it was made on.
    pub before: State,
    /// The state it left.
    pub after: State,
    /// The cost that was charged.
    pub cost: Cost,
}

/// An algorithm whose whole state is one [`State`] word.
///
/// All methods are pure. `now` may be earlier than in a previous call: a step back never admits
/// more than no step.
pub trait Counter {
    /// Whether `cost` is admitted at `now`, and the state afterwards. Refused means unchanged: on
    /// anything but [`Verdict::Admit`] the state returned is the state given.
    fn decide(&self, state: State, cost: Cost, now: Timestamp) -> (Verdict, State);

    /// Charges `cost` whether or not there is room, as for work that is already done. The debt this
    /// leaves is bounded by [`REPORT_DEBT_LIMITS`] times [`Counter::limit`]; what is above is not
    /// booked.
    fn charge(&self, state: State, cost: Cost, now: Timestamp) -> State;

    /// Gives back `cost` units; never more than are used.
    fn refund(&self, state: State, cost: Cost, now: Timestamp) -> State;

    /// Takes back one charge after others may have been made on top of it.
    ///
    /// If `state` is `charged.after`, the result is `charged.before`, bit for bit. Otherwise the
    /// result never admits more than if the charge had not been made, and admits less only where
    /// the charges on top were made at other instants than the one taken back, by at most what the
    /// limit refills between those instants.
    ///
    /// `now` must be no earlier than the charges on top, and nothing else given back in between.
    /// Where that does not hold, a bucket may give back in addition what refilled in between, never
    /// more than the cost.
    fn undo(&self, state: State, charged: &Charged, now: Timestamp) -> State;

    /// The largest number of units that can be admitted at once (burst, or units of a window).
    fn limit(&self) -> u64;

    /// Units used at `now`, rounded up; above [`Counter::limit`] when in debt.
    fn used(&self, state: State, now: Timestamp) -> u64;

    /// Units left at `now`, rounded down; 0 when in debt.
    fn remaining(&self, state: State, now: Timestamp) -> u64 {
        self.limit().saturating_sub(self.used(state, now))
    }

    /// The first instant at which nothing is used any more, if nothing else is charged; `now` if
    /// nothing is.
    fn reset_at(&self, state: State, now: Timestamp) -> Timestamp;

    /// Whether at `now` the state has the same future as [`State::EMPTY`].
    fn is_drained(&self, state: State, now: Timestamp) -> bool;

    /// The state under `self` of a key that had `state` under `from`, the same algorithm with other
    /// numbers: what is used stays used (rounded up), so that a raised limit admits the difference
    /// at once and a lowered one refuses at once. Windows of another length, alignment or civil
    /// unit start fresh.
    fn carry_over(&self, state: State, from: &Self, now: Timestamp) -> State;

    /// The state of a key that is taken up again at `now`, from storage or after its owner saw the
    /// clock step back.
    ///
    /// A state that lies further ahead than any use explains is brought back to the furthest that
    /// use does, so that a clock that was wrong for a while keeps no key out for longer than that.
    /// This never admits more than if the clock had not stepped. Windows are kept as they are,
    /// since a window index never decreases.
    #[must_use]
    fn on_load(&self, state: State, now: Timestamp) -> State {
        let _ = now;
        state
    }
}

/// How many times its own size a limit may be in debt after reports.
pub const REPORT_DEBT_LIMITS: u64 = 100;

/// The longest window or full drain of any limit: 366 days.
pub const WINDOW_MAX: Duration = Duration::from_hours(366 * 24);

/// The shortest window of any limit: a microsecond.
pub const WINDOW_MIN: Duration = Duration::from_micros(1);

/// An algorithm with its numbers.
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
            Self::Calendar(calendar) => Some(calendar.unit().nominal()),
            Self::Concurrency(_) => None,
        }
    }

    /// The IANA name of the time zone whose civil windows it counts in; `None` for all but calendar
    /// limits.
    pub fn civil_zone(&self) -> Option<&str> {
        match self {
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
            _ => self.with_limit(part),
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
            _ => self.with_limit(part),
        };
        // A rate so slow that it cannot be counted is divided as far as it can be.
        part.unwrap_or_else(|| self.divided(members))
    }

    /// The same window or hold with another limit; `None` for a bucket, and for a limit that there
    /// cannot be.
    fn with_limit(&self, limit: impl Fn(u64) -> u64) -> Option<Self> {
        match self {
            Self::Bucket(_) => None,
            Self::Rolling(rolling) => {
                Rolling::new(limit(rolling.limit()), rolling.window()).ok().map(Self::Rolling)
            }
            Self::SlidingCounter(counter) => {
                SlidingCounter::new(limit(counter.limit()), counter.window()).ok().map(Self::SlidingCounter)
            }
            Self::Fixed(fixed) => {
                Fixed::new(limit(fixed.limit()), fixed.window(), fixed.start()).ok().map(Self::Fixed)
            }
            Self::Calendar(calendar) => {
                Calendar::new(limit(calendar.limit()), calendar.unit(), calendar.zone())
                    .ok()
                    .map(|one| Self::Calendar(one.with_week_start(calendar.week_start())))
            }
            Self::Concurrency(concurrency) => {
                Concurrency::new(limit(concurrency.limit()), concurrency.hold()).ok().map(Self::Concurrency)
            }
        }
    }

    /// The algorithm that keeps states of this one when nobody uses its numbers any more: see
    /// `at_rest` of each. A window keeps its length, or for a sliding counter one that is at most
    /// 1/128 longer, and has the largest limit that its states can count.
    pub(crate) fn at_rest(&self) -> Self {
        match self {
            Self::Bucket(bucket) => Self::Bucket(bucket.at_rest()),
            Self::Rolling(rolling) => Self::Rolling(rolling.at_rest()),
            Self::Concurrency(_) => Self::Concurrency(Concurrency::AT_REST),
            Self::SlidingCounter(counter) => {
                let window =
                    Duration::from_nanos(rounded_up(duration_nanos(counter.window()))).min(WINDOW_MAX);
                let at_rest = largest(|limit| SlidingCounter::new(limit, window));
                at_rest.map_or_else(|| self.clone(), Self::SlidingCounter)
            }
            Self::Fixed(fixed) => {
                let at_rest = largest(|limit| Fixed::new(limit, fixed.window(), fixed.start()));
                at_rest.map_or_else(|| self.clone(), Self::Fixed)
            }
            Self::Calendar(calendar) => {
                let at_rest = largest(|limit| Calendar::new(limit, calendar.unit(), calendar.zone()));
                let week_start = calendar.week_start();
                at_rest.map_or_else(|| self.clone(), |one| Self::Calendar(one.with_week_start(week_start)))
            }
        }
    }

    /// When all of it is there again at the latest, if nothing else is charged after `now`: the end
    /// of a window, a full drain for everything else. `now` for concurrency.
    pub fn full_again(&self, now: Timestamp) -> Timestamp {
        match self {
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
            Self::Calendar(_) => "calendar",
            Self::Concurrency(_) => "concurrency",
        }
    }

    /// Whether its whole state is one word: it is a [`Counter`].
    pub(crate) const fn is_counter(&self) -> bool {
        !matches!(self, Self::Rolling(_) | Self::Concurrency(_))
    }

    /// Whether it counts over an hour or longer: a *quota* rather than a *rate*.
    pub fn is_quota(&self) -> bool {
        let counts_over = match self {
            Self::Bucket(bucket) => Some(bucket.rate().per()),
            _ => self.window(),
        };
        counts_over.is_some_and(|span| span >= Duration::from_hours(1))
    }
}

/// An algorithm with the largest limit there is for it.
fn largest<A>(new: impl Fn(u64) -> Result<A, AlgorithmError>) -> Option<A> {
    match new(u64::MAX) {
        Err(AlgorithmError::LimitTooLarge { largest, .. }) => new(largest).ok(),
        other => other.ok(),
    }
}

/// A number with its eight highest bits kept and what is below them rounded up: at most 1/128
/// larger.
const fn rounded_up(number: u64) -> u64 {
    let shift = (u64::BITS - number.leading_zeros()).saturating_sub(8);
    number.div_ceil(1 << shift) << shift
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

/// Why numbers make no algorithm. The text names the value and the fix, without the name of the
/// limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// A burst of zero.
    #[error("burst 0 admits nothing; use at least 1, or remove `burst` to allow one span of `rate`")]
    BurstZero,
    /// The window is longer than [`WINDOW_MAX`] or shorter than [`WINDOW_MIN`].
    #[error("window {} is not between 1us and 366d; use a span in that range, or `calendar` for years", crate::rate::format_span(*.0))]
    Window(Duration),
    /// A bucket takes longer than [`WINDOW_MAX`] to drain.
    #[error("burst {burst} takes more than 366d to refill at {rate}; lower `burst` or raise `rate`")]
    DrainTooLong {
        /// The burst, with the debt it may add.
        burst: u64,
        /// The rate it refills at.
        rate: Rate,
    },
    /// The limit does not fit beside the window index.
    #[error("limit {limit} is above {largest}, the largest this window can count; count in larger units")]
    LimitTooLarge {
        /// The limit asked for.
        limit: u64,
        /// The largest that fits.
        largest: u64,
    },
    /// The time zone is not in the IANA database.
    #[error("time zone \"{0}\" does not exist; use an IANA name such as Europe/Berlin or UTC")]
    Zone(String),
    /// The unit of a calendar is unknown.
    #[error("invalid calendar unit \"{0}\"; use minute, hour, day, week, month or year")]
    CivilUnit(String),
    /// The first day of a week is unknown.
    #[error("\"{0}\" is not a day of the week; use monday to sunday")]
    Weekday(String),
    /// The hold of a permit is zero or longer than [`WINDOW_MAX`].
    #[error("hold {} is not between 1us and 366d; use the longest time a request may take", crate::rate::format_span(*.0))]
    Hold(Duration),
}
